/** Logistic functions that end in 16 bits: which are found, what they become, and how far that is from the truth. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { quickLogistic } from "../../../../src/codegen/late/decomp/logistic.ts";
import { markRounded } from "../../../../src/codegen/late/decomp/rounded.ts";
import { type DType, dtypes } from "../../../../src/dtype/dtype.ts";
import { SCALAR_CAPS } from "../../../../src/renderer/renderer.ts";
import { Ops } from "../../../../src/uop/core/ops.ts";
import { index, int, load, param, sink, store, toposort, type UOp, uop } from "../../../../src/uop/core/uop.ts";

const { float32, bfloat16 } = dtypes, LOG2E = Math.fround(Math.LOG2E);
const caps = { ...SCALAR_CAPS, roundedOps: [Ops.EXP2, Ops.FDIV] };
const x = load(index(param(1, float32, 4), int(0)));

/** The parts of a logistic function of `of`. */
function parts(of: UOp, slope: number = LOG2E, sign: readonly [number, number] = [1, -1]) {
  const negative = of.lt(0), [below, above] = sign.map((s) => of.constLike(s));
  const power = of.mul(negative.where(below, above)).mul(slope).exp2();
  const quotient = of.constLike(1).fdiv(power.add(1));
  return { power, quotient, value: negative.where(power.mul(quotient), quotient) };
}

function graph(value: UOp, dtype: DType = bfloat16): UOp {
  return sink([store(index(param(0, dtype, 4), int(0)), value.dtype === dtype ? value : value.cast(dtype))]);
}

/** 1 / (1 + 2^(-x)) by instructions that take subnormals as 0. */
function quick(of: UOp, slope: number, offset = -63): UOp {
  const unit = x.constLike(2 ** -63);
  const power = uop(Ops.EXP2, float32, [of.mul(Math.fround(-slope)).add(offset)], "flush");
  return uop(Ops.FDIV, float32, [unit, power.add(unit)], "reciprocal");
}

const { power, quotient, value } = parts(x);
const cubic = x.mul(x.mul(x).mul(0.5).add(2)), inner = parts(cubic, 1.5).value;
const huge = x.mul(2 ** 127).add(1), ofHuge = parts(huge, 4).value;
const folded = uop(Ops.FDIV, float32, [
  x.constLike(2 ** -63),
  uop(Ops.EXP2, float32, [x.mul(x.mul(x).mul(-0.75).add(-3)).add(-63)], "flush").add(2 ** -63),
], "reciprocal");

for (
  const [name, given, want] of [
    ["alone", graph(value), graph(quick(x, LOG2E))],
    ["times its operand", graph(value.mul(x)), graph(quick(x, LOG2E).mul(x))],
    ["of a polynomial, whose constants take the slope", graph(inner), graph(folded)],
    ["of a polynomial with a constant too large to take it", graph(ofHuge), graph(quick(huge, 4))],
    ["of what something else needs", graph(inner.mul(cubic)), graph(quick(cubic, 1.5).mul(cubic))],
    ["in float32", graph(value, float32), graph(value, float32)],
  ] as [string, UOp, UOp][]
) {
  Deno.test(`logistic: ${name}`, () => {
    const after = markRounded(given, caps);
    assertStrictEquals(after, want);
    assertStrictEquals(markRounded(after, caps), after);
  });
}

for (
  const [name, given] of [
    ["whose power something else needs", value.mul(power)],
    ["whose quotient something else needs", value.mul(quotient)],
    ["with the sides exchanged", x.lt(0).where(quotient, power.mul(quotient))],
    ["of powers that grow", parts(x, -LOG2E).value],
    ["of other signs", parts(x, LOG2E, [1, -2]).value],
  ] as [string, UOp][]
) {
  Deno.test(`logistic: stays ${name}`, () => {
    const ops = toposort(markRounded(graph(given), caps));
    assertEquals(ops.some((u) => u.arg === "reciprocal"), false);
    assertEquals(ops.some((u) => u.op === Ops.WHERE), true);
  });
}

/** A float32 as instructions give it that take subnormals as 0. */
function flushed(v: number): number {
  return Math.abs(v) < 2 ** -126 ? 0 : Math.fround(v);
}

/** The value of a graph of `x`. */
function evaluate(u: UOp, at: number): number {
  const [a, b] = u.src.map((s) => u === x ? 0 : evaluate(s, at));
  switch (u.op) {
    case Ops.CONST:
      return u.value;
    case Ops.ADD:
      return Math.fround(a + b);
    case Ops.MUL:
      return Math.fround(a * b);
    case Ops.EXP2:
      return flushed(Math.fround(2 ** a));
    case Ops.FDIV:
      return Math.fround(flushed(1 / b) * a);
  }
  return at;
}

Deno.test("logistic: every bfloat16 is within 2^-14, tails included, and nothing that is not 0 becomes 0", () => {
  const made = quickLogistic(x, LOG2E, true), bits = new Uint32Array(1), float = new Float32Array(bits.buffer);
  for (let h = 0; h < 1 << 16; h++) {
    bits[0] = h << 16;
    const at = float[0], got = evaluate(made, at);
    const want = at < 0 ? Math.exp(at) / (1 + Math.exp(at)) : 1 / (1 + Math.exp(-at));
    if (at !== at) assertEquals(got, NaN);
    else if (Math.abs(got - want) > Math.max(want * 2 ** -14, 2 ** -149)) {
      throw new Error(`${got}, want ${want} at ${at}`);
    }
  }
});
