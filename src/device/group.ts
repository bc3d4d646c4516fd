/**
 * Several devices of one backend as one: its memory is a block on each, its kernels run on each with the blocks there,
 * what is written to it is written to all. Graphs on it are scheduled once, and know nothing of that. Its name is those of
 * its members: "JS,JS:1".
 *
 * @module
 */
import type { LinearProgram, Renderer } from "../renderer/renderer.ts";
import { DeviceError } from "../helpers/errors.ts";
import { type Allocator, type Block, LruAllocator } from "./allocator.ts";
import { Buffer } from "./buffer.ts";
import { canonicalize, type Device, findGroup, getDevice, type GroupDevice, noteGroup } from "./device.ts";
import type { Compiler, Graph, Insertion, Launch, Program } from "./program.ts";
import { dtypes } from "../dtype/dtype.ts";

/** A block on each member. */
class GroupBlock {
  constructor(readonly parts: readonly Buffer[]) {}
}

class GroupAllocator implements Allocator {
  readonly copyOut: Allocator["copyOut"];
  readonly transfer: Allocator["transfer"];
  readonly layout: LruAllocator["layout"];

  constructor(private readonly members: readonly Device[]) {
    const [{ allocator }] = members;
    this.layout = allocator.layout;
    if (allocator.copyOut !== undefined) this.copyOut = (dst, block, offset) => this.read(dst, block, offset);
    if (allocator.transfer !== undefined) {
      this.transfer = (dst, dstOffset, src, srcOffset, nbytes) => {
        const from = src as GroupBlock;
        (dst as GroupBlock).parts.forEach((to, i) =>
          members[i].allocator.transfer!(to.memory, dstOffset, from.parts[i].memory, srcOffset, nbytes)
        );
      };
    }
  }
  alloc(nbytes: number): Block {
    const parts = this.members.map((d) => new Buffer(d, dtypes.uint8, nbytes));
    try {
      for (const p of parts) void p.memory;
    } catch (error) {
      for (const p of parts) p.free();
      throw error;
    }
    return new GroupBlock(parts);
  }
  free(block: Block): void {
    for (const p of (block as GroupBlock).parts) p.free();
  }
  copyIn(block: Block, offset: number, src: Uint8Array): void {
    for (const p of (block as GroupBlock).parts) p.view(offset, src.byteLength).copyIn(src);
  }
  /** What the first member has. */
  private read(dst: Uint8Array, block: Block, offset: number): void {
    (block as GroupBlock).parts[0].view(offset, dst.byteLength).copyOut(dst);
  }
  async copyOutAsync(dst: Uint8Array, block: Block, offset: number): Promise<void> {
    await (block as GroupBlock).parts[0].view(offset, dst.byteLength).copyOutAsync(dst);
  }
}

/** What a buffer of a group is on each member. */
export function partsOfBuffer(b: Buffer): Buffer[] {
  return (b.memory as GroupBlock).parts.map((p) => p.view(b.offset, b.size, b.dtype));
}

/** What a buffer is on the first member of its device; itself where that is no group. */
export function firstPart(b: Buffer): Buffer {
  return b.memory instanceof GroupBlock ? partsOfBuffer(b)[0] : b;
}

class GroupProgram implements Program {
  readonly linear: LinearProgram;
  readonly key: string | undefined;
  constructor(readonly members: readonly Program[]) {
    ({ linear: this.linear, key: this.key } = members[0]);
  }
  get source(): string {
    return this.members[0].source;
  }
}

/** The launches of one member. */
function memberLaunches(launches: readonly Launch[], count: number): Launch[][] {
  const out: Launch[][] = Array.from({ length: count }, () => []);
  for (const { program, buffers, vars } of launches) {
    const parts = buffers.map(partsOfBuffer);
    for (let i = 0; i < count; i++) {
      out[i].push({ program: (program as GroupProgram).members[i], buffers: parts.map((p) => p[i]), vars });
    }
  }
  return out;
}

class GroupGraph implements Graph {
  private readonly graphs: readonly Graph[];
  constructor(members: readonly Device[], launches: readonly Launch[], insertions?: readonly Insertion[]) {
    const own = memberLaunches(launches, members.length);
    this.graphs = members.map((d, i) => d.graph(own[i], insertions));
  }
  setBuffer(launch: number, slot: number, buffer: Buffer): void {
    const parts = partsOfBuffer(buffer);
    this.graphs.forEach((g, i) => g.setBuffer(launch, slot, parts[i]));
  }
  setVar(launch: number, position: number, value: number | bigint): void {
    for (const g of this.graphs) g.setVar(launch, position, value);
  }
  run(): void {
    for (const g of this.graphs) g.run();
  }
  dispose(): void {
    for (const g of this.graphs) g.dispose();
  }
}

/** Several devices as one. */
class DeviceGroup implements GroupDevice {
  readonly allocator: LruAllocator;
  readonly renderer: Renderer;
  readonly compiler: Compiler;

  /** @param ranks those of its mesh that the members are: of a mesh of processes, the one of this process */
  constructor(
    readonly name: string,
    readonly members: readonly Device[],
    readonly ranks: readonly number[] = members.map((_, i) => i),
  ) {
    this.allocator = new LruAllocator(name, new GroupAllocator(members), 0);
    this.renderer = members[0].renderer;
    this.compiler = { compile: (programs, progress) => this.compile(programs, progress) };
  }
  private compile(programs: readonly LinearProgram[], progress?: Parameters<Compiler["compile"]>[1]): Program[] {
    const [{ compiler }] = this.members, made = compiler.compile(programs, progress);
    const others = this.members.slice(1).map((d) => compiler.isPortable ? made : d.compiler.compile(programs));
    return made.map((p, k) => new GroupProgram([p, ...others.map((list) => list[k])]));
  }
  run(launches: readonly Launch[]): void {
    memberLaunches(launches, this.members.length).forEach((own, i) => this.members[i].run(own));
  }
  graph(launches: readonly Launch[], insertions?: readonly Insertion[]): Graph {
    return new GroupGraph(this.members, launches, insertions);
  }
  /** Of a process with one rank: what several members insert would come once for each. */
  get takesInsertions(): boolean {
    return this.members.length === 1 && this.members[0].takesInsertions === true;
  }
  async synchronize(): Promise<void> {
    await Promise.all(this.members.map((d) => d.synchronize()));
  }
  info(): Record<string, string | number | boolean> {
    return { members: this.members.map((d) => d.name).join(", ") };
  }
  close(): void {}
}

/** The device that is a group of `names`, opened if need be. @throws {DeviceError} for one listed twice, or of another backend */
export function groupOf(names: readonly string[]): GroupDevice {
  if (names.length === 0) {
    throw new DeviceError("use devices together", {
      device: "",
      reason: "the list of them is empty; name one or more",
    });
  }
  // a group of one is not the device itself, and a hole of the list is no name
  const own = Array.from(names, (n) => canonicalize(n)), name = own.length === 1 ? `${own[0]}@1` : own.join(",");
  const known = findGroup(name);
  if (known !== undefined) return known;
  const action = `use devices ${own.join(", ")} together`;
  const twice = own.find((n, i) => own.indexOf(n) !== i);
  if (twice !== undefined) throw new DeviceError(action, { device: twice, reason: `${twice} is listed twice` });
  const backends = new Set(own.map((n) => n.replace(/:.*/, "")));
  if (backends.size > 1) {
    throw new DeviceError(action, {
      device: own[0],
      reason: `they are of ${[...backends].join(" and ")}; all must be of one backend`,
    });
  }
  const group = new DeviceGroup(name, own.map(getDevice));
  noteGroup(group);
  return group;
}

/** What this process is among others that were started with it, once it has joined them. */
export const processes: {
  place: { readonly rank: number; readonly size: number; readonly device: string } | undefined;
} = {
  place: undefined,
};

/** The device of a mesh whose ranks are processes: the one of this process, under a name that is the same on all ranks. */
export function processGroup(): GroupDevice | undefined {
  const { place } = processes;
  if (place === undefined) return undefined;
  const name = `${place.device.replace(/:.*/, "")}@ranks`, known = findGroup(name);
  if (known !== undefined) return known;
  const group = new DeviceGroup(name, [getDevice(place.device)], [place.rank]);
  noteGroup(group);
  return group;
}
