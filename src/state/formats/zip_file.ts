/**
 * ZIP archives (APPNOTE.TXT 6.3, Zip64 included): members stored or deflated, read by the directory at the end, which
 * must agree with the members. Stored ones stay where they are, as ranges of the file.
 *
 * @module
 */
import { crc32 } from "../../helpers/crc.ts";
import { concatBytes } from "../../helpers/math.ts";
import { checkClaim, checkMemberName, MAX_UNPACKED, pack, unpack } from "./inflate.ts";
import { memorySource, type PlaceOptions, type Source } from "../source.ts";
import type { Put } from "../write.ts";

/** Options of readers of archives. */
export interface ArchiveOptions extends PlaceOptions {
  /** The most bytes that packed members may unpack to, together; 4 GiB unless given. */
  readonly maxBytes?: number;
}

/** A member of an archive. */
export interface Member {
  readonly name: string;
  /** In the archive, and unpacked. */
  readonly packed: number;
  readonly size: number;
  /** 0 stored, 8 deflated. */
  readonly method: number;
  readonly crc: number;
  /** Where its bytes start. */
  readonly start: number;
}

const END = 0x06054b50, END64 = 0x06064b50, LOCATOR64 = 0x07064b50, CENTRAL = 0x02014b50, LOCAL = 0x04034b50;
const ENCRYPTED = 1, UTF8 = 0x800, ZIP64 = 1, SYMLINK = 0xa000, FULL = 0xffffffff;

/** Little-endian fields. */
class Fields {
  private readonly view: DataView;
  constructor(readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  u16(at: number): number {
    return this.view.getUint16(at, true);
  }
  u32(at: number): number {
    return this.view.getUint32(at, true);
  }
  /** Beyond 2^53 as Infinity: no such file exists. */
  u64(at: number): number {
    const n = this.view.getBigUint64(at, true);
    return n > BigInt(Number.MAX_SAFE_INTEGER) ? Infinity : Number(n);
  }
}

/** The directory: how many entries, where, and how long. */
function findDirectory(source: Source): { readonly count: number; readonly offset: number; readonly size: number } {
  const { size, bad } = source, tail = Math.min(size, 22 + 0xffff);
  const bytes = source.read(size - tail, tail), f = new Fields(bytes);
  let at = tail - 22;
  // the comment behind the end must reach exactly to the end of the file
  while (at >= 0 && !(f.u32(at) === END && at + 22 + f.u16(at + 20) === tail)) at--;
  if (at < 0) throw bad("it is no zip archive, or is truncated: there is no directory at its end");
  if (f.u16(at + 4) !== 0 || f.u16(at + 6) !== 0) throw bad("it is a part of a split zip archive");
  let count = f.u16(at + 10), length = f.u32(at + 12), offset = f.u32(at + 16), end = size - tail + at;
  if (count === 0xffff || length === FULL || offset === FULL) {
    if (end < 20) throw bad("its Zip64 directory is missing");
    const locator = new Fields(source.read(end - 20, 20));
    if (locator.u32(0) === LOCATOR64) {
      const place = locator.u64(8);
      if (place + 56 > end - 20) throw bad("its Zip64 directory is out of range");
      const wide = new Fields(source.read(place, 56));
      if (wide.u32(0) !== END64) throw bad("its Zip64 directory is missing");
      [count, length, offset, end] = [wide.u64(32), wide.u64(40), wide.u64(48), place];
    }
  }
  if (offset + length > end) throw bad("its directory is out of range");
  if (count * 46 > length) throw bad(`its directory of ${length} bytes cannot have ${count} entries`);
  return { count, offset, size: length };
}

/** Sizes and place of an entry, from its Zip64 field where they do not fit. */
function wideSizes(f: Fields, at: number, extra: number, source: Source): [packed: number, size: number, at: number] {
  const sizes = [f.u32(at + 20), f.u32(at + 24), f.u32(at + 42)];
  if (!sizes.includes(FULL)) return sizes as [number, number, number];
  const end = extra + f.u16(at + 30);
  for (let p = extra; p + 4 <= end; p += 4 + f.u16(p + 2)) {
    if (f.u16(p) !== ZIP64) continue;
    let q = p + 4;
    const stop = Math.min(end, q + f.u16(p + 2));
    // unpacked, packed, place: only those that are full above
    for (const i of [1, 0, 2]) {
      if (sizes[i] !== FULL) continue;
      if (q + 8 > stop) throw source.bad("an entry lacks its Zip64 sizes");
      sizes[i] = f.u64(q);
      q += 8;
    }
    return sizes as [number, number, number];
  }
  return sizes as [number, number, number];
}

/** The members of an archive in the order of its directory; folders are left out. */
function readZip(source: Source): Member[] {
  const { bad } = source, directory = findDirectory(source);
  const f = new Fields(source.read(directory.offset, directory.size));
  const members: Member[] = [], names = new Set<string>(), spans: [start: number, end: number, name: string][] = [];
  let at = 0;
  for (let i = 0; i < directory.count; i++) {
    if (at + 46 > directory.size || f.u32(at) !== CENTRAL) throw bad(`entry ${i} of its directory is damaged`);
    const flags = f.u16(at + 8), method = f.u16(at + 10), crc = f.u32(at + 16);
    const nameEnd = at + 46 + f.u16(at + 28), next = nameEnd + f.u16(at + 30) + f.u16(at + 32);
    if (next > directory.size) throw bad(`entry ${i} of its directory is damaged`);
    const raw = f.bytes.subarray(at + 46, nameEnd);
    const name = new TextDecoder(flags & UTF8 ? "utf-8" : "latin1").decode(raw);
    const [packed, size, place] = wideSizes(f, at, nameEnd, source);
    const mode = f.u32(at + 38) >>> 16;
    at = next;
    checkMemberName(name, bad);
    if (names.has(name)) throw bad(`member "${name}" is there twice`);
    names.add(name);
    if (flags & ENCRYPTED) throw bad(`member "${name}" is encrypted`);
    if ((mode & 0xf000) === SYMLINK) throw bad(`member "${name}" is a link`);
    if (method !== 0 && method !== 8) throw bad(`member "${name}" is packed by method ${method}; 0 and 8 are known`);
    if (place + 30 > directory.offset) throw bad(`member "${name}" is out of range`);
    const local = new Fields(source.read(place, 30));
    const start = place + 30 + local.u16(26) + local.u16(28);
    if (local.u32(0) !== LOCAL || start > directory.offset) throw bad(`member "${name}" has no header of its own`);
    const same = local.u16(26) === raw.length && local.u16(8) === method &&
      source.read(place + 30, raw.length).every((b, k) => b === raw[k]);
    if (!same) throw bad(`member "${name}" has another name or method in its own header`);
    if (start + packed > directory.offset) throw bad(`member "${name}" is out of range`);
    if (method === 0 && packed !== size) throw bad(`member "${name}" is stored, and has two sizes: ${packed}, ${size}`);
    spans.push([place, start + packed, name]);
    if (!name.endsWith("/")) members.push({ name, packed, size, method, crc, start });
  }
  spans.sort((a, b) => a[0] - b[0]);
  spans.forEach(([start, , name], i) => {
    if (i > 0 && start < spans[i - 1][1]) throw bad(`members "${spans[i - 1][2]}" and "${name}" overlap`);
  });
  return members;
}

/** The bytes of members, unpacked where they are packed; `limit` for all of them together. */
export class ZipReader {
  readonly members: ReadonlyMap<string, Member>;
  private left: number;
  constructor(
    private readonly source: Source,
    private readonly options: ArchiveOptions = {},
    private readonly action = "load",
  ) {
    this.members = new Map(readZip(source).map((m) => [m.name, m]));
    this.left = options.maxBytes ?? MAX_UNPACKED;
  }
  /** The bytes of a member. @throws {FormatError} where it is missing, damaged or too large */
  async open(name: string): Promise<Source> {
    const member = this.members.get(name), { source } = this, { bad } = source;
    if (member === undefined) throw bad(`it has no member "${name}"`);
    const { start, packed, size, method, crc } = member, label = `${source.name}/${name}`;
    if (method === 0) return source.part(start, size, label);
    checkClaim(packed, size, this.left, bad, `member "${name}"`);
    this.left -= size;
    const bytes = await unpack(source.read(start, packed), "deflate-raw", bad, { size, what: `member "${name}"` });
    if (crc32(bytes) !== crc) throw bad(`member "${name}" is damaged: its checksum is wrong`);
    return memorySource(bytes, label, this.options, this.action);
  }
}

// ---- writing

/** Bytes of a member that is yet to be written. */
export interface NewMember {
  readonly name: string;
  bytes(): Uint8Array | Promise<Uint8Array>;
}

/** Fields of a header, by their widths in bytes. */
function record(fields: readonly (readonly [width: 2 | 4 | 8, value: number])[], ...tail: Uint8Array[]): Uint8Array {
  const head = new Uint8Array(fields.reduce((n, [w]) => n + w, 0)), view = new DataView(head.buffer);
  let at = 0;
  for (const [width, value] of fields) {
    if (width === 2) view.setUint16(at, value, true);
    else if (width === 4) view.setUint32(at, value, true);
    else view.setBigUint64(at, BigInt(value), true);
    at += width;
  }
  return concatBytes([head, ...tail]);
}

/** Writes an archive; sizes beyond 4 GiB as Zip64. The time of members is always the same: 1980. */
export async function putZip(members: readonly NewMember[], put: Put, compressed: boolean): Promise<void> {
  const directory: Uint8Array[] = [], method = compressed ? 8 : 0, date = 0x21;
  let at = 0;
  const add = (bytes: Uint8Array): Promise<void> | undefined => {
    at += bytes.length;
    return put(bytes);
  };
  for (const { name, bytes } of members) {
    const given = bytes(), data = given instanceof Promise ? await given : given;
    const packed = compressed ? await pack(data) : data, crc = crc32(data), place = at;
    const text = new TextEncoder().encode(name), wide = data.length >= FULL || packed.length >= FULL || place >= FULL;
    const extra = wide ? record([[2, ZIP64], [2, 24], [8, data.length], [8, packed.length], [8, place]]) : record([]);
    const local = wide ? record([[2, ZIP64], [2, 16], [8, data.length], [8, packed.length]]) : record([]);
    const small = (n: number): [4, number] => [4, wide ? FULL : n];
    const sizes = [[4, crc], small(packed.length), small(data.length), [2, text.length]] as const;
    const common = [[2, wide ? 45 : 20], [2, UTF8], [2, method], [2, 0], [2, date]] as const;
    for (const part of [record([[4, LOCAL], ...common, ...sizes, [2, local.length]], text, local), packed]) {
      const done = add(part);
      if (done !== undefined) await done;
    }
    directory.push(record(
      [[4, CENTRAL], [2, 45], ...common, ...sizes, [2, extra.length], [2, 0], [2, 0], [2, 0], [4, 0], small(place)],
      text,
      extra,
    ));
  }
  const start = at;
  for (const entry of directory) await add(entry);
  const length = at - start, count = members.length;
  if (start >= FULL || length >= FULL || count >= 0xffff) {
    const place = at;
    const totals = [[8, count], [8, count], [8, length], [8, start]] as const;
    await add(record([[4, END64], [8, 44], [2, 45], [2, 45], [4, 0], [4, 0], ...totals]));
    await add(record([[4, LOCATOR64], [4, 0], [8, place], [4, 1]]));
  }
  const many = Math.min(count, 0xffff);
  await add(record([
    [4, END],
    [2, 0],
    [2, 0],
    [2, many],
    [2, many],
    [4, Math.min(length, FULL)],
    [4, Math.min(start, FULL)],
    [2, 0],
  ]));
}
