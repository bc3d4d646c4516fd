/**
 * Programs written by hand on a real CUDA device, against the JS device: every op in every dtype, conversions, memory in all
 * its forms, barriers, shuffles, asynchronous copies, matrix units. By whichever of its languages the device renders
 * (PTX=1 chooses PTX).
 */
import { assertEquals } from "@std/assert";
import { Device } from "../../../mod.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { gpuPrograms } from "../../renderer/gpu_programs.ts";
import { checkPrograms, drawOf } from "../../renderer/oracle.ts";

const found = Device.list().find((d) => d.name === "CUDA");
const device = found?.available ? Device.get("CUDA") : undefined;

Deno.test({
  name: "CUDA: programs written by hand give what JS gives",
  ignore: device === undefined,
  fn: () => {
    const hasFunctions = device!.renderer.caps.nativeOps.includes(Ops.SIN), programs = gpuPrograms(hasFunctions);
    const compiled = device!.compiler.compile(programs);
    const failed = checkPrograms(programs, drawOf, (k) => (data, vars) => {
      const buffers = programs[k].params.map((p, i) => {
        const buffer = new Buffer(device!, p.dtype, p.size);
        buffer.copyIn(data[i]);
        return buffer;
      });
      device!.run([{ program: compiled[k], buffers, vars }]);
      buffers.forEach((b, i) => b.copyOut(data[i]));
    });
    assertEquals(failed, []);
  },
});
