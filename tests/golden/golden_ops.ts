/** What families of fixtures/golden/ops.py are called by, where that is not a method on the inputs in order. */
import type { Program } from "./golden_cases.ts";

/** Programs by name. */
export const OPS: Readonly<Record<string, Program>> = {
  "round decimals": (a) => [a.round({ decimals: 2 }), a.round({ decimals: -1 })],
  "nanToNum given": (a) => a.nanToNum({ nan: 1.5, posinf: 7, neginf: -8 }),
  "logit eps": (a) => a.logit(0.25),
  "polygamma 1": (a) => a.polygamma(1),
  "polygamma 2": (a) => a.polygamma(2),
  "polygamma 3": (a) => a.polygamma(3),
  "addcmul": (a, b, c) => a.addcmul(b, c, { value: 0.5 }),
  "addcdiv": (a, b, c) => a.addcdiv(b, c, { value: -2 }),
  "threshold": (a) => a.threshold(0.25, -3),
  "glu first": (a) => a.glu(0),
};
