/**
 * Pixels as a PNG file: 8 bits a channel, gray, RGB or RGBA. The pixels are stored, not compressed, so that it needs no
 * library and waits for nothing. Format: W3C, "Portable Network Graphics", third edition; RFC 1950 and 1951.
 *
 * @module
 */
import { crc32 } from "./crc.ts";
import { ArgumentError } from "./errors.ts";
import { concatBytes } from "./math.ts";

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
/** PNG's color type by the number of channels: gray, RGB, RGBA. */
const COLOR_TYPE: Readonly<Record<number, number>> = { 1: 0, 3: 2, 4: 6 };
/** A stored block of deflate holds at most this. */
const MAX_STORED = 65535;

function adler32(bytes: Uint8Array): number {
  let a = 1, b = 0;
  for (let i = 0; i < bytes.length;) {
    // 3,800 additions stay below 2^31 before the modulus is due
    for (const end = Math.min(i + 3800, bytes.length); i < end; i++) b += a += bytes[i];
    a %= 65521;
    b %= 65521;
  }
  return ((b << 16) | a) >>> 0;
}

/** A zlib stream of stored blocks. */
function stored(bytes: Uint8Array): Uint8Array {
  const blocks = Math.max(1, Math.ceil(bytes.length / MAX_STORED));
  const out = new Uint8Array(2 + blocks * 5 + bytes.length + 4);
  out.set([0x78, 0x01]);
  let at = 2;
  for (let i = 0; i < blocks; i++) {
    const part = bytes.subarray(i * MAX_STORED, (i + 1) * MAX_STORED), n = part.length;
    out.set([i === blocks - 1 ? 1 : 0, n & 255, n >> 8, ~n & 255, (~n >> 8) & 255], at);
    out.set(part, at + 5);
    at += 5 + n;
  }
  new DataView(out.buffer).setUint32(at, adler32(bytes));
  return out;
}

function chunk(type: string, data: Uint8Array): Uint8Array {
  const out = new Uint8Array(12 + data.length), view = new DataView(out.buffer);
  view.setUint32(0, data.length);
  for (let i = 0; i < 4; i++) out[4 + i] = type.charCodeAt(i);
  out.set(data, 8);
  view.setUint32(8 + data.length, crc32(out.subarray(4, 8 + data.length)));
  return out;
}

/**
 * The bytes of a PNG file.
 *
 * @param pixels row-major, `channels` bytes a pixel: 1 gray, 3 RGB, 4 RGBA
 * @throws {ArgumentError} for other channels, or sizes that do not fit the pixels
 */
export function encodePng(pixels: Uint8Array, width: number, height: number, channels: number): Uint8Array {
  const color = COLOR_TYPE[channels];
  if (color === undefined || width < 1 || height < 1 || pixels.length !== width * height * channels) {
    throw new ArgumentError("encode a PNG", {
      reason: `${pixels.length} bytes are no ${width} by ${height} pixels of ${channels} channels (1, 3 or 4)`,
    });
  }
  const header = new Uint8Array(13), view = new DataView(header.buffer);
  view.setUint32(0, width);
  view.setUint32(4, height);
  header.set([8, color, 0, 0, 0], 8);
  const row = width * channels, lines = new Uint8Array(height * (row + 1));
  // each line begins with its filter: 0, none
  for (let y = 0; y < height; y++) lines.set(pixels.subarray(y * row, (y + 1) * row), y * (row + 1) + 1);
  const parts = [
    Uint8Array.from(SIGNATURE),
    chunk("IHDR", header),
    chunk("IDAT", stored(lines)),
    chunk("IEND", new Uint8Array(0)),
  ];
  return concatBytes(parts);
}
