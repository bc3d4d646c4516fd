/**
 * Result dtypes against PARITY.md section 3.2, whose edges are repeated here: every pair of dtypes and every dtype with
 * every kind of scalar, for all that combines two operands. Nothing is computed. Then exact values of whole numbers.
 */
import { assertEquals, assertThrows } from "@std/assert";
import { DTypeError, type Operand, Tensor } from "../../../mod.ts";

const UP: Readonly<Record<string, readonly string[]>> = {
  bool: ["int8", "uint8"],
  int8: ["int16"],
  int16: ["int32"],
  int32: ["int64"],
  int64: ["weak"],
  uint8: ["uint16", "int16"],
  uint16: ["uint32", "int32"],
  uint32: ["uint64", "int64"],
  uint64: ["weak"],
  weak: ["fp8e4m3", "fp8e5m2"],
  fp8e4m3: ["float16", "bfloat16"],
  fp8e5m2: ["float16", "bfloat16"],
  float16: ["float32"],
  bfloat16: ["float32"],
  float32: ["float64"],
  float64: [],
};
/** Lower ones win where two are above both. */
const ORDER = Object.keys(UP);
const NAMES = ORDER.filter((d) => d !== "weak");
const above = (d: string): string[] => [d, ...UP[d].flatMap(above)];

/** The least upper bound; the weak float is the default one where it is stored. */
function bound(a: string, b: string): string {
  const both = above(a).filter((d) => above(b).includes(d));
  const least = both.filter((d) => !both.some((e) => e !== d && above(e).includes(d)));
  const d = least.sort((p, q) => ORDER.indexOf(p) - ORDER.indexOf(q))[0];
  return d === "weak" ? "float32" : d;
}

const isFloat = (d: string): boolean => ORDER.indexOf(d) > ORDER.indexOf("weak");
const floatOf = (d: string): string => isFloat(d) ? d : "float32";
const intOf = (d: string): string => d === "bool" ? "int32" : d;
const make = (d: string): Tensor => Tensor.ones([2, 2], { dtype: d });

type Binary = (a: Tensor, b: Operand) => Tensor;
const BINARY: Readonly<Record<string, readonly [Binary, (d: string) => string | undefined]>> = {
  add: [(a, b) => a.add(b), (d) => d],
  sub: [(a, b) => a.sub(b), (d) => d === "bool" ? undefined : d],
  mul: [(a, b) => a.mul(b), (d) => d],
  div: [(a, b) => a.div(b), floatOf],
  "div, rounded": [(a, b) => a.div(b, { roundingMode: "trunc" }), intOf],
  floorDiv: [(a, b) => a.floorDiv(b), intOf],
  mod: [(a, b) => a.mod(b), intOf],
  fmod: [(a, b) => a.fmod(b), intOf],
  pow: [(a, b) => a.pow(b), intOf],
  maximum: [(a, b) => a.maximum(b), (d) => d],
  minimum: [(a, b) => a.minimum(b), (d) => d],
  clamp: [(a, b) => a.clamp(b), (d) => d],
  copysign: [(a, b) => a.copysign(b), floatOf],
  logaddexp: [(a, b) => a.logaddexp(b), floatOf],
  bitwiseAnd: [(a, b) => a.bitwiseAnd(b), (d) => isFloat(d) ? undefined : d],
  bitwiseOr: [(a, b) => a.bitwiseOr(b), (d) => isFloat(d) ? undefined : d],
  bitwiseXor: [(a, b) => a.bitwiseXor(b), (d) => isFloat(d) ? undefined : d],
  lshift: [(a, b) => a.lshift(b), (d) => isFloat(d) || d === "bool" ? undefined : d],
  rshift: [(a, b) => a.rshift(b), (d) => isFloat(d) || d === "bool" ? undefined : d],
  where: [(a, b) => Tensor.ones([2, 2]).where(a, b), (d) => d],
  maskedFill: [(a, b) => a.maskedFill(Tensor.ones([2, 2]), b), (d) => d],
  lt: [(a, b) => a.lt(b), () => "bool"],
  le: [(a, b) => a.le(b), () => "bool"],
  gt: [(a, b) => a.gt(b), () => "bool"],
  ge: [(a, b) => a.ge(b), () => "bool"],
  eq: [(a, b) => a.eq(b), () => "bool"],
  ne: [(a, b) => a.ne(b), () => "bool"],
  isclose: [(a, b) => a.isclose(b), () => "bool"],
};
const TENSORS: Readonly<Record<string, readonly [(a: Tensor, b: Tensor) => Tensor, (d: string) => string]>> = {
  cat: [(a, b) => a.cat([b]), (d) => d],
  stack: [(a, b) => a.stack([b]), (d) => d],
  matmul: [(a, b) => a.matmul(b), (d) => d],
  dot: [(a, b) => a.dot(b), (d) => d],
};

for (const [name, [f, want]] of Object.entries({ ...BINARY, ...TENSORS })) {
  Deno.test(`promotion: ${name} of every two dtypes`, () => {
    for (const a of NAMES) {
      for (const b of NAMES) {
        const dtype = want(bound(a, b));
        if (dtype === undefined) assertThrows(() => f(make(a), make(b) as never), DTypeError);
        else assertEquals(f(make(a), make(b) as never).dtype.name, dtype, `${a} and ${b}`);
      }
    }
  });
}

const INT_BITS: Readonly<Record<string, readonly [bigint, bigint]>> = Object.fromEntries(
  NAMES.filter((d) => d.includes("int")).map((d) => {
    const n = BigInt(d.replace(/\D+/, ""));
    return [d, d.startsWith("u") ? [0n, (1n << n) - 1n] : [-(1n << (n - 1n)), (1n << (n - 1n)) - 1n]];
  }),
);
const holds = (d: string, x: number | bigint): boolean => x >= INT_BITS[d][0] && x <= INT_BITS[d][1];

/** What a tensor of dtype `d` and a scalar make (DESIGN.md 1); undefined where that is refused. */
function withScalar(d: string, x: number | boolean | bigint): string | undefined {
  if (isFloat(d) || typeof x === "boolean") return d;
  if (typeof x === "bigint") return holds(intOf64(d), x) ? intOf64(d) : undefined;
  if (!Number.isInteger(x) || Object.is(x, -0)) return "float32";
  if (d !== "bool" && holds(d, x)) return d;
  if (Math.abs(x) < 2 ** 31) return intOf(d);
  if (x === -(2 ** 31) && d !== "uint32" && d !== "uint64") return "int32";
  if (d === "int64") return "float32";
  if (d === "uint64") return x < 0 ? d : "float32";
  return holds("int64", x) && (d === "uint32" || Math.fround(x) !== x) ? "int64" : "float32";
}
const intOf64 = (d: string): string => d === "bool" ? "int64" : d;

const SCALARS = [
  true,
  0,
  3,
  -3,
  300,
  -(2 ** 31),
  2 ** 31,
  3e9,
  3000000001,
  -3000000001,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 40 + 1,
]
  .concat([2 ** 53, 2 ** 63, 1e20, 0.5, -0, NaN, Infinity] as never[], [3n, 2n ** 40n, -1n, 2n ** 63n] as never[]);
const COMPARES = ["lt", "le", "gt", "ge", "eq", "ne"], LIMITS = ["maximum", "minimum", "clamp"];

for (const [name, [f, want]] of Object.entries(BINARY)) {
  Deno.test(`promotion: ${name} of every dtype and scalar`, () => {
    for (const d of NAMES) {
      for (const x of SCALARS as (number | boolean | bigint)[]) {
        let dtype = withScalar(d, x);
        const isWhole = typeof x === "bigint" || (typeof x === "number" && Number.isInteger(x) && !Object.is(x, -0));
        if (COMPARES.includes(name) && d in INT_BITS && isWhole) dtype = "bool";
        if (LIMITS.includes(name) && d in INT_BITS && isWhole && typeof x === "number") dtype = d;
        if (name.endsWith("shift") && d in INT_BITS && isWhole) dtype = d;
        const isWord = isWhole && typeof x === "number" && x >= 2 ** 31 && x < 2 ** 32;
        if (name.startsWith("bitwise") && isWord && d in INT_BITS && !holds(d, x)) dtype = "int32"; // its 32 bits
        if (name.startsWith("bitwise") && isWord && d === "bool") dtype = "int32";
        if (name === "isclose" && typeof x === "bigint" && dtype === undefined) continue;
        if (name === "pow" && !isFloat(d) && isWhole && x < 0) continue;
        if (name.endsWith("shift") && isWhole && x < 0) continue;
        if (name === "pow" && typeof x === "number" && Number.isInteger(x) && !isFloat(d)) dtype = intOf(d);
        const made = dtype === undefined ? undefined : want(dtype);
        if (made === undefined) assertThrows(() => f(make(d), x), DTypeError, undefined, `${d} and ${x}`);
        else assertEquals(f(make(d), x).dtype.name, made, `${d} and ${x}`);
      }
    }
  });
}

Deno.test("promotion: running sums and products of small ints are as wide as sums", () => {
  const rows = { bool: "int32", int8: "int32", int16: "int32", uint8: "uint32", uint16: "uint32" } as const;
  for (const [name, want] of Object.entries(rows)) {
    const dtype = name as keyof typeof rows, x = new Tensor([100, 100], { dtype, device: "JS" });
    for (const y of [x.cumsum(0), x.cumprod(0), x.sum(), x.prod()]) assertEquals(y.dtype.name, want, name);
    if (dtype !== "bool") {
      assertEquals([x.cumsum(0), x.cumprod(0)].map((y) => y.tolistSync()), [[100, 200], [100, 10000]]);
    }
  }
});
