/**
 * CRCs of 32 bits, from the lowest: CRC-32 (ISO 3309, as in zip and PNG) and CRC-32C (Castagnoli, RFC 3720).
 *
 * @module
 */
const tables = new Map<number, Uint32Array>();

/** By the polynomial. */
function tableOf(polynomial: number): Uint32Array {
  let table = tables.get(polynomial);
  if (table === undefined) {
    tables.set(polynomial, table = new Uint32Array(256));
    for (let n = 0; n < 256; n++) {
      let c = n;
      for (let k = 0; k < 8; k++) c = c & 1 ? polynomial ^ (c >>> 1) : c >>> 1;
      table[n] = c >>> 0;
    }
  }
  return table;
}

function crcOf(table: Uint32Array, bytes: Uint8Array, crc: number): number {
  let c = ~crc;
  for (let i = 0; i < bytes.length; i++) c = table[(c ^ bytes[i]) & 255] ^ (c >>> 8);
  return ~c >>> 0;
}

/** CRC-32 of bytes; `crc` continues an earlier one. */
export function crc32(bytes: Uint8Array, crc = 0): number {
  return crcOf(tableOf(0xedb88320), bytes, crc);
}

/** CRC-32C of bytes. */
export function crc32c(bytes: Uint8Array): number {
  return crcOf(tableOf(0x82f63b78), bytes, 0);
}
