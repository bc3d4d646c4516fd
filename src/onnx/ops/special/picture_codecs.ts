/**
 * Pictures within models: PNG, JPEG, BMP, TIFF and PNM. In: bytes of a file; out: red, green and blue of each pixel, by rows.
 * Every length is checked before memory is taken. Sources: the specification of PNG (third edition), those of BMP, of
 * TIFF 6.0, and of Netpbm.
 *
 * @module
 */
import { inflateNow } from "./inflate_now.ts";
import { decodeJpeg } from "./jpeg.ts";
import { type Fault, type Pixels, pixels } from "./pixels.ts";

/** Adds what a filter took away, in place: `stride` bytes a row behind one that says how, `unit` bytes a pixel. */
function unfiltered(data: Uint8Array, stride: number, height: number, unit: number, bad: Fault): void {
  for (let y = 0; y < height; y++) {
    const row = y * (stride + 1) + 1, kind = data[row - 1], above = row - stride - 1;
    if (kind > 4) throw bad(`row ${y} has filter ${kind}, which is none`);
    for (let i = 0; i < stride; i++) {
      const a = i >= unit ? data[row + i - unit] : 0, b = y > 0 ? data[above + i] : 0;
      const c = i >= unit && y > 0 ? data[above + i - unit] : 0;
      if (kind === 1) data[row + i] += a;
      else if (kind === 2) data[row + i] += b;
      else if (kind === 3) data[row + i] += (a + b) >> 1;
      else if (kind === 4) {
        const p = a + b - c, pa = Math.abs(p - a), pb = Math.abs(p - b), pc = Math.abs(p - c);
        data[row + i] += pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
      }
    }
  }
}

function png(bytes: Uint8Array, view: DataView, bad: Fault): Pixels {
  let at = 8, header: number | undefined, palette: Uint8Array | undefined, packed = 0;
  const parts: Uint8Array[] = [];
  while (at + 12 <= bytes.length) {
    const n = view.getUint32(at), kind = String.fromCharCode(...bytes.subarray(at + 4, at + 8)), data = at + 8;
    if (data + n + 4 > bytes.length) throw bad(`its part ${kind} of ${n} bytes goes beyond its end`);
    if (kind === "IHDR" && n === 13) header = data;
    else if (kind === "PLTE") palette = bytes.subarray(data, data + n);
    else if (kind === "IDAT") parts.push(bytes.subarray(data, data + n));
    else if (kind === "IEND") break;
    at = data + n + 4;
  }
  if (header === undefined) throw bad("it has no header");
  const [depth, color, , , interlace] = bytes.subarray(header + 8, header + 13);
  const samples = [1, 0, 3, 1, 2, 0, 4][color] ?? 0;
  if (samples === 0 || ![1, 2, 4, 8, 16].includes(depth) || depth < 8 && samples > 1) {
    throw bad(`color ${color} of ${depth} bits is none`);
  }
  if (interlace !== 0) throw bad("it is interlaced, which is not read");
  const made = pixels(view.getUint32(header), view.getUint32(header + 4), bad), { width, height, rgb } = made;
  const stride = Math.ceil(width * samples * depth / 8), all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  for (const p of parts) {
    all.set(p, packed);
    packed += p.length;
  }
  const size = (stride + 1) * height;
  if (size > 1032 * all.length + 64) {
    throw bad(`${all.length} bytes cannot unpack to a picture of ${width} by ${height}`);
  }
  const data = inflateNow(all.subarray(2), size, bad);
  unfiltered(data, stride, height, Math.max(1, samples * depth >> 3), bad);
  const most = (1 << Math.min(depth, 8)) - 1;
  for (let y = 0; y < height; y++) {
    const row = y * (stride + 1) + 1;
    for (let x = 0; x < width; x++) {
      const sample = (k: number): number => {
        if (depth === 8) return data[row + x * samples + k];
        if (depth === 16) return data[row + 2 * (x * samples + k)];
        const bit = x * depth;
        return data[row + (bit >> 3)] >> (8 - depth - (bit & 7)) & most;
      };
      const first = sample(0), to = 3 * (y * width + x);
      for (let c = 0; c < 3; c++) {
        if (color === 3) {
          if (palette === undefined || 3 * first + 2 >= palette.length) throw bad(`it has no color ${first}`);
          rgb[to + c] = palette[3 * first + c];
        } else rgb[to + c] = samples >= 3 ? sample(c) : depth < 8 ? Math.round(first * 255 / most) : first;
      }
    }
  }
  return made;
}

/** Rows of three or four bytes a pixel. */
function plainRows(
  bytes: Uint8Array,
  made: Pixels,
  { start, stride, unit, order, isUpward }: {
    start: number;
    stride: number;
    unit: number;
    order: readonly number[];
    isUpward: boolean;
  },
  bad: Fault,
): Pixels {
  const { width, height, rgb } = made;
  if (start < 0 || start + stride * (height - 1) + unit * width > bytes.length) {
    throw bad(`its ${bytes.length} bytes are too few for ${width} by ${height} pixels`);
  }
  for (let y = 0; y < height; y++) {
    const row = start + stride * (isUpward ? height - 1 - y : y);
    for (let x = 0; x < width; x++) {
      for (let c = 0; c < 3; c++) rgb[3 * (y * width + x) + c] = bytes[row + unit * x + order[c]];
    }
  }
  return made;
}

function bmp(bytes: Uint8Array, view: DataView, bad: Fault): Pixels {
  if (bytes.length < 54) throw bad("it is truncated");
  const width = view.getInt32(18, true), height = view.getInt32(22, true), depth = view.getUint16(28, true);
  const packing = view.getUint32(30, true);
  if (depth !== 24 && depth !== 32 || packing !== 0) {
    throw bad(`${depth} bits a pixel, packed by ${packing}, are not read`);
  }
  const stride = Math.ceil(width * depth / 32) * 4, made = pixels(width, Math.abs(height), bad);
  const start = view.getUint32(10, true);
  return plainRows(bytes, made, { start, stride, unit: depth / 8, order: [2, 1, 0], isUpward: height > 0 }, bad);
}

/** Numbers as text, then bytes. */
function pnm(bytes: Uint8Array, bad: Fault): Pixels {
  const isGray = bytes[1] === 0x35;
  if (!isGray && bytes[1] !== 0x36) throw bad(`kind P${String.fromCharCode(bytes[1])} is not read, but P5 and P6`);
  let at = 2;
  const isSpace = (b: number): boolean => b === 32 || b >= 9 && b <= 13;
  const number = (): number => {
    for (; at < bytes.length && (isSpace(bytes[at]) || bytes[at] === 35); at++) {
      if (bytes[at] === 35) { while (at < bytes.length && bytes[at] !== 10) at++; }
    }
    let n = 0;
    for (; at < bytes.length && bytes[at] >= 48 && bytes[at] <= 57; at++) n = Math.min(1e9, 10 * n + bytes[at] - 48);
    return n;
  };
  const width = number(), height = number(), most = number(), made = pixels(width, height, bad), unit = isGray ? 1 : 3;
  if (most !== 255) throw bad(`values up to ${most} are not read, but up to 255`);
  const order = isGray ? [0, 0, 0] : [0, 1, 2];
  return plainRows(bytes, made, { start: at + 1, stride: unit * width, unit, order, isUpward: false }, bad);
}

function tiff(bytes: Uint8Array, view: DataView, bad: Fault): Pixels {
  const isLittle = bytes[0] === 0x49,
    need = (at: number, n: number): void => {
      if (at < 0 || at + n > bytes.length) throw bad(`it is truncated: ${n} bytes at ${at} are needed`);
    };
  need(0, 8);
  const table = view.getUint32(4, isLittle), tags = new Map<number, number[]>();
  need(table, 2);
  const count = view.getUint16(table, isLittle);
  need(table + 2, 12 * count);
  for (let i = 0; i < count; i++) {
    const at = table + 2 + 12 * i, tag = view.getUint16(at, isLittle), isShort = view.getUint16(at + 2, isLittle) === 3;
    const n = view.getUint32(at + 4, isLittle), size = isShort ? 2 : 4;
    const from = n * size <= 4 ? at + 8 : view.getUint32(at + 8, isLittle);
    if (![256, 257, 258, 259, 273, 277, 278, 284].includes(tag)) continue;
    need(from, n * size);
    tags.set(
      tag,
      Array.from(
        { length: n },
        (_, k) => isShort ? view.getUint16(from + 2 * k, isLittle) : view.getUint32(from + 4 * k, isLittle),
      ),
    );
  }
  const one = (tag: number, otherwise: number): number => tags.get(tag)?.[0] ?? otherwise;
  const made = pixels(one(256, 0), one(257, 0), bad), { width, height, rgb } = made, unit = one(277, 1);
  if (one(259, 1) !== 1 || one(284, 1) !== 1 || ![1, 3, 4].includes(unit) || tags.get(258)?.some((b) => b !== 8)) {
    throw bad("of TIFF what is not packed is read, by 8 bits, one pixel behind the other");
  }
  const rows = Math.min(height, one(278, height)), strips = tags.get(273) ?? [];
  if (rows < 1 || strips.length < Math.ceil(height / rows)) throw bad(`it has ${strips.length} strips of ${rows} rows`);
  for (let y = 0, k = 0; y < height; y += rows, k++) {
    const part = {
      width,
      height: Math.min(rows, height - y),
      rgb: rgb.subarray(3 * y * width) as Uint8Array<ArrayBuffer>,
    };
    const order = unit === 1 ? [0, 0, 0] : [0, 1, 2];
    plainRows(bytes, part, { start: strips[k], stride: unit * width, unit, order, isUpward: false }, bad);
  }
  return made;
}

/** Decodes a picture by what it begins with. @throws what `bad` makes of the reason */
export function decodePicture(bytes: Uint8Array, bad: Fault): Pixels {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length), [a, b, c, d] = bytes;
  if (a === 0x89 && b === 0x50 && c === 0x4e && d === 0x47) return png(bytes, view, bad);
  if (a === 0x42 && b === 0x4d) return bmp(bytes, view, bad);
  if (a === 0x50 && b >= 0x31 && b <= 0x36) return pnm(bytes, bad);
  if (a === 0x49 && b === 0x49 && c === 42 || a === 0x4d && b === 0x4d && d === 42) return tiff(bytes, view, bad);
  if (a === 0xff && b === 0xd8) return decodeJpeg(bytes, bad);
  const kind = a === 0x52 && b === 0x49
    ? "WebP"
    : a === 0xff && b === 0x4f || a === 0 && bytes[4] === 0x6a && bytes[5] === 0x50
    ? "JPEG 2000"
    : "none of PNG, JPEG, BMP, TIFF and PNM";
  throw bad(`the picture is ${kind}, which is not decoded here: decode it with the platform's codecs, and give pixels`);
}
