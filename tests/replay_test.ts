/** Kernels of two versions compared: by AST, then opts and source. */
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { FormatError } from "../mod.ts";
import { type CapturedKernel, parseKernels } from "../src/story/kernel_capture.ts";
import { compareKernels } from "./replay.ts";
import { runDeno } from "./system/subprocess.ts";

const kernel: CapturedKernel = { device: "JS", name: "E_4", ast: "0 PARAM", opts: "", source: "a\nb\nc" };

Deno.test("replay: what differs is told by its name", () => {
  const other = { ...kernel, ast: "1 PARAM", name: "r_4" };
  for (
    const [old, now, want] of [
      [[kernel, other], [other, kernel], []],
      [[kernel], [{ ...kernel, source: "a\nx\nc", name: "E_5" }], [
        "! JS E_4: source differs, now E_5",
        "    - b",
        "    + x",
      ]],
      [[kernel], [{ ...kernel, opts: "UPCAST:0:4" }], ["! JS E_4: opts none -> UPCAST:0:4"]],
      [[kernel], [other], ["- JS E_4: no kernel has its AST now", "+ JS r_4: no kernel had its AST before"]],
      [[kernel], [{ ...kernel, device: "WASM" }], [
        "- JS E_4: no kernel has its AST now",
        "+ WASM E_4: no kernel had its AST before",
      ]],
      [[], [], []],
    ] as [CapturedKernel[], CapturedKernel[], string[]][]
  ) assertEquals(compareKernels(old, now), want);
  const long = { ...kernel, source: "x\n".repeat(9) };
  assertEquals(compareKernels([kernel], [long], 2).at(-1), "    11 lines more");
});

Deno.test("replay: other files are refused, and why", () => {
  for (
    const [text, reason] of [
      ["no", /it is no JSON/],
      ["{}", /it has no kernels; CAPTURE_KERNELS=/],
      [`{"format":"dinograd kernels","version":7,"kernels":[]}`, /it is of version 7, and this is version 1/],
    ] as const
  ) assertMatch(assertThrows(() => parseKernels(text, "f.json"), FormatError).message, reason);
});

Deno.test("replay: kernels of a program are kept, and compared with those of another run", async () => {
  const folder = await Deno.makeTempDir(), mod = new URL("../mod.ts", import.meta.url).href;
  const program = (k: string): string =>
    `import { Tensor } from "${mod}";
const x = Tensor.ones([8, 4], { device: "WASM" }).contiguous();
x.add(2.5).sum(1).realize();
x.${k}.contiguous().mul(x).realize();
`;
  try {
    await Deno.writeTextFile(`${folder}/a.ts`, program("exp()"));
    await Deno.writeTextFile(`${folder}/b.ts`, program("sin()"));
    const run = await runDeno(["run", "-A", "--no-check", `${folder}/a.ts`], {
      env: { CAPTURE_KERNELS: `${folder}/a.json` },
    });
    assertEquals(run.code, 0, run.stderr);
    const kernels = parseKernels(await Deno.readTextFile(`${folder}/a.json`), "a.json");
    assertEquals(
      kernels.length >= 2 && kernels.every((k) => k.device === "WASM" && k.ast !== "" && k.source !== ""),
      true,
    );
    const replay = (now: string) => runDeno(["task", "replay", `${folder}/a.json`, `${folder}/${now}`]);
    const same = await replay("a.ts");
    assertEquals([same.code, same.stdout.trimEnd()], [
      0,
      `${kernels.length} kernels before, ${kernels.length} now: equal`,
    ]);
    const other = await replay("b.ts");
    assertEquals(other.code, 1, other.stderr);
    assertMatch(
      other.stdout,
      /^- WASM \w+: no kernel has its AST now$[^]*^\+ WASM \w+: no kernel had its AST before$/m,
    );
    assertEquals((await runDeno(["task", "replay", `${folder}/a.json`])).code, 2);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
