/**
 * Models from servers: a file is fetched once, goes on where an earlier try ended, is checked, and is kept. In: a URL that the
 * user gives; out: the path of the file, or its bytes where none can be written.
 *
 * A part that is there is asked on from its end, under the condition that the server still has the same file (RFC 9110,
 * section 13.1.5, If-Range); where it has another, or tells nothing to know it by, it is fetched from the start.
 *
 * @module
 */
import { fileErrorCode, type HostFiles, hostFiles, NO_FILES } from "../../device/host_files.ts";
import { ArgumentError, FormatError } from "../../helpers/errors.ts";
import { nodeModule } from "../../helpers/node.ts";
import { checkOptions, describe } from "../../helpers/options.ts";
import {
  ask,
  bodyOf,
  type Bytes,
  type DownloadProgress,
  folderFor,
  sha256 as sumOfBytes,
  tellNotKept,
  totalOf,
} from "../../state/server_files.ts";

/** How far the download of a model is. */
export type ModelProgress = DownloadProgress;

/** Options of {@linkcode download}. */
export interface DownloadOptions {
  /** What the file must have, in hexadecimal. */
  readonly sha256?: string;
  /** Stops it; what came by then is kept for the next try. */
  readonly signal?: AbortSignal;
  /** Called as bytes arrive. */
  readonly onProgress?: (progress: DownloadProgress) => void;
}

const ACTION = "download a model";
/** Tries that bring nothing, one after the other, after which it is given up. */
const MOST_TRIES = 3;
/** Bytes of a file that are hashed at once. */
const CHUNK = 1 << 22;

/** What is used of a hash of node:crypto, which takes bytes as they come. */
interface Hash {
  update(bytes: Uint8Array): unknown;
  digest(form: "hex"): string;
}

/** What a server said of a file: what it is known by, and how long it is. */
interface Told {
  readonly tag: string | undefined;
  readonly total: number | undefined;
}

/** The URL that is meant, where it is one of a server. */
export function serverUrl(from: unknown): URL | undefined {
  if (from instanceof URL) return /^https?:$/.test(from.protocol) ? from : undefined;
  return typeof from === "string" && /^https?:\/\//i.test(from) ? new URL(from) : undefined;
}

/** Options that are known, with a sum that can be one. @throws {ArgumentError} */
function checkDownload(options: DownloadOptions): DownloadOptions {
  checkOptions(ACTION, options, ["sha256", "signal", "onProgress"]);
  const { sha256 } = options;
  if (sha256 !== undefined && !(typeof sha256 === "string" && /^[0-9a-f]{64}$/i.test(sha256))) {
    throw new ArgumentError(ACTION, { reason: `sha256 is ${describe(sha256)}, not 64 hexadecimal digits` });
  }
  return options;
}

/** What is asked of the server of a model. */
function asking(url: URL, signal: AbortSignal | undefined, headers: Record<string, string> = {}): Promise<Response> {
  // 416 says that there is nothing behind the part
  return ask({ url, action: "download", offline: "a path of a file works offline", headers, signal, also: [416] });
}

function toldBy(response: Response, from: number): Told {
  const { headers } = response, etag = headers.get("etag");
  // a weak tag may stand for other bytes
  const tag = etag?.startsWith("W/") === false ? etag : headers.get("last-modified") ?? undefined;
  return { tag, total: totalOf(response, from) };
}

async function sizeOf(files: HostFiles, path: string): Promise<number | undefined> {
  try {
    return (await files.statSync(path)).size;
  } catch (error) {
    if (fileErrorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

async function sumOf(files: HostFiles, path: string): Promise<string> {
  const crypto = nodeModule("node:crypto") as { createHash(name: "sha256"): Hash }, hash = crypto.createHash("sha256");
  const file = files.openSync(path, { read: true }), chunk = new Uint8Array(CHUNK);
  try {
    for (let n = file.readSync(chunk); n; n = file.readSync(chunk)) {
      hash.update(chunk.subarray(0, n));
      await new Promise((done) => setTimeout(done)); // others have their turn
    }
  } finally {
    file.close();
  }
  return hash.digest("hex");
}

/** Throws, and removes the file, where it has another sum than it must. */
async function checkSum(files: HostFiles, path: string, url: URL, sha256: string | undefined): Promise<void> {
  if (sha256 === undefined) return;
  const got = await sumOf(files, path);
  if (got === sha256.toLowerCase()) return;
  await files.remove(path);
  throw new FormatError("download", { file: url.href, reason: `its SHA-256 is ${got}, not ${sha256}; it was removed` });
}

async function writeAll(files: HostFiles, path: string, parts: AsyncIterable<Uint8Array>, each: (n: number) => void) {
  const file = await files.open(path, { append: true, create: true });
  try {
    for await (const part of parts) {
      for (let n = 0; n < part.length;) n += await file.write(part.subarray(n));
      each(part.length);
    }
    await file.sync();
  } finally {
    file.close();
  }
}

async function removeIfThere(files: HostFiles, path: string): Promise<void> {
  if (await sizeOf(files, path) !== undefined) await files.remove(path);
}

/** One try to get what of a file is missing: whether all of it is there, and whether anything came. */
async function goOn(
  files: HostFiles,
  url: URL,
  part: string,
  { signal, onProgress }: DownloadOptions,
): Promise<{ readonly isDone: boolean; readonly came: number }> {
  const note = `${part}.tag`, have = await sizeOf(files, part) ?? 0;
  const tag = have > 0 && await sizeOf(files, note) !== undefined ? files.readTextFileSync(note) : undefined;
  const asked: Record<string, string> = tag === undefined ? {} : { range: `bytes=${have}-`, "if-range": tag };
  const response = await asking(url, signal, asked), { status, headers, body } = response;
  const range = /^bytes (?:(\d+)-\d+|\*)\/(\d+)$/.exec(headers.get("content-range") ?? "");
  if (status === 416) {
    await body?.cancel();
    if (range !== null && Number(range[2]) === have) return { isDone: true, came: 0 };
  }
  const from = status === 206 && Number(range?.[1]) === have ? have : 0;
  if (from === 0) {
    await removeIfThere(files, part);
    await removeIfThere(files, note);
    if (status !== 200) {
      await body?.cancel();
      return { isDone: false, came: have }; // from the start, without a range
    }
  }
  const told = toldBy(response, from);
  if (from === 0 && told.tag !== undefined) files.writeTextFileSync(note, told.tag, { append: true });
  let loaded = from;
  try {
    await writeAll(files, part, body ?? new ReadableStream<Uint8Array>(), (n) => {
      loaded += n;
      onProgress?.({ file: url.href, loaded, total: told.total });
    });
  } catch (error) {
    // a connection that breaks is a try; what the disk or the caller says is not
    if (signal?.aborted || fileErrorCode(error)?.startsWith("E") || !(error instanceof TypeError)) throw error;
    return { isDone: false, came: loaded - from };
  }
  return { isDone: told.total === undefined || loaded >= told.total, came: loaded - from };
}

/**
 * Fetches a file to `path`, and gives the path. Where it is there it is not fetched again; where a part of it is, the rest.
 * Needs permission to read and write the folder, which is made.
 *
 * @throws {FormatError} where the server does not give it, or it has another SHA-256
 */
export async function download(url: string | URL, path: string, options: DownloadOptions = {}): Promise<string> {
  const from = serverUrl(url), { sha256, signal } = checkDownload(options), files = hostFiles();
  if (from === undefined) throw new ArgumentError(ACTION, { reason: `it takes an http: or https: URL, not ${url}` });
  if (files === undefined) throw new FormatError("download", { file: from.href, reason: NO_FILES });
  if (await sizeOf(files, path) !== undefined) {
    await checkSum(files, path, from, sha256);
    return path;
  }
  const part = `${path}.part`, folder = path.slice(0, Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")));
  if (folder !== "") await files.mkdir(folder, { recursive: true });
  for (let tries = 0, isDone = false; !isDone;) {
    const got = await goOn(files, from, part, options);
    isDone = got.isDone;
    tries = got.came > 0 ? 0 : tries + 1;
    if (!isDone && tries >= MOST_TRIES) {
      const reason =
        `the server ended ${tries} times without sending more; what came is kept, and the next call goes on`;
      throw new FormatError("download", { file: from.href, reason });
    }
    signal?.throwIfAborted();
  }
  await removeIfThere(files, `${part}.tag`);
  await checkSum(files, part, from, sha256);
  await files.rename(part, path);
  return path;
}

/** The file of a URL: its path in the user's cache folder, or its bytes where that cannot be used. */
export async function fetchModel(url: URL, options: DownloadOptions = {}): Promise<string | Bytes> {
  const { sha256, signal, onProgress } = checkDownload(options), folder = await folderFor("models", url.href);
  if (folder !== undefined) {
    const name = decodeURIComponent(url.pathname.split("/").at(-1)!).replace(/[^\w.-]+/g, "_") || "model.gguf";
    const path = `${folder}/${name}`;
    try {
      return await download(url, path, options);
    } catch (error) {
      // what the server or the caller says
      if (error instanceof FormatError || signal?.aborted || fileErrorCode(error) === undefined) throw error;
      tellNotKept(folder, error);
      // a full disk is left as it was
      for (const file of [`${path}.part`, `${path}.part.tag`]) await hostFiles()!.remove(file).catch(() => {});
    }
  }
  const response = await asking(url, signal), total = totalOf(response);
  const bytes = await bodyOf(response, (loaded) => onProgress?.({ file: url.href, loaded, total }));
  const got = sha256 && await sumOfBytes(bytes);
  if (got && got !== sha256.toLowerCase()) {
    throw new FormatError("download", { file: url.href, reason: `its SHA-256 is ${got}, not ${sha256}` });
  }
  return bytes;
}
