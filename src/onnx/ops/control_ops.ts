/**
 * ONNX: control flow, sequences, optionals. Conditions are read on the host, branches not taken never run, and loops are
 * unrolled: each turn is part of the graph.
 *
 * @module
 */
import { Tensor } from "../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result, type Steps } from "../values/node_call.ts";
import { type Item, knownValue, Optional, Sequence, Value, valueOf } from "../values/value.ts";
import { BOOL, INT64 } from "../wire/element_types.ts";

/** Whether a condition holds, which is read. */
function* holds(item: Item | undefined): Steps<boolean> {
  if (!(item instanceof Value)) return true;
  if (item.data === undefined) yield item;
  return (item.numbers?.[0] ?? 1) !== 0;
}
function tensorsOf(c: Call, items: readonly Item[]): Tensor[] {
  return items.map((v) => {
    if (v instanceof Value) return v.tensor(c.device);
    throw c.fail("an element of its sequence is no tensor");
  });
}
/** Items side by side on a new axis. */
function stacked(c: Call, items: readonly Item[], axis = 0): Value {
  const tensors = tensorsOf(c, items), type = (items[0] as Value).type;
  return valueOf(tensors[0].stack(tensors.slice(1), axis), type);
}

function* branch(c: Call): Steps<Result> {
  return yield* c.run(c.graph((yield* holds(c.item(0))) ? "then_branch" : "else_branch"), []);
}

function* loop(c: Call): Steps<Result> {
  const body = c.graph("body"), limit = c.has(0) ? c.number(0) : Infinity, count = body.inputs.length - 2;
  let carried = c.inputs.slice(2, 2 + count) as Item[], going = yield* holds(c.inputs[1]);
  const scans: Item[][] = body.outputs.slice(1 + count).map(() => []);
  for (let i = 0; going && i < limit; i++) {
    const out = yield* c.run(body, [knownValue(INT64, [], [i]), knownValue(BOOL, [], [1]), ...carried]);
    carried = out.slice(1, 1 + count);
    out.slice(1 + count).forEach((item, k) => scans[k].push(item));
    if (c.has(1) || !Number.isFinite(limit) || (out[0] as Value).data !== undefined) going = yield* holds(out[0]);
  }
  return [...carried, ...scans.map((items, k) => items.length > 0 ? stacked(c, items) : emptyScan(c, k + 1 + count))];
}
/** What no turn gave anything to. */
function emptyScan(c: Call, output: number): Value {
  const type = c.graph("body").outputs[output].type, code = type?.element ?? 1;
  const sizes = (type?.shape ?? []).map((n) => typeof n === "number" ? n : 0);
  return valueOf(Tensor.zeros([0, ...sizes], { dtype: c.dtype(code) }), code);
}

/** Version 8 has a batch in front and lengths; from 9 on the axes are attributes. */
function* scan(c: Call): Steps<Result> {
  if (c.version >= 9) return yield* scanOnce(c, c.inputs as Item[]);
  const batch = c.shape(1)[0], runs: Item[][] = [];
  for (let b = 0; b < batch; b++) {
    const items = c.inputs.slice(1).map((_, i) => valueOf(c.x(i + 1).at(b), c.type(i + 1)));
    runs.push([...yield* scanOnce(c, items)]);
  }
  return runs[0].map((_, i) => stacked(c, runs.map((r) => r[i])));
}
function* scanOnce(c: Call, inputs: readonly Item[]): Steps<Item[]> {
  const body = c.graph("body"), m = c.int("num_scan_inputs"), n = inputs.length - m, k = body.outputs.length - n;
  const zeros = (size: number) => new Array<number>(size).fill(0);
  const ways = c.version >= 9 ? c.ints("scan_input_directions", zeros(m)) : c.ints("directions", zeros(m));
  const outWays = c.ints("scan_output_directions", zeros(k));
  const axes = c.ints("scan_input_axes", zeros(m)), outAxes = c.ints("scan_output_axes", zeros(k));
  let state = inputs.slice(0, n) as Item[];
  const xs = tensorsOf(c, inputs.slice(n)), types = inputs.slice(n).map((v) => (v as Value).type);
  const at = xs.map((x, i) => c.axis(axes[i], x.ndim)),
    length = xs[0].shape[at[0]],
    outs: Item[][] = Array.from({ length: k }, () => []);
  for (let t = 0; t < length; t++) {
    const parts = xs.map((x, i) => valueOf(x.select(at[i], ways[i] === 1 ? length - 1 - t : t), types[i]));
    const got = yield* c.run(body, [...state, ...parts]);
    state = got.slice(0, n);
    got.slice(n).forEach((item, i) => outWays[i] === 1 ? outs[i].unshift(item) : outs[i].push(item));
  }
  return [
    ...state,
    ...outs.map((items, i) => {
      const rank = (items[0] as Value).shape.length + 1;
      return stacked(c, items, c.axis(outAxes[i], rank));
    }),
  ];
}

function* sequenceMap(c: Call): Steps<Result> {
  const body = c.graph("body"), length = c.items(0).length, outs: Item[][] = body.outputs.map(() => []);
  for (let i = 0; i < length; i++) {
    const items = c.inputs.map((v) => v instanceof Sequence ? v.items[i] : v as Item);
    (yield* c.run(body, items)).forEach((item, k) => outs[k].push(item));
  }
  return outs.map((items) => new Sequence(items));
}

/** A place in a sequence, of which negative ones count from the end. */
function placeIn(c: Call, input: number, length: number): number {
  const i = c.number(input);
  if (!(i >= -length && i < length)) throw c.fail(`position ${i} is outside of ${length}`);
  return i < 0 ? i + length : i;
}

function splitToSequence(c: Call): Result {
  const x = c.x(0), axis = c.axis(c.int("axis", 0), x.ndim), n = x.shape[axis];
  const given = c.has(1) ? c.numbers(1) : undefined;
  const sizes = given === undefined
    ? new Array<number>(n).fill(1)
    : c.shape(1).length > 0
    ? given
    : Array.from({ length: c.list(Math.ceil(n / given[0])) }, (_, i) => Math.min(given[0], n - i * given[0]));
  const parts = x.split(sizes, axis);
  const flat = given === undefined && c.int("keepdims", 1) === 0;
  return new Sequence(parts.map((p) => valueOf(flat ? p.squeeze(axis) : p, c.type(0))));
}

function concatFromSequence(c: Call): Result {
  const items = c.items(0), axis = c.int("axis"), tensors = tensorsOf(c, items), type = (items[0] as Value).type;
  if (c.int("new_axis", 0) === 1) return stacked(c, items, c.axis(axis, tensors[0].ndim + 1));
  return valueOf(tensors[0].cat(tensors.slice(1), c.axis(axis, tensors[0].ndim)), type);
}

/** The rows of this family. */
export const CONTROL: readonly OpRow[] = [
  op("If", branch),
  op("Loop", loop, [0]),
  op("Scan", scan),
  op("SequenceEmpty", () => new Sequence([])),
  op("SequenceConstruct", (c) => new Sequence(c.inputs as Item[])),
  op("SequenceAt", (c) => c.items(0)[placeIn(c, 1, c.items(0).length)], [1]),
  op("SequenceLength", (c) => knownValue(INT64, [], [c.items(0).length])),
  op("SequenceInsert", (c) => {
    const items = c.items(0), at = c.has(2) ? placeIn(c, 2, items.length + 1) : items.length;
    return new Sequence(items.toSpliced(c.has(2) && c.number(2) < 0 ? at - 1 : at, 0, c.item(1)));
  }, [2]),
  op("SequenceErase", (c) => {
    const items = c.items(0);
    return new Sequence(items.toSpliced(c.has(1) ? placeIn(c, 1, items.length) : items.length - 1, 1));
  }, [1]),
  op("SequenceMap", sequenceMap),
  op("SplitToSequence", splitToSequence, [1]),
  op("ConcatFromSequence", concatFromSequence),
  op("Optional", (c) => new Optional(c.inputs[0])),
  op("OptionalHasElement", (c) => {
    const v = c.inputs[0];
    return knownValue(BOOL, [], [v !== undefined && !(v instanceof Optional && v.item === undefined) ? 1 : 0]);
  }),
  op("OptionalGetElement", (c) => {
    const v = c.item(0);
    if (v instanceof Optional && v.item === undefined) throw c.fail("its optional holds nothing");
    return v instanceof Optional ? v.item : v;
  }),
];
