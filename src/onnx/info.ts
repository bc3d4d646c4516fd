/**
 * What an ONNX file has: inputs, outputs, operators by count, and those that are not known here. In: a path or bytes;
 * out: a record that prints as a page. Nothing runs, and no weights are read.
 *
 * @module
 */
import type { Loadable } from "../state/source.ts";
import { allNodes, checkModel } from "./graph/check.ts";
import { showAs } from "../helpers/text.ts";
import { modelBytes, type OnnxPort, portOf, portText } from "./model.ts";
import { findOperator } from "./ops/operators.ts";
import { unheeded } from "./values/node_call.ts";
import { faultOf, functionKey, readModel } from "./wire/messages.ts";

/** What {@linkcode info} tells. */
export interface OnnxInfo {
  /** What it takes. */
  readonly inputs: readonly OnnxPort[];
  /** What it gives. */
  readonly outputs: readonly OnnxPort[];
  /** Versions of the operator sets, by domain; that of ai.onnx is "". */
  readonly opsets: Readonly<Record<string, number>>;
  /** How many nodes there are of each operator, the most frequent first. */
  readonly operators: Readonly<Record<string, number>>;
  /** Operators that are not known. */
  readonly missing: readonly string[];
  /** Elements of all initializers. */
  readonly parameters: number;
  /** All of it as text. */
  toString(): string;
}

/**
 * What a model takes, gives and consists of. Printing it gives a page.
 *
 * ```ts ignore files
 * import { info } from "./onnx.ts";
 * console.log(String(await info("model.onnx")));
 * ```
 *
 * @throws {FormatError} for what is no ONNX model
 */
export async function info(from: Loadable): Promise<OnnxInfo> {
  const [bytes, file] = await modelBytes("tell about an ONNX model", from), model = readModel(bytes, file);
  checkModel(model, faultOf(file));
  const counts = new Map<string, number>(), missing = new Set<string>();
  for (const { node, opsets } of allNodes(model)) {
    const name = node.domain === "" ? node.op : `${node.domain}.${node.op}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
    if (model.functions.has(functionKey(node, node.op))) continue;
    const row = findOperator(node.domain, node.op, opsets.get(node.domain) ?? 1);
    const other = row && unheeded(row, node.attributes);
    if (row === undefined) missing.add(name);
    if (other !== undefined) missing.add(`${name} with ${other}`);
  }
  const { graph } = model, weights = new Set(graph.initializers.map((t) => t.name));
  const told = {
    inputs: graph.inputs.filter((v) => !weights.has(v.name)).map(portOf),
    outputs: graph.outputs.map(portOf),
    opsets: Object.fromEntries(model.opsets),
    operators: Object.fromEntries([...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))),
    missing: [...missing].sort(),
    parameters: graph.initializers.reduce((n, t) => n + t.dims.reduce((a, b) => a * b, 1), 0),
  };
  const versions = Object.entries(told.opsets).map(([d, v]) => `${d || "ai.onnx"} ${v}`).join(", ");
  const lines = [
    `${file}: ${versions}${model.producer ? `, by ${model.producer}` : ""}; ${told.parameters} parameters`,
    "inputs",
    ...told.inputs.map((p) => `  ${portText(p)}`),
    "outputs",
    ...told.outputs.map((p) => `  ${portText(p)}`),
    "operators",
    ...Object.entries(told.operators).map(([name, n]) => `  ${String(n).padStart(5)} ${name}`),
    told.missing.length === 0 ? "nothing is missing" : `missing: ${told.missing.join(", ")}`,
  ];
  const out: OnnxInfo = { ...told, toString: () => lines.join("\n") };
  showAs(out, String);
  return out;
}
