/**
 * Valid calls of what the bodies of custom kernels are built of.
 *
 * @module
 */
import { kernel } from "../../../mod.ts";
import { UOp } from "../../../src/uop/core/uop.ts";
import { f32, free, made, type MakeCall } from "./argument_makers.ts";
import { type Arg, count, either, instance, int, list, maybe, scalar } from "./argument_kinds.ts";

const node = (u: UOp): Arg => instance(u, UOp), buffer = (): Arg => node(f32(3).asParam(0));
const place = (): Arg => either(1, int(1), node(kernel.loop(3))), gate = (): Arg => node(kernel.loop(3).lt(2));
const folded = made(() => {
  const i = kernel.reduceLoop(3);
  return [node(kernel.read(f32(3).asParam(0), i)), list([i])];
});

/** The functions of `kernel`. */
export const KERNEL_FUNCTIONS: Readonly<Record<string, MakeCall>> = {
  "kernel.loop": free(count(3)),
  "kernel.reduceLoop": free(count(3)),
  "kernel.read": made(() => [buffer(), place(), maybe(gate())]),
  "kernel.write": made(() => [buffer(), place(), either(5, scalar(5), node(kernel.loop(3))), maybe(gate())]),
  "kernel.sum": () => folded(),
  "kernel.product": () => folded(),
  "kernel.max": () => folded(),
  "kernel.constant": made(() => [scalar(2), node(kernel.loop(3))]),
};
