/**
 * A short run of the program fuzzer (long ones are by hand: programs.ts), and the programs that it once found wrong.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { dtypes } from "../../src/dtype/dtype.ts";
import { constant, type UOp } from "../../src/uop/core/uop.ts";
import { StaleReadError, Tensor } from "../../mod.ts";
import { PARITY } from "../pages/parity.ts";
import { checkDifference, gradientProgram } from "./parts/gradients.ts";
import { ALL_ROWS } from "./parts/op_rows_more.ts";
import { type Line, type Program, ProgramMaker } from "./parts/program_maker.ts";
import { check, expected, fuzzPrograms, modesOf, openDevices, programOf, script, shrink } from "./programs.ts";
import { Random } from "../support/random.ts";
import { compareTracked, evaluateTracked } from "./parts/tracked.ts";

// with another compiler than that of CLANG, what is of interest is CLANG
const compiled = Deno.env.has("CC") ? await openDevices(["CLANG"]) : [];
const devices = compiled.length > 0 ? compiled : await openDevices();
const ROWS = ALL_ROWS.flatMap(([, rows]) => rows);

/** Statements, one a line; the last line names the outputs. */
function parse(text: string): Program {
  const rows = text.trim().split("\n").map((row) => row.trim());
  const kindOf = (row: string): Line["kind"] =>
    row.startsWith("const ")
      ? (/= (leaf\(|Tensor\.)/.test(row) ? "leaf" : "op")
      : row.endsWith(".realize();")
      ? "realize"
      : "write";
  return {
    lines: rows.slice(0, -1).map((row) => ({ text: row, kind: kindOf(row) })),
    outputs: rows.at(-1)!.split(", "),
  };
}

/** What failed, then the program. */
const FOUND: [string, string][] = [
  [
    "a reshape of no elements",
    `
    const t0 = leaf([5, 0, 9], "float32", 1);
    const t1 = t0.matmul(leaf([9], "float32", 2));
    const t2 = t1.sum(-2, { keepdim: true });
    const t3 = t1.mul(t2);
    t1, t3`,
  ],
  [
    "a sum over an axis of no elements",
    `
    const t0 = leaf([2, 0], "int32", 1);
    const t1 = t0.matmul(leaf([0, 2], "uint32", 0));
    const t2 = t0.add(1).max(1);
    t1, t2`,
  ],
  [
    "the peeled tail of one of two reduce axes",
    `
    const t0 = leaf([6], "float32", 0);
    const t1 = t0.cumsum(0);
    const t2 = t1.sum(0);
    t2`,
  ],
  [
    "the peeled tail of a padded gather",
    `
    const t0 = leaf([5, 19], "float64", 0);
    const t1 = t0.pad([[0, 1], [0, 0]]);
    const t2 = t1.at(":", leaf([2], "int32", 1)).sum(null);
    t2`,
  ],
  [
    "a write that folding leaves without a reader",
    `
    const t0 = leaf([3], "int32", 0);
    const t1 = t0.add(1);
    t0.assign(leaf([3], "int32", 7));
    const t2 = t0.mul(0);
    t1.realize();
    t1, t2, t0`,
  ],
  [
    "a kept row that is read under padding",
    `
    const t0 = leaf([1, 1, 4, 4], "float64", 1);
    const t1 = t0.avgPool2d(2).div(-0.5);
    const t2 = t1.pad([[0, 0], [0, 0], [0, 0], [0, 1]]);
    const t3 = t2.lt(t2.sum([0, 2]));
    t3`,
  ],
  [
    "padding of no elements",
    `
    const t0 = leaf([0, 1, 3], "float32", 7);
    const t1 = t0.pad([[1, 3], [0, 0], [0, 0]]);
    const t2 = t1.add(1).sum(0);
    t1, t2`,
  ],
  [
    "two reduces of one kept row that want tiles of it",
    `
    const t0 = leaf([2], "float64", 0);
    const t1 = t0.scatter(0, leaf([3], "int64", 0).mod(2), leaf([3], "float64", 0));
    const t2 = t1.logSoftmax(0);
    t2`,
  ],
  [
    "the smallest int64 as the start of a maximum",
    `
    const t0 = new Tensor([-9223372036854775808n, -9223372036854775807n], { dtype: "int64" });
    const t1 = t0.reshape([2, 1]).max(1);
    const t2 = t0.max();
    t1, t2`,
  ],
  [
    "sums of what is written, in its windows",
    `
    const t0 = leaf([3, 3, 3, 3], "float16", 0);
    const t1 = t0.unfold(0, 1, 2);
    t1.setAt([[0, 1], [0, 2], [0, 1], [0, 1]], t1.sum());
    t1.setAt([[0, 2], [1, 2], [0, 3], 2, [0, 1]], t1.sum());
    t1`,
  ],
  [
    "a kept row of a sum over another axis",
    `
    const t0 = leaf([2, 1, 9, 1], "float32", 1);
    const t1 = t0.sum(0).softmax(1);
    t1`,
  ],
  [
    "a sum of nothing but factors",
    `
    const t0 = leaf([1, 1], "float16", 0);
    const t1 = t0.expand([2, 1]);
    const t2 = t1.sub(t1.var(0));
    const t3 = t2.mul(t1).sum().gradient([t0])[0];
    t3`,
  ],
  [
    "a float16 scalar that is written",
    `
    const t0 = leaf([], "float16", 0);
    t0.assign(2);
    t0`,
  ],
  [
    "a roll of a scalar",
    `
    const t0 = leaf([], "float32", 3);
    const t1 = t0.roll(-3, 0);
    t1`,
  ],
  [
    "bits of one small float as another",
    `
    const t0 = leaf([3], "float16", 0);
    const t1 = t0.bitcast("bfloat16");
    const t2 = leaf([3], "fp8e4m3", 2).bitcast("fp8e5m2");
    const t3 = t0.bitcast("int16");
    const t4 = t3.add(1).bitcast("float16");
    t1, t2, t3, t4`,
  ],
  [
    "a scalar beside axes that are mapped over",
    `
    const t0 = leaf([0, 3], "float32", 0);
    const t1 = Tensor.full([], -0.5);
    const t2 = vmap((a) => a.copysign(t1))(t0);
    t2`,
  ],
];

for (const [name, text] of FOUND) {
  Deno.test(`programs on all devices: ${name}`, async () => {
    const program = parse(text), want = expected(program);
    const { failure, outcomes } = await check(program, want, modesOf(devices));
    assertEquals(failure, undefined);
    const elements = want.reduce((n, w) => n + w.error.length, 0);
    for (const { refused, compared } of outcomes) {
      if (refused !== undefined) assertEquals(refused, "no float64");
      else assert(compared > 0 || elements === 0, "nothing is compared");
    }
  });
}

Deno.test("programs on all devices: random ones agree with the reference", async () => {
  // each row of the table has its turn, on devices that compile slowly one in eleven
  const report = await fuzzPrograms({ seed: 20250601, seconds: 500, count: ROWS.length, devices, slowEvery: 11 });
  assertEquals(report.failures, []);
  // most programs must run, and most values have a bound, or nothing is tested
  for (const [name, { programs, refused, elements, compared }] of Object.entries(report.modes)) {
    const { "no float64": lacking = 0, ...others } = refused, webgpu = name.startsWith("WEBGPU");
    const errors = Object.values(others).reduce((a, b) => a + b, 0);
    assertEquals(
      programs + errors + lacking,
      /^(CLANG|WEBGPU|CUDA)/.test(name) ? Math.ceil(ROWS.length / 11) : ROWS.length,
      name,
    );
    assert(errors <= 2 && lacking <= (webgpu ? 8 : 0), `${name}: ${JSON.stringify(refused)}`);
    assert(compared >= (webgpu ? 0.8 : 0.9) * elements, `${name}: ${compared} of ${elements} elements`);
  }
});

/** Rows of the parity table that no random program has, and why. */
const UNMADE: Readonly<Record<string, string>> = {
  "new Tensor": "every leaf",
  "Tensor.empty": "holds anything",
  "emptyLike": "holds anything",
  "Tensor.invalids": "holds anything",
  "Tensor.full": "a kind of leaf",
  "Tensor.fromBlob": "memory of others",
  "Tensor.fromUrl": "reads",
  "einsum": "a function of `Tensor`",
  "asParam": "a part of custom kernels",
  "Tensor.manualSeed": "every program begins with it",
  "bool": "a cast",
  "alu": "what other ops are made of",
  "ufix": "a constant",
  "imageDot": "later",
  "imageConv2d": "later",
  "decodeHevcFrame": "later",
  "keccak": "later",
  "hash": "later",
  "eq": "one of the comparisons",
  "ne": "one of the comparisons",
};

Deno.test("programs: the table has every op of the sections on tensors", () => {
  const made = new Set(ROWS.map((r) => r.name)), missing: string[] = [], needless: string[] = [];
  for (const { number, rows } of PARITY) {
    if (!/^1\.([12456789]|1[0-3])$/.test(number)) continue;
    for (const [name] of rows) if (!made.has(name) && UNMADE[name] === undefined) missing.push(name);
  }
  for (const name of Object.keys(UNMADE)) if (made.has(name) && name !== "bool") needless.push(name);
  assertEquals({ missing, needless }, { missing: [], needless: [] });
});

Deno.test("programs: every row of the table makes programs, and those with a gradient agree with differences", () => {
  let smooth = 0;
  for (const [i, op] of ROWS.entries()) {
    // some draws have no values that it takes
    const isMade = [13, 14, 15, 16].some((seed) => {
      return new ProgramMaker(new Random(i * 7919 + seed), { op }).make(1).lines.some((l) => l.kind === "op");
    });
    assert(isMade, `no program for ${op.name} (${op.on})`);
    if (!op.smooth) continue;
    for (let seed = 0; seed < 2; seed++) {
      const made = gradientProgram(op, i * 101 + seed);
      if (made === undefined) continue;
      const found = checkDifference(made);
      assertEquals(found.why, undefined, made.lines.map((l) => l.text).join("\n"));
      if (found.smooth) smooth++;
    }
  }
  assert(smooth > 200, `${smooth} gradients have been compared`);
});

const SLOPES: [string, string][] = [
  [
    "logaddexp of what is equal",
    `
    const t0 = leaf([4], "float64", 0);
    const t1 = leaf([4], "float64", 0);
    const t2 = t0.logaddexp(t1).mul(leaf([4], "float64", 5)).sum().gradient([t0])[0];
    t2`,
  ],
];

for (const [name, text] of SLOPES) {
  Deno.test(`gradients: ${name}`, () => assertEquals(checkDifference(parse(text)), { smooth: true }));
}

Deno.test("gradients: of a jump, which looks alike to both sides, nothing is claimed", () => {
  const program = parse(`
    const t0 = leaf([8, 3, 17, 4], "float64", 53);
    const t1 = t0.div(3, { roundingMode: "trunc" }).mul(2.25).sum().gradient([t0])[0];
    t1`);
  assertEquals(checkDifference(program), { smooth: false });
});

Deno.test("gradients: a wrong one is found", () => {
  const program = parse(`
    const t0 = leaf([5], "float64", 3);
    const t1 = t0.call([], (a) => a.square(), { gradFxn: (g, a) => [g.mul(a)] });
    const t2 = t1.mul(leaf([5], "float64", 7)).sum().gradient([t0])[0];
    t2`);
  assertMatch(checkDifference(program).why!, /along the direction the gradient is -?[\d.]+, and the difference/);
});

Deno.test("programs: a seed makes the same programs", () => {
  const text = (at: number) => programOf(5, at).lines.map((l) => l.text).join("\n");
  for (let i = 0; i < 5; i++) assertEquals(text(i), text(i));
});

Deno.test("programs: a failure is shrunk to a script", async () => {
  const program = parse(`
    const t0 = leaf([4, 5], "float32", 3);
    const t1 = t0.permute([1, 0]).mul(2);
    const t2 = leaf([3], "int32", 1);
    const t3 = t2.cumsum(0);
    const t4 = t1.sum(0);
    t3, t4`);
  // a device that does not exist fails every program alike
  const mode = { device: "NOWHERE", noopt: true };
  const { failure } = await check(program, expected(program), [mode]);
  assertMatch(failure!.why, /NOWHERE/);
  const [small] = await shrink(program, failure!, 10);
  assertEquals([small.lines.length, small.outputs.length], [1, 1]);
  assertStringIncludes(script(small, mode), "Tensor.realize([");
});

Deno.test("programs: what one mode refuses and another does not is a failure", async () => {
  const program = parse(`
    const t0 = leaf([3], "float32", 0);
    const t1 = t0.add(t0.device === "WASM" ? late() : 1);
    t1`);
  const scope = globalThis as { late?: () => never };
  scope.late = () => {
    throw new StaleReadError({ writtenAt: "here", readAt: "there" });
  };
  const modes = modesOf(["JS", "WASM"]), { failure, outcomes } = await check(program, expected(program), modes);
  delete scope.late;
  assertEquals(outcomes, [{ refused: undefined, compared: 3 }, { refused: undefined, compared: 3 }]);
  assertEquals([failure?.kind, failure?.modes.map((m) => m.device)], ["is refused otherwise", ["JS", "WASM"]]);
  assertEquals(failure?.why, "StaleReadError, and no error on JS with NOOPT=1");
});

Deno.test("tracked: bounds hold what rounding may do, and know what they do not know", () => {
  const x = new Tensor([1, 2, 3], { dtype: "float32", device: "JS" }), third = x.div(3);
  const rows: [string, UOp, boolean[]][] = [
    ["moved values are exact", x.flip([0]).uop, [true, true, true]],
    ["far from a threshold", third.lt(0.9).uop, [true, true, true]],
    ["at a threshold", third.mul(3).lt(x).uop, [false, false, false]],
    ["truncated at an integer", third.mul(3).uop.cast(dtypes.int32), [false, false, false]],
    ["a cast out of range", new Tensor([1.5, -7, 3e9], { device: "JS" }).uop.cast(dtypes.int32), [true, true, false]],
    ["an overflow", x.mul(2e38).uop, [true, false, false]],
    ["selected by what is known", x.lt(2).where(x, third).uop, [true, true, true]],
  ];
  const known = (u: UOp, onlyFinite?: boolean): boolean[] =>
    evaluateTracked([u], undefined, onlyFinite)[0].error.map((e) => e < Infinity);
  for (const [name, u, want] of rows) assertEquals(known(u), want, name);
  // where a device may assume that there are no infinities
  const log = new Tensor([0, 2, 0], { device: "JS" }).log2();
  for (
    const [u, all, finite] of [
      [log.add(1).uop, [true, true, true], [false, true, false]],
      [log.gt(0.5).uop, [true, true, true], [false, true, false]],
      [log.isfinite().where(log, 5).uop, [true, true, true], [false, true, false]],
      [x.lt(3).where(x, log).uop, [true, true, true], [true, true, false]],
      [log.max().uop, [true], [false]],
    ] as [UOp, boolean[], boolean[]][]
  ) {
    assertEquals([known(u), known(u, true)], [all, finite]);
  }
  const [sum] = evaluateTracked([third.sum().uop]);
  assertEquals(compareTracked([2], sum).why, undefined);
  assertMatch(compareTracked([2.001], sum).why!, /element 0 is 2.001, want 2 ± /);
  assertMatch(compareTracked([3], evaluateTracked([constant(2, dtypes.int32)])[0]).why!, /is 3, want 2$/);
});
