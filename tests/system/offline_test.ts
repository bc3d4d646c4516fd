/**
 * A machine without network whose Deno has nothing in its cache: no module that a task or an example runs is of a
 * package, and the README's promise ("nothing is downloaded besides Deno itself") holds.
 */
import assert from "node:assert/strict";
import { ROOT, runCommand, runDeno } from "./subprocess.ts";
import { inFolder } from "../support/folder.ts";

const config = JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT))) as {
  readonly imports: Record<string, string>;
  readonly tasks: Record<string, { readonly command: string }>;
};

Deno.test("offline: the import map leads to files, and there is nothing to lock", () => {
  for (const path of Object.values(config.imports)) assert.match(path, /^\.\//);
  assert.throws(() => Deno.statSync(new URL("deno.lock", ROOT)), Deno.errors.NotFound);
});

Deno.test("offline: packages are named in what some tests start alone", async () => {
  const found: string[] = [], fixed: string[] = [];
  for (const folder of ["src", "backends", "bench", "examples", "tests"]) {
    for (const path of modulesBelow(new URL(`${folder}/`, ROOT))) {
      const text = await Deno.readTextFile(path);
      if (/["'`](?:npm|jsr):[@\w]/.test(text)) found.push(path.href.slice(ROOT.href.length));
      // what type checking would fetch, and lock
      if (/\b(?:from|import)\s*\(?\s*["'`](?:npm|jsr):[^$"'`]+["'`]/.test(text)) fixed.push(path.href);
    }
  }
  assert.deepEqual(fixed, []);
  const alone = [
    "bench/networks", // onnxruntime, beside which it measures
    "src/llm/text/chat_template", // when a model's template is used
    "tests/fixtures/dawn_check",
    "tests/fixtures/protobuf_read",
    "tests/layers_test", // names that one
    "tests/llm/llama_cpp",
    "tests/llm/openai_client",
    "tests/llm/schema_check",
    "tests/onnx/against_onnxruntime",
    "tests/package/npm",
    "tests/site/build",
    "tests/tfjs/against_tfjs",
    "tests/web/browser",
  ];
  assert.deepEqual(found.sort(), alone.map((f) => `${f}.ts`));
});

function modulesBelow(folder: URL): URL[] {
  return [...Deno.readDirSync(folder)].flatMap((e) => {
    if (e.isDirectory) return modulesBelow(new URL(`${e.name}/`, folder));
    return e.name.endsWith(".ts") ? [new URL(e.name, folder)] : [];
  });
}

Deno.test("offline: a package of npm that cannot be had is told in seconds, without a home too", async () => {
  await inFolder(async (folder) => {
    const program = `import { packageFolder } from "${new URL("examples/web/npm_package.ts", ROOT)}";
      await packageFolder("left-out@1.0.0");`;
    const env = { HOME: "/proc/nowhere", TMPDIR: folder, npm_config_registry: "http://127.0.0.1:9" };
    const started = performance.now(), { code, stderr } = await runDeno(["eval", "--no-check", program], { env });
    assert.equal(code, 1);
    assert.match(stderr, /npm pack|Failed to spawn|NotFound/);
    assert.ok(performance.now() - started < 25_000, "npm waits");
  });
});

/** How to start a program that has no network; undefined where this user may not. */
async function withoutNetwork(): Promise<string[] | undefined> {
  for (const command of [["unshare", "-n"], ["unshare", "-r", "-n"]]) {
    try {
      const { code } = await runCommand(command[0], [...command.slice(1), "true"]);
      if (code === 0) return command;
    } catch { /* no such program */ }
  }
}

const isolated = await withoutNetwork();
const TASKS: readonly (readonly string[])[] = [
  ["demo", "--epochs", "1"],
  ["doctor"],
  ["test", "tests/renderer/natural_test.ts"],
  ["bench:json", "--only", "matmul_256"],
];
for (const [task, ...args] of TASKS) {
  Deno.test({
    name: `offline: task ${task} with an empty cache and without network`,
    ignore: isolated === undefined && Deno.build.os !== "linux",
    fn: () =>
      inFolder(async (folder) => {
        const options = { env: { DENO_DIR: `${folder}/deno`, CACHEDIR: `${folder}/kernels` }, timeoutMs: 300_000 };
        const run = [Deno.execPath(), "task", task, ...args];
        // where the system keeps processes from having a network of their own: at least nothing may be fetched
        const { code, stdout, stderr } = isolated === undefined
          ? await runDeno(run.slice(1), { ...options, env: { ...options.env, HTTPS_PROXY: "http://127.0.0.1:9" } })
          : await runCommand(isolated[0], [...isolated.slice(1), ...run], options);
        assert.equal(code, 0, stdout + stderr);
        assert.doesNotMatch(stderr, /Download/);
      }),
  });
}
