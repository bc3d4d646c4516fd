/**
 * Gradients of random programs in float64 against differences: the reference computes a program's weighted sum at its
 * operand moved a little along a direction, to both sides, and what changes must be the gradient along it. Where the two
 * sides differ there is a kink, where differences grow as the step shrinks a jump, and nothing is claimed; so where the
 * gradient is another one here than a little further. So the rules of gradients are tested by values alone.
 */
import { Tensor } from "../../../mod.ts";
import { shapeOf } from "../../../src/uop/core/shape.ts";
import { evaluate } from "../../reference.ts";
import type { OpRow } from "./op_rows.ts";
import { type Line, type Names, type Program, ProgramMaker, runLines } from "./program_maker.ts";
import { Random } from "../../support/random.ts";
import { onDevice } from "../../support/on_device.ts";

/** What a comparison came to; undefined `why` and false `smooth` where there is nothing to compare. */
export interface Difference {
  readonly smooth: boolean;
  readonly why?: string;
}

const GRADIENT = /^const (t\d+) = (.*)\.gradient\(\[(t\d+)\]\)\[0\];$/;
const NARROW = /"(float32|float16|bfloat16|fp8\w+)"|\.(half|float|bfloat16)\(/;
const STEP = 1e-6;

/** A program in float64 whose last statement is the gradient of `op`; undefined where none came about. */
export function gradientProgram(op: OpRow, seed: number): Program | undefined {
  const maker = new ProgramMaker(new Random(seed), { op, floats: "float64", gradient: true }),
    { lines } = maker.make(1);
  const last = lines.at(-1)!;
  // what rounds more than float64 has no differences
  if (lines.some(({ text, kind }) => kind === "op" && NARROW.test(text))) return undefined;
  return GRADIENT.test(last.text) ? { lines, outputs: [/t\d+/.exec(last.text)![0]] } : undefined;
}

/** The values of one name, by the reference. */
function valuesOf(lines: readonly Line[], name: string): number[] {
  return onDevice("JS", () => {
    Tensor.manualSeed(1);
    const names: Names = runLines(lines, false);
    return evaluate(names[name].uop).data.map(Number);
  });
}

/** Compares the gradient that ends a program with differences. */
export function checkDifference({ lines }: Program): Difference {
  const last = lines[lines.length - 1], [, result, sum, operand] = GRADIENT.exec(last.text)!;
  const gradient = valuesOf(lines, result);
  const at = lines.findIndex((l) => l.text.startsWith(`const ${operand} = `)), defined = lines[at];
  const shape = shapeOf(runLines(lines.slice(0, at + 1), false)[operand].uop);
  const direction = `leaf([${shape.join(", ")}], "float64", 29)`;
  const moved = (by: number, end: Line): number[] => {
    const [, expression] = /^const t\d+ = (.*);$/.exec(defined.text)!;
    const text = `const ${operand} = (${expression}).add(${direction}.mul(${by}));`;
    return valuesOf([...lines.slice(0, at), { ...defined, text }, ...lines.slice(at + 1, -1), end], result);
  };
  const sumAt = (by: number): number => moved(by, { text: `const ${result} = ${sum};`, kind: "op" })[0];
  const along = valuesOf([{ text: `const t0 = ${direction};`, kind: "leaf" }], "t0");
  const slope = (g: readonly number[]): number => g.reduce((s, x, i) => s + x * along[i], 0);
  const here = sumAt(0), ahead = (sumAt(STEP) - here) / STEP, behind = (here - sumAt(-STEP)) / STEP;
  const size = gradient.reduce((s, g, i) => s + Math.abs(g * along[i]), 0) + Math.abs(ahead) + Math.abs(here) * 1e-3;
  const bound = 1e-5 * size + 1e-8; // differences have half of the digits
  if (!Number.isFinite(size) || !(Math.abs(ahead - behind) <= bound)) return { smooth: false };
  const want = (ahead + behind) / 2, got = slope(gradient);
  if (Math.abs(got - want) <= bound) return { smooth: true };
  // over a quarter of the way a slope is what it was, and a jump four times that
  const nearer = (sumAt(STEP / 4) - sumAt(-STEP / 4)) / (STEP / 2);
  if (Math.abs(nearer - want) > bound) return { smooth: false };
  // a branch that is taken at this very point alone, where values are equal, is a kink that no side shows
  return Math.abs(slope(moved(STEP, last)) - want) <= bound
    ? { smooth: false }
    : { smooth: true, why: `along the direction the gradient is ${got}, and the difference ${want} ± ${bound}` };
}
