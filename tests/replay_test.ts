/** Kernels of two versions compared: by AST, then opts and source. */
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { context, Device, FormatError, Tensor } from "../mod.ts";
import { capsData, type CapturedKernel, captureKernels, parseKernels } from "../src/story/kernel_capture.ts";
import { toProgram } from "../src/codegen/to_program.ts";
import { compareKernels, compileAgain } from "./replay.ts";
import { WRITERS } from "./support/snapshot_writers.ts";
import { runDeno } from "./system/subprocess.ts";

// its library stays open
Device.get(Device.default);

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
      [`{"format":"dinograd kernels","version":7,"kernels":[]}`, /it is of version 7, and this is version 2/],
    ] as const
  ) assertMatch(assertThrows(() => parseKernels(text, "f.json"), FormatError).message, reason);
});

Deno.test("replay: kernels are compiled again as they were set, for a device that is not here, too", async () => {
  const finish = captureKernels();
  const x = Tensor.ones([16, 4], { device: "JS" }).contiguous();
  context({ NOOPT: 1 }, () => x.add(2).sum(1).realize());
  const text = finish(), { devices, kernels } = parseKernels(text, "here");
  assertEquals(kernels.length >= 1 && kernels.every((k) => k.settings?.NOOPT === 1), true);
  const { was, now, left } = await compileAgain({ devices, kernels });
  assertEquals([compareKernels(was, now), left, now.length], [[], [], kernels.length]);
  // a card that is in no machine of the tests
  const { renderer, text: textOf } = WRITERS.PTX, caps = capsData(renderer), { root } = kernels[0];
  const source = context({ NOOPT: 1 }, () => textOf(toProgram(root!, renderer)));
  const card = {
    devices: { "CARD": { language: "PTX", caps } },
    kernels: [{ ...kernels[0], device: "CARD", source }],
  };
  const there = await compileAgain(card);
  assertEquals([there.left, there.now[0].source === source], [[], true]);
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
      env: { CAPTURE_KERNELS: `${folder}/a.json`, NOOPT: "0" }, // vectors
    });
    assertEquals(run.code, 0, run.stderr);
    const { kernels } = parseKernels(await Deno.readTextFile(`${folder}/a.json`), "a.json");
    assertEquals(
      kernels.length >= 2 && kernels.every((k) => k.device === "WASM" && k.ast !== "" && k.source !== ""),
      true,
    );
    const replay = (now: string) =>
      runDeno(["task", "replay", `${folder}/a.json`, `${folder}/${now}`], { env: { NOOPT: "0" } });
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
    const text = await Deno.readTextFile(`${folder}/a.json`);
    const again = await runDeno(["task", "replay", `${folder}/a.json`], { env: { NOOPT: "0" } });
    assertEquals([again.code, again.stdout.trimEnd()], [
      0,
      `${kernels.length} kernels before, ${kernels.length} now: equal`,
    ]);
    // what an older tree made of the same AST
    await Deno.writeTextFile(`${folder}/old.json`, text.replace("f32x4.add", "f32x4.sub"));
    const older = await runDeno(["task", "replay", `${folder}/old.json`], { env: { NOOPT: "0" } });
    assertEquals(older.code, 1, older.stderr);
    assertMatch(older.stdout, /^! WASM \w+: source differs\n +- .*f32x4.sub.*\n +\+ .*f32x4.add/m);
    await Deno.writeTextFile(`${folder}/other.json`, text.replace(/"registers":\d+/, `"registers":7`));
    const strange = await runDeno(["task", "replay", `${folder}/other.json`]);
    assertEquals(strange.code, 1, strange.stderr);
    assertMatch(strange.stdout, /^\? WASM: \d kernels are left out: registers is \d+, was 7$/m);
    assertEquals((await runDeno(["task", "replay"])).code, 2);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
