/**
 * Wrong arguments to public functions (arguments.ts): every function is in the tables, the calls of the tables are right,
 * and a part of what the generator makes finds nothing. What it found is in the tables of errors_test.ts.
 */
import assert from "node:assert/strict";
import { ArgumentError, Device, Tensor } from "../../mod.ts";
import { checkOptions, describe } from "../../src/helpers/options.ts";
import { Random } from "../support/random.ts";
import { caseOf, type Change, changesOf, publicFunctions, putBack, tryCase, wrongChanges } from "./arguments.ts";

Device.default = "WASM";
const { targets, missing, unknown } = publicFunctions();

Deno.test("arguments: every public function has a valid call, or a reason why it has none", () => {
  assert.deepEqual(missing, []);
  assert.deepEqual(unknown, []);
  assert.ok(targets.length > 450, String(targets.length));
});

/** Formats that the bytes at hand are not, and folders that cannot be. */
const REFUSED =
  /^state\.(distLoad|distSave|npySave|npzLoad|npzSave|safeSave|saveCheckpoint|tarExtract|torchLoad|zipExtract)$/;

Deno.test("arguments: the valid calls are right", async () => {
  for (const { name, make, apply } of targets) {
    const call = make(), act = () => apply(call.self, call.args.map((a) => a.value));
    if (REFUSED.test(name)) await assert.rejects(async () => await act(), name);
    else {
      await (call.training ? Tensor.train(act) : act());
      putBack("WASM");
    }
  }
});

Deno.test("arguments: without one that must be", async () => {
  const found: string[] = [];
  for (const target of targets) {
    const { args } = target.make();
    for (const change of changesOf(target)) {
      if (change.kind !== "missing" || args[change.at].optional) continue;
      const { text, why } = await tryCase(target, [change]);
      if (why !== undefined) found.push(`${text}\n  ${why}`);
    }
  }
  assert.deepEqual(found, []);
});

Deno.test("arguments: what a seed makes", async () => {
  const found: string[] = [];
  for (let i = 0; i < 200; i++) {
    const { text, why } = await tryCase(...caseOf(targets, 5, i));
    if (why !== undefined) found.push(`${text}\n  ${why}`);
  }
  assert.deepEqual(found, []);
});

Deno.test("arguments: each argument and each option with two values that it must refuse", async () => {
  const found: string[] = [], random = new Random(11);
  for (const target of targets) {
    const places = new Map<string, Change[]>();
    for (const change of wrongChanges(target)) {
      if (change.kind !== "value") continue;
      const key = `${change.at} ${change.option}`;
      places.set(key, [...places.get(key) ?? [], change]);
    }
    for (const changes of places.values()) {
      for (const change of [random.pick(changes), random.pick(changes)]) {
        const { text, why } = await tryCase(target, [change]);
        if (why !== undefined) found.push(`${text}\n  ${why}`);
      }
    }
  }
  assert.deepEqual(found, []);
});

Deno.test("arguments: an option of another type is an error that names it, undefined is absent", () => {
  const known = ["keepdim", "eps", "mode", "gradFxn", "other"];
  for (
    const [given, text] of [
      [{ keepdim: 1 }, "Cannot act: keepdim must be a boolean, not 1"],
      [{ eps: "1" }, 'Cannot act: eps must be a number, not "1"'],
      [{ mode: null }, "Cannot act: mode must be text, not null"],
      [{ gradFxn: {} }, "Cannot act: gradFxn must be a function, not an object"],
      [new Date(0), `Cannot act: the options must be an object with ${known.join(", ")}, not a Date`],
      [Tensor.ones([2]), `Cannot act: the options must be an object with ${known.join(", ")}, not a Tensor`],
    ] as const
  ) assert.throws(() => checkOptions("act", given, known), (e) => e instanceof ArgumentError && e.message === text);
  const right = { keepdim: undefined, eps: 1, mode: "a", gradFxn: () => 1, other: Symbol("any") };
  assert.equal(checkOptions("act", right, known), right);
  assert.deepEqual(checkOptions("act", undefined as unknown, known), {});
  assert.equal(checkOptions("act", Object.assign(Object.create(null), { eps: 2 }), known).eps, 2);
});

Deno.test("arguments: any value can be described", () => {
  const failing = {
    toString() {
      throw new Error("turned to text");
    },
  };
  const unkind = Object.create(Object.create(Object.create({}), {
    constructor: {
      get(): never {
        throw new Error("asked for its class");
      },
    },
  }));
  for (
    const [value, text] of [
      [undefined, "undefined"],
      [7n, "7n"],
      [Symbol("s"), "Symbol(s)"],
      [failing, "an object"],
      [Object.create(null), "an object"],
      [Promise.resolve(), "a Promise"],
      [new Int8Array(1), "an Int8Array"],
      [new Uint8Array(1), "a Uint8Array"],
      [new URL("file:///"), "a URL"],
      [[1, [2]], "a list of 2"],
      [unkind, "an object"],
      ["a".repeat(50), `"${"a".repeat(40)}..."`],
    ] as const
  ) assert.equal(describe(value), text);
});
