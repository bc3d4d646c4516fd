/** The quickstart exits by itself: how long after its last line. @module */
import assert from "node:assert/strict";
import { ROOT } from "./subprocess.ts";

Deno.test("examples: the quickstart exits by itself", async () => {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-check", "--no-prompt", "examples/quickstart.ts"],
    cwd: ROOT,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const errors = new Response(child.stderr).text();
  let text = "", last = performance.now();
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    last = performance.now();
  }
  // Standard output closes when the process ends, so the time of the last chunk is that of the last line.
  const { code } = await child.status, lingeredMs = performance.now() - last;
  assert.equal(code, 0, await errors);
  assert.match(text, /^step \d+ {2}loss [\d.]+$/m);
  assert.ok(lingeredMs <= 200, `exits ${lingeredMs.toFixed(0)} ms after its last line`);
});
