/**
 * Files of data sets from servers: fetched once, checked, and kept in the user's cache folder where that is permitted.
 *
 * @module
 */
import type { DeviceName } from "../../device/device.ts";
import { fileErrorCode, hostFiles, NO_FILES } from "../../device/host_files.ts";
import { ArgumentError, FormatError } from "../../helpers/errors.ts";
import { describe } from "../../helpers/options.ts";
import {
  ask,
  bodyOf,
  type Bytes,
  type DownloadProgress,
  folderFor,
  tellNotKept,
  totalOf,
} from "../../state/server_files.ts";

export type { Bytes, DownloadProgress };

/** Options of data sets that are downloaded. */
export interface DownloadOptions {
  /** Where downloads are kept; false keeps none. Default: CACHEDIR, else the user's cache folder. */
  readonly cache?: string | boolean;
  /** The device of the tensors. */
  readonly device?: DeviceName;
  /** Stops downloads. */
  readonly signal?: AbortSignal;
  /** Called as bytes arrive. */
  readonly onProgress?: (progress: DownloadProgress) => void;
}

/** The names in {@linkcode DownloadOptions}. */
export const DOWNLOAD_OPTIONS: readonly string[] = ["cache", "device", "signal", "onProgress"];

const MAX_DOWNLOAD = 2 ** 30;

/** Where a data set is: a folder, or the URL of one, with a slash at its end. */
export type Place = { readonly folder: string } | { readonly server: URL };

/** What the user gave, as a folder or a server. @throws {ArgumentError} */
export function placeOf(action: string, source: unknown): Place {
  if (!(source instanceof URL) && (typeof source !== "string" || source === "")) {
    throw new ArgumentError(action, { reason: `it takes a folder or a URL, not ${describe(source)}` });
  }
  const url = source instanceof URL ? source : /^[a-z]+:\/\//i.test(source) ? new URL(source) : undefined;
  const where = String(source).replace(/\/+$/, "");
  if (url === undefined) return { folder: where };
  if (url.protocol === "file:") return { folder: decodeURIComponent(url.pathname).replace(/\/+$/, "") };
  if (url.protocol === "http:" || url.protocol === "https:") return { server: new URL(`${where}/`) };
  throw new ArgumentError(action, { reason: `the URL must be http, https or file, not ${url.protocol}` });
}

/** The first of some files of a folder that is there. @throws {FormatError} where the runtime has no files */
export async function readFirst(
  folder: string,
  names: readonly string[],
): Promise<{ readonly bytes: Bytes; readonly file: string } | undefined> {
  const files = hostFiles();
  if (files === undefined) throw new FormatError("load", { file: folder, reason: `${NO_FILES}; give a URL` });
  for (const file of names.map((name) => `${folder}/${name}`)) {
    try {
      return { bytes: await files.readFile(file), file };
    } catch (error) {
      if (fileErrorCode(error) !== "ENOENT") throw error;
    }
  }
  return undefined;
}

/** Writes a file, or leaves none: a cache that cannot be written is no error. */
async function keep(folder: string, name: string, bytes: Bytes): Promise<void> {
  const files = hostFiles()!, temporary = `${folder}/${name}.${crypto.randomUUID().slice(0, 8)}.part`;
  try {
    await files.mkdir(folder, { recursive: true });
    await files.writeFile(temporary, bytes, { createNew: true });
    await files.rename(temporary, `${folder}/${name}`);
  } catch (error) {
    tellNotKept(folder, error);
    await files.remove(temporary).catch(() => {});
  }
}

/** The first of some files of a server that is there. @throws {FormatError} saying what the server did wrong */
async function fetchFirst(
  base: URL,
  names: readonly string[],
  options: DownloadOptions,
): Promise<{ readonly bytes: Bytes; readonly file: string }> {
  for (const [i, name] of names.entries()) {
    const url = new URL(name, base), file = url.href;
    const offline = "a folder with the files works offline";
    const response = await ask({ url, action: "load", offline, signal: options.signal, also: [404] });
    if (response.ok) {
      const total = totalOf(response);
      const bytes = await bodyOf(response, (loaded) => {
        if (loaded > MAX_DOWNLOAD) {
          throw new FormatError("load", { file, reason: `the server sends more than ${MAX_DOWNLOAD} bytes` });
        }
        options.onProgress?.({ file, loaded, total });
      });
      return { bytes, file };
    }
    await response.body?.cancel();
    if (i < names.length - 1) continue;
    const also = names.length > 1 ? ", with .gz and without" : "";
    throw new FormatError("load", { file, reason: `the server answers 404${also}` });
  }
  throw new ArgumentError("load a data set", { reason: "it has no files" });
}

/**
 * A file of a server, by way of the cache: what is there under one of `names` and can be used is not fetched. `use` makes
 * something of the bytes, and throws where they are damaged.
 */
export async function fetched<T>(
  base: URL,
  names: readonly string[],
  options: DownloadOptions,
  use: (bytes: Bytes, file: string) => Promise<T>,
): Promise<T> {
  const { cache: wanted } = options;
  const cache = wanted === false
    ? undefined
    : await folderFor("datasets", base.href, typeof wanted === "string" ? wanted : undefined);
  if (cache !== undefined) {
    const known = await readFirst(cache, names).catch(() => undefined);
    // what was damaged since is fetched again
    const used = known && await use(known.bytes, known.file).catch(() => undefined);
    if (used !== undefined) return used;
  }
  const { bytes, file } = await fetchFirst(base, names, options);
  const used = await use(bytes, file);
  if (cache !== undefined) await keep(cache, names[names.length - 1], bytes);
  return used;
}
