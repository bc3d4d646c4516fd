/**
 * Unpacking with a limit: a few bytes of a hostile file may claim, or turn into, any number of them.
 *
 * @module
 */
import { takeTurn } from "../../device/pressure.ts";
import { concatBytes } from "../../helpers/math.ts";
import type { Bad, Bytes } from "../source.ts";

/** The most bytes that are unpacked of one archive, unless asked otherwise. */
export const MAX_UNPACKED: number = 2 ** 32;
/** Deflate gives at most 1032 bytes for one (258 of a match in 2 bits). */
export const MAX_RATIO: number = 1032;
/** Bytes that are unpacked at once: at most 17 MB come of them. */
const PIECE = 2 ** 14;
/** How bytes are packed. */
export type PackedFormat = "deflate-raw" | "gzip";

/** The size that a packed part claims, if that is possible at all. */
export function checkClaim(packed: number, claimed: number, limit: number, bad: Bad, what: string): void {
  if (claimed > limit) throw bad(`${what} unpacks to ${claimed} bytes, more than the ${limit} that are allowed`);
  if (claimed > packed * MAX_RATIO + 64) {
    throw bad(`${what} claims that ${packed} bytes unpack to ${claimed}, more than any can`);
  }
}

/** The bytes in small pieces: of one piece all is unpacked at once, up to a thousand times its size. */
function inPieces(bytes: Bytes): ReadableStream<Bytes> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at < bytes.length) controller.enqueue(bytes.subarray(at, at += PIECE));
      else controller.close();
    },
  }, { highWaterMark: 0 });
}

/** What `packed` unpacks to, chunk by chunk. Throws what `broken` makes of the reason where it cannot be unpacked. */
export async function* unpackedChunks(
  packed: Bytes,
  format: PackedFormat,
  broken: (reason: string) => Error,
): AsyncGenerator<Uint8Array> {
  const reader = inPieces(packed).pipeThrough(new DecompressionStream(format)).getReader();
  try {
    for (;;) {
      let chunk: Uint8Array | undefined;
      try {
        chunk = (await reader.read()).value;
      } catch (error) {
        throw broken((error as Error).message);
      }
      if (chunk === undefined) return;
      await takeTurn(); // chunks may come without any
      yield chunk;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/**
 * Unpacks `packed`. With `size`, exactly that many bytes must come, and memory is taken only for them; else at most
 * `limit`.
 */
export async function unpack(
  packed: Bytes,
  format: PackedFormat,
  bad: Bad,
  { size, limit = MAX_UNPACKED, what = "it" }: {
    readonly size?: number;
    readonly limit?: number;
    readonly what?: string;
  },
): Promise<Bytes> {
  const most = size ?? limit, parts: Uint8Array[] = [];
  let have = 0;
  for await (const chunk of unpackedChunks(packed, format, (why) => bad(`${what} cannot be unpacked (${why})`))) {
    if ((have += chunk.length) > most) throw bad(`${what} unpacks to more than ${most} bytes`);
    parts.push(chunk);
  }
  if (size !== undefined && have !== size) throw bad(`${what} unpacks to ${have} bytes, not ${size}`);
  return concatBytes(parts);
}

/** Packs bytes as deflate does. */
export async function pack(bytes: Uint8Array): Promise<Bytes> {
  const stream = new Blob([bytes as Bytes]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Throws for a member's name that could lead out of a folder. */
export function checkMemberName(name: string, bad: Bad): void {
  const parts = name.split("/");
  if (name === "" || /[\\\0]|^[A-Za-z]:/.test(name) || name.startsWith("/") || parts.includes("..")) {
    throw bad(`member ${JSON.stringify(name.slice(0, 80))} has a name that leads out of the archive`);
  }
}
