/** What has no device of its own is computed where it is read: on several devices, with the same values. */
import { assertEquals, assertThrows } from "@std/assert";
import { context, Device, DeviceError, nn, Tensor } from "../../mod.ts";
import { devicesHere } from "../fixtures/devices.ts";

Device.get(); // opened before the tests
const names = (await devicesHere("WEBGPU", "CUDA")).slice(0, 3);
/** The same integers on each device. */
const inputs = () => names.map((device) => new Tensor([1, 2, 3], { device }));

const cases: readonly [string, () => Tensor][] = [
  ["elementwise", () => Tensor.arange(3).mul(2).add(1)],
  ["a reduce", () => Tensor.arange(3).sum()],
  ["random numbers", () => Tensor.rand([3])],
  ["a sort", () => Tensor.rand([40]).argsort().at([0, 3])],
  ["scans of scans", () => Tensor.randint([300]).cumsum(0).cumsum(0).at([297, 300])],
  ["one number", () => Tensor.const(7)],
  ["memory of its own", () => Tensor.arange(3).square().contiguous()],
];
for (const [name, make] of cases) {
  Deno.test(`devices: ${name}, read on ${names.join(", ")} in one schedule`, async () => {
    const shared = make(), results = inputs().map((x) => x.mul(0).add(shared));
    Tensor.realize(results);
    assertEquals(results.map((t) => t.device), names);
    const values = await Promise.all(results.map((t) => t.tolist()));
    for (const v of values) assertEquals(v, values[0]);
  });
  Deno.test(`devices: ${name}, read on one device after the other`, async () => {
    const shared = make(), values: unknown[] = [];
    for (const x of inputs()) values.push(await x.mul(0).add(shared).tolist());
    for (const v of values) assertEquals(v, values[0]);
  });
}

Deno.test("devices: what is realized lives on a device, and the error says how to move it", () => {
  const made = context({ DEV: names[0] }, () => Tensor.arange(3).add(1).realize());
  const other = new Tensor([1, 2, 3], { device: names[1] });
  assertThrows(() => other.add(made), DeviceError, `move one with .to("${names[1]}")`);
});

const [here, there] = names;

const leaves: readonly [string, home: string, () => Tensor][] = [
  ["constants", here, () => Tensor.ones([2, 3], { requiresGrad: true })],
  ["random numbers", here, () => Tensor.randn([2, 3], { requiresGrad: true })],
  ["random numbers of a device", there, () => Tensor.randn([2, 3], { requiresGrad: true, device: there })],
  ["a layer's weight", here, () => new nn.Linear(3, 2).weight],
];
for (const [name, home, make] of leaves) {
  const away = home === here ? there : here;
  Deno.test(`devices: ${name} that require gradients stay where they say, whoever reads them first`, async () => {
    const w = context({ DEV: here }, make), moved = w.to(away), loss = moved.mul(2).sum().backward();
    assertEquals(w.device, home);
    Tensor.realize([moved, loss, w.grad!]);
    assertEquals([w, moved, loss, w.grad!].map((t) => t.device), [home, away, away, home]);
    assertEquals(await w.tolist(), await moved.tolist());
    assertEquals(await w.grad!.tolist(), [[2, 2, 2], [2, 2, 2]]);
  });
  Deno.test(`devices: ${name} that require gradients are computed where they are moved to in place`, async () => {
    const w = context({ DEV: here }, make).toInPlace(away);
    assertEquals([w.device, w.requiresGrad, w.schedule().length], [away, true, 1]);
    w.sum().backward();
    Tensor.realize([w, w.grad!]);
    assertEquals([w.device, w.grad!.device], [away, away]);
    assertEquals(await w.grad!.tolist(), [[1, 1, 1], [1, 1, 1]]);
  });
  Deno.test(`devices: ${name} that require gradients are not moved silently`, () => {
    const w = context({ DEV: here }, make), x = new Tensor([1, 2, 3], { device: away });
    assertThrows(() => w.mul(x), DeviceError, `move one with .to("${home}")`);
  });
}

Deno.test("devices: what has been written is not moved by who copies it elsewhere", async () => {
  const [clone, written] = context({ DEV: here }, () => {
    const t = Tensor.zeros([3]);
    t.setAt([1], 5);
    return [Tensor.arange(3).clone(), t];
  });
  for (const [t, want] of [[clone, [0, 1, 2]], [written, [0, 5, 0]]] as const) {
    const copy = context({ DEV: here }, () => t.to(there).realize());
    assertEquals([context({ DEV: here }, () => t.device), copy.device], [here, there]);
    assertEquals(await copy.tolist(), want);
    assertEquals(await t.tolist(), want);
  }
});

Deno.test("devices: the gradient of a sum, a constant, is where its tensor is", async () => {
  for (const device of names) {
    const w = new Tensor([1, 2, 3], { dtype: "float32", device, requiresGrad: true });
    w.sum().backward();
    assertEquals(w.grad!.realize().device, device);
    assertEquals(await w.sub(w.grad!).tolist(), [0, 1, 2]);
    assertEquals(w.sum().gradient([w])[0].realize().device, device);
  }
});

const at = (device: string, shape: number[], dtype: "float32" | "int32" | "bool" = "float32") =>
  new Tensor(Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => i % 2), { device })
    .cast(dtype).reshape(shape).clone().realize();
const apart: readonly [action: string, run: (a: Tensor) => unknown][] = [
  ["setAt", (a) => a.setAt([[0, 2]], at(there, [2, 3]))],
  ["setAt", (a) => a.setAt([0], at(there, []))],
  ["setAt", (a) => a.setAt([":"], at(there, [3, 3]))],
  ["setAt", (a) => a.setAt([at(there, [2], "int32")], 5)],
  ["setAt", (a) => a.setAt([at(here, [2], "int32")], at(there, [2, 3]))],
  ["setAt", (a) => a.setAt([at(there, [3], "bool")], 5)],
  ["setAt", (a) => a.setAt([at(here, [3, 3], "bool")], at(there, [4]))],
  ["assign", (a) => a.assign(at(there, [3, 3]))],
  ["assign", (a) => a.at(0).assign(at(there, [3]))],
  ["index", (a) => a.at(at(there, [2], "int32"))],
  ["gather", (a) => a.gather(0, at(there, [2, 3], "int32"))],
  ["scatter", (a) => a.scatter(0, at(there, [2, 3], "int32"), 1)],
  ["scatter", (a) => a.scatter(0, at(here, [2, 3], "int32"), at(there, [2, 3]))],
  ["scatterReduce", (a) => a.scatterReduce(0, at(here, [2, 3], "int32"), at(there, [2, 3]), "sum")],
  ["scatterReduce", (a) => a.scatterReduce(0, at(there, [2, 3], "int32"), at(here, [2, 3]), "sum")],
  ["maskedFill", (a) => a.maskedFill(at(there, [3, 3], "bool"), 1)],
  ["maskedFill", (a) => a.maskedFill(at(here, [3, 3], "bool"), at(there, []))],
  ["maskedSelect", (a) => a.maskedSelect(at(there, [3, 3], "bool"))],
  ["where", (a) => a.gt(0).where(at(there, [3]), 0)],
  ["where", (a) => at(there, [3], "bool").where(a, 0)],
  ["cat", (a) => Tensor.cat([a, at(there, [3, 3])])],
  ["cat", (a) => Tensor.cat([Tensor.zeros([1, 3]), a, at(there, [3, 3])])],
  ["stack", (a) => Tensor.stack([a, at(there, [3, 3])])],
  ["matmul", (a) => a.matmul(at(there, [3, 2]))],
  ["convolve", (a) => a.reshape([1, 1, 3, 3]).conv2d(at(there, [1, 1, 2, 2]))],
  ["convolve", (a) => a.reshape([1, 1, 3, 3]).conv2d(at(here, [2, 1, 2, 2]), at(there, [2]))],
  ["convolve", (a) => a.reshape([1, 1, 3, 3]).convTranspose2d(at(there, [1, 1, 2, 2]))],
  ["compute crossEntropy", (a) => a.crossEntropy(at(there, [3], "int32"))],
  ["compute nllLoss", (a) => a.nllLoss(at(there, [3], "int32"))],
  ["searchsorted", (a) => a.at(0).searchsorted(at(there, [2]))],
  ["step SGD", (a) => {
    const other = at(here, [2]), optimizer = new nn.optim.SGD([other, a]);
    other.grad = at(here, [2]);
    a.grad = at(there, [3, 3]);
    Tensor.train(() => optimizer.scheduleStep());
  }],
];
for (const [i, [action, run]] of apart.entries()) {
  Deno.test(`devices: ${action} (${i}) of tensors on two is refused at the call, and harms nothing`, async () => {
    const a = at(here, [3, 3]);
    assertThrows(() => run(a), DeviceError, `Cannot ${action}`);
    assertEquals(await a.tolist(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]]);
    a.setAt([0], 7);
    assertEquals(await a.tolist(), [[7, 7, 7], [1, 0, 1], [0, 1, 0]]);
  });
}

Deno.test("devices: numbers move, the first and those after it, which are arguments of one schedule", async () => {
  for (const value of [1.5, 2.5, 3.5]) {
    assertEquals(await Tensor.full([], value).to("JS").tolist(), value);
    assertEquals(await Tensor.full([2], value).to("JS").tolist(), [value, value]);
  }
});
