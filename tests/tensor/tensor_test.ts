/** Tensor is flat: its families of methods stand side by side, and say what they are written in. */
import assert from "node:assert/strict";
import { TensorBase } from "../../src/tensor/handle/base.ts";
import { IN_PLACE } from "../../src/tensor/inplace.ts";
import { ACTIVATIONS, PARAMETRIC } from "../../src/tensor/ops/activation.ts";
import { BINARY, CASTS, UNARY } from "../../src/tensor/ops/elementwise.ts";
import { FUNCTIONS } from "../../src/tensor/ops/functions.ts";
import { REDUCTIONS } from "../../src/tensor/ops/reduce.ts";
import { FAMILIES } from "../../src/tensor/families.ts";
import { BINARY_HIGHER, HIGHER_FUNCTIONS } from "../../src/tensor/ops/higher_functions.ts";
import { BINARY_SPECIAL } from "../../src/tensor/ops/special.ts";
import { LATE_FAMILIES } from "../../src/tensor/late_families.ts";
import { Tensor } from "../../mod.ts";

const ALL = [...FAMILIES, ...LATE_FAMILIES];

Deno.test("tensor: families stand on the handle alone", () => {
  for (const { prototype } of [Tensor, ...ALL]) {
    assert.equal(Object.getPrototypeOf(prototype), TensorBase.prototype, prototype.constructor.name);
  }
});

Deno.test("tensor: no two families have a member of one name, and Tensor has them all", () => {
  const owner = new Map<PropertyKey, string>();
  for (const { prototype } of [TensorBase, ...ALL]) {
    for (const name of Reflect.ownKeys(prototype)) {
      if (name === "constructor") continue;
      assert.equal(owner.get(name), undefined, `${String(name)} of ${prototype.constructor.name}`);
      owner.set(name, prototype.constructor.name);
      const made = Object.getOwnPropertyDescriptor(prototype, name);
      // what the handle leaves to Tensor: lists beside a tensor
      if (prototype !== TensorBase.prototype) {
        assert.deepEqual(Object.getOwnPropertyDescriptor(Tensor.prototype, name), made, String(name));
      }
    }
  }
  assert.ok(owner.size > 300, String(owner.size));
});

Deno.test("tensor: what interfaces of families declare is made by their rows, and nothing else", async () => {
  const declared = new Set<string>();
  const files = ["elementwise", "functions", "activation", "reduce", "special", "higher_functions"];
  for (const file of [...files.map((name) => `ops/${name}`), "inplace"]) {
    const text = await Deno.readTextFile(new URL(`../../src/tensor/${file}.ts`, import.meta.url));
    const [, body] = /export interface \w+Tensor extends [^{]*\{\n(.*?)\n\}/s.exec(text)!;
    for (const [, name] of body.matchAll(/^ {2}(\w+)\(/gm)) declared.add(name);
  }
  const tables: object[] = [ACTIVATIONS, BINARY, CASTS, FUNCTIONS, IN_PLACE, PARAMETRIC, REDUCTIONS, UNARY];
  tables.push(BINARY_SPECIAL, HIGHER_FUNCTIONS, BINARY_HIGHER);
  assert.deepEqual(tables.flatMap((rows) => Object.keys(rows)).sort(), [...declared].sort());
  for (const name of declared) {
    const method = Object.getOwnPropertyDescriptor(Tensor.prototype, name)!;
    assert.equal(method.value.name, name);
    assert.equal(method.enumerable, false);
  }
});
