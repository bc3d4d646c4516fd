/**
 * The node tests of ONNX: models of one node with inputs and outputs. In: a folder of them as onnx/onnx has them; out:
 * for each case whether our outputs are those, or what differs. Tolerances are those of onnx's own test runner.
 *
 * @module
 */
import "../../mod.ts";
import { protoBytes, ProtoReader } from "../../src/helpers/protobuf.ts";
import { load, type OnnxInput, type OnnxOutput } from "../../src/onnx/onnx.ts";
import { decodeData, type Item, Mapping, Optional, Sequence } from "../../src/onnx/values/value.ts";
import { elementType } from "../../src/onnx/wire/element_types.ts";
import { faultOf, readData, readModel, type TypeProto } from "../../src/onnx/wire/messages.ts";
import { Tensor } from "../../src/tensor/tensor.ts";

/** A case: a model, and sets of inputs and outputs, each as it lies in its file. */
export interface NodeCase {
  readonly name: string;
  readonly model: Uint8Array;
  readonly sets: readonly { readonly inputs: readonly Uint8Array[]; readonly outputs: readonly Uint8Array[] }[];
}

/** The case in a folder. */
export function readCase(folder: string, name: string): NodeCase {
  const at = `${folder}/${name}`, files = [...Deno.readDirSync(at)].map((e) => e.name);
  const sets = files.filter((f) => f.startsWith("test_data_set_")).sort().map((set) => {
    const count = (kind: string) => [...Deno.readDirSync(`${at}/${set}`)].filter((e) => e.name.startsWith(kind)).length;
    const read = (kind: string) =>
      Array.from({ length: count(kind) }, (_, i) => Deno.readFileSync(`${at}/${set}/${kind}_${i}.pb`));
    return { inputs: read("input"), outputs: read("output") };
  });
  return { name: name.replace(/^test_/, ""), model: Deno.readFileSync(`${at}/model.onnx`), sets };
}

/** Where the small cases are stored: a message of cases, gzipped. */
export const STORED: URL = new URL("../fixtures/onnx/node_cases.bin.gz", import.meta.url);
/** How large the stored file may be, and a case in it. */
const MAX_STORED = 2.4e6, MAX_CASE = 12_000;

async function through(bytes: Uint8Array, stream: GenericTransformStream): Promise<Uint8Array> {
  const body = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(stream as CompressionStream);
  return new Uint8Array(await new Response(body).arrayBuffer());
}
/** Stores the cases that are small, those of one operator under the limit first. */
export async function packCases(cases: readonly NodeCase[], file: string): Promise<{ stored: number; nbytes: number }> {
  const size = (t: NodeCase): number =>
    t.model.length + t.sets.reduce((n, s) => n + [...s.inputs, ...s.outputs].reduce((m, b) => m + b.length, 0), 0);
  for (let limit = MAX_CASE;; limit *= 0.9) {
    const chosen = cases.filter((t) => size(t) <= limit);
    const bytes = protoBytes((w) => {
      for (const t of chosen) {
        w.message(1, (m) => {
          m.text(1, t.name);
          m.chunk(2, t.model);
          for (const { inputs, outputs } of t.sets) {
            m.message(3, (set) => {
              for (const b of inputs) set.chunk(1, b);
              for (const b of outputs) set.chunk(2, b);
            });
          }
        });
      }
    });
    const packed = await through(bytes, new CompressionStream("gzip"));
    if (packed.length > MAX_STORED) continue;
    Deno.writeFileSync(file, packed);
    return { stored: chosen.length, nbytes: packed.length };
  }
}
/** The cases that are stored. */
export async function storedCases(): Promise<NodeCase[]> {
  const bytes = await through(Deno.readFileSync(STORED), new DecompressionStream("gzip"));
  const r = new ProtoReader(bytes, faultOf("the stored cases")), cases: NodeCase[] = [];
  while (r.next()) {
    const m = r.message(), sets: { inputs: Uint8Array[]; outputs: Uint8Array[] }[] = [];
    let name = "", model = new Uint8Array();
    while (m.next()) {
      if (m.field === 1) name = m.text();
      else if (m.field === 2) model = m.chunk() as Uint8Array<ArrayBuffer>;
      else {
        const set = m.message(), inputs: Uint8Array[] = [], outputs: Uint8Array[] = [];
        while (set.next()) (set.field === 1 ? inputs : outputs).push(set.chunk());
        sets.push({ inputs, outputs });
      }
    }
    cases.push({ name, model, sets });
  }
  return cases;
}

/** Why cases cannot pass, or are not for us to pass. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [
    /^bernoulli/,
    "it expects the numbers that NumPy drew; ours are others, of the same distribution; onnxruntime 1.30 has no kernel for " +
    "version 22 of RandomUniformLike, of which it consists",
  ],
  [/^training_dropout(?!_zero)/, "it expects the mask that NumPy drew; ours is another, of the same distribution"],
  [/^dft_inverse/, "it expects 1.9e-7 where the exact result, ours, is 0; onnx allows 1e-7"],
  [
    /^image_decoder_decode_(jpeg2k|webp)/,
    "PNG, JPEG, BMP, TIFF and PNM are decoded; these two formats take a codec each that is larger than those together " +
    "(arithmetic coders with tables of contexts, wavelets), for a node that no model of onnxruntime has: its version 1.30 " +
    "has no kernel for ImageDecoder. Pages decode WebP by createImageBitmap, before the model",
  ],
];
/** Why a case fails that does. */
export function reasonOf(name: string): string | undefined {
  return REASONS.find(([pattern]) => pattern.test(name))?.[1];
}

const RTOL = 1e-3, ATOL = 1e-7;

function item(bytes: Uint8Array, type: TypeProto | undefined, device: string): Item {
  const bad = faultOf("test data");
  return decodeData(readData(new ProtoReader(bytes, bad), type), bad, { device });
}
function given(x: Item, device: string): OnnxInput {
  if (x instanceof Sequence) return x.items.map((i) => given(i, device));
  if (x instanceof Optional) return x.item === undefined ? null : given(x.item, device);
  if (x instanceof Mapping) throw new Error("no case takes a map");
  if (!x.isText) return x.tensor(device);
  const nest = (shape: readonly number[], from: number): OnnxInput => {
    const step = shape.slice(1).reduce((a, b) => a * b, 1);
    return shape.length === 0
      ? (x.data as ArrayLike<string>)[from]
      : Array.from({ length: shape[0] }, (_, i) => nest(shape.slice(1), from + i * step));
  };
  return nest(x.shape, 0);
}

/** What differs, or undefined. */
async function difference(got: OnnxOutput | undefined, want: Item, device: string): Promise<string | undefined> {
  if (want instanceof Sequence) {
    if (!Array.isArray(got) || got.length !== want.items.length) return `a sequence of ${want.items.length} is due`;
    for (const [i, x] of want.items.entries()) {
      const d = await difference(got[i], x, device);
      if (d !== undefined) return `item ${i}: ${d}`;
    }
    return undefined;
  }
  if (want instanceof Optional) {
    if (want.item === undefined) return got === null ? undefined : "nothing is due";
    return await difference(got, want.item, device);
  }
  if (want instanceof Mapping) return "no case gives a map";
  if (want.isText) {
    const texts = (Array.isArray(got) ? got.flat(Infinity) : [got]) as unknown[],
      all = Array.from(want.data as ArrayLike<string>);
    return JSON.stringify(texts) === JSON.stringify(all)
      ? undefined
      : `${JSON.stringify(texts)}, not ${JSON.stringify(all)}`;
  }
  if (!(got instanceof Tensor)) return "a tensor is due";
  const { dtype } = elementType(want.type)!;
  if (got.dtype !== dtype) return `dtype ${got.dtype}, not ${dtype}`;
  if (String(got.shape) !== String(want.shape)) return `shape [${got.shape}], not [${want.shape}]`;
  const a = await got.data() as ArrayLike<number | bigint>,
    b = await want.tensor(device).data() as ArrayLike<number | bigint>;
  for (let i = 0; i < b.length; i++) {
    const x = a[i], y = b[i];
    if (Object.is(x, y) || x === y) continue;
    if (dtype.isFloat && Math.abs(Number(x) - Number(y)) <= ATOL + RTOL * Math.abs(Number(y))) continue;
    return `element ${i} of ${b.length} is ${x}, not ${y}`;
  }
  return undefined;
}

/** Runs a case: undefined where it passes, else what is wrong. */
export async function runCase(test: NodeCase, device: string): Promise<string | undefined> {
  try {
    const model = await load(test.model, { device: device as "JS" }), proto = readModel(test.model, test.name).graph;
    for (const { inputs, outputs } of test.sets) {
      const got = Object.values(
        await model.run(...inputs.map((bytes, i) => given(item(bytes, proto.inputs[i]?.type, device), device))),
      );
      for (const [i, bytes] of outputs.entries()) {
        const d = await difference(got[i], item(bytes, proto.outputs[i]?.type, device), device);
        if (d !== undefined) return `output ${i}: ${d}`;
      }
    }
    return undefined;
  } catch (error) {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  }
}

/** The version of the operators that a case is of. */
export function opsetOf(test: NodeCase): string {
  const { opsets } = readModel(test.model, test.name);
  return [...opsets].filter(([, v]) => v > 0).map(([d, v]) => d === "" ? String(v) : `${d} ${v}`).join(", ");
}
