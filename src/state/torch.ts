/**
 * Loading what PyTorch saved. What reads the files is in formats/torch_file.ts, which is loaded when it is asked for.
 *
 * @module
 */
import type { Checked } from "../device/device.ts";
import { checkOptions } from "../helpers/options.ts";
import { type Loadable, withSource } from "./source.ts";
import type { StateDict } from "./state_dict.ts";
import type { ArchiveOptions } from "./zip.ts";

/**
 * What `torch.save` wrote: objects of dictionaries, lists of lists and tuples, tensors and parameters as tensors that are
 * read when they are used. Type it as what was saved; a state dictionary unless said. Files of all ages of PyTorch load,
 * but no TorchScript. Nothing in the file is executed: a pickle that asks for more than tensors is refused.
 *
 * ```ts ignore types
 * import { nn, state } from "../../mod.ts";
 * const model = new nn.Linear(8, 2);
 * state.loadStateDict(model, await state.torchLoad("model.pt"));
 * const { epoch } = await state.torchLoad<{ epoch: number; model: state.StateDict }>("checkpoint.pt");
 * ```
 *
 * @throws {FormatError} saying what is wrong with the file, or what it asks for
 */
export async function torchLoad<T = StateDict, N extends string = string>(
  from: Loadable,
  options: Checked<ArchiveOptions, N> = {},
): Promise<T> {
  checkOptions("load a checkpoint", options, ["device", "maxBytes"]);
  return await withSource(from, options, async (source): Promise<T> => {
    const { readTorch } = await import("./formats/torch_file.ts");
    return await readTorch(source, options) as T;
  });
}
