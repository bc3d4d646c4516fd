/**
 * The pixels of PNG files, for tests that compare with published pictures: 8 bits a channel, gray, RGB or RGBA, not
 * interlaced. Format: W3C, "Portable Network Graphics", third edition.
 *
 * @module
 */

/** A picture: channels of each pixel, row by row. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly channels: number;
  readonly data: Uint8Array<ArrayBuffer>;
}
const CHANNELS: Readonly<Record<number, number>> = { 0: 1, 2: 3, 6: 4 };

/** What a row's filter adds: from the left, above, their mean, or the nearest of three. */
function predicted(filter: number, left: number, up: number, corner: number): number {
  if (filter < 3) return filter === 1 ? left : filter === 2 ? up : 0;
  if (filter === 3) return (left + up) >> 1;
  const p = left + up - corner, [a, b, c] = [Math.abs(p - left), Math.abs(p - up), Math.abs(p - corner)];
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

/** Reads a picture. */
export async function readPng(bytes: Uint8Array<ArrayBuffer>): Promise<Picture> {
  const view = new DataView(bytes.buffer, bytes.byteOffset), parts: Uint8Array<ArrayBuffer>[] = [];
  const width = view.getUint32(16), height = view.getUint32(20), channels = CHANNELS[bytes[25]];
  if (bytes[24] !== 8 || channels === undefined || bytes[28] !== 0) throw new Error("a PNG of another kind");
  for (let at = 8; at < bytes.length;) {
    const n = view.getUint32(at), type = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    if (type === "IDAT") parts.push(bytes.subarray(at + 8, at + 8 + n));
    at += 12 + n;
  }
  const stream = new Blob(parts).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = new Uint8Array(await new Response(stream).arrayBuffer()), line = width * channels;
  const data = new Uint8Array(height * line);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (line + 1)], row = y * line;
    for (let x = 0; x < line; x++) {
      const left = x < channels ? 0 : data[row + x - channels], up = y === 0 ? 0 : data[row - line + x];
      const corner = x < channels || y === 0 ? 0 : data[row - line + x - channels];
      data[row + x] = raw[y * (line + 1) + 1 + x] + predicted(filter, left, up, corner);
    }
  }
  return { width, height, channels, data };
}
