/**
 * Files that are read and written again: tensors go from one file to another with their blocks, whatever their format,
 * and what is written twice is the same to the last byte.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import {
  BLOCK_FORMATS,
  Decoder,
  encodeGguf,
  type FormatName,
  type GgufInput,
  type GgufScalarType,
  type GgufTensor,
  type GgufTensorInput,
  LanguageModel,
  QUANTIZED,
  quantizeModel,
  readGguf,
  typed,
  writeGguf,
} from "../../src/llm/llm.ts";
import { inFolder } from "../support/folder.ts";
import { Random } from "../support/random.ts";
import { randomModel } from "./random_models.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url);

/** A tensor of a file that is nowhere but in memory, of random bytes. */
function ofFile(r: Random, name: string, formatName: FormatName): GgufTensor {
  const format = BLOCK_FORMATS.get(formatName)!, axes = Array.from({ length: r.int(0, 3) }, () => r.int(1, 3));
  const shape = [...axes, format.elements * r.int(1, 2)], row = shape.at(-1)! / format.elements * format.nbytes;
  const nbytes = axes.reduce((a, b) => a * b, row), bytes = Uint8Array.from({ length: nbytes }, () => r.int(0, 255));
  const memory = new Tensor(bytes), plain = format.plain;
  const raw = () => plain ? memory.bitcast(plain).reshape(shape) : memory.reshape([...axes, row]);
  return { name, format, shape, nbytes, raw, load: raw };
}
/** A value of metadata of any type, and its extremes. */
function anyEntry(r: Random): GgufInput {
  const bits = (n: number, from: bigint) => [from, from + (1n << BigInt(n)) - 1n, 0n, 5n];
  const small = (n: number, from: bigint) => bits(n, from).map(Number);
  const kinds: readonly (readonly [GgufScalarType, readonly (number | bigint | boolean | string)[]])[] = [
    ["uint8", small(8, 0n)],
    ["int8", small(8, -128n)],
    ["uint16", small(16, 0n)],
    ["int16", small(16, -(1n << 15n))],
    ["uint32", small(32, 0n)],
    ["int32", small(32, -(1n << 31n))],
    ["uint64", bits(64, 0n)],
    ["int64", bits(64, -(1n << 63n))],
    ["float32", [0.5, -0, Infinity, -1e-40, Math.fround(0.1)]],
    ["float64", [0.1, -1e300, NaN]],
    ["bool", [true, false]],
    ["string", ["", "a\0b", "▁é😀", "x".repeat(70000)]],
  ];
  const [type, values] = r.pick(kinds), one = () => r.pick(values as (number | bigint | boolean | string)[]);
  return r.int(0, 1) ? typed(type, one()) : typed(type, Array.from({ length: r.int(0, 5) }, one));
}

for (let seed = 0; seed < 12; seed++) {
  Deno.test(`copies: file ${seed} of random metadata and blocks is itself when it is read and written`, async () => {
    const r = new Random(900 + seed),
      names = [...BLOCK_FORMATS.values()].map((f) => f.name),
      metadata: Record<string, GgufInput> = {};
    for (let i = r.int(0, 8); i > 0; i--) metadata[`${i}.${r.pick(["key", "a", "ü"])}`] = anyEntry(r);
    if (r.int(0, 1)) metadata["general.alignment"] = 2 ** r.int(0, 8);
    const tensors: Record<string, GgufTensorInput> = {};
    for (let i = r.int(1, 9); i > 0; i--) tensors[`t${i}`] = ofFile(r, `t${i}`, r.pick(names));
    const bytes = await encodeGguf({ metadata, tensors }), inMemory = await readGguf(new Tensor(bytes));
    for (const [name, t] of inMemory.tensors) {
      const from = tensors[name] as GgufTensor;
      assert.deepEqual([t.shape, t.format.name], [from.shape, from.format.name]);
      const both = [t, from].map((x) => x.raw().reshape([-1]).bitcast("uint8").data());
      assert.deepEqual(await both[0], await both[1]);
    }
    assert.deepEqual(await encodeGguf(inMemory), bytes);
    await inFolder(async (folder) => {
      Deno.writeFileSync(`${folder}/a.gguf`, bytes);
      for (const device of ["DISK", "WASM"]) {
        await writeGguf(`${folder}/b.gguf`, await readGguf(`${folder}/a.gguf`, { device }));
        assert.deepEqual(Deno.readFileSync(`${folder}/b.gguf`), bytes, device);
      }
    });
  });
}

Deno.test("copies: a model that was quantized keeps its blocks where the mix has their format", async () => {
  await inFolder(async (folder) => {
    const at = (name: string) => `${folder}/${name}.gguf`, bytes = (name: string) => Deno.readFileSync(at(name));
    await writeGguf(at("q8"), quantizeModel(await readGguf(STORIES), "Q8_0"));
    for (const device of ["DISK", "WASM"]) {
      const file = await readGguf(at("q8"), { device });
      await writeGguf(at("copy"), file);
      assert.deepEqual(bytes("copy"), bytes("q8"));
      await writeGguf(at("again"), quantizeModel(file, "Q8_0"));
      assert.deepEqual(bytes("again"), bytes("q8"));
      await writeGguf(at("q4"), quantizeModel(file, "Q4_0"));
    }
    const file = await readGguf(at("q8")), w = file.tensors.get("blk.0.attn_q.weight")!;
    const by = async (input: GgufTensorInput) => (await encodeGguf({ metadata: {}, tensors: { w: input } })).slice(64);
    for (const format of [...QUANTIZED.filter((f) => !f.endsWith("_K")), "F16", "BF16", "F32"] as FormatName[]) {
      assert.deepEqual(await by({ tensor: w, format }), await by({ tensor: w.load(), format }), format);
    }
    // what a format that is only read holds, is copied, and not made of other numbers
    const odd = ofFile(new Random(3), "w", "IQ2_XS");
    assert.deepEqual(await by({ tensor: odd, format: "IQ2_XS" }), await by(odd));
    await assert.rejects(() => by({ tensor: w, format: "IQ2_XS" }), /"w": IQ2_XS is only read; written are Q8_0/);
    const wrong = (x: unknown, why: RegExp) => assert.rejects(() => by(x as GgufTensorInput), why);
    await wrong([1, 2], /Cannot write a GGUF file: tensor "w" is a list of 2; it must be a Tensor, a tensor of a file/);
    await wrong(undefined, /tensor "w" is undefined; it must be/);
    await wrong({ tensor: w, format: "Q9" }, /tensor "w": "Q9" is no format/);
  });
});

Deno.test("copies: a model of several files is one file then, and a decoder's weights are those that it has", async () => {
  await inFolder(async (folder) => {
    const whole = await readGguf(STORIES), names = [...whole.tensors.keys()];
    for (const i of [0, 1]) {
      const own = names.filter((_, k) => k % 2 === i).map((n) => [n, whole.tensors.get(n)!] as const);
      await writeGguf(`${folder}/m-0000${i + 1}-of-00002.gguf`, {
        metadata: new Map<string, GgufInput>([
          ...(i === 0 ? whole.metadata : []),
          ["split.no", typed("uint16", i)],
          ["split.count", typed("uint16", 2)],
        ]),
        tensors: new Map(own),
      });
    }
    const joined = await readGguf(`${folder}/m-00001-of-00002.gguf`);
    assert.deepEqual([...joined.metadata.keys()].filter((key) => key.startsWith("split.")), []);
    await writeGguf(`${folder}/one.gguf`, joined);
    using model = await LanguageModel.load(`${folder}/one.gguf`, { context: 64 });
    const { text } = await model.complete("Once upon a time", { maxTokens: 8 });
    assert.equal(text, ", there was a little girl");
    await writeGguf(`${folder}/kept.gguf`, model.decoder.file());
    assert.deepEqual(Deno.readFileSync(`${folder}/kept.gguf`), Deno.readFileSync(`${folder}/one.gguf`));
    const random = new Tensor(await encodeGguf(randomModel("llama")));
    await writeGguf(`${folder}/q.gguf`, quantizeModel(await readGguf(random), "Q4_0"));
    const small = new Decoder(await readGguf(`${folder}/q.gguf`), "small", "WASM");
    await writeGguf(`${folder}/q2.gguf`, small.file());
    assert.deepEqual(Deno.readFileSync(`${folder}/q2.gguf`), Deno.readFileSync(`${folder}/q.gguf`));
  });
});
