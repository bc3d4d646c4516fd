/**
 * Kernels with their arguments as the driver takes them. All arguments of a launch are one run of bytes: buffers as 64-bit
 * addresses in slot order, then variables in their order, each at a multiple of its size, then maps of buffers where the
 * assembler has put them: at multiples of 64 in the memory of constants, not in this run. A {@linkcode LaunchSlot} is
 * that run with what points to it (the `extra` array of cuLaunchKernel, and the node of a graph), all in host memory that
 * is allocated once: launching allocates nothing.
 *
 * @module
 */
import type { Buffer } from "../../src/device/buffer.ts";
import { groupsOf, type Launch, type Program } from "../../src/device/program.ts";
import { writeScalar } from "../../src/dtype/convert.ts";
import { type LinearProgram, MAP_BYTES } from "../../src/renderer/renderer.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import type { CudaContext } from "./cuda_context.ts";
import type { CudaBlock } from "./cuda_memory.ts";
import type { HostMemory } from "./driver.ts";
import type { TensorMap } from "./tensor_maps.ts";

/** Where each argument is, in bytes. */
export interface ArgumentLayout {
  /** Of each variable; buffer `i` is at `8 * i`. */
  readonly vars: readonly number[];
  /** Of each map of a buffer, behind those. */
  readonly maps: readonly number[];
  readonly nbytes: number;
}

/**
 * The layout of a program's arguments.
 * @param placeOf where the assembler has put an argument, by its position among all
 */
export function layoutOf(
  { params, vars, maps = [] }: LinearProgram,
  placeOf: (argument: number) => number,
): ArgumentLayout {
  let at = params.length * 8;
  const offsets = vars.map(({ dtype: { itemsize } }) => {
    const offset = Math.ceil(at / itemsize) * itemsize;
    at = offset + itemsize;
    return offset;
  });
  const behind = maps.map((_, i) => {
    const offset = placeOf(params.length + vars.length + i);
    at = offset + MAP_BYTES;
    return offset;
  });
  return { vars: offsets, maps: behind, nbytes: at };
}

/** A compiled kernel: a function of a loaded module. */
export class CudaProgram implements Program {
  readonly layout: ArgumentLayout;
  /** Threads of a group. */
  readonly size: readonly [number, number, number];
  /** The groups, where they do not depend on variables. */
  readonly groups: readonly [number, number, number] | undefined;

  constructor(
    readonly linear: LinearProgram,
    readonly source: string,
    /** CUfunction. */
    readonly handle: bigint,
    /** Dynamic shared memory of a group. */
    readonly sharedBytes: number,
    /** Of a thread, as the assembler reports them: 32-bit registers, and bytes that it spilled. */
    readonly registers: number,
    readonly localBytes: number,
    /** Gives up the module. */
    private readonly release: () => void,
    /** Arguments that are made of the addresses of buffers. */
    readonly maps: readonly TensorMap[],
    placeOf: (argument: number) => number,
  ) {
    const { grid } = linear;
    this.layout = layoutOf(linear, placeOf);
    this.size = grid?.size ?? [1, 1, 1];
    const constant = grid === undefined || grid.groups.every((g) => g.op === Ops.CONST);
    this.groups = constant ? groupsOf(linear, []) : undefined;
  }
  /** Unloads the module, unless other programs were made of the same source. Only once nothing launches it any more. */
  dispose(): void {
    this.release();
  }
}

/** CU_LAUNCH_PARAM_BUFFER_POINTER and CU_LAUNCH_PARAM_BUFFER_SIZE: tags of the `extra` array. */
const POINTER_TAG = 1n, SIZE_TAG = 2n;
/**
 * Words of a slot before the arguments: the 5 of `extra` (tag, address, tag, address of the size, 0), the size, and the 7
 * of CUDA_KERNEL_NODE_PARAMS_v1 (function; grid, block and shared bytes as u32; params; extra).
 */
const EXTRA = 0, SIZE = 5, NODE = 6, ARGUMENTS = 13;

/** Words that a slot for a program takes. */
export function slotWords({ layout }: CudaProgram): number {
  return ARGUMENTS + Math.ceil(layout.nbytes / 8);
}

/** One launch in host memory, from word `start` on. */
export class LaunchSlot {
  private program!: CudaProgram;
  private readonly at: number;
  /** The address of the `extra` array, and of the node. */
  private readonly extra: bigint;
  readonly node: bigint;
  /** In groups: x, y and z. */
  private x = 1;
  private y = 1;
  private z = 1;

  constructor(private readonly memory: HostMemory, start: number = 0) {
    const { words, address } = memory, addressAt = (word: number): bigint => address + BigInt((start + word) * 8);
    this.at = (start + ARGUMENTS) * 8;
    this.extra = addressAt(EXTRA);
    this.node = addressAt(NODE);
    words.set([POINTER_TAG, addressAt(ARGUMENTS), SIZE_TAG, addressAt(SIZE), 0n], start + EXTRA);
    words[start + NODE + 6] = this.extra;
  }

  /** Makes this the launch of a program, without arguments yet. */
  setProgram(program: CudaProgram): void {
    this.program = program;
    const { words, u32 } = this.memory, start = this.at / 8 - ARGUMENTS;
    words[start + SIZE] = BigInt(program.layout.nbytes);
    words[start + NODE] = program.handle;
    const node = (start + NODE) * 2, [sx, sy, sz] = program.size;
    u32[node + 5] = sx;
    u32[node + 6] = sy;
    u32[node + 7] = sz;
    u32[node + 8] = program.sharedBytes;
  }
  /** False where it was the argument before. */
  setBuffer(slot: number, buffer: Buffer): boolean {
    const { words } = this.memory, base = (buffer.memory as CudaBlock).address, at = this.at / 8 + slot;
    const address = buffer.offset === 0 ? base : base + BigInt(buffer.offset);
    const { maps, layout } = this.program, isNew = words[at] !== address;
    words[at] = address;
    // also where the address is that of another program's argument
    for (let i = 0; i < maps.length; i++) {
      if (maps[i].of.slot === slot) words.set(maps[i].at(address), (this.at + layout.maps[i]) / 8);
    }
    return isNew;
  }
  setVar(position: number, value: number | bigint): void {
    const { layout, linear } = this.program;
    writeScalar(this.memory.view, this.at + layout.vars[position], linear.vars[position].dtype, value);
  }
  /** The groups, where they may depend on `vars`. */
  setGroups(vars: readonly (number | bigint)[]): void {
    const [x, y, z] = this.program.groups ?? groupsOf(this.program.linear, vars);
    const { u32 } = this.memory, node = (this.at / 8 - ARGUMENTS + NODE) * 2;
    u32[node + 2] = this.x = x;
    u32[node + 3] = this.y = y;
    u32[node + 4] = this.z = z;
  }
  /** Program, arguments and groups at once. */
  set({ program, buffers, vars }: Launch): void {
    this.setProgram(program as CudaProgram);
    for (let i = 0; i < buffers.length; i++) this.setBuffer(i, buffers[i]);
    for (let i = 0; i < vars.length; i++) this.setVar(i, vars[i]);
    this.setGroups(vars);
  }
  /** True where there is nothing to run. */
  get isEmpty(): boolean {
    return this.x <= 0 || this.y <= 0 || this.z <= 0;
  }

  /** Queues the launch. The context has been entered. */
  launch(context: CudaContext): void {
    if (this.isEmpty) return;
    const { program, program: { handle, size, sharedBytes } } = this;
    context.note(program.linear);
    const { cu } = context.driver, { stream } = context;
    const code = cu.cuLaunchKernel(
      handle,
      this.x,
      this.y,
      this.z,
      size[0],
      size[1],
      size[2],
      sharedBytes,
      stream,
      0n,
      this.extra,
    );
    if (code !== 0) this.failed(context, code);
  }
  /** Throws for a launch that was refused. */
  private failed(context: CudaContext, code: number): never {
    const { name, params } = this.program.linear;
    const shapes = params.map((p) => `${p.dtype}[${p.size}]`).join(", ");
    const sizes = `${[this.x, this.y, this.z].join("x")} groups of ${this.program.size.join("x")} threads, ` +
      `${this.program.sharedBytes} bytes of shared memory`;
    context.fail(code, `launch kernel ${name} (${shapes}) as ${sizes}`);
  }
}
