/** What is loaded late: at once where that can be, else by who awaits it; failures are told, and no end. */
import assert from "node:assert/strict";
import { isLate, needParts, partsReady, setLateParts } from "../../src/device/parts.ts";
import { DeviceError } from "../../src/helpers/errors.ts";

Deno.test("parts: where nothing is late nothing is asked for", async () => {
  assert.equal(isLate(), false);
  needParts("realize a tensor");
  await partsReady();
});

Deno.test("parts: what can be loaded at once is", () => {
  let loaded = 0;
  setLateParts({ now: () => ++loaded > 0, later: () => Promise.reject(new Error("not asked for")) });
  assert.equal(isLate(), true);
  needParts("realize a tensor");
  needParts("realize a tensor");
  assert.deepEqual([isLate(), loaded], [false, 1]);
});

Deno.test("parts: what cannot is an error until somebody has awaited it; one that fails is tried again", async () => {
  let tries = 0;
  setLateParts({
    now: () => false,
    later: async () => {
      await Promise.resolve();
      if (++tries === 1) throw new TypeError("Failed to fetch");
    },
  });
  const early = {
    name: "DeviceError",
    message: "Cannot realize a tensor: what compiles kernels is not loaded yet; await init() first, or any value",
  };
  assert.throws(() => needParts("realize a tensor"), early);
  const both = await Promise.allSettled([partsReady(), partsReady()]);
  for (const r of both) {
    assert.ok(r.status === "rejected" && r.reason instanceof DeviceError);
    assert.equal(r.reason.message, "Cannot load what compiles kernels: TypeError: Failed to fetch");
  }
  assert.equal(tries, 1); // both waited for one
  assert.throws(() => needParts("realize a tensor"), early);
  await Promise.all([partsReady(), partsReady()]);
  assert.deepEqual([isLate(), tries], [false, 2]);
  needParts("realize a tensor");
});
