/**
 * Unpacking tar archives. What reads them is in formats/tar_file.ts, which is loaded when it is asked for.
 *
 * @module
 */
import type { Checked } from "../device/device.ts";
import { dtypes } from "../dtype/dtype.ts";
import { checkOptions } from "../helpers/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { type Loadable, withSource } from "./source.ts";
import type { ArchiveOptions } from "./zip.ts";

/**
 * The regular files of a tar archive (also a gzipped one) as uint8 tensors by name; those of a plain one are read when
 * they are used. Links, folders and devices are left out. Nothing is written to disk.
 * @throws {FormatError} for what is damaged, too large, or has a name that leads out of the archive
 */
export async function tarExtract<N extends string = string>(
  from: Loadable,
  options: Checked<ArchiveOptions, N> = {},
): Promise<Record<string, Tensor>> {
  checkOptions("extract a tar archive", options, ["device", "maxBytes"]);
  return await withSource(from, options, async (source) => {
    const { openTar, readTar } = await import("./formats/tar_file.ts"), tar = await openTar(source, options);
    return Object.fromEntries(
      readTar(tar).map(({ name, start, size }) => [name, tar.tensor(start, dtypes.uint8, [size])]),
    );
  });
}
