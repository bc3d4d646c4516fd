/**
 * All operators that are known, by domain, name and version: the tables of the families put together.
 *
 * @module
 */
import type { OpRow } from "../values/node_call.ts";
import { ATTENTION } from "./attention_ops.ts";
import { CONTROL } from "./control_ops.ts";
import { ELEMENTWISE } from "./elementwise_ops.ts";
import { INDEXING } from "./index_ops.ts";
import { IMAGES } from "./image_ops.ts";
import { LOSSES } from "./special/loss_ops.ts";
import { MICROSOFT } from "./special/microsoft_ops.ts";
import { MICROSOFT_QUANTIZED } from "./special/microsoft_quant_ops.ts";
import { CLASSICAL } from "./special/ml_ops.ts";
import { MOVEMENTS } from "./movement_ops.ts";
import { NORMS } from "./norm_ops.ts";
import { QUANTIZED } from "./quant_ops.ts";
import { RECURRENT } from "./recurrent_ops.ts";
import { REDUCTIONS } from "./reduce_ops.ts";
import { SIGNALS } from "./special/signal_ops.ts";
import { TEXTS } from "./special/text_ops.ts";
import { WINDOWS } from "./window_ops.ts";

/** The families. */
export const FAMILIES: readonly (readonly [name: string, rows: readonly OpRow[]])[] = [
  ["functions of elements", ELEMENTWISE],
  ["reductions", REDUCTIONS],
  ["shapes and movement", MOVEMENTS],
  ["places", INDEXING],
  ["convolutions and pools", WINDOWS],
  ["normalizations and products", NORMS],
  ["recurrent networks", RECURRENT],
  ["attention", ATTENTION],
  ["quantized numbers", [...QUANTIZED, ...MICROSOFT_QUANTIZED]],
  ["losses, optimizers, random numbers", LOSSES],
  ["pictures", IMAGES],
  ["signals", SIGNALS],
  ["text", TEXTS],
  ["trees, linear models, scalers", CLASSICAL],
  ["com.microsoft", MICROSOFT],
  ["control, sequences, optionals", CONTROL],
];

const ROWS = new Map<string, OpRow[]>();
for (const [, rows] of FAMILIES) {
  for (const row of rows) {
    const key = `${row.domain}:${row.name}`;
    ROWS.set(key, [...ROWS.get(key) ?? [], row].sort((a, b) => b.since - a.since));
  }
}

/** The newest row of an operator that is not newer than a version of its domain. */
export function findOperator(domain: string, name: string, version: number): OpRow | undefined {
  return ROWS.get(`${domain}:${name}`)?.find((row) => row.since <= version);
}
