/**
 * CIFAR-10 (A. Krizhevsky, 2009). What reads its archive is in cifar_files.ts, which is loaded when it is asked for.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import type { Cifar, CifarOptions } from "./cifar_files.ts";

export type { Cifar, CifarOptions };

/**
 * Small photographs of ten kinds of things, from the archive `cifar-10-binary.tar.gz` of a folder, or of an http(s) URL
 * under which it is: this is downloaded once and kept. Needs read permission for the folder, or net permission for the
 * server; keeping also needs read and write permission for the cache folder.
 *
 * ```ts ignore types
 * import { nn } from "../../../mod.ts";
 * const { trainImages, trainLabels } = await nn.datasets.cifar("https://www.cs.toronto.edu/~kriz/");
 * const x = trainImages.cast("float32").div(255); // [50000, 3, 32, 32]
 * ```
 *
 * @throws {FormatError} saying what is missing or damaged; nothing of the set was used
 */
export async function cifar<N extends string = string>(
  source: string | URL,
  options: Checked<CifarOptions, N> = {},
): Promise<Cifar> {
  const { loadCifar } = await import("./cifar_files.ts");
  return await loadCifar(source, options);
}
