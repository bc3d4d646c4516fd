/**
 * docs/inside.md: what five small programs compute, told by `explain`, on the JS device and without times, so that it is the
 * same on each machine. `deno task inside` writes it; the tests compare it.
 *
 * @module
 */
import { context, Device } from "../../mod.ts";
import { clearScheduleCache } from "../../src/schedule/schedule.ts";
import { forgetKernels } from "../../src/engine/compile_cache.ts";
import { explain } from "../../src/story/story.ts";
import type { InsideProgram } from "./inside_programs.ts";

/** Where the page lies. */
export const INSIDE_PAGE: URL = new URL("../../docs/inside.md", import.meta.url);

const HEAD = `# Inside

Five programs, and what they compute: the story and the script that [\`explain\`](explain.md) makes of each, here on the JS
device and without times. The scripts are whole programs; what compares their results with those recorded is left out
here. Written by \`deno task inside\`.
`;

const SOURCE = Deno.readTextFileSync(new URL("inside_programs.ts", import.meta.url));

/** What a program runs, as it is written. */
function sourceOf({ title }: InsideProgram): string {
  const at = SOURCE.indexOf(JSON.stringify(title)), start = SOURCE.indexOf("run: ", at);
  const text = SOURCE.slice(start, SOURCE.indexOf("\n    at: ", start)).replace(/^run: \(\) =>\s*/, "").replace(
    /,$/,
    "",
  );
  const [first, ...rest] = text.split("\n"), deep = (l: string): number => /^ */.exec(l)![0].length;
  const indent = Math.min(...rest.map(deep), 80);
  return [first, ...rest.map((l) => l.slice(indent))].join("\n");
}

function programText(p: InsideProgram): string {
  clearScheduleCache();
  forgetKernels();
  const e = explain(p.run, { names: p.names, times: false });
  if (e.error !== undefined) throw e.error;
  const story = e.story.split("\n").slice(1).join("\n").replace(/^## /gm, "### ").trim();
  const script = e.script.replace(/\n\/\/ What was recorded[\s\S]*$/, "\n").trim();
  return `## ${p.title}

${p.text}

\`\`\`ts ignore
${sourceOf(p)}
\`\`\`

${story}

### The script

\`\`\`ts ignore
${script}
\`\`\`

### One element

\`\`\`
${e.at(p.at, { limit: 24 })}
\`\`\`
`;
}

/** The page as it should be. */
export async function insidePage(): Promise<string> {
  Device.default = "JS";
  const { INSIDE_PROGRAMS } = await import("./inside_programs.ts");
  return context({ DEBUG: 0 }, () => `${HEAD}\n${INSIDE_PROGRAMS.map(programText).join("\n")}`);
}

if (import.meta.main) Deno.writeTextFileSync(INSIDE_PAGE, await insidePage());
