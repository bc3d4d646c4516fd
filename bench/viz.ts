/**
 * `deno task viz [FILE]`: shows a recording, or records a program first; without a file a small one.
 *
 *     deno task viz recording.json [--with other.json]      serves the page until Ctrl+C
 *     deno task viz program.ts                              runs the program, recorded, then the same
 *     deno task viz FILE --out page.html                    writes the page, with the data in it
 *     deno task viz --json FILE passes|kernels|notes|timeline   the same as JSON lines
 *     deno task viz --json FILE differences --with other.json   kernels that are not the same in both, as JSON lines
 *
 * `--port N` takes that port; `--open` opens a browser.
 *
 * @module
 */
import { Tensor } from "../mod.ts";
import { FormatError } from "../src/helpers/errors.ts";
import { jsonLines, LINE_KINDS, type LineKind } from "../src/story/json_lines.ts";
import { vizPage } from "../src/story/viz/page.ts";
import { serveViz } from "../src/story/viz/server.ts";
import { recordProgram } from "../src/story/viz/watch_viz.ts";
import { parseVizData, type VizData } from "../src/story/viz/viz_data.ts";

const USAGE = "deno task viz [FILE] [--with OTHER] [--out page.html] [--port N] [--open]\n" +
  "deno task viz --json FILE passes|kernels|notes|timeline\n" +
  "deno task viz --json FILE differences --with OTHER";

/** What the command line says. */
interface Asked {
  readonly files: string[];
  readonly flags: Map<string, string>;
}

function parse(args: readonly string[]): Asked {
  const files: string[] = [], flags = new Map<string, string>();
  for (let i = 0; i < args.length; i++) {
    const m = /^--(\w+)(?:=(.*))?$/.exec(args[i]);
    if (args[i] === "--") continue;
    if (m === null) files.push(args[i]);
    else if (["json", "open"].includes(m[1])) flags.set(m[1], "1");
    else if (["with", "out", "port"].includes(m[1])) flags.set(m[1], m[2] ?? args[++i] ?? "");
    else throw new Error(`there is no ${args[i]}`);
  }
  return { files, flags };
}

/** A softmax of a product, recorded. */
function example(): VizData {
  const recorded = recordProgram("softmax of a product");
  const x = Tensor.ones([64, 32]).contiguous().add(0.5), w = Tensor.arange(32 * 16).reshape([32, 16]).mul(0.01);
  x.matmul(w).softmax().realize();
  return recorded.data();
}

/** The recording of a file; of a program that of a run of it. @throws {FormatError} */
export async function loadViz(path: string): Promise<VizData> {
  if (!/\.[cm]?[jt]s$/.test(path)) {
    try {
      return parseVizData(await Deno.readTextFile(path), path);
    } catch (error) {
      if (error instanceof FormatError) throw error;
      throw new FormatError("read a recording", { file: path, reason: (error as Error).message, cause: error });
    }
  }
  const file = await Deno.makeTempFile({ prefix: "dinograd-viz-", suffix: ".json" });
  try {
    const args = ["run", "-A", path], env = { VIZ: file };
    const { code } = await new Deno.Command(Deno.execPath(), { args, env, stdout: "inherit", stderr: "inherit" })
      .output();
    const text = await Deno.readTextFile(file);
    if (text === "") {
      throw new FormatError("record", {
        file: path,
        reason: `it ended with code ${code} before it loaded the library`,
      });
    }
    return parseVizData(text, path);
  } finally {
    await Deno.remove(file);
  }
}

/** What is compared with `data`: by the name of its file where both are of one program. */
async function loadOther(path: string, data: VizData): Promise<VizData> {
  const other = await loadViz(path);
  return other.title === data.title ? { ...other, title: path.replace(/^.*[/\\]/, "") } : other;
}

async function openBrowser(url: string): Promise<void> {
  const command = { darwin: "open", windows: "explorer" }[Deno.build.os as string] ?? "xdg-open";
  const open = async (): Promise<boolean> =>
    (await new Deno.Command(command, { args: [url], stdout: "null", stderr: "null" }).output()).success;
  const opened = await open().catch(() => false); // a command that is not there throws at once
  if (!opened) console.log("no browser could be started: open the address in one yourself");
}

async function main(args: readonly string[]): Promise<number> {
  let asked: Asked;
  try {
    asked = parse(args);
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`);
    return 2;
  }
  const { files, flags } = asked;
  const kind = flags.has("json") ? files.pop() as LineKind : undefined;
  const isKind = kind === undefined || LINE_KINDS.includes(kind), port = flags.get("port");
  if (
    files.length > 1 || !isKind || (flags.has("json") && kind === undefined) ||
    (port !== undefined && !(Number(port) > 0)) || flags.get("with") === "" ||
    (kind === "differences" && !flags.has("with"))
  ) {
    console.error(USAGE);
    return 2;
  }
  try {
    const path = flags.get("with"), data = files.length === 0 ? example() : await loadViz(files[0]);
    const other = path === undefined ? undefined : await loadOther(path, data), out = flags.get("out");
    if (kind !== undefined) {
      // whoever reads may have seen enough
      for (const line of jsonLines(data, kind, other)) console.log(line);
      return 0;
    }
    if (out !== undefined) {
      await Deno.writeTextFile(out, await vizPage(data, other));
      console.log(out);
      return 0;
    }
    const { url } = serveViz(() => data, { other, port: port === undefined ? undefined : Number(port) });
    console.log(`${url} until Ctrl+C`);
    if (flags.has("open")) await openBrowser(url);
    return await new Promise<number>(() => {});
  } catch (error) {
    console.error((error as Error).message);
    return 1;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
