/**
 * An example of every static method of `Tensor`, as method_examples.ts has those of the others.
 *
 * @module
 */

/** By name, with "Tensor." in front. */
export const STATIC_EXAMPLES: Readonly<Record<string, string>> = {
  "Tensor.complex": "Tensor.complex(new Tensor([1, 2]), new Tensor([0, -1]))",
  "Tensor.polar": "Tensor.polar(new Tensor([2]), new Tensor([0]))",
  "Tensor.full": "Tensor.full([2, 2], 7)",
  "Tensor.zeros": 'Tensor.zeros([3], { dtype: "int32" })',
  "Tensor.ones": "Tensor.ones([2, 2])",
  "Tensor.empty": "Tensor.empty([2, 3]).shape",
  "Tensor.invalids": "Tensor.invalids([2]).shape",
  "Tensor.fromBlob": "Tensor.fromBlob(new Float32Array([1, 2, 3, 4]), [2, 2])",
  "Tensor.const": "Tensor.const(3).add(new Tensor([1, 2]))",
  "Tensor.arange": "Tensor.arange(2, 10, 3)",
  "Tensor.logspace": "Tensor.logspace(0, 3, 4, { base: 2 })",
  "Tensor.linspace": "Tensor.linspace(0, 1, 5)",
  "Tensor.eye": "Tensor.eye(2, 3)",
  "Tensor.manualSeed": "Tensor.manualSeed(1); const a = Tensor.rand([2]); Tensor.manualSeed(1); a.eq(Tensor.rand([2]))",
  "Tensor.rand": "Tensor.rand([100]).lt(1).all()",
  "Tensor.randn": "Tensor.randn([2, 3]).shape",
  "Tensor.randint": "Tensor.randint([100], { low: 3, high: 5 }).unique()",
  "Tensor.normal": "Tensor.normal([10000], { mean: 3, std: 0.1 }).mean().round()",
  "Tensor.uniform": "Tensor.uniform([100], { low: -1, high: 1 }).abs().le(1).all()",
  "Tensor.scaledUniform": "Tensor.scaledUniform([4, 4]).shape",
  "Tensor.glorotUniform": "Tensor.glorotUniform([4, 4]).shape",
  "Tensor.kaimingUniform": "Tensor.kaimingUniform([4, 4]).shape",
  "Tensor.kaimingNormal": "Tensor.kaimingNormal([4, 4]).shape",
  "Tensor.randperm": "Tensor.randperm(5).sort()[0]",
  "Tensor.randomBits": "Tensor.randomBits([0, 1], 0, 3).shape",
  "Tensor.cat": "Tensor.cat([new Tensor([1, 2]), new Tensor([3])])",
  "Tensor.stack": "Tensor.stack([new Tensor([1, 2]), new Tensor([3, 4])], 1)",
  "Tensor.where": "Tensor.where(new Tensor([true, false]), 1, new Tensor([5, 6]))",
  "Tensor.realize": "const a = Tensor.rand([2]), b = a.add(1); Tensor.realize([a, b]); b.isRealized",
  "Tensor.kernelize": "Tensor.kernelize([new Tensor([1]).add(1)])",
  "Tensor.train": "Tensor.train(() => Tensor.training)",
  "Tensor.training": "Tensor.training",
  "Tensor.einsum": 'Tensor.einsum("ij,j->i", new Tensor([[1, 2], [3, 4]]), new Tensor([1, 10]))',
  "Tensor.trilIndices": "Tensor.trilIndices(2, 2)",
  "Tensor.triuIndices": "Tensor.triuIndices(2, 2)",
  "Tensor.noGrad": "Tensor.noGrad(() => new Tensor([1, 2], { requiresGrad: true }).mul(2))",
  "Tensor.inferenceMode": "Tensor.inferenceMode(() => Tensor.isGradEnabled())",
  "Tensor.enableGrad": "Tensor.noGrad(() => Tensor.enableGrad(() => Tensor.isGradEnabled()))",
  "Tensor.isGradEnabled": "Tensor.isGradEnabled()",
  "Tensor.fromUrl": '(await Tensor.fromUrl("data:,hello")).shape',
  "Tensor.getRngState": "Object.keys(Tensor.getRngState())",
  "Tensor.setRngState":
    "const state = Tensor.getRngState(), a = Tensor.rand([2]); Tensor.setRngState(state); a.eq(Tensor.rand([2]))",
  "Tensor.geomspace": "Tensor.geomspace(1, 1000, 4)",
};
