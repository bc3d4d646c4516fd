/**
 * Speed of the rewrite engine alone: nodes interned, rules tried, rewrites made, per second; and nodes rewritten per
 * second (offered to a table, which replaces them or not) where every table runs again over what it was given when
 * ResNet-50 was compiled. `deno bench -A` shows medians; `deno run -A bench/rewrite_bench.ts --json` prints one JSON line.
 */
import { dtypes } from "../src/dtype/dtype.ts";
import { lateRules, pmDivision } from "../src/codegen/late/decomp/missing_ops.ts";
import { pmFold } from "../src/schedule/fuse/fold_tensors.ts";
import { AxisKind } from "../src/uop/core/args.ts";
import { context } from "../src/helpers/env.ts";
import { matchStats, PatternMatcher, resetMatchStats, rule } from "../src/uop/rewrite/matcher.ts";
import { record } from "../src/uop/rewrite/record.ts";
import { graphRewrite } from "../src/uop/rewrite/rewrite.ts";
import { simplify, symbolic } from "../src/uop/algebra/symbolic.ts";
import { UPat } from "../src/uop/rewrite/upat.ts";
import { constant, int, range, rotateInternTable, toposort, type UOp, variable } from "../src/uop/core/uop.ts";
import { symbolicValid } from "../src/uop/algebra/valid.ts";
import { Device } from "../mod.ts";
import { GRAPHS, onePass } from "./compile_bench.ts";

const N = 4000;
let salt = 0;

/** A chain of N nodes, of new ones each time. */
function chain(): UOp {
  salt++;
  let u: UOp = variable(`v${salt}`, 0, 9);
  for (let i = 0; i < N / 2; i++) u = u.mul(i & 15).alu(45, int(i & 7));
  return u;
}

/** N nodes that no rule of `symbolic` changes. */
function stable(): UOp {
  salt++;
  const w = variable("w", 0, 9, dtypes.float32);
  let u: UOp = variable(`s${salt}`, 0, 9, dtypes.float32);
  for (let i = 0; i < N / 2; i++) u = u.mul(w).add(w);
  return u;
}

/** Rules that a pass over {@linkcode stable} tries: those whose root op fits, before early reject. */
function triesOfStable(): number {
  resetMatchStats();
  context({ TRACK_MATCH_STATS: 1 }, () => graphRewrite(stable(), symbolic));
  const tries = matchStats().reduce((sum, s) => sum + s.tries, 0);
  resetMatchStats();
  return tries;
}

/** N distinct sums of zero, no rule but one. */
function zeros(): UOp {
  salt++;
  let u: UOp = variable(`z${salt}`, 0, 9, dtypes.float32);
  const zero = constant(0, dtypes.float32);
  for (let i = 0; i < N; i++) u = u.add(zero).exp2();
  return u;
}

const x = UPat.var("x");
const pmZero = new PatternMatcher("zero", [rule(x.add(0), ({ x }) => x)]);

/** Index expressions as a convolution's: 64 of them, about 40 nodes each. */
function indices(): UOp[] {
  salt++;
  const out: UOp[] = [];
  for (let s = 0; s < 64; s++) {
    const [n, c, h, w] = [8, 16, 28 + s, 28].map((e, i) => range(e, salt * 8 + i, AxisKind.LOOP));
    const flat = n.mul(16).add(c).mul(28 + s).add(h).mul(28).add(w);
    const y = flat.floorDiv(28).floorMod(28 + s).add(-1), z = flat.floorMod(28).add(-1);
    out.push(flat.floorDiv(28 * (28 + s)).floorMod(16).mul(900).add(y.mul(30)).add(z).floorMod(900));
  }
  return out;
}

/** What each table was given while ResNet-50 was compiled. */
function resnet50(): (readonly [PatternMatcher, UOp])[] {
  Device.default = "NULL";
  const { passes } = record(() => onePass(GRAPHS.resnet50(), true));
  const late = lateRules(Device.get("NULL").renderer.caps);
  const tables = new Map([
    [pmFold.name, pmFold],
    // without the marks of what is settled: the same graphs are rewritten again and again
    [symbolic.name, new PatternMatcher(symbolic.name, symbolic.rules)],
    ["simplify", new PatternMatcher("simplify", symbolicValid.rules)],
    [pmDivision.name, pmDivision],
    [late.name, late],
  ]);
  return passes.flatMap(({ name, before }) => tables.has(name) ? [[tables.get(name)!, before] as const] : []);
}

const compiled = resnet50();

interface Row {
  readonly name: string;
  readonly count: number;
  readonly prepare: () => UOp[];
  readonly run: (input: UOp[]) => void;
}

const ROWS: Row[] = [
  { name: "nodes interned", count: N, prepare: () => [], run: () => void chain() },
  {
    name: "rules tried",
    count: triesOfStable(),
    prepare: () => [stable()],
    run: ([u]) => void graphRewrite(u, symbolic),
  },
  { name: "rewrites", count: N, prepare: () => [zeros()], run: ([u]) => void graphRewrite(u, pmZero) },
  {
    name: "resnet50: nodes rewritten",
    count: compiled.reduce((n, [, u]) => n + toposort(u).length, 0),
    prepare: () => [],
    run: () => compiled.forEach(([pm, u]) => void graphRewrite(u, pm)),
  },
  { name: "index expressions", count: 64, prepare: indices, run: (us) => us.forEach((u) => void simplify(u)) },
];

function measure(row: Row, rounds: number): number {
  const times: number[] = [];
  for (let i = 0; i < rounds; i++) {
    const input = row.prepare();
    const start = performance.now();
    row.run(input);
    times.push(performance.now() - start);
    rotateInternTable();
  }
  return times.sort((a, b) => a - b)[rounds >> 1];
}

if (import.meta.main) {
  const result: Record<string, number> = { nodes: toposort(indices()).length };
  for (const row of ROWS) result[`${row.name} per second`] = Math.round(row.count / measure(row, 60) * 1000);
  if (Deno.args.includes("--json")) console.log(JSON.stringify(result));
  else for (const [name, value] of Object.entries(result)) console.log(`${name.padEnd(32)} ${value}`);
} else {
  for (const row of ROWS) {
    Deno.bench({
      name: `${row.name} x${row.count}`,
      group: row.name,
      fn: (b) => {
        const input = row.prepare();
        b.start();
        row.run(input);
        b.end();
      },
    });
  }
}
