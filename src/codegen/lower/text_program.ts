/**
 * Kernels that a user wrote as text: nothing is generated for them. In: a SINK over the kernel's PARAMs with a TextArg.
 * Out: a program that carries the text to the compiler of the device.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { DeviceError } from "../../helpers/errors.ts";
import type { LinearProgram, Renderer } from "../../renderer/renderer.ts";
import type { ParamArg } from "../../uop/core/args.ts";
import type { TextArg } from "../../uop/core/custom_arg.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";

/** The program of a kernel that is given as text. @throws {DeviceError} where the device compiles another language */
export function textProgram(ast: UOp, arg: TextArg, { name }: Renderer): LinearProgram {
  const { language, entry, text, written, groups, threads } = arg;
  if (name !== language) {
    throw new DeviceError(`run kernel ${entry}`, {
      device: name,
      reason: `it is written in ${language}, and the device compiles ${name}`,
    });
  }
  const params = ast.src.map(({ dtype, arg }, slot) => {
    const writes = written.includes(slot), { size } = arg as ParamArg;
    return { slot, dtype, size, reads: true, writes };
  });
  const bytes = params.reduce((sum, p) => sum + p.size * p.dtype.itemsize, 0);
  const [x, y, z] = groups.map((n) => constant(n, dtypes.int32));
  const grid = { groups: [x, y, z], size: threads } as const;
  return { name: entry, uops: [], params, vars: [], threads: 1, grid, flops: 0, bytes, text };
}
