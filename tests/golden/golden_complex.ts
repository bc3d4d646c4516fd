/**
 * The programs of golden cases of complex numbers (fixtures/golden/complex.py) in our API: inputs and outputs are pairs of
 * floats.
 */
import { Tensor } from "../../src/tensor/tensor.ts";
import type { Program } from "./golden_cases.ts";

/** Complex in and out. */
const on = (f: (...z: Tensor[]) => Tensor): Program => (...given) => {
  const out = f(...given.map((x) => x.viewAsComplex()));
  return out.dtype.isComplex ? out.viewAsReal() : out;
};

const UNARY =
  "exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh reciprocal sigmoid square exp2 log2 " +
  "log10 rsqrt sgn neg conj abs angle real imag";
const BINARY = "add sub mul div pow matmul";
const POWERS = { "two": 2, "three": 3, "minus two": -2, "half": 0.5, "one and a half": 1.5 };
type Methods = Readonly<Record<string, (x?: Tensor) => Tensor>>;

/** What each family computes. */
export const COMPLEX: Readonly<Record<string, Program>> = {
  ...Object.fromEntries(
    UNARY.split(" ").map((name) => [`complex ${name}`, on((z) => (z as unknown as Methods)[name]())]),
  ),
  ...Object.fromEntries(
    BINARY.split(" ").map((name) => [`complex ${name}`, on((z, w) => (z as unknown as Methods)[name](w))]),
  ),
  ...Object.fromEntries(Object.entries(POWERS).map(([name, e]) => [`complex power ${name}`, on((z) => z.pow(e))])),
  "complex beside real": (a, b, c) => {
    const z = a.viewAsComplex();
    return z.mul(b).add(c.div(z)).sub(2.5).viewAsReal();
  },
  "complex equal": (a, b) => {
    const z = a.viewAsComplex(), w = b.viewAsComplex();
    return [z.eq(w), z.ne(w)];
  },
  "complex where": (a, b, c) => a.gt(0).where(b.viewAsComplex(), c.viewAsComplex()).viewAsReal(),
  "complex sum": on((z) => z.sum(0)),
  "complex mean": on((z) => z.mean()),
  "complex prod": on((z) => z.prod(0)),
  "complex cumsum": on((z) => z.cumsum(0)),
  "complex cumprod": on((z) => z.cumprod(0)),
  "complex var": on((z) => z.var(0)),
  "complex einsum": on((z, w) => Tensor.einsum("ij,kj->ik", [z, w])),
  "complex moved": on((z) => z.T.flip(0).cat([z.reshape([3, 2]).at([1, null])]).roll(1, 1)),
  "complex gathered": (a, b) => a.viewAsComplex().at(b).viewAsReal(),
  "complex padded": on((z) => z.pad([1, 2])),
  "complex polar": (a, b) => Tensor.polar(a, b).viewAsReal(),
  "complex of parts": (a, b) => Tensor.complex(a, b).viewAsReal(),
};
