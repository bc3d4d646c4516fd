/**
 * The rest of the table of op_rows.ts: movement, indexing and writing, products and windows, matrices, transforms, losses,
 * random numbers.
 */
import { prod } from "../../../src/helpers/math.ts";
import { axesOf, axisOf, below, type Hand, list, OP_ROWS, type OpRow, options, row } from "./op_rows.ts";

const smooth = { smooth: true };
const some = { smooth: true, rank: [1, 9] } as const;

/** The factors of `n` in some order, sometimes with an axis of size 1. */
function factored({ r }: Hand, n: number): number[] {
  const out: number[] = [];
  for (let left = n; left > 1;) {
    const divisors = [left];
    for (let d = 2; d * d <= left; d++) if (left % d === 0) divisors.push(d, left / d);
    const d = r.pick(divisors);
    out.push(d);
    left /= d;
  }
  if (n === 0) return [r.int(0, 2), 0];
  if (r.next() < 0.3) out.splice(r.int(0, out.length), 0, 1);
  return out;
}

function shuffled({ r }: Hand, n: number): number[] {
  const order = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = r.int(0, i);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

/** A pair for each axis. */
const pairs = ({ shape }: Hand, f: (n: number) => [number, number]): string => list(shape.map((n) => list(f(n))));

const MOVEMENT_ROWS: readonly OpRow[] = [
  row("reshape", "fib", (h) => `${h.x}.reshape(${list(factored(h, prod(h.shape)))})`, smooth),
  row("view", "fib", (h) => `${h.x}.view([${h.shape[0]}, -1])`, { smooth: true, rank: [2, 9] }),
  row("permute", "fib", (h) => `${h.x}.permute(${list(shuffled(h, h.shape.length))})`, smooth),
  row("transpose", "fib", (h) => `${h.x}.transpose(${axisOf(h)}, ${axisOf(h)})`, some),
  row("flip", "fib", (h) => `${h.x}.flip(${list(h.shape.map((_, i) => i).filter(() => h.r.next() < 0.5))})`, smooth),
  row("pad", "fib", (h) => {
    const value = h.dtype.isBool || h.r.next() < 0.5 ? "" : `, { value: ${h.r.int(0, 3)} }`;
    return `${h.x}.pad(${pairs(h, () => [h.r.pick([0, 0, 1, 2]), h.r.pick([0, 0, 1, 3])])}${value})`;
  }, smooth),
  row("pad", "fib", (h) => `${h.x}.pad([${h.r.int(-1, 2)}, ${h.r.int(-1, 2)}])`, some),
  ...["reflect", "replicate", "circular"].map((mode) =>
    row("pad", "fib", (h) => {
      const by = (n: number) => h.r.int(0, Math.min(2, Math.max(0, n - 1)));
      return `${h.x}.pad(${pairs(h, (n) => [by(n), by(n)])}, { mode: "${mode}" })`;
    }, some)
  ),
  row("padTo", "fib", (h) => {
    return `${h.x}.padTo(${list(h.shape.map((n) => h.r.next() < 0.4 ? "null" : n + h.r.int(0, 3)))})`;
  }, smooth),
  row("shrink", "fib", (h) => {
    return `${h.x}.shrink(${
      pairs(h, (n) => {
        const start = h.r.int(0, n >> 1);
        return [start, h.r.int(Math.min(n, start + 1), n)];
      })
    })`;
  }, smooth),
  row("shrinkTo", "fib", (h) => {
    return `${h.x}.shrinkTo(${list(h.shape.map((n) => h.r.next() < 0.4 ? "null" : h.r.int(Math.min(1, n), n)))})`;
  }, smooth),
  row("expand", "fib", (h) => {
    return `${h.x}.unsqueeze(0).expand(${list([h.r.pick([2, 3, 5]), ...h.shape.map(() => -1)])})`;
  }, smooth),
  row("expand", "fib", (h) => `${h.x}.expand(${list(h.shape.map((n) => n === 1 ? h.r.pick([1, 2, 4]) : n))})`, some),
  row("unsqueeze", "fib", (h) => `${h.x}.unsqueeze(${h.r.int(0, h.shape.length)})`, smooth),
  row("squeeze", "fib", (h) => `${h.x}.squeeze(${h.r.pick(["", h.shape.length > 0 ? axisOf(h) : ""])})`, smooth),
  row("flatten", "fib", (h) => `${h.x}.flatten(${h.r.pick(["", axisOf(h)])})`, smooth),
  row("unflatten", "fib", (h) => `${h.x}.unflatten(-1, [-1, ${h.shape.at(-1)! % 2 === 0 ? 2 : 1}])`, some),
  row("rearrange", "fib", (h) => {
    return `${h.x}.rearrange("${h.r.pick(["a b ... -> b (a ...)", "a b ... -> ... (b a)", "... a b -> 1 ... b a"])}")`;
  }, { smooth: true, rank: [2, 9] }),
  row("repeat", "fib", (h) => `${h.x}.repeat(${list(h.shape.map(() => h.r.pick([1, 1, 2, 3])))})`, smooth),
  row("repeatInterleave", "fib", (h) => `${h.x}.repeatInterleave(2${h.r.pick(["", `, ${axisOf(h)}`])})`, some),
  row("roll", "fib", (h) => `${h.x}.roll(${h.r.int(-3, 3)}${h.r.pick(["", `, ${axisOf(h)}`])})`, some),
  row("split", "fib", (h) => `${h.x}.split(2, ${axisOf(h)})[0]`, some),
  row("chunk", "fib", (h) => `${h.x}.chunk(2, ${axisOf(h)}).at(-1)`, some),
  ...["cat", "stack"].map((name) =>
    row(name, "fib", (h) => {
      const other = h.r.next() < 0.5 ? h.x : h.leaf(h.shape, h.dtype.name);
      return `${h.x}.${name}([${other}], ${axisOf(h)})`;
    }, some)
  ),
  row("unfold", "fib", (h) => `${h.x}.unfold(${axisOf(h)}, ${h.r.int(1, 3)}, ${h.r.int(1, 3)})`, some),
  row("diagonal", "fib", (h) => `${h.x}.diagonal({ offset: ${h.r.int(-1, 1)} })`, { smooth: true, rank: [2, 4] }),
  row("diag", "fib", (h) => `${h.x}.diag()`, { smooth: true, rank: [1, 1] }),
  ...["tril", "triu"].map((name) =>
    row(name, "fib", (h) => `${h.x}.${name}(${h.r.int(-1, 1)})`, { smooth: true, rank: [2, 4] })
  ),
  row("meshgrid", "fib", (h) => {
    return `${h.x}.meshgrid([${h.leaf([3], h.dtype.name)}], { indexing: "${h.r.pick(["ij", "xy"])}" })`;
  }, { smooth: true, rank: [1, 1], results: 2 }),
  row("sequential", "f", (h) => `${h.x}.sequential([(a) => a.add(1), (a) => a.mul(a)])`, smooth),
];

/** An index of an axis. */
function index(h: Hand, n: number): string {
  const { r } = h, p = r.next();
  if (p < 0.2) return `":"`;
  if (p < 0.35 && n > 0) return String(r.int(-n, n - 1));
  if (p < 0.45) return `null, ":"`;
  const start = r.int(0, n >> 1);
  return p < 0.85
    ? list([start, r.int(start, n), ...(r.next() < 0.4 ? [r.int(1, 3)] : [])])
    : list([n - 1, "null", -r.int(1, 3)]);
}

/** Tensors as indices of two axes with one between, or beside each other: they stand first, or in place. */
function tensorIndices(h: Hand): string | undefined {
  const { r, shape } = h;
  if (shape.includes(0)) return undefined;
  const axis = r.int(0, shape.length - 1), s = r.next() < 0.3 ? [r.int(1, 3), r.int(1, 3)] : [r.int(1, 6)];
  const out = [...new Array<string>(axis).fill('":"'), below(h, shape[axis], s)];
  if (axis + 1 < shape.length && r.next() < 0.4) out.push(below(h, shape[axis + 1], s.length > 1 ? s.slice(1) : s));
  else if (axis + 2 < shape.length && r.next() < 0.5) out.push('":"', below(h, shape[axis + 2], s));
  return r.next() < 0.2 && axis === shape.length - 1 ? `"...", ${out.at(-1)}` : out.join(", ");
}

/** The shape of an index for gather and scatter. */
function indexShape({ r, shape }: Hand, axis: number): number[] {
  return shape.map((n, i) => i === axis ? r.int(1, 5) : r.next() < 0.8 ? n : r.int(1, n));
}

const READ_ROWS: readonly OpRow[] = [
  row("at", "fib", (h) => `${h.x}.at(${h.shape.map((n) => index(h, n)).join(", ")})`, some),
  row("at", "fib", (h) => `${h.x}.at("...", ${index(h, h.shape.at(-1)!)})`, some),
  row("at", "fib", (h) => {
    const at = tensorIndices(h);
    return at && `${h.x}.at(${at})`;
  }, some),
  row("gather", "fib", (h) => {
    if (h.shape.includes(0)) return undefined;
    const axis = h.r.int(0, h.shape.length - 1);
    return `${h.x}.gather(${axis}, ${below(h, h.shape[axis], indexShape(h, axis))})`;
  }, some),
  row("oneHot", "i", (h) => `${h.x}.mod(5).oneHot(${h.r.int(3, 6)})`, { rank: [0, 2] }),
  row("maskedSelect", "fib", (h) => {
    return `${h.x}.maskedSelect(${h.leaf(h.shape, "bool")}, { size: ${h.r.int(1, 9)} })`;
  }, smooth),
  row("nonzero", "fib", (h) => `${h.x}.nonzero({ size: ${h.r.int(1, 9)} })`, { rank: [1, 3] }),
];

/** What scatters: a new tensor of what is written. */
function scattering(name: string, tail: (h: Hand) => string): OpRow["make"] {
  return (h) => {
    if (h.shape.includes(0)) return undefined;
    const axis = h.r.int(0, h.shape.length - 1), s = indexShape(h, axis);
    return `${h.x}.${name}(${axis}, ${below(h, h.shape[axis], s)}, ${h.leaf(s, h.dtype.name)}${tail(h)})`;
  };
}

const SCATTER_ROWS: readonly OpRow[] = [
  row("scatter", "fib", scattering("scatter", () => ""), some),
  row("scatter", "fi", scattering("scatter", ({ r }) => `, "${r.pick(["add", "multiply"])}"`), some),
  ...["sum", "prod", "amax", "amin", "mean"].map((how) =>
    row("scatterReduce", "fi", scattering("scatterReduce", ({ r }) => `, "${how}"${r.pick(["", ", false"])}`), some)
  ),
  row("setAt", "fib", (h) => {
    const at = tensorIndices(h);
    return at && `${h.x}.clone().setAt([${at}], ${h.r.int(0, 1)})`;
  }, some),
  row("setAt", "fib", (h) => `${h.x}.clone().setAt([${h.leaf(h.shape, "bool")}], 1)`, some),
  row("setAt", "fib", (h) => `${h.x}.clone().setAt([${h.shape.map((n) => index(h, n)).join(", ")}], 1)`, some),
];

/** `x` as [N, C, ...] with one to three spatial axes; undefined where it has too few. */
function image({ r, x, shape }: Hand): { x: string; channels: number; spatial: number[] } | undefined {
  if (shape.length < 2 || shape.includes(0)) return undefined;
  const dims = Math.min(r.pick([1, 2, 2, 3]), shape.length - 1), spatial = shape.slice(-dims);
  const rest = shape.slice(0, -dims), channels = rest.at(-1)!;
  return { x: `${x}.reshape(${list([prod(rest) / channels, channels, ...spatial])})`, channels, spatial };
}

const PRODUCT_ROWS: readonly OpRow[] = [
  ...["matmul", "dot"].map((name) =>
    row(name, "fi", (h) => {
      const { r, shape } = h, k = shape.at(-1)!, n = r.pick([1, 2, 3, 5, 8, 16, 17, 32]);
      const lead = shape.length > 2 && r.next() < 0.5 ? shape.slice(0, -2) : [];
      return `${h.x}.${name}(${h.leaf(r.next() < 0.15 ? [k] : [...lead, k, n], h.dtype.name)})`;
    }, some)
  ),
  row("matmul", "fi", (h) => `${h.x}.matmul(${h.x}.transpose(-1, -2))`, { smooth: true, rank: [2, 3] }),
  row("linear", "f", (h) => {
    const n = h.r.int(1, 9), k = h.shape.at(-1)!;
    const bias = h.r.next() < 0.5 ? `, ${h.leaf([n], h.dtype.name)}` : "";
    return `${h.x}.linear(${h.leaf([k, n], h.dtype.name)}${bias}).relu()`;
  }, some),
  row("Tensor.einsum", "fi", (h) => {
    const [m, n] = h.shape.slice(-2), d = h.dtype.name;
    return h.r.pick([
      () => `Tensor.einsum("...ij,jk->...ik", [${h.x}, ${h.leaf([n, 3], d)}])`,
      () => `Tensor.einsum("...ij,ik", [${h.x}, ${h.leaf([m, 2], d)}])`,
      () => `Tensor.einsum("...ij,...ij->...i", [${h.x}, ${h.x}])`,
      () => `Tensor.einsum("...ij->...ji", [${h.x}])`,
    ])();
  }, { smooth: true, rank: [2, 4] }),
  row("conv2d", "fi", (h) => {
    const to = image(h);
    if (to === undefined) return undefined;
    const { r } = h, c = to.channels, groups = r.next() < 0.25 ? c : 1;
    const kernel = to.spatial.map((n) => r.int(1, Math.min(3, n)));
    const w = h.leaf([groups * r.int(1, 3), c / groups, ...kernel], h.dtype.name);
    const bias = r.next() < 0.3 ? `${w}.flatten(1).sum(1)` : "undefined";
    const how = `stride: ${r.pick([1, 1, 2])}, padding: ${r.pick([0, 0, 1])}, dilation: ${r.pick([1, 1, 2])}`;
    return `${to.x}.conv2d(${w}, ${bias}, { groups: ${groups}, ${how} })`;
  }, { smooth: true, rank: [2, 5] }),
  row("convTranspose2d", "f", (h) => {
    const to = image(h);
    if (to === undefined) return undefined;
    const { r } = h, w = h.leaf([to.channels, r.int(1, 3), ...to.spatial.map(() => r.int(1, 3))], h.dtype.name);
    const how = { stride: [2, 3], padding: [1], dilation: [2], outputPadding: [1] };
    return `${to.x}.convTranspose2d(${w}, undefined${options(h, how)})`;
  }, { smooth: true, rank: [2, 5] }),
  row("avgPool2d", "f", (h) => {
    const how = { stride: [1, 2], padding: [1], dilation: [2], ceilMode: [true], countIncludePad: [false] };
    return `${h.x}.avgPool2d(${h.r.pick(["2", "[3]", "[2, 1]", "3"])}${options(h, how)})`;
  }, { smooth: true, rank: [2, 4] }),
  row("maxPool2d", "fi", (h) => {
    const how = { stride: [1, 2], padding: [1], dilation: [2], ceilMode: [true] };
    return `${h.x}.maxPool2d(${h.r.pick(["2", "[3]", "[2, 1]", "3"])}${options(h, how)})`;
  }, { smooth: true, rank: [2, 4] }),
  row("maxPool2d", "f", ({ x }) => `${x}.maxPool2d(2, { returnIndices: true })`, {
    smooth: true,
    rank: [2, 4],
    results: 2,
  }),
  row("maxUnpool2d", "f", (h) => {
    const [m, n] = h.shape.slice(-2);
    const places = `Tensor.arange(${m * n}).reshape([${m}, ${n}]).mul(3).expand([${h.shape.join(", ")}])`; // each once
    return m * n === 0 ? undefined : `${h.x}.maxUnpool2d(${places})`;
  }, { smooth: true, rank: [2, 4] }),
  row("interpolate", "f", (h) => {
    const size = h.shape.slice(h.r.int(1, h.shape.length - 1)).slice(-2).map(() => h.r.int(1, 7));
    const how = { mode: ['"nearest"', '"nearest-exact"', '"linear"'] };
    return `${h.x}.interpolate(${list(size)}${options(h, h.r.next() < 0.3 ? { alignCorners: [true] } : how)})`;
  }, { smooth: true, rank: [2, 4] }),
  row("scaledDotProductAttention", "f", (h) => {
    const { r, shape } = h, [l, e] = shape.slice(-2), lead = shape.slice(0, -2), d = h.dtype.name;
    const s = r.int(1, 6), n = r.int(1, 4), p = r.next();
    const gqa = p > 0.8 && lead.length > 0 && lead.at(-1)! % 2 === 0;
    const heads = gqa ? [...lead.slice(0, -1), lead.at(-1)! / 2] : lead;
    const kv = `${h.leaf([...heads, s, e], d)}, ${h.leaf([...heads, s, n], d)}`;
    const mask = p < 0.25 ? h.leaf([l, s], "bool") : p < 0.5 ? h.leaf([l, s], d) : "undefined";
    const how = gqa ? ", { enableGqa: true }" : p > 0.5 && r.next() < 0.5 ? ", { isCausal: true }" : "";
    return `${h.x}.scaledDotProductAttention(${kv}, ${mask}${how})`;
  }, { smooth: true, rank: [2, 4] }),
];

/** A few square matrices near the identity made of `x`. */
function square({ x, shape, dtype }: Hand): string | undefined {
  const n = Math.min(4, ...shape.slice(-2));
  if (n === 0) return undefined;
  const cut = `${x}.at("...", [0, ${n}], [0, ${n}]).clamp(-4, 4).mul(0.05)`;
  return `${cut}.add(Tensor.eye(${n}, undefined, { dtype: "${dtype.name}" }))`;
}

function ofSquare(name: string, call: (h: Hand, a: string) => string, more: Partial<OpRow> = {}): OpRow {
  return row(name, "f", (h) => {
    const a = square(h);
    return a && call(h, a);
  }, { smooth: true, rank: [2, 3], ...more });
}

const MATRIX_ROWS: readonly OpRow[] = [
  ofSquare("inv", (_, a) => `${a}.inv()`),
  ofSquare("det", (_, a) => `${a}.det()`),
  ofSquare("solve", (h, a) => `${a}.solve(${h.leaf([Math.min(4, ...h.shape.slice(-2)), 2], h.dtype.name)})`),
  // it reads one triangle, and its gradient is that of what is symmetric
  ofSquare(
    "cholesky",
    (h, a) => `${a}.add(${a}.transpose(-1, -2)).mul(0.5).cholesky(${h.r.pick(["", "{ upper: true }"])})`,
  ),
  ofSquare("qr", (_, a) => `${a}.qr()`, { results: 2 }),
  ofSquare("svd", (_, a) => `${a}.svd()`, { results: 3, smooth: false }),
  ofSquare("svd", (_, a) => `${a}.svd()[1]`),
  ofSquare("newtonSchulz", (_, a) => `${a}.newtonSchulz(2, [1.5, -0.5])`),
];

/** Complex numbers of `x` and a leaf, and what is real of what becomes of them. */
function ofComplex(name: string, call: (h: Hand, z: string) => string, more: Partial<OpRow> = some): OpRow {
  return row(name, "f", (h) => {
    const z = `Tensor.complex(${h.x}, ${h.leaf(h.shape, h.dtype.name)})`;
    return `${call(h, z)}.${h.r.pick(["real()", "imag()", "abs()", "viewAsReal()"])}`;
  }, more);
}

const COMPLEX_ROWS: readonly OpRow[] = [
  ...["add", "sub", "mul"].map((name) =>
    ofComplex(`complex ${name}`, (h, z) => `${z}.${name}(${h.r.pick([h.x, z, "2.5", "{ re: 0.5, im: -1 }"])})`)
  ),
  ofComplex("complex div", (h, z) => `${z}.div(${h.r.pick(["2", "{ re: 3, im: -4 }", `${h.x}.square().add(1)`])})`),
  ...["conj", "exp", "sin", "cosh", "tanh", "square", "sigmoid"].map((name) =>
    ofComplex(`complex ${name}`, (_, z) => `${z}.mul(0.25).${name}()`)
  ),
  ofComplex("complex sum", (h, z) => `${z}.${h.r.pick(["sum", "mean"])}(${axisOf(h)})`),
  ofComplex("complex where", (h, z) => `${h.x}.gt(0).where(${z}, ${h.r.pick(["0", h.x])})`),
  row("Tensor.polar", "f", (h) => `Tensor.polar(${h.x}, ${h.leaf(h.shape, h.dtype.name)}).viewAsReal()`, some),
  row("sgn", "f", ({ x }) => `${x}.sgn()`),
  row("angle", "f", ({ x }) => `${x}.angle()`),
  row("isreal", "fib", ({ x }) => `${x}.isreal()`),
];

const FOURIER_ROWS: readonly OpRow[] = [
  ...["fft", "ifft", "irfft"].map((name) =>
    row(name, "f", (h) => {
      const how = options(h, { norm: ['"ortho"', '"forward"'], n: [4, 5, 6] });
      return `${h.x}.stack([${h.operand().replace(/^[^t].*/, h.x)}], -1).${name}(-1${how})`;
    }, some)
  ),
  row("rfft", "f", (h) => `${h.x}.rfft(${axisOf(h)}${options(h, { norm: ['"ortho"'], n: [4, 7] })})`, some),
];

const reduction = { reduction: ['"mean"', '"sum"', '"none"'] } as const;

const LOSS_ROWS: readonly OpRow[] = [
  row("binaryCrossentropy", "f", (h) => {
    return `${h.x}.sigmoid().binaryCrossentropy(${h.leaf(h.shape, h.dtype.name)}.sigmoid()${
      h.r.pick(["", ', "sum"', ', "none"'])
    })`;
  }, smooth),
  row("binaryCrossentropyLogits", "f", (h) => {
    const y = `${h.leaf(h.shape, h.dtype.name)}.sigmoid()`;
    return `${h.x}.binaryCrossentropyLogits(${y}${options(h, { ...reduction, posWeight: [2] })})`;
  }, smooth),
  row("sparseCategoricalCrossentropy", "f", (h) => {
    const y = below(h, Math.max(h.shape.at(-1)!, 1), h.shape.slice(0, -1));
    const how = { ...reduction, labelSmoothing: [0.1], ignoreIndex: [0] };
    return `${h.x}.sparseCategoricalCrossentropy(${y}${options(h, how)})`;
  }, { smooth: true, rank: [2, 3] }),
  row("crossEntropy", "f", (h) => {
    const y = h.r.next() < 0.5
      ? `${h.leaf(h.shape, h.dtype.name)}.softmax(1)`
      : below(h, Math.max(h.shape[1], 1), [h.shape[0], ...h.shape.slice(2)]);
    return `${h.x}.crossEntropy(${y}${options(h, { ...reduction, labelSmoothing: [0.2] })})`;
  }, { smooth: true, rank: [2, 3] }),
  row("nllLoss", "f", (h) => {
    const y = below(h, Math.max(h.shape[1], 1), [h.shape[0], ...h.shape.slice(2)]);
    const weight = h.r.next() < 0.5 ? "undefined" : `${h.leaf([h.shape[1]], h.dtype.name)}.square().add(1)`;
    return `${h.x}.logSoftmax(1).nllLoss(${y}, ${weight}${options(h, { ...reduction, ignoreIndex: [1] })})`;
  }, { smooth: true, rank: [2, 3] }),
];

const RANDOM_ROWS: readonly OpRow[] = [
  row("Tensor.rand", "f", (h) => `${h.x}.add(Tensor.rand(${list(h.shape)}, { dtype: "${h.dtype.name}" }))`),
  row("randLike", "f", ({ x }) => `${x}.randLike()`),
  row("Tensor.randn", "f", (h) => `Tensor.randn(${list(h.shape)}, { dtype: "${h.dtype.name}" })`),
  row("randnLike", "f", ({ x }) => `${x}.randnLike()`),
  row("Tensor.randint", "fi", (h) => `Tensor.randint(${list(h.shape)}, { low: -3, high: 9 })`),
  row("Tensor.normal", "f", (h) => `Tensor.normal(${list(h.shape)}, { mean: 1, std: 0.5 })`),
  ...["uniform", "scaledUniform", "glorotUniform", "kaimingUniform", "kaimingNormal"].map((name) =>
    row(`Tensor.${name}`, "f", (h) => `Tensor.${name}(${list(h.shape)})`, { rank: [1, 4] })
  ),
  row("Tensor.randperm", "fi", (h) => `Tensor.randperm(${h.r.int(1, 40)})`),
  row("multinomial", "f", (h) => {
    return `${h.x}.abs().add(0.5).multinomial({ numSamples: 2, replacement: ${h.r.pick([true, false])} })`;
  }, { rank: [1, 2] }),
  row("Tensor.randomBits", "i", (h) => {
    return `Tensor.randomBits(${h.leaf([2], "uint32")}, ${h.leaf([2], "uint32")}, ${h.r.int(1, 30)})`;
  }),
  row("threefry", "i", (h) => `${h.x}.cast("uint64").threefry(${h.leaf(h.shape, "uint64")})`),
];

const LIKE_ROWS: readonly OpRow[] = [
  ...["zerosLike", "onesLike"].map((name) => row(name, "fib", ({ x }) => `${x}.add(${x}.${name}())`, smooth)),
  row("fullLike", "fi", ({ x }) => `${x}.mul(${x}.fullLike(2))`, smooth),
  row("constLike", "fi", ({ x }) => `${x}.add(${x}.constLike(3))`, smooth),
  row("Tensor.eye", "f", (h) => `${h.x}.mul(Tensor.eye(${h.shape.at(-1)}, undefined, { dtype: "${h.dtype.name}" }))`, {
    smooth: true,
    rank: [1, 3],
  }),
  row("Tensor.linspace", "f", (h) => `${h.x}.add(Tensor.linspace(-1, 2, ${h.shape.at(-1)}))`, some),
  row("Tensor.arange", "fi", (h) => `${h.x}.add(Tensor.arange(${h.shape.at(-1)}).cast("${h.dtype.name}"))`, some),
  row("Tensor.zeros", "f", (h) => `${h.x}.add(Tensor.zeros(${list(h.shape)}))`, smooth),
  row("Tensor.ones", "f", (h) => `${h.x}.mul(Tensor.ones(${list(h.shape.map(() => 1))}))`, smooth),
  row("Tensor.const", "f", ({ x }) => `${x}.mul(Tensor.const(2))`, smooth),
  row("sum", "f", (h) => `${h.x}.sub(${h.x}.mean(${axesOf(h)}, { keepdim: true })).square().sum(null)`, some),
];

/** All rows, by what a step may do, with its share. */
export const ALL_ROWS: readonly (readonly [share: number, rows: readonly OpRow[]])[] = [
  ...OP_ROWS,
  [0.18, MOVEMENT_ROWS],
  [0.05, READ_ROWS],
  [0.04, SCATTER_ROWS],
  [0.07, PRODUCT_ROWS],
  [0.02, MATRIX_ROWS],
  [0.02, FOURIER_ROWS],
  [0.03, COMPLEX_ROWS],
  [0.03, LOSS_ROWS],
  [0.02, RANDOM_ROWS],
  [0.02, LIKE_ROWS],
];
