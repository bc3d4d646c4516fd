/** What exports weigh: the network for MNIST that the field measures by, in each form. */
import { assert, assertEquals } from "@std/assert";
import { Device, nn, state, Tensor } from "../../mod.ts";
import { type Exported, exportModel, type ExportOptions } from "../../src/export/export.ts";
import { compact } from "../../src/export/web_export.ts";
import { wave } from "./programs.ts";

Device.default = "WASM";

class Mnist {
  readonly conv1: nn.Conv2d = new nn.Conv2d(1, 32, 5);
  readonly conv2: nn.Conv2d = new nn.Conv2d(32, 32, 5);
  readonly norm1: nn.BatchNorm = new nn.BatchNorm(32);
  readonly conv3: nn.Conv2d = new nn.Conv2d(32, 64, 3);
  readonly conv4: nn.Conv2d = new nn.Conv2d(64, 64, 3);
  readonly norm2: nn.BatchNorm = new nn.BatchNorm(64);
  readonly head: nn.Linear = new nn.Linear(576, 10);
  call(image: Tensor): Tensor {
    let x = this.norm1.call(this.conv2.call(this.conv1.call(image).relu()).relu()).maxPool2d(2);
    x = this.norm2.call(this.conv4.call(this.conv3.call(x).relu()).relu()).maxPool2d(2);
    return this.head.call(x.flatten(1));
  }
}

Tensor.manualSeed(5);
const net = new Mnist();
Tensor.realize(state.getParameters(net));

async function exported(options: Partial<ExportOptions>): Promise<Exported> {
  return await exportModel(net, [wave([1, 1, 28, 28])], { ...options, weights: net, name: "mnist" });
}

function sizeOf({ files }: Exported, name: string): number {
  const content = files.get(name)!;
  return typeof content === "string" ? new TextEncoder().encode(content).length : content.length;
}

async function gzipped(text: string): Promise<number> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return (await new Response(stream).arrayBuffer()).byteLength;
}

Deno.test("export sizes: plain C of a network for MNIST is a file of 9 kB", async () => {
  const n = sizeOf(await exported({ target: "c", style: "plain" }), "mnist.c");
  assert(n <= 9000, `${n} bytes`);
});

Deno.test("export sizes: its module has 7 kB, the loader 1.2 kB", async () => {
  const made = await exported({ target: "wasm" }), n = sizeOf(made, "mnist.wasm"), loader = sizeOf(made, "mnist.js");
  assert(n <= 7 * 1024 && loader <= 1200, `${n} and ${loader} bytes`);
});

Deno.test("export sizes: its script for pages has 6 kB, gzipped", async () => {
  const n = await gzipped((await exported({ target: "web" })).text("mnist_web.js"));
  assert(n <= 6000, `${n} bytes`);
});

Deno.test("export sizes: WGSL in fewer characters is the same program", () => {
  const text = `fn main(@builtin(workgroup_id) gid: vec3<u32>) {
  let v0: i32 = i32(gid.x) * -4i;
  var acc0: f32 = 0f;
  let v1: f32 = acc0 - -2f + (1f / -v0);
  if ((v0 < -1i) & (v0 >= 2i)) { b0[v0 >> 2u] = select(v1, -v1, v0 != 3i); }
  for (var i6: i32 = 0; i6 < 13i; i6++) {
    acc0 = acc0 - 1f;
  }
}
`;
  assertEquals(
    compact(text),
    `fn main(@builtin(workgroup_id) gid:vec3<u32>) {
let v0=i32(gid.x) * -4i;
var acc0:f32=0f;
let v1=acc0 - -2f+(1f / -v0);
if ((v0 < -1i)&(v0>=2i)) { b0[v0>>2u]=select(v1,-v1,v0!=3i);}
for (var i6:i32=0;i6<13i;i6++) {
acc0=acc0-1f;
}
}`,
  );
});
