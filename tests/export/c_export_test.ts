/**
 * Exports as C, built by the compilers that are here with all warnings as errors, as C and as C++, and run: each does its
 * recorded call again. Random programs besides, beside the reference.
 */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { context, Device, nn, state, Tensor, Variable } from "../../mod.ts";
import {
  type Exported,
  type ExportEntries,
  exportModel,
  exportModels,
  type ExportOptions,
} from "../../src/export/export.ts";
import { compilersHere, run } from "./build.ts";
import { agent, examples, wave } from "./programs.ts";

Device.default = "WASM";
const folder = Deno.makeTempDirSync({ prefix: "dinograd-export-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const compilers = compilersHere();

const FORMS: Readonly<Record<string, Partial<ExportOptions>>> = {
  plain: { style: "plain" },
  fast: { style: "fast" },
};

/** What compilers beside the first build: what each has of its own. */
const OTHERS = ["digits", "clamped"];

/** Exports all examples in one form. */
async function exported(form: Partial<ExportOptions>): Promise<Map<string, Exported>> {
  const out = new Map<string, Exported>();
  for (const [name, { f, args, weights }] of Object.entries(examples())) {
    out.set(name, await exportModel(f, args, { target: "c", name, weights, ...form }));
  }
  return out;
}

for (const [form, options] of Object.entries(FORMS)) {
  Deno.test({
    name: `export to C, ${form}: examples are built without warnings and do the recorded call`,
    ignore: compilers.length === 0,
    async fn() {
      const all = await exported(options), at = `${folder}/${form}`;
      for (const made of all.values()) await made.write(at);
      for (const [n, { path, isCpp }] of compilers.entries()) {
        for (const name of n === 0 ? all.keys() : OTHERS) {
          const to = `${at}/${name}_test`, args = isCpp ? ["-x", "c++", "-std=c++17"] : ["-std=c11"];
          const flags = [
            name === "clamped" ? "-O2" : n === 0 ? "-O1" : "-O0",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            `-D${name.toUpperCase()}_EMBED`,
          ];
          await run(path, [...args, ...flags, "-o", to, `${name}_test.c`, `${name}.c`, "-lm"], at);
          assertMatch(await run(to, [], at), /largest difference/, `${name} by ${path}`);
        }
      }
    },
  });
}

Deno.test("export to C: the Makefile says which flags vectors of 64 bytes want", async () => {
  const { f, args, weights } = examples().digits;
  for (const [vector, says] of [[16, false], [64, true]] as const) {
    const made = await exportModel(f, args, { style: "fast", vector, weights, name: "digits" });
    assertEquals(made.text("Makefile").split("\n")[0].includes("-mprefer-vector-width=512"), says);
  }
});

Deno.test("export to C: a header says what goes in and out", async () => {
  const { f, args, weights } = examples().digits;
  const made = await exportModel(f, args, { style: "plain", weights, name: "digits" });
  assertEquals([...made.files.keys()], ["digits.h", "digits.c", "digits.bin", "digits_test.c", "Makefile"]);
  const header = made.text("digits.h"), source = made.text("digits.c");
  assertStringIncludes(header, "in: image, float32 [1, 1, 8, 8]");
  assertStringIncludes(header, "void digits_run(digits_context *context, const float image[64], float y[10]);");
  assertStringIncludes(source, "static void layer_conv1_norm(");
  assertMatch(source, /programs\.ts:\d+/);
  assert(!/malloc|printf|__builtin|_Pragma/.test(header + source), source);
  assert(
    !/^(?:static )?(?!static|const|extern|void|typedef|INLINE)\w+ \w+(?:\[\d*\])?(?: =.*)?;$/m.test(source),
    "no globals",
  );
});

Deno.test({
  name: "export to C: several functions share weights and state, and each does its recorded call",
  ignore: compilers.length === 0,
  async fn() {
    const { entries, weights } = agent(), made = await exportModels(entries, { weights, name: "agent" });
    const header = made.text("agent.h");
    assertStringIncludes(header, "void agent_scores(agent_context *context, const float x[4], float y[3]);");
    assertStringIncludes(header, "void agent_best(agent_context *context, const float x[20], int y[5]);");
    assertStringIncludes(
      header,
      "void agent_learn(agent_context *context, const float x[20], const int y[5], float y_2[1]);",
    );
    assertStringIncludes(header, "int agent_remember(agent_context *context, int n, const float x[4], float y[1]);");
    const kinds = Object.fromEntries(made.plan.arrays.map((a) => [a.name, a.space]));
    assertEquals([kinds.net_weight, kinds.net_bias, kinds.cache], ["state", "state", "state"]);
    assertEquals(made.plan.arrays.filter((a) => a.name.startsWith("net_weight")).length, 1);
    const at = `${folder}/agent`;
    await made.write(at);
    for (const { path, isCpp } of compilers) {
      const flags = [
        ...isCpp ? ["-x", "c++", "-std=c++17"] : ["-std=c11"],
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
      ];
      await run(path, [...flags, "-DAGENT_EMBED", "-o", "agent_test", "agent_test.c", "agent.c", "-lm"], at);
      const text = await run(`${at}/agent_test`, [], at);
      assertMatch(
        text,
        /scores_y:[\s\S]*best_y:[\s\S]*learn_y_2:[\s\S]*remember_y:[\s\S]*noise_y:[\s\S]*largest difference/,
      );
    }
    // what one learned, another sees
    const main =
      `#include "agent.h"\n#include <stdio.h>\nstatic agent_context c; static float x[20], s[3], l; static int y[5];
      int main(void) { int i; for (i = 0; i < 20; i++) x[i] = (float)(i % 4); agent_init(&c, agent_weights());
      for (i = 0; i < 300; i++) agent_learn(&c, x, y, &l); agent_scores(&c, x, s);
      printf("%d %d", s[0] > s[1] && s[0] > s[2], l < 0.1f); return 0; }\n`;
    await Deno.writeTextFile(`${at}/loop.c`, main);
    await run(compilers[0].path, ["-std=c11", "-O1", "-DAGENT_EMBED", "-o", "loop", "loop.c", "agent.c", "-lm"], at);
    assertEquals(await run(`${at}/loop`, [], at), "1 1");
  },
});

/** What is wide enough for threads: products with memory of their own, a size that varies, a step of learning. */
function wide(): { entries: ExportEntries; weights: unknown } {
  Tensor.manualSeed(5);
  const first = new nn.Linear(256, 512), last = new nn.Linear(512, 512), n = new Variable("n", 1, 64);
  Tensor.realize(state.getParameters([first, last]));
  const optimizer = new nn.optim.SGD(state.getParameters(first), { lr: 0.01 }), x = wave([64, 256]);
  const call = (x: Tensor): Tensor => last.call(first.call(x).relu());
  return {
    entries: {
      scores: [(x: Tensor) => call(x).softmax(), [x]],
      some: [(x: Tensor, n: Tensor) => call(x.mul(n)).sum(1), [x, n.bind(9)]],
      learn: [(x: Tensor) =>
        Tensor.train(() => {
          optimizer.zeroGrad();
          const loss = call(x).square().mean().backward();
          optimizer.step();
          return loss;
        }), [x]],
    },
    weights: { first, last },
  };
}

/** Runs all with one thread, with a pool, and with parts that come backwards, and counts what is not the same to the bit. */
const THREADS_AND_ALONE = `#include "wide_threads.h"
#include <stdio.h>
#include <string.h>
#define SIZE (64 * 512)
static wide_context a, b;
static wide_threads pool;
static float x[SIZE], one[SIZE], many[SIZE];
static int calls;
static void backwards(void *p, wide_part *part, const void *args, int count) {
  int i;
  (void)p;
  calls++;
  for (i = count; i-- > 0;) part(args, i, i + 1, i % WIDE_THREADS);
}
static int differs(void) { return memcmp(one, many, sizeof one) != 0; }
int main(void) {
  int i, k, wrong = 0, threads = wide_threads_start(&pool, 8);
  for (i = 0; i < SIZE; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
  wide_init(&a, wide_weights());
  wide_init(&b, wide_weights());
  wide_share_by(&b, wide_threads_share, &pool);
  for (k = 0; k < 12; k++) {
    if (k == 10) wide_share_by(&b, backwards, 0);
    wide_scores(&a, x, one);
    wide_scores(&b, x, many);
    wrong += differs();
    wide_some(&a, k % 64 + 1, x, one);
    wide_some(&b, k % 64 + 1, x, many);
    wrong += differs();
    wide_learn(&a, x, one);
    wide_learn(&b, x, many);
    wrong += differs();
  }
  wide_threads_stop(&pool);
  printf("%d wrong, %d threads, %s", wrong, threads, calls > 10 ? "shared" : "not shared");
  return 0;
}
`;

Deno.test({
  name: "export to C: threads share the loops of a run, and give what one thread gives; the pool may be left",
  ignore: compilers.length === 0,
  async fn() {
    const { entries, weights } = wide(), at = `${folder}/wide`;
    // loops are shared among threads where kernels are optimized
    const made = await context({ NOOPT: 0 }, () => exportModels(entries, { threads: 3, weights, name: "wide" }));
    await made.write(at);
    assert([...made.files.keys()].join().endsWith(",wide_threads.h,wide_threads.c,Makefile"));
    assert(made.text("wide.c").split("context->share(").length > 4, "several loops are shared");
    assertMatch(made.text("wide.c"), /thread \* \d+/, "one has memory of its own in each thread");
    for (const file of ["wide.h", "wide.c"]) assert(!made.text(file).includes("pthread"), file);
    await Deno.writeTextFile(`${at}/both.c`, THREADS_AND_ALONE);
    for (const { path, isCpp } of compilers) {
      const flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DWIDE_EMBED"];
      const all = [...isCpp ? ["-x", "c++", "-std=c++17"] : ["-std=c11"], ...flags];
      for (const name of ["wide", "wide_threads", "wide_test", "both"]) {
        await run(path, [...all, "-c", "-o", `${name}.o`, `${name}.c`], at);
      }
      await run(path, [...all, "-DWIDE_ALONE", "-c", "-o", "alone.o", "wide_test.c"], at);
      await run(path, ["-o", "shared", "wide_test.o", "wide.o", "wide_threads.o", "-pthread", "-lm"], at);
      assertMatch(await run(`${at}/shared`, [], at), /largest difference/, path);
      await run(path, ["-o", "alone", "alone.o", "wide.o", "-lm"], at);
      assertMatch(await run(`${at}/alone`, [], at), /largest difference/, path);
      await run(path, ["-o", "both", "both.o", "wide.o", "wide_threads.o", "-pthread", "-lm"], at);
      assertEquals(await run(`${at}/both`, [], at), "0 wrong, 3 threads, shared", path);
    }
  },
});

Deno.test("export: entry points that are none are refused by name", async () => {
  const x = wave([2, 3]), f = (x: Tensor) => x.add(1);
  const error = async (entries: unknown, options = {}) =>
    (await assertRejects(() => exportModels(entries as Parameters<typeof exportModels>[0], options)) as Error).message;
  assertMatch(await error({}), /entries are functions with their arguments by name/);
  assertMatch(await error({ init: [f, [x]] }), /an entry cannot be called "init"/);
  assertMatch(await error({ "a b": [f, [x]] }), /an entry cannot be called "a b"/);
  assertMatch(await error({ a: f }), /a must be \[f, args\], not a function/);
  assertMatch(await error({ then: [f, [x]] }, { target: "wasm" }), /an entry cannot be called "then"/);
});

Deno.test({
  name: "export to C: what a microcontroller needs: no heap, no data of its own, and memory as the header says",
  ignore: compilers.length === 0,
  async fn() {
    const { f, args, weights } = examples().digits, at = `${folder}/micro`, { path } = compilers[0];
    const made = await exportModel(f, args, { style: "plain", weights, name: "digits" });
    await made.write(at);
    const [, bytes, kept] = /a context of (\d+) bytes beside its pointers; the (\d+) bytes of/.exec(
      made.text("digits.h"),
    )!;
    const main =
      '#include "digits.h"\n#include <stdio.h>\nint main(void) { printf("%d", (int)(sizeof(digits_context) - ' +
      "sizeof(void *))); return 0; }\n";
    await Deno.writeTextFile(`${at}/size.c`, main);
    await run(path, ["-std=c11", "-o", "size", "size.c"], at);
    const measured = Number(await run(`${at}/size`, [], at));
    assert(measured >= Number(bytes) && measured < Number(bytes) + 64, `${measured} ${bytes}`); // but for alignment
    assertEquals(Number(kept), (made.files.get("digits.bin") as Uint8Array).length);
    await run(path, ["-std=c11", "-O1", "-c", "-o", "digits.o", "digits.c"], at);
    const symbols = await run("nm", ["digits.o"], at).catch(() => ""); // binutils may be missing
    const needed = [...symbols.matchAll(/ U (\w+)/g)].map((m) => m[1]);
    assertEquals(
      needed.filter((n) =>
        !/^(mem(cpy|set)|_?GLOBAL_OFFSET_TABLE_|__stack_chk_fail|(exp|log|sin|sqrt|trunc|f\w+)2?f?)$/.test(n)
      ),
      [],
    );
    assertEquals([...symbols.matchAll(/ [bBdD] (\w+)/g)].map((m) => m[1]), [], "nothing is written beside the context");
  },
});

Deno.test("export to C: the same function gives the same files, whatever the device", async () => {
  const texts: string[] = [];
  for (const device of ["WASM", "JS"]) {
    Device.default = device;
    try {
      const { f, args, weights } = examples().digits;
      const made = await exportModel(f, args, { weights, name: "digits" });
      texts.push(made.text("digits.c"));
    } finally {
      Device.default = "WASM";
    }
  }
  assertEquals(texts[0], texts[1]);
});

Deno.test("export: a training step goes on where the model is, and leaves it there", async () => {
  const { train } = examples(), { trained } = train.weights as { trained: { l1: nn.Linear } };
  const made = await exportModel(train.f, train.args, { weights: train.weights, name: "train", style: "plain" });
  const now = new Uint8Array((await trained.l1.weight.data() as Float32Array).slice().buffer);
  const state = made.plan.arrays.find((a) => a.name === "trained_l1_weight")!;
  assertEquals(state.space, "state");
  assertEquals([...state.data!], [...now]);
});

Deno.test("export: what cannot leave this process is refused by name", async () => {
  const x = wave([2, 3]),
    error = async (f: (...args: never[]) => unknown, args: unknown[], options = {}) => {
      const e = await assertRejects(() => exportModel(f, args, options)) as Error;
      return `${e.name}: ${e.message}`;
    };
  assertMatch(
    await error((x: Tensor) => x.mul(Number(x.sum().itemSync())), [x]),
    /^ExportError: Cannot export a function: .*(read|value)/,
  );
  assertEquals(
    await error(async (x: Tensor) => await x.sum().item(), [x]),
    "ExportError: Cannot export a function: it is async: an export computes all that it gives, and reads nothing",
  );
  assertEquals(
    await error((x: Tensor) => x, [x, new Variable("n", 1, 3)]),
    "ExportError: Cannot export a function: the size n is not bound: pass n.bind(n); it is an argument of the export nevertheless",
  );
  assertMatch(
    await error((x: Tensor, y: Tensor) => x.add(y), [x, x]),
    /argument 1 is the tensor of argument 0; pass a clone/,
  );
  assertMatch(await error((x: Tensor) => x.add(1), [x], { target: "fortran" }), /target must be one of "c"/);
  assertMatch(await error((x: Tensor) => x.add(1), [x], { style: "pretty" }), /style must be one of "plain", "fast"/);
  assertMatch(await error((x: Tensor) => x.add(1), [x], { threads: 0 }), /threads must be an integer of at least 1/);
  assertMatch(await error((x: Tensor) => x.add(1), [x], { threads: 2, target: "wasm" }), /threads are for/);
  assertMatch(await error((x: Tensor) => x.add(1), [x], { threads: 2, style: "plain" }), /threads are for/);
  assertMatch(await error((x: Tensor) => x.add(1), [x], { vector: 24 }), /vector must be one of 0, 16, 32, 64/);
  assertMatch(await error((x: Tensor) => x.add(1), [x], { name: "a b" }), /name is letters, digits and underscores/);
  assertMatch(await error("f" as never, [x]), /^ArgumentError: Cannot export a function: f must be a function/);
  assertMatch(await error((x: Tensor) => x.add(1), x as never), /args must be a list of the arguments/);
});
