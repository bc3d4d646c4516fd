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
  ...Object.fromEntries(
    Object.entries({ "2": 2, "1": 1, "3": 3, half: 0.5, "0": 0, inf: Infinity, "-inf": -Infinity })
      .map(([name, ord]): [string, Program] => [`vectorNorm ${name}`, (a) => a.vectorNorm({ ord, dim: -1 })]),
  ),
  "vectorNorm keep": (a) => a.vectorNorm({ dim: [0, -1], keepdim: true }),
  "norm p": (a) => a.norm({ p: 3, dim: 0 }),
  ...Object.fromEntries(
    Object.entries(
      { fro: "fro", "1": 1, "-1": -1, inf: Infinity, "-inf": -Infinity, "2": 2, "-2": -2, nuc: "nuc" } as const,
    )
      .map(([name, ord]): [string, Program] => [`matrixNorm ${name}`, (a) => a.matrixNorm({ ord })]),
  ),
  "matrixNorm dims": (a) => a.matrixNorm({ ord: 1, dim: [0, 2], keepdim: true }),
  "dist": (a, b) => a.dist(b, 3),
  "nansum": (a) => a.nansum(-1),
  "nanmean": (a) => a.nanmean(-1),
  "nanquantile": (a) => a.nanquantile([0.25, 0.6], -1),
  ...Object.fromEntries(
    (["lower", "higher", "midpoint", "nearest"] as const).map((interpolation): [string, Program] => [
      `nanquantile ${interpolation}`,
      (a) => a.nanquantile(0.4, -1, { keepdim: true, interpolation }),
    ]),
  ),
  "nanmedian": (a) => a.nanmedian(-1),
  "aminmax": (a) => a.aminmax(-1),
  "countNonzero": (a) => a.countNonzero(1),
  "kthvalue": (a) => a.kthvalue(3),
  "kthvalue first": (a) => a.kthvalue(1, 0, { keepdim: true }),
  "mode": (a) => a.mode()[0],
  "mode first": (a) => a.mode(0, { keepdim: true })[0],
  "diff more": (a, b, c) => a.diff({ n: 2, dim: 0, prepend: b, append: c }),
  "trapezoid": (a) => a.trapezoid(undefined, { dx: 0.5 }),
  "trapezoid x": (a, b) => a.trapezoid(b, { dim: 0 }),
  "cov weights": (a, b, c) => a.cov({ correction: 0, fweights: b, aweights: c }),
  "tensordot axes": (a, b) => a.tensordot(b, [[0, -1], [1, 0]]),
  "tensordot none": (a, b) => a.tensordot(b, 0),
  "cross first": (a, b) => a.cross(b, 0),
  "cdist 1": (a, b) => a.cdist(b, 1),
  "addmm": (a, b, c) => a.addmm(b, c, { beta: 0.5, alpha: 2 }),
  "addbmm": (a, b, c) => a.addbmm(b, c, { beta: 2 }),
  "multiDot": (a, b, c) => a.multiDot([b, c]),
  "matrixPower": (a) => a.matrixPower(5),
  "matrixPower back": (a) => a.matrixPower(-2),
  "matrixPower 0": (a) => a.matrixPower(0),
};
