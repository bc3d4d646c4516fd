/**
 * CRC-32 (ISO 3309, as in zip and PNG): polynomial 0xedb88320, bits from the lowest.
 *
 * @module
 */
let table: Uint32Array | undefined;

/** CRC-32 of bytes; `crc` continues an earlier one. */
export function crc32(bytes: Uint8Array, crc = 0): number {
  if (table === undefined) {
    table = new Uint32Array(256);
    for (let n = 0; n < 256; n++) {
      let c = n;
      for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
      table[n] = c >>> 0;
    }
  }
  let c = ~crc;
  for (let i = 0; i < bytes.length; i++) c = table[(c ^ bytes[i]) & 255] ^ (c >>> 8);
  return ~c >>> 0;
}
