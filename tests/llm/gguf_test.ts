/**
 * GGUF files: what is read and written, blocks against libggml's values (fixtures/blocks.json, by llama_cpp.ts), and files
 * made to hurt.
 */
import assert from "node:assert/strict";
import { FormatError, Tensor } from "../../mod.ts";
import {
  BLOCK_FORMATS,
  dequantize,
  encodeGguf,
  type FormatName,
  formatsOf,
  type GgufContents,
  quantize,
  QUANTIZED,
  quantizeModel,
  readGguf,
  typed,
  writeGguf,
} from "../../src/llm/llm.ts";
import { inFolder } from "../support/folder.ts";
import { Random } from "../support/random.ts";
import { hashOf } from "./hash_of.ts";
import { quantizationError, samples, SEARCHED } from "./quantization_error.ts";

type Bytes = Uint8Array<ArrayBuffer>;
const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url);

interface BlockCase {
  readonly raw: string;
  readonly first: readonly number[];
  readonly hash: string;
  readonly written?: string;
}
const CASES = JSON.parse(Deno.readTextFileSync(new URL("fixtures/blocks.json", import.meta.url))) as Record<
  string,
  BlockCase
>;
const bytesOf = (text: string): Bytes => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

/** The numbers of blocks. */
async function load(raw: Bytes, name: string): Promise<Float32Array> {
  const rows = new Tensor(raw, { device: "WASM" }).reshape([1, raw.length]);
  return await dequantize(rows, BLOCK_FORMATS.get(name)!).data() as Float32Array;
}

for (const [name, c] of Object.entries(CASES)) {
  Deno.test(`gguf: blocks of ${name} are ggml's to the last bit`, async () => {
    const raw = bytesOf(c.raw), format = BLOCK_FORMATS.get(name)!;
    const values = await dequantize(new Tensor(raw, { device: "WASM" }).reshape([2, raw.length / 2]), format)
      .data() as Float32Array;
    assert.deepEqual([...values.subarray(0, 4)], c.first.map((x) => x === 0 ? values[c.first.indexOf(x)] : x));
    assert.equal(hashOf(values), c.hash);
  });
}

Deno.test("gguf: all formats but plain ones have a case, and those that are written have their bytes", () => {
  assert.deepEqual(
    Object.keys(CASES).sort(),
    [...BLOCK_FORMATS.values()].filter((f) => !f.plain).map((f) => f.name).sort(),
  );
  const x = Float32Array.from({ length: 96 }, (_, i) => Math.fround(Math.sin(i * i) * (i % 5)));
  for (const name of QUANTIZED) {
    if (SEARCHED.includes(name as FormatName)) continue;
    assert.deepEqual(quantize(x, name as FormatName), bytesOf(CASES[name].written!), name);
  }
  assert.throws(() => quantize(x, "IQ1_S"), /Cannot quantize to IQ1_S: it is only read; written are Q8_0/);
  assert.throws(() => quantize(x.subarray(1), "Q8_0"), /95 elements are no whole blocks of 32/);
});

Deno.test("gguf: blocks whose scales are searched are no further off than ggml's own", async () => {
  const theirs = JSON.parse(Deno.readTextFileSync(new URL("fixtures/errors.json", import.meta.url))) as Record<
    string,
    Record<string, number>
  >;
  assert.deepEqual(Object.keys(theirs), SEARCHED);
  for (const name of SEARCHED) {
    for (const [kind, x] of Object.entries(samples())) {
      const error = await quantizationError(x, quantize(x, name), name);
      assert.ok(error <= 1.001 * theirs[name][kind], `${name}, ${kind}: ${error}, ggml's ${theirs[name][kind]}`);
    }
    // nothing, one element, and elements that are all the same
    for (
      const x of [
        new Float32Array(256),
        new Float32Array(256).fill(-3),
        Float32Array.from({ length: 256 }, (_, i) => +(i === 77)),
      ]
    ) {
      const y = await load(quantize(x, name), name);
      y.forEach((v, i) => assert.ok(Math.abs(v - x[i]) <= 2e-3, `${name}: ${v}, not ${x[i]}`));
    }
  }
});

Deno.test("gguf: mixes choose by layer and row as llama.cpp does", async () => {
  const shapes = new Map<string, readonly number[]>([["token_embd.weight", [64, 256]], ["output_norm.weight", [256]]]);
  for (let i = 0; i < 8; i++) {
    for (const [name, row] of [["attn_v", 256], ["attn_q", 256], ["ffn_down", 320], ["ffn_up", 256]] as const) {
      shapes.set(`blk.${i}.${name}.weight`, [32, row]);
    }
    shapes.set(`blk.${i}.ffn_gate_inp.weight`, [4, 256]);
  }
  const formats = formatsOf("Q4_K_M", shapes),
    of = (kind: string) => Array.from({ length: 8 }, (_, i) => formats.get(`blk.${i}.${kind}.weight`));
  assert.equal(formats.get("token_embd.weight"), "Q6_K");
  assert.deepEqual([formats.has("output_norm.weight"), formats.has("blk.0.ffn_gate_inp.weight")], [false, false]);
  assert.deepEqual(of("attn_q"), Array(8).fill("Q4_K"));
  assert.deepEqual(of("attn_v"), ["Q6_K", "Q4_K", "Q4_K", "Q6_K", "Q4_K", "Q4_K", "Q6_K", "Q6_K"]);
  assert.deepEqual(of("ffn_down"), ["Q8_0", "Q5_0", "Q5_0", "Q8_0", "Q5_0", "Q5_0", "Q8_0", "Q8_0"]);
  assert.throws(() => formatsOf("Q4_K_X" as "Q4_K_M", shapes), /the mix "Q4_K_X" is not known; known are Q4_K_S/);
  const file = await readGguf(STORIES),
    smaller = await readGguf(new Tensor(await encodeGguf(quantizeModel(file, "Q8_0"))));
  const [a, b] = [file, smaller].map((f) => f.tensors.get("blk.0.attn_q.weight")!);
  assert.deepEqual([b.format.name, smaller.metadata.get("general.file_type")?.value], ["Q8_0", 7]);
  assert.ok((await a.load().cast("float32").sub(b.load()).abs().max().item()) < 0.02);
  assert.throws(() => quantizeModel(file, "IQ1_S"), /Cannot quantize a model to IQ1_S: IQ1_S is only read/);
});

Deno.test("gguf: a model of llama.cpp's is read, and written again byte for byte", async () => {
  await inFolder(async (folder) => {
    const { metadata, tensors, version } = await readGguf(STORIES);
    assert.equal(version, 3);
    assert.deepEqual(metadata.get("llama.block_count"), { type: "uint32", list: false, value: 5 });
    assert.equal((metadata.get("tokenizer.ggml.tokens")!.value as string[]).length, 512);
    assert.deepEqual(tensors.get("blk.4.ffn_down.weight")!.shape, [64, 172]);
    await writeGguf(`${folder}/again.gguf`, {
      metadata,
      tensors: new Map([...tensors].map(([name, t]) => [name, t.load()])),
    });
    assert.deepEqual(Deno.readFileSync(`${folder}/again.gguf`), Deno.readFileSync(STORIES));
  });
});

const SMALL: GgufContents = {
  metadata: {
    "general.architecture": "none",
    big: typed("uint64", 2n ** 60n),
    small: typed("int8", -3),
    list: typed("float32", [0.5, 1]),
    texts: ["a", "é"],
    yes: true,
    whole: 7,
    real: 1.5,
    minus: -1,
    i64: typed("int64", -5),
    f64: typed("float64", 0.1),
    u16: typed("uint16", [1, 65535]),
  },
  tensors: {
    a: Tensor.arange(6).reshape([2, 3]).float(),
    b: { tensor: Tensor.arange(64).reshape([2, 32]).float(), format: "Q8_0" },
    c: { tensor: new Tensor([1.5, -2]), format: "BF16" },
    d: new Tensor([1, 2], { dtype: "int64" }),
  },
};

Deno.test("gguf: values and tensors come back", async () => {
  const { metadata, tensors } = await readGguf(new Tensor(await encodeGguf(SMALL)));
  const values = Object.fromEntries([...metadata].map(([k, e]) => [k, e.value]));
  assert.deepEqual(values, {
    "general.architecture": "none",
    big: 2n ** 60n,
    small: -3,
    list: [0.5, 1],
    texts: ["a", "é"],
    yes: true,
    whole: 7,
    real: 1.5,
    minus: -1,
    i64: -5,
    f64: 0.1,
    u16: [1, 65535],
  });
  assert.deepEqual(await tensors.get("a")!.load().tolist(), [[0, 1, 2], [3, 4, 5]]);
  const b = await tensors.get("b")!.load().data() as Float32Array;
  assert.ok(b.every((x, i) => Math.abs(x - i) < 0.3), String(b));
  assert.deepEqual(tensors.get("b")!.raw().shape, [2, 34]);
  assert.deepEqual(await tensors.get("c")!.load().tolist(), [1.5, -2]);
  assert.deepEqual(await tensors.get("d")!.load().tolist(), [1, 2]);
});

Deno.test("gguf: split models are one; their parts must fit", async () => {
  await inFolder(async (folder) => {
    const part = (no: number, names: readonly string[], count = 2): GgufContents => ({
      metadata: { "split.no": typed("uint16", no), "split.count": typed("uint16", count) },
      tensors: Object.fromEntries(names.map((n) => [n, new Tensor([no + 0.5])])),
    });
    const write = (i: number, c: GgufContents) => writeGguf(`${folder}/m-0000${i}-of-00002.gguf`, c);
    await write(1, part(0, ["x"]));
    await write(2, part(1, ["y"]));
    const { tensors } = await readGguf(`${folder}/m-00001-of-00002.gguf`);
    assert.deepEqual([...tensors.keys()], ["x", "y"]);
    assert.deepEqual(await tensors.get("y")!.load().tolist(), [1.5]);
    await assert.rejects(() => readGguf(`${folder}/m-00002-of-00002.gguf`), /it is not the first of its parts/);
    await write(2, part(1, ["x"]));
    await assert.rejects(
      () => readGguf(`${folder}/m-00001-of-00002.gguf`),
      /has the tensor "x", which an earlier part has/,
    );
    await write(2, part(0, ["y"]));
    await assert.rejects(() => readGguf(`${folder}/m-00001-of-00002.gguf`), /it says that it is not part 1/);
    Deno.renameSync(`${folder}/m-00001-of-00002.gguf`, `${folder}/other.gguf`);
    await assert.rejects(
      () => readGguf(`${folder}/other.gguf`),
      /load the first, whose name ends in -00001-of-00002\.gguf/,
    );
  });
});

Deno.test("gguf: tensors on DISK are ranges of the file", async () => {
  const { tensors } = await readGguf(STORIES, { device: "DISK" });
  const w = tensors.get("blk.0.attn_q.weight")!.raw();
  assert.equal(w.device, "DISK");
  assert.equal((await w.to("WASM").at(0, 0).data()).length, 1);
});

// ---- files made to hurt

/** A file of parts: numbers are bytes of the width that follows, texts are texts with their length. */
class Maker {
  readonly bytes: number[] = [];
  u32(...xs: number[]): this {
    for (const x of xs) for (let i = 0; i < 4; i++) this.bytes.push(Math.floor(x / 2 ** (8 * i)) & 255);
    return this;
  }
  u64(...xs: bigint[]): this {
    for (const x of xs) for (let i = 0n; i < 8n; i++) this.bytes.push(Number((x >> (8n * i)) & 255n));
    return this;
  }
  text(s: string): this {
    const b = new TextEncoder().encode(s);
    this.u64(BigInt(b.length));
    this.bytes.push(...b);
    return this;
  }
  pad(n: number): this {
    while (this.bytes.length % n) this.bytes.push(0);
    return this;
  }
  zeros(n: number): this {
    this.bytes.push(...new Uint8Array(n));
    return this;
  }
}
const MAGIC = 0x46554747;
const start = (tensors = 0n, keys = 0n, version = 3) => new Maker().u32(MAGIC, version).u64(tensors, keys);
const tensor = (m: Maker, name: string, sizes: bigint[], type: number, offset: bigint) =>
  m.text(name).u32(sizes.length).u64(...sizes).u32(type).u64(offset);
const HUGE = 2n ** 63n;
const HOSTILE: readonly (readonly [string, Maker, RegExp])[] = [
  ["nothing", new Maker(), /it does not begin with "GGUF"/],
  ["another magic", new Maker().u32(1, 3).u64(0n, 0n), /it does not begin with "GGUF"/],
  ["version 1", start(0n, 0n, 1), /it has version 1; versions 2 and 3/],
  ["big-endian", start(0n, 0n, 3 << 24), /big-endian numbers/],
  ["too many tensors", start(HUGE), /the number of tensors is 9223372036854775808, more than can be counted/],
  ["many tensors", start(1000n), /said to have 1000 tensors/],
  ["many values", start(0n, 1000n), /said to have 1000 values/],
  ["a key too long", start(0n, 1n).u64(HUGE - 1n), /the length of a key is/],
  ["a key of 1 GB", start(0n, 1n).u64(2n ** 30n).zeros(40), /a key has 1073741824 bytes, more than 65535/],
  ["no value", start(0n, 1n).text("k"), /truncated: the type of the value of "k"/],
  ["an unknown type", start(0n, 1n).text("k").u32(99), /the value of "k" has the unknown type 99/],
  ["a list of lists", start(0n, 1n).text("k").u32(9, 9).u64(1n), /is a list of lists/],
  ["a long list", start(0n, 1n).text("k").u32(9, 4).u64(2n ** 40n), /has 1099511627776 elements, more than/],
  ["a bool of 2", start(0n, 1n).text("k").u32(7).zeros(0).u32(2), /is 2, neither true nor false/],
  ["a key twice", start(0n, 2n).text("k").u32(4, 1).text("k").u32(4, 1), /has the key "k" twice/],
  ["an alignment", start(0n, 1n).text("general.alignment").u32(4, 12), /its alignment is 12/],
  ["an alignment of 0", start(0n, 1n).text("general.alignment").u32(4, 0), /its alignment is 0/],
  ["nine axes", tensor(start(1n), "t", Array(9).fill(1n), 0, 0n), /has 9 axes, more than 4/],
  ["a size that overflows", tensor(start(1n), "t", [HUGE], 0, 0n), /a size of tensor "t" is/],
  [
    "sizes that overflow",
    tensor(start(1n), "t", [2n ** 40n, 2n ** 40n], 0, 0n),
    /needs more bytes than can be counted/,
  ],
  ["a size of 0", tensor(start(1n), "t", [0n, 4n], 0, 0n), /of shape \[4, 0\] has no elements/],
  ["an unknown format", tensor(start(1n), "t", [4n], 77, 0n), /has the type 77, which is not known/],
  ["a removed format", tensor(start(1n), "t", [32n], 4, 0n), /has the type 4, which is not known/],
  [
    "a row of half a block",
    tensor(start(1n), "t", [48n], 8, 0n),
    /rows of 48 elements, no multiple of the 32 of a Q8_0/,
  ],
  ["an offset between", tensor(start(1n), "t", [4n], 0, 5n).pad(32).zeros(64), /starts at byte 5, no multiple of 32/],
  ["data missing", tensor(start(1n), "t", [4n], 0, 0n).pad(32).zeros(15), /ends at byte 16 of the data, which has 15/],
  ["no data", tensor(start(1n), "t", [4n], 0, 0n), /ends at byte 16 of the data, which has 0/],
  [
    "tensors over each other",
    tensor(tensor(start(2n), "a", [16n], 0, 0n), "b", [4n], 0, 32n).pad(32).zeros(96),
    /tensor "b" at byte 32 lies over tensor "a"/,
  ],
  [
    "a tensor twice",
    tensor(tensor(start(2n), "a", [4n], 0, 0n), "a", [4n], 0, 32n).pad(32).zeros(96),
    /has the tensor "a" twice/,
  ],
  ["part of a model", start(0n, 1n).text("split.count").u32(4, 3), /one of 3 parts; load them by the path/],
];
for (const [name, maker, why] of HOSTILE) {
  Deno.test(`gguf: refuses ${name}`, async () => {
    await assert.rejects(() => readGguf(new Tensor(Uint8Array.from(maker.bytes))), (e: unknown) => {
      assert.ok(e instanceof FormatError, String(e));
      assert.match(e.message, why);
      return true;
    });
  });
}

Deno.test("gguf: cut anywhere or changed at random it is read or refused, and nothing else", async () => {
  const bytes = await encodeGguf(SMALL), r = new Random(7);
  const tries: Bytes[] = Array.from({ length: 40 }, (_, i) => bytes.slice(0, Math.floor(i * bytes.length / 40)));
  for (let i = 0; i < 200; i++) {
    const changed = bytes.slice();
    for (let k = r.int(1, 4); k > 0; k--) changed[r.int(0, bytes.length - 1)] = r.int(0, 255);
    tries.push(changed);
  }
  let refused = 0;
  for (const t of tries) {
    try {
      const { tensors } = await readGguf(new Tensor(t));
      for (const x of tensors.values()) assert.ok(x.nbytes <= t.length);
    } catch (e) {
      assert.ok(e instanceof FormatError, String(e));
      refused++;
    }
  }
  assert.ok(refused >= 80, String(refused));
});

Deno.test("gguf: what cannot be written is told before a file is made", async () => {
  await inFolder(async (folder) => {
    const write = (c: GgufContents) => writeGguf(`${folder}/x.gguf`, c);
    const t = Tensor.zeros([2, 33]);
    for (
      const [c, why] of [
        [{ metadata: { k: typed("uint8", 300) }, tensors: {} }, /"k" is said to be uint8, and 300 is not/],
        [{ metadata: { "general.alignment": 3 }, tensors: {} }, /the alignment 3 is no power of two/],
        [{ metadata: {}, tensors: { t: { tensor: t, format: "Q8_0" } } }, /rows of 33 elements, no multiple of the 32/],
        [{ metadata: {}, tensors: { t: { tensor: t, format: "Q2_K" } } }, /Q2_K is only read/],
        [{ metadata: {}, tensors: { t: t.cast("uint8") } }, /dtype uint8, which the format has not/],
      ] as readonly (readonly [GgufContents, RegExp])[]
    ) await assert.rejects(() => write(c), why);
    assert.deepEqual([...Deno.readDirSync(folder)], []);
  });
});
