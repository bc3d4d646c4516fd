/** The parts of bench/regret.ts: statistics, the summary, and a few kernels on JS and WASM. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  checkedOf,
  checkProgram,
  familiesOf,
  measureProgram,
  percentile,
  rankCorrelation,
  type RegretProblem,
  type RegretRow,
  SmallDraw,
  summaryOf,
} from "../../bench/regret.ts";
import { Draw } from "../fuzz/kernels.ts";

Deno.test("regret: rank correlation and percentiles", () => {
  assertEquals(rankCorrelation([1, 2, 3, 4], [10, 20, 25, 90]), 1);
  assertEquals(rankCorrelation([1, 2, 3, 4], [4, 3, 2, 1]), -1);
  assertEquals(rankCorrelation([1, 1, 2, 2], [5, 5, 6, 6]), 1);
  assert(Number.isNaN(rankCorrelation([1, 1, 1], [1, 2, 3])));
  const values = Array.from({ length: 100 }, (_, i) => 100 - i);
  assertEquals([percentile(values, 0.95), percentile(values, 0.5), percentile([7], 0.95)], [95, 50, 7]);
});

Deno.test("regret: a family that there is not is told with those that there are", () => {
  assertThrows(
    () => familiesOf("reduction,conv"),
    RangeError,
    "Cannot measure conv: the families are elementwise, view,",
  );
  assertEquals(familiesOf("view,convolution"), ["view", "convolution"]);
});

Deno.test("regret: the summary has a line a family, and the worst first", () => {
  const row = (family: string, regret: number): RegretRow => ({
    family,
    program: `${family} of ${regret}`,
    kernel: "E_4",
    regret,
    us: 50,
    candidates: 9,
    opts: "a",
    best: "b",
  });
  const text = summaryOf([row("scan", 1.5), row("scan", 1), row("pool", 3)]);
  assertEquals(text[1].split(/\s+/).slice(0, 5), ["scan", "2", "1.25", "1.50", "1.50"]);
  assertEquals(text[3].split(/\s+/).slice(0, 5), ["all", "3", "1.50", "3.00", "3.00"]);
  assert(text[6].startsWith("3.00  50 us  pool: pool of 3"), text[6]);
});

for (const device of ["JS", "WASM"]) {
  Deno.test(`regret: random kernels on ${device} are measured, and no candidate is wrong`, () => {
    const problems: RegretProblem[] = [], known = new Set<string>(), rows: RegretRow[] = [];
    const sink = {
      onFirst: () => {},
      onProblem: (p: RegretProblem) => void problems.push(p),
      isKnown: (key: string) => known.has(key) || (known.add(key), false),
      crashed: new Set<string>(),
    };
    for (const [i, family] of ["elementwise", "reduction", "softmax", "scan"].entries()) {
      rows.push(...measureProgram(device, family, new Draw(40 + i, 400), 5, sink, 0));
    }
    assertEquals(problems, []);
    assert(rows.length >= 4, `${rows.length} rows`);
    for (const r of rows) assert(r.regret >= 1 && r.us > 0 && r.candidates > 0, JSON.stringify(r));
  });
}

for (
  const [device, families] of [
    ["JS", ["norm", "pool", "scatter"]],
    ["WASM", ["norm", "pool", "convolution", "attention"]], // the last ones store 16 bits, which it moves as whole numbers
  ] as const
) {
  Deno.test(`regret: small kernels on ${device} give under what is chosen, and under candidates, what they give without`, () => {
    const problems: RegretProblem[] = [], run: string[] = [], checks = [];
    const sink = {
      onFirst: (kernel: string) => void run.push(kernel),
      onProblem: (p: RegretProblem) => void problems.push(p),
      isKnown: () => false,
      crashed: new Set<string>(),
    };
    for (const [i, family] of families.entries()) {
      checks.push(checkProgram(device, family, new SmallDraw(60 + i), 4, sink));
    }
    assertEquals(problems, []);
    const [kernels, candidates] = checkedOf(checks).at(-1)!.split(/\s+/).slice(1).map(Number);
    assert(kernels >= 3 && candidates >= 2 * kernels, `${kernels} kernels, ${candidates} candidates`);
    assertEquals(run.length, kernels + candidates);
  });
}
