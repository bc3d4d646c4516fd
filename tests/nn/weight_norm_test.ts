/** Weights as lengths and directions: training against PyTorch, weights by name, under jit, and misuse. @module */
import { assertClose, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, jit, nn, ShapeError, state, Tensor } from "../../mod.ts";

function layer(): nn.Linear {
  const made = new nn.Linear(3, 2);
  state.loadStateDict(made, { weight: new Tensor([[1, -2, 2], [0.5, 0, 1]]), bias: new Tensor([0.5, -1]) });
  return made;
}
const x = new Tensor([[1, 2, 3], [-1, 0.5, 2]]);

/** What PyTorch 2.13 gives: the outputs of the second step, and lengths, directions and weights after it. */
const WANTED: readonly [dim: number | null, y: number[][], g: number[], v: number[][], weight: number[][]][] = [
  [
    0,
    [[-4.526191711425781, -2.047293186187744], [-2.5051963329315186, -1.6934914588928223]],
    [-0.25439581274986267, -0.21188728511333466],
    [[1.5670568943023682, -4.372783184051514, 1.1230703592300415], [
      0.9075264930725098,
      -1.5020333528518677,
      0.19133174419403076,
    ]],
    [[-0.08341879397630692, 0.23277539014816284, -0.05978415533900261], [
      -0.10892898589372635,
      0.1802867203950882,
      -0.02296525053679943,
    ]],
  ],
  [
    1,
    [[-10.000800132751465, -6.349820613861084], [-5.4417314529418945, -3.639207363128662]],
    [1.7710483074188232, -1.7234923839569092, 8.291396141052246],
    [[1.071869969367981, -2.3444762229919434, 2.4307076930999756], [
      0.4673292636871338,
      -0.3938553035259247,
      0.012205694802105427,
    ]],
    [[1.6234550476074219, 1.6996755599975586, 8.291292190551758], [
      0.7078172564506531,
      0.2855333983898163,
      0.041634369641542435,
    ]],
  ],
  [
    null,
    [[-3.4711575508117676, -2.3953499794006348], [-1.9795726537704468, -2.029902458190918]],
    [-0.18109379708766937],
    [[1.5449798107147217, -4.6658244132995605, 0.8158653378486633], [
      0.4103943407535553,
      -0.792863130569458,
      0.5094139575958252,
    ]],
    [[-0.05499865114688873, 0.16609540681703186, -0.029043415561318398], [
      -0.014609339646995068,
      0.028224576264619827,
      -0.01813426986336708,
    ]],
  ],
];

for (const [dim, y, g, v, weight] of WANTED) {
  for (const isJit of [false, true]) {
    Deno.test(`weightNorm: along ${dim}, two steps as PyTorch's${isJit ? ", under jit" : ""}`, async () => {
      const made = nn.utils.weightNorm(layer(), "weight", dim);
      const optimizer = new nn.optim.SGD(state.getParameters(made), { lr: 0.1 });
      assertEquals(state.getParameters(made).length, 3);
      const train = (x: Tensor): Tensor =>
        Tensor.train(() => {
          optimizer.zeroGrad();
          const out = made.call(x), loss = out.square().sum().backward();
          Tensor.realize([out, loss, ...optimizer.scheduleStep()]);
          return out;
        });
      const step = isJit ? jit(train) : train;
      await step(x).data();
      assertClose(await step(x).tolist(), y, 1e-4);
      assertClose(await made.weightG.flatten().tolist(), g, 1e-4);
      assertClose(await made.weightV.tolist(), v, 1e-4);
      const plain = nn.utils.removeWeightNorm(made);
      assertClose(await plain.weight.tolist(), weight, 1e-4);
      assertEquals(Object.keys(state.getStateDict(plain)).sort(), ["bias", "weight"]);
    });
  }
}

Deno.test("weightNorm: other weights by name, kept and loaded", async () => {
  const make = () => nn.utils.weightNorm(new nn.Conv2d(3, 4, 3)), first = make(), second = make();
  assertEquals(first.weightG.shape, [4, 1, 1, 1]);
  state.loadStateDict(second, state.getStateDict(first));
  const image = Tensor.ones([1, 3, 5, 5]);
  assertClose(await second.call(image).flatten().tolist(), await first.call(image).flatten().tolist(), 1e-6);
  const twice = nn.utils.weightNorm(nn.utils.weightNorm(layer()), "bias");
  assertEquals(Object.keys(state.getStateDict(twice)).sort(), ["biasG", "biasV", "weightG", "weightV"]);
  assertClose(await twice.call(x).tolist(), await layer().call(x).tolist(), 1e-5);
});

Deno.test("weightNorm: misuse", () => {
  const once = nn.utils.weightNorm(layer());
  assertThrows(() => nn.utils.weightNorm(once), ArgumentError, "weight of the layer is normed already");
  assertThrows(() => nn.utils.weightNorm(layer(), "kernel"), ArgumentError, "no tensor kernel, but undefined");
  assertThrows(() => nn.utils.weightNorm(layer(), "weight", 2), ShapeError, "axis 2 is outside [-2, 2)");
  assertThrows(() => nn.utils.removeWeightNorm(layer()), ArgumentError, "weight of the layer is not normed");
});
