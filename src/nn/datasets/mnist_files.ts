/**
 * The files of MNIST, and of sets of its form (Fashion-MNIST): four IDX files in a folder or on a server, checked before
 * they are used.
 * What a server sent is kept in the user's cache folder where that is permitted.
 *
 * @module
 */
import { FormatError } from "../../helpers/errors.ts";
import { checkOptions } from "../../helpers/options.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { DOWNLOAD_OPTIONS, type DownloadOptions, fetched, placeOf, readFirst } from "./download.ts";
import { type Idx, parseIdx } from "./idx.ts";

/** What `mnist` gives. */
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

/** Options of `mnist`. */
export type MnistOptions = DownloadOptions;

const FILES = {
  trainImages: "train-images-idx3-ubyte",
  trainLabels: "train-labels-idx1-ubyte",
  testImages: "t10k-images-idx3-ubyte",
  testLabels: "t10k-labels-idx1-ubyte",
} as const;
const CLASSES = 10;

async function fromFolder(folder: string, name: string): Promise<Idx> {
  const found = await readFirst(folder, [name, `${name}.gz`]);
  if (found === undefined) {
    throw new FormatError("load", { file: folder, reason: `it has neither ${name} nor ${name}.gz` });
  }
  return parseIdx(found.bytes, found.file);
}

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

/** The set of a folder or a server: `mnist` of mnist.ts. */
export async function loadMnist(source: string | URL, options: MnistOptions): Promise<Mnist> {
  const action = "load a data set";
  checkOptions(action, options, DOWNLOAD_OPTIONS);
  const place = placeOf(action, source), where = String(source).replace(/\/+$/, "");
  const load = (name: string): Promise<Idx> =>
    "folder" in place
      ? fromFolder(place.folder, name)
      : fetched(place.server, [`${name}.gz`, name], options, (bytes, file) => parseIdx(bytes, file));
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
