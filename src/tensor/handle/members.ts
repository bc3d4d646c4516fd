/**
 * Many methods for one class, in the time that they should take.
 *
 * @module
 */

/**
 * Makes an object ready for many more properties. V8 copies the layout of an object with each property that is added to it,
 * so that hundreds take their number squared (30 ms for the 900 methods of a tensor), but not that of an object with a table
 * of its own, as one has of which a property was deleted that was not the last. The first use makes it a layout again.
 */
export function expectMany(target: object): void {
  const names = ["first", "second"].map((name) => `(${name})`);
  for (const name of names) Object.defineProperty(target, name, { value: undefined, configurable: true });
  for (const name of names) Reflect.deleteProperty(target, name);
}

/** What a member becomes where it is added. */
export type Form = (name: string | symbol, member: PropertyDescriptor) => PropertyDescriptor;

/** Gives `target` all own properties of `from` but its constructor, in a form. */
export function addMembers(target: object, from: object, form: Form = (_, member) => member): void {
  for (const key of Reflect.ownKeys(from)) {
    if (key !== "constructor") {
      Object.defineProperty(target, key, form(key, Object.getOwnPropertyDescriptor(from, key)!));
    }
  }
}
