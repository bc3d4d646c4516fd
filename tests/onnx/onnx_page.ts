/**
 * docs/onnx.md: how models are used, which operators are known, which node tests pass and why others do not. In: what
 * tests/onnx/node_tests.ts found; out: the page, from the tables themselves.
 *
 * @module
 */
import { FAMILIES } from "../../src/onnx/ops/operators.ts";
import { reasonOf } from "./node_cases.ts";

const PAGE = new URL("../../docs/onnx.md", import.meta.url);
const INTRODUCTION = `# Models of ONNX

\`onnx.load\` gives a model of an \`.onnx\` file that is called like any function of tensors: lazily, under \`jit\`, with
gradients. \`onnx.info\`, or \`deno task onnx MODEL\`, tells what a file takes, gives, consists of and what of it is not
known here; \`--bench\` runs it. (This page is written by \`tests/onnx/node_tests.ts\`.)

\`\`\`ts ignore files
import { jit, Tensor } from "../mod.ts";
import * as onnx from "../src/onnx/onnx.ts";

// inputs, outputs, operators by count, what is missing
console.log(String(await onnx.info("model.onnx")));
const model = await onnx.load("model.onnx", { requiresGrad: true });
const { y } = model.call({ x: Tensor.rand([1, 3, 224, 224]) }); // or in order: model.call(x)
const step = jit((x: Tensor) => model.call(x).y as Tensor);
\`\`\`

- Arithmetic on shapes is done on the host: chains of Shape, Gather, Concat and Reshape launch no kernel. Where a value
  decides on a shape or a way (\`If\`, \`Loop\`, \`NonZero\`), it is read: \`call\` reads at once, \`await model.run(...)\` also
  from devices that cannot. Under \`jit\` nothing can be read, and the error says so.
- Weights are tensors, \`model.weights\`, and keep the type that they have in the file. Types that no device has are held
  in a wider one: int4 in int8, float8e4m3fnuz in float32. Data outside of the model is read from its own folder alone; beside
  bytes in memory it is given, as \`onnx.load(bytes, { files: { "model.onnx.data": data } })\`.
- Outputs come by name, \`const { logits } = model.call(x)\`, or in the order of the model, \`const [y, z] = model.call(x)\`:
  names that are numbers, as PyTorch gives them, have another order as keys of an object.
- \`deno task onnx MODEL --bench\` takes free sizes as 1, \`--sizes name=n,...\` gives others.
- An attribute or input of an operator of com.microsoft that is not known is refused, not passed over.
- A model is checked before anything runs: names that nothing gives, cycles, functions that call themselves, tensors
  whose bytes are not those of their shape are refused by the name of the node or initializer.
- Types that lie are treated as onnxruntime treats them: a node that gives other elements than the model declares, inputs of
  two types where an operator takes one, an attribute of another kind, a weight that is declared as another input are
  refused by name; an output of other sizes than declared is told once, and given.
- A result that the device could not hold whatever is freed is refused by the node that gives it, with its inputs; so are
  lists of over 67 million positions that would be made on the host, and runs of over a million nodes (loops are unrolled).
- The size of an axis may be a bound variable: one capture then runs for all its values. Arithmetic on such sizes (Shape,
  Gather, Add, Sub, Mul, Div, Range, ConstantOfShape, Expand, Reshape, Slice) stays symbolic; what cannot take one says so.

A model that takes back what it gave, a decoder with its cache or a recurrent network with its state, is called step by
step in a session. What grows lies in memory of the largest length, and how much of it is filled is a variable: the
second step is captured, and all others are replayed.

\`\`\`ts ignore files
import { Tensor } from "../mod.ts";
import * as onnx from "../src/onnx/onnx.ts";

const decoder = onnx.session(await onnx.load("decoder.onnx"), {
  length: 448, // positions that there is room for
  keeps: { state: "stateN" }, // outputs by the inputs that they become; found by themselves where called past and present
  gives: ({ logits }) => ({ next: (logits as Tensor).at(0, -1).argmax() }), // in the same capture
});
const { next } = decoder.step({ input_ids: new Tensor([[1]], { dtype: "int64" }) });
decoder.reset(); // a new text, by the same capture
\`\`\`

A mask that is as long as all positions, as decoders of Hugging Face take it, is given so: it lies in memory of the largest
length, too, and its length is arithmetic of the variable.

Two programs compare with onnxruntime 1.30, which they fetch: \`tests/onnx/against_onnxruntime.ts MODEL\` a model on random
inputs, \`tests/onnx/operators_against_onnxruntime.ts\` 80 operators, of com.microsoft, of ai.onnx.ml, of older versions and
modes, which all agree. Silero VAD (309,633 parameters, \`If\`, \`LSTM\`) agrees within 1.3e-6, the Ultra-Light face detector
(281,135 parameters) within 1.8e-6. Where \`Resize\` aligns corners, and scales give no whole size, onnxruntime is not as the
node tests of ONNX say; the latter hold here. It also labels forests of two classes by 0 and 1, whatever their labels.

\`tests/onnx/exported_models_test.ts\` has files as others write them: of PyTorch 2.13 by both of its exporters (functions,
external data, free axes, branches, loops, a decoder with its past) beside what PyTorch computes, and of onnxruntime's
tools of quantization and optimization (dynamic and static, in pairs and in operators, of 4, 8 and 16 bits, by channels).

\`tests/onnx/real_networks.ts\` runs trained networks of npm packages: Moonshine (27 million parameters, speech to text,
quantized to 8 bits) gives the 27 tokens of its speech that onnxruntime gives, in 0.4 of its processor time (CLANG, two
threads, 11 s of speech: 390 ms to 1,030, 4 ms a token), and PP-OCRv4 finds and reads a line of
text, within 2e-5 of onnxruntime.

\`bench/networks.ts\` runs six such networks beside onnxruntime, in turns, and says what loading one and its first run take.

## Models out

\`onnx.save\` writes a function of tensors as a model of version 21 of the operators; \`onnx.toBytes\` gives its bytes.

\`\`\`ts ignore files
import { nn, Tensor } from "../mod.ts";
import * as onnx from "../src/onnx/onnx.ts";

const net = new nn.Linear(4, 2);
await onnx.save(net, [Tensor.zeros([1, 4])], "net0.onnx"); // a model by its method call
await onnx.save((x: Tensor) => net.call(x).softmax(), [Tensor.zeros([1, 4])], "net.onnx", {
  weights: net, // initializers are called as in its state dict
  dynamic: { x: { 0: "batch" } }, // axes whose sizes are free, by input
  inputs: ["x"], // names, unless those of the parameters will do
  outputs: ["scores"],
});
\`\`\`

- The function is called on tensors without memory, and nothing runs. The graph that it makes becomes the model before
  anything is scheduled: Conv, Gemm, MatMul, pools, Softmax, LayerNormalization, Gelu, Gather, Concat, CumSum and the
  like where it has them whole, one operator for one node elsewhere. What no input reaches is computed and stored.
- For each dynamic axis it is called again with another size, the next that it takes: one more, or 2, 4, 8, 16 or 32
  more, as of pictures that are halved and put together again. Graphs must be the same up to sizes; these may be sums or
  products of dynamic axes, or such parts of them. A function that computes something else for another size is refused,
  with the first node that differs.
- Weights of more than 2 GiB lie in \`net.onnx.data\`.
- Refused by an \`ExportError\` that says what to do: functions that read values, draw random numbers, assign to what they
  close over or are async, symbolic sizes, complex numbers, bits of numbers under another type (which \`sort\` is made
  of), kernels of your own.
- Sums and products by key (\`scatterReduce\`, gradients of embeddings and of what picks elements), and maxima of whole
  numbers, become ScatterElements, as large as what is scattered. Other scatters compare all places with all results.
- Indices are taken as valid: of one outside of its axis we give zero, and ONNX an error, or counts it from the end.

\`tests/onnx/saved_models.ts\` runs networks in onnxruntime beside our results, \`tests/onnx/random_saves.ts --ort\` random
programs.

## Models of TensorFlow

\`./tfjs\` reads what TensorFlow writes for pages and phones: layers models and graph models of TensorFlow.js
(\`model.json\` and its weights, also quantized), and files of TensorFlow Lite.

\`\`\`ts ignore files
import { Tensor } from "../mod.ts";
import { loadGraphModel, loadLayersModel, loadTFLite } from "../src/tfjs/tfjs.ts";

const model = await loadLayersModel("models/x2/model.json"); // or { model: json, files: { "weights.bin": bytes } }
const [twice] = model.call(Tensor.rand([1, 20, 30, 3])); // [1, 40, 60, 3]
const graph = await loadGraphModel("model/model.json"), lite = await loadTFLite("model.tflite");
const { scores } = lite.call(Tensor.zeros([1, 96, 96, 3])); // both are models as those of ONNX files are
\`\`\`

- Of layers those of pictures are known: Dense, Conv2D, DepthwiseConv2D, SeparableConv2D, pools, BatchNormalization,
  LayerNormalization, Embedding, UpSampling2D, ZeroPadding2D, merges, activations, moves. Others are given by class:
  \`{ layers: { Warp: (inputs, config) => … } }\`. Recurrent layers are not read.
- Graph models and files of TensorFlow Lite become graphs of ONNX's operators: sessions, \`jit\`, variables as sizes and
  gradients go with them. 128 operators of TensorFlow and 101 of TensorFlow Lite are known, \`IF\` among the latter; loops,
  recurrent cells and sparse tensors are refused by name. Whole numbers of 64 bits are int32 in graph models, as in
  TensorFlow.js; their weights of few bits are made floats once.
- Tensors of 8 bits of TensorFlow Lite are computed in whole numbers, to the bit as its reference kernels do it: sums of
  products in 32 bits, multipliers and shifts, each rounded. So are convolutions, also by channels, layers, sums,
  products, pools and what moves bytes; functions of one byte are tables. Such a network is exported to C without a
  float. Means over axes may be one step apart. What is left (softmax, normalizations, transposed convolutions, parts of
  unlike scales put together, 16 bits) is computed as the floats that the bytes stand for, and rounded where the file
  rounds them.

\`tests/tfjs/against_tfjs.ts\` runs 118 small graphs in TensorFlow.js 4.22, which all agree;
\`tests/onnx/real_networks.ts --only tensorflow\` compares Universal Sentence Encoder lite (7 million parameters, 3e-7
apart) and Basic Pitch with TensorFlow.js, and seven files of TensorFlow Lite of openWakeWord with the same networks as
ONNX files. ESRGAN-slim makes of its sample the picture that its package has, but for rounding.
`;

/** Writes the page. */
export async function writePage(
  device: string,
  counts: readonly (readonly [opset: string, count: readonly [passed: number, all: number]])[],
  failures: readonly string[],
): Promise<void> {
  const all = counts.reduce((n, [, c]) => n + c[1], 0), lines = [INTRODUCTION, "## Operators", ""];
  for (const [family, rows] of FAMILIES) {
    const names = rows.map((r) => r.domain === "" ? r.name : `${r.domain.replace("ai.onnx.", "")}.${r.name}`);
    lines.push(`- ${family}: ${[...new Set(names)].sort().join(", ")}`);
  }
  lines.push(
    "",
    "## Node tests",
    "",
    `The node tests of onnx/onnx (August 2026), by the version of the operators, on ${device}: ` +
      `${all - failures.length} of ${all} pass.`,
    "",
    "| version | pass | of |",
    "| --- | --- | --- |",
    ...counts.map(([opset, [passed, of]]) => `| ${opset} | ${passed} | ${of} |`),
    "",
    "Those that do not:",
    "",
  );
  const byReason = Map.groupBy(failures, (name) => reasonOf(name) ?? "not explained");
  for (const [reason, names] of byReason) lines.push(`- ${names.map((n) => `\`${n}\``).join(", ")}: ${reason}`);
  await Deno.writeTextFile(PAGE, lines.join("\n") + "\n");
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "-q", PAGE.pathname] }).output();
}
