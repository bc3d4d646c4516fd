/**
 * The binary archive of CIFAR-10 from a folder or a server, checked before it is used.
 *
 * @module
 */
import { FormatError } from "../../helpers/errors.ts";
import { checkOptions } from "../../helpers/options.ts";
import { memorySource } from "../../state/source.ts";
import { openTar, readTar } from "../../state/formats/tar_file.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type Bytes, DOWNLOAD_OPTIONS, type DownloadOptions, fetched, placeOf, readFirst } from "./download.ts";

/** What `cifar` gives. */
export interface Cifar {
  /** uint8 `[50000, 3, 32, 32]`, 0 to 255. */
  readonly trainImages: Tensor;
  /** int32 `[50000]`, 0 to 9. */
  readonly trainLabels: Tensor;
  /** uint8 `[10000, 3, 32, 32]`. */
  readonly testImages: Tensor;
  /** int32 `[10000]`. */
  readonly testLabels: Tensor;
}

/** Options of `cifar`. */
export interface CifarOptions extends DownloadOptions {
  /**
   * SHA-256 that the archive must have, in hex. That of the published one is
   * c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd.
   */
  readonly sha256?: string;
}

const ARCHIVE = "cifar-10-binary.tar.gz", CLASSES = 10, PIXELS = 3 * 32 * 32, ROW = 1 + PIXELS;
const MAX_BYTES = 2 ** 29;

/** Images and labels of some batches: rows of a label and the planes of an image. */
function parseBatches(batches: readonly Bytes[], bad: (reason: string) => FormatError): [Uint8Array, Int32Array] {
  const n = batches.reduce((n, b) => n + b.length / ROW, 0);
  const images = new Uint8Array(n * PIXELS), labels = new Int32Array(n);
  let at = 0;
  for (const batch of batches) {
    for (let row = 0; row < batch.length; row += ROW, at++) {
      if (batch[row] >= CLASSES) throw bad(`label ${at} is ${batch[row]}, not 0 to ${CLASSES - 1}`);
      labels[at] = batch[row];
      images.set(batch.subarray(row + 1, row + ROW), at * PIXELS);
    }
  }
  return [images, labels];
}

async function parseArchive(bytes: Bytes, file: string, options: CifarOptions): Promise<Cifar> {
  const source = memorySource(bytes, file, {}, "load"), { bad } = source, { device, sha256 } = options;
  if (sha256 !== undefined) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const got = [...digest].map((b) => b.toString(16).padStart(2, "0")).join("");
    if (got !== sha256.toLowerCase()) throw bad(`its SHA-256 is ${got}, not ${sha256}`);
  }
  const tar = await openTar(source, { maxBytes: MAX_BYTES });
  const members = readTar(tar).filter(({ name }) => /(^|\/)(data_batch_\d+|test_batch)\.bin$/.test(name));
  const read = (test: boolean): Tensor[] => {
    const batches = members.filter(({ name }) => name.endsWith("test_batch.bin") === test)
      .sort((a, b) => a.name < b.name ? -1 : 1);
    if (batches.length === 0) throw bad(`it has no ${test ? "test_batch" : "data_batch_1"}.bin`);
    for (const { name, size } of batches) {
      if (size === 0 || size % ROW !== 0) throw bad(`member "${name}" has ${size} bytes, no multiple of ${ROW}`);
    }
    const [images, labels] = parseBatches(batches.map(({ start, size }) => tar.read(start, size)), bad);
    return [new Tensor(images, { device }).reshape([labels.length, 3, 32, 32]), new Tensor(labels, { device })];
  };
  const [trainImages, trainLabels] = read(false), [testImages, testLabels] = read(true);
  return { trainImages, trainLabels, testImages, testLabels };
}

/** The set of a folder or a server: `cifar` of cifar.ts. */
export async function loadCifar(source: string | URL, options: CifarOptions): Promise<Cifar> {
  const action = "load a data set";
  checkOptions(action, options, [...DOWNLOAD_OPTIONS, "sha256"]);
  const place = placeOf(action, source), use = (bytes: Bytes, file: string) => parseArchive(bytes, file, options);
  if ("server" in place) return await fetched(place.server, [ARCHIVE], options, use);
  const found = await readFirst(place.folder, [ARCHIVE]);
  if (found === undefined) throw new FormatError("load", { file: place.folder, reason: `it has no ${ARCHIVE}` });
  return await use(found.bytes, found.file);
}
