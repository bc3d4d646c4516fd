/** Graphs as data: what is read is what was written, node by node, for random graphs of every op, dtype and argument. */
import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { type DType, DTYPES, dtypes } from "../../../src/dtype/dtype.ts";
import { FormatError } from "../../../src/helpers/errors.ts";
import {
  AccArg,
  type Arg,
  AxesArg,
  AxisKind,
  Int64,
  LocalArg,
  OwnArg,
  PairsArg,
  ParamArg,
  RangeArg,
  ReduceArg,
  ShapeArg,
  SkewArg,
  StageArg,
  Storage,
  TensorMapArg,
  VariableArg,
  WindowArg,
} from "../../../src/uop/core/args.ts";
import {
  CarrierArg,
  momentsCarrier,
  opCarrier,
  productCarrier,
  RescaleCarrier,
  rescaleCarrier,
  RowCarrier,
  RowMaximum,
  ScaledSum,
  selectCarrier,
} from "../../../src/uop/core/carrier.ts";
import { carrierOfKey } from "../../../src/uop/core/carrier_key.ts";
import { CustomArg, TextArg } from "../../../src/uop/core/custom_arg.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { CollectiveArg, MeshShape, type MoveKind, Sharding } from "../../../src/uop/core/sharding.ts";
import * as args from "../../../src/uop/core/args.ts";
import * as carriers from "../../../src/uop/core/carrier.ts";
import * as customs from "../../../src/uop/core/custom_arg.ts";
import * as shardings from "../../../src/uop/core/sharding.ts";
import { bufferNode, constant, index, param, sink, store, toposort, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { GradientArg, slope } from "../../../src/uop/graph/given_gradient.ts";
import { type BufferOf, type GraphData, graphData, graphOf } from "../../../src/uop/graph/graph_data.ts";
import { Random } from "../../support/random.ts";

const { ADD, MUL, MAX } = Ops, f32 = dtypes.float32;

/** Numbers of which JSON keeps some only as something else. */
const NUMBERS = [0, -0, 1, -1, 0.1, 1 / 3, 5e-324, 2 ** 53, -1.7976931348623157e308, NaN, Infinity, -Infinity];

const MOVES: readonly MoveKind[] = ["allReduce", "allGather", "allToAll", "permute"];

/** All classes of records that nodes of this layer carry, as the sources have them. */
const RECORDS = [args, carriers, customs, shardings].flatMap((m) => Object.values(m as Record<string, unknown>))
  .filter((c): c is typeof CarrierArg => typeof c === "function" && "same" in (c.prototype ?? {}))
  .filter((c) => !(c.prototype instanceof CarrierArg) && (c as unknown) !== MeshShape).map((c) => c.name).sort();

class Draw extends Random {
  numbers(most = 6): number[] {
    return Array.from({ length: this.below(most) }, () => this.below(40));
  }
  dtype(): DType {
    return this.pick(DTYPES).vec(this.pick([1, 1, 2, 16]));
  }
  float(): DType {
    return this.pick(DTYPES.filter((d) => d.kind === "float"));
  }
  carrier(depth = 2): CarrierArg {
    const d = this.float(), slope = this.pick([0.5, 1.4426950408889634, 1e-7, 3e21]), op = this.pick([ADD, MUL, MAX]);
    const { rows, masks } = { rows: this.numbers(), masks: this.numbers() };
    switch (this.below(depth > 0 ? 9 : 7)) {
      case 0:
        return momentsCarrier(d);
      case 1:
        return rescaleCarrier(d, -slope);
      case 2:
        return new RescaleCarrier(d, slope, this.int(1, 3), this.pick([undefined, dtypes.float16, dtypes.bfloat16]));
      case 3:
        return new RowMaximum(d, slope, rows, masks);
      case 4:
        return new ScaledSum(d, this.pick([undefined, rows]), masks);
      case 5:
        return selectCarrier(d, op, this.dtype().scalar);
      case 6:
        return opCarrier(op, this.dtype());
      case 7:
        return new RowCarrier(this.carrier(depth - 1), rows, masks);
      default:
        return productCarrier(Array.from({ length: this.int(2, 3) }, () => this.carrier(depth - 1)));
    }
  }
  mesh(): MeshShape {
    return new MeshShape(["dp", "tp"], [this.int(1, 4), this.int(1, 4)], this.pick(["JS", "WASM"]));
  }
  arg(nodes: readonly UOp[]): Arg {
    const n = (most = 40): number => this.below(most), name = this.pick(["n", "", 'a "b"\n', "ä", "-0", "NaN"]);
    const makes: (() => Arg)[] = [
      () => undefined,
      () => this.pick(NUMBERS),
      () => name,
      () => Int64.fromBigInt(this.pick([1n << 63n, (1n << 53n) + 1n, -1n, 0n])),
      () => new ShapeArg(this.numbers()),
      () => new AxesArg(this.numbers()),
      () => new PairsArg(this.numbers().map((x) => [x, n()])),
      () => new SkewArg(n(), n(), n(), n(), n()),
      () => new WindowArg(n(), n()),
      () => new ReduceArg(this.pick([ADD, MUL, MAX]), this.numbers()),
      () => new VariableArg(name, this.pick(NUMBERS), this.pick(NUMBERS)),
      () => new ParamArg(n(), n()),
      () => new RangeArg(n(), this.pick(Object.values(AxisKind)), n(3), n(3)),
      () => new AccArg(n()),
      () => new OwnArg(n(), this.pick(["JS", "WASM:1"])),
      () => new TensorMapArg(n(), this.numbers(), this.numbers(), this.numbers()),
      () => new LocalArg(n(), n(), this.pick(["thread", "shared"])),
      () =>
        new StageArg(n(), this.pick(["thread", "shared", "undecided", "phase"]), n(), n(4), this.pick([false, true])),
      () => new TextArg("C", "f", name, this.numbers(), [1, n(), 2], [n(), 1, 1]),
      () => new Sharding(this.mesh(), [n(), n()], [this.pick(["dp", null]), null], this.pick([false, true])),
      () =>
        new CollectiveArg(
          this.pick(MOVES),
          this.mesh(),
          ["dp"],
          this.pick([0, ADD]),
          this.pick(["JS", undefined]),
          n(),
        ),
      () => new CustomArg(this.pick(nodes)),
      () => this.carrier(),
    ];
    return this.pick(makes)();
  }
  /** A graph of `count` nodes: whatever op has whatever sources and argument, of which the last nodes are roots. */
  graph(count: number): UOp[] {
    const ops = Object.values(Ops).filter((op) => ![Ops.BUFFER, Ops.COMPLEX, Ops.STORE].includes(op as never));
    const storages = Array.from({ length: 3 }, () => new Storage("JS", this.dtype(), n()));
    const first = constant(this.pick(NUMBERS), f32), written = store(index(param(3, f32, 9), first), first);
    const nodes: UOp[] = [first, written, ...storages.map((s) => bufferNode(s, this.below(3)))];
    function n(): number {
      return 1 + ops.length;
    }
    while (nodes.length < count) {
      const src = Array.from({ length: this.below(4) }, () => this.pick(nodes));
      nodes.push(uop(this.pick(ops), this.dtype(), src, this.arg(nodes)));
    }
    return [...nodes.slice(-3), sink(nodes.slice(-20))];
  }
}

/** What BUFFERs of these graphs are, so that a graph that is read is the very one that was written. */
function buffersOf(roots: readonly UOp[]): BufferOf {
  const kernels = (us: readonly UOp[]): UOp[] =>
    toposort(us).flatMap((u) => u.arg instanceof CustomArg ? [u, ...kernels([u.arg.kernel])] : [u]);
  const known = new Map(kernels(roots).filter((u) => u.op === Ops.BUFFER).map((u) => [u.arg!.toString(), u]));
  return ({ id, device, size }, version) => known.get(`#${id}.${version} ${device} x${size}`)!;
}

const copied = (data: GraphData): GraphData => JSON.parse(JSON.stringify(data));

Deno.test("graph data: random graphs are read as the nodes that were written", () => {
  const seen = new Set<string>();
  for (let seed = 0; seed < 60; seed++) {
    const draw = new Draw(seed), roots = draw.graph(80), data = graphData(roots);
    const read = graphOf(copied(data), undefined, buffersOf(roots));
    roots.forEach((u, i) => assertStrictEquals(read[i], u, `root ${i} of seed ${seed}`));
    assertEquals(graphData(read), data);
    for (const a of data.args) if (typeof a === "object" && a !== null && "record" in a) seen.add(a.record);
  }
  assertEquals([...seen].sort(), RECORDS);
});

Deno.test("graph data: every carrier is made of its key, with its identity and its sums", () => {
  for (let seed = 0; seed < 300; seed++) {
    const carrier = new Draw(seed).carrier(), { key, dtypes: lanes, identity } = carrier;
    const made = carrierOfKey(key, lanes)!;
    assertEquals([made.constructor, made.same(carrier), made.hash], [carrier.constructor, true, carrier.hash], key);
    assertEquals(made.identity, identity, key);
    const side = (at: number): UOp[] =>
      lanes.map((d, i) => uop(Ops.VARIABLE, d, [], new VariableArg(`v${at + i}`, 0, 1)));
    const [left, right] = [side(0), side(lanes.length)];
    const want = carrier.combine(left, right);
    made.combine(left, right).forEach((u, i) => assertStrictEquals(u, want[i], key));
  }
  for (const key of ["", "ADD,", "SUB", "ROWS(ADD", "ROWS(ADD) 1", "ADD MAX"]) {
    assertEquals(carrierOfKey(key, [f32]), undefined, key);
  }
  assertEquals(carrierOfKey("ADD,MUL", [f32]), undefined);
});

Deno.test("graph data: equal nodes are one row, and complex ones are kept", () => {
  const x = constant(2, f32), y = x.add(x).mul(x), z = uop(Ops.COMPLEX, dtypes.complex64, [y]);
  const data = graphData([z, y]);
  assertEquals([data.nodes.length, data.roots, data.ops], [4, [3, 2], ["CONST", "ADD", "MUL", "COMPLEX"]]);
  assertEquals(graphOf(copied(data)), [z, y]);
});

Deno.test("graph data: memory is told by its number; without more said it is new", () => {
  const storage = new Storage("JS", dtypes.float16, 12), a = bufferNode(storage), b = bufferNode(storage, 3);
  const [u] = graphOf(copied(graphData([a.add(b).add(a)])));
  const [first, second] = [u.src[0].src[0], u.src[0].src[1]];
  assertStrictEquals(u.src[1], first);
  const of = (v: UOp): Storage => (v.arg as unknown as { storage: Storage }).storage;
  assertStrictEquals(of(first), of(second));
  assertEquals([of(first).device, of(first).dtype, of(first).size], ["JS", dtypes.float16, 12]);
  assertEquals(of(first) === storage, false);
});

Deno.test("graph data: what cannot be written or read is refused, and why", () => {
  const x = constant(1, f32), data = graphData([x]);
  const formula = uop(Ops.CHECKPOINT, f32, [x, x], slope((v) => v));
  const own = new CarrierArg("argmax", [f32], [0], ([a]) => [a]);
  const others = [
    new CarrierArg("ADD", [f32], [0], ([a], [b]) => [a.mul(b)]),
    new CarrierArg("ADD", [f32], [1], ([a], [b]) => [a.add(b)]),
    new CarrierArg("ADD", [f32], [0], ([a], [b]) => [a.add(b)], (parts) => [parts[0][0]]),
  ];
  const of = (more: Partial<GraphData>) => () => graphOf({ ...data, ...more });
  for (
    const [fn, text] of [
      [() => graphData([formula]), "is a function of the program"],
      ...[own, ...others].map((arg) =>
        [
          () => graphData([uop(Ops.REDUCE, f32, [constant(others.indexOf(arg), f32)], arg)]),
          `no carrier that combines as it does is known by the key ${arg.key}`,
        ] as const
      ),
      [of({ version: 9 }), "it is of version 9, and this is version 1: write it again"],
      [of({ format: "x" }), "its format is x, not dinograd graph"],
      [of({ roots: [4] }), "it refers to row 4 of a table of 1"],
      [of({ ops: ["BUFFER"], nodes: [[0, 0, -1]] }), "it refers to row -1 of a table of"],
      [of({ ops: ["NO"] }), "it has an op NO, which there is not"],
      [of({ dtypes: [["float31", 1]] }), "it has a dtype float31 of 1 lanes, which there is not"],
      [of({ args: [{ record: "NoArg", fields: [1] }] }), "it has an argument NoArg [1], which is none"],
    ] as const
  ) assertEquals(assertThrows(fn, FormatError).message.includes(text), true, text);
  assertEquals(formula.arg instanceof GradientArg, true);
});
