/**
 * From a graph of tensors that are divided among devices to the graph that each of them runs: local nodes, and collectives
 * between them. In: resolved roots. Out: the same for one device, and how the memory that they become is laid out. Graphs
 * without shards stay what they are.
 *
 * @module
 */
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { meshes, type Sharding } from "../../uop/core/sharding.ts";
import { toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { stripReshape } from "../fuse/fusion_plan.ts";
import { Rules } from "./rules.ts";
import { layoutOf, shardingText, type Shards } from "./shards.ts";

/** What a node is on each device, and how memory of it is laid out. */
export interface OnDevices {
  readonly u: UOp;
  readonly layout: Sharding | undefined;
}

/** A graph for one device of several. */
export interface LocalGraph {
  readonly roots: readonly UOp[];
  /** What the nodes are that may become memory. */
  readonly made: ReadonlyMap<UOp, OnDevices>;
}

/** Whether a graph has anything that is divided. */
function hasShards(order: readonly UOp[]): boolean {
  return order.some((u) => u.op === Ops.SHARD || (u.op === Ops.BUFFER && argOf(u, Ops.BUFFER).storage.layout));
}

/** What is known of nodes. */
interface Memo {
  get(u: UOp): Shards | undefined;
  set(u: UOp, s: Shards): unknown;
}

/** The shards of all nodes of a graph, sources first. */
function shardsOf(order: readonly UOp[], memo: Memo, addedAnyway?: ReadonlySet<UOp>): Rules {
  const rules = new Rules((u) => memo.get(u)!, addedAnyway);
  for (const u of order) {
    if (memo.get(u) !== undefined) continue;
    const made = rules.shardsOf(u);
    made.u.line ??= u.line;
    memo.set(u, made);
  }
  return rules;
}

/** Whether a node may become memory by itself, and not only as a root. */
function isNamed(u: UOp): boolean {
  return u.op === Ops.AFTER || u.op === Ops.COPY || (u.op === Ops.CONTIGUOUS && u.arg !== undefined);
}

/** The first number that tells memory of two layouts apart, which else would be one. */
const OWN_LAYOUT = 2 ** 40;

/** The graph that each device runs; undefined where nothing is divided. */
export function lowerShards(roots: readonly UOp[]): LocalGraph | undefined {
  if (meshes.count === 0) return undefined;
  const order = toposort(roots);
  if (!hasShards(order)) return undefined;
  const memo = new Map<UOp, Shards>(), made = new Map<UOp, OnDevices>();
  let rules = shardsOf(order, memo);
  for (const root of roots) rules.root(root, memo.get(root)!);
  const { again } = rules;
  if (again !== undefined) {
    memo.clear();
    rules = shardsOf(order, memo, again);
  }
  for (const u of order) {
    const s = memo.get(u)!;
    if (isNamed(u) && s.partial.size === 0) made.set(u, { u: s.u, layout: layoutOf(s) });
  }
  const layouts = new Map<UOp, Sharding | undefined>();
  const local = roots.map((root, i) => {
    const s = rules.root(root, memo.get(root)!),
      layout = layoutOf(s),
      base = stripReshape(s.u),
      own = stripReshape(root);
    const isMemory = (x: UOp): boolean => x.op === Ops.BUFFER || x.op === Ops.AFTER;
    const isOther = layouts.has(base) && !sameLayout(layouts.get(base), layout);
    const u = isOther || (isMemory(base) && !isMemory(own))
      ? uop(Ops.CONTIGUOUS, s.u.dtype, [s.u], OWN_LAYOUT + i)
      : s.u;
    if (u === s.u) layouts.set(base, layout);
    made.set(root, { u, layout });
    return u;
  });
  return { roots: local, made };
}

function sameLayout(a: Sharding | undefined, b: Sharding | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && a.same(b));
}

const states = new WeakMap<UOp, Shards>();

/** How a node is divided, as text: "float32[512@data, 784]". @throws {ShapeError} where it cannot be computed as it is */
export function shardingOf(root: UOp): string {
  return shardingText(checkShards(root));
}

/** What a node is on each device. @throws {ShapeError} where values would move that nobody asked for */
export function checkShards(root: UOp): Shards {
  shardsOf(toposort(root, (u) => !states.has(u)), states);
  return states.get(root)!;
}
