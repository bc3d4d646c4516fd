/**
 * Launches prepared for replay: a CUDA graph whose kernel nodes run one after the other. Other buffers and variables are
 * written into the prepared arguments and told to the driver for those nodes alone, at the next run. A single launch needs
 * no graph: it is launched from its prepared arguments, which costs less. Where collectives stand between launches, the
 * graph is captured from the stream of kernels, with what they put into it.
 *
 * @module
 */
import type { Buffer } from "../../src/device/buffer.ts";
import { type Insertion, type Launch, LaunchGraph } from "../../src/device/program.ts";
import type { CudaContext, GraphShare, SharedGraph } from "./cuda_context.ts";
import { type CudaProgram, LaunchSlot, slotWords } from "./cuda_launch.ts";
import { HostMemory } from "./driver.ts";

/** A prepared list of launches of one device. */
export class CudaGraph extends LaunchGraph implements SharedGraph {
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
  /** Who else has work in the graph. */
  private shares: readonly GraphShare[] = [];

  /** @param onDispose called once */
  constructor(
    private readonly context: CudaContext,
    launches: readonly Launch[],
    private readonly insertions: readonly Insertion[],
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
    const { context, slots, insertions } = this;
    if (slots.length === 0) return;
    context.enter();
    const isOne = slots.length === 1 && insertions.length === 0;
    if (isOne || (this.mayBeEmpty && slots.some((s) => s.isEmpty))) return this.inOrder((slot) => slot.launch(context));
    if (this.executable === 0n) this.build();
    else this.update();
    for (const share of this.shares) share.before();
    for (const program of this.programs) context.note(program.linear);
    const { cu } = context.driver;
    context.check(cu.cuGraphLaunch(this.executable, context.stream), `run a graph of ${slots.length} kernels`);
    for (const share of this.shares) share.after();
  }

  /** Calls `launch` for each launch, with what is inserted before it and after the last. */
  private inOrder(launch: (slot: LaunchSlot, i: number) => void): void {
    const { slots, insertions } = this;
    let next = 0;
    for (let i = 0; i <= slots.length; i++) {
      while (next < insertions.length && insertions[next].at === i) insertions[next++].queue();
      if (i < slots.length) launch(slots[i], i);
    }
  }

  /** Makes the graph. */
  private build(): void {
    const { context } = this;
    try {
      if (this.insertions.length > 0) this.capture();
      else this.chain();
      this.executable = context.instantiated(this.template, `a graph of ${this.slots.length} kernels`);
    } catch (error) {
      this.release();
      throw error;
    }
    // nodes were added with the arguments of now
    for (const i of this.stale) this.isStale[i] = 0;
    this.stale.length = 0;
  }
  /** Each kernel after the one before. */
  private chain(): void {
    const { context, context: { driver: { cu, out } } } = this;
    context.check(cu.cuGraphCreate(out.bytes, 0), "make a graph");
    const template = this.template = out.words[0];
    this.slots.forEach((slot, i) => {
      const before = this.nodes.subarray(Math.max(0, i - 1), i), node = this.nodes.subarray(i, i + 1);
      const code = cu.cuGraphAddKernelNode(node, template, before, BigInt(before.length), slot.node);
      context.check(code, `add kernel ${this.programs[i].linear.name} to a graph`);
    });
  }
  /** Kernels as the stream would run them, and beside them what is inserted. */
  private capture(): void {
    const { context } = this, shares = new Map<object, GraphShare>();
    context.capture = { graph: this, shares };
    try {
      this.template = context.captured(context.stream, () =>
        this.inOrder((slot, i) => {
          context.enter(); // what was inserted may have entered another device
          slot.launch(context);
          this.nodes[i] = context.lastNode();
        }));
    } finally {
      context.capture = undefined;
      this.shares = [...shares.values()];
    }
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

  /** It runs nothing any more. Twice is harmless, also after the device was closed. */
  override dispose(): void {
    super.dispose();
    this.slots.length = 0;
    this.release();
    this.onDispose(this);
  }
  release(): void {
    const { context, template, executable, shares } = this;
    this.template = this.executable = 0n;
    this.shares = [];
    for (const share of shares) share.end();
    if (!context.alive || (template === 0n && executable === 0n)) return;
    context.enter();
    context.destroyGraph(template, executable);
  }
}
