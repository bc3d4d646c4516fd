/**
 * Random draws in a script. A draw is a hash of its place (threefry2x32, 20 rounds), which a kernel computes inline, in
 * some forty sums and rotations that say nothing to who reads them. In: the AST of a kernel. Out: the AST that reads the
 * drawn bits from an array, and the loop that fills the array.
 *
 * What is a draw is found by its value, however the sums in it were arranged: a node that depends on the words of a key and
 * a counter, and on a place at most, and is what threefry gives of them for several values of each.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { threefryNode } from "../../tensor/nodes/random.ts";
import { boundsOf } from "../../uop/algebra/bounds.ts";
import { argOf, ParamArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, toposort, type UOp, uop, variable } from "../../uop/core/uop.ts";
import { rebuild } from "../../uop/rewrite/walk.ts";

/** The names of the variables of a draw, in this order: the words of the counter and of the key, high ones first. */
const ROLES = ["rngHigh", "rng", "rngKey0", "rngKey1"] as const;
/** Times that values are compared: one alike by chance is one in 2^32. */
const TRIES = 2;
/** Elements of an array of bits, at most. */
const MOST = 1 << 24;

/** Bits that a kernel draws. */
export interface Draw {
  /** The slot by which the kernel reads them. */
  readonly slot: number;
  readonly size: number;
  /** The place of the first: below 0 where padding asks for places before the draw, which nothing then uses. */
  readonly from: number;
  /** The variables of the kernel that are its key and counter, in the order of the roles. */
  readonly variables: readonly UOp[];
  /** Which of the two words that threefry gives, or both, one over the other. */
  readonly word: "a" | "b" | "a ^ b";
}

/** An AST whose draws are read from arrays. */
export interface Folded {
  readonly ast: UOp;
  readonly draws: readonly Draw[];
}

/** What a node depends on, where that can be a draw; null where it cannot. */
type Leaves = readonly UOp[] | null;

const ARITHMETIC: readonly number[] = [Ops.ADD, Ops.MUL, Ops.XOR, Ops.OR, Ops.SHL, Ops.SHR];

function leavesOf(u: UOp, known: ReadonlyMap<UOp, Leaves>): Leaves {
  if (u.dtype !== dtypes.uint32) return null;
  if (u.op === Ops.CONST) return [];
  if (u.op === Ops.VARIABLE || (u.op === Ops.CAST && u.src[0].dtype.isInt)) return [u];
  if (!ARITHMETIC.includes(u.op)) return null;
  const all = new Set<UOp>();
  for (const s of u.src) {
    const own = known.get(s);
    if (own === undefined || own === null) return null;
    for (const leaf of own) all.add(leaf);
  }
  return all.size > ROLES.length + 1 ? null : [...all];
}

function evaluated(u: UOp, of: ReadonlyMap<UOp, number>): number {
  if (u.op === Ops.CONST) return Number(argOf(u, Ops.CONST)) >>> 0;
  const [x, y] = u.src.map((s) => of.get(s)!);
  switch (u.op) {
    case Ops.ADD:
      return x + y >>> 0;
    case Ops.MUL:
      return Math.imul(x, y) >>> 0;
    case Ops.XOR:
      return (x ^ y) >>> 0;
    case Ops.OR:
      return (x | y) >>> 0;
    case Ops.SHL:
      return y > 31 ? 0 : x << y >>> 0;
    default:
      return y > 31 ? 0 : x >>> y;
  }
}

/** What threefry gives of a counter and a key. */
const hash = ((): (values: readonly number[]) => readonly [number, number] => {
  const [high, low, key0, key1] = ROLES.map((name) => variable(name, 0, 2 ** 32 - 1, dtypes.uint32));
  const made = threefryNode([key0, key1], [high, low]), order = toposort(uop(Ops.XOR, dtypes.uint32, made));
  return (values) => {
    const of = new Map<UOp, number>([high, low, key0, key1].map((u, i) => [u, values[i]]));
    for (const u of order) if (!of.has(u)) of.set(u, evaluated(u, of));
    return [of.get(made[0])!, of.get(made[1])!];
  };
})();

/** A number for a leaf, of all 32 bits. */
function numberFor(at: number, time: number): number {
  return Math.imul(at + 1, 0x9e3779b1) + Math.imul(time + 1, 0x85ebca6b) >>> 0;
}

/**
 * The draws of a kernel, as arrays that it reads.
 *
 * @param slots how many arrays it has
 * @param roleOf the name of a variable in the program's schedule, without its number
 */
export function foldDraws(ast: UOp, slots: number, roleOf: (u: UOp) => string): Folded {
  const none: Folded = { ast, draws: [] }, order = toposort(ast);
  if (!order.some((u) => u.op === Ops.VARIABLE && roleOf(u) === ROLES[0])) return none;
  const leaves = new Map<UOp, Leaves>(), values = Array.from({ length: TRIES }, () => new Map<UOp, number>());
  order.forEach((u, i) => {
    const own = leavesOf(u, leaves);
    leaves.set(u, own);
    if (own === null) return;
    values.forEach((of, time) => of.set(u, own[0] === u ? numberFor(i, time) : evaluated(u, of)));
  });
  const found = new Map<UOp, Pick<Draw, "word" | "variables"> & { place: UOp | undefined }>();
  const wordOf = (u: UOp, variables: readonly UOp[], place: UOp | undefined): Draw["word"] | undefined => {
    const same: Record<Draw["word"], boolean> = { "a ^ b": true, a: true, b: true };
    for (const of of values) {
      const [high, low, key0, key1] = variables.map((v) => of.get(v)!), at = place === undefined ? 0 : of.get(place)!;
      const [a, b] = hash([high, low + at >>> 0, key0, key1]), made = of.get(u)!;
      same.a &&= made === a;
      same.b &&= made === b;
      same["a ^ b"] &&= made === (a ^ b) >>> 0;
    }
    return (["a ^ b", "a", "b"] as const).find((word) => same[word]);
  };
  for (const u of order) {
    const own = leaves.get(u);
    if (!own || (u.op !== Ops.XOR && u.op !== Ops.ADD) || own.length < ROLES.length) continue;
    const variables = ROLES.map((role) => own.find((l) => l.op === Ops.VARIABLE && roleOf(l) === role));
    const rest = own.filter((l) => !variables.includes(l)), [place] = rest;
    if (variables.includes(undefined) || rest.length > 1 || (place !== undefined && place.op !== Ops.CAST)) continue;
    const word = wordOf(u, variables as UOp[], place);
    if (word !== undefined) found.set(u, { word, variables: variables as UOp[], place });
  }
  const draws: Draw[] = [], known = new Map<string, Draw>(), reads = new Map<UOp, UOp>();
  for (const [u, { word, variables, place }] of found) {
    const at = place?.src[0] ?? constant(0, dtypes.int32), [least, most] = boundsOf(at);
    const from = Math.min(0, least), size = most - from + 1;
    if (!(size <= MOST)) continue;
    const key = `${word} ${from} ${size} ${variables.map((v) => argOf(v, Ops.VARIABLE).name)}`;
    let draw = known.get(key);
    if (draw === undefined) {
      known.set(key, draw = { slot: slots + draws.length, size, from, variables, word });
      draws.push(draw);
    }
    const array = uop(Ops.PARAM, dtypes.uint32, [], new ParamArg(draw.slot, size));
    const index = from === 0 ? at : uop(Ops.ADD, at.dtype, [at, constant(-from, at.dtype)]);
    reads.set(u, uop(Ops.LOAD, dtypes.uint32, [uop(Ops.INDEX, dtypes.uint32, [array, index])]));
  }
  if (reads.size === 0) return none;
  const folded = rebuild(ast, (u) => reads.get(u)), left = new Set(toposort(folded));
  // a word that only stands in the other one is not read
  return { ast: folded, draws: draws.filter(({ slot }) => [...left].some((u) => isParam(u, slot))) };
}

function isParam(u: UOp, slot: number): boolean {
  return u.op === Ops.PARAM && argOf(u, Ops.PARAM).slot === slot;
}

/** The lines that fill the array `name` with the bits of a draw; `numbers` are the texts of its variables. */
export function drawLines(name: string, { size, from, word }: Draw, numbers: readonly string[]): string[] {
  const [high, low, key0, key1] = numbers;
  return [
    `// ${name}: ${
      size === 1 ? "a number" : `${size} numbers`
    } of 32 random bits, threefry2x32 of the counter and the key`,
    `const ${name} = new Uint32Array(${size});`,
    `for (let i = 0; i < ${size}; i++) {`,
    `  const key = [${key0}, ${key1}, (${key0} ^ ${key1} ^ 0x1bd11bda) >>> 0];`,
    `  let a = ${high} + key[0] >>> 0, b = i${from === 0 ? "" : ` - ${-from}`} + ${low} + key[1] >>> 0;`,
    `  for (let round = 0; round < 20; round++) {`,
    `    const by = [13, 15, 26, 6, 17, 29, 16, 24][round % 8];`,
    `    a = a + b >>> 0;`,
    `    b = ((b << by | b >>> 32 - by) ^ a) >>> 0;`,
    `    if (round % 4 !== 3) continue;`,
    `    const part = (round + 1) / 4;`,
    `    a = a + key[part % 3] >>> 0;`,
    `    b = b + key[(part + 1) % 3] + part >>> 0;`,
    `  }`,
    `  ${name}[i] = ${word}${word === "a ^ b" ? " >>> 0" : ""};`.replace("a ^ b >>> 0", "(a ^ b) >>> 0"),
    `}`,
  ];
}
