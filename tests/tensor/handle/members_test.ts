/** Methods for a class: all members come along as they were, and many take no more than their number. */
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { addFamilies, type Family } from "../../../src/tensor/handle/members.ts";
import { Tensor } from "../../../mod.ts";

Deno.test("members: methods, getters and symbols, not the constructor, none of them enumerable", () => {
  const key = Symbol("key");
  class From {
    static four = 4;
    get two(): number {
      return 2;
    }
    three(): number {
      return 3;
    }
    [key](): number {
      return 4;
    }
  }
  class Target {
    one(): number {
      return 1;
    }
  }
  addFamilies(Target as unknown as Family, [From as unknown as Family]);
  const made = new Target() as Target & From;
  assertEquals([made.one(), made.two, made.three(), made[key](), made.constructor], [1, 2, 3, 4, Target]);
  assertEquals(Reflect.ownKeys(Target.prototype), ["constructor", "one", "two", "three", key]);
  assertEquals([Object.keys(Target.prototype), Object.keys(Tensor.prototype)], [[], []]);
  assertEquals([(Target as unknown as typeof From).four, Target.name], [4, "Target"]);
});

Deno.test("members: thousands take the time of thousands", () => {
  const from = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`method${i}`, () => i]));
  const time = (ready: boolean): number => {
    class Target {}
    const before = process.cpuUsage();
    if (ready) addFamilies(Target as unknown as Family, [{ prototype: from } as unknown as Family]);
    else for (const [name, value] of Object.entries(from)) Object.defineProperty(Target.prototype, name, { value });
    assertEquals(Object.getOwnPropertyNames(Target.prototype).length, 3001);
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  const many = Math.min(time(true), time(true), time(true)), plain = Math.min(time(false), time(false));
  assert(many * 3 < plain, `${many} us, and ${plain} without`);
});
