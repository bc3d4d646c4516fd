/**
 * Every task of deno.json and every example, in the shortest form that it has, on the machine as it is: without a card,
 * a compiler or an adapter they say what is missing, and end well.
 */
import assert from "node:assert/strict";
import { buildModel } from "./onnx/build_model.ts";
import { ROOT, runDeno } from "./system/subprocess.ts";

const { tasks } = JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT))) as { tasks: Record<string, unknown> };

/** What tasks write, which is removed at the end. */
const written = Deno.makeTempDirSync({ prefix: "dinograd-tasks-" });
addEventListener("unload", () => Deno.removeSync(written, { recursive: true }));

/** A model in a file. */
function smallModel(): string {
  const path = `${written}/model.onnx`;
  const port = [1, ["n", 3]] as const;
  Deno.writeFileSync(path, buildModel({ nodes: [["Relu", ["x"], ["y"]]], inputs: { x: port }, outputs: { y: port } }));
  return path;
}

/** What each task is started with, and what it must print; a reason for those that are not. */
const TASKS: Readonly<Record<string, readonly [args: readonly string[], printed: RegExp] | string>> = {
  demo: [["--epochs", "1"], /test accuracy \d+/],
  "bench:dist": [["--most", "8"], /GPT-3 6\.7B[^]* 8 /],
  "demo:dist": [["--ranks", "2", "--epochs", "1"], /test accuracy \d+|there is no mpirun/],
  test: [["tests/renderer/natural_test.ts"], /^\d+ passed, 0 failed, 0 skipped$/m],
  "test:bare": [["--with=nothing", "tests/renderer/natural_test.ts"], /^\d+ passed, 0 failed, 0 skipped$/m],
  "test:web": [["tests/renderer/natural_test.ts"], /^\d+ passed, 0 failed, \d+ skipped$/m],
  "test:dist": "the suite runs its tests, fewer of them",
  "test:cuda": [["--suites", "card", "--only", "ptx"], /passed|nothing was tested/],
  web: [["--no-serve", "--out", `${written}/web`], /^built /m],
  bundle: "web/web_test.ts does as it does, in a folder of its own",
  npm: "package/npm_test.ts does as it does, in a folder of its own",
  bench: [["--filter", "matmul_256"], /matmul_256\/WASM/],
  "bench:json": [["--only", "matmul_256", "--device", "WASM"], /"name":"matmul_256"/],
  "bench:breadth": [["--device", "WASM", "--only", "masked_mean"], /^masked_mean +[\d.]+ +1 /m],
  "bench:regret": [["--device", "WASM", "--count", "1", "--candidates", "4"], /^all +[1-9]/m],
  "bench:webgpu": [["--only", "nothing"], /^/],
  "bench:cuda": [["--only", "nothing"], /^/],
  snapshot: [["--compare", "--only", "^golden/add broadcast$"], /^0 of 1 programs differ/m],
  replay: "replay_test.ts runs it",
  digest: [["--compare", "--writer", "JS"], /^all kernels are as before$/m],
  viz: [["--json", "passes"], /^\{"pass":0,/],
  explain: [["examples/regression.ts", "--limit", "9", "--out", `${written}/explain`], /computes them again/],
  export: [["examples/convnet.ts", "--style", "plain", "--out", `${written}/export`], /example$/m],
  docs: [["--check"], /examples that run, 0 broken|cannot be fetched/],
  onnx: [
    [smallModel(), "--bench", "--device", "WASM", "--sizes", "n=2", "--runs", "2"],
    /nothing is missing\nWASM: loaded/,
  ],
  inside: "it writes documentation; pages/inside_test.ts compares that",
  coverage: "it takes minutes, and writes documentation",
  "llm:bench": [
    ["--device", "WASM", "--synthetic", "tiny-q4_k_m", "--prompt", "9", "--tokens", "5", "--runs", "1"],
    /tokens\/s, [\d.]+ ms of processors, [1-9]/,
  ],
  doctor: [[], /^WASM.*:/m],
  chat: [["--prompt", "Once upon a time", "--max-tokens", "9"], /^Once upon a time, there was a little girl/],
  serve: "it runs until it is stopped; llm/server_test.ts does as it does",
  ok: "it takes minutes; continuous integration runs it",
};

Deno.test("tasks: all are known here", () => assert.deepEqual(Object.keys(TASKS).sort(), Object.keys(tasks).sort()));

for (const [name, form] of Object.entries(TASKS)) {
  if (typeof form === "string") continue;
  Deno.test(`tasks: ${name} ends well`, async () => {
    const { code, stdout, stderr } = await runDeno(["task", name, ...form[0]], { timeoutMs: 300_000 });
    // where there is a device, these are benches to run by hand
    if (/^bench:(cuda|webgpu)$/.test(name) && !/nothing was measured/.test(stdout)) return;
    // without a network there is no bundler until it was fetched once, and the task says so
    if (name === "web" && code === 1 && /fails: what it bundles with cannot be fetched: /.test(stderr)) return;
    assert.equal(code, 0, stdout + stderr);
    assert.match(stdout, form[1]);
  });
}
