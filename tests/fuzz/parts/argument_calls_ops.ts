/** More of argument_calls.ts: a valid call of what stands beside tinygrad's ops. */
import { Tensor } from "../../../mod.ts";
import { BINARY_SPECIAL } from "../../../src/tensor/ops/special.ts";
import type { MakeCall } from "./argument_calls.ts";
import { type Arg, bool, int, maybe, num, operand, opts, tensor } from "./argument_kinds.ts";

const f32 = (...sizes: number[]): Tensor => Tensor.ones(sizes);
const i32 = (values: number[]): Tensor => new Tensor(values, { dtype: "int32" });
/** Arguments of a float tensor of [2, 3]. */
const on = (...args: Arg[]): MakeCall => () => ({ self: f32(2, 3), args });
/** Arguments of another one. */
const of = (self: () => Tensor, args: () => Arg[]): MakeCall => () => ({ self: self(), args: args() });

const pair = of(() => i32([4, 6]), () => [operand(2)]);

/** Members of tensors. */
export const OPS: Readonly<Record<string, MakeCall>> = {
  ...Object.fromEntries(Object.keys(BINARY_SPECIAL).map((name) => [name, on(operand(2))])),
  gcd: pair,
  lcm: pair,
  floatPower: on(operand(2)),
  ldexp: on(operand(2)),
  round: on(opts({ decimals: int(1) })),
  signbit: on(),
  addcmul: on(operand(2), operand(3), opts({ value: num(2) })),
  addcdiv: on(operand(2), operand(3), opts({ value: num(2) })),
  nanToNum: on(opts({ nan: num(1), posinf: num(2), neginf: num(3) })),
  logit: on(maybe(num(0.1))),
  polygamma: on(int(2)),
  threshold: on(num(0.5), num(1)),
  glu: of(() => f32(2, 4), () => [maybe(int(1))]),
  prelu: on(tensor(Tensor.ones([3]))),
  rrelu: on(opts({ lower: num(0.1), upper: num(0.2), training: bool(true) })),
};
