/** What the two files of programs that write in place share: their numbers, how they run, and what PyTorch computes. */
import { assertClose, assertEquals } from "@std/assert";
import { jit, Tensor } from "../../mod.ts";
import { onDevice } from "../support/on_device.ts";

/** A function as it is, or under jit. */
export type Under = <A extends unknown[], R>(f: (...args: A) => R) => (...args: A) => R;
/** Programs by name: the numbers that each ends with. */
export type Programs = Readonly<Record<string, (under: Under) => Promise<number[]>>>;

/** What tests/fixtures/programs/inplace_programs.py prints. */
const WANT = JSON.parse(
  Deno.readTextFileSync(new URL("../fixtures/programs/inplace_programs.json", import.meta.url)),
) as Record<string, number[]>;

/** The numbers of PyTorch's program. */
export function data(shape: number[], seed: number): Tensor {
  const count = shape.reduce((a, b) => a * b, 1);
  return new Tensor(Float32Array.from({ length: count }, (_, i) => Math.sin(i * 1.3 + seed))).reshape(shape);
}
/** As `data`, requiring a gradient. */
export function leaf(shape: number[], seed: number): Tensor {
  const t = data(shape, seed);
  t.requiresGrad = true;
  return t;
}
/** All numbers of numbers and tensors, in a row. */
export async function numbersOf(...given: (Tensor | number | readonly (Tensor | number)[])[]): Promise<number[]> {
  const rows = await Promise.all(
    given.flat().map(async (x) => x instanceof Tensor ? [...await x.float().data()] : [x]),
  );
  return rows.flat().map(Number);
}

/** Tests that programs end with what PyTorch computes, as they are and under jit, on each device. */
export function testPrograms(programs: Programs): void {
  for (const device of ["JS", "WASM"]) {
    for (const [how, under] of [["", (f) => f], [", under jit", jit]] as readonly [string, Under][]) {
      for (const [name, program] of Object.entries(programs)) {
        Deno.test(`programs in place ${device}: ${name}${how}`, async () => {
          await onDevice(device, async () => {
            const got = await program(under), want = WANT[name.split(",")[0]];
            assertEquals(got.length, want.length);
            assertClose(got, want, 1e-4);
          });
        });
      }
    }
  }
}
