/** What DEBUG prints, level by level; statistics; checks against the interpreter. */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { context, Device, GlobalCounters, jit, record, Tensor } from "../../mod.ts";
import { matchStatsText, passText } from "../../src/engine/debug.ts";
import { difference } from "../../src/engine/validate.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { DeviceError } from "../../src/helpers/errors.ts";
import { resetMatchStats } from "../../src/uop/rewrite/matcher.ts";
import { inFolder } from "../support/folder.ts";
import { runDeno } from "../system/subprocess.ts";
import { optimized } from "../fixtures/optimized.ts";

Device.get("JS");
Device.get("WASM");
Device.get();

/** What `fn` prints on standard error. */
async function printed(fn: () => unknown): Promise<string> {
  const original = console.error, lines: string[] = [];
  console.error = (...parts: unknown[]) => void lines.push(parts.join(" "));
  try {
    await fn();
  } finally {
    console.error = original;
  }
  return lines.join("\n");
}

/** The program of all levels; sizes differ, so that each compiles anew. */
function program(n: number): Tensor {
  return new Tensor(new Float32Array(n).fill(1), { device: "WASM" }).add(2).sum();
}

Deno.test("debug: 0 prints nothing", async () => {
  assertEquals(await printed(() => program(101).item()), "");
});

/** The same with nothing kept by other processes. */
const printedAnew = (env: { readonly DEBUG: number }, fn: () => unknown): Promise<string> =>
  inFolder((CACHEDIR) => printed(() => context({ ...env, CACHEDIR }, fn)));

Deno.test("debug: 1 tells of schedules and compiling", async () => {
  const text = await printedAnew({ DEBUG: 1 }, () => program(102).realize());
  assertMatch(text, /^scheduled 1 kernel, 1 copy in [\d.]+ ms from \d+ nodes, cache miss$/m);
  assertMatch(text, /^compiled 1 kernel for WASM: [\d.]+ ms to linear UOps, [\d.]+ ms to code$/m);
  assert(!text.includes("***"));
  const again = await printed(() => context({ DEBUG: 1 }, () => program(102).realize()));
  assertMatch(again, /cache hit$/m);
  assert(!again.includes("compiled"));
  const two = () => Tensor.rand([64], { device: "WASM" }).sum().add(Tensor.ones([64])).contiguous().sum().realize();
  assertMatch(await printed(() => context({ DEBUG: 1 }, two)), /intermediates take .* instead of /);
});

Deno.test("debug: 2 prints a line for each kernel and copy", async () => {
  const before = { ...GlobalCounters };
  const text = await printedAnew({ DEBUG: 2 }, () => program(103).realize());
  const lines = text.split("\n").filter((l) => l.startsWith("***"));
  assertEquals(lines.length, 2);
  assertMatch(text, /^scheduled .*\npasses: [a-z ]+ \d+ %.*\n(.*\n)*passes: [a-z ,]+ \d+ %/m);
  assertMatch(
    lines[0],
    /^\*\*\* WASM +\d+ copy 412 bytes, WASM <- JS +arg +2 mem .* GB\/s\) +.*debug_test\.ts:\d+:\d+$/,
  );
  assertMatch(
    lines[1],
    /^\*\*\* WASM +\d+ r_\S+ +arg +2 mem +\S+ \S+ tm +[\d.]+us\/ *[\d.]+ms \( *[\d.]+ GFLOP\/s +[\d.]+ GB\/s +\d+ %\) +.*debug_test\.ts:\d+:\d+$/,
  );
  const [copy, kernel] = lines.map((l) => Number(/WASM +(\d+)/.exec(l)![1]));
  assertEquals(kernel, copy + 1);
  assertEquals(GlobalCounters.kernelCount, before.kernelCount + 1);
  assertEquals(GlobalCounters.copyCount, before.copyCount + 1);
  assert(GlobalCounters.timeSumS > before.timeSumS);
  assert(GlobalCounters.globalOps > before.globalOps && GlobalCounters.globalMem > before.globalMem);
});

Deno.test("debug: 2 names the line of each schedule, not of the first of its structure", async () => {
  const lines: string[] = [];
  const run = (t: Tensor) => t.mul(3).realize();
  const x = new Tensor([1, 2, 3, 4, 5], { device: "WASM" }).realize();
  for (const make of [() => run(x), () => x.mul(3).realize()]) {
    const text = await printed(() => context({ DEBUG: 2 }, make));
    lines.push(/debug_test\.ts:\d+/.exec(text)![0]);
  }
  assert(lines[0] !== lines[1], lines.join());
});

Deno.test("debug: 2 prints the kernels of replays, which compute what they did", async () => {
  const f = jit((x: Tensor) => Tensor.realize([x.add(1)]) as undefined ?? x.mul(2).sum());
  const g = jit((x: Tensor) => [x.mul(2).sum(), Tensor.rand([3], { device: "WASM" }).add(x.sum())]);
  const draws = new Set<number>();
  for (let i = 0; i < 5; i++) {
    const x = Tensor.full([7], i, { device: "WASM", dtype: "float32" }).contiguous().realize();
    const text = await printed(() =>
      context({ DEBUG: i % 2 === 0 ? 2 : 0, TRACEMETA: 1 }, async () => {
        assertEquals(await f(x).item(), 14 * i);
        const [sum, random] = g(x);
        assertEquals(await sum.item(), 14 * i);
        draws.add((await random.tolist() as number[])[0] - 7 * i);
      })
    );
    const kernels = text.split("\n").filter((l) => /^\*\*\* WASM +\d+ [rE]/.test(l));
    if (i % 2 === 0) assert(kernels.length >= 3, text);
    else assertEquals(text, "");
    if (i === 4) { for (const line of kernels) assertMatch(line, /debug_test\.ts:\d+/); }
  }
  assertEquals(draws.size, 5);
});

Deno.test("debug: 1 tells what was captured", async () => {
  const f = jit((x: Tensor) => x.add(1).sum());
  const x = new Tensor([1, 2], { device: "WASM" }).realize();
  f(x);
  assertMatch(
    await printed(() => context({ DEBUG: 1 }, () => f(x))),
    /^captured 1 kernel and 0 other steps in 1 part; 1 argument tensor, 1 result$/m,
  );
});

Deno.test("debug: 3 adds opts and buffers", async () => {
  const text = await printed(() => context({ DEBUG: 3 }, () => program(4096).realize()));
  assertMatch(text, /^r_\S+: opts \S+.*; buffers 0:w float32 x1, 1:r float32 x4096$/m);
  const plain = await printed(() => context({ DEBUG: 3, NOOPT: 1 }, () => program(4096).realize()));
  assertMatch(plain, /^r_4096: opts none; buffers /m);
});

Deno.test("debug: 4 adds the tree and the source, once; 5 the linear UOps", async () => {
  const text = await printed(() => context({ DEBUG: 4, NOOPT: 1 }, () => program(105).realize()));
  assertMatch(
    text,
    /#0 SINK .*\n {2}#1 STORE .*\n {4}#2 INDEX[\s\S]*REDUCE +float32 +ADD\n +#\d+ ADD +float32[\s\S]*CONST +float32 +2\n/,
  );
  assertStringIncludes(text, "f32.add");
  assert(!/^ *\d+ PARAM/m.test(text));
  const again = await printed(() => context({ DEBUG: 4, NOOPT: 1 }, () => program(105).realize()));
  assert(!again.includes("SINK") && again.includes("r_105: opts"));
  const linear = await printed(() => context({ DEBUG: 5, NOOPT: 1 }, () => program(106).realize()));
  assertMatch(linear, /#0 SINK[\s\S]*^ *0 PARAM[\s\S]*^ *\d+ RANGE[\s\S]*^ *\d+ END/m);
});

Deno.test(
  "debug: 6 adds every rewrite, unless something else records them",
  optimized(async () => {
    const text = await printed(() => context({ DEBUG: 6 }, () => program(107).realize()));
    assertMatch(text, /^simplify ranges: \d+ rewrites? in /m);
    assertMatch(text, /^ +.+: .+ -> .+$/m);
    const silent = await printed(() => context({ DEBUG: 6 }, () => record(() => program(108).realize())));
    assert(!/^simplify ranges:/m.test(silent));
    const { passes } = record(() => program(109).realize());
    assert(passes.length > 0 && passes.map(passText).join("\n").includes("->"));
  }),
);

Deno.test("debug: goes to standard error, and changes no result", async () => {
  const script = `
    import { jit, Tensor } from "./mod.ts";
    const f = jit((x) => x.add(1).sum());
    for (let i = 0; i < 4; i++) console.log(await f(Tensor.full([4], i).contiguous().realize()).item());
  `;
  const run = (env: Record<string, string>) =>
    runDeno([
      "run",
      "--no-prompt",
      "--no-check",
      "--allow-env",
      `data:application/typescript,${
        encodeURIComponent(
          script.replace("./mod.ts", new URL("../../mod.ts", import.meta.url).href),
        )
      }`,
    ], { env: { DEV: "WASM", ...env } });
  const plain = await run({}), verbose = await run({ DEBUG: "6", DEBUG_MEMORY: "1", TRACK_MATCH_STATS: "1" });
  assertEquals([plain.code, plain.stderr, verbose.code, verbose.stdout], [0, "", 0, plain.stdout]);
  assertEquals(plain.stdout.split("\n").slice(0, 4), ["4", "8", "12", "16"]);
  assertMatch(verbose.stderr, /^opened device WASM in [\d.]+ ms: .*threads \d+/m);
  assertEquals(verbose.stderr.match(/^\*\*\* WASM +\d+ r_/gm)?.length, 4);
  assertMatch(verbose.stderr, /^memory of WASM: .* held in \d+ blocks/m);
  assertMatch(verbose.stderr, /ms +hits +\/ +tries +rule\n +[\d.]+ +\d+ +\/ +\d+ /);
  assert(!verbose.stderr.includes("\x1b"), "no colors where there is no terminal");
});

Deno.test("debug: match statistics are a table, empty without counts", () => {
  resetMatchStats();
  assertEquals(matchStatsText(), "");
  context({ TRACK_MATCH_STATS: 1 }, () => program(110).realize());
  assertMatch(matchStatsText(3), /^ +ms.*\n.*\n.*\n.*\npasses: .+ \d+ %, .*$/);
  resetMatchStats();
});

Deno.test("debug: VALIDATE_WITH_JS finds results that differ, and lets equal ones pass", async () => {
  const x = Tensor.rand([33, 40], { device: "WASM" }).realize();
  const run = () => x.matmul(x.transpose()).softmax(-1).mul(3).cast("float16").sum(0).realize();
  const checked = context({ VALIDATE_WITH_JS: 1 }, run);
  assertEquals(await checked.tolist(), await run().tolist());
  const bytes = (x: ArrayBufferView) => new Uint8Array(x.buffer);
  const a = new Float32Array([1, 2, NaN]), b = new Float32Array([1, 2.5, NaN]);
  assertEquals(difference(bytes(a), bytes(a), dtypes.float32), undefined);
  assertEquals(difference(bytes(a), bytes(b), dtypes.float32), "element 1 of float32 is 2, not 2.5");
  assertMatch(
    difference(bytes(new Int32Array([1, 2])), bytes(new Int32Array([1, 3])), dtypes.int32)!,
    /^element 1 of int32/,
  );
});

Deno.test("debug: SPEC=1 lets all stages pass", () => {
  context({ SPEC: 1 }, () => {
    const x = Tensor.rand([17, 33], { device: "WASM" });
    Tensor.realize([x.matmul(x.transpose()).softmax(-1), x.argmax(1), x.pad([1, 1, 0, 2]).sum(0)]);
  });
});

Deno.test("debug: ALLOW_DEVICE_USAGE=0 opens nothing new", async () => {
  await context({ ALLOW_DEVICE_USAGE: 0 }, async () => {
    assertThrows(() => Device.get("NULL"), DeviceError, "Cannot open device NULL: ALLOW_DEVICE_USAGE is 0");
    assertEquals(await new Tensor([1, 2], { device: "WASM" }).sum().item(), 3);
  });
  assertEquals(Device.get("NULL").name, "NULL");
});
