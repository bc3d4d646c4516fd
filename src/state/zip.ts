/**
 * Unpacking zip archives. What reads and writes them is in formats/zip_file.ts, which is loaded when it is asked for.
 *
 * @module
 */
import type { Checked } from "../device/device.ts";
import { dtypes } from "../dtype/dtype.ts";
import { checkOptions } from "../helpers/options.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { ArchiveOptions } from "./formats/zip_file.ts";
import { type Loadable, withSource } from "./source.ts";

export type { ArchiveOptions };

/**
 * The members of a zip archive as uint8 tensors by name. Stored members are read when they are used, deflated ones here.
 * Nothing is written to disk.
 * @throws {FormatError} for what is damaged, encrypted, too large, or has a name that leads out of the archive
 */
export async function zipExtract<N extends string = string>(
  from: Loadable,
  options: Checked<ArchiveOptions, N> = {},
): Promise<Record<string, Tensor>> {
  checkOptions("extract a zip archive", options, ["device", "maxBytes"]);
  return await withSource(from, options, async (source) => {
    const { ZipReader } = await import("./formats/zip_file.ts");
    const zip = new ZipReader(source, options), out: [string, Tensor][] = [];
    for (const name of zip.members.keys()) {
      const part = await zip.open(name);
      out.push([name, part.tensor(0, dtypes.uint8, [part.size])]);
    }
    return Object.fromEntries(out);
  });
}
