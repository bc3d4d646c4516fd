/**
 * What models and data sets need of servers: a request whose faults are told, a body that is counted as it comes, and the
 * folder where what comes is kept. In: URLs that the user gives; out: responses, bytes, paths. Nothing here decides what is
 * fetched again.
 *
 * @module
 */
import { cacheRoot, hostFiles, mayUseFolder } from "../device/host_files.ts";
import { FormatError } from "../helpers/errors.ts";

/** Bytes of our own. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** How far a download is. */
export interface DownloadProgress {
  /** The URL. */
  readonly file: string;
  /** Bytes so far, with those of earlier tries. */
  readonly loaded: number;
  /** Bytes in all, where the server says so. */
  readonly total: number | undefined;
}

/** One request for a file. */
export interface Request {
  readonly url: URL;
  /** What errors say cannot be done, as "load". */
  readonly action: string;
  /** What works without a server. */
  readonly offline: string;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
  /** Answers that are looked at, beside those that are well. */
  readonly also?: readonly number[];
}

/** The answer to a request. @throws {FormatError} saying what the server did wrong */
export async function ask({ url, action, offline, headers, signal, also = [] }: Request): Promise<Response> {
  const file = url.href;
  let response: Response;
  try {
    response = await fetch(url, { headers, signal });
  } catch (error) {
    if (signal?.aborted || !(error instanceof TypeError)) throw error;
    const reason = `the server cannot be reached (${error.message}); ${offline}`;
    throw new FormatError(action, { file, reason });
  }
  const isBare = url.protocol === "https:" && response.url !== "" && !response.url.startsWith("https:");
  if (!isBare && (response.ok || also.includes(response.status))) return response;
  await response.body?.cancel();
  const reason = isBare
    ? `the server redirects to ${response.url}, without TLS`
    : `the server answers ${response.status}`;
  throw new FormatError(action, { file, reason });
}

/** The bytes of a file of which `from` are there and the others in a response; undefined where the server does not say it. */
export function totalOf({ headers }: Response, from = 0): number | undefined {
  const length = Number(headers.get("content-length") ?? NaN);
  return Number.isFinite(length) && !headers.has("content-encoding") ? from + length : undefined;
}

/** The body of a response; `each` is told how much there is as it comes. */
export async function bodyOf(response: Response, each: (loaded: number) => void): Promise<Bytes> {
  const parts: Bytes[] = [];
  let loaded = 0;
  for await (const part of response.body ?? []) {
    parts.push(part as Bytes);
    each(loaded += part.length);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer()); // pages hold it once
}

/** A SHA-256 in hexadecimal. */
export async function sha256(bytes: Bytes): Promise<string> {
  return [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))]
    .map((b) => b.toString(16).padStart(2, "0")).join("");
}

/**
 * The folder for what comes from `url`, below a `root` that the user named or the cache's; undefined where there are no files,
 * or that is not permitted. It need not be there, nor be possible to make.
 */
export async function folderFor(kind: "models" | "datasets", url: string, root?: string): Promise<string | undefined> {
  if (hostFiles() === undefined) return undefined;
  try {
    root ??= cacheRoot();
  } catch { /* relative to a folder that may not be asked for */ }
  if (!root) return undefined;
  const folder = `${root}/${kind}/${(await sha256(new TextEncoder().encode(url))).slice(0, 16)}`;
  return mayUseFolder(folder) ? folder : undefined;
}

let isTold = false;

/** Says, once, that a folder cannot be used, and so nothing is kept: no error, for what was fetched is there. */
export function tellNotKept(folder: string, error: unknown): void {
  if (isTold) return;
  isTold = true;
  const why = error instanceof Error ? error.message : String(error);
  console.error(`downloads are not kept: ${folder} cannot be used (${why}); CACHEDIR names another folder`);
}
