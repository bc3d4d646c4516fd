/** The examples run as the README says: the quickstart without any permission, and it exits by itself. @module */
import assert from "node:assert/strict";

const ROOT = new URL("../../", import.meta.url);

interface Run {
  readonly code: number;
  readonly lines: readonly string[];
  readonly errors: string;
  /** From the last line of output to the exit. */
  readonly lingeredMs: number;
}

async function run(args: readonly string[], env: Record<string, string> = {}): Promise<Run> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-check", ...args],
    cwd: ROOT,
    env,
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
  const { code } = await child.status;
  return { code, lines: text.trimEnd().split("\n"), errors: await errors, lingeredMs: performance.now() - last };
}

Deno.test("examples: the quickstart needs no permission and exits by itself", async () => {
  const { code, lines, errors, lingeredMs } = await run(["--no-prompt", "examples/quickstart.ts"]);
  assert.equal(code, 0, errors);
  const losses = lines.flatMap((l) => /^step \d+ {2}loss ([\d.]+)$/.exec(l)?.[1] ?? []).map(Number);
  assert.equal(losses.length, 6);
  assert.ok(losses[5] < 0.01 && losses[5] < losses[0], String(losses));
  assert.ok(lingeredMs <= 200, `exits ${lingeredMs.toFixed(0)} ms after its last line`);
});

Deno.test("examples: a short demo trains, saves, reloads and closes with its accuracy", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const demo = new URL("examples/demo.ts", ROOT).href;
    const child = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", demo, "--epochs", "2", "--seed", "1"],
      cwd: dir,
      stdin: "null",
    }).output();
    const text = new TextDecoder().decode(child.stdout), errors = new TextDecoder().decode(child.stderr);
    assert.equal(child.code, 0, errors);
    assert.match(text.trimEnd().split("\n").at(-1)!, /^test accuracy \d+\.\d\d %$/);
    assert.match(text, /360 of 360 predictions are equal/);
    assert.match(text, /\d+ kernels a step, [\d.]+ ms a step/);
    assert.ok(Deno.statSync(`${dir}/digits.safetensors`).size > 10_000);
    assert.equal(errors.includes("█"), false);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("examples: the demo refuses unknown options", async () => {
  const { code, errors } = await run(["-A", "examples/demo.ts", "--sead", "1"]);
  assert.equal(code, 2);
  assert.match(errors, /--sead.*--seed N/);
});
