/**
 * A short name for many numbers, for golden values that need not be seen. @module
 */

/** FNV-1a of the bits of `x`, where -0 is 0. */
export function hashOf(x: Float32Array): string {
  const same = x.map((v) => v === 0 ? 0 : v), bytes = new Uint8Array(same.buffer);
  let h = 0x811c9dc5;
  for (const b of bytes) h = Math.imul(h ^ b, 0x01000193);
  return (h >>> 0).toString(16);
}
