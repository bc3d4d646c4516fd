import { nn, Tensor } from "../../../mod.ts";
import * as onnx from "../../../src/onnx/onnx.ts";
Tensor.manualSeed(4);
const net = new nn.Linear(3, 2), image = Tensor.arange(6).reshape([2, 3]).float();
const bytes = await onnx.toBytes((x: Tensor) => net.call(x).softmax(), [image]);
const model = await onnx.load(bytes);
const { y } = model.call(image);
console.log(await (y as Tensor).tolist());
