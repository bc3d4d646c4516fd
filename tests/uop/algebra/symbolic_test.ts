/** One line a rule: input, what it becomes. Every expected form is also stable. Ends with a short run of the fuzzer. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind, StageArg, Storage } from "../../../src/uop/core/args.ts";
import { getTuple, opCarrier, productCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { permute, reshape } from "../../../src/uop/core/build_movement.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { exprText } from "../../../src/uop/core/print.ts";
import { shapeOf } from "../../../src/uop/core/shape.ts";
import { simplify } from "../../../src/uop/algebra/symbolic.ts";
import {
  bufferNode,
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
} from "../../../src/uop/core/uop.ts";
import { fuzz } from "../../fuzz/simplify.ts";

const { bool, int8, int16, int32, uint32, int64, float32 } = dtypes;
const a = variable("a", -100, 100), b = variable("b", -100, 100), n = variable("n", 1, 50);
const w = load(index(param(9, int32, 1), int(0))), w2 = load(index(param(8, int32, 1), int(0))); // any int32
const f = variable("f", 0, 0, float32), g = variable("g", 0, 0, float32);
const p = variable("p", 0, 1, bool), q = variable("q", 0, 1, bool);
const i = range(8, 0, AxisKind.LOOP), j = range(4, 1, AxisKind.LOOP), k = range(3, 2, AxisKind.REDUCE);
const r1 = range(1, 3, AxisKind.LOOP), none = variable("none", 0, 50);
const open = (end: UOp): UOp => range(end, 4, AxisKind.LOOP);
const T = constant(1, bool), F = constant(0, bool);
const c = (v: number, d: DType): UOp => constant(v, d);
const fc = (v: number): UOp => constant(v, float32);
const not = (u: UOp): UOp => u.ne(1);
const v4 = int32.vec(4), x4 = variable("x4", -5, 5, v4);
const out = param(0, float32, 64), inp = param(1, float32, 64);
const wide = (u: UOp): UOp => u.cast(int64);

const CASES: [string, UOp, UOp][] = [
  // identities
  ["x+0", a.add(0), a],
  ["0+x", int(0).add(a), a],
  ["x*1", a.mul(1), a],
  ["x*0", a.mul(0), int(0)],
  ["x//1", a.floorDiv(1), a],
  ["x%1", a.floorMod(1), int(0)],
  ["x//-1", a.floorDiv(-1), a.mul(-1)],
  ["x//x", n.floorDiv(n), int(1)],
  ["x%x", n.floorMod(n), int(0)],
  ["x|0", a.or(0), a],
  ["x&0", a.and(0), int(0)],
  ["x&-1", a.and(-1), a],
  ["x|-1", a.or(-1), int(-1)],
  ["x^0", a.xor(0), a],
  ["x^x", a.xor(a), int(0)],
  ["(x^y)^y", a.xor(b).xor(b), a],
  ["x&x", a.and(a), a],
  ["(x&y)&y", a.and(b).and(b), a.and(b)],
  ["x<<0", a.shl(0), a],
  ["x>>1>>2", a.shr(1).shr(2), a.shr(3)],
  ["(x&~7)>>3", a.and(-8).shr(3), a.shr(3)],
  ["(x&~7)//8", a.and(-8).floorDiv(8), a.floorDiv(8)],
  ["max(x,x)", a.max(a), a],
  ["max by bounds", n.max(-3), n],
  ["max of disjoint", i.add(20).max(j), i.add(20)],
  ["trunc of int", a.trunc(), a],
  ["(x*y)//y", i.mul(n).floorDiv(n), i],
  // constants
  ["fold", int(3).add(4).mul(5), int(35)],
  ["fold wraps", int(2147483647).add(1), int(-2147483648)],
  ["no fold of 1//0", int(1).floorDiv(0), int(1).floorDiv(0)],
  ["fold vector", constant(2, v4).add(3), constant(5, v4)],
  ["vector identity", x4.add(0), x4],
  ["vector x*0", x4.mul(0), constant(0, v4)],
  ["chain", a.add(3).add(4), a.add(7)],
  ["chain of products", a.mul(3).mul(4), a.mul(12)],
  ["chain of masks", a.and(7).and(3), a.and(3)],
  ["chain of maxima", a.max(1).max(5), a.max(5)],
  ["constant to the right", int(3).add(a), a.add(3)],
  ["constant past a term", a.add(3).add(b), a.add(b).add(3)],
  ["wraps as the dtype does", w.add(2147483647).add(1), w.add(-2147483648)],
  ["unsigned difference", variable("u", 0, 9, uint32).add(1).add(c(4294967295, uint32)), variable("u", 0, 9, uint32)],
  // floats keep their meaning
  ["f+0", f.add(0), f.add(0)],
  ["f+-0", f.add(-0), f],
  ["f-0", f.sub(0), f],
  ["f*1", f.mul(1), f],
  ["f/1", f.fdiv(1), f],
  ["f*0 stays", f.mul(0), f.mul(0)],
  ["f/f stays", f.fdiv(f), f.fdiv(f)],
  ["f-f stays", f.sub(f), f.add(f.mul(-1))],
  ["f!=f stays", f.ne(f), f.ne(f)],
  ["f<f", f.lt(f), F],
  ["0/0", fc(0).fdiv(fc(0)), fc(NaN)],
  ["inf*0", fc(Infinity).mul(0), fc(NaN)],
  ["no reassociation", f.add(1).add(2), f.add(1).add(2)],
  ["signs move", f.mul(3).mul(-1), f.mul(-3)],
  ["f/4", f.fdiv(4), f.mul(0.25)],
  ["f/3 stays", f.fdiv(3), f.fdiv(3)],
  ["float constant to the right", fc(2).mul(f), f.mul(2)],
  ["sum of floats keeps order", g.add(f), g.add(f)],
  ["max(f,-inf)", f.max(-Infinity), f],
  ["sqrt", fc(4).sqrt(), fc(2)],
  // terms
  ["x+x", a.add(a), a.mul(2)],
  ["x+x*3", a.add(a.mul(3)), a.mul(4)],
  ["x*2+x*3", a.mul(2).add(a.mul(3)), a.mul(5)],
  ["x-x", a.sub(a), int(0)],
  ["x+y-x", a.add(b).sub(a), b],
  ["-(x+y)", i.add(j).mul(-1), i.mul(-1).add(j.mul(-1))],
  ["order of loops", j.add(i.mul(4)), i.mul(4).add(j)],
  ["order of variables", b.add(a), a.add(b)],
  ["(x+3)*4", a.add(3).mul(4), a.mul(4).add(12)],
  ["(i+j)*4", i.add(j).mul(4), i.mul(4).add(j.mul(4))],
  ["(x*3)*y", i.mul(3).mul(n), n.mul(i).mul(3)],
  ["any ints", w.add(w2).add(w.mul(-1)), w2],
  // bools
  ["bool +", p.add(q), p.or(q)],
  ["bool *", p.mul(q), p.and(q)],
  ["bool max", p.max(q), p.or(q)],
  ["x&true", p.and(1), p],
  ["x|true", p.or(1), T],
  ["x!=false", p.ne(0), p],
  ["x==true", p.eq(1), p],
  ["x==false", p.eq(0), not(p)],
  ["x^true", p.xor(1), not(p)],
  ["!!x", not(not(p)), p],
  ["!(x==y)", not(a.eq(b)), a.ne(b)],
  ["!(f==g)", not(f.eq(g)), f.ne(g)],
  ["x&!x", p.and(not(p)), F],
  ["x|!x", p.or(not(p)), T],
  ["x&(x|y)", p.and(p.or(q)), p],
  ["x<3&x<5", a.lt(3).and(a.lt(5)), a.lt(3)],
  ["x>=3&x>=5", not(a.lt(3)).and(not(a.lt(5))), not(a.lt(5))],
  ["x<3|x<5", a.lt(3).or(a.lt(5)), a.lt(5)],
  // casts
  ["cast of a constant", fc(2.7).cast(int32), int(2)],
  ["cast chain, lossless", variable("s", 0, 9, int8).cast(int16).cast(int64), variable("s", 0, 9, int8).cast(int64)],
  ["cast there and back", variable("s", 0, 9, int8).cast(int32).cast(int8), variable("s", 0, 9, int8)],
  ["narrowing chain", w.cast(int16).cast(int8), w.cast(int8)],
  ["lossy stays", f.cast(int32).cast(float32), f.cast(int32).cast(float32)],
  ["cast to bool", a.cast(bool), a.ne(0)],
  ["bool as int != 0", p.cast(int32).ne(0), p],
  ["bool as float < 1", p.cast(float32).lt(1), not(p)],
  ["bool as int == 2", p.cast(int32).eq(2), F],
  ["0 < bool as int", int(0).lt(p.cast(int32)), p],
  ["bitcast twice", f.bitcast(int32).bitcast(uint32), f.bitcast(uint32)],
  ["int64 in int32", wide(i).mul(c(4, int64)).add(wide(j)), wide(i.mul(4).add(j))],
  ["int64 stays where it must", wide(w).mul(c(4, int64)), wide(w).mul(c(4, int64))],
  ["comparison in int32", wide(a).lt(c(5, int64)), a.lt(5)],
  ["cast into a sum", wide(w).add(wide(w2)).cast(int32), w.add(w2)],
  // where
  ["where(true)", T.where(a, b), a],
  ["where by bounds", i.lt(8).where(a, b), a],
  ["same branches", p.where(a, a), a],
  ["where(!c)", not(p).where(a, b), p.where(b, a)],
  ["where(c,1,0)", p.where(T, F), p],
  ["where(c,0,1)", p.where(F, T), not(p)],
  ["where(c,q,0)", p.where(q, F), p.and(q)],
  ["nested, same condition", p.where(p.where(a, b), n), p.where(a, n)],
  ["nested, same else", p.where(q.where(a, b), b), p.and(q).where(a, b)],
  ["nested, same then", p.where(a, q.where(a, b)), p.or(q).where(a, b)],
  ["complementary zeros", p.where(a, int(0)).add(p.where(int(0), b)), p.where(a, b)],
  ["sum of gated", p.where(f, fc(0)).add(p.where(g, fc(0))), p.where(f.add(g), fc(0))],
  ["cast of constants", p.where(int(1), int(0)).cast(float32), p.where(fc(1), fc(0))],
  ["constant branches", p.where(int(3), int(5)).add(1), p.where(int(4), int(6))],
  ["comparison of branches", p.where(int(3), int(5)).lt(4), p],
  ["x<y?y:x", w.lt(w2).where(w2, w), w.max(w2)],
  // comparisons
  ["x<x", a.lt(a), F],
  ["r<n", open(n).lt(n), T],
  ["r*2<n*2-1", open(n).mul(2).lt(n.mul(2).add(-1)), T],
  ["n-1<r", n.add(-1).lt(open(n)), F],
  ["r<n where it may not run", open(none).lt(none), open(none).lt(none)],
  ["x!=x", a.ne(a), F],
  ["x==x", a.eq(a), T],
  ["by bounds", i.lt(8), T],
  ["disjoint", i.eq(9), F],
  ["x+3<8", a.add(3).lt(8), a.lt(5)],
  ["wrap-around stays", w.add(3).lt(8), w.add(3).lt(8)],
  ["x*4<10", a.mul(4).lt(10), a.lt(3)],
  ["-x<5", a.mul(-1).lt(5), not(a.lt(-4))],
  ["3<x", int(3).lt(a), not(a.lt(4))],
  ["x//4<3", a.floorDiv(4).lt(3), a.lt(12)],
  ["i*4+j<12", i.mul(4).add(j).lt(12), i.lt(3)],
  ["i*4+j<14 stays", i.mul(4).add(j).lt(14), i.mul(4).add(j).lt(14)],
  ["!(i*4+j<1)", not(i.mul(4).add(j).lt(1)), not(i.add(j).lt(1))],
  ["both sides", i.add(3).lt(j.add(5)), i.lt(j.add(2))],
  ["x+3==8", a.add(3).eq(8), a.eq(5)],
  ["2x==7", a.mul(2).eq(7), F],
  ["-2x!=6", a.mul(-2).ne(6), a.ne(-3)],
  // structure
  ["range of one", r1.add(i), i],
  ["reduce over one", reduce(opCarrier(Ops.ADD, float32), [f], [r1]), f],
  [
    "reduce over one more",
    reduce(opCarrier(Ops.ADD, float32), [load(index(inp, k.add(r1)))], [k, r1]),
    reduce(opCarrier(Ops.ADD, float32), [load(index(inp, k))], [k]),
  ],
  [
    "tuple over one",
    getTuple(
      reduce(productCarrier([opCarrier(Ops.ADD, float32), opCarrier(Ops.MAX, float32)]), [f, g], [r1]),
      1,
    ),
    g,
  ],
  [
    "stage over one",
    load(index(uop(Ops.STAGE, float32, [f, r1], new StageArg(0, "thread")), int(0))),
    load(index(uop(Ops.STAGE, float32, [f], new StageArg(0, "thread")), int(0))),
  ],
  ["tuple", uop(Ops.GETTUPLE, int32, [uop(Ops.TUPLE, dtypes.void, [a, b])], 1), b],
  ["after nothing", uop(Ops.AFTER, int32, [a]), a],
  ["extract of vectorize", uop(Ops.EXTRACT, int32, [uop(Ops.VECTORIZE, v4, [a, b, n, a])], 2), n],
  ["extract of broadcast", uop(Ops.EXTRACT, int32, [uop(Ops.BROADCAST, v4, [a])], 2), a],
  ["broadcast of a constant", uop(Ops.BROADCAST, v4, [int(3)]), constant(3, v4)],
  ["vectorize of one constant", uop(Ops.VECTORIZE, v4, [int(3), int(3), int(3), int(3)]), constant(3, v4)],
  ["vectorize of the lanes", uop(Ops.VECTORIZE, v4, [0, 1, 2, 3].map((l) => uop(Ops.EXTRACT, int32, [x4], l))), x4],
  ["gate true", load(index(inp, i, T)), load(index(inp, i))],
  ["gate false", load(index(inp, i, F)), fc(0)],
  ["gate false with alt", load(index(inp, i, F), fc(7)), fc(7)],
  ["gated twice", i.lt(3).where(load(index(inp, i, i.lt(3))), fc(0)), load(index(inp, i, i.lt(3)))],
  ["store never", sink([store(index(out, i, F), f), store(index(out, i), f)]), sink([store(index(out, i), f)])],
];
for (const [name, input, want] of CASES) {
  Deno.test(`symbolic: ${name}`, () => {
    const got = simplify(input);
    if (got !== want) assertEquals(exprText(got), exprText(want));
    assertStrictEquals(got, want);
    assertStrictEquals(simplify(got), got);
  });
}

Deno.test("symbolic: tensors keep their shape", () => {
  const x = reshape(bufferNode(new Storage("JS", int32, 6)), [2, 3]);
  const y = permute(reshape(bufferNode(new Storage("JS", int32, 6)), [3, 2]), [1, 0]);
  for (const u of [x.mul(0), x.ne(x), x.and(0), x.xor(x), x.add(y).sub(x).sub(y), x.max(x).lt(x), x.sub(x).add(n)]) {
    const s = simplify(u);
    assertEquals(shapeOf(s), [2, 3], exprText(u));
    assertStrictEquals(simplify(s), s);
  }
  assertStrictEquals(simplify(x.add(0)), x);
});

Deno.test("symbolic: order does not depend on buffer numbers", () => {
  const text = (): string => {
    const p = bufferNode(new Storage("JS", int32, 6)), q = bufferNode(new Storage("JS", int32, 6));
    const s = simplify(p.add(q).add(q.add(p)));
    return [s.src[0].src[0] === p, s.src[1].src[0] === q].join();
  };
  assertEquals([text(), text(), text()], ["true,true", "true,true", "true,true"]);
});

Deno.test("symbolic: random expressions keep their value", () => {
  assertEquals(fuzz(2026, 3000).failure, undefined);
});
