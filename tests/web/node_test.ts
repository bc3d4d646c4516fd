/**
 * The bundle in other engines: the op smoke suite under Node.js (20 or later) and Bun, as they are, without Float16Array
 * (which Node.js has from 24 on), and where no code may be made of text.
 */
import assert from "node:assert/strict";
import { runCommand, runDeno } from "../system/subprocess.ts";

/** Prints what became of the suite on each device, and what float16 is read as. */
const MAIN = `
if (process.env.WITHOUT_FLOAT16) {
  delete globalThis.Float16Array;
  delete Math.f16round;
}
const library = await import("./dinograd.mjs"), { smoke } = await import("./smoke.mjs");
const { Device, Tensor } = library, suites = {};
for (const device of ["WASM", "JS"]) suites[device] = await smoke(library, device);
const half = await new Tensor([1.0009765625, -2.5, 65504], { dtype: "float16" }).mul(2).data();
let code = "made of text";
try {
  new Function("");
} catch {
  code = "not made of text";
}
Device.default = "WASM";
console.log(JSON.stringify({ suites, half: [half.constructor.name, ...[...half].map(String)], code, version: process.version }));
process.exit(0);`;

const [folder, notBundled] = await bundles();
if (notBundled !== undefined) console.log(`no bundle for Node.js and Bun: ${notBundled}`);
addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));

async function bundles(): Promise<[folder: string, why: string | undefined]> {
  const folder = await Deno.makeTempDir({ prefix: "dinograd-node-" });
  await Deno.writeTextFile(`${folder}/main.mjs`, MAIN);
  for (const [entry, name] of [["mod.ts", "dinograd.mjs"], ["tests/web/smoke.ts", "smoke.mjs"]]) {
    const args = ["bundle", "--quiet", "--platform", "browser", "-o", `${folder}/${name}`, entry];
    const { code, stderr } = await runDeno(args);
    if (code !== 0) return [folder, stderr];
  }
  return [folder, undefined];
}

/** The version of an engine, undefined where it is not here. */
async function versionOf(engine: string): Promise<string | undefined> {
  try {
    const { code, stdout } = await runCommand(engine, ["--version"]);
    return code === 0 ? stdout.trim() : undefined;
  } catch {
    return undefined;
  }
}

const FORBID = "--disallow-code-generation-from-strings";

for (const engine of ["node", "bun"]) {
  const version = await versionOf(engine), major = Number(/\d+/.exec(version ?? "")?.[0]);
  const ignore = version === undefined || (engine === "node" && major < 20) || notBundled !== undefined;
  const ways: [name: string, args: string[], env: Record<string, string>][] = [
    ["as it is", [], {}],
    ["without Float16Array", [], { WITHOUT_FLOAT16: "1" }],
  ];
  if (engine === "node") ways.push(["without code from text", [FORBID], {}]);
  for (const [name, args, env] of ways) {
    Deno.test({
      name: `the bundle in ${engine}: ${name}`,
      ignore,
      async fn() {
        const { code, stdout, stderr } = await runCommand(engine, [...args, "main.mjs"], { cwd: folder, env });
        assert.equal(code, 0, stderr);
        const report = JSON.parse(stdout);
        for (const outcomes of Object.values(report.suites) as { name: string; error?: string }[][]) {
          assert.deepEqual(outcomes.filter((o) => o.error !== undefined), []);
          assert.ok(outcomes.length > 20);
        }
        assert.deepEqual(report.half.slice(1), ["2.001953125", "-5", "Infinity"]);
        if (env.WITHOUT_FLOAT16) assert.equal(report.half[0], "Float32Array");
        assert.equal(report.code, args.length > 0 ? "not made of text" : "made of text");
      },
    });
  }
}
