/**
 * ONNX: classical models of ai.onnx.ml: trees, linear models, scalers. All trees go down one level at a time, for all
 * rows at once.
 *
 * @module
 */
import { dtypes } from "../../../dtype/dtype.ts";
import { Tensor } from "../../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result, type Steps } from "../../values/node_call.ts";
import { knownValue, Mapping, Sequence, valueOf } from "../../values/value.ts";
import { FLOAT, INT64, STRING } from "../../wire/element_types.ts";

/** A forest as lists: nodes of all trees, of which leaves lead to themselves. */
interface Forest {
  readonly roots: readonly number[];
  readonly depth: number;
  readonly feature: readonly number[];
  /** 0 `<=`, 1 `<`, 2 `>=`, 3 `>`, 4 `==`, 5 `!=`, 6 in a set. */
  readonly mode: readonly number[];
  readonly split: readonly number[];
  readonly yes: readonly number[];
  readonly no: readonly number[];
  /** Where a row goes whose value is missing. */
  readonly missingYes: readonly boolean[];
  /** Of each node: what it adds to each target. */
  readonly weights: readonly number[][];
  readonly sets: ReadonlyMap<number, readonly number[]>;
}

function deviceList(c: Call, list: readonly number[], integers = false): Tensor {
  const data = integers ? Int32Array.from(list) : Float32Array.from(list);
  return new Tensor(data, { device: c.device as "JS" });
}

/** The sums of leaves, `[rows, targets]`, of all trees: `[rows, trees, targets]` where they are not added. */
function leaves(c: Call, x: Tensor, f: Forest): Tensor {
  const rows = x.shape[0], trees = f.roots.length, wide = x.float();
  const at = (list: readonly number[], node: Tensor, integers = false): Tensor =>
    deviceList(c, list, integers).take(node);
  let node = deviceList(c, f.roots, true).unsqueeze(0).expand([rows, trees]);
  const kinds = [...new Set(f.mode)];
  for (let d = 0; d < f.depth; d++) {
    const value = wide.gather(1, at(f.feature, node, true)), split = at(f.split, node), mode = at(f.mode, node, true);
    let goes: Tensor | undefined;
    for (const kind of kinds) {
      const one = kind === 6 ? inSets(c, f, value, node) : compared(kind, value, split);
      goes = goes === undefined ? one : mode.eq(kind).where(one, goes);
    }
    if (f.missingYes.includes(true)) {
      goes = goes!.logicalOr(value.isnan().logicalAnd(at(f.missingYes.map(Number), node).ne(0)));
    }
    node = goes!.where(at(f.yes, node, true), at(f.no, node, true));
  }
  const targets = f.weights[0].length, table = deviceList(c, f.weights.flat()).reshape([f.weights.length, targets]);
  return table.indexSelect(0, node.reshape([-1])).reshape([rows, trees, targets]);
}
function compared(kind: number, a: Tensor, b: Tensor): Tensor {
  return [() => a.le(b), () => a.lt(b), () => a.ge(b), () => a.gt(b), () => a.eq(b), () => a.ne(b)][kind]();
}
/** Whether values are in the sets of their nodes. */
function inSets(c: Call, f: Forest, value: Tensor, node: Tensor): Tensor {
  let found: Tensor | undefined;
  for (const [id, set] of f.sets) {
    for (const member of set) {
      const here = node.eq(id).logicalAnd(value.eq(deviceList(c, [member])));
      found = found?.logicalOr(here) ?? here;
    }
  }
  return found ?? value.ne(value).logicalAnd(value.eq(value));
}

/** How deep the trees are; a node on its own way is refused. */
function depthOf(c: Call, roots: readonly number[], yes: readonly number[], no: readonly number[]): number {
  const n = yes.length;
  let level = [...roots], depth = 0;
  while (level.some((i) => yes[i] !== i)) {
    if (++depth > n) throw c.fail("its tree has a cycle");
    level = [...new Set(level.flatMap((i) => yes[i] === i ? [] : [yes[i], no[i]]))];
    const wrong = level.find((i) => !(i >= 0 && i < n));
    if (wrong !== undefined) throw c.fail(`its tree has no node ${wrong}`);
  }
  return depth;
}

/** Version 5: nodes and leaves in two tables, roots by position. */
function treeEnsemble(c: Call): Result {
  const features = c.ints("nodes_featureids"), splits = c.constant("nodes_splits")!, modes = c.constant("nodes_modes")!;
  const n = features.length, targets = c.int("n_targets", 1), leafTarget = c.ints("leaf_targetids");
  const leafWeight = c.constant("leaf_weights")!, count = leafTarget.length, type = splits.type;
  const trueLeaf = c.ints("nodes_trueleafs"), falseLeaf = c.ints("nodes_falseleafs");
  const trueId = c.ints("nodes_truenodeids"), falseId = c.ints("nodes_falsenodeids");
  const missing = c.ints("nodes_missing_value_tracks_true", new Array<number>(n).fill(0));
  const pad = <T>(list: ArrayLike<T>, value: T): T[] => [...Array.from(list), ...new Array<T>(count).fill(value)];
  const self = Array.from({ length: count }, (_, i) => n + i);
  const yes = [...trueId.map((id, i) => trueLeaf[i] === 1 ? n + id : id), ...self];
  const no = [...falseId.map((id, i) => falseLeaf[i] === 1 ? n + id : id), ...self];
  const weights = Array.from({ length: n + count }, () => new Array<number>(targets).fill(0));
  leafTarget.forEach((t, i) => weights[n + i][t] = leafWeight.numbers![i]);
  const sets = new Map<number, number[]>(), members = Array.from(c.constant("membership_values")?.numbers ?? []);
  let from = 0;
  Array.from(modes.numbers!).forEach((mode, i) => {
    if (mode !== 6) return;
    let to = from;
    while (to < members.length && !Number.isNaN(members[to])) to++;
    sets.set(i, members.slice(from, to));
    from = to + 1;
  });
  const roots = c.ints("tree_roots");
  const forest: Forest = {
    roots,
    depth: depthOf(c, roots, yes, no),
    feature: pad(features, 0),
    mode: pad(modes.numbers!, 0),
    split: pad(splits.numbers!, 0),
    yes,
    no,
    missingYes: pad(missing.map((m) => m === 1), false),
    weights,
    sets,
  };
  return valueOf(
    aggregated(c, leaves(c, c.x(0), forest), ["AVERAGE", "SUM", "MIN", "MAX"][c.int("aggregate_function", 1)]).cast(
      c.dtype(type),
    ),
    type,
  );
}
function aggregated(c: Call, all: Tensor, how: string): Tensor {
  if (how === "SUM") return all.sum(1);
  if (how === "AVERAGE") return all.mean(1);
  if (how === "MIN") return all.min(1);
  if (how === "MAX") return all.max(1);
  throw c.fail(`aggregation "${how}" is not known`);
}

const MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];
/** Versions 1 and 3: nodes by tree and number, weights of leaves by the same. */
function oldForest(c: Call, prefix: string, targets: number): Forest {
  const trees = c.ints("nodes_treeids"),
    ids = c.ints("nodes_nodeids"),
    modes = c.strings("nodes_modes"),
    n = ids.length;
  const place = new Map(ids.map((id, i) => [`${trees[i]}:${id}`, i])),
    weights = ids.map(() => new Array<number>(targets).fill(0));
  const at = (tree: number, id: number): number => place.get(`${tree}:${id}`) ?? -1;
  const leaf = (i: number): boolean => modes[i] === "LEAF";
  const wrong = modes.find((m) => m !== "LEAF" && !MODES.includes(m));
  if (wrong !== undefined) throw c.fail(`mode "${wrong}" of a node is not known`);
  const to = (name: string): number[] => c.ints(name).map((id, i) => leaf(i) ? i : at(trees[i], id));
  const yes = to("nodes_truenodeids"), no = to("nodes_falsenodeids");
  const tree = c.ints(`${prefix}_treeids`),
    node = c.ints(`${prefix}_nodeids`),
    id = c.ints(`${prefix}_ids`),
    w = c.floats(`${prefix}_weights`);
  id.forEach((t, i) => weights[at(tree[i], node[i])][t] += w[i]);
  const roots = [...new Set(trees)].map((t) => {
    const inner = new Set([...yes, ...no].filter((_, k) => trees[k % n] === t && !leaf(k % n)));
    return ids.findIndex((_, i) => trees[i] === t && !inner.has(i));
  });
  return {
    roots,
    depth: depthOf(c, roots, yes, no),
    feature: c.ints("nodes_featureids"),
    mode: modes.map((m) => Math.max(0, MODES.indexOf(m))),
    split: c.floats("nodes_values"),
    yes,
    no,
    missingYes: c.ints("nodes_missing_value_tracks_true", ids.map(() => 0)).map((m) => m === 1),
    weights,
    sets: new Map(),
  };
}
function transformed(c: Call, x: Tensor): Tensor {
  const how = c.text("post_transform", "NONE");
  if (how === "NONE") return x;
  if (how === "LOGISTIC") return x.sigmoid();
  if (how === "SOFTMAX") return x.softmax(-1);
  if (how === "SOFTMAX_ZERO") {
    const e = x.eq(0).where(0, x.sub(x.max(-1, { keepdim: true })).exp());
    return e.div(e.sum(-1, { keepdim: true }));
  }
  if (how === "PROBIT") return x.mul(2).sub(1).erfinv().mul(Math.SQRT2);
  throw c.fail(`post_transform "${how}" is not known`);
}
function treeRegressor(c: Call): Result {
  const targets = c.int("n_targets", 1), base = c.floats("base_values", []);
  const sum = aggregated(c, leaves(c, c.x(0), oldForest(c, "target", targets)), c.text("aggregate_function", "SUM"));
  return transformed(c, base.length === 0 ? sum : sum.add(deviceList(c, base)));
}

/** The labels by `votes`, and the scores, of a classifier; texts are chosen on the host, so their places are read. */
function* labelled(c: Call, votes: Tensor, scores: Tensor): Steps<Result> {
  const texts = c.strings("classlabels_strings", []),
    ints = c.ints(c.hasAttribute("classlabels_ints") ? "classlabels_ints" : "classlabels_int64s", []);
  const at = votes.argmax(1), told = transformed(c, scores);
  if (texts.length > 0) {
    const places = valueOf(at);
    yield places;
    return [knownValue(STRING, [scores.shape[0]], Array.from(places.numbers!, (i) => texts[i])), told];
  }
  return [valueOf(deviceList(c, ints, true).take(at).cast(dtypes.int64), INT64), told];
}
/** One score of two classes stands for the second; the first has what is left of 1, or its negative. */
function bothClasses(score: Tensor, share: boolean): Tensor {
  return (share ? score.mul(-1).add(1) : score.neg()).cat([score], 1);
}
function* treeClassifier(c: Call): Steps<Result> {
  const classes = Math.max(c.strings("classlabels_strings", []).length, c.ints("classlabels_int64s", []).length);
  const used = new Set(c.ints("class_ids")), base = c.floats("base_values", []);
  const sum = leaves(c, c.x(0), oldForest(c, "class", classes)).sum(1);
  const one = classes === 2 && used.size === 1;
  const picked = one ? sum.at(":", [...used][0]).unsqueeze(1) : sum;
  const scores = base.length === 0 ? picked : picked.add(deviceList(c, base));
  if (!one) return yield* labelled(c, scores, scores);
  const votes = c.floats("class_weights").every((w) => w >= 0); // shares of 1, and no margins
  const share = votes && c.text("post_transform", "NONE") === "NONE";
  return yield* labelled(c, bothClasses(scores, votes), bothClasses(scores, share));
}
function linear(c: Call, rows: number): Tensor {
  const w = deviceList(c, c.floats("coefficients")).reshape([rows, -1]), y = c.x(0).float().matmul(w.transpose(0, 1));
  const base = c.floats("intercepts", []);
  return base.length === 0 ? y : y.add(deviceList(c, base));
}
function* linearClassifier(c: Call): Steps<Result> {
  const labels = Math.max(c.strings("classlabels_strings", []).length, c.ints("classlabels_ints", []).length);
  const width = c.shape(0)[c.shape(0).length - 1], rows = c.floats("coefficients").length / width, y = linear(c, rows);
  if (rows !== 1 || labels !== 2) return yield* labelled(c, y, y);
  return yield* labelled(c, bothClasses(y, false), bothClasses(y, c.text("post_transform", "NONE") === "NONE"));
}
function normalizer(c: Call): Result {
  const x = c.x(0).float(), how = c.text("norm", "MAX"), axis = x.ndim - 1;
  const by = how === "MAX"
    ? x.max(axis, { keepdim: true })
    : how === "L1"
    ? x.abs().sum(axis, { keepdim: true })
    : x.square().sum(axis, { keepdim: true }).sqrt();
  return by.eq(0).where(x, x.div(by));
}
function imputer(c: Call): Result {
  const x = c.x(0),
    float = x.dtype.isFloat,
    values = float ? c.floats("imputed_value_floats") : c.ints("imputed_value_int64s");
  const replaced = float ? c.float("replaced_value_float", 0) : c.int("replaced_value_int64", 0);
  const gone = Number.isNaN(replaced) ? x.isnan() : x.eq(replaced);
  return c.like(gone.where(values.length === 1 ? values[0] : deviceList(c, values), x));
}
function oneHotEncoder(c: Call): Result {
  if (c.hasAttribute("cats_strings")) {
    const cats = c.strings("cats_strings"), texts = c.texts(0);
    return knownValue(FLOAT, [...c.shape(0), cats.length], texts.flatMap((t) => cats.map((k) => k === t ? 1 : 0)));
  }
  const cats = c.ints("cats_int64s");
  return c.x(0).float().unsqueeze(-1).eq(deviceList(c, cats)).cast(dtypes.float32);
}

/** Each row as numbers by class. */
function zipMap(c: Call): Result {
  const texts = c.strings("classlabels_strings", []), keys = texts.length > 0 ? texts : c.ints("classlabels_int64s");
  const n = keys.length, all = c.numbers(0), shape = c.shape(0);
  if (n !== shape[shape.length - 1] || shape.length > 2) {
    throw c.fail(`its ${n} classes do not fit scores of shape [${shape.join(", ")}]`);
  }
  const rows = Array.from({ length: all.length / n }, (_, r) => new Map(keys.map((key, k) => [key, all[r * n + k]])));
  return new Sequence(rows.map((row) => new Mapping(row)));
}

const ml = (name: string, run: OpRow["run"], host: OpRow["host"] = []): OpRow => op(name, run, host, 1, "ai.onnx.ml");
/** The rows of this family. */
export const CLASSICAL: readonly OpRow[] = [
  ml("TreeEnsemble", treeEnsemble),
  ml("TreeEnsembleRegressor", treeRegressor),
  ml("TreeEnsembleClassifier", treeClassifier),
  ml("LinearRegressor", (c) => transformed(c, linear(c, c.int("targets", 1)))),
  ml("LinearClassifier", linearClassifier),
  ml("Scaler", (c) => c.x(0).float().sub(deviceList(c, c.floats("offset"))).mul(deviceList(c, c.floats("scale")))),
  ml("Normalizer", normalizer),
  ml("Binarizer", (c) => c.like(c.x(0).gt(c.float("threshold", 0)))),
  ml("Imputer", imputer),
  ml("OneHotEncoder", oneHotEncoder),
  ml("ZipMap", zipMap, [0]),
  ml("FeatureVectorizer", (c) => {
    const parts = c.xs().map((x) => x.float().reshape([x.shape[0], -1]));
    return parts[0].cat(parts.slice(1), 1);
  }),
];
