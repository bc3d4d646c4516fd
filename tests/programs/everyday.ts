/** Everyday programs as tests. */
import { Tensor } from "../../mod.ts";
import { onDevice } from "../support/on_device.ts";

/** Makes a test of a program: on WASM, its random numbers of one seed. */
export function programs(title: string, seed: number): (name: string, run: () => void | Promise<void>) => void {
  return (name, run) =>
    Deno.test(`${title}: ${name}`, () =>
      onDevice("WASM", () => {
        Tensor.manualSeed(seed);
        return run();
      }));
}
