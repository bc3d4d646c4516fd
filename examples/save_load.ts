/**
 * Weights to a safetensors file, and back into a new model: `deno run -RW examples/save_load.ts [file]`.
 *
 * @module
 */
import { nn, state, Tensor } from "../mod.ts";

class Net {
  layers: nn.Linear[] = [new nn.Linear(4, 16), new nn.Linear(16, 3)];
  norm: nn.LayerNorm = new nn.LayerNorm(16);

  call(x: Tensor): Tensor {
    return this.layers[1].call(this.norm.call(this.layers[0].call(x)).relu());
  }
}

const file = Deno.args[0] ?? "net.safetensors";
const net = new Net();

// A model is a tree of objects, arrays and maps. Its tensors have names: the way to them.
const weights = state.getStateDict(net);
for (const [name, { shape, dtype }] of Object.entries(weights)) console.log(`${name.padEnd(16)} ${dtype} [${shape}]`);
await state.safeSave(weights, file, { metadata: { note: "an example" } });
console.log(`${file}: ${Deno.statSync(file).size} bytes`);

// Another model of the same structure: other weights, so other answers; then the same, to the last bit.
const other = new Net();
const x = Tensor.randn([8, 4]).realize();
const answer = net.call(x).realize();
const difference = (net: Net) => net.call(x).realize().sub(answer).abs().max().item();
console.log("largest difference before loading:", await difference(other));
state.loadStateDict(other, await state.safeLoad(file));
console.log("largest difference after loading: ", await difference(other));
console.log(await state.safeLoadMetadata(file));

// A part of a model: what it lacks may be missing where that is asked for.
const { "norm.weight": _, ...rest } = weights;
try {
  state.loadStateDict(other, rest);
} catch (error) {
  console.log((error as Error).message);
}
state.loadStateDict(other, rest, { strict: false });
