/**
 * IDX files, the format of MNIST: two zero bytes, a type, the number of axes, their sizes, then the elements, all
 * big-endian; plain or gzipped. Sizes are checked against what the file holds before anything is allocated for them.
 *
 * @module
 */
import { FormatError } from "../../helpers/errors.ts";
import { concatBytes } from "../../helpers/math.ts";
import { MAX_RATIO, unpackedChunks } from "../../state/formats/inflate.ts";

/** Values of an IDX file, row-major. */
export interface Idx {
  readonly shape: readonly number[];
  readonly data: Uint8Array | Int8Array | Int16Array | Int32Array | Float32Array | Float64Array;
}

interface Kind {
  readonly nbytes: number;
  readonly read: (bytes: Uint8Array<ArrayBuffer>) => Idx["data"];
}

const KINDS: Readonly<Record<number, Kind>> = {
  0x08: { nbytes: 1, read: (b) => b },
  0x09: { nbytes: 1, read: (b) => new Int8Array(b.buffer, b.byteOffset, b.byteLength) },
  0x0b: { nbytes: 2, read: (b) => fill(new Int16Array(b.length / 2), b, (v, at) => v.getInt16(at)) },
  0x0c: { nbytes: 4, read: (b) => fill(new Int32Array(b.length / 4), b, (v, at) => v.getInt32(at)) },
  0x0d: { nbytes: 4, read: (b) => fill(new Float32Array(b.length / 4), b, (v, at) => v.getFloat32(at)) },
  0x0e: { nbytes: 8, read: (b) => fill(new Float64Array(b.length / 8), b, (v, at) => v.getFloat64(at)) },
};
const MAX_AXES = 8;
/** No file holds more, unpacked. */
const MAX_BYTES = 2 ** 31;

function fill<T extends Int16Array | Int32Array | Float32Array | Float64Array>(
  into: T,
  bytes: Uint8Array,
  read: (view: DataView, at: number) => number,
): T {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let i = 0; i < into.length; i++) into[i] = read(view, i * into.BYTES_PER_ELEMENT);
  return into;
}

/** What the first bytes say, once there are enough of them. */
interface Header {
  readonly kind: Kind;
  readonly shape: readonly number[];
  /** Bytes of the header, and of all elements. */
  readonly start: number;
  readonly nbytes: number;
}

type Bad = (reason: string) => FormatError;

/** The header at the start of `bytes`; undefined where more bytes are needed. */
function headerOf(bytes: Uint8Array, bad: Bad): Header | undefined {
  if (bytes.length < 4) return undefined;
  const magic = [...bytes.subarray(0, 4)].map((b) => b.toString(16).padStart(2, "0")).join(" ");
  const kind = KINDS[bytes[2]], rank = bytes[3];
  if (bytes[0] !== 0 || bytes[1] !== 0 || kind === undefined) {
    throw bad(`it starts with ${magic}, no magic number of an IDX file`);
  }
  if (rank < 1 || rank > MAX_AXES) throw bad(`it has ${rank} axes, not 1 to ${MAX_AXES}`);
  const start = 4 + 4 * rank;
  if (bytes.length < start) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, start);
  const shape = Array.from({ length: rank }, (_, i) => view.getUint32(4 + 4 * i));
  const nbytes = shape.reduce((n, size) => n * BigInt(size), BigInt(kind.nbytes));
  if (nbytes > BigInt(MAX_BYTES)) throw bad(`its sizes [${shape.join(", ")}] need ${nbytes} bytes, too many`);
  return { kind, shape, start, nbytes: Number(nbytes) };
}

function finish({ kind, shape }: Header, data: Uint8Array<ArrayBuffer>): Idx {
  return { shape, data: kind.read(data) };
}

function short(header: Header | undefined, have: number, bad: Bad): FormatError {
  if (header === undefined) return bad(`it has ${have} bytes, too few for a header`);
  const { shape, start, nbytes } = header;
  return bad(`it is truncated: its sizes [${shape.join(", ")}] need ${start + nbytes} bytes, and it has ${have}`);
}

function parsePlain(bytes: Uint8Array<ArrayBuffer>, bad: Bad): Idx {
  const header = headerOf(bytes, bad);
  if (header === undefined || bytes.length < header.start + header.nbytes) throw short(header, bytes.length, bad);
  const end = header.start + header.nbytes;
  if (bytes.length > end) throw bad(`${bytes.length - end} bytes follow the last element`);
  return finish(header, bytes.slice(header.start));
}

async function parseGzip(bytes: Uint8Array<ArrayBuffer>, bad: Bad): Promise<Idx> {
  let head: Uint8Array<ArrayBuffer> = new Uint8Array(0), header: Header | undefined;
  let data: Uint8Array<ArrayBuffer> | undefined, have = 0;
  const take = (part: Uint8Array): void => {
    if (have + part.length > header!.nbytes) throw bad("bytes follow the last element");
    data!.set(part, have);
    have += part.length;
  };
  for await (const chunk of unpackedChunks(bytes, "gzip", (why) => bad(`it is no sound gzip file (${why})`))) {
    if (data !== undefined) {
      take(chunk);
      continue;
    }
    head = concatBytes([head, chunk]);
    header = headerOf(head, bad);
    if (header === undefined) continue;
    if (header.nbytes > bytes.length * MAX_RATIO) throw short(header, head.length, bad);
    data = new Uint8Array(header.nbytes);
    take(head.subarray(header.start));
  }
  if (header === undefined || have < header.nbytes) {
    throw short(header, header ? header.start + have : head.length, bad);
  }
  return finish(header, data!);
}

/**
 * The values of an IDX file, plain or gzipped (told by its first bytes). `file` names it in errors.
 * @throws {FormatError} saying what is wrong with it
 */
export async function parseIdx(bytes: Uint8Array<ArrayBuffer>, file: string): Promise<Idx> {
  const bad: Bad = (reason) => new FormatError("load", { file, reason });
  return await (bytes[0] === 0x1f && bytes[1] === 0x8b ? parseGzip(bytes, bad) : parsePlain(bytes, bad));
}
