/**
 * Where a model may be: a file, a folder, bytes in any of the forms that hosts have them in, or a server. Out: what files are
 * read from, and what errors call it.
 *
 * @module
 */
import { hostFiles } from "../../device/host_files.ts";
import { ArgumentError, FormatError } from "../../helpers/errors.ts";
import { describe } from "../../helpers/options.ts";
import { type Loadable, pathOf } from "../../state/source.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type DownloadOptions, fetchModel, serverUrl } from "./model_download.ts";

/** What {@linkcode Loadable} is, or an `http:` or `https:` URL. */
export type ModelSource = Loadable;

/** What is read, by which name. */
export interface FoundModel {
  readonly from: string | URL | Tensor;
  readonly name: string;
  /** A folder of Hugging Face's? */
  readonly isFolder: boolean;
}

function ofBytes(bytes: Uint8Array, name = "a tensor of bytes"): FoundModel {
  return { from: new Tensor(bytes), name, isFolder: false };
}

/** Finds a model; one of a server is fetched. @throws {ArgumentError} for what is no place of one */
export async function findModel(given: ModelSource, download: DownloadOptions = {}): Promise<FoundModel> {
  if (given instanceof Tensor) return { from: given, name: "a tensor of bytes", isFolder: false };
  if (given instanceof Uint8Array) return ofBytes(given);
  if (given instanceof ArrayBuffer) return ofBytes(new Uint8Array(given));
  if (given instanceof Blob) {
    const { name } = given as { name?: unknown };
    return ofBytes(
      new Uint8Array(await given.arrayBuffer()),
      typeof name === "string" && name !== "" ? name : undefined,
    );
  }
  const url = serverUrl(given);
  if (url !== undefined) {
    const got = await fetchModel(url, download);
    return typeof got === "string" ? { from: got, name: got, isFolder: false } : ofBytes(got, url.href);
  }
  if (!(given instanceof URL) && (typeof given !== "string" || given === "")) {
    const reason = `it takes a path, a URL, or bytes (Uint8Array, ArrayBuffer, Blob, Tensor), not ${describe(given)}`;
    throw new ArgumentError("load a model", { reason });
  }
  const path = pathOf("load a model", given, true), isFolder = isFile(`${path}/config.json`) === true;
  if (!isFolder && isFile(path) === false) {
    const reason = "it is a folder without config.json, which folders of Hugging Face's have; give the path of a file";
    throw new FormatError("load", { file: String(given), reason });
  }
  return { from: given, name: String(given), isFolder };
}

/** Whether there is a file; undefined where nothing is, or cannot be seen: that is told by who reads it. */
function isFile(path: string): boolean | undefined {
  try {
    return hostFiles()?.statSync(path).isFile;
  } catch {
    return undefined;
  }
}
