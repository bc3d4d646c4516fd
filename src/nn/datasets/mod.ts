/**
 * Data sets that ship inside modules: no file, no network, no permission.
 *
 * @module
 */
export { type Digits, digits } from "./digits.ts";
