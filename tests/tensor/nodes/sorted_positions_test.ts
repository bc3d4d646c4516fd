/** The first few of a long axis are found by its parts: as JavaScript finds them. */
import { assertEquals } from "@std/assert";
import { Device, Tensor } from "../../../mod.ts";

Device.get("WASM");

for (const [n, k, dtype] of [[8200, 5, "float32"], [17000, 100, "int32"], [9001, 3, "bool"]] as const) {
  Deno.test(`sorted positions: the ${k} largest of ${n} ${dtype} values, the first of equal ones`, async () => {
    const rows = [3, 5].map((step) => {
      return Array.from(
        { length: n },
        (_, i) => dtype === "bool" ? Number((i * step) % 4099 === 7) : (i * step) % 4001,
      );
    });
    const [values, positions] = new Tensor(rows, { dtype, device: "WASM" }).topk(k, 1);
    const want = rows.map((row) => row.map((v, i) => [v, i]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, k));
    assertEquals(await positions.tolist(), want.map((row) => row.map(([, i]) => i)));
    assertEquals((await values.tolist() as number[][]).map((r) => r.map(Number)), want.map((r) => r.map(([v]) => v)));
  });
}
