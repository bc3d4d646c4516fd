/**
 * Inflate without waiting: of pictures within a model, whose values are asked for while a graph is made. In: a deflate
 * stream; out: exactly as many bytes as are expected. Source: RFC 1951.
 *
 * @module
 */
/** Lengths and distances: the least of each code, and how many bits follow it. */
const LENGTHS = [
  3,
  4,
  5,
  6,
  7,
  8,
  9,
  10,
  11,
  13,
  15,
  17,
  19,
  23,
  27,
  31,
  35,
  43,
  51,
  59,
  67,
  83,
  99,
  115,
  131,
  163,
  195,
  227,
  258,
];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
/** The order in which lengths of codes are written. */
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const MAX_BITS = 15;

/** A prefix code: how many symbols there are of each length, and the symbols in order. */
interface Code {
  readonly counts: Uint16Array;
  readonly symbols: Uint16Array;
}
function codeOf(lengths: ArrayLike<number>): Code {
  const counts = new Uint16Array(MAX_BITS + 1), at = new Uint16Array(MAX_BITS + 2);
  for (let i = 0; i < lengths.length; i++) counts[lengths[i]]++;
  counts[0] = 0;
  for (let n = 1; n <= MAX_BITS; n++) at[n + 1] = at[n] + counts[n];
  const symbols = new Uint16Array(lengths.length);
  for (let i = 0; i < lengths.length; i++) if (lengths[i] > 0) symbols[at[lengths[i]]++] = i;
  return { counts, symbols };
}

/** The bytes of a stream, which must be `size`. @throws what `bad` makes of the reason */
export function inflateNow(packed: Uint8Array, size: number, bad: (reason: string) => Error): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(size);
  let to = 0, at = 0, held = 0, count = 0;
  const bits = (n: number): number => {
    while (count < n) {
      if (at >= packed.length) throw bad("its packed data ends too early");
      held |= packed[at++] << count;
      count += 8;
    }
    const x = held & ((1 << n) - 1);
    held >>>= n;
    count -= n;
    return x;
  };
  const symbol = ({ counts, symbols }: Code): number => {
    let code = 0, first = 0, index = 0;
    for (let n = 1; n <= MAX_BITS; n++) {
      code |= bits(1);
      if (code - counts[n] < first) return symbols[index + code - first];
      index += counts[n];
      first = (first + counts[n]) << 1;
      code <<= 1;
    }
    throw bad("its packed data has a code that is none");
  };
  const put = (x: number): void => {
    if (to >= size) throw bad(`its data unpacks to more than the ${size} bytes of the picture`);
    out[to++] = x;
  };
  const fixed = [
    codeOf(Array.from({ length: 288 }, (_, i) => i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8)),
    codeOf(Array(30).fill(5)),
  ];
  for (let isLast = false; !isLast;) {
    isLast = bits(1) === 1;
    const kind = bits(2);
    if (kind === 0) {
      held = count = 0;
      const n = packed[at] | packed[at + 1] << 8, check = packed[at + 2] | packed[at + 3] << 8;
      at += 4;
      if (!(at + n <= packed.length) || (n ^ check) !== 0xffff) {
        throw bad("its packed data has a stored part that does not fit");
      }
      for (let i = 0; i < n; i++) put(packed[at++]);
      continue;
    }
    if (kind === 3) throw bad("its packed data has a part of a kind that is none");
    let [literals, distances] = fixed;
    if (kind === 2) {
      const [n, d, c] = [bits(5) + 257, bits(5) + 1, bits(4) + 4], lengths = new Uint8Array(19), all: number[] = [];
      for (let i = 0; i < c; i++) lengths[ORDER[i]] = bits(3);
      const code = codeOf(lengths);
      while (all.length < n + d) {
        const s = symbol(code);
        if (s < 16) all.push(s);
        else {
          if (s === 16 && all.length === 0) throw bad("its packed data repeats what is not there");
          const [x, times] = s === 16 ? [all[all.length - 1], 3 + bits(2)] : [0, s === 17 ? 3 + bits(3) : 11 + bits(7)];
          for (let i = 0; i < times; i++) all.push(x);
        }
      }
      if (all.length > n + d) throw bad("its packed data has too many lengths of codes");
      [literals, distances] = [codeOf(all.slice(0, n)), codeOf(all.slice(n))];
    }
    for (let s = symbol(literals); s !== 256; s = symbol(literals)) {
      if (s < 256) {
        put(s);
        continue;
      }
      if (s > 285) throw bad("its packed data has a length that is none");
      const length = LENGTHS[s - 257] + bits(LENGTH_BITS[s - 257]), d = symbol(distances);
      if (d > 29) throw bad("its packed data has a distance that is none");
      const extra = d < 4 ? 0 : (d >> 1) - 1, back = (d < 4 ? d + 1 : ((2 + (d & 1)) << extra) + 1) + bits(extra);
      if (back > to) throw bad("its packed data goes back before its begin");
      for (let i = 0; i < length; i++) put(out[to - back]);
    }
  }
  if (to !== size) throw bad(`its data unpacks to ${to} bytes, and the picture has ${size}`);
  return out;
}
