/**
 * The compiled map of characters of SentencePiece models: a double array of prefixes (Darts), and the texts that take
 * their place. The longest prefix wins.
 *
 * @module
 */
const encoder = new TextEncoder(), decoder = new TextDecoder();

/** A map of characters, of the bytes that a model has. */
export class Charsmap {
  private readonly units: Uint32Array;
  private readonly texts: Uint8Array;

  /** The bytes are the size of the array, the array, and texts that end in 0. */
  constructor(bytes: Uint8Array) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const size = bytes.length < 4 ? 0 : Math.min(view.getUint32(0, true), bytes.length - 4) >> 2;
    this.units = Uint32Array.from({ length: size }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.texts = bytes.subarray(4 + 4 * size);
  }

  /** How many bytes from `at` on the longest prefix has, and where its text is. */
  private longest(bytes: Uint8Array, at: number): readonly [length: number, text: number] {
    const { units } = this, offset = (u: number) => (u >>> 10) << ((u & 512) >>> 6);
    let found: readonly [number, number] = [0, 0];
    if (units.length === 0) return found;
    let node = offset(units[0]);
    for (let i = at; i < bytes.length; i++) {
      node ^= bytes[i];
      const unit = units[node];
      if (unit === undefined || (unit & 0x800000ff) >>> 0 !== bytes[i]) break;
      node ^= offset(unit);
      if (unit & 256) found = [i + 1 - at, (units[node] ?? 0) & 0x7fffffff];
    }
    return found;
  }

  /** The text with everything replaced that the map knows; `kept` are texts that stay as they are. */
  apply(text: string, kept: readonly string[]): string {
    const bytes = encoder.encode(text), out: number[] = [], stay = kept.map((k) => encoder.encode(k));
    for (let at = 0; at < bytes.length;) {
      const same = stay.find((k) => k.length > 0 && k.every((b, i) => bytes[at + i] === b));
      if (same !== undefined) {
        out.push(...same);
        at += same.length;
        continue;
      }
      const [length, start] = this.longest(bytes, at);
      if (length > 0) {
        const end = this.texts.indexOf(0, start);
        out.push(...this.texts.subarray(start, end < 0 ? undefined : end));
        at += length;
      } else {
        do out.push(bytes[at++]); while (at < bytes.length && (bytes[at] & 0xc0) === 0x80);
      }
    }
    return decoder.decode(Uint8Array.from(out));
  }
}
