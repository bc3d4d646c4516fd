/**
 * The engine, as tensors ask for it: it schedules, compiles and runs graphs. `mod.ts` sets the one of whole_engine.ts; in
 * pages it may come later (src/device/parts.ts), so what is above imports only this.
 *
 * @module
 */
import type { Buffer } from "../../device/buffer.ts";
import { type Device, setSelfTest } from "../../device/device.ts";
import type { Mesh, MeshOptions } from "../../device/mesh.ts";
import { needParts } from "../../device/parts.ts";
import type { Program } from "../../device/program.ts";
import type { DeviceError } from "../../helpers/errors.ts";
import type { Shards } from "../../schedule/multi/shards.ts";
import { storedSchedules } from "../../schedule/stored_schedules.ts";
import { setSimplify } from "../../uop/algebra/sizes.ts";
import type { UOp } from "../../uop/core/uop.ts";
import type { Recording } from "../capture.ts";
import type { Replay, ReplaySpec } from "../replay.ts";
import { compiling, type ExecItem, type LoweredKernels, NO_LOWERED } from "./runners.ts";

/** What runs graphs. The functions are those of realize_nodes.ts, copy_buffer.ts, compile_cache.ts, symbolic.ts, lower_shards.ts, kernel_check.ts
 * and self_test.ts. */
export interface Engine {
  realizeNodes(nodes: readonly UOp[], beside?: readonly UOp[]): void;
  realizeUnheard(nodes: readonly UOp[]): void;
  scheduleItems(nodes: readonly UOp[]): ExecItem[];
  compileKernels(device: Device, asts: readonly UOp[]): Program[];
  copyBuffer(to: Buffer, from: Buffer): void;
  simplify(u: UOp): UOp;
  checkShards(root: UOp): Shards;
  shardingOf(root: UOp): string;
  groupOf(names: readonly string[]): Device;
  makeMesh: typeof Mesh.of;
  checkKernel(action: string, ast: UOp, params: readonly UOp[]): UOp;
  fitsTensor(u: UOp): true | string;
  makeReplay(recording: Recording, spec: ReplaySpec): Replay;
  selfTest(device: Device): DeviceError | undefined;
  selfTestAsync(device: Device): Promise<DeviceError | undefined>;
  /** Kernels that are kept for other processes; none where absent, as in pages, which have no files. */
  readonly lowered?: LoweredKernels;
}

let current: Engine | undefined;

/** Sets what runs graphs from now on. */
export function setEngine(engine: Engine): void {
  current = engine;
  compiling.compile = engine.compileKernels;
  compiling.lowered = engine.lowered ?? NO_LOWERED;
  storedSchedules.now = compiling.lowered.schedules;
  setSimplify(engine.simplify);
  setSelfTest(engine.selfTest, engine.selfTestAsync);
}

/** The engine, loaded now if need be. @throws {DeviceError} where that takes waiting */
function engine(action: string): Engine {
  if (current === undefined) needParts(action);
  return current!;
}

/** Realizes nodes: afterwards each has become a buffer (or a view of one), and so have the open writes `beside`. */
export function realizeNodes(nodes: readonly UOp[], beside?: readonly UOp[]): void {
  engine("realize a tensor").realizeNodes(nodes, beside);
}
/** Realizes what is no part of what is captured: once, and not in each replay. */
export function realizeUnheard(nodes: readonly UOp[]): void {
  engine("realize a tensor").realizeUnheard(nodes);
}
/** A graph's steps, without running them. */
export function scheduleItems(nodes: readonly UOp[]): ExecItem[] {
  return engine("schedule a tensor").scheduleItems(nodes);
}
/** Copies all of `from` into `to`. */
export function copyBuffer(to: Buffer, from: Buffer): void {
  engine("copy a buffer").copyBuffer(to, from);
}
/** What was recorded, made ready to run again. */
export function makeReplay(recording: Recording, spec: ReplaySpec): Replay {
  return engine("capture a function").makeReplay(recording, spec);
}
/** Sees to it that there is one, and with it what simplifies sizes that are expressions. */
export function needEngine(action: string): void {
  engine(action);
}
/** What a node is on each device. @throws {ShapeError} where values would move that nobody asked for */
export function checkShards(root: UOp): Shards {
  return engine("divide a tensor").checkShards(root);
}
/** How a node is divided, as text. @throws {ShapeError} where it cannot be computed as it is */
export function shardingOf(root: UOp): string {
  return engine("divide a tensor").shardingOf(root);
}
/** A kernel of a user's, which uses the given parameters, as given, and writes one. @throws {SpecError} @throws {ArgumentError} */
export function checkKernel(action: string, ast: UOp, params: readonly UOp[]): UOp {
  return engine(action).checkKernel(action, ast, params);
}
/** Whether tensors may have a node: true, or what is wrong. */
export function fitsTensor(action: string, u: UOp): true | string {
  return engine(action).fitsTensor(u);
}
/** The name of several devices as one. @throws {DeviceError} for one listed twice, or of another backend */
export function groupName(names: readonly string[]): string {
  return engine("use devices together").groupOf(names).name;
}
/** A mesh of devices, as `Mesh.of` makes it. @throws {ArgumentError} @throws {DeviceError} */
export function makeMesh(axes: Readonly<Record<string, number>>, options: MeshOptions): Mesh {
  return engine("make a mesh").makeMesh(axes, options);
}
