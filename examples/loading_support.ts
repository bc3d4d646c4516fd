/**
 * What chat and serve tell while they fetch a model from a server: megabytes, on one line of the terminal.
 *
 * @module
 */
import type { DownloadOptions, ModelProgress } from "../src/llm/llm.ts";

/** Options of `LanguageModel.load` that tell how far a download is; `sha256` is what the file must have. */
export function told(sha256: string | undefined): { readonly download: DownloadOptions } {
  const out = new TextEncoder(), mega = (n: number) => (n / 1e6).toFixed(1);
  let last = -1;
  const onProgress = ({ file, loaded, total }: ModelProgress): void => {
    const step = Math.floor(loaded / 1e6), isEnd = loaded === total;
    if (step === last && !isEnd) return;
    last = step;
    const of = total === undefined ? "" : ` of ${mega(total)}`;
    Deno.stderr.writeSync(out.encode(`\r${mega(loaded)}${of} MB of ${file}${isEnd ? "\n" : ""}`));
  };
  return { download: { onProgress, ...sha256 === undefined ? {} : { sha256 } } };
}
