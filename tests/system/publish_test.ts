/** The package as it would be published: no slow types, no warnings, sources and documents only, small. @module */
import assert from "node:assert/strict";
import { ROOT, runDeno } from "./subprocess.ts";

/** What the package may hold, beside modules. */
const DOCUMENTS = /^(deno\.json|LICENSE|README\.md|docs\/[A-Za-z_/]+\.md)$/;
/** Imports of what is known when a program runs alone: what watches it, the programs that tasks are given, what renders a template. */
const RUN_TIME_IMPORTS =
  /warning\[unanalyzable-dynamic-import\].*\n +--> \S+\/(?:mod|src\/\w+\/\w+_command|src\/llm\/text\/chat_template)\.ts:/g;
const MAX_BYTES = 6.75e6;

Deno.test("publish: a dry run is clean, and the package is small", async () => {
  const { code, stderr } = await runDeno(["publish", "--dry-run", "--allow-dirty"], { timeoutMs: 300_000 });
  assert.equal(code, 0, stderr);
  assert.match(stderr, /Checking for slow types/);
  assert.doesNotMatch(stderr.replaceAll(RUN_TIME_IMPORTS, ""), /warning|error\[|unsupported/i);
  const files = [...stderr.matchAll(/^ +(file:\/\/\S+) \(/gm)].map(([, url]) => url);
  assert.ok(files.length > 50, stderr);
  const names = files.map((url) => url.slice(ROOT.href.length));
  const strange = names.filter((n) => !DOCUMENTS.test(n) && !/^(mod|ir|src\/.*|backends\/.*)\.ts$/.test(n));
  assert.deepEqual(strange, []);
  const nbytes = files.reduce((n, url) => n + Deno.statSync(new URL(url)).size, 0);
  assert.ok(nbytes < MAX_BYTES, `${nbytes} bytes`);
});

Deno.test("publish: nothing runs when the package is installed", () => {
  const config = JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT))) as Record<string, unknown>;
  assert.deepEqual([config.scripts, config.nodeModulesDir], [undefined, undefined]);
  assert.throws(() => Deno.statSync(new URL("package.json", ROOT)), Deno.errors.NotFound);
});
