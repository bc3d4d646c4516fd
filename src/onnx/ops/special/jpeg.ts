/**
 * JPEG, sequential and progressive, of 8 bits, gray or three colors. In: bytes of a file; out: red, green and blue of each
 * pixel, by rows, to the bit as the reference decoder (libjpeg) gives them by default: its transform in whole numbers, and
 * colors of half the size brought to full size by weights of 3 and 1. Every length is checked before memory is taken.
 * Sources: ITU-T T.81 and T.871; Loeffler, Ligtenberg and Moschytz, "Practical fast 1-D DCT algorithms", 1989.
 *
 * @module
 */
import { clamp, type Fault, type Pixels, pixels } from "./pixels.ts";

/** Where in a block of 8 by 8 the coefficients lie, in the order of the file. */
const ZIGZAG = Uint8Array.from(
  Array.from({ length: 64 }, (_, i) => [i >> 3, i & 7] as const)
    .sort(([y, x], [v, u]) => y + x - v - u || ((y + x) % 2 === 0 ? v - y : y - v))
    .map(([y, x]) => y * 8 + x),
);

/** A code: for each length the first code of it, how many there are, and where their values begin. */
interface Huffman {
  readonly counts: Uint8Array;
  readonly values: Uint8Array;
}
interface Component {
  readonly id: number;
  /** Blocks of a unit of all components, along and down. */
  readonly h: number;
  readonly v: number;
  readonly table: number;
  /** Samples, and blocks that hold them; rows of blocks are filled to whole units. */
  readonly width: number;
  readonly height: number;
  readonly stride: number;
  readonly coefficients: Int16Array;
}
interface Frame extends Pixels {
  readonly isProgressive: boolean;
  readonly components: readonly Component[];
  /** Units along and down. */
  readonly units: readonly [number, number];
  readonly most: readonly [h: number, v: number];
}

/** The bits of a scan: a byte 255 has a zero behind it, or begins a marker. */
class Bits {
  private held = 0;
  private count = 0;
  constructor(private readonly bytes: Uint8Array, public at: number, private readonly bad: Fault) {}

  bit(): number {
    if (this.count === 0) {
      const byte = this.bytes[this.at];
      if (byte === undefined || byte === 0xff && this.bytes[this.at + 1] !== 0) throw this.bad("its data ends early");
      this.at += byte === 0xff ? 2 : 1;
      this.held = byte;
      this.count = 8;
    }
    return this.held >> --this.count & 1;
  }
  /** A whole number of `n` bits. */
  number(n: number): number {
    let x = 0;
    while (n-- > 0) x = x << 1 | this.bit();
    return x;
  }
  /** One of `n` bits with its sign: the lower half stands for negative numbers. */
  signed(n: number): number {
    const x = this.number(n);
    return n === 0 || x >> (n - 1) ? x : x - (1 << n) + 1;
  }
  symbol({ counts, values }: Huffman): number {
    let code = 0, first = 0, at = 0;
    for (let n = 1; n <= 16; n++) {
      code = code << 1 | this.bit();
      if (code - first < counts[n]) return values[at + code - first];
      at += counts[n];
      first = first + counts[n] << 1;
    }
    throw this.bad("its data has a code that is none");
  }
  /** Goes on behind the marker of a restart. */
  restart(): void {
    this.count = 0;
    if (this.bytes[this.at] !== 0xff || (this.bytes[this.at + 1] & 0xf8) !== 0xd0) {
      throw this.bad("a restart is missing in its data");
    }
    this.at += 2;
  }
}

/** What a scan has: coefficients from `from` to `to`, bits from `low`; refined where there were some before. */
interface Scan {
  readonly from: number;
  readonly to: number;
  readonly isRefined: boolean;
  readonly low: number;
}
/** A component in a scan. */
interface Part {
  readonly component: Component;
  readonly dc: Huffman | undefined;
  readonly ac: Huffman | undefined;
  /** The last DC coefficient. */
  last: number;
}

/** Reads blocks; blocks that are done already are counted by `run`. */
class BlockReader {
  private run = 0;
  constructor(private readonly bits: Bits, private readonly scan: Scan, private readonly bad: Fault) {}

  reset(): void {
    this.run = 0;
  }
  private tableOf(table: Huffman | undefined): Huffman {
    if (table === undefined) throw this.bad("a scan names a code that is not there");
    return table;
  }
  /** A block of a part, whose coefficients begin at `at`. */
  read(part: Part, at: number): void {
    const { bits, scan } = this, { from, isRefined, low } = scan, c = part.component.coefficients;
    let k = from;
    if (k === 0) {
      if (isRefined) c[at] |= bits.bit() << low;
      else c[at] = (part.last += bits.signed(bits.symbol(this.tableOf(part.dc)) & 15)) << low;
      k = 1;
    }
    if (k > scan.to) return;
    if (isRefined) this.refine(c, at, k, this.tableOf(part.ac));
    else this.fill(c, at, k, this.tableOf(part.ac));
  }
  private fill(c: Int16Array, at: number, k: number, table: Huffman): void {
    const { bits, scan: { to, low } } = this;
    if (this.run > 0) return void this.run--;
    for (; k <= to; k++) {
      const symbol = bits.symbol(table), zeros = symbol >> 4, size = symbol & 15;
      if (size === 0 && zeros < 15) {
        this.run = (1 << zeros) - 1 + bits.number(zeros);
        return;
      }
      k += zeros;
      if (k > to) throw this.bad("a block of its data has more than 64 coefficients");
      if (size > 0) c[at + ZIGZAG[k]] = bits.signed(size) << low;
    }
  }
  /** One more bit of those that are not zero, and some that were. */
  private refine(c: Int16Array, at: number, k: number, table: Huffman): void {
    const { bits, scan: { to, low } } = this, step = 1 << low;
    const more = (i: number): void => {
      if (bits.bit() === 1) c[i] += c[i] > 0 ? step : -step;
    };
    while (this.run === 0 && k <= to) {
      const symbol = bits.symbol(table), size = symbol & 15;
      let zeros = symbol >> 4;
      if (size === 0 && zeros < 15) {
        this.run = (1 << zeros) + bits.number(zeros);
        break;
      }
      const value = size === 0 ? 0 : bits.bit() === 1 ? step : -step;
      for (; k <= to; k++) {
        const i = at + ZIGZAG[k];
        if (c[i] !== 0) more(i);
        else if (zeros-- === 0) {
          c[i] = value;
          k++;
          break;
        }
      }
    }
    if (this.run === 0) return;
    for (; k <= to; k++) if (c[at + ZIGZAG[k]] !== 0) more(at + ZIGZAG[k]);
    this.run--;
  }
}

/** Reads the data of a scan; where it ends. */
function readScan(frame: Frame, parts: Part[], scan: Scan, bits: Bits, restart: number, bad: Fault): number {
  const reader = new BlockReader(bits, scan, bad), [only] = parts;
  // a component alone has the blocks that hold samples, several have whole units
  const along = parts.length === 1 ? Math.ceil(only.component.width / 8) : frame.units[0];
  const down = parts.length === 1 ? Math.ceil(only.component.height / 8) : frame.units[1];
  for (let y = 0, n = 0; y < down; y++) {
    for (let x = 0; x < along; x++, n++) {
      if (restart > 0 && n > 0 && n % restart === 0) {
        bits.restart();
        reader.reset();
        for (const part of parts) part.last = 0;
      }
      if (parts.length === 1) reader.read(only, 64 * (y * only.component.stride + x));
      else {
        for (const part of parts) {
          const { h, v, stride } = part.component;
          for (let i = 0; i < h * v; i++) {
            reader.read(part, 64 * ((y * v + Math.floor(i / h)) * stride + x * h + i % h));
          }
        }
      }
    }
  }
  return bits.at;
}

/** A factor in 13 bits. */
const fixed = (x: number): number => Math.round(x * 8192);
/** Of the transform's even half: what inputs 0, 2, 4 and 6 add to outputs 0 to 3. */
const EVEN = [1, 1, 1, 1].map((_, out) => {
  const turn = fixed(0.541196100), minus = fixed(-1.847759065), plus = fixed(0.765366865);
  const [second, sixth] = out === 0 || out === 3 ? [turn + plus, turn] : [turn, turn + minus];
  const sign = out < 2 ? 1 : -1;
  return [8192, sign * second, out === 0 || out === 3 ? 8192 : -8192, sign * sixth];
});
/** Of its odd half: what inputs 1, 3, 5 and 7 add to outputs 0 to 3. */
const ODD = ((): number[][] => {
  const all = fixed(1.175875602), one = fixed(-0.899976223), two = fixed(-2.562915447), three = fixed(-1.961570560);
  const four = fixed(-0.390180644), own = [1.501321110, 3.072711026, 2.053119869, 0.298631336].map(fixed);
  return [
    [own[0] + one + four + all, all, four + all, one + all],
    [all, own[1] + two + three + all, two + all, three + all],
    [four + all, two + all, own[2] + two + four + all, all],
    [one + all, three + all, all, own[3] + one + three + all],
  ];
})();

/** Eight numbers at `step` apart, transformed and rounded by `shift` bits. */
function transform(from: ArrayLike<number>, at: number, step: number, to: Int32Array, shift: number): void {
  const x = (k: number): number => from[at + k * step], round = 1 << (shift - 1);
  const [x0, x1, x2, x3, x4, x5, x6, x7] = [x(0), x(1), x(2), x(3), x(4), x(5), x(6), x(7)];
  for (let out = 0; out < 4; out++) {
    const [a, b, c, d] = EVEN[out], [e, f, g, h] = ODD[out];
    const even = a * x0 + b * x2 + c * x4 + d * x6, odd = e * x1 + f * x3 + g * x5 + h * x7;
    to[at + out * step] = even + odd + round >> shift;
    to[at + (7 - out) * step] = even - odd + round >> shift;
  }
}

/** The samples of a component, in rows of whole blocks. */
function samplesOf({ coefficients, stride }: Component, table: Uint16Array): Uint8Array {
  const out = new Uint8Array(coefficients.length), block = new Int32Array(64);
  for (let at = 0, n = 0; at < coefficients.length; at += 64, n++) {
    for (let i = 0; i < 64; i++) block[i] = coefficients[at + i] * table[i];
    for (let i = 0; i < 8; i++) transform(block, i, 8, block, 11);
    for (let i = 0; i < 8; i++) transform(block, 8 * i, 1, block, 18);
    const to = Math.floor(n / stride) * 64 * stride + n % stride * 8;
    for (let i = 0; i < 64; i++) out[to + (i >> 3) * 8 * stride + (i & 7)] = clamp(block[i] + 128);
  }
  return out;
}

/** Samples at twice the distance, brought to the full one by weights of 3 and 1: along a row, of values `scale` times as large. */
function doubled(row: ArrayLike<number>, n: number, to: Int32Array, [left, right]: readonly [number, number]): void {
  for (let x = 0; x < n; x++) {
    to[2 * x] = 3 * row[x] + row[Math.max(0, x - 1)] + left;
    to[2 * x + 1] = 3 * row[x] + row[Math.min(n - 1, x + 1)] + right;
  }
}

/** A component as large as the picture. */
function fullSize(c: Component, samples: Uint8Array, frame: Frame): Uint8Array {
  const { width, height, most: [mostH, mostV] } = frame, out = new Uint8Array(width * height), line = 8 * c.stride;
  const h = mostH / c.h, v = mostV / c.v;
  const isSmooth = h === 2 && (v === 1 || v === 2) && c.width > 2 || h === 1 && v === 2;
  if (!isSmooth) {
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) out[y * width + x] = samples[Math.floor(y / v) * line + Math.floor(x / h)];
    }
    return out;
  }
  const sums = new Int32Array(c.width), wide = new Int32Array(2 * c.width);
  for (let y = 0; y < height; y++) {
    const near = v === 2 ? y >> 1 : y, other = Math.max(0, Math.min(c.height - 1, near + (y & 1 ? 1 : -1)));
    for (let x = 0; x < c.width; x++) {
      const s = samples[near * line + x];
      sums[x] = v === 2 ? 3 * s + samples[other * line + x] : s;
    }
    if (h === 1) {
      for (let x = 0; x < width; x++) out[y * width + x] = sums[x] + 1 + (y & 1) >> 2;
      continue;
    }
    doubled(sums, c.width, wide, v === 2 ? [8, 7] : [1, 2]);
    const last = Math.min(width, 2 * c.width) - 1, shift = v === 2 ? 4 : 2;
    for (let x = 0; x <= last; x++) out[y * width + x] = wide[x] >> shift;
  }
  return out;
}

/** The picture of planes: of brightness and two differences of color, unless they are colors themselves. */
function colored(frame: Frame, planes: readonly Uint8Array[], areColors: boolean): Pixels {
  const { width, height, rgb } = frame, [first, second = first, third = first] = planes;
  for (let i = 0; i < first.length; i++) {
    const y = first[i], isPlain = areColors || planes.length === 1, b = second[i] - 128, r = third[i] - 128;
    rgb[3 * i] = isPlain ? y : clamp(y + (91881 * r + 32768 >> 16));
    rgb[3 * i + 1] = isPlain ? second[i] : clamp(y + (-22554 * b - 46802 * r + 32768 >> 16));
    rgb[3 * i + 2] = isPlain ? third[i] : clamp(y + (116130 * b + 32768 >> 16));
  }
  return { width, height, rgb };
}

/** Decodes a file that begins as JPEG does. @throws what `bad` makes of the reason */
export function decodeJpeg(bytes: Uint8Array, bad: Fault): Pixels {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length), tables: Uint16Array[] = [];
  const codes: Huffman[][] = [[], []];
  let frame: Frame | undefined, restart = 0, transformed: number | undefined, at = 2, seen = false;
  const word = (p: number): number => {
    if (p + 2 > bytes.length) throw bad("its bytes are too few");
    return view.getUint16(p);
  };
  for (;;) {
    while (bytes[at] === 0xff && bytes[at + 1] === 0xff) at++;
    if (at + 2 > bytes.length && seen) break; // its end is missing
    if (word(at) >> 8 !== 0xff) throw bad(`byte ${at} begins no part`);
    const kind = bytes[at + 1];
    if (kind === 0xd9) break;
    if (kind >= 0xd0 && kind <= 0xd8 || kind === 1) {
      at += 2;
      continue;
    }
    const from = at + 4, end = at + 2 + word(at + 2);
    if (end > bytes.length || end < from) throw bad(`its part ${kind.toString(16)} goes beyond its end`);
    if (kind === 0xdb) readTables(bytes, from, end, tables, bad);
    else if (kind === 0xc4) readCodes(bytes, from, end, codes, bad);
    else if (kind === 0xdd) restart = word(from);
    else if (kind === 0xee && end - from >= 12 && String.fromCharCode(...bytes.subarray(from, from + 5)) === "Adobe") {
      transformed = bytes[from + 11];
    } else if (kind >= 0xc0 && kind <= 0xcf && kind !== 0xc8 && kind !== 0xcc) {
      if (kind > 0xc2) throw bad("of JPEG what is coded arithmetically, without loss or in layers is not read");
      if (frame !== undefined) throw bad("it has two frames");
      frame = readFrame(view, from, end, kind === 0xc2, bad);
    } else if (kind === 0xda) {
      if (frame === undefined) throw bad("a scan comes before its frame");
      const [parts, scan] = scanOf(bytes, from, end, frame, codes, bad);
      at = readScan(frame, parts, scan, new Bits(bytes, end, bad), restart, bad);
      while (at + 1 < bytes.length && (bytes[at] !== 0xff || bytes[at + 1] === 0)) at++; // bits that fill
      seen = true;
      continue;
    }
    at = end;
  }
  if (frame === undefined || !seen) throw bad("it has no picture");
  const planes = frame.components.map((c) => {
    const table = tables[c.table];
    if (table === undefined) throw bad(`it has no table ${c.table}`);
    return fullSize(c, samplesOf(c, table), frame);
  });
  const letters = String.fromCharCode(...frame.components.map((c) => c.id));
  return colored(frame, planes, transformed === 0 || transformed === undefined && letters === "RGB");
}

function readTables(bytes: Uint8Array, from: number, end: number, tables: Uint16Array[], bad: Fault): void {
  while (from < end) {
    const wide = bytes[from] >> 4, n = 1 + 64 * (1 + wide), table = new Uint16Array(64);
    if (wide > 1 || from + n > end) throw bad("a table of it is cut");
    for (let k = 0; k < 64; k++) {
      const p = from + 1 + k * (1 + wide);
      table[ZIGZAG[k]] = wide === 1 ? bytes[p] << 8 | bytes[p + 1] : bytes[p];
    }
    tables[bytes[from] & 15] = table;
    from += n;
  }
}
function readCodes(bytes: Uint8Array, from: number, end: number, codes: Huffman[][], bad: Fault): void {
  while (from < end) {
    const counts = bytes.slice(from, from + 17), n = counts.subarray(1).reduce((a, b) => a + b, 0);
    if (counts[0] >> 4 > 1 || from + 17 + n > end) throw bad("a code of it is cut");
    codes[counts[0] >> 4][counts[0] & 15] = { counts, values: bytes.slice(from + 17, from + 17 + n) };
    from += 17 + n;
  }
}
function readFrame(view: DataView, from: number, end: number, isProgressive: boolean, bad: Fault): Frame {
  if (end - from < 6) throw bad("its frame is cut");
  const [bits, count] = [view.getUint8(from), view.getUint8(from + 5)];
  if (bits !== 8) throw bad(`of JPEG 8 bits are read, not ${bits}`);
  if (count !== 1 && count !== 3) throw bad(`of JPEG one color or three are read, not ${count}`);
  if (end - from < 6 + 3 * count) throw bad("its frame is cut");
  const made = pixels(view.getUint16(from + 3), view.getUint16(from + 1), bad), { width, height } = made;
  const rows = Array.from({ length: count }, (_, i) => from + 6 + 3 * i), size = (p: number) => view.getUint8(p + 1);
  if (rows.some((p) => ![size(p) >> 4, size(p) & 15].every((n) => n >= 1 && n <= 4))) {
    throw bad("its frame has sizes that are none");
  }
  // a component alone has no units of others
  const most = [4, 0].map((s) => count === 1 ? 1 : Math.max(...rows.map((p) => size(p) >> s & 15))) as [number, number];
  const units = [Math.ceil(width / (8 * most[0])), Math.ceil(height / (8 * most[1]))] as const;
  const components = rows.map((p): Component => {
    const h = count === 1 ? 1 : size(p) >> 4, v = count === 1 ? 1 : size(p) & 15, stride = units[0] * h;
    return {
      id: view.getUint8(p),
      h,
      v,
      table: view.getUint8(p + 2),
      width: Math.ceil(width * h / most[0]),
      height: Math.ceil(height * v / most[1]),
      stride,
      coefficients: new Int16Array(64 * stride * units[1] * v),
    };
  });
  return { ...made, isProgressive, components, units, most };
}
function scanOf(
  bytes: Uint8Array,
  from: number,
  end: number,
  frame: Frame,
  codes: readonly Huffman[][],
  bad: Fault,
): [Part[], Scan] {
  const count = bytes[from], last = from + 1 + 2 * count;
  if (last + 3 !== end || count < 1) throw bad("a scan of it is cut");
  const parts = Array.from({ length: count }, (_, i): Part => {
    const p = from + 1 + 2 * i, component = frame.components.find((c) => c.id === bytes[p]);
    if (component === undefined) throw bad(`a scan names component ${bytes[p]}, which is not there`);
    return { component, dc: codes[0][bytes[p + 1] >> 4], ac: codes[1][bytes[p + 1] & 15], last: 0 };
  });
  const { isProgressive } = frame, [first, to, bits] = bytes.subarray(last, last + 3);
  if (!isProgressive) return [parts, { from: 0, to: 63, isRefined: false, low: 0 }];
  if (first > to || to > 63 || first > 0 && count > 1 || (bits & 15) > 13) {
    throw bad("a scan has coefficients that are none");
  }
  return [parts, { from: first, to: first === 0 ? 0 : to, isRefined: bits >> 4 > 0, low: bits & 15 }];
}
