/**
 * The formulas of `rearrange`, after einops (Rogozhnikov, "Einops: clear and reliable tensor manipulations", ICLR 2022):
 * text and a shape come in, a reshape, a permutation and a second reshape come out.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { checkInteger, checkText, describe, isPlain } from "../../helpers/options.ts";

/** Reshape to `split`, permute by `order`, reshape to `joined`. */
export interface RearrangePlan {
  readonly split: readonly number[];
  readonly order: readonly number[];
  readonly joined: readonly number[];
}

/** One axis of a side: the names that it joins; none for an axis of size 1. `...` alone is as many axes as it stands for. */
type Group = readonly string[];
/** `(...)`: all axes that `...` stands for, joined to one. */
const WHOLE: Group = ["..."];

function fail(formula: string, reason: string): never {
  throw new ArgumentError("rearrange", { reason: `${reason} in "${formula}"` });
}

function parseSide(formula: string, text: string): Group[] {
  const tokens = text.match(/\.\.\.|[A-Za-z_]\w*|[()]|1|\S/g) ?? [];
  const groups: Group[] = [];
  let open: string[] | undefined;
  for (const token of tokens) {
    if (token === "(") {
      if (open !== undefined) fail(formula, "nested parentheses");
      open = [];
    } else if (token === ")") {
      if (open === undefined) fail(formula, "a parenthesis closes that was not opened");
      groups.push(open.length === 1 && open[0] === "..." ? WHOLE : open);
      open = undefined;
    } else if (token === "1") {
      if (open === undefined) groups.push([]);
    } else if (token === "..." || /^[A-Za-z_]/.test(token)) {
      if (open === undefined) groups.push([token]);
      else open.push(token);
    } else fail(formula, `unexpected "${token}"`);
  }
  if (open !== undefined) fail(formula, "a parenthesis is not closed");
  const names = groups.flat();
  const twice = names.find((n, i) => names.indexOf(n) !== i);
  if (twice !== undefined) fail(formula, `"${twice}" stands twice on one side`);
  return groups;
}

/** The plan for `formula` on a tensor of `shape`. @throws {ArgumentError} or {ShapeError} */
export function parseRearrange(
  formula: string,
  shape: readonly number[],
  sizes: Readonly<Record<string, number>>,
): RearrangePlan {
  const sides = checkText("rearrange", "the formula", formula).split("->");
  if (!isPlain(sizes)) {
    throw new ArgumentError("rearrange", { reason: `the sizes must be an object by name, not ${describe(sizes)}` });
  }
  for (const [name, n] of Object.entries(sizes)) checkInteger("rearrange", `size ${name}`, n, 0);
  if (sides.length !== 2) fail(formula, `there must be one "->"`);
  let left = parseSide(formula, sides[0]), right = parseSide(formula, sides[1]);

  const dots = (side: Group[]) => side.some((g) => g.includes("..."));
  if (left.some((g) => g === WHOLE || g.length > 1 && g.includes("..."))) {
    fail(formula, `"..." cannot be grouped on the left`);
  }
  if (dots(left) !== dots(right)) fail(formula, `"..." must stand on both sides`);
  const spread = dots(left) ? shape.length - (left.length - 1) : 0;
  if (spread < 0 || (!dots(left) && left.length !== shape.length)) {
    throw new ShapeError("rearrange", {
      shapes: [shape],
      reason: `"${sides[0].trim()}" names ${left.length} axes, the tensor has ${shape.length}`,
    });
  }
  const rest = Array.from({ length: spread }, (_, i) => `...${i}`);
  left = left.flatMap((g) => g.includes("...") ? rest.map((n) => [n]) : [g]);
  right = right.flatMap((g) =>
    g.length === 1 && g[0] === "..." && g !== WHOLE
      ? rest.map((n) => [n])
      : [g.flatMap((n) => n === "..." ? rest : [n])]
  );

  const from = left.flat(), to = right.flat();
  const missing = from.find((n) => !to.includes(n)) ?? to.find((n) => !from.includes(n));
  if (missing !== undefined) fail(formula, `"${missing}" must stand on both sides`);
  const unused = Object.keys(sizes).find((n) => !from.includes(n));
  if (unused !== undefined) {
    throw new ArgumentError("rearrange", { reason: `unknown size "${unused}"; the formula is "${formula}"` });
  }

  const size = new Map<string, number>(Object.entries(sizes));
  left.forEach((group, axis) => {
    const open = group.filter((n) => !size.has(n));
    const known = prod(group.filter((n) => size.has(n)).map((n) => size.get(n)!));
    const bad = open.length > 1 ||
      (open.length === 0 ? known !== shape[axis] : known === 0 || shape[axis] % known !== 0);
    if (bad) {
      throw new ShapeError("rearrange", {
        shapes: [shape],
        axis,
        reason: open.length > 1
          ? `the sizes of ${open.join(" and ")} are not given`
          : `axis ${axis} of size ${shape[axis]} does not split into (${
            group.map((n) => size.has(n) ? `${n}=${size.get(n)}` : n).join(" ")
          })`,
      });
    }
    if (open.length === 1) size.set(open[0], shape[axis] / known);
  });
  return {
    split: from.map((n) => size.get(n)!),
    order: to.map((n) => from.indexOf(n)),
    joined: right.map((g) => prod(g.map((n) => size.get(n)!))),
  };
}
