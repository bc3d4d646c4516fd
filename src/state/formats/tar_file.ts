/**
 * Tar archives (POSIX.1-2001: ustar, pax; and GNU's long names), plain or gzipped. Members of a plain one stay where they
 * are, as ranges of the file.
 *
 * @module
 */
import { textOf } from "../../device/foreign.ts";
import { checkMemberName, MAX_UNPACKED, unpack } from "./inflate.ts";
import { memorySource, type Source } from "../source.ts";
import type { ArchiveOptions } from "./zip_file.ts";

const BLOCK = 512, MAX_NAME = 1 << 16;

/** A regular file of an archive. */
export interface TarMember {
  readonly name: string;
  readonly start: number;
  readonly size: number;
}

/** A number in a header: octal digits, or GNU's binary form; undefined where it is none. */
function numberOf(bytes: Uint8Array): number | undefined {
  if (bytes[0] & 0x80) {
    let n = bytes[0] & 0x7f;
    for (const b of bytes.subarray(1)) n = n * 256 + b;
    return Number.isSafeInteger(n) ? n : undefined;
  }
  const text = textOf(bytes).trim();
  return /^[0-7]*$/.test(text) ? parseInt(text || "0", 8) : undefined;
}

function sumOf(block: Uint8Array): number {
  return block.reduce((n, b, i) => n + (i >= 148 && i < 156 ? 32 : b), 0);
}

/** The records of a pax header: "length key=value\n". */
function parsePax(bytes: Uint8Array, source: Source): Map<string, string> {
  const out = new Map<string, string>();
  for (let at = 0; at < bytes.length && bytes[at] !== 0;) {
    const space = bytes.indexOf(0x20, at), length = Number(textOf(bytes.subarray(at, Math.max(at, space))));
    const record = textOf(bytes.subarray(space + 1, at + length - 1)), equals = record.indexOf("=");
    if (
      space < 0 || !Number.isInteger(length) || at + length > bytes.length || at + length <= space + 1 || equals < 1
    ) {
      throw source.bad("an extended header is damaged");
    }
    out.set(record.slice(0, equals), record.slice(equals + 1));
    at += length;
  }
  return out;
}

/** The regular files of an archive; folders, links and devices are left out. */
export function readTar(source: Source): TarMember[] {
  const { bad, size } = source, members: TarMember[] = [], names = new Set<string>();
  let at = 0, longName: string | undefined, pax = new Map<string, string>();
  const global = new Map<string, string>();
  for (;;) {
    if (at === size && at > 0) break;
    if (at + BLOCK > size) throw bad(at === 0 ? "it is no tar archive" : "it is truncated in a header");
    const head = source.read(at, BLOCK);
    if (head.every((b) => b === 0)) break;
    const recorded = numberOf(head.subarray(148, 156));
    if (recorded !== sumOf(head)) throw bad(at === 0 ? "it is no tar archive" : `the header at byte ${at} is damaged`);
    const kind = String.fromCharCode(head[156] || 0x30), start = at + BLOCK;
    const extended = kind === "x" || kind === "g" || kind === "L" || kind === "K";
    const claimed = extended ? undefined : pax.get("size") ?? global.get("size");
    const nbytes = claimed === undefined ? numberOf(head.subarray(124, 136)) : Number(claimed);
    if (nbytes === undefined || !Number.isSafeInteger(nbytes) || nbytes < 0) {
      throw bad(`the size at byte ${at} is no number`);
    }
    const prefix = textOf(head.subarray(257, 262)) === "ustar" ? textOf(head.subarray(345, 500)) : "";
    const own = textOf(head.subarray(0, 100));
    const name = longName ?? pax.get("path") ?? (prefix === "" || head[263] === 0x20 ? own : `${prefix}/${own}`);
    if (start + nbytes > size) throw bad(`it is truncated: "${name.slice(0, 80)}" needs ${nbytes} bytes at ${start}`);
    at = start + Math.ceil(nbytes / BLOCK) * BLOCK;
    if (at > size) at = size;
    if (extended) {
      if (nbytes > MAX_NAME) throw bad(`an extended header has ${nbytes} bytes, more than ${MAX_NAME}`);
      const body = source.read(start, nbytes);
      if (kind === "L") longName = textOf(body);
      else if (kind === "x") pax = parsePax(body, source);
      else if (kind === "g") { for (const [k, v] of parsePax(body, source)) global.set(k, v); }
      continue;
    }
    longName = undefined;
    pax = new Map();
    if (kind !== "0" && kind !== "7") continue;
    checkMemberName(name, bad);
    if (names.has(name)) throw bad(`member "${name}" is there twice`);
    names.add(name);
    members.push({ name, start, size: nbytes });
  }
  return members;
}

/** The archive itself, unpacked where it is gzipped. */
export async function openTar(source: Source, options: ArchiveOptions): Promise<Source> {
  const gzipped = source.size > 2 && source.read(0, 2).join() === "31,139";
  if (!gzipped) return source;
  const limit = options.maxBytes ?? MAX_UNPACKED;
  const bytes = await unpack(source.read(0, source.size), "gzip", source.bad, { limit });
  return memorySource(bytes, source.name, options, "load");
}
