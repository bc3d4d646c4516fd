/** Arguments and results of jit functions as trees: which of them are one form, and what a result with other tensors is. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { Tensor, Variable } from "../../../mod.ts";
import { leavesOfTree, replaceTensors } from "../../../src/tensor/jit/jit_arguments.ts";
import type { TensorBase } from "../../../src/tensor/handle/base.ts";

const t = new Tensor([1, 2]), other = new Tensor([3, 4]);

function keyOf(tree: unknown): string {
  return leavesOfTree(tree, "test").key;
}

/** Pseudo-random numbers in [0, n). */
function draws(seed: number): (n: number) => number {
  return (n) => Math.floor(((seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32) * n);
}

/** A random tree, and its text: two trees are one form where their texts are equal. */
function randomTree(draw: (n: number) => number, depth: number): [tree: unknown, text: string] {
  const leaves: [unknown, string][] = [
    [t, "t"],
    [other, "t"],
    [1, "1"],
    [-0, "-0"],
    ["1", "'1'"],
    ["T,", "'T,'"],
    [
      null,
      "null",
    ],
    [undefined, "undefined"],
    [true, "true"],
    ["],[", "'],['"],
  ];
  const kind = depth === 0 ? 0 : draw(5);
  if (kind <= 1) return leaves[draw(leaves.length)];
  const parts = Array.from({ length: draw(3) }, () => randomTree(draw, depth - 1)), texts = parts.map(([, s]) => s);
  const values = parts.map(([v]) => v);
  if (kind === 2) return [values, `[${texts}]`];
  if (kind === 3) return [new Map(values.map((v, i) => [i, v])), `M(${texts})`];
  return [Object.fromEntries(values.map((v, i) => [`k${i}`, v])), `{${texts}}`];
}

Deno.test("jit arguments: trees have one key where they differ in tensors alone", () => {
  const draw = draws(7), keys = new Map<string, string>(), texts = new Map<string, string>();
  for (let i = 0; i < 4000; i++) {
    const [tree, text] = randomTree(draw, 3), key = keyOf(tree);
    assertEquals(keys.get(text) ?? key, key, text);
    assertEquals(texts.get(key) ?? text, text, key);
    keys.set(text, key);
    texts.set(key, text);
  }
  assert(keys.size > 500);
});

Deno.test("jit arguments: tensors in the order of the tree, bound variables by name", () => {
  const n = new Variable("n", 1, 9).bind(4);
  const { tensors, bound, key } = leavesOfTree([t, { a: n, b: [other, t] }], "test");
  assertEquals(tensors.length, 3);
  [t, other, t].forEach((want, i) => assertStrictEquals(tensors[i], want));
  assertEquals([...bound], [["n", 4]]);
  assertEquals(key, keyOf([other, { a: new Variable("n", 1, 9).bind(5), b: [t, t] }]));
  assertEquals(leavesOfTree([t], "test").bound.size, 0);
});

Deno.test("jit arguments: a tree with other tensors is a copy as far as they go, and keeps its cycles", () => {
  class Pair {
    constructor(public a: unknown, public b: unknown) {}
  }
  const plain = { x: 1 }, ring: unknown[] = [t];
  ring.push(ring);
  const tree = new Pair(new Map<string, unknown>([["m", t], ["p", plain]]), [new Set([t]), ring, plain]);
  const made = replaceTensors(tree, () => other as TensorBase) as Pair;
  assert(made instanceof Pair);
  assert(made !== tree);
  const map = made.a as Map<string, unknown>, [set, again, kept] = made.b as [Set<unknown>, unknown[], unknown];
  assertStrictEquals(map.get("m"), other);
  assertStrictEquals(map.get("p"), plain);
  assert(set.has(other));
  assertStrictEquals(again[0], other);
  assertStrictEquals(again[1], again);
  assertStrictEquals(kept, plain);
  assertStrictEquals(replaceTensors(plain, () => other as TensorBase), plain);
});
