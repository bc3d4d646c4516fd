/**
 * 64-bit integers in WGSL, which has none: a value is `vec2<u32>`, low word first, and each operation a function that is
 * declared where it is used. Signed and unsigned values share a representation (two's complement) and all operations that
 * do not look at the sign.
 *
 * @module
 */
import { SpecError } from "../../helpers/errors.ts";

/** The type of a value. */
export const WIDE = "vec2<u32>";

/** Functions by what they take and give. */
const binary = (body: string): string => `(a: ${WIDE}, b: ${WIDE}) -> ${WIDE} { ${body} }`;
const test = (body: string): string => `(a: ${WIDE}, b: ${WIDE}) -> bool { return ${body}; }`;
const shift = (body: string): string => `(a: ${WIDE}, count: u32) -> ${WIDE} {\n  let n = count & 63u;\n${body}\n}`;

/** All behind the name. */
const FUNCTIONS: Readonly<Record<string, string>> = {
  wide_add: binary(`let lo = a.x + b.x; return ${WIDE}(lo, a.y + b.y + select(0u, 1u, lo < a.x));`),
  wide_sub: binary(`return ${WIDE}(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));`),
  wide_neg: `(a: ${WIDE}) -> ${WIDE} { return wide_sub(${WIDE}(0u, 0u), a); }`,
  wide_mul: `(a: ${WIDE}, b: ${WIDE}) -> ${WIDE} {
  let a0 = a.x & 65535u; let a1 = a.x >> 16u; let b0 = b.x & 65535u; let b1 = b.x >> 16u;
  let low = a0 * b0;
  let middle = a1 * b0 + (low >> 16u);
  let other = a0 * b1 + (middle & 65535u);
  let high = a1 * b1 + (middle >> 16u) + (other >> 16u);
  return ${WIDE}((other << 16u) | (low & 65535u), high + a.x * b.y + a.y * b.x);
}`,
  wide_eq: test("a.x == b.x && a.y == b.y"),
  wide_lt_u: test("select(a.y < b.y, a.x < b.x, a.y == b.y)"),
  wide_lt_i: test("select(bitcast<i32>(a.y) < bitcast<i32>(b.y), a.x < b.x, a.y == b.y)"),
  wide_max_u: binary("return select(a, b, wide_lt_u(a, b));"),
  wide_max_i: binary("return select(a, b, wide_lt_i(a, b));"),
  wide_shl: shift(`  if (n == 0u) { return a; }
  if (n >= 32u) { return ${WIDE}(0u, a.x << (n - 32u)); }
  return ${WIDE}(a.x << n, (a.y << n) | (a.x >> (32u - n)));`),
  wide_shr_u: shift(`  if (n == 0u) { return a; }
  if (n >= 32u) { return ${WIDE}(a.y >> (n - 32u), 0u); }
  return ${WIDE}((a.x >> n) | (a.y << (32u - n)), a.y >> n);`),
  wide_shr_i: shift(`  let high = bitcast<i32>(a.y);
  if (n == 0u) { return a; }
  if (n >= 32u) { return ${WIDE}(bitcast<u32>(high >> (n - 32u)), bitcast<u32>(high >> 31u)); }
  return ${WIDE}((a.x >> n) | (a.y << (32u - n)), bitcast<u32>(high >> n));`),
  // quotient and remainder bit by bit; by zero the quotient is all ones, which codegen never asks for
  wide_divmod: `(a: ${WIDE}, b: ${WIDE}) -> vec4<u32> {
  if (a.y == 0u && b.y == 0u && b.x != 0u) { return vec4<u32>(a.x / b.x, 0u, a.x % b.x, 0u); }
  var q = ${WIDE}(0u, 0u);
  var r = ${WIDE}(0u, 0u);
  for (var i = 63; i >= 0; i--) {
    let bit = select(a.x >> u32(i & 31), a.y >> u32(i & 31), i > 31) & 1u;
    let over = r.y >> 31u;
    r = ${WIDE}((r.x << 1u) | bit, (r.y << 1u) | (r.x >> 31u));
    q = ${WIDE}(q.x << 1u, (q.y << 1u) | (q.x >> 31u));
    if (over != 0u || !wide_lt_u(r, b)) {
      r = wide_sub(r, b);
      q.x |= 1u;
    }
  }
  return vec4<u32>(q, r);
}`,
  wide_abs: `(a: ${WIDE}) -> ${WIDE} { return select(a, wide_neg(a), (a.y >> 31u) != 0u); }`,
  wide_div_u: binary("return wide_divmod(a, b).xy;"),
  wide_mod_u: binary("return wide_divmod(a, b).zw;"),
  wide_div_i: binary(
    "let q = wide_divmod(wide_abs(a), wide_abs(b)).xy; return select(q, wide_neg(q), ((a.y ^ b.y) >> 31u) != 0u);",
  ),
  wide_mod_i: binary(
    "let r = wide_divmod(wide_abs(a), wide_abs(b)).zw; return select(r, wide_neg(r), (a.y >> 31u) != 0u);",
  ),
  wide_of_i32: `(x: i32) -> ${WIDE} { return ${WIDE}(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }`,
  wide_of_u32: `(x: u32) -> ${WIDE} { return ${WIDE}(x, 0u); }`,
  // cut toward zero; the high word is exact, and so is what is left of a float32's 24 bits
  wide_of_f32: `(x: f32) -> ${WIDE} {
  if ((bitcast<u32>(x) & 2147483647u) > 2139095040u) { return ${WIDE}(0u, 0u); }
  let a = trunc(abs(x));
  let high = u32(a * 2.3283064365386963e-10f);
  let r = ${WIDE}(u32(a - f32(high) * 4294967296f), high);
  return select(r, wide_neg(r), x < 0f);
}`,
  // rounded once: the top 32 bits, the lowest of them set where anything below is
  f32_of_wide_u: `(a: ${WIDE}) -> f32 {
  if (a.y == 0u) { return f32(a.x); }
  let zeros = countLeadingZeros(a.y);
  let n = wide_shl(a, zeros);
  return f32(n.y | select(0u, 1u, n.x != 0u)) * bitcast<f32>((159u - zeros) << 23u);
}`,
  f32_of_wide_i: `(a: ${WIDE}) -> f32 {
  let x = f32_of_wide_u(wide_abs(a));
  return select(x, -x, (a.y >> 31u) != 0u);
}`,
};

/** Declares a function and those that it calls, once each; gives its name. */
export function wideFunction(declare: (name: string, text: string) => void, name: string): string {
  const text = FUNCTIONS[name];
  if (text === undefined) throw new SpecError(`WGSL has no function ${name}`);
  for (const [needed] of text.matchAll(/\b\w*wide_\w+/g)) wideFunction(declare, needed);
  declare(name, `fn ${name}${text}`);
  return name;
}
