/**
 * The op smoke suite of browsers: what it tests is handed in, the bundle of `mod.ts`, so that nothing here is run twice.
 *
 * @module
 */
import type * as Dinograd from "../../mod.ts";

/** The bundle. */
export type Library = typeof Dinograd;
type Tensor = Dinograd.Tensor;

/** What became of a case; `error` is undefined where it passed. */
export interface Outcome {
  readonly name: string;
  readonly error: string | undefined;
}

type Case = readonly [name: string, compute: (d: Library) => Tensor, want: unknown];

const x = (d: Library): Tensor => new d.Tensor([[1, -2, 3], [4, 5, -6]], { dtype: "float32" });
const small = (d: Library): Tensor => new d.Tensor([250, 3, 7], { dtype: "uint8" });

const CASES: readonly Case[] = [
  ["add", (d) => x(d).add(1), [[2, -1, 4], [5, 6, -5]]],
  ["broadcast", (d) => x(d).mul(new d.Tensor([1, 10, 100])), [[1, -20, 300], [4, 50, -600]]],
  ["where", (d) => x(d).gt(0).where(x(d), 0), [[1, 0, 3], [4, 5, 0]]],
  ["relu", (d) => x(d).relu(), [[1, 0, 3], [4, 5, 0]]],
  ["exp", (d) => new d.Tensor([0, 1]).exp(), [1, Math.E]],
  ["log", (d) => new d.Tensor([1, Math.E]).log(), [0, 1]],
  ["sin", (d) => new d.Tensor([0, 1.5]).sin(), [0, Math.sin(1.5)]],
  ["sqrt", (d) => new d.Tensor([4, 9]).sqrt(), [2, 3]],
  ["division", (d) => new d.Tensor([1, -1, 0]).div(0), [Infinity, -Infinity, NaN]],
  ["sum", (d) => x(d).sum(), 5],
  ["sum of rows", (d) => x(d).sum(1), [2, 3]],
  ["max of columns", (d) => x(d).max(0), [4, 5, 3]],
  ["argmax", (d) => x(d).argmax(1), [2, 1]],
  ["mean", (d) => x(d).mean(0), [2.5, 1.5, -1.5]],
  ["matmul", (d) => x(d).matmul(x(d).transpose()), [[14, -24], [-24, 77]]],
  ["softmax", (d) => new d.Tensor([1, 1, 1, 1]).softmax(), [0.25, 0.25, 0.25, 0.25]],
  ["permute, flip", (d) => x(d).permute([1, 0]).flip([1]), [[4, 1], [5, -2], [-6, 3]]],
  ["pad, shrink", (d) => new d.Tensor([1, 2]).pad([[1, 1]]), [0, 1, 2, 0]],
  ["cat", (d) => new d.Tensor([1, 2]).cat([new d.Tensor([3])]), [1, 2, 3]],
  ["cumsum", (d) => new d.Tensor([1, 2, 3, 4]).cumsum(), [1, 3, 6, 10]],
  ["slices", (d) => x(d).at(":", [null, null, 2]), [[1, 3], [4, -6]]],
  ["gather rows", (d) => x(d).at(new d.Tensor([1, 0, 1])), [[4, 5, -6], [1, -2, 3], [4, 5, -6]]],
  ["arange", (d) => d.Tensor.arange(5).mul(2), [0, 2, 4, 6, 8]],
  ["uint8", (d) => small(d).add(small(d)), [244, 6, 14]],
  ["int64", (d) => new d.Tensor([2n ** 40n, -1n], { dtype: "int64" }).mul(3), [3 * 2 ** 40, -3]],
  ["bool", (d) => x(d).gt(0).bitwiseXor(x(d).lt(4)), [[false, true, false], [true, true, true]]],
  ["float16", (d) => new d.Tensor([1, 2.5], { dtype: "float16" }).mul(2), [2, 5]],
  ["large sum", (d) => d.Tensor.ones([1000, 1000]).contiguous().sum(), 1e6],
  [
    "convolution",
    (d) => d.Tensor.ones([1, 1, 4, 4]).conv2d(d.Tensor.ones([1, 1, 3, 3])).reshape([2, 2]),
    [[9, 9], [9, 9]],
  ],
  ["gradient", (d) => {
    const w = new d.Tensor([1, 2, 3], { requiresGrad: true });
    w.mul(w).sum().backward();
    return w.grad!;
  }, [2, 4, 6]],
  ["jit", (d) => {
    const f = d.jit((t: Tensor) => t.mul(2).add(1));
    let t = new d.Tensor([1, 2]).realize();
    for (let i = 0; i < 4; i++) t = f(t);
    return t;
  }, [31, 47]],
];

declare function requestAnimationFrame(fn: () => void): number;

/** What holds beside other work of the page; gives what is wrong. */
const BESIDE: readonly (readonly [name: string, find: (d: Library) => Promise<string | undefined>])[] = [
  ["timers and frames have their turn beside awaited reads", async (d) => {
    // turns that are due, one in 10 ms; a read during which others had the processor counts as one
    let ticks = 0, frames = 0, reads = 0, due = 0;
    const timer = setInterval(() => ticks++, 10), hasFrames = typeof requestAnimationFrame === "function";
    const frame = (): void =>
      void requestAnimationFrame(() => {
        frames++;
        frame();
      });
    if (hasFrames) frame();
    const step = d.jit((t: Tensor) => t.matmul(t).mul(1e-3)), t = d.Tensor.rand([16, 16]).realize();
    for (let now = performance.now(), end = now + 1000; now < end; reads++) {
      const before = now;
      await step(t).data();
      now = performance.now();
      due += Math.min((now - before) / 10, 1);
    }
    clearInterval(timer);
    return ticks >= due / 5 && (frames >= due / 20 || !hasFrames)
      ? undefined
      : `${ticks} ticks, ${frames} frames beside ${reads} reads in a second, of ${due} that are due`;
  }],
  ["an async function in context() holds for what it awaits, or is an error that says what to do", async (d) => {
    if ("process" in globalThis) { // Node.js and Bun follow what is awaited
      const during = await d.context({ TRAINING: 1 }, async () => {
        await Promise.resolve();
        return d.Tensor.training;
      });
      return during && !d.Tensor.training ? undefined : `training is ${during} during it, ${d.Tensor.training} after`;
    }
    try {
      await d.context({ TRAINING: 1 }, async () => await Promise.resolve(1));
    } catch (error) {
      const { name, message } = error as Error;
      const told = message.includes(
        "give it a synchronous function that returns tensors, and await their values outside",
      );
      return name === "ArgumentError" && told && !d.Tensor.training ? undefined : String(error);
    }
    return "no error";
  }],
];

function same(got: unknown, want: unknown): boolean {
  if (Array.isArray(want)) {
    return Array.isArray(got) && got.length === want.length && want.every((w, i) => same(got[i], w));
  }
  if (typeof want !== "number" || typeof got !== "number") return got === want;
  return Object.is(got, want) || got === want || Math.abs(got - want) <= 1e-5 * Math.max(1, Math.abs(want));
}

/** Runs the suite on a device. @throws {Error} where it does not open */
export async function smoke(library: Library, device: string): Promise<Outcome[]> {
  await library.Device.open(device);
  library.Device.default = device;
  const outcomes: Outcome[] = [];
  for (const [name, compute, want] of CASES) {
    let error: string | undefined;
    try {
      const got = await compute(library).tolist();
      if (!same(got, want)) error = `is ${JSON.stringify(got)}, want ${JSON.stringify(want)}`;
    } catch (e) {
      error = String((e as Error).stack ?? e);
    }
    outcomes.push({ name, error });
  }
  for (const [name, find] of BESIDE) {
    outcomes.push({ name, error: await find(library).catch((e) => String((e as Error).stack ?? e)) });
  }
  await library.Device.synchronize();
  return outcomes;
}
