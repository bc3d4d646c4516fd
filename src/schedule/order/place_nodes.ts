/**
 * Realized nodes to the nodes of the kernel graph: what each is (a kernel, a copy, a fill, a part of memory that is there),
 * where, the version that it makes, and those that it is computed of. Kernels have no AST yet.
 *
 * @module
 */
import { argOf, type Storage } from "../../uop/core/args.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { customOf } from "../../uop/core/custom_arg.ts";
import { isMovement, isView, Ops } from "../../uop/core/ops.ts";
import { deviceOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { isRange, type Moving, nodeView } from "../../uop/graph/view.ts";
import { stripReshape } from "../fuse/fusion_plan.ts";
import { OWN } from "../fuse/own_memory.ts";
import { devicesWanted } from "../fuse/settle_devices.ts";
import { Slots } from "../kernels/slots.ts";
import type { Entries } from "./entries.ts";
import { entryOfKey, type Node, type VersionKey } from "./kernel_graph.ts";
import type { TemplateItem, ViewInfo } from "./template.ts";

/** What {@linkcode placeNodes} asks for. */
export interface Placing {
  /** The nodes of the graph, sources first. */
  readonly sequence: readonly UOp[];
  readonly realized: ReadonlySet<UOp>;
  /** The number that each element is of nodes that the host fills. */
  readonly fills: ReadonlyMap<UOp, UOp>;
  /** What each node of the graph became that was asked for. */
  readonly now: readonly UOp[];
  readonly entries: Entries;
  readonly defaultDevice: () => string;
  readonly viewAlign: (device: string) => number | undefined;
}

/** The nodes of the kernel graph, and apart those that are parts of memory that is there: they run nothing. */
export function placeNodes(p: Placing): { nodes: Node[]; views: TemplateItem[] } {
  const { sequence, realized, fills, entries } = p, nodes: Node[] = [], views: TemplateItem[] = [];
  const rangeOf = rangeFinder(sequence, p.viewAlign), positionOf = positions(p.now);
  let wanted: Map<UOp, string> | undefined;
  for (let k = 0; k < sequence.length; k++) {
    const u = sequence[k];
    if (!realized.has(u)) continue;
    const device = deviceOf(u) ?? (wanted ??= devicesWanted(sequence)).get(u) ?? p.defaultDevice();
    const at = positionOf(u), { line } = u;
    const add = (writes: readonly VersionKey[], reads: readonly VersionKey[], item?: Partial<TemplateItem>): void => {
      const own = { device, entries: [...writes, ...reads].map(entryOfKey), ast: undefined, vars: [], at };
      nodes.push({
        device,
        step: item === undefined ? undefined : { kind: "kernel", ...own, ...item },
        stores: [],
        slots: new Slots(),
        reads: new Set(reads),
        writes: [...writes],
        roots: [u],
        line: u.op === Ops.STORE || u.op === Ops.CUSTOM ? line : undefined,
        at,
      });
    };
    const readKeys = (): VersionKey[] => entries.readBy(u).map((x) => entries.keyOf(x)!);
    if (u.op === Ops.STORE) {
      let base = u.src[0];
      while (isView(base.op)) base = base.src[0];
      const key = entries.writtenKey(base);
      if (numelOf(u.src[0]) > 0) add([key + 1], readKeys());
    } else if (u.op === Ops.CUSTOM) {
      // a kernel of the user's runs as it is, on the memory of its sources
      const { kernel, written } = customOf(u);
      const keys = u.src.map((s) => entries.writtenKey(stripReshape(s)));
      add(written.map((slot) => keys[slot] + 1), keys, { ast: kernel, entries: keys.map(entryOfKey) });
    } else if (numelOf(u) === 0) add([entries.make(u, device)], [], { kind: "empty" });
    else if (fills.has(u)) add([entries.make(u, device)], [], { kind: "fill", ast: fills.get(u) });
    else {
      const part = rangeOf(u);
      if (part !== undefined) {
        const { base, ...view } = part, of = entryOfKey(entries.writtenKey(base)), { device: home } = entries.infos[of];
        const e = entryOfKey(entries.make(u, home, { base: of, ...view }));
        views.push({ kind: "view", device: home, entries: [e, of], ast: undefined, vars: [], at });
      } else if (u.op === Ops.COPY) {
        const from = entries.writtenKey(stripReshape(u.src[0]));
        add([entries.make(u, device)], [from], { kind: "copy" });
      } else if (u.op === Ops.COLLECTIVE) {
        const from = entries.writtenKey(stripReshape(u.src[0]));
        add([entries.make(u, device)], [from], { kind: "collective", collective: argOf(u, Ops.COLLECTIVE) });
      } else add([entries.make(u, device)], readKeys());
    }
  }
  return { nodes, views };
}

/** A part of a BUFFER that needs no copy. */
interface Range extends Omit<ViewInfo, "base"> {
  readonly base: UOp;
}

/** Bytes for each one of a variable; undefined where a start is not a variable, or a multiple of one. */
function movingOf({ start, stride }: Moving, itemsize: number): ViewInfo["moving"][number] | undefined {
  const [u, factor] = start.op === Ops.MUL && start.src[1].op === Ops.CONST
    ? [start.src[0], start.src[1].value]
    : [start, 1];
  if (u.op !== Ops.VARIABLE) return undefined;
  return { name: argOf(u, Ops.VARIABLE).name, nbytes: factor * stride * itemsize };
}

/**
 * Finds the nodes that are nothing but a range of a buffer that this graph does not write: whoever reads them reads its
 * memory, in whatever order.
 */
function rangeFinder(
  order: readonly UOp[],
  viewAlign: (device: string) => number | undefined,
): (u: UOp) => Range | undefined {
  const written = new Set<Storage>();
  for (const u of order) {
    if (u.op !== Ops.AFTER) continue;
    const base = stripReshape(u.src[0]);
    if (base.op === Ops.BUFFER) written.add(argOf(base, Ops.BUFFER).storage);
  }
  return (u) => {
    const isCopy = u.op === Ops.CONTIGUOUS && (u.arg === undefined || u.arg === OWN);
    if (!isCopy && !isMovement(u.op)) return undefined;
    const { base, view, moving: starts } = nodeView(u.op === Ops.CONTIGUOUS ? u.src[0] : u);
    if (base.op !== Ops.BUFFER || base === u || view === undefined || !isRange(view)) return undefined;
    const { storage } = argOf(base, Ops.BUFFER), align = viewAlign(storage.device);
    if (align === undefined || storage.staging || written.has(storage)) return undefined;
    const { itemsize } = base.dtype, offset = view.offset * itemsize;
    const moving = starts.map((m) => movingOf(m, itemsize)).filter((m) => m !== undefined);
    const isAligned = offset % align === 0 && moving.every((m) => m.nbytes % align === 0);
    return isAligned && moving.length === starts.length ? { base, offset, moving } : undefined;
  };
}

/** Finds the first node of the graph, by position, that became a node under any shape. Kept in `at` of the nodes. */
function positions(now: readonly UOp[]): (u: UOp) => number | undefined {
  for (let i = now.length - 1; i >= 0; i--) stripReshape(now[i]).at = i;
  return (u) => u.at < now.length && stripReshape(now[u.at]) === u ? u.at : undefined;
}
