/** Tensor is flat: its families of methods stand side by side, and say what they are written in. */
import assert from "node:assert/strict";
import { TensorBase } from "../../src/tensor/handle/base.ts";
import { FAMILIES, Tensor } from "../../src/tensor/tensor.ts";

Deno.test("tensor: families stand on the handle alone", () => {
  for (const { prototype } of [Tensor, ...FAMILIES]) {
    assert.equal(Object.getPrototypeOf(prototype), TensorBase.prototype, prototype.constructor.name);
  }
});

Deno.test("tensor: no two families have a member of one name, and Tensor has them all", () => {
  const owner = new Map<PropertyKey, string>();
  for (const { prototype } of [TensorBase, ...FAMILIES]) {
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
