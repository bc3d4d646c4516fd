/**
 * MNIST, and sets of its form (Fashion-MNIST): four IDX files in a folder or on a server, checked before they are used.
 * What a server sent is kept in the user's cache folder where that is permitted.
 *
 * @module
 */
import { envText, readEnv } from "../../helpers/env.ts";
import { ArgumentError, FormatError } from "../../helpers/errors.ts";
import { checkOptions, describe } from "../../helpers/options.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type Idx, parseIdx } from "./idx.ts";

/** What {@linkcode mnist} gives. */
export interface Mnist {
  /** uint8 `[60000, 1, 28, 28]`, 0 to 255: `images.cast("float32").div(255)` for a network. */
  readonly trainImages: Tensor;
  /** int32 `[60000]`, 0 to 9. */
  readonly trainLabels: Tensor;
  /** uint8 `[10000, 1, 28, 28]`. */
  readonly testImages: Tensor;
  /** int32 `[10000]`. */
  readonly testLabels: Tensor;
}

/** How far a download is. */
export interface DownloadProgress {
  readonly file: string;
  /** Bytes so far. */
  readonly loaded: number;
  /** Bytes in all, where the server says so. */
  readonly total: number | undefined;
}

/** Options of {@linkcode mnist}. */
export interface MnistOptions {
  /** Where downloads are kept; false keeps none. Default: CACHEDIR, else the user's cache folder. */
  readonly cache?: string | boolean;
  /** The device of the tensors. */
  readonly device?: string;
  /** Stops downloads. */
  readonly signal?: AbortSignal;
  /** Called as bytes arrive. */
  readonly onProgress?: (progress: DownloadProgress) => void;
}

const FILES = {
  trainImages: "train-images-idx3-ubyte",
  trainLabels: "train-labels-idx1-ubyte",
  testImages: "t10k-images-idx3-ubyte",
  testLabels: "t10k-labels-idx1-ubyte",
} as const;
const CLASSES = 10;
const MAX_DOWNLOAD = 2 ** 30;

type Bytes = Uint8Array<ArrayBuffer>;
type Runtime = typeof Deno;

function runtime(): Runtime | undefined {
  return (globalThis as { Deno?: Runtime }).Deno;
}

// ---- folders

/** The file in a folder under either name; undefined where it is missing. */
async function readEither(folder: string, name: string): Promise<{ bytes: Bytes; file: string } | undefined> {
  for (const file of [`${folder}/${name}`, `${folder}/${name}.gz`]) {
    try {
      return { bytes: await runtime()!.readFile(file), file };
    } catch (error) {
      if (!(error instanceof runtime()!.errors.NotFound)) throw error;
    }
  }
  return undefined;
}

async function fromFolder(folder: string, name: string): Promise<Idx> {
  if (runtime() === undefined) {
    throw new FormatError("load", { file: folder, reason: "this runtime has no files; give a URL" });
  }
  const found = await readEither(folder, name);
  if (found === undefined) {
    throw new FormatError("load", { file: folder, reason: `it has neither ${name} nor ${name}.gz` });
  }
  return parseIdx(found.bytes, found.file);
}

// ---- servers

/** The folder for what comes from `base`; undefined where none is wanted or permitted. */
async function cacheFolder(base: string, wanted: string | boolean | undefined): Promise<string | undefined> {
  const deno = runtime();
  if (wanted === false || deno?.permissions?.querySync === undefined) return undefined;
  const xdg = readEnv("XDG_CACHE_HOME"), home = readEnv("HOME");
  const root = typeof wanted === "string"
    ? wanted
    : envText("CACHEDIR") || (xdg ? `${xdg}/dinograd` : home ? `${home}/.cache/dinograd` : "");
  if (root === "") return undefined;
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(base)));
  const folder = `${root}/datasets/${[...hash.subarray(0, 8)].map((b) => b.toString(16).padStart(2, "0")).join("")}`;
  const granted = (["read", "write"] as const).every((name) =>
    deno.permissions.querySync({ name, path: folder }).state === "granted"
  );
  return granted ? folder : undefined;
}

/** Writes a file, or leaves none: a cache that cannot be written is no error. */
async function keep(folder: string, name: string, bytes: Bytes): Promise<void> {
  const deno = runtime()!, temporary = `${folder}/${name}.${crypto.randomUUID().slice(0, 8)}.part`;
  try {
    await deno.mkdir(folder, { recursive: true });
    await deno.writeFile(temporary, bytes, { createNew: true });
    await deno.rename(temporary, `${folder}/${name}`);
  } catch {
    await deno.remove(temporary).catch(() => {});
  }
}

/** The body of a response, counted as it comes. */
async function bodyOf(response: Response, file: string, options: MnistOptions): Promise<Bytes> {
  const length = Number(response.headers.get("content-length") ?? NaN);
  const total = Number.isFinite(length) && !response.headers.has("content-encoding") ? length : undefined;
  const parts: Bytes[] = [];
  let loaded = 0;
  for await (const part of response.body ?? []) {
    loaded += part.length;
    if (loaded > MAX_DOWNLOAD) {
      throw new FormatError("load", { file, reason: `the server sends more than ${MAX_DOWNLOAD} bytes` });
    }
    parts.push(part as Bytes);
    options.onProgress?.({ file, loaded, total });
  }
  const bytes = new Uint8Array(loaded);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

async function download(base: URL, name: string, options: MnistOptions): Promise<{ bytes: Bytes; file: string }> {
  let answer = "";
  for (const tried of [`${name}.gz`, name]) {
    const url = new URL(tried, base), response = await fetch(url, { signal: options.signal });
    if (url.protocol === "https:" && !response.url.startsWith("https:")) {
      await response.body?.cancel();
      throw new FormatError("load", { file: url.href, reason: `the server redirects to ${response.url}, without TLS` });
    }
    if (response.ok) return { bytes: await bodyOf(response, url.href, options), file: url.href };
    await response.body?.cancel();
    answer = `the server answers ${response.status}`;
    if (response.status !== 404) throw new FormatError("load", { file: url.href, reason: answer });
  }
  throw new FormatError("load", { file: new URL(name, base).href, reason: `${answer}, with .gz and without` });
}

async function fromServer(base: URL, name: string, cache: string | undefined, options: MnistOptions): Promise<Idx> {
  if (cache !== undefined) {
    const known = await readEither(cache, name).catch(() => undefined);
    // what was damaged since is fetched again
    const parsed = known && await parseIdx(known.bytes, known.file).catch(() => undefined);
    if (parsed !== undefined) return parsed;
  }
  const { bytes, file } = await download(base, name, options);
  const parsed = await parseIdx(bytes, file);
  if (cache !== undefined) await keep(cache, name, bytes);
  return parsed;
}

// ---- the set

/** The images and labels of one part, checked against each other. */
function pair(where: string, images: Idx, labels: Idx, names: readonly [string, string], device?: string): [
  Tensor,
  Tensor,
] {
  const bad = (name: string, reason: string) => new FormatError("load", { file: `${where}/${name}`, reason });
  if (!(images.data instanceof Uint8Array) || images.shape.length !== 3) {
    throw bad(names[0], `it has axes [${images.shape.join(", ")}]; images are unsigned bytes of 3 axes`);
  }
  if (!(labels.data instanceof Uint8Array) || labels.shape.length !== 1) {
    throw bad(names[1], `it has axes [${labels.shape.join(", ")}]; labels are unsigned bytes of 1 axis`);
  }
  const [n, height, width] = images.shape;
  if (n !== labels.shape[0]) throw bad(names[1], `it has ${labels.shape[0]} labels for ${n} images`);
  const wrong = labels.data.findIndex((label) => label >= CLASSES);
  if (wrong >= 0) throw bad(names[1], `label ${wrong} is ${labels.data[wrong]}, not 0 to ${CLASSES - 1}`);
  return [
    new Tensor(images.data, { device }).reshape([n, 1, height, width]),
    new Tensor(Int32Array.from(labels.data), { device }),
  ];
}

/**
 * Handwritten digits (Y. LeCun, C. Cortes and C. Burges), or any set in the same four files `train-images-idx3-ubyte`,
 * `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`, plain or with `.gz`. `source` is a
 * folder, or an http(s) URL under which the files are: these are downloaded once and kept. Needs read permission for the
 * folder, or net permission for the server; keeping also needs read and write permission for the cache folder.
 *
 * ```ts ignore
 * const { trainImages, trainLabels } = await nn.datasets.mnist("https://storage.googleapis.com/cvdf-datasets/mnist/");
 * const x = trainImages.cast("float32").div(255); // [60000, 1, 28, 28]
 * ```
 *
 * @throws {FormatError} naming the file that is missing or damaged, and how; nothing of the set was used
 */
export async function mnist(source: string | URL, options: MnistOptions = {}): Promise<Mnist> {
  const action = "load a data set";
  checkOptions(action, options, ["cache", "device", "signal", "onProgress"]);
  if (!(source instanceof URL) && (typeof source !== "string" || source === "")) {
    throw new ArgumentError(action, { reason: `it takes a folder or a URL, not ${describe(source)}` });
  }
  const url = source instanceof URL ? source : /^[a-z]+:\/\//i.test(source) ? new URL(source) : undefined;
  const where = String(source).replace(/\/+$/, "");
  let load: (name: string) => Promise<Idx>;
  if (url === undefined) load = (name) => fromFolder(where, name);
  else if (url.protocol === "file:") load = (name) => fromFolder(decodeURIComponent(url.pathname), name);
  else if (url.protocol === "http:" || url.protocol === "https:") {
    const base = new URL(`${where}/`), cache = await cacheFolder(base.href, options.cache);
    load = (name) => fromServer(base, name, cache, options);
  } else {
    throw new ArgumentError(action, { reason: `the URL must be http, https or file, not ${url.protocol}` });
  }
  // all settle before the first failure is told: nothing goes on behind the caller's back
  const loaded = await Promise.allSettled(Object.values(FILES).map(load));
  const failed = loaded.find((r) => r.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  const [a, b, c, d] = loaded.map((r) => (r as PromiseFulfilledResult<Idx>).value);
  const { device } = options;
  const [trainImages, trainLabels] = pair(where, a, b, [FILES.trainImages, FILES.trainLabels], device);
  const [testImages, testLabels] = pair(where, c, d, [FILES.testImages, FILES.testLabels], device);
  return { trainImages, trainLabels, testImages, testLabels };
}
