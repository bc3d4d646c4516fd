/** What is to be loaded in forms that hosts have bytes in: which are taken, and what is told of those that are not. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ArgumentError, Device, state, Tensor } from "../../mod.ts";

Device.get();

Deno.test("source: what holds bytes, or will, is told how to become them", async () => {
  const bytes = await state.safeBytes({ t: new Tensor([1, 2, 3]) }), response = () => new Response(bytes);
  const refused: readonly (readonly [given: unknown, asFile: string, asBytes: string])[] = [
    [
      response(),
      "a Response; pass await response.blob(), its bytes",
      "a Response; pass new Uint8Array(await response.arrayBuffer())",
    ],
    [Promise.resolve(bytes), "a Promise; await it first", "a Promise; await it first"],
    [bytes.buffer, "", "an ArrayBuffer; pass new Uint8Array(buffer)"],
    [new Blob([bytes]), "", "a Blob; pass new Uint8Array(await blob.arrayBuffer())"],
    [undefined, "undefined", "undefined"],
  ];
  for (const [given, asFile, asBytes] of refused) {
    const parsed = assertThrows(() => state.safeParse(given as Uint8Array), ArgumentError);
    assertEquals(parsed.message, `Cannot parse: it takes the bytes as a Uint8Array, not ${asBytes}`);
    if (asFile === "") {
      assertEquals(await (await state.safeLoad(given as Blob)).t.tolist(), [1, 2, 3]);
      continue;
    }
    const loads: Record<string, (from: Blob) => Promise<unknown>> = {
      safetensors: state.safeLoad,
      "a file": state.torchLoad,
      "a checkpoint": (from) => state.loadCheckpoint(from),
    };
    for (const [what, load] of Object.entries(loads)) {
      const error = await assertRejects(() => load(given as Blob), ArgumentError);
      assertEquals(error.message, `Cannot load ${what}: it takes a path, a file: URL or bytes, not ${asFile}`);
    }
  }
  // and what is told works
  assertEquals(await (await state.safeLoad(await response().blob())).t.tolist(), [1, 2, 3]);
  assertEquals(await state.safeParse(new Uint8Array(await response().arrayBuffer())).t.tolist(), [1, 2, 3]);
  const saved = await assertRejects(() => state.safeSave({}, response() as unknown as string), ArgumentError);
  assertEquals(saved.message, "Cannot save tensors: it takes a path or a file: URL, not a Response");
});
