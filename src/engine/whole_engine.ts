/**
 * All of the engine: what `mod.ts` sets (front/engine.ts), and what pages load when they first need it.
 *
 * @module
 */
import { compileKernels } from "./compile_cache.ts";
import { groupOf } from "../device/group.ts";
import { Mesh } from "../device/mesh.ts";
import { checkShards, shardingOf } from "../schedule/multi/lower_shards.ts";
import { simplify } from "../uop/algebra/symbolic.ts";
import { copyBuffer } from "./copy_buffer.ts";
import { checkKernel, fitsTensor } from "../codegen/opt/kernel_check.ts";
import type { Engine } from "./front/engine.ts";
import { realizeNodes, realizeUnheard, scheduleItems } from "./realize_nodes.ts";
import { Replay } from "./replay.ts";
import { selfTest, selfTestAsync } from "./self_test.ts";

/** The engine of the library. */
export const wholeEngine: Engine = {
  realizeNodes,
  realizeUnheard,
  scheduleItems,
  compileKernels,
  copyBuffer,
  simplify,
  checkShards,
  shardingOf,
  groupOf,
  makeMesh: (axes, options) => Mesh.of(axes, options),
  checkKernel,
  fitsTensor,
  makeReplay: (recording, spec) => new Replay(recording, spec),
  selfTest,
  selfTestAsync,
};
