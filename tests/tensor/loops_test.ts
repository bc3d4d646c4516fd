/**
 * Loops that replace what they compute, `u = step(u)`: what they hold does not grow where they await a read, run under
 * scope() or donate; a bare synchronous one is refused, and what the refusal says to do helps. Memory that is given back
 * after a refusal is there at once.
 */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { context, Device, jit, OutOfMemoryError, scope, Tensor } from "../../mod.ts";
import { settleMemory } from "../../src/device/pressure.ts";
import { devicesHere } from "../fixtures/devices.ts";

const devices = await devicesHere("JS", "WEBGPU", "CUDA");
const usual = Device.default, MB = 2 ** 20;
/** Elements of 1 MB. */
const N = 2 ** 18, STEPS = 100, LIMIT = 64 * MB;

/** One test a device, where it may hold 64 MB. */
function each(name: string, fn: () => void | Promise<void>, on: readonly string[] = devices): void {
  for (const device of on) {
    Deno.test(`loops ${device}: ${name}`, async () => {
      Device.default = device;
      await settleMemory();
      try {
        await context({ MAX_MEMORY: LIMIT }, fn);
      } finally {
        Device.default = usual;
      }
    });
  }
}

/** 1 MB of zeros, and a step that adds 1. */
const zeros = (): Tensor => Tensor.zeros([N]).clone().realize();
const step = jit((u: Tensor) => u.add(1));
const ends = async (u: Tensor, count = STEPS): Promise<void> =>
  assertEquals(await u.at([0, 2]).tolist(), [count, count]);

each("u = step(u), where each step is read", async () => {
  let u = zeros();
  for (let i = 1; i <= STEPS; i++) {
    u = step(u);
    assertEquals(await u.at(i % 7).item(), i);
  }
});

each("w = w.add(1), where each step is read", async () => {
  let w = zeros();
  for (let i = 1; i <= STEPS; i++) {
    w = w.add(1);
    const values = await w.data();
    assertEquals(values[i], i);
  }
}, ["WASM"]);

each("u = scope(() => step(u))", async () => {
  let u = zeros();
  for (let i = 0; i < STEPS; i++) u = scope(() => step(u));
  await ends(u);
});

each("w = scope(() => w.add(1).realize())", async () => {
  let w = zeros();
  for (let i = 0; i < STEPS; i++) w = scope(() => w.add(1).realize());
  await ends(w);
}, ["WASM"]);

each("a loop within scope()", async () => {
  const u = scope(() => {
    let u = zeros();
    for (let i = 0; i < STEPS; i++) u = step(u);
    return u;
  });
  await ends(u);
}, ["WASM"]);

each("scopes within scope()", async () => {
  const kept = zeros();
  const u = scope(() => {
    let u = zeros();
    for (let i = 0; i < STEPS; i++) u = scope(() => step(u.add(kept).realize()));
    return u;
  });
  await ends(u);
  await ends(kept, 0);
}, ["WASM"]);

each("u = step(u) with donate: true", async () => {
  const donating = jit((o: { u: Tensor }, by: number) => ({ u: o.u.add(by) }), { donate: true });
  let o = { u: zeros() };
  for (let i = 0; i < STEPS; i++) o = donating(o, 1);
  await ends(o.u);
});

each("a bare one is refused, and each advice helps", async () => {
  const names = /Cannot allocate .*scope\(\) around each step.*\{ donate: true \}.*or await a read now and then/s;
  let u = zeros();
  const error = assertThrows(() => {
    for (let i = 0; i < STEPS; i++) u = step(u);
  }, OutOfMemoryError);
  assertMatch(error.message, names);
  // at once, in the same job: everything else has been dropped
  u = zeros();
  for (let i = 0; i < STEPS; i++) u = scope(() => step(u)); // as it says
  await ends(u);
  const donating = jit((x: Tensor) => x.add(1), { donate: true });
  for (let i = 0; i < STEPS; i++) u = donating(u); // as it says
  await ends(u, 2 * STEPS);
  for (let i = 0; i < STEPS; i++) {
    u = step(u);
    await u.at(0).item(); // as it says
  }
  await ends(u, 3 * STEPS);
});

/** Fills memory until it is refused; gives what is held. */
function fill(): Tensor[] {
  const held: Tensor[] = [];
  assertThrows(() => {
    for (;;) held.push(zeros());
  }, OutOfMemoryError);
  assert(held.length > 20, `${held.length}`);
  return held;
}

each("after a refusal, what is disposed of is there at once", () => {
  const held = fill();
  for (const t of held.splice(0, 10)) t.dispose();
  Tensor.zeros([9 * N]).clone().realize().dispose();
  for (const t of held) t.dispose();
  Tensor.zeros([30 * N]).clone().realize().dispose();
});

each("after a refusal, what is dropped is there at once", () => {
  let held: Tensor[] | undefined = fill();
  held = undefined;
  assertEquals(held, undefined);
  Tensor.zeros([30 * N]).clone().realize().dispose();
});

each("after a refusal, what a scope held is there at once", () => {
  scope(() => void fill());
  Tensor.zeros([50 * N]).clone().realize().dispose();
}, ["WASM"]);

each("after a refusal in a step, the step can be taken again", async () => {
  const held = fill(), u = held[0];
  assertThrows(() => step(u), OutOfMemoryError);
  held.splice(1);
  await ends(step(u), 1);
}, ["WASM"]);
