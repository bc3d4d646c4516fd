/** Programs of tensors, each in a folder of its own. @module */
import { inFolder } from "../support/folder.ts";

/** Runs `fn` where `program.ts` is this code behind an import of Tensor, which is its first line. */
export function withProgram(code: string, fn: (folder: string) => Promise<void>): Promise<void> {
  const mod = new URL("../../mod.ts", import.meta.url).href;
  return inFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/program.ts`, `import { Tensor } from "${mod}";\n${code}`);
    await fn(folder);
  });
}
