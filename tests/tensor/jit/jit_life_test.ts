/** Functions under jit as programs use them for long: other shapes, aliases, errors, views, random values, arguments back. */
import { assertEquals } from "@std/assert";
import { Device, jit, Tensor } from "../../../mod.ts";

const devices = ["JS", "WASM"];

/** Opened here, not inside of the first test. */
const usual = Device.default;

function floats(values: number[]): Tensor {
  return new Tensor(values, { dtype: "float32" }).realize();
}

type Life = (say: (got: unknown, want: unknown) => void) => Promise<void>;

const LIVES: Record<string, Life> = {
  "shapes come and go": async (say) => {
    const f = jit((x: Tensor) => x.cumsum(0).sub(x.max()));
    for (const n of [3, 5, 3, 1, 5, 3, 7, 3]) {
      const values = Array.from({ length: n }, (_, i) => i + 1);
      say(await f(floats(values)).tolist(), values.map((v) => v * (v + 1) / 2 - n));
    }
  },
  "dtypes come and go": async (say) => {
    const f = jit((x: Tensor) => x.mul(2));
    for (const dtype of ["int32", "float32", "int32", "bool", "float64", "uint8"] as const) {
      for (let i = 0; i < 2; i++) {
        const y = f(new Tensor([1, i], { dtype }).realize());
        say([y.dtype.name, await y.tolist()], [dtype === "bool" ? "int32" : dtype, [2, 2 * i]]);
      }
    }
  },
  "lists of numbers have other values and lengths": async (say) => {
    const f = jit((x: Tensor, by: number[]) => x.mul(new Tensor(by, { dtype: "float32" })));
    for (const by of [[1, 2], [3, 4], [0.5, 1], [1, 1], [5], [6, 7]]) {
      say(await f(floats(by.map(() => 10)), by).tolist(), by.map((b) => 10 * b));
    }
  },
  "one tensor for two arguments, then two": async (say) => {
    const f = jit((a: Tensor, b: Tensor) => {
      a.assign(a.add(b));
      return a.mul(1);
    });
    for (let i = 0; i < 3; i++) {
      const a = floats([2]), b = floats([3]), c = floats([5]);
      say([await f(a, a).tolist(), await a.tolist()], [[4], [4]]);
      say([await f(b, c).tolist(), await b.tolist(), await c.tolist()], [[8], [8], [5]]);
    }
  },
  "rows and columns of one tensor": async (say) => {
    const base = Tensor.arange(12).reshape([3, 4]).realize(), f = jit((x: Tensor) => x.sum().add(x.at(0)));
    for (let i = 0; i < 6; i++) {
      const r = i % 3, c = i % 4;
      say(await f(base.at(r)).item(), 16 * r + 6 + 4 * r);
      say(await f(base.at([0, 3], c)).item(), 12 + 3 * c + c);
    }
  },
  "an error after a write, then calls as before": async (say) => {
    const w = floats([1]);
    let isFailing = false;
    const f = jit((x: Tensor) => {
      w.assign(w.add(x));
      if (isFailing) throw new Error("mine");
      return w.mul(2);
    });
    say(await f(floats([1])).tolist(), [4]);
    isFailing = true;
    try {
      f(floats([1]));
    } catch (error) {
      say((error as Error).message, "mine");
    }
    isFailing = false;
    say(await w.tolist(), [3]); // what was asked for before the error
    for (const want of [8, 10, 12]) say(await f(floats([1])).tolist(), [want]);
  },
  "a tensor that it closes over, and has computed itself, is an argument that it writes": async (say) => {
    const x = new Tensor([0, 3, 2]).realize(), closed = x.cumsum(0);
    const f = jit((t: Tensor) => {
      t.mulInPlace(t);
      return closed.mul(1);
    });
    for (let i = 0; i < 3; i++) say(await f(x.add(i)).tolist(), [0, 3, 5]);
    for (const want of [[0, 9, 25], [0, 81, 625]]) say([await f(closed).tolist(), await closed.tolist()], [want, want]);
    say(await f(x.add(1)).tolist(), [0, 81, 625]);
  },
  "random values, as without": async (say) => {
    const f = jit((x: Tensor) => x.add(Tensor.rand([3]))), draws: unknown[][] = [];
    for (const draw of [() => f(floats([0, 0, 0])), () => floats([0, 0, 0]).add(Tensor.rand([3]))]) {
      Tensor.manualSeed(5);
      const drawn: unknown[] = [];
      for (let i = 0; i < 4; i++) drawn.push(await draw().tolist());
      draws.push(drawn);
    }
    say(draws[0], draws[1]);
  },
  "arguments, constants and no tensors among results": async (say) => {
    const f = jit((x: Tensor) => [x, x.add(1), Tensor.ones([2]), 5, null, "s"]);
    for (let i = 0; i < 4; i++) {
      const x = floats([i]), [same, more, ones, ...rest] = f(x) as [Tensor, Tensor, Tensor];
      say(
        [same === x, await same.tolist(), await more.tolist(), await ones.tolist(), rest],
        [true, [i], [i + 1], [1, 1], [5, null, "s"]],
      );
    }
  },
  "a function within one, over shapes": async (say) => {
    const inner = jit((x: Tensor) => x.sum()), f = jit((x: Tensor) => inner(x).add(inner(x.mul(2))));
    for (const n of [2, 3, 2, 3, 4, 2]) say(await f(Tensor.ones([n]).contiguous().realize()).item(), 3 * n);
  },
  "a carry that is given away": async (say) => {
    const f = jit((u: Tensor) => u.mul(0.5).add(1), { donate: true });
    let u = floats([0, 0]), want = 0;
    for (let i = 0; i < 20; i++) [u, want] = [f(u), want * 0.5 + 1];
    say(await u.tolist(), [Math.fround(want), Math.fround(want)]);
  },
};

for (const device of devices) {
  await Device.open(device);
  for (const [name, life] of Object.entries(LIVES)) {
    Deno.test(`jit: ${name} (${device})`, async () => {
      Device.default = device;
      try {
        await life(assertEquals);
      } finally {
        Device.default = usual;
      }
    });
  }
}
