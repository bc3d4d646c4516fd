/**
 * Launches prepared for replay: a CUDA graph whose kernel nodes run one after the other. Other buffers and variables are
 * written into the prepared arguments and told to the driver for those nodes alone, at the next run. A single launch needs
 * no graph: it is launched from its prepared arguments, which costs less.
 *
 * @module
 */
import type { Buffer } from "../../src/device/buffer.ts";
import { type Launch, LaunchGraph } from "../../src/device/program.ts";
import type { CudaContext } from "./cuda_context.ts";
import { type CudaProgram, LaunchSlot, slotWords } from "./cuda_launch.ts";
import { HostMemory } from "./driver.ts";

/** A prepared list of launches of one device. */
export class CudaGraph extends LaunchGraph {
  private readonly slots: LaunchSlot[] = [];
  private readonly programs: readonly CudaProgram[];
  /** CUgraph, CUgraphExec and a CUgraphNode for each launch, once it has run. */
  private template = 0n;
  private executable = 0n;
  private readonly nodes: BigUint64Array<ArrayBuffer>;
  /** Launches whose arguments the driver does not know yet: as a list, and by launch. */
  private readonly stale: number[] = [];
  private readonly isStale: Uint8Array;
  /** Whether a launch may have no groups, which a node cannot. */
  private readonly mayBeEmpty: boolean;

  /** @param onDispose called once */
  constructor(
    private readonly context: CudaContext,
    launches: readonly Launch[],
    private readonly onDispose: (graph: CudaGraph) => void,
  ) {
    super(launches);
    this.programs = launches.map((l) => l.program as CudaProgram);
    const memory = new HostMemory(this.programs.reduce((n, p) => n + slotWords(p), 0));
    this.nodes = new BigUint64Array(launches.length);
    this.isStale = new Uint8Array(launches.length);
    let start = 0;
    for (const l of launches) {
      const slot = new LaunchSlot(memory, start);
      slot.set(l);
      this.slots.push(slot);
      start += slotWords(l.program as CudaProgram);
    }
    this.mayBeEmpty = this.slots.some((s, i) => s.isEmpty || this.programs[i].groups === undefined);
  }

  private touch(launch: number): void {
    if (this.isStale[launch] !== 0) return;
    this.isStale[launch] = 1;
    this.stale.push(launch);
  }
  override setBuffer(launch: number, slot: number, buffer: Buffer): void {
    super.setBuffer(launch, slot, buffer);
    if (this.slots[launch].setBuffer(slot, buffer)) this.touch(launch);
  }
  override setVar(launch: number, position: number, value: number | bigint): void {
    const { vars } = this.launches[launch];
    if (vars[position] === value) return;
    vars[position] = value;
    this.slots[launch].setVar(position, value);
    if (this.programs[launch].groups === undefined) this.slots[launch].setGroups(vars);
    this.touch(launch);
  }

  run(): void {
    const { context, slots } = this;
    if (slots.length === 0) return;
    context.enter();
    if (slots.length === 1 || (this.mayBeEmpty && slots.some((s) => s.isEmpty))) {
      for (const slot of slots) slot.launch(context);
      return;
    }
    if (this.executable === 0n) this.build();
    else this.update();
    for (const program of this.programs) context.note(program.linear);
    const { cu } = context.driver;
    context.check(cu.cuGraphLaunch(this.executable, context.stream), `run a graph of ${slots.length} kernels`);
  }

  /** Makes the graph, each node after the one before. */
  private build(): void {
    const { context, context: { driver: { cu, out } } } = this;
    context.check(cu.cuGraphCreate(out.bytes, 0), "make a graph");
    const template = this.template = out.words[0];
    try {
      this.slots.forEach((slot, i) => {
        const before = this.nodes.subarray(Math.max(0, i - 1), i), node = this.nodes.subarray(i, i + 1);
        const code = cu.cuGraphAddKernelNode(node, template, before, BigInt(before.length), slot.node);
        context.check(code, `add kernel ${this.programs[i].linear.name} to a graph`);
      });
      const code = cu.cuGraphInstantiateWithFlags(out.bytes, template, 0n);
      context.check(code, `prepare a graph of ${this.slots.length} kernels`);
    } catch (error) {
      cu.cuGraphDestroy(template);
      this.template = 0n;
      throw error;
    }
    this.executable = out.words[0];
    // nodes were added with the arguments of now
    for (const i of this.stale) this.isStale[i] = 0;
    this.stale.length = 0;
  }
  /** Tells the driver what has changed. */
  private update(): void {
    const { context, context: { driver: { cu } } } = this;
    for (const i of this.stale) {
      const code = cu.cuGraphExecKernelNodeSetParams(this.executable, this.nodes[i], this.slots[i].node);
      context.check(code, `set the arguments of kernel ${this.programs[i].linear.name} in a graph`);
      this.isStale[i] = 0;
    }
    this.stale.length = 0;
  }

  /** Destroys the graph; it runs nothing any more. Twice is harmless, also after the device was closed. */
  override dispose(): void {
    const { context, context: { driver: { cu } } } = this;
    super.dispose();
    this.slots.length = 0;
    const { template, executable } = this;
    this.template = this.executable = 0n;
    this.onDispose(this);
    if (!context.alive || (template === 0n && executable === 0n)) return;
    context.enter();
    if (executable !== 0n) cu.cuGraphExecDestroy(executable);
    if (template !== 0n) cu.cuGraphDestroy(template);
  }
}
