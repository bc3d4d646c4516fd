/**
 * Every public operation on tensors is compared with PyTorch or NumPy somewhere: by a golden case, a case of edges, a row of
 * PyTorch's own test database or of the newer ops. Of what is not, the rest are said to be the same as an operation that
 * is, which is checked here, or have a reason. A new operation without any of that fails.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { publicFunctions } from "../fuzz/arguments.ts";

Device.default = "JS";

const TESTS = new URL("../", import.meta.url);

/** The sources and the fixtures of comparisons with other libraries. */
const COMPARED: readonly string[] = [
  "golden/golden.ts",
  "golden/golden_cases.ts",
  "golden/golden_complex.ts",
  "golden/golden_families.ts",
  "golden/golden_ops.ts",
  "fixtures/golden/edges.json",
  "fixtures/golden/golden.json",
  "fixtures/golden/ops.json",
  "fixtures/opdb/opdb_rows.ts",
  "fixtures/opdb/opdb_rows_families.ts",
  "fixtures/opdb/opdb_rows_more.ts",
  "programs/newer_ops_test.ts",
];

const x = (): Tensor => new Tensor([[6, 3, -2], [5, 8, 1]]).clone().realize();
const y = (): Tensor => new Tensor([[1, 2, 3], [2, 1, 2]]);

/** Where a matrix is not zero: a row of rows and one of columns. */
const places = async (matrix: Tensor): Promise<Tensor> => (await matrix.nonzero()).transpose();

/** Operations that are others under another name or in another form: both are computed. */
const SAME: Readonly<Record<string, readonly [ours: () => Tensor, other: () => Tensor | Promise<Tensor>]>> = {
  constLike: [() => x().constLike(7), () => x().fullLike(7)],
  wasm: [() => x().wasm(), () => x().to("WASM")],
  toInPlace: [() => x().toInPlace("WASM"), () => x().to("WASM")],
  replace: [() => x().replace(y()), y],
  addInPlace: [() => x().addInPlace(y()), () => x().add(y())],
  subInPlace: [() => x().subInPlace(y()), () => x().sub(y())],
  mulInPlace: [() => x().mulInPlace(y()), () => x().mul(y())],
  divInPlace: [() => x().cast("float32").divInPlace(y()), () => x().div(y())],
  floorDivInPlace: [() => x().floorDivInPlace(y()), () => x().floorDiv(y())],
  modInPlace: [() => x().modInPlace(y()), () => x().mod(y())],
  powInPlace: [() => x().powInPlace(y()), () => x().pow(y())],
  matmulInPlace: [() => x().matmulInPlace(Tensor.eye(3, { dtype: "int32" }).mul(2)), () => x().mul(2)],
  bitwiseAndInPlace: [() => x().bitwiseAndInPlace(y()), () => x().bitwiseAnd(y())],
  bitwiseOrInPlace: [() => x().bitwiseOrInPlace(y()), () => x().bitwiseOr(y())],
  bitwiseXorInPlace: [() => x().bitwiseXorInPlace(y()), () => x().bitwiseXor(y())],
  lshiftInPlace: [() => x().lshiftInPlace(y()), () => x().lshift(y())],
  rshiftInPlace: [() => x().rshiftInPlace(y()), () => x().rshift(y())],
  emptyLike: [() => x().emptyLike().mul(0), () => x().zerosLike()],
  "Tensor.trilIndices": [() => Tensor.trilIndices(3, 4), () => places(Tensor.ones([3, 4]).tril())],
  "Tensor.triuIndices": [() => Tensor.triuIndices(3, 4), () => places(Tensor.ones([3, 4]).triu())],
};

/** Why nothing is compared: by names. */
const REASONS: readonly (readonly [names: string, reason: string])[] = [
  ["alu ufix kernelize Tensor.kernelize asParam customKernel", "it gives a graph, a kernel, or what a kernel takes"],
  ["dataSync tolistSync itemSync dispose toString", "it gives no tensor; all comparisons read by one of them"],
  ["numel nbytes elementSize isFloatingPoint allclose", "it gives a number or a boolean"],
  [
    "bernoulli fractionalMaxPool2d fractionalMaxPool3d binomial exponential cauchy logNormal geometric gumbelSoftmax multinomial threefry dropout2d randLike randnLike Tensor.rand Tensor.randn Tensor.randint Tensor.normal Tensor.uniform " +
    "Tensor.scaledUniform Tensor.glorotUniform Tensor.kaimingUniform Tensor.kaimingNormal Tensor.randperm Tensor.randomBits",
    "it is random: distributions are tested, and threefry by its published vectors",
  ],
  ["eig", "eigenvectors have no one form: what they must fulfil is tested"],
  ["ldlFactor ldlSolve", "PyTorch's numbers on every device: tests/tensor/math/symmetric_test.ts"],
  ["svdLowrank pcaLowrank lobpcg", "vectors have no one form: tests/tensor/math/low_rank_test.ts"],
  ["Tensor.manualSeed Tensor.getRngState Tensor.setRngState", "it is about random numbers, and gives none"],
  [
    "Tensor.noGrad Tensor.inferenceMode Tensor.enableGrad Tensor.isGradEnabled",
    "it is about gradients, and gives none",
  ],
  ["shard reshard shardInPlace shardLike", "values stay what they are: where they lie is tested"],
  [
    "union1d intersect1d setdiff1d setxor1d roots",
    "how many values there are is read: tests/tensor/index/sets_test.ts",
  ],
  ["viewOf Tensor.invalids Tensor.fromBlob", "it gives memory as it is"],
];
const REASON_OF: ReadonlyMap<string, string> = new Map(
  REASONS.flatMap(([names, reason]) => names.split(" ").map((n) => [n, reason] as const)),
);

/** Names that comparisons call, or have as an operation. */
const called = new Set(
  COMPARED.flatMap((file) => Deno.readTextFileSync(new URL(file, TESTS)).match(/(?<=[."' ])[A-Za-z]\w*/g) ?? []),
);
const operations = publicFunctions().targets.map((t) => t.name)
  .filter((name) => /^(?:Tensor\.|fft\.|windows\.)?\w+$/.test(name) && isOperation(name));

/** Is it a method of tensors, or a function that gives some? */
function isOperation(name: string): boolean {
  return name.includes(".") || name in Tensor.prototype;
}

Deno.test("compared: every operation is compared with another library, or has a reason why not", () => {
  const isCompared = (name: string): boolean => called.has(name.split(".").at(-1)!);
  const isSaid = (name: string): boolean => Object.hasOwn(SAME, name) || REASON_OF.has(name);
  assert.ok(operations.length > 400, String(operations.length));
  assert.deepEqual(
    operations.filter((name) => !isCompared(name) && !isSaid(name)),
    [],
    "add a golden case or a reason",
  );
  const said = [...Object.keys(SAME), ...REASON_OF.keys()];
  assert.deepEqual(said.filter((name) => !operations.includes(name)), [], "there is no such operation");
  assert.deepEqual(said.filter((name) => isCompared(name)), [], "these are compared by now");
});

for (const [name, [ours, other]] of Object.entries(SAME)) {
  Deno.test(`compared: ${name} is the same as what is compared`, async () => {
    const got = ours(), want = await other();
    assert.deepEqual([got.shape, got.dtype.isFloat], [want.shape, want.dtype.isFloat]);
    assert.deepEqual(await got.tolist(), await want.tolist());
  });
}
