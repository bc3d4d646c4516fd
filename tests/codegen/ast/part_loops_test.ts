/** Loops that are cut where conditions change: what is left in each part, that values stay, and what stays whole. */
import { deepStrictEqual as assertEquals, ok, strictEqual } from "node:assert/strict";
import { GlobalCounters, Tensor, Variable } from "../../../mod.ts";
import { partLoops } from "../../../src/codegen/ast/part_loops.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { argOf, AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { rangesOf, sizeOf } from "../../../src/uop/core/ranges.ts";
import {
  constant,
  index,
  load,
  mayHave,
  param,
  range,
  sink,
  store,
  type UOp,
  variable,
} from "../../../src/uop/core/uop.ts";
import { kindOf } from "../../../src/codegen/ast/range_facts.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { Random } from "../../support/random.ts";
import { CAPS, compile, integers, opts, paramsOf, run, sameUnder } from "../harness.ts";

const DEVICES = await devicesHere("JS");
const ROWS = 12, COLUMNS = 64, SIZE = ROWS * COLUMNS;
const i = range(ROWS, 0, AxisKind.LOOP), j = range(COLUMNS, 1, AxisKind.LOOP);
const place = i.mul(COLUMNS).add(j), zero = constant(0, dtypes.float32);

/** Reads slot `slot` at a place, under a condition. */
function read(slot: number, at: UOp, gate?: UOp, size = SIZE): UOp {
  return load(index(param(slot, dtypes.float32, size), at, gate));
}
function written(value: UOp, slot = 0): UOp {
  return store(index(param(slot, dtypes.float32, SIZE), place), value);
}
const not = (c: UOp): UOp => c.alu(Ops.CMPNE, constant(1, dtypes.bool));

/** Columns `[0, at)` and the rest of a row, of different memory. */
function joined(at: number, loop: UOp = j): UOp {
  const c = loop.lt(at);
  return c.where(read(1, place, c), read(2, place.add(-at), not(c)));
}
/** A row that begins three columns later, in a matrix that begins five rows later. */
function rolled(): UOp {
  const at = (row: number, column: number, a: UOp, b: UOp): UOp =>
    read(1, place.add(row * COLUMNS + column), a.alu(Ops.AND, b));
  const top = i.lt(5), left = j.lt(3);
  return left.where(
    top.where(at(7, 61, left, top), at(-5, 61, left, not(top))),
    top.where(at(7, -3, not(left), top), at(-5, -3, not(left), not(top))),
  );
}

const k = range(3, 2, AxisKind.REDUCE),
  total = (lift: UOp): UOp => reduce(opCarrier(Ops.ADD, dtypes.float32), [lift], [k]);
/** A row of a window of three, which is 0 above and below. */
function window(): UOp {
  const row = i.add(k), inside = not(row.lt(1)).alu(Ops.AND, row.lt(ROWS + 1));
  return read(1, place.add(k.mul(COLUMNS)).add(-COLUMNS), inside);
}

/** The kernel, how many STOREs it becomes, and whether conditions are left. */
const KERNELS: Record<string, [value: UOp, parts: number, isSelected: boolean]> = {
  "two beside each other": [joined(16), 2, false],
  "two above each other": [joined(5, i), 2, false],
  "three, of which one is a constant": [j.lt(8).where(zero, joined(16)), 3, false],
  "rolled along both axes": [rolled(), 4, false],
  "a condition on both axes": [j.lt(i).where(read(1, place), zero), 1, true],
  "a sum of what is joined": [total(joined(5, i).mul(read(3, k, undefined, 3))), 2, false],
  "a sum of joined rows, less what is joined": [
    total(joined(5, i).mul(read(3, k, undefined, 3))).add(joined(16)),
    4,
    false,
  ],
  "windows over edges": [total(window()), 3, false],
  "a sum that none of the parts has for itself": [total(read(1, i.mul(3).add(k))).add(joined(16)), 2, false],
  "nothing to spare": [read(1, place).lt(0).where(zero, read(2, j.mul(ROWS).add(i))), 1, true],
};

for (const [name, [value, parts, isSelected]] of Object.entries(KERNELS)) {
  Deno.test(`part loops: ${name}`, () => {
    const ast = sink([written(value)]), made = partLoops(ast), data = integers(paramsOf(ast));
    strictEqual(made.src.length, parts);
    strictEqual(mayHave(made, Ops.WHERE), isSelected);
    strictEqual(made === ast, parts === 1);
    const want = run(ast, data, []);
    for (const caps of Object.values(CAPS)) assertEquals(run(ast, data, undefined, caps), want);
    const plain = ["VECTOR:1:16", "VECTOR:1:4 UPCAST:1:2", "UPCAST:0:3 VECTOR:1:16", "VECTOR:0:4"];
    for (const o of [...plain, ...["THREAD:0:2", "THREAD:0:0", "VECTOR:1:16 THREAD:0:0", "UPCAST:1:2 THREAD:1:0"]]) {
      sameUnder(ast, o, CAPS.large);
    }
  });
}

Deno.test("part loops: lanes and copies of which some are on either side stay one part", () => {
  const lane = range(16, 2, AxisKind.VECTOR), outer = range(4, 1, AxisKind.LOOP), column = outer.mul(16).add(lane);
  const at = i.mul(COLUMNS).add(column), c = column.lt(20);
  const value = c.where(read(1, at, c), read(2, at.add(-20), not(c)));
  const made = partLoops(sink([store(index(param(0, dtypes.float32, SIZE), at), value)]));
  assertEquals(made.src.map((s) => mayHave(s, Ops.WHERE)), [false, true, false]);
});

Deno.test("part loops: stores that share loops are cut together", () => {
  const made = partLoops(sink([written(joined(16)), written(joined(16).mul(2), 3)]));
  assertEquals(made.src.map((s) => s.src[0].src[0].arg), [0, 3, 0, 3].map((n) => param(n, dtypes.float32, SIZE).arg));
  ok(!mayHave(made, Ops.WHERE));
});

Deno.test("part loops: what works in place, or would become too much stays whole", () => {
  const inPlace = j.lt(8).where(read(0, place), joined(16));
  const many = Array.from({ length: 63 }, (_, n) => n + 1).reduce(
    (value, n) => j.lt(n).where(value, read(1, place.add(n), undefined, 2 * SIZE)),
    read(2, place),
  );
  const both = i.lt(3).where(many, zero).add(i.lt(7).where(zero, read(5, place)));
  for (const value of [inPlace, both]) {
    const ast = sink([written(value)]);
    strictEqual(partLoops(ast), ast);
  }
});

Deno.test("part loops: parts of what threads share, each from its own iteration on", () => {
  const t = range(ROWS, 0, AxisKind.THREAD), at = t.mul(COLUMNS).add(j);
  const either = (row: number): UOp => {
    const top = t.lt(row);
    return top.where(read(1, at, top), read(2, at.add(-row * COLUMNS), not(top)));
  };
  const parts = (value: UOp): UOp => partLoops(sink([store(index(param(0, dtypes.float32, SIZE), at), value)]));
  const threads = (made: UOp): [number, number][] =>
    made.src.map((s) => {
      const r = rangesOf(s).find((x) => argOf(x, Ops.RANGE).kind === AxisKind.THREAD)!;
      return [argOf(r, Ops.RANGE).first, sizeOf(r)];
    });
  const two = parts(either(5));
  assertEquals(threads(two), [[0, 5], [5, 7]]);
  ok(!mayHave(two, Ops.WHERE));
  const three = parts(t.lt(8).where(either(5), zero));
  assertEquals(threads(three).toSorted((a, b) => a[0] - b[0]), [[0, 5], [5, 3], [8, 4]]);
  // a part of one iteration would be no loop: each thread would do it
  for (const row of [1, ROWS - 1]) strictEqual(parts(either(row)).src.length, 1);
  strictEqual(compile(sink([written(joined(5, i))]), opts("THREAD:0:0"), CAPS.large).threads, ROWS);
});

Deno.test("parts: a loop inside that ends at a variable keeps its end", async () => {
  const n = new Variable("n", 1, 31);
  for (const device of DEVICES) {
    const x = Tensor.arange(12 * 31, { device }).reshape([12, 31]).float().realize();
    const rows = Tensor.arange(11, { device }).float().mul(1000).realize();
    const f = (end: Tensor | number): Tensor =>
      x.pad([[0, 0], [1, 0]]).at(":", [0, end]).add(rows.pad([[1, 0]]).unsqueeze(1)).contiguous();
    assertEquals(await f(n.bind(7)).data(), await f(7).data(), device);
  }
});

Deno.test("part loops: a loop that ends at a variable is cut at one, where both parts run", () => {
  const joinedAt = (end: UOp, v: UOp): UOp => {
    const row = range(end, 0, AxisKind.LOOP), at = row.mul(COLUMNS).add(j), c = row.lt(v);
    const sum = total(read(2, k.mul(COLUMNS).add(j), not(c)));
    const value = c.where(read(1, at, c, 31 * COLUMNS), sum);
    return sink([store(index(param(0, dtypes.float32, 31 * COLUMNS), at), value)]);
  };
  const v = variable("v", 1, 20), made = partLoops(joinedAt(v.add(1), v));
  strictEqual(made.src.length, 2);
  strictEqual(mayHave(made, Ops.WHERE), false);
  strictEqualEnds(made, [v, undefined]);
  // a part that may have no iterations, or lie outside of the loop
  const none = variable("n", 0, 20), rest = [partLoops(joinedAt(none.add(1), none)), partLoops(joinedAt(v, v))];
  for (const whole of [...rest, partLoops(joinedAt(v.add(1), variable("w", 1, 30)))]) strictEqual(whole.src.length, 1);
});

/** The ends of the loop of rows in each STORE; undefined where it is left out. */
function strictEqualEnds(made: UOp, ends: readonly (UOp | undefined)[]): void {
  const found = made.src.map((s) =>
    rangesOf(s).find((r) => kindOf(r) === AxisKind.LOOP && sizeOf(r) !== COLUMNS)?.src[0]
  );
  ok(found.every((end, n) => end === ends[n]), `${found}`);
}

Deno.test("part loops: what is joined at variables is what its parts are", async () => {
  const random = new Random(77), most = 9, columns = 24;
  for (const device of DEVICES) {
    const n = new Variable("n", 0, most);
    const big = Tensor.arange(most * columns, { device }).reshape([most, columns]).realize();
    const weight = Tensor.arange(columns * columns, { device }).mod(7).reshape([columns, columns]).realize();
    for (let trial = 0; trial < 5; trial++) {
      const kinds = Array.from(
        { length: random.int(2, 4) },
        () => random.pick(["slice", "rest", "last", "product", "sum"]),
      );
      const pieces = (end: Tensor | number): Tensor[] =>
        kinds.map((kind, i) => {
          if (kind === "slice") return big.at([0, end]).add(i);
          if (kind === "rest") return big.at([0, end]).flip(0).mul(2);
          if (kind === "last") return big.at([0, end]).cat([big.at([most - 1, most])], 0).flip(0).at([0, 1]);
          const rows = big.at([i, i + 1 + i % 2]);
          return kind === "product" ? rows.matmul(weight) : rows.matmul(weight).sum(0, { keepdim: true }).sub(i);
        });
      for (const end of [0, 1, 4, most]) {
        const got = await Tensor.cat(pieces(n.bind(end)), 0).contiguous().tolist();
        const want = (await Promise.all(pieces(end).map((t) => t.tolist() as Promise<number[][]>))).flat();
        assertEquals(got, want, `${device}: ${kinds}, n = ${end}`);
      }
    }
  }
});

Deno.test("part loops: a product of one row that is joined to many, or padded, is computed once", async () => {
  for (const device of DEVICES) {
    const n = 48, x = Tensor.arange(n, { device }).reshape([1, n]).realize();
    const w = Tensor.arange(n * n, { device }).mod(5).reshape([n, n]).realize();
    const past = Tensor.arange(100 * n, { device }).reshape([100, n]).realize(), row = await x.matmul(w).tolist();
    const end = new Variable("end", 1, 100);
    const forms: readonly (readonly [Tensor, number])[] = [
      [past.cat([x.matmul(w)], 0), 100],
      [past.at([0, end.bind(70)]).cat([x.matmul(w)], 0), 70],
      [x.matmul(w).pad([[100, 0], [0, 0]]).add(0), 100],
    ];
    for (const [joined, at] of forms) {
      GlobalCounters.reset();
      await joined.realize();
      ok(GlobalCounters.globalOps < 4 * n * n + 100 * n * 2, `${device}: ${GlobalCounters.globalOps} operations`);
      assertEquals((await joined.tolist() as number[][])[at], (row as number[][])[0], device);
    }
  }
});
