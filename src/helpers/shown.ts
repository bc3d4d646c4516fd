/**
 * How consoles print instances of a class: in a line, where its fields are large.
 *
 * @module
 */

/** Makes Deno and Node.js print instances of a class as `text` says; for its static block. */
export function showAs<T>({ prototype }: { readonly prototype: T }, text: (x: T) => string): void {
  for (const key of ["Deno.customInspect", "nodejs.util.inspect.custom"]) {
    const value = function (this: T): string {
      return text(this);
    };
    Object.defineProperty(prototype, Symbol.for(key), { value, configurable: true, writable: true });
  }
}
