/**
 * Sizes that no memory holds. In: what a node makes, and of what; out: why it is refused, before lists of the host or
 * blocks of a device are asked for. A value of the model is never in the way: what has a size that could be is let by.
 *
 * @module
 */
import { bytesInAll } from "../../device/ledger.ts";
import type { DType } from "../../dtype/dtype.ts";
import { byteText } from "../../helpers/errors.ts";
import { elementType } from "../wire/element_types.ts";
import { type Item, Mapping, Optional, Sequence, Value } from "./value.ts";

/** What is held whole anywhere, at least: smaller results are not asked about. */
const ALWAYS = 2 ** 28;
/** What no memory holds, where a device does not say how much it has. */
const NEVER = 2 ** 40;
/** Positions of a list that is made on the host, at most. */
const MAX_LIST = 2 ** 26;
/** Nodes that a run may have, at most, those of functions and loops each time. */
export const MAX_NODES = 1_000_000;

/** The shapes of inputs, and the numbers of those that are few and known. */
export function inputsText(inputs: readonly (Item | undefined)[]): string {
  const parts = inputs.map((v) => {
    if (v === undefined) return "none";
    if (v instanceof Sequence) return `a sequence of ${v.items.length}`;
    if (v instanceof Optional) return "an optional";
    if (v instanceof Mapping) return "a map";
    const shape = `[${v.shape.join(", ")}]`;
    const known = v.numbers !== undefined && v.count > 0 && v.count <= 8 ? Array.from(v.numbers).join(", ") : "";
    return known === "" ? shape : `${shape} with ${known}`;
  });
  return parts.length === 0 ? "it has no inputs" : `its inputs are ${parts.join("; ")}`;
}

/** Why memory of a device cannot hold a tensor, whatever is freed; undefined where it may. */
function shortOf(shape: readonly number[], dtype: DType, device: string): string | undefined {
  let nbytes = dtype.itemsize;
  for (const n of shape) nbytes *= n;
  if (!(nbytes > ALWAYS)) return undefined;
  const most = bytesInAll(device);
  if (nbytes <= (most ?? NEVER)) return undefined;
  const room = most === undefined ? "which no memory holds" : `and ${device} holds ${byteText(most)} at most`;
  return `[${shape.join(", ")}] of ${dtype} takes ${byteText(nbytes)}, ${room}`;
}

/** Why the host does not make a list of so many positions; undefined where it does. */
export function longList(n: number): string | undefined {
  return n <= MAX_LIST ? undefined : `a list of ${n} positions would be made on the host, which takes ${MAX_LIST}`;
}

/** What to do about sizes of lists. */
export const FEWER = "the sizes come from the model's inputs or its constants, let them be smaller";
/** What to do about sizes of results. */
const SMALLER = "give the model smaller inputs, or load it by { device } on one that holds more";

/** Why the result of a node cannot be, with its inputs and what to do; undefined where it can. */
export function hugeResult(
  results: readonly (Item | undefined)[],
  inputs: readonly (Item | undefined)[],
  device: string,
): string | undefined {
  for (const v of results) {
    if (!(v instanceof Value) || v.data !== undefined) continue;
    const dtype = elementType(v.type)?.dtype, short = dtype && shortOf(v.shape, dtype, device);
    if (short !== undefined) return `its result ${short} (${inputsText(inputs)}): ${SMALLER}`;
  }
  return undefined;
}
