/**
 * Hears which members of a class are called. In: a prototype or a class. Out: a call of `heard` after each outermost call of
 * a method, or use of a getter, with what it gave.
 *
 * @module
 */

/** Hears of one call: whose it was, with what, and what it gave. */
export type Heard = (name: string, self: unknown, args: readonly unknown[], result: unknown) => unknown;

let depth = 0;
/** Prototypes that are heard already: classes share those that they extend. */
const done = new Set<object>();

/** Replaces each method and getter of an object and of what it extends by one that tells `heard` of outermost calls. */
export function listen(of: object, prefix: string, heard: Heard, getters: boolean = true): void {
  for (let p = of; p !== null && p !== Object.prototype && p !== Function.prototype; p = Object.getPrototypeOf(p)) {
    if (done.has(p)) continue;
    done.add(p);
    for (const [name, own] of Object.entries(Object.getOwnPropertyDescriptors(p))) {
      if (name === "constructor" || name === "prototype" || !own.configurable) continue;
      const wrap = (method: (...args: unknown[]) => unknown) =>
        function (this: unknown, ...args: unknown[]): unknown {
          let result: unknown;
          depth++;
          try {
            result = Reflect.apply(method, this, args);
          } finally {
            depth--;
          }
          if (depth === 0) {
            depth++; // what hears may use members too
            try {
              heard(`${prefix}${name}`, this, args, result);
            } finally {
              depth--;
            }
          }
          return result;
        };
      if (typeof own.value === "function") Object.defineProperty(p, name, { ...own, value: wrap(own.value) });
      else if (getters && own.get !== undefined) {
        Object.defineProperty(p, name, { ...own, get: wrap(own.get) as () => unknown });
      }
    }
  }
}
