/**
 * Memory as a user meets it, on every device that opens here: who holds what, what disposing frees, `scope`, the ledger,
 * running out, and loops that go on for long.
 */
import { assert, assertEquals, assertMatch, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import {
  ArgumentError,
  context,
  Device,
  DisposedError,
  jit,
  nn,
  OutOfMemoryError,
  scope,
  SpecError,
  state,
  Tensor,
} from "../../mod.ts";
import { bufferOf } from "../../src/device/buffer.ts";
import { settleMemory } from "../../src/device/pressure.ts";
import type { BufferArg } from "../../src/uop/core/args.ts";
import { internedCount } from "../../src/uop/core/uop.ts";
import { runDeno } from "../system/subprocess.ts";
import { devicesHere } from "../fixtures/devices.ts";

const devices = await devicesHere("WEBGPU", "CUDA");

/** Opened here, not inside of the first test. */
const usual = Device.default;

/** One test a device, which is the default one meanwhile. */
function each(name: string, fn: (device: string) => void | Promise<void>, on: readonly string[] = devices): void {
  for (const device of on) {
    Deno.test(`memory ${device}: ${name}`, async () => {
      Device.default = device;
      await settleMemory();
      try {
        await fn(device);
      } finally {
        Device.default = usual;
      }
    });
  }
}

/** Bytes held on all devices. */
function held(): number {
  return Object.values(Device.memory()).reduce((n, m) => n + m.bytes, 0);
}

/** The line of the caller in this file. */
function here(): number {
  const frames = new Error().stack!.split("\n").filter((l) => l.includes("memory_test.ts"));
  return Number(/:(\d+):\d+\)?$/.exec(frames[1])![1]);
}
/** Checks that `fn` throws DisposedError naming a line of this file. */
function disposed(fn: () => unknown, line: number): void {
  const error = assertThrows(fn, DisposedError);
  assertMatch(error.disposedAt, new RegExp(`memory_test\\.ts:${line}:\\d+$`));
  assert(error.message.includes(error.disposedAt));
}

each("dispose frees at once, and using the tensor again names the line", async () => {
  const before = held();
  const t = new Tensor([1, 2, 3, 4]).realize(), lazy = t.add(1), sum = t.sum();
  assertEquals(held() - before, 16);
  assertEquals(await sum.item(), 10);
  t.dispose(), t.dispose();
  const line = here() - 1;
  disposed(() => t.realize(), line);
  disposed(() => t.tolistSync(), line);
  disposed(() => t.add(1).realize(), line);
  disposed(() => lazy.realize(), line);
  disposed(() => Tensor.realize([Tensor.ones([2]), t]), line);
  disposed(() => new Tensor([0, 0, 0, 0]).replace(t), line);
  await assertRejects(() => t.tolist(), DisposedError);
  await settleMemory();
  assertEquals([t.shape, String(t.dtype), t.device], [[4], "int32", Device.default]);
  sum.dispose();
  assertEquals(held(), before);
});

each("using frees at the end of the block", async () => {
  const before = held();
  {
    using a = Tensor.rand([64]).realize();
    using b = a.mul(2).realize();
    using c = a.matmul(b);
    assert(await c.item() > 0);
    assertEquals(held() - before, 2 * 256 + 4);
  }
  assertEquals(held(), before);
});

each("views hold nothing", async () => {
  const before = held();
  const t = new Tensor([1, 2, 3, 4, 5, 6]).realize(), other = t.reshape([6]);
  {
    using rows = t.reshape([2, 3]);
    using column = rows.at(":", 1);
    using same = t.cast("int32"), apart = t.detach();
    assertEquals(await rows.tolist(), [[1, 2, 3], [4, 5, 6]]);
    assertEquals(await column.tolist(), [2, 5]);
    assertEquals(await apart.sum().item(), await same.sum().item());
  }
  assertEquals(await other.tolist(), [1, 2, 3, 4, 5, 6]);
  t.dispose();
  disposed(() => other.realize(), here() - 1);
  await settleMemory();
  assertEquals(held(), before);
});

each("a view that was realized itself holds, too", async () => {
  const before = held();
  const t = new Tensor([1, 2, 3, 4]).realize(), view = t.reshape([2, 2]).realize();
  assertEquals(held() - before, 16);
  t.dispose();
  assertEquals(await view.tolist(), [[1, 2], [3, 4]]);
  view.dispose();
  assertEquals(held(), before);
});

each("a view realized before its tensor leaves it alone", async () => {
  const before = held();
  const t = new Tensor([1, 2, 3, 4]), view = t.reshape([2, 2]).realize();
  view.dispose();
  assertEquals(await t.tolist(), [1, 2, 3, 4]);
  t.dispose();
  assertEquals(held(), before);
});

each("replace shares, whether the other is realized or not", async () => {
  const before = held();
  for (const realized of [true, false]) {
    const a = new Tensor([1, 2]).realize(), b = new Tensor([2, 3]).mul(2);
    if (realized) b.realize();
    a.replace(b).realize();
    b.dispose();
    assertEquals(await a.tolist(), [4, 6]);
    a.dispose();
  }
  await settleMemory();
  assertEquals(held(), before);
});

each("what is made with memory of its own holds it: empty, clone, to, leaves, assigned tensors", async (device) => {
  await Tensor.realize([new Tensor([0])]);
  await settleMemory();
  const before = held();
  const source = new Tensor([1.5, 2.5]);
  const made = {
    empty: Tensor.empty([2]),
    clone: source.clone(),
    leaf: Tensor.ones([2], { requiresGrad: true }),
    moved: source.to(device === "JS" ? "WASM" : "JS"),
    assigned: Tensor.zeros([2]).assign(source),
    filled: Tensor.full([2], 3).setAt([0], 7),
  };
  // realized in passing, as operands of something else
  for (const t of Object.values(made)) assertEquals((await t.add(1).tolist() as number[]).length, 2);
  for (const t of Object.values(made)) t.dispose();
  source.dispose();
  await settleMemory();
  assertEquals(held(), before);
});

each("an assignment stays in its memory", async () => {
  const before = held();
  const t = Tensor.zeros([3]).realize();
  t.assign(t.add(1)).realize();
  t.setAt([1], 5);
  assertEquals(await t.tolist(), [1, 5, 1]);
  assertEquals(held() - before, 12);
  t.setAt([0], 9).dispose(); // with a write that never ran
  assertEquals(held(), before);
});

each("values that no one needed are the host's, and are freed there", () => {
  const before = held();
  const t = new Tensor(new Float32Array(1000)), sum = t.sum();
  assertEquals(held() - before, 4000);
  t.dispose();
  assertEquals(held(), before);
  disposed(() => sum.realize(), here() - 2);
});

each("values are on one device only once they were uploaded", async () => {
  const before = held();
  const t = new Tensor(new Float32Array(1000).fill(1)), y = t.add(1);
  assertEquals(await t.sum().item(), 1000);
  assertEquals(await y.sum().item(), 2000);
  await settleMemory();
  assertEquals(held() - before, 4000);
  t.dispose();
  assertEquals(held(), before);
});

each("results of a jit function are their holders'", async () => {
  const weight = new Tensor([2, 3]).realize();
  const f = jit((x: Tensor) => {
    using doubled = x.mul(2).realize(); // belongs to the capture
    const results = [doubled.add(weight), doubled.sum()];
    Tensor.realize(results);
    return results;
  });
  const sums: unknown[] = [];
  let before = 0;
  for (let i = 0; i < 5; i++) {
    using x = new Tensor([i, i]).realize();
    const [y, sum] = f(x);
    sums.push(await y.tolist(), await sum.item());
    y.dispose(), sum.dispose();
    if (i === 2) before = held() - 8; // x
  }
  assertEquals(held(), before);
  assertEquals(sums, [0, 1, 2, 3, 4].flatMap((i) => [[2 * i + 2, 2 * i + 3], 4 * i]));
  weight.dispose();
  const line = here() - 1, x = new Tensor([1, 1]).realize();
  disposed(() => f(x), line);
});

each("a result that a jit function gives twice is the same values", async () => {
  const f = jit((x: Tensor) => {
    const y = x.add(1);
    return [y, y.reshape([2, 1]), y];
  });
  for (let i = 0; i < 4; i++) {
    const [a, b, c] = f(new Tensor([i, i]).realize());
    assertEquals([await a.tolist(), await b.tolist(), await c.tolist()], [[i + 1, i + 1], [[i + 1], [i + 1]], [
      i + 1,
      i + 1,
    ]]);
  }
});

each("a jit function that nobody can call gives back its intermediates", async () => {
  const before = held();
  const x = Tensor.rand([256]).realize();
  await (async () => {
    const f = jit((x: Tensor) => x.sum().add(x).contiguous().sum().add(x).contiguous().sum());
    for (let i = 0; i < 4; i++) await f(x).item();
  })();
  x.dispose();
  await settleMemory();
  assertEquals(held(), before);
});

each("scope frees what it realized, but for its result and older tensors", async () => {
  const before = held();
  const older = Tensor.zeros([8]).realize();
  let escaped: Tensor | undefined;
  const kept = scope(() => {
    const a = Tensor.ones([1000]).contiguous().realize();
    escaped = a.mul(3).realize();
    older.assign(older.add(1)).realize();
    return { sum: escaped.sum().realize(), list: [a.at([0, 10]).realize()] };
  });
  const line = here() - 1;
  assertEquals(held() - before, 32 + 4 + 40);
  assertEquals([await kept.sum.item(), await kept.list[0].sum().item(), await older.sum().item()], [3000, 10, 8]);
  const error = assertThrows(() => escaped!.realize(), DisposedError);
  assertMatch(
    error.disposedAt,
    new RegExp(
      `^the end of scope\\(\\), which keeps nothing but what it returns and assigns, at .*memory_test\\.ts:${
        line - 5
      }:`,
    ),
  );
  for (const t of [kept.sum, kept.list[0], older]) t.dispose();
  await settleMemory();
  assertEquals(held(), before);
});

/** [3, 6, 9], not computed yet. */
function lazyThirds(): Tensor {
  return new Tensor([1, 1, 1]).realize().cumsum(0).mul(3);
}

const POINTED: readonly (readonly [string, (t: Tensor) => void, number[]])[] = [
  ["assign", (t) => void t.assign(t.mul(2)), [6, 12, 18]],
  ["assign a number", (t) => void t.assign(7), [7, 7, 7]],
  ["addInPlace", (t) => void t.addInPlace(1), [4, 7, 10]],
  ["setAt", (t) => void t.setAt([0], 1), [1, 6, 9]],
  ["a write through a view", (t) => void t.at(0).addInPlace(1), [4, 6, 9]],
  ["a write through a view of a view", (t) => void t.flip(0).at([0, 2]).assign(0), [3, 0, 0]],
  ["replace", (t) => void t.replace(t.mul(2)), [6, 12, 18]],
  ["assign what was realized", (t) => void t.assign(t.mul(2).contiguous().realize().add(1)), [7, 13, 19]],
];
each(
  "what a scope writes to older tensors stays theirs, realized in it or not, through views, from scopes within",
  async () => {
    for (const [name, write, want] of POINTED) {
      for (const realized of [true, false]) {
        const body = (t: Tensor) => () => {
          write(t);
          if (realized) t.realize();
        };
        const plain = lazyThirds(), nested = lazyThirds(), awaited = lazyThirds();
        scope(body(plain));
        assertEquals(await plain.tolist(), want, name);
        scope(() => scope(body(nested)));
        assertEquals(await nested.tolist(), want, name);
        await scope(async () => {
          await Promise.resolve();
          body(awaited)();
        });
        assertEquals(await awaited.tolist(), want, name);
        const x = lazyThirds().flip(0), view = x.flip(0);
        scope(body(view));
        assertEquals(await view.tolist(), want, name);
        assertEquals(await x.tolist(), name === "replace" ? [9, 6, 3] : want.toReversed(), name);
      }
    }
  },
);

each("what a scope writes to tensors of its own is freed with them", () => {
  const before = held();
  scope(() => {
    for (const [, write] of POINTED) {
      const t = lazyThirds();
      write(t);
      t.realize();
    }
  });
  assertEquals(held(), before);
});

each("scopes nest, and pass on what an error interrupts", () => {
  const before = held();
  const inner = scope(() => scope(() => Tensor.rand([100]).realize()).mul(2).realize());
  assertEquals(held() - before, 400);
  inner.dispose();
  assertEquals(held(), before);
  assertThrows(
    () =>
      scope(() => {
        Tensor.rand([100]).realize();
        throw new Error("no");
      }),
    Error,
    "no",
  );
  assertEquals(held(), before);
  const generator = function* () {
    yield 1;
  };
  assertThrows(() => scope(generator), ArgumentError, "scope()");
});

each("a scope around a jit function that captures leaves the capture alone", async () => {
  const f = jit((x: Tensor) => x.sum().add(x).contiguous().mul(2).sum());
  const seen: unknown[] = [];
  for (let i = 0; i < 5; i++) {
    const y = scope(() => f(Tensor.full([4], i, { dtype: "float32" }).contiguous().realize()));
    seen.push(await y.item());
    y.dispose();
  }
  assertEquals(seen, [0, 40, 80, 120, 160]);
});

each("what fails halfway holds nothing", () => {
  const small = Tensor.rand([1000]).realize();
  const before = held();
  const failing = () =>
    context({ MAX_MEMORY: Device.memory()[Device.default].bytes + 10_000 }, () => {
      const a = small.mul(2).contiguous();
      Tensor.realize([a, a.sum(), Tensor.rand([1000, 1000])]);
    });
  const error = assertThrows(failing, OutOfMemoryError);
  assertEquals([error.device, error.nbytes], [Device.default, 4_000_000]);
  assert(
    error.holders.some((h: OutOfMemoryError["holders"][number]) => h.nbytes === 4000 && String(h.dtype) === "float32"),
    "names the largest holders",
  );
  assertMatch(
    error.message,
    /^Cannot allocate 4000000 bytes on \w+: MAX_MEMORY allows .*\n +8\.00 kB +float32 +\[1000\] +2 x tensor/s,
  );
  assertMatch(error.message, /scope\(\).*DEBUG_MEMORY=1/s);
  assertEquals(held(), before);
  assert(small.sum().itemSync() as number > 0, "what was there before is untouched");
  small.dispose();
});

each("DEBUG_MEMORY=1 names the line that made each tensor", () => {
  context({ DEBUG_MEMORY: 1 }, () => {
    const t = Tensor.rand([123]).realize(), made = here();
    const found = Device.memory()[Device.default].holders!.find((h) => h.size === 123)!;
    assertEquals([found.nbytes, found.shape, String(found.dtype), found.use], [492, [123], "float32", "tensor"]);
    assertMatch(found.line!, new RegExp(`memory_test\\.ts:${made}:`));
    const error = assertThrows(
      () => context({ MAX_BUFFER_SIZE: 1000 }, () => Tensor.rand([1000]).realize()),
      OutOfMemoryError,
    );
    assertMatch(error.message, new RegExp(`MAX_BUFFER_SIZE.*made at .*memory_test\\.ts:${made}:`, "s"));
    t.dispose();
  });
  assertStrictEquals(Device.memory()[Device.default].holders, undefined);
});

each("LRU=0 keeps nothing for reuse", () => {
  const { allocator } = Device.get();
  allocator.drop();
  context({ LRU: 0 }, () => Tensor.rand([500]).realize().dispose());
  assertEquals(allocator.cached, 0);
  Tensor.rand([500]).realize().dispose();
  assertEquals(allocator.cached, 2000);
});

Deno.test("memory: a freed buffer is not used again", () => {
  const t = new Tensor([1, 2], { device: "JS" });
  const buffer = bufferOf((t.uop.arg as BufferArg).storage)!;
  t.dispose();
  assertThrows(() => buffer.memory, SpecError, "freed buffer");
});

class Mlp {
  readonly l1: nn.Linear = new nn.Linear(64, 32);
  readonly l2: nn.Linear = new nn.Linear(32, 10);
  call(x: Tensor): Tensor {
    return this.l2.call(this.l1.call(x).relu());
  }
}

/** One training step, on values of the host. */
function trainer(): () => Tensor {
  const model = new Mlp(), optimizer = new nn.optim.Adam(state.getParameters(model));
  const pixels = Float32Array.from({ length: 16 * 64 }, (_, i) => (i * 7 % 13) / 13);
  const labels = Int32Array.from({ length: 16 }, (_, i) => i % 10);
  return () => {
    const x = new Tensor(pixels).reshape([16, 64]), y = new Tensor(labels);
    return Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = model.call(x).sparseCategoricalCrossentropy(y).backward();
      optimizer.step();
      return loss;
    });
  };
}

each("nothing is left of a model and its training", async () => {
  const before = held();
  await (async () => {
    const step = trainer(), replayed = jit(trainer());
    for (let i = 0; i < 4; i++) {
      await step().item();
      await replayed().item();
    }
  })();
  await settleMemory();
  assertEquals(held(), before);
});

each("1,000 naive steps with await loss.item() hold flat", async () => {
  const step = trainer();
  let first = 0, most = 0, nodes = 0;
  for (let i = 1; i <= 1000; i++) {
    await step().item();
    most = Math.max(most, held());
    if (i !== 100 && i !== 1000) continue;
    await settleMemory();
    if (i === 100) [first, nodes] = [held(), internedCount()];
    else assert(Math.abs(held() - first) <= first / 10, `${held()} bytes, ${first} at step 100`);
  }
  assert(internedCount() <= nodes * 1.1 + 100, "the intern table holds flat");
  assert(most - first < 16e6, `in between ${most} bytes were held`);
}, devices.filter((d) => d !== "JS"));

each("1,000 synchronous steps under scope hold flat, to the byte", () => {
  const step = trainer();
  let first = 0;
  for (let i = 1; i <= 1000; i++) {
    scope(() => void step());
    if (i === 100) first = held();
    else if (i > 100) assertEquals(held(), first);
  }
}, devices.filter((d) => d !== "JS"));

each("10,000 replays of a jit function hold flat", async () => {
  const step = jit(trainer());
  let first = 0, most = 0;
  for (let i = 1; i <= 10_000; i++) {
    const loss = step();
    if (i % 10 === 0) await loss.item();
    most = Math.max(most, held());
    if (i !== 100 && i !== 10_000) continue;
    await settleMemory();
    if (i === 100) first = held();
    else assert(held() <= first, `${held()} bytes, ${first} at step 100`);
  }
  assert(most - first < 1e6, `in between ${most} bytes were held`);
}, devices.filter((d) => d !== "JS"));

each("asynchronous reads let go of large tensors", async () => {
  const before = held();
  let most = 0;
  for (let i = 0; i < 300; i++) {
    await Tensor.full([1 << 19], i, { dtype: "float32" }).contiguous().realize().at(0).item();
    most = Math.max(most, held());
  }
  assert(most - before < 256e6, `${most} bytes were held at one time`);
}, devices.filter((d) => d !== "JS"));

// in a process of its own: what other tests left behind would be counted
Deno.test("memory WASM: results of replays that are dropped do not pile up", async () => {
  const program = `
    import { jit, Tensor } from ${JSON.stringify(new URL("../../mod.ts", import.meta.url).href)};
    const x = Tensor.ones([8], { device: "WASM" }).contiguous().realize(), f = jit((x) => x.mul(2).sum());
    for (let i = 0; i < 4; i++) await f(x).item();
    const { rss } = Deno.memoryUsage();
    for (let i = 1; i <= 200_000; i++) {
      const y = f(x);
      if (i % 10 === 0) await y.item();
    }
    console.log((Deno.memoryUsage().rss - rss) / 2 ** 20);`;
  const { code, stdout, stderr } = await runDeno([
    "run",
    "-A",
    "--no-check",
    "data:text/javascript," + encodeURIComponent(program),
  ]);
  assertEquals(code, 0, stderr);
  assert(Number(stdout) < 100, `${stdout} MB more`);
});
