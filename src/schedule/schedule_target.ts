/**
 * The machine that graphs are made and scheduled for, where that is another one than the device that they are on. A file of
 * its own: tensors ask for it before anything is scheduled.
 *
 * @module
 */
import type { Capabilities } from "../renderer/renderer.ts";

/**
 * For what machine graphs are scheduled, in place of the devices that they are on: an export's target. `name` tells one
 * from another in the cache.
 */
export const scheduleTarget: { now: { readonly name: string; readonly caps: Capabilities } | undefined } = {
  now: undefined,
};
