/** Runs what `explain` writes. */
import type { Explanation } from "../../src/story/story.ts";
import type { VizRecorder } from "../../src/story/viz/viz_data.ts";

const folder = Deno.makeTempDirSync({ prefix: "dinograd-story-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
let files = 0;

/** Runs a script; gives what it prints. @throws {Error} where it comes to other numbers */
export async function runScript({ script, data }: Explanation, name: string): Promise<string[]> {
  const path = `${folder}/${files++}_${name.replace(/\W+/g, "_")}`;
  Deno.mkdirSync(path);
  Deno.writeTextFileSync(`${path}/script.ts`, script);
  Deno.writeFileSync(`${path}/script.bin`, data);
  const lines: string[] = [], { log } = console;
  console.log = (...args: unknown[]) => lines.push(args.join(" "));
  try {
    await import(`file://${path}/script.ts`);
  } catch (error) {
    throw new Error(`${name}: ${error}\n${lines.join("\n")}\n${script}`);
  } finally {
    console.log = log;
  }
  return lines;
}

/** The largest of the differences that a script prints. */
export function farthest(lines: readonly string[]): number {
  return Math.max(...lines.map((line) => Number(/largest difference (\S+)$/.exec(line)![1])));
}

/** How many passes its page shows. */
export function passesIn(e: Explanation): number {
  return (e as unknown as { readonly viz: VizRecorder }).viz.data().passes.length;
}
