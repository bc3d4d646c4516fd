/** Every method of tensors on a device that is not the default one: what it gives is there, and can be read in any order. */
import { assertEquals } from "@std/assert";
import { Device, Tensor } from "../../mod.ts";
import { onDevice } from "../support/on_device.ts";
import { METHODS } from "../fuzz/parts/argument_calls.ts";

await Device.open("WASM");

/** What is elsewhere by its meaning, or moves what it is given. */
const ELSEWHERE: ReadonlySet<string> = new Set([
  "to",
  "toInPlace",
  "wasm",
  "clang",
  "webgpu",
  "cuda",
  "shard",
  "shardInPlace",
]);

/** The tensors of what a call is given or gives. */
function tensorsIn(x: unknown, depth = 0): Tensor[] {
  if (x instanceof Tensor) return [x];
  if (typeof x !== "object" || x === null || depth > 3 || ArrayBuffer.isView(x)) return [];
  return Object.values(x).flatMap((v) => tensorsIn(v, depth + 1));
}

Deno.test("other devices: a histogram between given ends has its edges where its data is", async () => {
  const x = onDevice("JS", () => new Tensor([0.5, 1, 2.5, 4], { dtype: "float32" }).realize());
  await onDevice("WASM", async () => {
    for (const isReversed of [false, true]) {
      const [counts, edges] = x.histogram(2, { min: 0, max: 4 }), lists: [number[], number[]] = [[], []];
      for (const i of isReversed ? [1, 0] : [0, 1]) lists[i] = await [counts, edges][i].tolist() as number[];
      assertEquals(lists, [[2, 2], [0, 2, 4]]);
      assertEquals([counts.device, edges.device], ["JS", "JS"]);
    }
  });
});

Deno.test("other devices: methods of tensors give what lies where they are called, in any order of reading", async () => {
  const wrong: string[] = [];
  let read = 0;
  for (const [name, make] of Object.entries(METHODS)) {
    if (ELSEWHERE.has(name)) continue;
    for (const isReversed of [false, true]) {
      const call = onDevice("JS", () => {
        const made = make(), given = tensorsIn([made.self, made.args.map((a) => a.value)]);
        for (const t of given) t.realize();
        return { ...made, given };
      });
      await onDevice("WASM", async () => {
        if (call.given.some((t) => t.device !== "JS")) return; // a complex constant, which stays one
        try {
          const self = call.self as Record<string, (...args: unknown[]) => unknown>;
          const act = (): unknown => self[name](...call.args.map((a) => a.value));
          const given = await (call.training ? Tensor.train(act) : act());
          const found = tensorsIn(given);
          for (const t of isReversed ? found.reverse() : found) {
            await t.data();
            read++;
            if (t.device !== "JS") wrong.push(`${name}: on ${t.device}`);
          }
        } catch (error) {
          if (!/the matrix is singular/.test(String(error))) wrong.push(`${name}: ${error}`); // it is one of ones
        }
      });
    }
  }
  assertEquals(wrong, []);
  assertEquals(read > 900, true, String(read));
});
