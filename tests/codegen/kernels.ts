/** More kernels than the shared fixtures: every construct that codegen must handle, with integer-valued data. */
import { dtypes } from "../../src/dtype/dtype.ts";
import { AxisKind, StageArg } from "../../src/uop/core/args.ts";
import { CarrierArg, getTuple, opCarrier, productCarrier, reduce } from "../../src/uop/core/carrier.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import {
  constant,
  index,
  int,
  load,
  param,
  range,
  sink,
  store,
  type UOp,
  uop,
  variable,
} from "../../src/uop/core/uop.ts";
import { KERNEL_FIXTURES } from "../fixtures/kernels.ts";

const { LOOP, REDUCE } = AxisKind;
const f32 = dtypes.float32, i32 = dtypes.int32;

const loop = (n: number, id: number): UOp => range(n, id, LOOP);
const red = (n: number, id: number): UOp => range(n, id, REDUCE);
const at = (slot: number, size: number, idx: UOp, gate?: UOp, dtype = f32): UOp =>
  load(index(param(slot, dtype, size), idx, gate));
const sum = (x: UOp, ...r: UOp[]): UOp => reduce(opCarrier(Ops.ADD, x.dtype), [x], r);
const max = (x: UOp, ...r: UOp[]): UOp => reduce(opCarrier(Ops.MAX, x.dtype), [x], r);
const write = (slot: number, size: number, idx: UOp, v: UOp, gate?: UOp): UOp =>
  store(index(param(slot, v.dtype, size), idx, gate), v);

/** The index of the largest value, the first of equals: lanes value and index. */
export const ARGMAX: CarrierArg = new CarrierArg(
  "argmax",
  [f32, i32],
  [-Infinity, 2147483647],
  ([av, ai], [bv, bi]) => {
    const left = bv.lt(av).or(bv.eq(av).and(ai.lt(bi)));
    return [left.where(av, bv), left.where(ai, bi)];
  },
);

function conv(pad: number): UOp {
  // out[o, y, x] = sum of in[c, y + i - pad, x + j - pad] * w[o, c, i, j]; in 3x9x9, w 4x3x3x3
  const n = 9 + 2 * pad - 2;
  const o = loop(4, 0), y = loop(n, 1), x = loop(n, 2), c = red(3, 3), i = red(3, 4), j = red(3, 5);
  const row = y.add(i).add(-pad), col = x.add(j).add(-pad);
  const inside = (u: UOp): UOp => u.lt(0).ne(1).and(u.lt(9));
  const gate = pad === 0 ? undefined : inside(row).and(inside(col));
  const a = at(1, 243, c.mul(81).add(row.mul(9)).add(col), gate);
  const w = at(2, 108, o.mul(27).add(c.mul(9)).add(i.mul(3)).add(j));
  return sink([write(0, 4 * n * n, o.mul(n * n).add(y.mul(n)).add(x), sum(a.mul(w), c, i, j).add(at(3, 4, o)))]);
}

function softmaxLike(rows: number, cols: number): UOp {
  // out = x * 2 - max(x) - sum(x - max(x)): two reduces in sequence, then a pass
  const r = loop(rows, 0), k = red(cols, 1), l = red(cols, 2), j = loop(cols, 3);
  const x = (c: UOp): UOp => at(1, rows * cols, r.mul(cols).add(c));
  const m = max(x(k), k), s = sum(x(l).sub(m), l);
  return sink([write(0, rows * cols, r.mul(cols).add(j), x(j).mul(2).sub(m).sub(s))]);
}

/** By name. Slot 0 (and more, where several are written) are outputs. */
export const KERNELS: Readonly<Record<string, UOp>> = {
  ...Object.fromEntries(KERNEL_FIXTURES.filter((f) => f.name !== "add_thread_vector").map((f) => [f.name, f.ast])),
  add_odd: (() => {
    const i = loop(37, 0);
    return sink([write(0, 37, i, at(1, 37, i).add(at(2, 37, i)).mul(3))]);
  })(),
  add_2d: (() => {
    const i = loop(8, 0), j = loop(12, 1), k = i.mul(12).add(j);
    return sink([write(0, 96, k, at(1, 96, k).add(at(2, 12, j)))]);
  })(),
  merged: (() => {
    const i = loop(6, 0), j = loop(4, 1), l = loop(8, 2), k = i.mul(32).add(j.mul(8)).add(l);
    return sink([write(0, 192, k, at(1, 192, k).add(1))]);
  })(),
  transpose: (() => {
    const i = loop(12, 0), j = loop(16, 1);
    return sink([write(0, 192, i.mul(16).add(j), at(1, 192, j.mul(12).add(i)))]);
  })(),
  flip: (() => {
    const i = loop(24, 0);
    return sink([write(0, 24, i, at(1, 24, i.mul(-1).add(23)))]);
  })(),
  broadcast_scalar: (() => {
    const i = loop(24, 0);
    return sink([write(0, 24, i, at(1, 1, int(0)).add(at(2, 24, i)))]);
  })(),
  reshaped: (() => {
    // out[i] = a[i % 4 of 4x6 transposed, i // 4]
    const i = loop(24, 0);
    return sink([write(0, 24, i, at(1, 24, i.floorMod(4).mul(6).add(i.floorDiv(4))))]);
  })(),
  div_mod: (() => {
    const i = loop(30, 0);
    const v = at(1, 30, i, undefined, i32), d = at(2, 30, i, undefined, i32);
    return sink([
      write(
        0,
        30,
        i,
        v.floorDiv(d).mul(100).add(v.floorMod(d)).add(v.floorDiv(3)).add(v.floorMod(-4)).add(v.cdiv(d)).add(v.cmod(5)),
      ),
    ]);
  })(),
  uint_div: (() => {
    const i = loop(30, 0);
    const v = at(1, 30, i, undefined, dtypes.uint32), d = at(2, 30, i, undefined, dtypes.uint32);
    return sink([write(0, 30, i, v.floorDiv(d).add(v.floorMod(7)).add(v.floorDiv(8)))]);
  })(),
  padded: (() => {
    const i = loop(20, 0), j = loop(24, 1);
    const inside = (u: UOp, lo: number, hi: number): UOp => u.lt(lo).ne(1).and(u.lt(hi));
    const gate = inside(i, 2, 18).and(inside(j, 3, 21));
    return sink([write(0, 480, i.mul(24).add(j), at(1, 16 * 18, i.mul(18).add(j).add(-39), gate).add(1))]);
  })(),
  padded_alt: (() => {
    const i = loop(24, 0), gate = i.lt(13);
    const x = load(index(param(1, f32, 13), i, gate), constant(5, f32));
    return sink([write(0, 24, i, x)]);
  })(),
  gated_store: (() => {
    const i = loop(6, 0), j = loop(8, 1), gate = i.add(j).lt(9);
    return sink([write(0, 48, i.mul(8).add(j), at(1, 48, i.mul(8).add(j)).add(1), gate)]);
  })(),
  gather: (() => {
    const i = loop(5, 0), j = loop(8, 1);
    return sink([write(0, 40, i.mul(8).add(j), at(2, 17 * 8, at(1, 5, i, undefined, i32).add(8).mul(8).add(j)))]);
  })(),
  gather_lanes: (() => {
    const i = loop(16, 0);
    return sink([write(0, 16, i, at(2, 17, at(1, 16, i, undefined, i32).add(8)))]);
  })(),
  iota: (() => {
    const i = loop(16, 0);
    return sink([write(0, 16, i, i.cast(f32).mul(2).add(i.lt(5).where(constant(100, f32), constant(0, f32))))]);
  })(),
  in_place: (() => {
    const i = loop(19, 0);
    return sink([write(0, 19, i, at(0, 19, i).add(at(1, 19, i).mul(2)))]);
  })(),
  in_place_16: (() => {
    const i = loop(32, 0);
    return sink([write(0, 32, i, at(0, 32, i).add(at(1, 32, i).mul(2)))]);
  })(),
  sum_all: (() => {
    const k = red(130, 0);
    return sink([write(0, 1, int(0), sum(at(1, 130, k), k))]);
  })(),
  sum_two_axes: (() => {
    const i = loop(6, 0), k = red(4, 1), l = red(16, 2);
    return sink([write(0, 6, i, sum(at(1, 384, i.mul(64).add(k.mul(16)).add(l)), k, l))]);
  })(),
  sum_columns: (() => {
    const j = loop(20, 0), k = red(9, 1);
    return sink([write(0, 20, j, sum(at(1, 180, k.mul(20).add(j)), k))]);
  })(),
  sum_of_constant: (() => {
    const i = loop(8, 0), k = red(16, 1);
    return sink([write(0, 8, i, sum(at(1, 8, i), k))]);
  })(),
  mean_max: (() => {
    // two reduces over one range: max and sum in one loop
    const i = loop(7, 0), k = red(24, 1), x = at(2, 168, i.mul(24).add(k));
    return sink([write(0, 7, i, sum(x, k)), write(1, 7, i, max(x, k))]);
  })(),
  tuple: (() => {
    const i = loop(7, 0), k = red(24, 1), x = at(2, 168, i.mul(24).add(k));
    const r = reduce(productCarrier([opCarrier(Ops.MAX, f32), opCarrier(Ops.ADD, f32)]), [x, x.mul(x)], [k]);
    return sink([write(0, 7, i, getTuple(r, 0)), write(1, 7, i, getTuple(r, 1))]);
  })(),
  argmax: (() => {
    const i = loop(7, 0), k = red(24, 1), x = at(1, 168, i.mul(24).add(k));
    return sink([write(0, 7, i, getTuple(reduce(ARGMAX, [x, k], [k]), 1))]);
  })(),
  var: (() => {
    // sequential reduces that share their range
    const i = loop(5, 0), k = red(16, 1), x = at(1, 80, i.mul(16).add(k));
    const d = x.sub(sum(x, k));
    return sink([write(0, 5, i, sum(d.mul(d), k))]);
  })(),
  softmax_like: softmaxLike(5, 24),
  whole_softmax_like: softmaxLike(1, 37),
  nested: (() => {
    // sum over k of max over l
    const i = loop(5, 0), k = red(6, 1), l = red(8, 2);
    return sink([write(0, 5, i, sum(max(at(1, 240, i.mul(48).add(k.mul(8)).add(l)), l), k))]);
  })(),
  shared_range: (() => {
    // two reduces over one range in different loops
    const i = loop(4, 0), j = loop(8, 1), k = red(6, 2);
    const a = sum(at(1, 24, i.mul(6).add(k)), k), b = sum(at(2, 48, k.mul(8).add(j)), k);
    return sink([write(0, 32, i.mul(8).add(j), a.add(b))]);
  })(),
  multi_output: (() => {
    const i = loop(16, 0), x = at(2, 16, i);
    return sink([write(0, 16, i, x.add(1)), write(1, 16, i, x.mul(2))]);
  })(),
  outputs_of_different_loops: (() => {
    const i = loop(6, 0), j = loop(8, 1), m = loop(10, 2);
    const x = at(3, 48, i.mul(8).add(j));
    return sink([
      write(0, 48, i.mul(8).add(j), x.add(1)),
      write(1, 6, i, sum(at(3, 48, i.mul(8).add(red(8, 4))), red(8, 4))),
      write(2, 10, m, at(4, 10, m).mul(3)),
    ]);
  })(),
  clashing_loops: (() => {
    const i = loop(4, 0), j = loop(8, 1);
    return sink([write(0, 32, i.mul(8).add(j), at(2, 32, i.mul(8).add(j))), write(1, 8, j, at(3, 8, j).add(1))]);
  })(),
  matmul_odd: (() => {
    const i = loop(13, 0), j = loop(21, 1), k = red(10, 2);
    return sink([
      write(
        0,
        273,
        i.mul(21).add(j),
        sum(at(1, 130, i.mul(10).add(k)).mul(at(2, 210, k.mul(21).add(j))), k).max(constant(0, f32)),
      ),
    ]);
  })(),
  matmul_transposed: (() => {
    const i = loop(12, 0), j = loop(16, 1), k = red(32, 2);
    return sink([
      write(
        0,
        192,
        i.mul(16).add(j),
        sum(at(1, 384, i.mul(32).add(k)).mul(at(2, 512, j.mul(32).add(k))), k).add(at(3, 16, j)),
      ),
    ]);
  })(),
  batched: (() => {
    const b = loop(3, 0), i = loop(8, 1), j = loop(8, 2), k = red(8, 3);
    return sink([
      write(
        0,
        192,
        b.mul(64).add(i.mul(8)).add(j),
        sum(at(1, 192, b.mul(64).add(i.mul(8)).add(k)).mul(at(2, 192, b.mul(64).add(k.mul(8)).add(j))), k),
      ),
    ]);
  })(),
  edges: (() => {
    // one vector of an axis that ends before the output does, under two conditions
    const i = loop(6, 0), j = loop(6, 1), inside = j.lt(4), row = (when: UOp): UOp => at(1, 4, j, when.and(inside));
    return sink([write(0, 36, i.mul(6).add(j), row(i.lt(2)).mul(2).add(row(i.lt(4).ne(1)).mul(3)).add(1))]);
  })(),
  conv: conv(0),
  conv_padded: conv(1),
  staged: (() => {
    // a matmul whose B is kept in kernel memory, a column panel of 4 at a time
    const i = loop(6, 0), jo = loop(4, 1), ji = loop(4, 2), k = red(8, 3);
    const p = loop(8, 10), q = loop(4, 11);
    const stage = uop(Ops.STAGE, f32, [at(2, 128, p.mul(16).add(jo.mul(4)).add(q)), p, q], new StageArg(0, "thread"));
    const b = load(index(stage, k.mul(4).add(ji)));
    return sink([write(0, 96, i.mul(16).add(jo.mul(4)).add(ji), sum(at(1, 48, i.mul(8).add(k)).mul(b), k))]);
  })(),
  staged_rows: (() => {
    // two matmuls, one on rows of the other: 4 rows at a time are kept
    const t = loop(6, 0), i = loop(4, 1), j = loop(8, 2), k = red(8, 3);
    const row = loop(4, 10), q = loop(8, 11), d = red(2, 12);
    const first = sum(at(1, 48, t.mul(4).add(row).mul(2).add(d)).mul(at(2, 16, q.mul(2).add(d))), d);
    const stage = uop(Ops.STAGE, f32, [first, row, q], new StageArg(0, "thread"));
    const second = sum(load(index(stage, i.mul(8).add(k))).mul(at(3, 64, j.mul(8).add(k))), k);
    return sink([write(0, 192, t.mul(4).add(i).mul(8).add(j), second)]);
  })(),
  half: (() => {
    const i = loop(24, 0), h = dtypes.float16;
    const a = at(1, 24, i, undefined, h), b = at(2, 24, i, undefined, h);
    return sink([write(0, 24, i, a.mul(b).add(a.lt(b).where(constant(0.1, h), b)).max(a))]);
  })(),
  half_dot: (() => {
    const i = loop(6, 0), k = red(16, 1), h = dtypes.float16;
    const x = at(1, 96, i.mul(16).add(k), undefined, h).cast(f32).mul(at(2, 16, k, undefined, h).cast(f32));
    return sink([write(0, 6, i, sum(x, k).cast(h))]);
  })(),
  bfloat: (() => {
    const i = loop(24, 0), h = dtypes.bfloat16;
    const a = at(1, 24, i, undefined, h);
    return sink([write(0, 24, i, a.mul(a).add(a).fdiv(constant(3, h)))]);
  })(),
  bytes: (() => {
    const i = loop(32, 0);
    return sink([write(0, 32, i, at(1, 32, i, undefined, dtypes.uint8).cast(f32).mul(0.5).add(1))]);
  })(),
  symbolic: (() => {
    const n = variable("n", 1, 16);
    const i = range(n, 0, LOOP), k = red(8, 1);
    return sink([write(0, 16, i, sum(at(1, 128, i.mul(8).add(k)), k).add(n.cast(f32)))]);
  })(),
};
