/**
 * MNIST, and sets of its form (Fashion-MNIST). What reads the files is in mnist_files.ts, which is loaded when it is asked
 * for.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import type { Mnist, MnistOptions } from "./mnist_files.ts";

export type { Mnist, MnistOptions };

/**
 * Handwritten digits (Y. LeCun, C. Cortes and C. Burges), or any set in the same four files `train-images-idx3-ubyte`,
 * `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`, plain or with `.gz`. `source` is a
 * folder, or an http(s) URL under which the files are: these are downloaded once and kept. Needs read permission for the
 * folder, or net permission for the server; keeping also needs read and write permission for the cache folder.
 *
 * ```ts ignore types
 * import { nn } from "../../../mod.ts";
 * const { trainImages, trainLabels } = await nn.datasets.mnist("https://storage.googleapis.com/cvdf-datasets/mnist/");
 * const x = trainImages.cast("float32").div(255); // [60000, 1, 28, 28]
 * ```
 *
 * @throws {FormatError} naming the file that is missing or damaged, and how; nothing of the set was used
 */
export async function mnist<N extends string = string>(
  source: string | URL,
  options: Checked<MnistOptions, N> = {},
): Promise<Mnist> {
  const { loadMnist } = await import("./mnist_files.ts");
  return await loadMnist(source, options);
}
