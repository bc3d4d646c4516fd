/**
 * The block formats of GGUF files: how many elements a block has, how many bytes, and the operations that make numbers
 * of its bytes. They are ordinary operations of the graph on a tensor of bytes, so that they fuse into the product that
 * reads them, on every device. The values are those of ggml, to the last bit: every product before the last sum fits in
 * 24 bits.
 *
 * They come in two parts: the bytes of blocks are sorted into planes, one for each kind of field, and numbers are made of
 * planes. Weights are sorted once, when they are loaded: then what is read together lies together, and is aligned.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { describe } from "../../helpers/options.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { codeword, GRIDS } from "./codebooks.ts";

/** The name of a block format, as GGUF calls it. */
export type FormatName =
  | ("F64" | "F32" | "F16" | "BF16" | "I8" | "I16" | "I32" | "I64")
  | ("Q4_0" | "Q4_1" | "Q5_0" | "Q5_1" | "Q8_0" | "Q2_K" | "Q3_K" | "Q4_K" | "Q5_K" | "Q6_K")
  | ("IQ1_S" | "IQ1_M" | "IQ2_XXS" | "IQ2_XS" | "IQ2_S" | "IQ3_XXS" | "IQ3_S" | "IQ4_NL" | "IQ4_XS")
  | ("TQ1_0" | "TQ2_0" | "MXFP4" | "NVFP4" | "Q1_0");

/** Numbers `scale * quant + offset`, in groups that share the scale and the offset. */
export interface ByteGroups {
  /** Whole numbers from 0 to 255, int32 `[..., G, S]`. */
  readonly quants: Tensor;
  /** Float32 `[..., G]`. */
  readonly scale: Tensor;
  readonly offset: Tensor;
}

/** One format. */
export interface BlockFormat {
  /** As GGUF names it. */
  readonly name: FormatName;
  /** Its number in files. */
  readonly id: number;
  /** Elements of a block. */
  readonly elements: number;
  /** Bytes of a block. */
  readonly nbytes: number;
  /** Of formats whose blocks are plain elements: what they are. */
  readonly plain: DType | undefined;
  /** Float32 `[..., elements]` of bytes `[..., nbytes]`. */
  readonly unpack: (raw: Tensor) => Tensor;
  /** The fields of blocks, each kind in a tensor `[..., k]`: scales, quants. Together no larger than 1.1 times the bytes. */
  readonly planes: (raw: Tensor) => readonly Tensor[];
  /** Float32 `[..., elements]` of planes. */
  readonly numbers: (planes: readonly Tensor[]) => Tensor;
  /** The numbers as bytes with scales, where neighboring bytes of planes make neighboring ones; undefined for others. */
  readonly bytes: ((planes: readonly Tensor[]) => ByteGroups) | undefined;
}

const { float32, int32, int8, uint8, uint16, uint32 } = dtypes;

/** Bytes `[at, at + n)` of each block. */
function bytes(raw: Tensor, at: number, n: number): Tensor {
  return raw.at("...", [at, at + n]);
}
/** The same as int32, where bits are cut out. */
function ints(raw: Tensor, at: number, n: number): Tensor {
  return bytes(raw, at, n).cast(int32);
}
/** The half float at byte `at`: `[..., 1]`. */
function halfAt(raw: Tensor, at: number): Tensor {
  return bytes(raw, at, 2).bitcast(dtypes.float16);
}
/** The same as float32. */
function half(raw: Tensor, at: number): Tensor {
  return halfAt(raw, at).cast(float32);
}
/** The signed bytes. */
function signed(raw: Tensor, at: number, n: number): Tensor {
  return bytes(raw, at, n).bitcast(dtypes.int8);
}
/** 0, step, 2 step ... of `n`, along the axis that is `after` axes before the last. Computed wherever it is read. */
function steps(n: number, step: number, after: number): Tensor {
  const t = Tensor.arange(n, { dtype: int32 }).mul(step);
  return after === 0 ? t : t.reshape([n, ...Array(after).fill(1)]);
}
/** `n` fields of `width` bits of each of `[..., k]`, lowest first: `[..., n, k]`. */
function fields(q: Tensor, n: number, width: number): Tensor {
  return q.unsqueeze(-2).rshift(steps(n, width, 1)).bitwiseAnd((1 << width) - 1);
}
/** The last axis cut into `[..., a, b]`. */
function cut(x: Tensor, ...sizes: number[]): Tensor {
  return x.reshape([...x.shape.slice(0, -1), ...sizes]);
}
/** The last `axes` axes as one. */
function join(x: Tensor, axes: number): Tensor {
  const at = x.ndim - axes;
  return x.reshape([...x.shape.slice(0, at), x.shape.slice(at).reduce((a, b) => a * b, 1)]);
}
/** Nibbles of bytes `[..., k]`, the low ones first: `[..., 2 k]`. */
function nibbles(q: Tensor): Tensor {
  return join(fields(q.cast(int32), 2, 4), 2);
}
/**
 * `n` times 32 bits from byte `at` on, sorted so that bytes of neighboring elements are neighbors: bit f of byte j is that of
 * element 4 f + j. uint8 `[..., 4 n]`.
 */
function sortedBits(raw: Tensor, at: number, n = 1): Tensor {
  const words = bytes(raw, at, 4 * n).bitcast(int32), apart = n === 1 ? words : words.unsqueeze(-1);
  let x = apart.rshift(steps(4, 1, 0)).bitwiseAnd(0x11111111);
  // every fourth bit, moved together
  for (const [by, mask] of [[3, 0x03030303], [6, 0x000f000f], [12, 0xff]]) {
    x = x.bitwiseOr(x.rshift(by)).bitwiseAnd(mask);
  }
  return (n === 1 ? x : join(x, 2)).cast(uint8);
}
/** Such bits, moved up to bit 4: `[..., 32]`. */
function fifthBits(high: Tensor): Tensor {
  return join(fields(high.cast(int32), 8, 1), 2).lshift(4);
}
/** 128 such bits, times 2. */
function twiceBits(q: Tensor): Tensor {
  return join(fields(cut(q.cast(int32), 4, 4), 8, 1), 3).lshift(1);
}
/** The 6-bit scales and minima of Q4_K and Q5_K, of 12 bytes: both `[..., 8]`. */
function scaleMin(raw: Tensor, at: number): [Tensor, Tensor] {
  // bytes 0-3: low scales, 4-7: low minima, both with the two upper bits of the others on top, 8-11: nibbles of those
  const [a, b, c] = [0, 4, 8].map((k) => ints(raw, at + k, 4));
  const late = (low: Tensor, high: Tensor) => low.bitwiseAnd(15).bitwiseOr(high.rshift(6).lshift(4));
  const pick = (x: Tensor, y: Tensor) => Tensor.cat([x.bitwiseAnd(63), y], -1);
  return [pick(a, late(c, a)), pick(b, late(c.rshift(4), b))];
}
/** The values `table[q]` of a table of 16 small ones: four to a word, so that no memory is read for them. */
function looked(q: Tensor, table: readonly number[]): Tensor {
  const packed = new Int32Array(Int8Array.from(table).buffer);
  const word = (i: number, n: number): Tensor | number =>
    n === 1 ? packed[i] : q.lt(4 * i + 2 * n).where(word(i, n / 2), word(i + n / 2, n / 2));
  const up = q.bitwiseAnd(3).bitwiseXor(3).lshift(3); // what moves the byte to the top
  return (word(0, 4) as Tensor).cast(int32).lshift(up).rshift(24);
}

/**
 * The same for bytes, which are chosen bit by bit: what is done to one can be done to four at once. The last bit chooses of
 * two numbers, the one before of two such choices, and so on.
 */
function chosen(q: Tensor, table: readonly number[]): Tensor {
  const masks = [0, 1, 2, 3].map((i) => q.rshift(i).bitwiseAnd(1).mul(255));
  const choice = (from: number, bit: number): Tensor => {
    const m = masks[bit], next = from + (1 << bit);
    if (bit === 0) return m.bitwiseAnd(table[from] ^ table[next]).bitwiseXor(table[from]);
    const [a, b] = [choice(from, bit - 1), choice(next, bit - 1)];
    return a.bitwiseXor(b).bitwiseAnd(m).bitwiseXor(a);
  };
  return choice(0, 3).bitwiseAnd(255);
}
/** Twice the number of E2M1, and 15: of the sign and three bits, without a table. */
function e2m1(q: Tensor): Tensor {
  const x = q.bitwiseAnd(7), sign = q.rshift(3).mul(15);
  // 4 and more are twice what they seem, or four times: one or three of the last bits are added
  const high = x.rshift(1).bitwiseAnd(x).bitwiseAnd(2), last = x.rshift(2).bitwiseAnd(x).bitwiseAnd(1);
  const size = x.add(last).add(high).add(x.lshift(1).bitwiseAnd(high)).bitwiseAnd(15);
  return size.bitwiseXor(sign).bitwiseAnd(15).add(sign.bitwiseXor(15).bitwiseAnd(15));
}

const IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
const IQ4_BYTES = IQ4.map((x) => x + 128);
/** Twice the values of E2M1. */
const E2M1 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/** 2^(x - 128) of an exponent byte, exactly, also where it is below the least normal number. */
function halfExponent(e: Tensor): Tensor {
  const x = e.cast(uint32);
  const normal = x.maximum(1).sub(1).lshift(23), tiny = x.eq(0).where(0x00200000, 0x00400000).cast(uint32);
  return x.lt(2).where(tiny, normal).bitcast(float32);
}
/** The bits of unsigned floats of 4 bits exponent and 3 of mantissa; what is none is 0. */
function bitsE4M3(e: Tensor): Tensor {
  return e.eq(0x7f).where(0, e.bitwiseAnd(127)).cast(uint8);
}
/** Half of such a number: its fields where those of a float are, or, below the least normal one, a multiple. */
function halfE4M3(bits: Tensor): Tensor {
  const x = bits.cast(int32), normal = x.lshift(20).add(119 << 23).bitcast(float32);
  return x.lt(8).where(x.cast(float32).mul(2 ** -10), normal);
}

/** Bytes `[..., k]` of nibbles, 32 low then 32 high: `[..., k / 16, 32]`. */
function nibbles64(q: Tensor): Tensor {
  const at = q.ndim - 1, x = fields(cut(q.cast(int32), q.shape[at] / 32, 32), 2, 4); // [..., k / 32, 2, 32]
  return x.reshape([...q.shape.slice(0, at), q.shape[at] / 16, 32]);
}
/** Nibbles of 16 bytes at a time, the low ones first: `[..., 8, 32]`. */
function nibbles16(q: Tensor): Tensor {
  return join(fields(cut(q.cast(int32), 8, 16), 2, 4), 2);
}
/** Of 8 bytes at a time: `[..., 4, 16]`. */
function nibbles8(q: Tensor): Tensor {
  return join(fields(cut(q.cast(int32), 4, 8), 2, 4), 2);
}
/** The scales of Q3_K: 16 of 6 bits in 12 bytes. */
function scales3(raw: Tensor, at: number): Tensor {
  const low = join(fields(ints(raw, at, 8), 2, 4), 2); // 8 low nibbles, then 8 high ones
  const high = join(fields(ints(raw, at + 8, 4), 4, 2), 2);
  return low.bitwiseOr(high.lshift(4)).sub(32);
}
/** Two bits of 64 bytes, 32 at a time, four fields each: `[..., 256]`. */
function pairs(q: Tensor): Tensor {
  return join(fields(cut(q.cast(int32), 2, 32), 4, 2), 3);
}
/** Ternary digits of `count` bytes, `group` at a time, `digits` of each: the order of elements. */
function trits(raw: Tensor, at: number, count: number, group: number, digits: number): Tensor {
  const powers = new Tensor([1, 3, 9, 27, 81].slice(0, digits), { dtype: int32, device: raw.device });
  const q = cut(ints(raw, at, count), count / group, 1, group).mul(powers.reshape([digits, 1])).bitwiseAnd(255);
  return join(q.mul(3).rshift(8).sub(1), 3);
}

/** Signs from seven bits: the eighth makes their number even. `[..., 8]` of `[...]`: 1 or -1. */
function evenSigns(s: Tensor): Tensor {
  const fold = (x: Tensor, n: number) => x.bitwiseXor(x.rshift(n));
  const parity = fold(fold(fold(s, 4), 2), 1).bitwiseAnd(1);
  return signsOf(s.bitwiseOr(parity.lshift(7)));
}
/** Signs of eight bits: `[..., 8]` of `[...]`. */
function signsOf(s: Tensor): Tensor {
  return s.unsqueeze(-1).rshift(steps(8, 1, 0)).bitwiseAnd(1).mul(-2).add(1).cast(float32);
}
/** Little-endian words at byte `at`. */
function words(raw: Tensor, at: number, n: number, dtype: DType): Tensor {
  return bytes(raw, at, n * dtype.itemsize).bitcast(dtype).cast(int32);
}

function iq2xxs(raw: Tensor): Tensor {
  const q = cut(bytes(raw, 2, 64), 8, 8), s = q.at("...", [4, 8]).bitcast(uint32); // [..., 8, 1]
  const scale = half(raw, 0).unsqueeze(-1).mul(s.rshift(28).cast(float32).add(0.5)).mul(0.25).unsqueeze(-1);
  const signs = evenSigns(s.rshift(steps(4, 7, 0).cast(uint32)).bitwiseAnd(127).cast(int32));
  const grid = codeword(q.at("...", [0, 4]).cast(int32), GRIDS.iq2xxs, 8);
  return join(scale.mul(grid).mul(signs), 3);
}
function iq2xs(raw: Tensor): Tensor {
  const q = cut(words(raw, 2, 32, uint16), 16, 2);
  const sc = join(fields(ints(raw, 66, 8).unsqueeze(-1), 2, 4), 3); // [..., 16]
  const scale = half(raw, 0).mul(sc.cast(float32).add(0.5)).mul(0.25).unsqueeze(-1).unsqueeze(-1);
  return join(scale.mul(codeword(q.bitwiseAnd(511), GRIDS.iq2xs, 8)).mul(evenSigns(q.rshift(9))), 3);
}
function iq2s(raw: Tensor): Tensor {
  const high = fields(ints(raw, 66, 8).unsqueeze(-1), 4, 2), q = cut(ints(raw, 2, 32), 8, 4, 1); // [..., 8, 4, 1]
  const index = q.bitwiseOr(high.lshift(8)), signs = signsOf(cut(ints(raw, 34, 32), 8, 4));
  const sc = join(fields(ints(raw, 74, 8).unsqueeze(-1), 2, 4), 3);
  const scale = cut(half(raw, 0).mul(sc.cast(float32).add(0.5)).mul(0.25), 16, 1, 1);
  const values = codeword(join(index, 3), GRIDS.iq2s, 8).mul(
    join(signs.unsqueeze(-2), 4).reshape([
      ...raw.shape.slice(0, -1),
      32,
      8,
    ]),
  );
  return join(scale.mul(cut(join(values, 2), 16, 2, 8)), 3);
}
function iq3xxs(raw: Tensor): Tensor {
  const s = cut(bytes(raw, 66, 32), 8, 4).bitcast(uint32); // [..., 8, 1]
  const scale = half(raw, 0).unsqueeze(-1).mul(s.rshift(28).cast(float32).add(0.5)).mul(0.5).unsqueeze(-1);
  const signs = evenSigns(s.rshift(steps(4, 7, 0).cast(uint32)).bitwiseAnd(127).cast(int32));
  const grid = codeword(cut(ints(raw, 2, 64), 8, 8), GRIDS.iq3xxs, 4); // [..., 8, 8, 4]
  return join(scale.mul(grid.reshape([...grid.shape.slice(0, -2), 4, 8])).mul(signs), 3);
}
function iq3s(raw: Tensor): Tensor {
  const high = fields(ints(raw, 66, 8).unsqueeze(-1), 8, 1), q = cut(ints(raw, 2, 64), 8, 8, 1);
  const grid = codeword(join(q.bitwiseOr(high.lshift(8)), 3), GRIDS.iq3s, 4); // [..., 64, 4]
  const signs = signsOf(ints(raw, 74, 32)); // [..., 32, 8]
  const sc = join(fields(ints(raw, 106, 4).unsqueeze(-1), 2, 4), 3); // [..., 8]
  const scale = cut(half(raw, 0).mul(sc.mul(2).add(1).cast(float32)), 8, 1);
  return join(scale.mul(cut(join(grid, 2), 8, 32)).mul(cut(join(signs, 2), 8, 32)), 2);
}
/** The codewords of IQ1 are -1, 0 and 1, with an eighth added or taken away. */
function iq1s(raw: Tensor): Tensor {
  const h = words(raw, 34, 8, uint16).unsqueeze(-1), q = cut(ints(raw, 2, 32), 8, 4);
  const index = q.bitwiseOr(h.rshift(steps(4, 3, 0)).bitwiseAnd(7).lshift(8));
  const scale = half(raw, 0).unsqueeze(-1).mul(h.rshift(12).bitwiseAnd(7).mul(2).add(1).cast(float32)).unsqueeze(-1);
  const delta = h.bitwiseAnd(0x8000).ne(0).where(-0.125, 0.125).cast(float32).unsqueeze(-1);
  return join(scale.mul(codeword(index, GRIDS.iq1s, 8).add(delta)), 3);
}
function iq1m(raw: Tensor): Tensor {
  const s = words(raw, 48, 4, uint16); // the upper nibbles are a half float
  const bitsOfHalf = s.rshift(12).lshift(steps(4, 4, 0)).sum(-1, { keepdim: true });
  const d = bitsOfHalf.cast(uint16).bitcast(dtypes.float16).cast(float32);
  const sc = join(s.unsqueeze(-1).rshift(steps(4, 3, 0)).bitwiseAnd(7), 2); // [..., 16]
  const scale = cut(d.mul(sc.mul(2).add(1).cast(float32)), 16, 1, 1);
  const h = join(fields(ints(raw, 32, 16).unsqueeze(-1), 2, 4), 3); // [..., 32]
  const index = ints(raw, 0, 32).bitwiseOr(h.bitwiseAnd(7).lshift(8));
  const delta = h.bitwiseAnd(8).ne(0).where(-0.125, 0.125).cast(float32).unsqueeze(-1);
  return join(scale.mul(cut(join(codeword(index, GRIDS.iq1s, 8).add(delta), 2), 16, 2, 8)), 3);
}

/** How numbers are made of planes. */
type Made = (...planes: Tensor[]) => Tensor;
type Row = readonly [
  id: number,
  elements: number,
  nbytes: number,
  planes: (raw: Tensor) => readonly Tensor[],
  numbers: Made,
  plain?: DType,
];

function plain(id: number, dtype: DType): Row {
  return [id, 1, dtype.itemsize, (raw) => [raw.bitcast(dtype)], (x) => x.cast(float32), dtype];
}
/** Blocks whose bytes stay as they are. */
function whole(id: number, elements: number, nbytes: number, numbers: (raw: Tensor) => Tensor): Row {
  return [id, elements, nbytes, (raw) => [raw], numbers];
}
/** Groups of quants `[..., G, S]` times scales `[..., G]`, and `offset` `[..., G]` added: `[..., G S]`. */
function scaled(quants: Tensor, scale: Tensor, offset?: Tensor): Tensor {
  const x = quants.cast(float32).mul(scale.unsqueeze(-1));
  return join(offset === undefined ? x : x.add(offset.unsqueeze(-1)), 2);
}
/** Quants of 256 elements with a scale and a minimum for each 32, both of 6 bits. */
function kBlocks(
  id: number,
  nbytes: number,
  quants: (raw: Tensor) => readonly Tensor[],
  join: (...q: Tensor[]) => Tensor,
): Row {
  const planes = (r: Tensor) => [
    halfAt(r, 0),
    halfAt(r, 2),
    ...scaleMin(r, 4).map((x) => x.cast(uint8)),
    ...quants(r),
  ];
  return [id, 256, nbytes, planes, (d, least, sc, m, ...q) => {
    const of = (x: Tensor, y: Tensor) => x.cast(float32).mul(y.cast(float32));
    return scaled(join(...q), of(d, sc), of(least, m).neg());
  }];
}
/** One group of quants `[..., S]` with a scale, and an offset. */
function group(quants: Tensor, d: Tensor, offset?: Tensor): Tensor {
  const x = d.cast(float32).mul(quants.cast(float32));
  return offset === undefined ? x : x.add(offset.cast(float32));
}

const ROWS: Readonly<Record<FormatName, Row>> = {
  F32: plain(0, float32),
  F16: plain(1, dtypes.float16),
  Q4_0: [2, 32, 18, (r) => [halfAt(r, 0), bytes(r, 2, 16)], (d, q) => group(nibbles(q).sub(8), d)],
  Q4_1: [3, 32, 20, (r) => [halfAt(r, 0), halfAt(r, 2), bytes(r, 4, 16)], (d, m, q) => group(nibbles(q), d, m)],
  Q5_0: [
    6,
    32,
    22,
    (r) => [halfAt(r, 0), sortedBits(r, 2), bytes(r, 6, 16)],
    (d, high, q) => group(nibbles(q).bitwiseOr(fifthBits(high)).sub(16), d),
  ],
  Q5_1: [
    7,
    32,
    24,
    (r) => [halfAt(r, 0), halfAt(r, 2), sortedBits(r, 4), bytes(r, 8, 16)],
    (d, m, high, q) => group(nibbles(q).bitwiseOr(fifthBits(high)), d, m),
  ],
  Q8_0: [8, 32, 34, (r) => [halfAt(r, 0), signed(r, 2, 32)], (d, q) => group(q, d)],
  Q2_K: [
    10,
    256,
    84,
    (r) => [halfAt(r, 80), halfAt(r, 82).neg(), bytes(r, 0, 16), bytes(r, 16, 64)],
    (d, least, s, q) => {
      const x = s.cast(int32), of = (h: Tensor, y: Tensor) => h.cast(float32).mul(y.cast(float32));
      return scaled(cut(pairs(q), 16, 16), of(d, x.bitwiseAnd(15)), of(least, x.rshift(4)));
    },
  ],
  Q3_K: [
    11,
    256,
    110,
    (r) => [halfAt(r, 108), scales3(r, 96).cast(int8), bytes(r, 0, 32), bytes(r, 32, 64)],
    (d, s, high, q) => {
      const top = join(fields(high.cast(int32), 8, 1), 2).mul(4);
      return scaled(cut(pairs(q).add(top).sub(4), 16, 16), d.cast(float32).mul(s.cast(float32)));
    },
  ],
  Q4_K: kBlocks(12, 144, (r) => [bytes(r, 16, 128)], nibbles64),
  Q5_K: kBlocks(
    13,
    176,
    (r) => [bytes(r, 16, 32), bytes(r, 48, 128)],
    (high, q) => nibbles64(q).bitwiseOr(fields(high.cast(int32), 8, 1).lshift(4)),
  ),
  Q6_K: [
    14,
    256,
    210,
    (r) => [halfAt(r, 208), signed(r, 192, 16), bytes(r, 0, 128), bytes(r, 128, 64)],
    (d, s, low, high) => {
      const bottom = join(fields(cut(low.cast(int32), 2, 64), 2, 4), 3); // 64 low nibbles, then 64 high ones
      const q = bottom.bitwiseOr(pairs(high).lshift(4)).sub(32);
      return scaled(cut(q, 16, 16), d.cast(float32).mul(s.cast(float32)));
    },
  ],
  IQ2_XXS: whole(16, 256, 66, iq2xxs),
  IQ2_XS: whole(17, 256, 74, iq2xs),
  IQ3_XXS: whole(18, 256, 98, iq3xxs),
  IQ1_S: whole(19, 256, 50, iq1s),
  IQ4_NL: [20, 32, 18, (r) => [halfAt(r, 0), bytes(r, 2, 16)], (d, q) => group(looked(nibbles(q), IQ4), d)],
  IQ3_S: whole(21, 256, 110, iq3s),
  IQ2_S: whole(22, 256, 82, iq2s),
  IQ4_XS: [23, 256, 136, (r) => {
    const low = join(fields(ints(r, 4, 4).unsqueeze(-1), 2, 4), 3); // [..., 8]
    const high = words(r, 2, 1, uint16).rshift(steps(8, 2, 0)).bitwiseAnd(3);
    return [halfAt(r, 0), low.bitwiseOr(high.lshift(4)).sub(32).cast(int8), bytes(r, 8, 128)];
  }, (d, s, q) => {
    return scaled(looked(nibbles16(q), IQ4), d.cast(float32).mul(s.cast(float32)));
  }],
  I8: plain(24, dtypes.int8),
  I16: plain(25, dtypes.int16),
  I32: plain(26, int32),
  I64: plain(27, dtypes.int64),
  F64: plain(28, dtypes.float64),
  IQ1_M: whole(29, 256, 56, iq1m),
  BF16: plain(30, dtypes.bfloat16),
  TQ1_0: whole(34, 256, 54, (r) => {
    const q = Tensor.cat([trits(r, 0, 32, 32, 5), trits(r, 32, 16, 16, 5), trits(r, 48, 4, 4, 4)], -1);
    return q.cast(float32).mul(half(r, 52));
  }),
  TQ2_0: [35, 256, 66, (r) => [halfAt(r, 64), bytes(r, 0, 64)], (d, q) => group(pairs(q).sub(1), d)],
  MXFP4: [
    39,
    32,
    17,
    // powers of two are bfloat16 numbers, and those cost less than their exponents where they are used
    (r) => [halfExponent(bytes(r, 0, 1)).cast(dtypes.bfloat16), bytes(r, 1, 16)],
    (d, q) => group(looked(nibbles(q), E2M1), d),
  ],
  NVFP4: [40, 64, 36, (r) => [bitsE4M3(bytes(r, 0, 4)), bytes(r, 4, 32)], (e, q) => {
    return scaled(looked(nibbles8(q), E2M1), halfE4M3(e));
  }],
  Q1_0: [41, 128, 18, (r) => [halfAt(r, 0), sortedBits(r, 2, 4)], (d, q) => group(twiceBits(q).sub(1), d)],
};

/** Bytes with a scale and an offset. */
function byteGroups(quants: Tensor, scale: Tensor, offset: Tensor | number): ByteGroups {
  return { quants, scale, offset: typeof offset === "number" ? scale.mul(offset) : offset };
}
function scaleOf(d: Tensor, s: Tensor): Tensor {
  return d.cast(float32).mul(s.cast(float32));
}
/** One group a block. */
function oneGroup(quants: Tensor, d: Tensor, offset: Tensor | number): ByteGroups {
  return byteGroups(quants.unsqueeze(-2), d.cast(float32), typeof offset === "number" ? offset : offset.cast(float32));
}

/** {@linkcode BlockFormat.bytes} by format. */
const BYTES: Partial<Record<FormatName, (...planes: Tensor[]) => ByteGroups>> = {
  Q4_0: (d, q) => oneGroup(nibbles(q), d, -8),
  Q4_1: (d, m, q) => oneGroup(nibbles(q), d, m),
  Q8_0: (d, q) => oneGroup(q.cast(int32).add(128), d, -128),
  Q5_0: (d, high, q) => oneGroup(nibbles(q).bitwiseOr(fifthBits(high)), d, -16),
  Q5_1: (d, m, high, q) => oneGroup(nibbles(q).bitwiseOr(fifthBits(high)), d, m),
  Q2_K: (d, least, s, q) => {
    // without a cast or a sign more: what costs no more than a group has elements is computed beside its sum
    return byteGroups(cut(pairs(q), 16, 16), scaleOf(d, s.bitwiseAnd(15)), scaleOf(least, s.rshift(4)));
  },
  Q3_K: (d, s, high, q) => {
    const top = join(fields(high.cast(int32), 8, 1), 2).lshift(2);
    return byteGroups(cut(pairs(q).bitwiseOr(top), 16, 16), scaleOf(d, s), -4);
  },
  Q4_K: (d, least, sc, m, q) => byteGroups(nibbles64(q), scaleOf(d, sc), scaleOf(least, m).neg()),
  Q5_K: (d, least, sc, m, high, q) =>
    byteGroups(
      nibbles64(q).bitwiseOr(fields(high.cast(int32), 8, 1).lshift(4)),
      scaleOf(d, sc),
      scaleOf(least, m).neg(),
    ),
  Q6_K: (d, s, low, high) => {
    const bottom = join(fields(cut(low.cast(int32), 2, 64), 2, 4), 3);
    return byteGroups(cut(bottom.bitwiseOr(pairs(high).lshift(4)), 16, 16), scaleOf(d, s), -32);
  },
  TQ2_0: (d, q) => oneGroup(pairs(q), d, -1),
  IQ4_NL: (d, q) => oneGroup(chosen(nibbles(q), IQ4_BYTES), d, -128),
  IQ4_XS: (d, s, q) => byteGroups(chosen(nibbles16(q), IQ4_BYTES), scaleOf(d, s), -128),
  MXFP4: (d, q) => oneGroup(e2m1(nibbles(q)), d, -15),
  NVFP4: (e, q) => byteGroups(e2m1(nibbles8(q)), halfE4M3(e), -15),
  Q1_0: (d, q) => oneGroup(twiceBits(q), d, -1),
};

/** All formats, by name. */
export const BLOCK_FORMATS: ReadonlyMap<string, BlockFormat> = new Map(
  Object.entries(ROWS).map(([name, [id, elements, nbytes, planes, made, plain]]) => {
    const bytes = BYTES[name as FormatName];
    const numbers = (x: readonly Tensor[]) => made(...x), unpack = (raw: Tensor) => numbers(planes(raw));
    return [name, {
      name: name as FormatName,
      id,
      elements,
      nbytes,
      unpack,
      planes,
      numbers,
      plain,
      bytes: bytes && ((x) => bytes(...x)),
    }];
  }),
);
const BY_ID = new Map([...BLOCK_FORMATS.values()].map((f) => [f.id, f]));

/** The format of a number in a file, if it is known. */
export function formatOfId(id: number): BlockFormat | undefined {
  return BY_ID.get(id);
}

/**
 * The numbers of blocks: float32 of the shape `[..., n * elements]` of bytes of the shape `[..., n * nbytes]`. Lazy.
 *
 * @throws {ShapeError} for rows that are no whole blocks
 */
export function dequantize(raw: Tensor, format: BlockFormat): Tensor {
  const action = "read blocks", bytes = checkTensor(action, "raw", raw), known = BLOCK_FORMATS.get(format?.name);
  if (known === undefined) {
    throw new ArgumentError(action, { reason: `${describe(format)} is no format; BLOCK_FORMATS.get("Q8_0") is one` });
  }
  const row = bytes.shape.at(-1);
  if (row === undefined || row % known.nbytes !== 0) {
    const reason = `rows of ${row ?? "no"} bytes are no blocks of ${known.name}, which have ${known.nbytes}`;
    throw new ShapeError(action, { shapes: [bytes.shape], reason });
  }
  return numbersOf(planesOf(raw, format), format);
}

/** The planes of blocks, each `[..., n, k]`, of bytes of the shape `[..., n * nbytes]`. Lazy. */
export function planesOf(raw: Tensor, format: BlockFormat): readonly Tensor[] {
  const at = raw.ndim - 1, count = raw.shape[at] / format.nbytes;
  return format.planes(raw.reshape([...raw.shape.slice(0, at), count, format.nbytes]));
}
/** Float32 `[..., n * elements]` of planes `[..., n, k]`. Lazy. */
export function numbersOf(planes: readonly Tensor[], format: BlockFormat): Tensor {
  const flat = format.numbers(planes), at = flat.ndim - 2;
  return flat.reshape([...flat.shape.slice(0, at), flat.shape[at] * flat.shape[at + 1]]);
}
