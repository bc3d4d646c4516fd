/**
 * Graph models of a node or two in TensorFlow.js: what it gives is written to tests/fixtures/tfjs/graphs.json, with which
 * tests compare. `deno run -A --no-lock --no-check tests/tfjs/against_tfjs.ts --write`, or without --write to see the largest
 * differences of our own results. Fetches npm's @tensorflow/tfjs.
 *
 * @module
 */
import { Device, Tensor } from "../../mod.ts";
import { loadGraphModel } from "../../src/tfjs/tfjs.ts";
import { GRAPH_CASES, modelOfCase } from "./graph_cases.ts";

/** Where the results are. */
export const GRAPHS: URL = new URL("../fixtures/tfjs/graphs.json", import.meta.url);
/** A result: shape and values. */
export interface Expected {
  readonly shape: readonly number[];
  readonly values: readonly number[];
}
/** As much of a tensor of theirs as is used here. */
export interface TfTensor {
  readonly shape: number[];
  data(): Promise<ArrayLike<number>>;
}
/** As much of the library as is used here. */
export interface Tf {
  setBackend(name: string): Promise<unknown>;
  tensor(values: readonly number[], shape: readonly number[], dtype: string): TfTensor;
  loadGraphModel(handler: unknown): Promise<{
    executeAsync(inputs: Record<string, TfTensor>, outputs: string[]): Promise<TfTensor | TfTensor[]>;
  }>;
}

// no literal where it is imported: type checking would fetch it, and lock it
const LIBRARY: string = "npm:@tensorflow/tfjs@4.22.0";

/** TensorFlow.js, on its processor. */
export async function tensorflow(): Promise<Tf> {
  const tf = await import(LIBRARY) as Tf;
  await tf.setBackend("cpu");
  return tf;
}
/** What loads a model into TensorFlow.js that lies in memory. */
export function handlerOf(model: Record<string, unknown>, weights: Uint8Array): unknown {
  const groups = model.weightsManifest as { weights: unknown[] }[];
  const weightSpecs = groups.flatMap((g) => g.weights),
    { modelTopology, signature, userDefinedMetadata, format } = model;
  const weightData = weights.slice().buffer;
  return {
    load: () => Promise.resolve({ modelTopology, weightSpecs, weightData, signature, userDefinedMetadata, format }),
  };
}

if (import.meta.main) {
  await Device.open("WASM");
  console.warn = () => {}; // it says of each model that another function would do
  const tf = await tensorflow(), found: Record<string, Expected[]> = {};
  for (const c of GRAPH_CASES) {
    const source = modelOfCase(c);
    try {
      const model = await tf.loadGraphModel(handlerOf(source.model, source.files["w.bin"]));
      const inputs = Object.fromEntries(
        Object.entries(c.inputs).map(([name, t]) => [name, tf.tensor(t.values, t.shape, t.dtype)]),
      );
      const made = await model.executeAsync(inputs, [...c.outputs]), outputs = Array.isArray(made) ? made : [made];
      found[c.name] = await Promise.all(
        outputs.map(async (t) => ({ shape: t.shape, values: Array.from(await t.data(), Number) })),
      );
    } catch (error) {
      console.log(`${c.name}: not in TensorFlow.js: ${(error as Error).message.slice(0, 100)}`);
      continue;
    }
    try {
      const model = await loadGraphModel(source, { device: "WASM" });
      const inputs = Object.entries(c.inputs).map(([, t]) =>
        new Tensor(t.values as number[], { dtype: t.dtype }).reshape([...t.shape])
      );
      const results = Object.values(await model.run(...inputs)) as Tensor[];
      let apart = 0;
      for (const [k, want] of found[c.name].entries()) {
        const r = results[k];
        if (String(r.shape) !== String(want.shape)) console.log(`${c.name}: [${r.shape}], not [${want.shape}]`);
        const values = Array.from(await r.data() as Float32Array, Number);
        values.forEach((x, i) => apart = Math.max(apart, Math.abs(x - want.values[i])));
      }
      if (!(apart <= 1e-5)) console.log(`${c.name}: ${apart} apart`);
    } catch (error) {
      console.log(`${c.name}: ${(error as Error).message}`);
    }
  }
  console.log(`${Object.keys(found).length} of ${GRAPH_CASES.length} cases`);
  if (Deno.args.includes("--write")) await Deno.writeTextFile(GRAPHS, JSON.stringify(found));
}
