/**
 * Files made to hurt: safetensors and IDX. Each is refused with a FormatError that says why, quickly, before anything of
 * the file is used or memory is taken for what it claims; and bytes changed at random never do anything else.
 */
import assert from "node:assert/strict";
import { ArgumentError, FormatError, state, Tensor } from "../../mod.ts";
import { parseIdx } from "../../src/nn/datasets/idx.ts";
import { parseJson } from "../../src/state/json.ts";
import "../nn/support.ts";
import { inFolder } from "../support/folder.ts";
import { Random } from "../support/random.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** A safetensors file: a header and some data bytes; `size` overrides what the first eight bytes say. */
function tensors(header: string | Bytes, data = 0, size?: bigint): Bytes {
  const head = typeof header === "string" ? new TextEncoder().encode(header) : header;
  const out = new Uint8Array(8 + head.length + data);
  new DataView(out.buffer).setBigUint64(0, size ?? BigInt(head.length), true);
  out.set(head, 8);
  return out;
}
/** An entry of a header. */
function entry(shape: string, from: number | string, to: number | string, dtype = "F32"): string {
  return `{"dtype":"${dtype}","shape":[${shape}],"data_offsets":[${from},${to}]}`;
}

const BIG = "9007199254740991"; // 2^53 - 1
const CORPUS: readonly (readonly [name: string, file: Bytes, why: RegExp])[] = [
  // the size of the header
  ["nothing", new Uint8Array(0), /it has 0 bytes, too few for the size of a header$/],
  ["one byte", new Uint8Array(1), /it has 1 bytes, too few/],
  ["seven bytes", new Uint8Array(7), /it has 7 bytes, too few/],
  ["eight zeros", new Uint8Array(8), /its header is no valid JSON/],
  ["a header of one byte more than there is", tensors("{}", 0, 3n), /its header has 3 bytes, and only 2 follow$/],
  ["a header over the cap", tensors("{}", 0, 100_000_001n), /has 100000001 bytes, more than 100000000$/],
  ["a header of 2^53", tensors("{}", 0, 2n ** 53n), /has 9007199254740992 bytes, more than 100000000$/],
  ["a header of 2^63", tensors("{}", 0, 2n ** 63n), /has 9223372036854775808 bytes, more than/],
  ["a header of 2^64 - 1", tensors("{}", 0, 2n ** 64n - 1n), /has 18446744073709551615 bytes, more than/],
  ["a header that ends early", tensors('{"a":1}   ', 0, 3n), /no valid JSON/],
  // the text of the header
  ["no text", tensors(""), /no valid JSON/],
  ["text that is no UTF-8", tensors(Uint8Array.of(0x7b, 0xff, 0x7d)), /no valid JSON/],
  ["overlong UTF-8", tensors(Uint8Array.of(0x7b, 0xc0, 0xa2, 0x7d)), /no valid JSON/],
  ["a byte order mark", tensors("\ufeff{}"), /no valid JSON/],
  ["a list", tensors("[]"), /its header is no JSON object$/],
  ["null", tensors("null"), /its header is no JSON object$/],
  ["a number", tensors("12"), /its header is no JSON object$/],
  ["two objects", tensors("{}{}"), /no valid JSON \(text after the value at character 2\)$/],
  ["a comma too many", tensors(`{"a":${entry("1", 0, 4)},}`, 4), /no valid JSON/],
  ["a comment", tensors("{/**/}"), /no valid JSON/],
  ["a string without end", tensors('{"a'), /no valid JSON/],
  ["a control character in a name", tensors(`{"a\n":${entry("1", 0, 4)}}`, 4), /no valid JSON/],
  ["fifty thousand brackets", tensors("[".repeat(50_000)), /nested too deeply/],
  ["fifty thousand braces", tensors('{"a":'.repeat(50_000)), /nested too deeply/],
  // keys
  ["a duplicate tensor", tensors(`{"a":${entry("1", 0, 4)},"a":${entry("1", 0, 4)}}`, 4), /duplicate key "a"/],
  ["a duplicate by escape", tensors(`{"a":${entry("1", 0, 4)},"\\u0061":${entry("1", 4, 8)}}`, 8), /duplicate key "a"/],
  ["a duplicate field", tensors('{"a":{"dtype":"F32","dtype":"I8","shape":[1],"data_offsets":[0,4]}}', 4), /"dtype"/],
  ["duplicate metadata", tensors('{"__metadata__":{"a":"1","a":"2"}}'), /duplicate key "a"/],
  ["two __metadata__", tensors('{"__metadata__":{},"__metadata__":{}}'), /duplicate key "__metadata__"/],
  ["metadata that is a list", tensors('{"__metadata__":[]}'), /its __metadata__ is no object$/],
  ["metadata with a number", tensors('{"__metadata__":{"a":1}}'), /its metadata "a" is no text$/],
  ["metadata with an object", tensors('{"__metadata__":{"a":{}}}'), /its metadata "a" is no text$/],
  ["__proto__ that is no tensor", tensors('{"__proto__":{"polluted":"yes"}}'), /"__proto__" has an unknown field/],
  ["constructor that is no tensor", tensors('{"constructor":1}'), /"constructor" is described by no object$/],
  // entries
  ["an entry that is null", tensors('{"a":null}'), /"a" is described by no object$/],
  ["an entry that is a list", tensors('{"a":[]}'), /"a" is described by no object$/],
  ["an empty entry", tensors('{"a":{}}'), /"a" has dtype undefined; known are BOOL,/],
  ["an unknown field", tensors('{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":0}}', 4), /unknown field "x"$/],
  ["an unknown dtype", tensors(`{"a":${entry("1", 0, 4, "Q4_K")}}`, 4), /"a" has dtype "Q4_K"; known are/],
  ["a dtype in small letters", tensors(`{"a":${entry("1", 0, 4, "f32")}}`, 4), /has dtype "f32"/],
  ["a dtype of Object.prototype", tensors(`{"a":${entry("1", 0, 4, "toString")}}`, 4), /has dtype "toString"/],
  ["a dtype that is a number", tensors('{"a":{"dtype":1,"shape":[1],"data_offsets":[0,4]}}', 4), /has dtype 1;/],
  ["no shape", tensors('{"a":{"dtype":"F32","data_offsets":[0,4]}}', 4), /"a" has no valid shape$/],
  ["a shape that is a number", tensors('{"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}}', 4), /no valid shape$/],
  ["a negative size", tensors(`{"a":${entry("-1", 0, 4)}}`, 4), /no valid shape$/],
  ["two negative sizes", tensors(`{"a":${entry("-1,-1", 0, 4)}}`, 4), /no valid shape$/],
  ["a fractional size", tensors(`{"a":${entry("0.5", 0, 2)}}`, 2), /no valid shape$/],
  ["a size in quotes", tensors(`{"a":${entry('"1"', 0, 4)}}`, 4), /no valid shape$/],
  ["a size of 1e400", tensors(`{"a":${entry("1e400", 0, 4)}}`, 4), /no valid shape$/],
  ["a size of 2^53", tensors(`{"a":${entry("9007199254740992", 0, 4)}}`, 4), /no valid shape$/],
  ["a nested size", tensors(`{"a":${entry("[1]", 0, 4)}}`, 4), /no valid shape$/],
  ["a product beyond 2^53", tensors(`{"a":${entry(`${BIG},${BIG}`, 0, 4)}}`, 4), /more bytes than can be counted$/],
  ["a product that wraps 2^64 to 4", tensors(`{"a":${entry("4294967296,4294967296,1", 0, 0)}}`), /can be counted$/],
  ["huge sizes beside a 0", tensors(`{"a":${entry(`${BIG},${BIG},0`, 0, 0)}}`), /more bytes than can be counted$/],
  [
    "a hundred thousand axes",
    tensors(`{"a":${entry(`${"1,".repeat(99_999)}1`, 0, 4)}}`, 4),
    /100000 axes, more than 64$/,
  ],
  ["terabytes", tensors(`{"a":${entry("1099511627776", 0, 4398046511104)}}`), /it is truncated: 4398046511\d+ bytes/],
  // bytes
  ["no offsets", tensors('{"a":{"dtype":"F32","shape":[1]}}', 4), /"a" has no valid data_offsets$/],
  ["one offset", tensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}', 4), /no valid data_offsets$/],
  ["three offsets", tensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}', 8), /no valid data_offsets$/],
  ["a negative offset", tensors(`{"a":${entry("1", -4, 0)}}`, 4), /no valid data_offsets$/],
  ["a fractional offset", tensors(`{"a":${entry("1", 0.5, 4.5)}}`, 8), /no valid data_offsets$/],
  ["an offset beyond 2^53", tensors(`{"a":${entry("1", "18446744073709551612", 0)}}`, 4), /no valid data_offsets$/],
  ["offsets reversed", tensors(`{"a":${entry("1", 4, 0)}}`, 4), /needs 4 bytes and has -4$/],
  [
    "fewer bytes than the shape needs",
    tensors(`{"a":${entry("2", 0, 4)}}`, 4),
    /\[2\] and dtype F32 needs 8 bytes and has 4$/,
  ],
  ["more bytes than the shape needs", tensors(`{"a":${entry("1", 0, 8)}}`, 8), /needs 4 bytes and has 8$/],
  ["bytes for nothing", tensors(`{"a":${entry("0", 0, 4)}}`, 4), /needs 0 bytes and has 4$/],
  ["half an element", tensors(`{"a":${entry("1", 0, 1, "BF16")}}`, 1), /needs 2 bytes and has 1$/],
  ["an overlap", tensors(`{"a":${entry("2", 0, 8)},"b":${entry("1", 4, 8)}}`, 8), /"b" overlaps .* ends at byte 8$/],
  ["the same bytes twice", tensors(`{"a":${entry("1", 0, 4)},"b":${entry("1", 0, 4)}}`, 4), /"b" overlaps/],
  ["nothing inside another", tensors(`{"a":${entry("2", 0, 8)},"b":${entry("0", 4, 4)}}`, 8), /"b" overlaps/],
  ["a hole at the start", tensors(`{"a":${entry("1", 4, 8)}}`, 8), /hole of 4 bytes before tensor "a"$/],
  [
    "a hole inside",
    tensors(`{"a":${entry("1", 0, 4)},"b":${entry("1", 8, 12)}}`, 12),
    /hole of 4 bytes before tensor "b"$/,
  ],
  ["a byte too few", tensors(`{"a":${entry("2", 0, 8)}}`, 7), /truncated: \d+ bytes are described, and it has \d+$/],
  ["no data at all", tensors(`{"a":${entry("2", 0, 8)}}`), /truncated/],
  ["a byte too many", tensors(`{"a":${entry("1", 0, 4)}}`, 5), /1 bytes follow the last tensor$/],
  ["data without a tensor", tensors("{}", 16), /16 bytes follow the last tensor$/],
  ["another file behind", tensors(`{"a":${entry("1", 0, 4)}}`, 1000), /996 bytes follow the last tensor$/],
];

for (const [name, file, why] of CORPUS) {
  Deno.test(`hostile safetensors: ${name}`, () => {
    const error = assert.throws(() => state.safeParse(file), (e: unknown) => {
      assert.ok(e instanceof FormatError, String(e));
      assert.match(e.message, why);
      assert.equal(e.file, "safetensors bytes");
      return true;
    });
    assert.equal(error, undefined);
  });
}

Deno.test("hostile safetensors: the same from files, which are closed, and for metadata", () =>
  inFolder(async (folder) => {
    for (const [i, [name, file, why]] of CORPUS.entries()) {
      const path = `${folder}/${i}.safetensors`;
      await Deno.writeFile(path, file);
      for (const load of [state.safeLoad, state.safeLoadMetadata]) {
        await assert.rejects(load(path), (e: unknown) => {
          assert.ok(e instanceof FormatError && e.file === path && why.test(e.message), `${name}: ${e}`);
          assert.ok(e.message.startsWith(`Cannot load ${path}: `));
          return true;
        });
      }
    }
  }));

Deno.test("hostile safetensors: a sparse file of gigabytes is refused by its header alone", () =>
  inFolder(async (folder) => {
    const path = `${folder}/sparse`;
    await Deno.writeFile(path, tensors(`{"a":${entry("1", 0, 4)}}`, 4));
    await Deno.truncate(path, 2 ** 36);
    await assert.rejects(state.safeLoad(path), /bytes follow the last tensor$/);
  }));

Deno.test("hostile safetensors: names of Object.prototype are names", async () => {
  const names = ["__proto__", "constructor", "toString", "hasOwnProperty", "", "a.b", "\u0000", "\ud800", "ключ"];
  const text = names.map((n, i) => `${JSON.stringify(n)}:${entry("1", 4 * i, 4 * i + 4)}`);
  const dict = state.safeParse(tensors(`{"__metadata__":{"__proto__":"text"},${text}}`, 4 * names.length));
  assert.deepEqual(Object.keys(dict).sort(), [...names].sort());
  assert.equal(Object.getPrototypeOf(dict), Object.prototype);
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
  assert.ok(Object.getOwnPropertyDescriptor(dict, "__proto__")!.value instanceof Tensor);
  const back = state.safeParse(await state.safeBytes(dict, { metadata: Object.fromEntries([["__proto__", "x"]]) }));
  assert.deepEqual(Object.keys(back).sort(), [...names].sort());
});

Deno.test("hostile safetensors: bytes of bool are 0 or 1, whatever the file says", async () => {
  const file = tensors(`{"a":${entry("4", 0, 4, "BOOL")}}`, 4);
  file.set([0, 1, 2, 255], file.length - 4);
  const { a } = state.safeParse(file);
  assert.deepEqual([...await a.data()], [0, 1, 1, 1]);
  assert.equal(await a.sum().item(), 3);
});

Deno.test("hostile safetensors: what is long but sound is read", () => {
  const long = "x".repeat(20_000_000);
  assert.deepEqual(Object.keys(state.safeParse(tensors(`{"__metadata__":{"a":"${long}"}}`))), []);
  const quotes = '\\"'.repeat(100_000);
  assert.equal((parseJson(`{"a":"${quotes}"}`) as Map<string, string>).get("a"), '"'.repeat(100_000));
  assert.equal(parseJson(`"${"\\\\".repeat(100_000)}"`), "\\".repeat(100_000));
  const many = Array.from({ length: 20_000 }, (_, i) => `"t${i}":${entry("0", 0, 0)}`);
  assert.equal(Object.keys(state.safeParse(tensors(`{${many}}`))).length, 20_000);
});

Deno.test("hostile safetensors: the writer makes nothing that the reader refuses", () =>
  inFolder(async (folder) => {
    const w = new Tensor([1]), path = `${folder}/a`;
    const refuses = (dict: Record<string, Tensor>, metadata: Record<string, string>, why: RegExp) =>
      assert.rejects(
        state.safeSave(dict, path, { metadata }),
        (e: unknown) => (e instanceof ArgumentError || e instanceof TypeError) && why.test(e.message),
      );
    await refuses({ w }, { a: 1 as never }, /metadata "a" must be text, not 1$/);
    await refuses({ w }, { a: "x".repeat(100_000_001) }, /header would have \d+ bytes, more than the 100000000/);
    await refuses({ __metadata__: w }, {}, /safetensors has no such entry/);
    assert.deepEqual([...Deno.readDirSync(folder)], []);
  }));

/** A copy with a few bytes set, swapped, cut or doubled. */
function mutate(file: Bytes, random: Random, upTo = file.length): Bytes {
  let out = file.slice();
  for (let n = random.below(4) + 1; n > 0; n--) {
    const at = random.below(Math.min(upTo, out.length || 1));
    switch (random.below(5)) {
      case 0:
        out[at] = random.below(256);
        break;
      case 1:
        out[at] ^= 1 << random.below(8);
        break;
      case 2:
        out[at] = '0123456789{}[],:"-e.'.charCodeAt(random.below(20));
        break;
      case 3:
        out = new Uint8Array([...out.subarray(0, at), ...out.subarray(at + 1)]);
        break;
      default:
        out = new Uint8Array([...out.subarray(0, at), ...out.subarray(at - random.below(8)), ...out.subarray(at)]);
    }
  }
  return out;
}

Deno.test("hostile safetensors: bytes changed at random are refused or read, and nothing else", async () => {
  const dict = { a: new Tensor([[1, 2], [3, 4]]), b: new Tensor([1.5]), c: new Tensor([true, false]) };
  const sound = await state.safeBytes(dict, { metadata: { k: "v" } }) as Bytes, random = new Random(7);
  let refused = 0;
  const tries = 4000;
  for (let i = 0; i < tries; i++) {
    const file = mutate(sound, random);
    try {
      const read = state.safeParse(file), head = new DataView(file.buffer).getUint32(0, true);
      const held = Object.values(read).reduce((n, t) => n + t.nbytes(), 0);
      assert.equal(held, file.length - 8 - head);
    } catch (error) {
      if (!(error instanceof FormatError)) throw new Error(`${[...file]}`, { cause: error });
      refused++;
    }
  }
  assert.ok(refused > tries / 2, `${refused} of ${tries} refused`);
  for (let n = 0; n < sound.length; n++) assert.throws(() => state.safeParse(sound.subarray(0, n)), FormatError);
});

// ---- IDX

/** An IDX file of what its header says and some bytes. */
function idx(head: number[], data = 0): Bytes {
  const out = new Uint8Array(head.length + data);
  out.set(head);
  return out;
}
async function gzip(bytes: Bytes): Promise<Bytes> {
  const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(packed).arrayBuffer());
}
const u32 = (n: number): number[] => [n >>> 24, (n >>> 16) & 255, (n >>> 8) & 255, n & 255];

const IDX: readonly (readonly [name: string, file: Bytes, why: RegExp])[] = [
  ["nothing", idx([]), /it has 0 bytes, too few for a header$/],
  ["three bytes", idx([0, 0, 8]), /it has 3 bytes, too few for a header$/],
  ["no sizes", idx([0, 0, 8, 1]), /it has 4 bytes, too few for a header$/],
  ["half a size", idx([0, 0, 8, 1, 0, 0]), /it has 6 bytes, too few for a header$/],
  ["one size of three", idx([0, 0, 8, 3, ...u32(1)]), /too few for a header$/],
  ["another magic number", idx([1, 0, 8, 1, ...u32(1)], 1), /starts with 01 00 08 01, no magic number of an IDX file$/],
  ["little-endian", idx([1, 8, 0, 0, ...u32(1)], 1), /no magic number/],
  ["an unknown type", idx([0, 0, 0x0a, 1, ...u32(1)], 1), /starts with 00 00 0a 01/],
  ["type 0", idx([0, 0, 0, 1, ...u32(1)], 1), /no magic number/],
  ["text", new TextEncoder().encode("<!DOCTYPE html>"), /starts with 3c 21 44 4f/],
  ["no axes", idx([0, 0, 8, 0], 1), /it has 0 axes, not 1 to 8$/],
  ["255 axes", idx([0, 0, 8, 255, ...new Array(1020).fill(1)]), /it has 255 axes/],
  ["a byte too few", idx([0, 0, 8, 1, ...u32(5)], 4), /truncated: its sizes \[5\] need 13 bytes, and it has 12$/],
  ["a byte too many", idx([0, 0, 8, 1, ...u32(5)], 6), /1 bytes follow the last element$/],
  ["half an element", idx([0, 0, 0x0c, 1, ...u32(2)], 7), /need 16 bytes, and it has 15$/],
  ["nothing, then something", idx([0, 0, 8, 2, ...u32(0), ...u32(9)], 3), /3 bytes follow the last element$/],
  ["a size of 2^32 - 1", idx([0, 0, 8, 1, ...u32(-1)], 8), /sizes \[4294967295\] need 4294967295 bytes, too many$/],
  ["a size of 2^31", idx([0, 0, 8, 1, ...u32(2 ** 31)], 8), /need 2147483656 bytes, and it has 16$/],
  ["sizes that wrap 2^64 to 0", idx([0, 0, 8, 2, ...u32(2 ** 31), ...u32(2 ** 31)], 0), /too many$/],
  ["eight large sizes", idx([0, 0, 0x0e, 8, ...new Array(32).fill(255)]), /too many$/],
];

for (const [name, file, why] of IDX) {
  Deno.test(`hostile IDX: ${name}, plain and gzipped`, async () => {
    for (const bytes of [file, await gzip(file)]) {
      await assert.rejects(parseIdx(bytes, "f.idx"), (e: unknown) => {
        assert.ok(e instanceof FormatError && e.file === "f.idx", String(e));
        // a gzipped file is read up to the first byte too many, and not beyond what its header can mean
        const gz = bytes !== file;
        const loose = /bytes follow|truncated/.test(e.message) && /bytes|truncated/.test(why.source);
        assert.ok(why.test(e.message) || (gz && loose), e.message);
        return true;
      });
    }
  });
}

/** How many packed bytes are given to what unpacks them while a function runs. */
async function bytesFed(fn: () => Promise<unknown>): Promise<number> {
  const Original = globalThis.DecompressionStream;
  let bytes = 0;
  globalThis.DecompressionStream = class extends Original {
    override readonly writable: WritableStream<BufferSource>;
    constructor(format: CompressionFormat) {
      super(format);
      const writer = super.writable.getWriter();
      this.writable = new WritableStream({
        write: (chunk) => {
          bytes += chunk.byteLength;
          return writer.write(chunk);
        },
        close: () => writer.close(),
        abort: (reason) => writer.abort(reason),
      });
    }
  };
  try {
    await fn();
  } finally {
    globalThis.DecompressionStream = Original;
  }
  return bytes;
}

Deno.test("hostile IDX: gzip that is damaged, cut, followed by something, or a bomb", async () => {
  const sound = idx([0, 0, 8, 1, ...u32(1000)], 1000), packed = await gzip(sound);
  assert.deepEqual((await parseIdx(packed, "f")).shape, [1000]);
  const refuses = (bytes: Bytes, why: RegExp) =>
    assert.rejects(parseIdx(bytes, "f"), (e: unknown) => e instanceof FormatError && why.test(e.message));
  const broken = packed.slice();
  broken[broken.length - 6] ^= 1; // in the checksum
  await refuses(broken, /no sound gzip file/);
  await refuses(packed.slice(0, packed.length - 9), /no sound gzip file|truncated/);
  await refuses(new Uint8Array([...packed, 1, 2, 3]), /no sound gzip file|bytes follow/);
  await refuses(Uint8Array.of(0x1f, 0x8b), /no sound gzip file|too few/);
  // 100 MB of zeros behind a header that says 10: not unpacked
  const bomb = await gzip(idx([0, 0, 8, 1, ...u32(10)], 100_000_000));
  const fed = await bytesFed(() => refuses(bomb, /bytes follow the last element$/));
  assert.ok(fed > 0 && fed < bomb.length / 2, `${fed} bytes of ${bomb.length} were unpacked`);
  // a header that says 2 GB over a few bytes: nothing is allocated for it
  await refuses(await gzip(idx([0, 0, 8, 1, ...u32(2 ** 31 - 1)], 4)), /truncated/);
});

Deno.test("hostile IDX: bytes changed at random are refused or read, and nothing else", async () => {
  const sound = idx([0, 0, 8, 3, ...u32(2), ...u32(3), ...u32(4)], 24), random = new Random(11);
  const packed = await gzip(sound);
  let refused = 0;
  for (let i = 0; i < 2000; i++) {
    const file = i % 4 === 0 ? mutate(packed, random) : mutate(sound, random, 20);
    try {
      const { shape, data } = await parseIdx(file, "f");
      assert.equal(data.length, shape.reduce((a, b) => a * b, 1));
    } catch (error) {
      if (!(error instanceof FormatError)) throw new Error(`${[...file]}`, { cause: error });
      refused++;
    }
  }
  assert.ok(refused > 500, `${refused} refused`);
});
