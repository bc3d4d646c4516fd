/**
 * The passes of scheduling: from a graph to a schedule template. Their order is that of the list, and nothing else decides
 * it. One row is a list of its own, which settles what the kernels are: which buffers they take, what they read once their
 * indices are simplified, and whether they can be ordered is known of kernels alone, and what is kept in memory for that
 * makes others of them. A template names buffers by entry, so that one serves all graphs of a key.
 *
 * @module
 */
import type { MemoryLayout } from "../device/allocator.ts";
import { envNumber } from "../helpers/env.ts";
import { SpecError } from "../helpers/errors.ts";
import type { Capabilities } from "../renderer/renderer.ts";
import type { Storage } from "../uop/core/args.ts";
import { numelOf } from "../uop/core/build_movement.ts";
import { unnoted, wantsNotes } from "../uop/core/notes.ts";
import { Ops } from "../uop/core/ops.ts";
import { deviceOf } from "../uop/core/shape.ts";
import { type Spec, specKernel, specTensor, verify } from "../uop/core/spec.ts";
import { mayHave, sink, toposort, type UOp } from "../uop/core/uop.ts";
import { note, noteChange, runPass } from "../uop/rewrite/record.ts";
import { rebuildAll } from "../uop/rewrite/walk.ts";
import { foldTensorGraph, uniformOf } from "./fuse/fold_tensors.ts";
import { resultsAsWritten } from "./fuse/apart.ts";
import { planFusion } from "./fuse/fuse.ts";
import { type ChainPlan, type FusionPlan, isLeaf, NO_CHAINS, stripReshape } from "./fuse/fusion_plan.ts";
import { layOut } from "./fuse/operand_layout.ts";
import { keep, ownResults, ownValues } from "./fuse/own_memory.ts";
import { settleDevices } from "./fuse/settle_devices.ts";
import { collapseReduces } from "./kernels/collapse.ts";
import { type Combination, combineThere } from "./kernels/combine_there.ts";
import { planKeyed } from "./kernels/keyed_kernels.ts";
import { joinChain, planChains } from "./kernels/plan_chains.ts";
import { rangeify } from "./kernels/rangeify.ts";
import { rowWeight } from "./kernels/row_weights.ts";
import { loadsOf, type Slots } from "./kernels/slots.ts";
import { cutKernels } from "./order/buffer_limits.ts";
import { Entries, OwnEntries, whatBecomes } from "./order/entries.ts";
import { findCuts } from "./order/hazards.ts";
import { bringTogether, joinCollectives, neighborsOf, stepsBeside } from "./order/join_collectives.ts";
import { joinRows, keepsRows } from "./order/join_rows.ts";
import { entryOfKey, mergeOutputs, type Node, orderNodes, versionKey } from "./order/kernel_graph.ts";
import { makeItems } from "./order/kernel_items.ts";
import { orderForMemory } from "./order/memory_order.ts";
import { type MemoryPlan, planMemory } from "./order/memory_plan.ts";
import { placeNodes } from "./order/place_nodes.ts";
import { shareKernels } from "./order/share_kernels.ts";
import type { Becoming, EntryInfo, Template, TemplateItem } from "./order/template.ts";

/** Limits and defaults that lowering asks for. */
export interface LowerOptions {
  readonly defaultDevice: string;
  readonly maxBuffers: (device: string) => number;
  /** What a device can do. */
  readonly caps: (device: string) => Capabilities;
  /** Byte offsets of views are multiples of this; undefined: no views, but copies. */
  readonly viewAlign: (device: string) => number | undefined;
  /** How a device's memory is shared out. */
  readonly memoryLayout: (device: string) => MemoryLayout;
}

/** A template, and where its temporaries lie. */
export interface Lowered extends Template {
  readonly plan: MemoryPlan;
}

const NOTHING: ReadonlySet<UOp> = new Set();

/** A graph on its way to a template. */
class Lowering {
  /** What each node of `order` has become. */
  now: readonly UOp[];
  /** Nodes to be kept in memory of their own, of STOREs the values. */
  kept = NOTHING;
  /** Whether the kernels are not those of this graph: it was changed, or nodes of it are to be kept. */
  isUnsettled = false;
  /** The nodes of the folded graph, sources first. */
  sequence: readonly UOp[] = [];
  /** The roots that kernels compute, the number that each element is of nodes that the host fills, and numbers as such. */
  roots: readonly UOp[] = [];
  fills = new Map<UOp, UOp>();
  numbers: readonly UOp[] = [];
  chains: ChainPlan = NO_CHAINS;
  plan: FusionPlan = { realized: new Set(), kernels: new Map() };
  entries: Entries;
  nodes: Node[] = [];
  views: TemplateItem[] = [];
  becomes: Becoming[] = [];
  items: readonly TemplateItem[] = [];
  graphOf: (g: Lowering) => UOp = rootsOf;
  memory: MemoryPlan = { blocks: [], places: [], boundBytes: 0 };

  constructor(
    readonly order: readonly UOp[],
    readonly rootAt: readonly number[],
    readonly slotOf: ReadonlyMap<Storage, number>,
    readonly options: LowerOptions,
  ) {
    this.now = order;
    this.entries = new Entries(slotOf);
  }

  /** Has these nodes kept before the graph goes on. */
  keep(nodes: ReadonlySet<UOp>): void {
    this.kept = nodes;
    this.isUnsettled = nodes.size > 0;
  }

  readonly capsOf = (u: UOp): Capabilities => this.options.caps(deviceOf(u) ?? this.options.defaultDevice);

  get kernels(): Node[] {
    return this.nodes.filter((n) => n.step === undefined);
  }
}

/** What records show of a graph, and what is verified: its roots, then the STOREs of its kernels, then what the steps run. */
function rootsOf(g: Lowering): UOp {
  return sink(g.rootAt.map((i) => g.now[i]));
}
function storesOf(g: Lowering): UOp {
  return sink(g.nodes.flatMap((n) => n.stores));
}
function stepsOf(g: Lowering): UOp {
  return sink(g.items.map((i) => i.ast).filter((u) => u !== undefined));
}

/** A row of the list. */
interface SchedulePass {
  readonly name: string;
  /** For which graphs it runs; for all where it is absent. */
  readonly when?: (g: Lowering) => boolean;
  readonly run: (g: Lowering) => void;
  /** Under SPEC=1: what the graph that it makes may consist of. */
  readonly spec?: Spec;
}

function fuses(): boolean {
  return envNumber("FUSE") !== 0;
}
function onGrid(g: Lowering): boolean {
  return g.rootAt.some((i) => g.capsOf(g.order[i]).hasGrid);
}

function moves(g: Lowering): boolean {
  return g.rootAt.some((i) => mayHave(g.now[i], Ops.COLLECTIVE));
}

/** Collectives write the memory that was asked for of what they give. */
function giveResults(g: Lowering): void {
  const own = ownResults(g.rootAt.map((i) => g.now[i]));
  if (own.size > 0) g.now = rebuildAll(g.now, (u, src) => own.has(u) ? src[0] : undefined);
}

function fold(g: Lowering): void {
  g.now = foldTensorGraph(g.rootAt.map((i) => g.order[i]), g.order);
}

function settle(g: Lowering): void {
  g.now = settleDevices(g.order, g.rootAt, g.now, g.slotOf.keys(), () => g.options.defaultDevice);
}

function layOutOperands(g: Lowering): void {
  g.now = rebuildAll(g.now, (u, src) => layOut(u.withSrc(src), g.capsOf));
}

function keepNodes(g: Lowering): void {
  for (const u of g.kept) {
    noteChange("kept in memory of its own", u);
    note(
      "missed",
      u,
      "is kept in memory of its own: what reads it is written, or takes more buffers than the device allows",
    );
  }
  g.now = keep(g.now, g.kept);
  g.kept = NOTHING;
  g.graphOf = rootsOf;
}

/** What the host fills, and what kernels compute. */
function findRoots(g: Lowering): void {
  const bases = g.rootAt.map((i) => stripReshape(g.now[i])), fills = new Map<UOp, UOp>();
  g.sequence = toposort(bases);
  const add = (u: UOp, value: UOp): void => {
    const c = numelOf(u) > 0 ? uniformOf(value) : undefined;
    if (c === undefined) return;
    fills.set(u, c);
    note("passed", u, "is one number everywhere: the host fills it, and no kernel runs");
  };
  for (const b of bases) add(b, b);
  const computed = bases.filter((b) => !fills.has(b));
  if (bases.some((b) => mayHave(b, Ops.CONTIGUOUS) || mayHave(b, Ops.COPY))) {
    for (const u of g.sequence) if (u.op === Ops.CONTIGUOUS || u.op === Ops.COPY) add(u, u.src[0]);
  }
  g.fills = fills;
  g.roots = computed.filter((r) => !isLeaf(r) || r.op === Ops.AFTER || r.op === Ops.IOTA);
  g.numbers = computed.filter((r) =>
    r.op === Ops.IOTA || r.op === Ops.CONST || r.op === Ops.VARIABLE || r.op === Ops.BIND
  );
}

/** Chains of products; where they compute weights again, of what rows keep. */
function chain(g: Lowering): void {
  g.chains = planChains(g.roots, g.capsOf);
  const { weights } = g.chains;
  if (weights.size > 0) {
    g.now = rebuildAll(g.now, (u, src) => weights.has(u) ? rowWeight(u.withSrc(src)) : undefined);
    findRoots(g);
    g.chains = planChains(g.roots, g.capsOf);
  }
  for (const told of g.chains.notes) note(...told);
}

function fuse(g: Lowering): void {
  const keyed = planKeyed(g.roots, g.capsOf);
  const chains = { ...g.chains, inside: new Set([...g.chains.inside, ...keyed.inside]) };
  const isKept = (c: Combination): boolean => c.kept !== undefined || g.roots.includes(c.node);
  let there = fuses() ? keyed.combinations.filter(isKept) : [];
  if (there.length === 0) {
    const kept = [...keyed.kept, ...fuses() ? [] : resultsAsWritten(g.roots)];
    const plan = planFusion(g.roots, g.capsOf, chains, kept), { realized } = plan;
    // what takes no memory now would take as much
    const isMemory = (u: UOp | undefined): boolean => u !== undefined && realized.has(u);
    if (fuses()) there = keyed.combinations.filter((c) => isMemory(c.node) || isMemory(c.alone));
    if (there.length === 0) {
      plan.tell();
      g.plan = plan;
      for (const u of [...g.numbers, ...g.fills.keys()]) g.plan.realized.add(u);
      return;
    }
  }
  for (const { node } of there) {
    note("passed", node, "what goes by key is combined with the rest where that is: it takes no memory of its own");
  }
  g.now = combineThere(g.now, there);
  g.isUnsettled = true;
}

function place(g: Lowering): void {
  const { sequence, fills, now, plan: { realized }, options: { viewAlign } } = g;
  const entries = g.entries = new Entries(g.slotOf), defaultDevice = (): string => g.options.defaultDevice;
  Object.assign(g, placeNodes({ sequence, realized, fills, now, entries, defaultDevice, viewAlign }));
}

/** The STORE of a kernel, and the entries of its slots. */
function kernelOf({ plan, entries }: Lowering, { roots: [u], writes }: Node): { store: UOp; slots: Slots } {
  const own = new OwnEntries(entries), store = rangeify(u, own, own.own(writes[0]), plan.kernels.get(u));
  return { store, slots: own.slots };
}

function limit(g: Lowering): void {
  const { nodes, entries, options: { maxBuffers } } = g;
  g.keep(cutKernels(nodes, entries, maxBuffers, (n) => {
    const { store } = kernelOf(g, n);
    return unnoted(() => collapseReduces(store)); // a trial
  }));
}

function makeKernels(g: Lowering): void {
  g.graphOf = storesOf;
  for (const n of g.kernels) {
    const { store, slots } = kernelOf(g, n);
    n.stores = [store];
    n.slots = slots;
  }
}

/** Layers that are alike have kernels that are: each is changed once. */
function changeKernels(g: Lowering, change: (store: UOp, n: Node) => UOp): void {
  const done = new Map<string, Map<UOp, UOp>>();
  for (const n of g.kernels) {
    let known = done.get(n.device);
    if (known === undefined) done.set(n.device, known = new Map());
    n.stores = n.stores.map((s) => {
      let made = known.get(s);
      if (made === undefined) known.set(s, made = change(s, n));
      return made;
    });
  }
}

function joinChains(g: Lowering): void {
  changeKernels(g, (s, { roots: [u], device }) => {
    const joined = u.op === Ops.STORE ? undefined : joinChain(s, g.options.caps(device));
    if (joined === undefined) return s;
    note("passed", u, "reductions of a row that wait for each other are one, whose parts are rescaled as it goes");
    return joined;
  });
}

/**
 * Drops reads that simplification removed from kernels. What is written where it is read elsewhere, which only a
 * simplified index tells, is computed before it is written.
 */
function checkReads(g: Lowering): void {
  const elsewhere = new Set<UOp>();
  for (const { stores: [store], slots, reads, writes, roots: [u] } of g.kernels) {
    for (const r of reads) if (loadsOf(store, slots.find(entryOfKey(r))).length === 0) reads.delete(r);
    const at = store.src[0].src[1], read = u.op === Ops.STORE ? loadsOf(store, slots.find(entryOfKey(writes[0]))) : [];
    if (read.some((l) => l.src[0].src[1] !== at || l.src[0].src.length > 2)) elsewhere.add(u);
  }
  g.keep(elsewhere);
}

/** An order of the kernels. Which of them stand in a circle is known only now: two that swap buffers are one by merging. */
function order(g: Lowering): void {
  const { nodes, entries } = g, ordered = orderNodes(nodes);
  if (ordered === undefined) g.keep(findCuts(nodes, (u) => entries.keyOf(u)));
  else g.nodes = ordered.map((i) => nodes[i]);
}

function orderByMemory(g: Lowering): void {
  const { infos } = g.entries;
  g.becomes = whatBecomes(g.order, g.rootAt, g.now, g.sequence, g.entries);
  for (const b of g.becomes) infos[b.entry].kept = true;
  g.nodes = [...orderForMemory(g.nodes, (e) => {
    const { kept, slot, view, size, dtype } = infos[e];
    return kept || slot !== undefined || view !== undefined ? 0 : size * dtype.itemsize;
  })];
}

function number(g: Lowering): void {
  const { infos } = g.entries;
  for (const n of g.nodes) {
    for (const w of n.writes) {
      const e = entryOfKey(w), info: EntryInfo = infos[e];
      info.versions = Math.max(info.versions, w - versionKey(e, 0));
    }
  }
  // views run nothing: in front they do not part the kernels
  g.graphOf = stepsOf;
  g.items = [...g.views, ...makeItems(g.nodes, infos, g.options.caps)];
}

function planBuffers(g: Lowering): void {
  g.memory = planMemory(
    {
      entries: g.entries.infos,
      items: g.items,
      neighbors: neighborsOf(g.items),
      beside: stepsBeside(g.items, g.entries.infos),
    },
    g.options.memoryLayout,
  );
  if (!wantsNotes()) return;
  const { blocks, places } = g.memory, { infos } = g.entries;
  const planned = blocks.reduce((n, b) => n + b.nbytes, 0);
  const apart = places.reduce((n, p, e) => n + (p === undefined ? 0 : infos[e].size * infos[e].dtype.itemsize), 0);
  if (planned < apart) {
    note("analysis", stepsOf(g), `intermediates take ${planned} bytes, and would take ${apart} apart`, {
      planned,
      apart,
    });
  }
}

/** From a graph to kernels in order: again from the first row on, as soon as one of them finds it unsettled. */
const KERNELS: readonly SchedulePass[] = [
  { name: "keep", when: (g) => g.kept.size > 0, run: keepNodes, spec: specTensor },
  { name: "find roots", run: findRoots },
  { name: "plan chains", when: (g) => onGrid(g) && fuses(), run: chain },
  { name: "fuse", run: fuse },
  { name: "place", run: place },
  { name: "limit", run: limit },
  { name: "rangeify", run: makeKernels, spec: specKernel },
  { name: "collapse", run: (g) => changeKernels(g, collapseReduces), spec: specKernel },
  { name: "join chains", when: (g) => onGrid(g) && fuses(), run: joinChains, spec: specKernel },
  { name: "check reads", run: checkReads },
  {
    name: "merge outputs",
    when: fuses,
    run: (g) => g.nodes = mergeOutputs(g.nodes, g.options.maxBuffers),
    spec: specKernel,
  },
  { name: "order", run: order },
];

/** From a graph to the steps that compute it. */
const PASSES: readonly (SchedulePass | { readonly settles: readonly SchedulePass[] })[] = [
  { name: "fold", run: fold, spec: specTensor },
  { name: "settle devices", run: settle, spec: specTensor },
  { name: "own values", run: (g) => g.now = ownValues(g.order, g.rootAt, g.now), spec: specTensor },
  { name: "own results", when: moves, run: giveResults, spec: specTensor },
  { name: "lay out operands", when: onGrid, run: layOutOperands, spec: specTensor },
  { settles: KERNELS },
  { name: "order for memory", run: orderByMemory },
  {
    name: "join rows",
    when: (g) => g.rootAt.some((i) => keepsRows(g.capsOf(g.order[i]))) && fuses(),
    run: (g) => g.nodes = joinRows(g.nodes, g.entries.infos, g.options.caps),
    spec: specKernel,
  },
  {
    name: "bring collectives together",
    when: (g) => g.nodes.some((n) => n.step?.kind === "collective"),
    run: (g) => g.nodes = [...bringTogether(g.nodes, g.entries.infos)],
  },
  { name: "number", run: number },
  {
    name: "join collectives",
    when: (g) => g.items.filter((i) => i.kind === "collective").length > 1,
    run: (g) =>
      g.items = joinCollectives(g.items, g.entries.infos, ({ at }) => at === undefined ? undefined : g.order[at]),
  },
  { name: "share kernels", run: (g) => g.items = shareKernels(g.items) },
  { name: "plan memory", run: planBuffers },
];

/** Times that the kernels of a graph are looked for. */
const MAX_ATTEMPTS = 64;

function runOne(g: Lowering, { name, when, run, spec }: SchedulePass): void {
  if (when !== undefined && !when(g)) return;
  const graphOf = (): UOp => g.graphOf(g);
  runPass(name, graphOf, () => run(g), graphOf);
  if (spec !== undefined && envNumber("SPEC") !== 0) verify(graphOf(), spec, `after pass "${name}"`);
}

/** Runs rows to the last one, the first time that none of them finds the graph unsettled. */
function runSettling(g: Lowering, rows: readonly SchedulePass[]): void {
  for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
    g.isUnsettled = false;
    for (let i = 0; i < rows.length && !g.isUnsettled; i++) runOne(g, rows[i]);
    if (!g.isUnsettled) return;
  }
  throw new SpecError("Scheduling does not settle");
}

/**
 * Lowers the graph whose nodes, sources first, are `order`, for the roots at positions `rootAt`. `slotOf` numbers its
 * storages.
 * @throws {CycleError} where assignments need each other's old values
 */
export function lowerGraph(
  order: readonly UOp[],
  rootAt: readonly number[],
  slotOf: ReadonlyMap<Storage, number>,
  options: LowerOptions,
): Lowered {
  const g = new Lowering(order, rootAt, slotOf, options);
  for (const row of PASSES) "settles" in row ? runSettling(g, row.settles) : runOne(g, row);
  return { entries: g.entries.infos, items: g.items, becomes: g.becomes, plan: g.memory };
}
