/**
 * One class of many: it gets the methods of its families, in the time that this should take. In: classes that have them, or
 * the names of what others will have that are loaded later. Out: members of the class.
 *
 * @module
 */
import { needParts, partsReady } from "../../device/parts.ts";
import type { TensorBase } from "./base.ts";

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

/** A class of methods. */
export interface Family {
  /** What has them. */
  readonly prototype: TensorBase;
}

/** What a member becomes where it is added. */
export type Form = (name: string | symbol, member: PropertyDescriptor) => PropertyDescriptor;

/** The form of methods, of those that are there and of those that are loaded later. */
let form: Form = (_, member) => member;

/** What an object has of its own that is no member: a prototype, and a class. */
const OF_PROTOTYPES: readonly PropertyKey[] = ["constructor"],
  OF_CLASSES: readonly PropertyKey[] = ["length", "name", "prototype"];

/** Gives `target` all own properties of `from` but `some`, in a form. */
function addMembers(target: object, from: object, some: readonly PropertyKey[], form: Form): void {
  for (const key of Reflect.ownKeys(from)) {
    if (some.includes(key)) continue;
    Object.defineProperty(target, key, form(key, Object.getOwnPropertyDescriptor(from, key)!));
  }
}

/** Gives a class what families have, and what their classes have. */
export function addFamilies(to: Family, families: readonly Family[]): void {
  expectMany(to.prototype);
  for (const family of families) {
    addMembers(to.prototype, family.prototype, OF_PROTOTYPES, form);
    addMembers(to, family, OF_CLASSES, (_, member) => member);
  }
}

/** Gives all methods of a class another form, and those that families add to it from now on. */
export function formMethods({ prototype }: Family, to: Form): void {
  form = to;
  addMembers(prototype, prototype, OF_PROTOTYPES, to);
}

/** What families that are loaded later will have, by name. */
export interface LateMembers {
  /** Methods that take the family at once, where that can be. */
  readonly methods: readonly PropertyKey[];
  /** Asynchronous methods, which wait for it. */
  readonly waiting: readonly PropertyKey[];
  /** Properties that are computed. */
  readonly accessors: readonly PropertyKey[];
  /** Functions of their classes. */
  readonly statics: readonly PropertyKey[];
}

/** Gives a class members of families that are loaded when one of them is needed first. */
export function addLateFamilies(to: Family, { methods, waiting, accessors, statics }: LateMembers): void {
  // the member of this class, also where a class that extends it has one of that name, which calls it
  const define = (target: object, key: PropertyKey, before: (action: string) => void | Promise<void>): void => {
    const value = function (this: unknown, ...args: unknown[]): unknown {
      const call = (): unknown => Reflect.apply(Reflect.get(target, key), this, args), ready = before(String(key));
      return ready === undefined ? call() : ready.then(call);
    };
    Object.defineProperty(target, key, { value, configurable: true, writable: true });
  };
  expectMany(to.prototype);
  for (const key of methods) define(to.prototype, key, needParts);
  for (const key of waiting) define(to.prototype, key, partsReady);
  for (const key of statics) define(to, key, needParts);
  for (const key of accessors) {
    const get = function (this: unknown): unknown {
      needParts(String(key));
      return Reflect.get(to.prototype, key, this);
    };
    Object.defineProperty(to.prototype, key, { get, configurable: true });
  }
}
