/**
 * The data that breadth's workloads share with other libraries, and how its measurements are put together.
 *
 * @module
 */
import assert from "node:assert/strict";
import { geometricMean } from "../../bench/breadth.ts";
import { breadthWorkloads, data, ints } from "../../bench/breadth_workloads.ts";
import { bestPeers, tableRow } from "../../bench/json.ts";
import { Device } from "../../mod.ts";

Device.get(Device.default); // opened outside of tests

/** The sequence by big integers. */
function expected(seed: number, i: number): bigint {
  const prime = 2147483647n;
  return (BigInt(i) * 1103515245n + 12345n + BigInt(seed) * 7919n) % prime * 48271n % prime;
}

Deno.test("breadth: data is a fixed sequence", async () => {
  const numbers = await data(3, [50, 4]).data(), whole = await ints(2, 1000, [100]).data();
  for (let i = 0; i < 200; i++) {
    const unit = Math.fround(Number(expected(3, i) % 65536n) / 65536 - 0.5);
    assert.ok(Math.abs(Number(numbers[i]) - unit * 3.4) < 1e-6, `number ${i}`);
  }
  for (let i = 0; i < 100; i++) assert.equal(BigInt(Number(whole[i])), expected(2, i) % 1000n, `whole number ${i}`);
});

Deno.test("breadth: both scales have the same workloads, each with what it reads or computes", () => {
  const big = breadthWorkloads("big"), small = breadthWorkloads("small");
  assert.deepEqual(Object.keys(big), Object.keys(small));
  assert.equal(Object.keys(small).length, 32);
  for (const [name, w] of Object.entries(small)) {
    assert.ok(w.isWhole || w.flops !== undefined || w.nbytes !== undefined, name);
    assert.ok((w.flops ?? w.nbytes ?? 0) <= (big[name].flops ?? big[name].nbytes ?? 0), name);
  }
});

Deno.test("breadth: the better of the peers, and the geometric mean", () => {
  const best = bestPeers([
    "noise",
    `{"peer":"torch","name":"a","med_us":20,"check":1.5}`,
    `{"peer":"torch-compile","name":"a","med_us":10}`,
    `{"peer":"torch","name":"b","error":"no"}`,
    `{"peer":"torch-compile","name":"c","med_ms":0.5}`,
    `{"peer":"torch","name":"c","med_ms":0.25}`,
  ]);
  const a = { peer: "torch-compile", us: 10, check: 1.5 }, c = { peer: "torch", us: 250, check: undefined };
  assert.deepEqual([...best], [["a", a], ["c", c]]);
  const row = { name: "c", device: "CLANG", med_ms: 0.1, min_ms: 0.1, first_ms: 3, kernels: 1, gbs: 12.34 };
  assert.equal(tableRow(row, best.get("c")), "| c | 0.100 (12 GB/s) | 1 | 0.250 | torch | 2.50 |");
  assert.equal(tableRow({ ...row, name: "b" }, undefined), "| b | 0.100 (12 GB/s) | 1 | | | |");
  assert.ok(Math.abs(geometricMean([0.5, 2, 8]) - 2) < 1e-12);
});
