/**
 * Programs as strangers write them, in tests/story/programs: explained by the command, watched by all that watches, and
 * each script run with no permission but to read. No file names a folder of this machine.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { FORMAT, parseVizData } from "../../src/story/viz/viz_data.ts";
import { ROOT, runDeno } from "../system/subprocess.ts";

/** What a program is to leave beyond what all do. */
interface Want {
  /** Of the program; 0 unless it is given. */
  readonly code?: number;
  /** What its script says. */
  readonly script?: readonly RegExp[];
  /** What its story says. */
  readonly story?: readonly RegExp[];
  /** Other levels that it is explained at. */
  readonly levels?: readonly string[];
  /** The environment that it runs in: without a card where its loops must be those of a processor. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Hides the cards of this machine. */
const NO_CARD: Readonly<Record<string, string>> = { CUDA_DRIVER_PATH: "/nowhere" };

const PROGRAMS: Readonly<Record<string, Want>> = {
  cnn: {
    script: [
      /fields of Cnn, cnn\.ts:\d+ {2}readonly c1 = new nn\.Conv2d/,
      /^const c1_weight = .*float32\[4, 1, 3, 3\]/m,
      /^const head_bias = .*float32\[3\]/m,
      /^ *adam_\w+\[i\] = x\d+;$/m,
    ],
  },
  rnn: { script: [/^const lstmCell = /m, /rnn\.ts:\d+ {2}const \[nextH, nextC\] = cell\.call/] },
  loader: {},
  symbolic: {
    script: [
      /^ {2}\[sum, x, 2\],$/m,
      /^for \(const \[.*, n\] of \[$/m,
      /^ {2}\[f, x, 6\],$/m,
      /j < n;/,
      /captured, symbolic\.ts:\d+/,
    ],
  },
  nan: { story: [/the first NaN at \[0\]: here it begins, with `log2\(\(x\[2\] \(0\) \+ -1\)\) = NaN`/] },
  throws: { code: 1, script: [/^\/\/ It stopped here: ShapeError: Cannot matmul shapes \[3, 4\] and \[5, 6\]/m] },
  server: { script: [/server\.ts:\d+ {2}return Response\.json\(await net\.call/] },
  exits: { code: 3, script: [/^\/\/ It stopped here: ProgramExit: it called Deno\.exit\(3\)$/m, /^const sum = /m] },
  later: { script: [/^const late = .*int32\[3\], 7 to 21/m] },
  rejects: { code: 1, script: [/^\/\/ It stopped here: Error: out of ideas$/m, /^const root = /m] },
  relative: { script: [/areas, lib\/shape\.ts:\d+ {2}return squared\.mul\(Math\.PI\);/, /^const sides = /m] },
  random: {},
  dtypes: { script: [/Int8Array/, /Float16Array|Uint16Array/] },
  decode: {
    script: [
      /^const keys = .*float32\[6, 8\]/m,
      /captured, decode\.ts:\d+ {2}keys\.setAt\(\[at\], query/,
      /^const contiguous_6 = .*int32\[1\]/m,
    ],
  },
  devices: {
    script: [
      /on (?:CLANG|WASM|CUDA)/,
      /^\/\/ copy: 32 bytes/m,
      /^there\.set\(hidden\);$/m,
      /^const scores = /m,
      /on JS: \d+ FLOP/,
    ],
    story: [/`const there = hidden\.to\("JS"\);`: there float32\[2, 4\]/, /\| copy \| there \| 32 bytes/],
  },
  gpt: {
    script: [/^const blocks_1_qkv_weight = /m, /32 random bits, threefry2x32/],
    levels: ["tensor"],
  },
  gru: { script: [/gru\.ts:\d+ {2}const next = cell\.call\(frame, memory\);/, /^const gruCell_/m], levels: ["tensor"] },
  sharded: {
    script: [
      /^\/\/ scatter devices\(2\), 192 bytes: what each device has of it was recorded$/m,
      /^\/\/ allReduce devices\(2\)/m,
      /^\/\/ kernel \d+ of \d+, r_\w+ on \w+: /m,
      /^\/\/ kernel \d+ of \d+, r_\w+ on \w+:1: /m,
    ],
    levels: ["tensor"],
  },
  custom: { script: [/^const after = .*, 36 to 3572/m], levels: ["tensor"] },
  onnx_model: { script: [/onnx_model\.ts:\d+ {2}const \{ y \} = model\.call\(image\);/, /^const onnxModel_2 = /m] },
  spectrum: { script: [/^const power = new Float32Array\(17\); /m], levels: ["tensor"] },
  masks: { script: [/^const picked = new Float32Array\(6\); /m] },
  mixed: { script: [/^const up_weight = .*float32\[8, 4\]/m, /^const down_bias = /m] },
  solve: { script: [/Float64Array/] },
  together: { script: [/^const best = .*, 190$/m] },
  caught: { script: [/captured, caught\.ts:\d+/, /^const sum_2 = new Float32Array\(1\); /m] },
  beam: { script: [/^const beams = new Float32Array\(3\); /m] },
  saved: { script: [/ \["apart", .*\], \/\/ rounding alone moves it by \d/] },
  freed: { script: [/^const halved = new Float32Array\(4\); /m] },
  names: { script: [/^const isFar_2 = /m, /^const Float32Array_2 = /m, /^const größe = /m, /^const 变量 = /m] },
  fields: {
    script: [
      /fields\.ts:\d+ {2}override call = \(x: Tensor\) => this\.layer\.call/,
      /^\/\/ fields\.ts:\d+ {2}static shared = Tensor\.arange/m,
      /^\/\/ fields\.ts:\d+ {2}const scaled = late\.mul\("weights\.bin"\.length\);/m,
    ],
    levels: ["tensor"],
    env: NO_CARD,
  },
  inplace: { script: [/^const big = new BigInt64Array\(/m], levels: ["tensor"] },
  chance: { script: [/32 random bits, threefry2x32/], levels: ["tensor"] },
  numbers: { script: [/Float64Array/], levels: ["tensor"] },
  weights: { script: [/^const \w+ = .*int64\[4\]/m] },
  gan: { script: [/^const layers_0_weight_2 = /m, /times the same/], levels: ["tensor"] },
  kmeans: {},
  life: { levels: ["tensor"] },
  pictures: {},
  cache: { levels: ["tensor"] },
  grads: {},
  parallel: {},
  holders: { levels: ["tensor"] },
  bits: {
    script: [/^const mixed = new Uint32Array\(4\)/m, /^const wide = new BigInt64Array\(4\)/m],
    levels: ["tensor"],
  },
  nested: { script: [/^const sum = new Float32Array\(1\);/m] },
  chained: {
    script: [
      /^\/\/ chained\.ts:\d+ {2}const scores = x … \.contiguous\(\);$/m,
      /^const scores = new Float32Array\(6\)/m,
      /^const rows = new Float32Array\(3\)/m,
      /^const best = new Float32Array\(1\)/m,
    ],
    story: [/`const rows = scores\.sum\(1\) … \.contiguous\(\);`: .*rows float32\[3\]/],
    env: NO_CARD,
  },
  numeric: { script: [/Float64Array/, /\d+ times the same/], env: NO_CARD },
};

const folder = await Deno.makeTempDir({ prefix: "dinograd-strangers-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const cwd = `${folder}/programs`, command = new URL("src/story/explain_command.ts", ROOT).pathname;

// they lie where a stranger's would, apart from the library
for (const path of ["lib/shape.ts", "serves.ts", "nothing.ts", ...Object.keys(PROGRAMS).map((name) => `${name}.ts`)]) {
  const text = await Deno.readTextFile(new URL(`tests/story/programs/${path}`, ROOT));
  await Deno.mkdir(`${cwd}/lib`, { recursive: true });
  await Deno.writeTextFile(
    `${cwd}/${path}`,
    text.replaceAll(
      /"(?:\.\.\/)+(mod|src\/onnx\/onnx|src\/story\/story)\.ts"/g,
      (_, at) => `"${new URL(`${at}.ts`, ROOT)}"`,
    ),
  );
}

/** What would tell of this machine. */
const PRIVATE: readonly string[] = [
  "/home/stranger",
  ROOT.pathname.replace(/\/$/, ""),
  folder,
  Deno.env.get("HOME") || "/home/",
];
function checkPrivate(text: string, what: string): void {
  for (const path of PRIVATE) if (path.length > 2) assert(!text.includes(path), `${what} names ${path}`);
}

for (const [name, { code = 0, script = [], story = [], levels = [], env }] of Object.entries(PROGRAMS)) {
  const out = `${folder}/${name}`;
  Deno.test(`stranger: ${name} is explained, and its script comes to the same`, async () => {
    const explained = await runDeno(["run", "-A", "--no-check", command, `${name}.ts`, "--out", out], { cwd, env });
    assertEquals(explained.code, code, explained.stderr);
    assertMatch(explained.stdout, /^\d+ kernels?(?:, the first 200 steps)?:\n/m);
    const text = await Deno.readTextFile(`${out}/script.ts`), told = await Deno.readTextFile(`${out}/story.md`);
    for (const part of script) assertMatch(text, part);
    for (const part of story) assertMatch(told, part);
    for (const [what, of] of [["the script", text], ["the story", told]]) checkPrivate(of, what);
    assert(!/^import |\brequire\(/m.test(text));
    const calls = new Set([...text.replaceAll(/\/\/.*/g, "").matchAll(/(\w[\w.]*)\(/g)].map((m) => m[1]));
    const allowed =
      /^(?:Math\.\w+|for|if|\w+Array|(?:[\w$]+\.)?(?:set|fill|subarray|slice|join|copyWithin)|Number|BigInt(?:\.\w+)?|Error|URL|console\.log|Deno\.readFileSync|ArrayBuffer)$/;
    assertEquals([...calls].filter((c) => !allowed.test(c)), []);
    const run = await runDeno(["run", "--no-prompt", "--allow-read", `${out}/script.ts`]);
    assertEquals(run.code, 0, run.stderr + run.stdout);
    assertMatch(run.stdout, /^\w+: .*; largest difference \S+$/m);
  });

  for (const level of levels) {
    Deno.test(`stranger: ${name} is explained at the level of a ${level}, and its kernels are replayed as they were`, async () => {
      const to = `${out}_${level}`, kernels = `${out}_kernels.json`;
      const explained = await runDeno(
        ["run", "-A", "--no-check", command, `${name}.ts`, "--out", to, "--level", level, "--limit", "2000"],
        { cwd, env: { CAPTURE_KERNELS: kernels } },
      );
      assertEquals(explained.code, code, explained.stderr);
      const run = await runDeno(["run", "--no-prompt", "--allow-read", `${to}/script.ts`]);
      assertEquals(run.code, 0, run.stderr + run.stdout);
      const replay = new URL("tests/replay.ts", ROOT).pathname;
      const replayed = await runDeno(["run", "-A", "--no-check", replay, kernels], { cwd });
      assertEquals(replayed.code, 0, replayed.stderr + replayed.stdout);
      assertMatch(replayed.stdout, /\b[1-9]\d* kernels/);
    });
  }

  Deno.test(`stranger: ${name} is watched by all at once`, async () => {
    const env = {
      VIZ: `${out}/viz.json`,
      PROFILE: `${out}/profile.pftrace`,
      GRAPH: `${out}/graph`,
      SAVE_SCHEDULE: `${out}/schedule.json`,
    };
    const [plain, run] = await Promise.all([
      runDeno(["run", "-A", "--no-check", `${name}.ts`], { cwd }),
      runDeno(["run", "-A", "--no-check", `${name}.ts`], { cwd, env }),
    ]);
    assertEquals([run.code, run.stdout], [code, plain.stdout], run.stderr);
    for (const [variable, path] of Object.entries(env)) assertStringIncludes(run.stderr, `${variable}: ${path}`);
    assertMatch(run.stderr, /^profile: .*\n\w+: \d+ launch/m);
    const viz = await Deno.readTextFile(env.VIZ), data = parseVizData(viz, "viz.json");
    assertEquals([data.format, data.title, data.error !== undefined], [FORMAT, `${name}.ts`, code === 1]);
    assert(data.passes.length > 0 && data.kernels.length > 0 && data.events.some((e) => e.kind === "launch"));
    const { schedules } = JSON.parse(await Deno.readTextFile(env.SAVE_SCHEDULE));
    assert(schedules.length > 0);
    const graphs = [...Deno.readDirSync(env.GRAPH)].map((f) => f.name);
    assert(graphs.length >= 4 && graphs.length % 4 === 0, graphs.join());
    const trace = new TextDecoder("latin1").decode(await Deno.readFile(env.PROFILE));
    for (const [what, text] of [["the recording", viz], ["the trace", trace]]) checkPrivate(text, what);
    checkPrivate(await Deno.readTextFile(env.SAVE_SCHEDULE), "the schedule");
    for (const f of graphs) checkPrivate(await Deno.readTextFile(`${env.GRAPH}/${f}`), f);
  });
}

Deno.test("stranger: what computes nothing is explained, and says so", async () => {
  const args = ["run", "-A", "--no-check", command, "nothing.ts", "--out", `${folder}/nothing`];
  const { code, stdout, stderr } = await runDeno(args, { cwd });
  assertEquals(code, 0, stderr);
  assertMatch(stdout, /^0 kernels/m);
  const run = await runDeno(["run", "--no-prompt", "--allow-read", `${folder}/nothing/script.ts`]);
  assertEquals([run.code, run.stdout], [0, ""], run.stderr);
});

Deno.test("stranger: what serves forever is explained up to Ctrl+C", async () => {
  const args = ["run", "-A", "--no-check", command, "serves.ts", "--out", `${folder}/serves`],
    { build, execPath } = Deno;
  if (build.os === "windows") return;
  const env = { NO_COLOR: "1", DEV: "", DEBUG: "0" };
  const child = new Deno.Command(execPath(), { args, cwd, env, stdout: "piped", stderr: "piped" }).spawn();
  let said = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    if (!said.includes("ready") && (said + text).includes("ready")) child.kill("SIGINT");
    said += text;
  }
  const error = await new Response(child.stderr).text();
  assertEquals([(await child.status).code, /^The program stopped: Error: interrupted/m.test(error)], [1, true], error);
  const script = await Deno.readTextFile(`${folder}/serves/script.ts`);
  assertMatch(script, /^\/\/ It stopped here: Error: interrupted$/m);
  assertMatch(script, /^const answer = .*22 to 55/m);
});

const WRONG: readonly (readonly [args: readonly string[], said: RegExp])[] = [
  [["nothere.ts"], /^nothere\.ts cannot be read: /],
  [["nan.ts", "--limit", "0"], /^--limit takes a number of steps from 1 on: deno task explain FILE/],
  [["nan.ts", "--level", "op"], /^--level takes kernel or tensor, not op: /],
  [["nan.ts", "cnn.ts"], /^Name one program: /],
  [["nan.ts", "--loud"], /^There is no option --loud: /],
];
for (const [args, said] of WRONG) {
  Deno.test(`explain command: ${args.join(" ")} is refused in a line`, async () => {
    const { code, stderr } = await runDeno(["run", "-A", "--no-check", command, ...args], { cwd });
    assertEquals([code, stderr.trim().split("\n").length], [2, 1], stderr);
    assertMatch(stderr, said);
  });
}

Deno.test("strangers: all scripts have types", async () => {
  const scripts = Object.keys(PROGRAMS).map((name) => `${folder}/${name}/script.ts`);
  const { code, stderr } = await runDeno(["check", ...scripts]);
  assertEquals(code, 0, stderr);
});
