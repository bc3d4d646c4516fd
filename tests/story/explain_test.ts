/**
 * `explain`: scripts of programs of all kinds are written and run, and come to the same numbers; what they say of the
 * program; what is refused.
 */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { Device, DeviceError, jit, nn, state, Tensor } from "../../mod.ts";
import { compileStats } from "../../src/engine/compile_cache.ts";
import { stepLog } from "../../src/engine/exec.ts";
import { siteFrames } from "../../src/helpers/stack.ts";
import { wantsNotes } from "../../src/uop/core/notes.ts";
import { isRecording } from "../../src/uop/rewrite/record.ts";
import { getDevice } from "../../src/device/device.ts";
import { clearScheduleCache } from "../../src/schedule/schedule.ts";
import { Gpt2, MnistConvNet, trainStep } from "../../bench/models.ts";
import { explain, type Explanation, type ExplanationData } from "../../src/story/story.ts";
import { opensHere } from "../fixtures/devices.ts";
import { optimized } from "../fixtures/optimized.ts";
import { farthest, passesIn, runScript as run } from "./run_script.ts";

Device.default = "WASM";
class Net {
  readonly l1: nn.Linear = new nn.Linear(6, 5);
  readonly l2: nn.Linear = new nn.Linear(5, 3);
  call(x: Tensor): Tensor {
    return this.l2.call(this.l1.call(x).relu());
  }
}

function values(n: number, scale = 1): Tensor {
  return new Tensor(Array.from({ length: n }, (_, i) => scale * Math.sin(i * 1.7)));
}

const int = (list: number[], dtype: "int8" | "uint8" | "int16" | "int32" | "uint32") => new Tensor(list, { dtype });

/** What is run, and how far its script may be from it: 0 for what is exact. */
const PROGRAMS: Readonly<Record<string, readonly [() => unknown, number]>> = {
  "int32 wraps": [() => int([5, -7, 2147483647, 3], "int32").mul(3).add(int([1, 2, 3, -4], "int32")).bitwiseXor(5), 0],
  "bytes as another kind of number": [() => {
    const t = values(4).add(1).contiguous(), b = t.bitcast("int64");
    return [t, b, b.add(int([1, 2], "int32"))];
  }, 0],
  "int32 divides": [
    () => [int([7, -7, 7, -7], "int32").floorDiv(int([2, 2, -2, 3], "int32")), int([7, -7], "int32").mod(3)],
    0,
  ],
  "small integers wrap": [
    () => [int([250, 3], "uint8").mul(7), int([120, -128], "int8").add(9), int([32767], "int16").mul(5)],
    0,
  ],
  "uint32": [() => int([4294967295, 7], "uint32").mul(int([3, 4294967290], "uint32")).add(5).rshift(3), 0],
  "int64": [() => new Tensor([2n ** 62n, -7n, 123456789n], { dtype: "int64" }).mul(1234567891).add(3).bitwiseXor(9), 0],
  "int64 compares and casts": [() => {
    const a = new Tensor([2n ** 60n, -3n, 4n], { dtype: "int64" });
    return [a.gt(3), a.float(), a.cast("int32"), a.maximum(0)];
  }, 0],
  "uint64": [() => new Tensor([2n ** 63n, 5n], { dtype: "uint64" }).mul(3).add(1), 0],
  "bool": [() => {
    const a = values(10);
    return [a.gt(0).mul(a.lt(0.9)), a.gt(0).logicalNot(), a.gt(0).any(), a.lt(9).all(), a.gt(0).where(1, -1)];
  }, 0],
  "float16": [() => values(16).reshape([4, 4]).half().matmul(values(16).reshape([4, 4]).half()).add(1), 2e-3],
  "bfloat16": [() => values(16).cast("bfloat16").exp().mul(3), 0],
  "fp8": [() => values(16).cast("fp8e4m3").float().mul(2).cast("fp8e5m2"), 0],
  "float64": [() => values(9).cast("float64").sin().add(values(9).cast("float64").exp()).sum(), 1e-14],
  "softmax": [() => values(32).reshape([4, 8]).softmax(), 1e-7],
  "padded sum": [() => new Tensor([[1, 2], [3, 4]]).pad([1, 1, 1, 1]).sum(1), 0],
  "not finite": [() => new Tensor([0, -1, 1]).log().add(new Tensor([NaN, Infinity, 0])).relu(), 0],
  "gather": [() => values(12).reshape([3, 4]).gather(1, new Tensor([[0, 1], [2, 3], [1, 1]])), 0],
  "scatter": [
    () => Tensor.zeros([3, 5]).scatter(1, new Tensor([[0, 1], [2, 3], [1, 4]]), values(6).reshape([3, 2])),
    0,
  ],
  "random numbers": [() => {
    Tensor.manualSeed(7);
    return [Tensor.rand([5]), Tensor.randint([4], { high: 9 }), Tensor.train(() => Tensor.ones([40]).dropout(0.5))];
  }, 1e-7],
  "convolution": [
    () => values(50).reshape([1, 2, 5, 5]).conv2d(values(36).reshape([2, 2, 3, 3])).relu().maxPool2d(2),
    1e-6,
  ],
  "attention": [() => {
    const [q, k, v] = [1, 2, 3].map((s) => values(32, s).reshape([1, 2, 4, 4]));
    return q.scaledDotProductAttention(k, v, undefined, { isCausal: true });
  }, 1e-6],
  "cumsum and sort": [() => [values(20).cumsum(0), values(20).sort()[0], values(20).argmax()], 1e-6],
  "ten setAt": [() => {
    const t = Tensor.zeros([10]).contiguous();
    for (let i = 0; i < 10; i++) t.setAt([i], i * i);
    return t;
  }, 0],
  "assignment to a part": [() => {
    const t = values(12).contiguous().realize();
    t.setAt([[2, 6]], t.at([6, 10]).mul(2).contiguous());
    return [t, t.at([3, 7]).add(1)];
  }, 0],
  "gradients": [() => {
    Tensor.manualSeed(3);
    const net = new Net(), weights = state.getParameters(net);
    net.call(values(24).reshape([4, 6])).logSoftmax().square().mean().backward();
    return weights.map((w) => w.grad!);
  }, 1e-6],
  "another device": [() => values(6).to("JS").add(1).to(Device.default).mul(2), 0],
  "empty": [() => [Tensor.zeros([0]).add(1), values(3).add(1)], 0],
};

for (const [name, [program, allowed]] of Object.entries(PROGRAMS)) {
  Deno.test(`explain: the script of ${name} computes the same`, async () => {
    const e = explain(program);
    if (e.error !== undefined) throw e.error;
    const lines = await run(e, name);
    assert(lines.length > 0);
    assert(farthest(lines) <= allowed, lines.join("\n"));
  });
}

/** What draws random numbers, and how far its script may be from it. */
const DRAWS: Readonly<Record<string, readonly [seed: number | bigint, () => unknown, number]>> = {
  "uniform": [3, () => Tensor.rand([4, 3]), 0],
  "normal": [7, () => Tensor.randn([5]), 1e-6],
  "a seed of 64 bits": [0xfedcba9876543210n, () => Tensor.rand([9]), 0],
  "integers": [1, () => Tensor.randint([7], { low: -5, high: 1000 }), 0],
  "one number": [2, () => Tensor.rand([1]), 0],
  "doubles": [5, () => Tensor.rand([6], { dtype: "float64" }), 0],
  "a part of a draw, padded": [6, () => Tensor.rand([5, 6]).pad([[1, 1], [0, 0]]).shrink([[1, 4], [2, 5]]), 0],
  "a draw between zeros": [6, () => Tensor.rand([5]).pad([[2, 1]]).contiguous(), 0],
  "dropout": [8, () => Tensor.train(() => values(40).reshape([8, 5]).dropout(0.4)), 0],
  "several at once": [9, () => Tensor.rand([8]).add(Tensor.rand([8]).mul(Tensor.rand([8]))), 1e-6],
  "steps that go on": [4, () => {
    const drawn: Tensor[] = [];
    for (let i = 0; i < 5; i++) drawn.push(Tensor.rand([6]).add(i).contiguous().realize());
    return drawn;
  }, 0],
};

for (const [name, [seed, program, allowed]] of Object.entries(DRAWS)) {
  Deno.test(`explain: the draws of ${name} are told as such, and come to the same`, async () => {
    Tensor.manualSeed(seed);
    const e = explain(program);
    if (e.error !== undefined) throw e.error;
    assert(farthest(await run(e, name)) <= allowed, e.script);
    assertMatch(e.script, /32 random bits, threefry2x32 of the counter and the key/);
    assert(!/>>> 19/.test(e.script), `a rotation stands outside of a draw:\n${e.script}`);
  });
}

Deno.test("explain: operations as written have loops of their own, and come to the same", async () => {
  for (const name of ["float16", "softmax", "gather", "attention", "ten setAt", "gradients", "assignment to a part"]) {
    const [program, allowed] = PROGRAMS[name], e = explain(program, { level: "tensor" });
    if (e.error !== undefined) throw e.error;
    assert(farthest(await run(e, `${name} as written`)) <= allowed, name);
  }
  const x = values(6).realize();
  const written = (): Tensor => {
    const grown = x.exp();
    const more = grown.add(1);
    return more.mul(grown).relu();
  };
  const whole = explain(written), apart = explain(written, { level: "tensor", names: { x } });
  assertEquals(whole.trace.steps.length, 1);
  assertEquals(apart.trace.steps.length, 4);
  assertStringIncludes(apart.script, "mul[i] = more[i] * grown[i];");
});

Deno.test("explain: a captured function, replayed", async () => {
  const w = values(8).reshape([4, 2]).contiguous().realize();
  const step = jit((x: Tensor) => {
    w.assign(w.mul(0.5));
    return x.matmul(w).relu().contiguous();
  });
  const inputs = [1, 2, 3, 4].map((i) => values(12, i).reshape([3, 4]).contiguous().realize());
  for (const x of inputs.slice(0, 3)) step(x).realize();
  const e = explain(() => step(inputs[3]), { names: { w } });
  const lines = await run(e, "replay");
  assert(farthest(lines) < 1e-6);
  assert(lines.some((line) => line.startsWith("w:")), "what it wrote in place is compared too");
});

Deno.test("explain: a training step by names of the state dict", async () => {
  Tensor.manualSeed(4);
  const net = new Net(), optimizer = new nn.optim.SGD(state.getParameters(net), { lr: 0.1 });
  const x = values(24).reshape([4, 6]), y = new Tensor([0, 1, 2, 1]);
  Tensor.realize([...state.getParameters(net), x, y]);
  const e = explain(() =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = net.call(x).sparseCategoricalCrossentropy(y).backward();
      optimizer.step();
      return loss;
    }), { names: { net, x, y } });
  assert(farthest(await run(e, "training")) < 1e-6);
  for (const name of ["net_l1_weight", "net_l2_bias", "loss"]) assertStringIncludes(e.script, name);
  assertMatch(e.script, /explain_test\.ts:\d+ {2}return this\.l2\.call\(this\.l1\.call\(x\)\.relu\(\)\);/);
});

Deno.test("explain: equal layers are one loop over their weights", async () => {
  Tensor.manualSeed(5);
  const layers = Array.from({ length: 6 }, () => new nn.Linear(16, 16)), x = values(64).reshape([4, 16]).realize();
  Tensor.realize(state.getParameters(layers));
  const e = explain(() => layers.reduce((h, l) => l.call(h).softmax().contiguous(), x), { names: { layers, x } });
  assert(farthest(await run(e, "layers")) < 1e-6);
  assertMatch(e.script, /\d times the same/);
  assertStringIncludes(e.script, "layers_3_weight");
});

/** What ran the kernels that scripts of models are compared with. */
const compiled = Device.list().some((d) => d.name === "CLANG" && d.available) ? "CLANG" : "WASM";
Device.get(compiled);

/** Models whose scripts are to be read: at most so many lines. */
const MODELS: readonly (readonly [name: string, most: number, make: () => { run: () => unknown; names: unknown }])[] = [
  ["the MNIST convnet's forward pass", 250, () => {
    const net = new MnistConvNet(), x = values(784).reshape([1, 1, 28, 28]).contiguous();
    return { run: () => net.call(x), names: { ...net, x } };
  }],
  ["a training step of the MNIST convnet by Adam", 1500, () => {
    const net = new MnistConvNet(), x = values(2 * 784).reshape([2, 1, 28, 28]).contiguous(), y = new Tensor([3, 8]);
    const optimizer = new nn.optim.Adam(state.getParameters(net));
    return { run: () => trainStep(net, optimizer, x, y), names: { net, x, y } };
  }],
  ["12 layers of GPT-2", 1200, () => {
    const net = new Gpt2(12, 16, 2, 20, 8), x = new Tensor([[3, 1, 4, 1, 5]]);
    return { run: () => net.call(x), names: { ...net, x } };
  }],
];
for (const [name, most, make] of MODELS) {
  Deno.test(`explain: the script of ${name} has at most ${most} lines, and comes to what ${compiled} did`, async () => {
    const before = Device.default;
    Device.default = compiled;
    let e: Explanation;
    try {
      Tensor.manualSeed(6);
      const { run: program, names } = make();
      Tensor.realize(Object.values(state.getStateDict(names)));
      e = explain(program, { names, times: false });
    } finally {
      Device.default = before;
    }
    if (e.error !== undefined) throw e.error;
    const lines = e.script.split("\n");
    assert(lines.length <= most, `${lines.length} lines`);
    assert(lines[0].endsWith(`recorded on ${compiled}.`), lines[0]);
    assert(!lines.some((line) => /^(?:import|export)\b/.test(line)), "it imports nothing");
    await run(e, name);
  });
}

Deno.test("explain: steps that differ by a number are one loop over the numbers", async () => {
  Tensor.manualSeed(5);
  const step = jit((x: Tensor) => x.add(Tensor.rand([6])).mul(2).realize());
  const xs = Array.from({ length: 5 }, (_, i) => values(6, i + 1).realize());
  const e = explain(() => xs.map((x) => step(x).clone().realize()), { times: false });
  const lines = await run(e, "random draws");
  assertEquals([lines.length, farthest(lines) < 1e-6], [10, true]);
  assertEquals(e.script.match(/^for \(const \[.*\brng\] of \[$/gm)?.length, 1, e.script);
  // by the counter each draw is another one
  const drawn = lines.slice(-5).map((line) => line.replace(/^\w+: /, ""));
  assertEquals(new Set(drawn).size, 5);
});

Deno.test("explain: what is nothing but rounding is compared by how far rounding moves it", async () => {
  // a bias in front of a norm has no gradient but rounding, which Adam divides by itself
  const weight = values(12 * 7).reshape([7, 12]).realize(), x = values(5 * 12, 3).reshape([5, 12]).realize();
  const bias = values(7).realize(), lr = new Tensor([0.5]).realize();
  const e = explain(() => {
    const h = x.matmul(weight.transpose()).add(bias), centered = h.sub(h.mean(0)).mul(3.7).sum(0);
    bias.assign(bias.sub(centered.div(centered.abs().add(1e-12)).mul(lr)));
    return bias;
  }, { names: { bias, weight, x, lr } });
  await run(e, "nothing but rounding");
  assertMatch(e.script, /^ {2}\["bias", bias, bias_recorded, [\d.]+\], \/\/ rounding alone moves it by \d+ %$/m);
  const plain = explain(() => bias.assign(bias.mul(2).add(1)), { names: { bias } });
  assertEquals(farthest(await run(plain, "in place")), 0);
  assert(!plain.script.includes("rounding alone"));
});

Deno.test("explain: what is left of numbers that cancel is held to what rounding leaves, and to no more", async () => {
  Tensor.manualSeed(5);
  const make = () => {
    Tensor.manualSeed(5);
    const drawn = Tensor.randn([64]).exp().realize(), same = new Tensor(drawn.dataSync() as Float32Array);
    return drawn.sub(same).abs().max();
  };
  const e = explain(make);
  if (e.error !== undefined) throw e.error;
  await run(e, "numbers that cancel");
  if (!e.script.includes("floor")) return; // the host rounds as the device does
  assertMatch(e.script, /, allowed, floor\] of \[$/m);
  // what is no rounding is far still
  const wrong = {
    data: e.data,
    script: e.script.replace(/^(const (\w+)_recorded = new Float32Array\(\[)0(\]\))/m, "$10.5$3"),
  };
  assert(wrong.script !== e.script, e.script);
  await assertRejects(() => run(wrong as unknown as typeof e, "numbers that do not"), Error, "farther");
});

Deno.test("explain: relu is Math.max, exp is Math.exp, and a name is the user's", () => {
  const x = values(4).realize();
  const e = explain(() => {
    const hidden = x.relu().exp();
    return hidden;
  }, { names: { x } });
  assertStringIncludes(e.script, "hidden[i] = Math.exp(Math.max(0, x[i]));");
  assertStringIncludes(e.script, "const hidden = new Float32Array(4); // float32[4], 1 to ");
});

Deno.test("explain: names that a script has itself are given to no array, whatever the user calls his", async () => {
  const words = new Set(
    "arguments eval package floor isFar Float64Array BigUint64Array globalThis let yield".split(" "),
  );
  for (const name of ["int64", "float16", "bfloat16", "random numbers", "attention", "bool", "cumsum and sort"]) {
    const { script } = explain(PROGRAMS[name][0]);
    for (const [word] of script.replaceAll(/\/\/.*|"[^"]*"/g, "").matchAll(/[A-Za-z_$][\w$]*/g)) words.add(word);
  }
  assert(words.size > 100, [...words].join());
  const names = Object.fromEntries([...words].map((word, i) => [word, Tensor.full([3], i).contiguous().realize()]));
  const e = explain(() => {
    const isFar = Object.values(names).reduce((a, b) => a.mul(0.5).add(b)).contiguous().realize();
    const Float32Array_ = isFar.add(1).contiguous().realize();
    const größe = Float32Array_.sub(2).contiguous().realize();
    return größe.mul(3);
  }, { names });
  if (e.error !== undefined) throw e.error;
  const lines = await run(e, "names of its own");
  assert(farthest(lines) < 1e-4, lines.join("\n"));
  assertMatch(e.script, /^const isFar_\d = /m);
  assertMatch(e.script, /^const Float32Array_\d+ = /m);
  assertMatch(e.script, /^const größe = /m);
});

Deno.test("explain: the numbers behind one element, largest terms first", () => {
  const x = new Tensor([[1, -2, 3, 0]], { dtype: "float32" }).realize();
  const w = new Tensor([[1, 5], [2, 0], [-4, 1], [9, 9]], { dtype: "float32" }).realize(),
    b = new Tensor([0.5, 20]).realize();
  const e = explain(() => {
    const scores = x.matmul(w).add(b).contiguous();
    return scores.relu().sum(1, { keepdim: true }).add(scores.exp());
  }, { names: { x, w, b } });
  const tree = e.at([1], { of: "scores" });
  assertEquals(tree.value, 28);
  assertEquals(tree.how, [
    "sum 8 + b[1] (20)",
    "sum of 4 terms:",
    "  x[0, 0] (1) * w[0, 1] (5) = 5",
    "  x[0, 2] (3) * w[2, 1] (1) = 3",
    "  x[0, 1] (-2) * w[1, 1] (0) = 0",
    "  x[0, 3] (0) * w[3, 1] (9) = 0",
  ]);
  const whole = e.at([0, 0], { limit: 12 });
  assertEquals(Number(whole.value), Math.fround(28 + Math.fround(Math.exp(-14.5 - 0.5 + 0.5))));
  assertMatch(String(whole), /scores\[1\] \(28\) = 28/);
  assert(String(whole).split("\n").length < 30);
  assertThrows(() => e.at([2], { of: "scores" }), RangeError, "[2] is none of scores, of shape [2]");
  assertThrows(() => e.at([0], { of: "nothing" }), Error, "the script has no array nothing");
});

Deno.test("explain: an element that is made of another one's bytes", () => {
  const x = new Tensor([1.5, 2.5, 3.5, 4.5]).realize();
  const e = explain(() => {
    const t = x.add(1).contiguous();
    return { t, whole: t.bitcast("int64").add(1) };
  }, { names: { x } });
  const [, whole] = e.toJSON().arrays.filter((a) => (a as { name: string }).name !== "x") as { name: string }[];
  const tree = String(e.at([1], { of: whole.name }));
  assertMatch(
    tree,
    /= 4661225615411642369\n.*\[2\] as int64 \(4661225615411642368\) \+ 1\n.*\[2\] = 4\.5\n.*x\[2\] \(3\.5\) \+ 1$/,
  );
});

Deno.test("explain: elements through softmax, padding, gather, views and integers", () => {
  const values4 = (): Tensor => values(4).contiguous().realize();
  const rows: readonly (readonly [() => Tensor, number[]])[] = [
    [() => values4().softmax(), [2]],
    [() => values4().pad([1, 1]).cumsum(0), [4]],
    [() => values4().reshape([2, 2]).gather(1, new Tensor([[1], [0]])), [1, 0]],
    [() => values4().at([1, 3]).mul(2), [1]],
    [() => new Tensor([2n ** 40n, 3n], { dtype: "int64" }).mul(5), [0]],
    [() => values4().var(), []],
    [() => values4().argmax(), []],
    [() => values4().gt(0), [1]],
    [() => values4().cast("bfloat16").mul(3), [3]],
  ];
  for (const [make, index] of rows) {
    const e = explain(make), text = String(e.at(index)), t = e.result as Tensor;
    const flat = index.reduce((at, x, i) => at * t.shape[i] + x, 0), want = Number(t.dataSync()[flat]);
    const got = Number(e.at(index).value);
    assert(Math.abs(got - want) <= 1e-6 * Math.abs(want), text);
    assert(!text.includes("not kept") && !text.includes("?"), text);
  }
});

Deno.test("explain: the story tells lines, reasons, kernels and values", () => {
  const x = values(4096).reshape([64, 64]).realize();
  clearScheduleCache();
  const e = optimized(() =>
    explain(() => {
      const scores = x.matmul(x.transpose()).softmax();
      return scores.sub(scores.mean()).log();
    }, { names: { x } })
  )();
  for (const part of ["## What was written", "## What was decided", "## What ran", "## Values", "scores"]) {
    assertStringIncludes(e.story, part);
  }
  assertMatch(e.story, /sum is (?:kept|computed) [\w ]+, read in [\w ]+: [\w ]+/);
  assertMatch(e.story, /\| the first NaN at \[\d+, \d+\]: here it begins, with `log2\(.*\) = NaN` \|/);
  assert(e.notes.some((n) => n.kind === "missed" && n.numbers.kernels >= 1 && n.of?.kind === "schedule"));
  assert(e.notes.some((n) => n.of?.kind === "kernel" && n.of.name !== "" && /by the model/.test(n.text)));
  assertEquals(wantsNotes(), false, "nobody listens any more");
});

Deno.test("explain: as data, and as a page", async () => {
  const e = explain(() => values(6).add(1).sum(), { passes: true });
  const data = JSON.parse(JSON.stringify(e)) as ExplanationData;
  assertEquals([data.format, data.version, data.isCut], ["dinograd explanation", 1, false]);
  assertEquals(data.steps.length, e.trace.steps.length);
  assertStringIncludes(data.script, "sum");
  const page = await e.page();
  assertMatch(page, /^<!doctype html>/i);
  assert(page.length > 10_000);
  assertEquals(isRecording(), false);
});

Deno.test("explain: nothing that is computed, an index that is no list, and a generator are told", () => {
  const w = values(6).reshape([2, 3]).detach();
  w.requiresGrad = true;
  const none = explain(() => void w.square().sum().backward());
  for (const text of [none.script, none.story]) assertStringIncludes(text, "Nothing was computed in it: what it makes");
  const e = explain(() => w.square().sum(1));
  assert(!e.story.includes("Nothing was computed"));
  for (const index of [1, "1", undefined]) {
    assertThrows(
      () => e.at(index as never, 2 as never),
      Error,
      "its index must be a list, as [3, 1] or [] of one number",
    );
  }
  for (const f of [function* () {}, async function* () {}]) {
    assertThrows(() => explain(f), Error, "Cannot explain a generator: its body runs when it is asked for values");
  }
  assertEquals([wantsNotes(), stepLog.listener, siteFrames.wanted], [false, undefined, 0]);
});

for (const level of ["kernel", "tensor"] as const) {
  Deno.test(
    `explain: what has been scheduled and compiled before is told as the first time, by ${level}`,
    optimized(() => {
      const x = values(30).reshape([5, 6]).realize(), lowered = compileStats.lowered;
      const told = (): Explanation =>
        explain(() => x.reshape([5, 6, 1]).expand([5, 6, 3]).exp().sum(2).softmax(1), {
          level,
          times: false,
          passes: true,
        });
      const [first, second, third] = [told(), told(), told()], texts = (e: Explanation) => e.notes.map((n) => n.text);
      assert(texts(first).some((text) => /^of a sum each term is there 3 times|computed where it is read/.test(text)));
      assert(first.notes.some((n) => n.of?.kind === "kernel") && passesIn(second) > 0);
      for (const e of [second, third]) assertEquals([texts(e), e.story], [texts(first), first.story]);
      // nothing is compiled for it, and nothing is told where nobody asks
      const { lowered: now } = compileStats;
      assert(now > lowered);
      told();
      x.reshape([5, 6, 1]).expand([5, 6, 3]).exp().sum(2).softmax(1).realize();
      assertEquals([compileStats.lowered, wantsNotes()], [now, false]);
    }),
  );
}

Deno.test("explain: steps that are the same are told once", () => {
  const x = values(6).realize(),
    e = explain(() => {
      for (let i = 0; i < 4; i++) x.add(i).exp().sum().realize();
    });
  const sums = e.notes.filter((n) => n.of?.kind === "schedule").map((n) => n.text);
  assert(sums.length <= 2 * new Set(sums).size, sums.join("\n"));
});

Deno.test("explain: of a program that throws, what ran before", async () => {
  const e = explain((): Tensor => {
    values(3).add(1).realize();
    throw new Error("out of ideas");
  });
  assertMatch(String(e.error), /out of ideas/);
  assertStringIncludes(e.script, "// It stopped here: Error: out of ideas");
  assertEquals(farthest(await run(e, "halfway")), 0);
});

for (const when of ["before a kernel runs", "before what it wrote is read"]) {
  Deno.test(`explain: of a device that is lost ${when}, what ran before`, async () => {
    const device = getDevice("JS:1"), { run: runs, allocator } = device, { copyOut } = allocator;
    const lost = (): never => {
      throw new DeviceError("run a kernel", { device: "JS:1", reason: "JS:1 was lost" });
    };
    const x = values(6).to("JS:1").realize();
    try {
      const e = explain(() => {
        const kept = x.mul(3).add(1).realize();
        Object.assign(when === "before a kernel runs" ? device : allocator, { run: lost, copyOut: lost });
        return kept.sqrt().sum();
      }, { names: { x } });
      assertMatch(String(e.error), /^DeviceError: Cannot run a kernel: JS:1 was lost/);
      assertEquals([e.result, e.trace.steps.length], [undefined, 1]);
      for (const text of [e.script, e.story]) assertStringIncludes(text, "It stopped here: DeviceError: ");
      const lines = await run(e, `lost ${when}`);
      assertEquals([lines.length, farthest(lines)], [1, 0]);
      assertMatch(lines[0], /^kept: /);
      assertStringIncludes(await e.page(), "<!doctype html>");
    } finally {
      Object.assign(device, { run: runs });
      Object.assign(allocator, { copyOut });
    }
  });
}

Deno.test({
  name: "explain WEBGPU: a device that nobody can read at once is said to be one",
  ignore: !await opensHere("WEBGPU"),
  fn: async () => {
    await Device.open("WEBGPU");
    const e = explain(() => Tensor.ones([3], { device: "WEBGPU" }).contiguous().add(0.5));
    assertMatch(
      String(e.error),
      /Cannot explain what ran: WEBGPU gives what kernels wrote only to who awaits it/,
    );
    assertStringIncludes(e.script, "0 kernels");
  },
});

Deno.test("explain: an async function, and what it awaits", async () => {
  const e = await explain(async () => {
    const t = values(3).add(1);
    await t.data();
    return t.mul(2);
  });
  assertEquals(e.trace.steps.filter((s) => s.kind === "kernel").length, 2);
  assertEquals(farthest(await run(e, "async")), 0);
});

Deno.test("explain: a tensor, and what is refused", () => {
  const t = values(3).add(1);
  assertEquals(explain(t).trace.steps.filter((s) => s.kind === "kernel").length, 1);
  assertThrows(() => explain(t), Error, "it is realized already; pass the function that makes it");
  assertThrows(() => explain(3 as unknown as Tensor), Error, "it takes a tensor or a function, not 3");
  assertThrows(() => explain(() => 1, { level: "op" as "tensor" }), Error, 'level must be "kernel" or "tensor"');
  assertEquals(explain(() => 1).script.includes("0 kernels"), true);
});

Deno.test("explain: steps beyond the limit are left out, and that is said", () => {
  const e = explain(() => [1, 2, 3].map((i) => values(3).add(i).realize()), { limit: 2 });
  assertEquals(e.trace.steps.length, 2);
  assertStringIncludes(e.script, "It went on after the 2 steps that are here.");
});
