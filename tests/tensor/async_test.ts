/** What runs beside what: modes and scopes of overlapping async functions, timers and signals beside awaited reads. */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { ArgumentError, context, Device, DisposedError, jit, nn, scope, state, Tensor } from "../../mod.ts";
import { settleMemory } from "../../src/device/pressure.ts";
import { envNumber } from "../../src/helpers/env.ts";
import { fuzzAsyncModes } from "../fuzz/async_modes.ts";
import { ROOT, runDeno } from "../system/subprocess.ts";

Device.get();
const later = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
const half = (): string => new Tensor([0.5]).dtype.name;

Deno.test("async: contexts that overlap hold each for its own function", async () => {
  const wide = context({ DEFAULT_FLOAT: "float64" }, async () => {
    await later(5);
    return half();
  });
  const narrow = context({ DEFAULT_FLOAT: "float16" }, async () => {
    await later(15);
    return half();
  });
  assertEquals(half(), "float32");
  assertEquals([await wide, half(), await narrow, half()], ["float64", "float32", "float16", "float32"]);
});

Deno.test("async: a context holds for what its function awaits, and not after it has ended", async () => {
  let left: Promise<number> | undefined;
  const ended = Promise.withResolvers<void>();
  const inside = await context({ WINO: 1 }, async () => {
    left = ended.promise.then(() => envNumber("WINO"));
    const parts = await Promise.all([1, 2, 3].map(async (ms) => {
      await later(ms);
      return await context({ TRAINING: ms % 2 }, async () => {
        await later(1);
        return [envNumber("WINO"), envNumber("TRAINING")];
      });
    }));
    return parts;
  });
  ended.resolve();
  assertEquals(inside, [[1, 1], [1, 0], [1, 1]]);
  assertEquals(await left, 0);
});

Deno.test("async: thenables run in the context, generators are errors", async () => {
  const lazy = { then: (done: (x: number) => void) => done(envNumber("WINO")) };
  assertEquals(await context({ WINO: 3 }, () => lazy as unknown as Promise<number>), 3);
  const generator = function* () {
    yield half();
  };
  assertThrows(() => context({ DEFAULT_FLOAT: "float16" }, generator), ArgumentError, "call context() inside of it");
  assertEquals([...(function* () {
    yield context({ DEFAULT_FLOAT: "float16" }, half);
  })()], ["float16"]);
});

Deno.test("async: setting a mode inside a context ends with it", async () => {
  await context({ TRAINING: 0 }, async () => {
    Tensor.training = true;
    await later(1);
    assertEquals(Tensor.training, true);
  });
  assertEquals(Tensor.training, false);
});

Deno.test("async: a scope frees what was made in it, and nothing of what runs beside it", async () => {
  await Device.open("JS");
  const options = { device: "JS", dtype: "float32" } as const;
  const base = new Tensor([1, 2], options).realize();
  let escaped: Tensor | undefined, beside: Tensor | undefined;
  const scoped = scope(async () => {
    escaped = base.add(10).realize();
    await later(20);
    await beside!.add(1).data(); // realizes what another function has made
    return escaped.add(1).realize();
  });
  const other = (async () => {
    await later(5);
    beside = base.mul(7).contiguous(); // younger than the scope, and still lazy
    await later(30);
    return await beside.tolist();
  })();
  assertEquals(await (await scoped).tolist(), [12, 13]);
  assertThrows(() => escaped!.realize(), DisposedError);
  assertEquals(await other, [7, 14]);
});

for (const device of ["JS", "WASM"]) {
  Deno.test(`async ${device}: random functions see their own modes and tensors`, async () => {
    await Device.open(device);
    assert(await fuzzAsyncModes({ count: 8, seed: 7, device }) > 500);
  });
}

Deno.test("async: where the engine has no AsyncLocalStorage, an async function is an error that says what to do", async () => {
  const script = `
    delete globalThis.process;
    const { context, scope, Tensor } = await import("./mod.ts");
    const x = new Tensor([1, 2], { device: "JS" });
    for (const f of [() => context({ TRAINING: 1 }, async () => 1), () => Tensor.train(async () => 1), () => scope(async () => 1)]) {
      try { f(); console.log("no error"); } catch (error) { console.log(error.name, error.message); }
    }
    console.log(Tensor.training);
    const y = Tensor.train(() => x.mul(Number(Tensor.training) + 1));
    console.log(await y.tolist(), await scope(() => x.add(1).realize()).tolist());
  `;
  const { stdout, stderr } = await runDeno(["eval", "--no-check", script]);
  const lines = stdout.trim().split("\n");
  assertEquals(lines.length, 5, stderr);
  for (const [i, where] of ["context()", "Tensor.train()", "scope()"].entries()) {
    assert(lines[i].startsWith(`ArgumentError Cannot run an async function in ${where}: `), lines[i]);
    assertMatch(lines[i], /give it a synchronous function that returns tensors, and await their values outside$/);
  }
  assertEquals(lines.slice(3), ["false", "[ 2, 4 ] [ 2, 3 ]"]);
});

Deno.test("async: 50 requests at once, of different modes, that share a model", async () => {
  const device = "WASM", weights = new nn.Linear(8, 4);
  for (const t of state.getParameters(weights)) t.toInPlace(device);
  const forward = jit((x: Tensor) => weights.call(x).dropout(0.5));
  const input = Tensor.rand([64, 8], { device }).realize();
  const plain = await weights.call(input).data() as Float32Array;
  const handle = (training: boolean, wait: number): Promise<string> => {
    const work = async (): Promise<string> => {
      for (let i = 0; i < 3; i++) {
        await later(wait);
        const out = await scope(async () => await forward(input.add(0).realize()).data()) as Float32Array;
        const dropped = out.filter((v) => v === 0).length;
        const right = training ? dropped > 64 && dropped < 192 : out.every((v, k) => Math.abs(v - plain[k]) < 1e-5);
        if (!right || Tensor.training !== training) return `training ${training}: ${dropped} dropped`;
      }
      return "right";
    };
    return training ? Tensor.train(work) : context({ TRAINING: 0 }, work);
  };
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    const { searchParams } = new URL(request.url);
    return new Response(await handle(searchParams.get("training") === "1", Number(searchParams.get("wait"))));
  });
  const url = (i: number): string => `http://127.0.0.1:${server.addr.port}/?training=${i % 2}&wait=${i % 7}`;
  const answers = await Promise.all(Array.from({ length: 50 }, async (_, i) => await (await fetch(url(i))).text()));
  await server.shutdown();
  assertEquals(answers.filter((text) => text !== "right"), []);
  assertEquals(Tensor.training, false);
  await settleMemory();
});

Deno.test({
  name: "async: a signal is heard in a training loop, and its handler may save",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const script = `
      import { nn, state, Tensor, jit } from "./mod.ts";
      const layer = new nn.Linear(8, 8), optimizer = new nn.optim.SGD(state.getParameters(layer), { lr: 1e-3 });
      const step = jit((x) => Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = layer.call(x).square().mean().backward();
        optimizer.step();
        return loss;
      }));
      const x = Tensor.rand([16, 8]).realize();
      let stop = false, steps = 0;
      Deno.addSignalListener("SIGINT", async () => {
        const bytes = await state.safeBytes(state.getStateDict(layer));
        console.log("saved", bytes.length > 200);
        stop = true;
      });
      for (; !stop && performance.now() < 60000; steps++) {
        await step(x).item();
        if (steps === 20) Deno.kill(Deno.pid, "SIGINT");
      }
      console.log(stop, steps < 100000);
      Deno.exit(0);
    `;
    const url = `data:application/typescript,${
      encodeURIComponent(script.replaceAll("./mod.ts", new URL("mod.ts", ROOT).href))
    }`;
    const { stdout, stderr } = await runDeno(["run", "-A", "--no-check", url], { env: { DEV: "WASM" } });
    assertEquals(stdout, "saved true\ntrue true\n", stderr);
  },
});

Deno.test("async: what reads many values as lists gives others their turns meanwhile", async () => {
  const x = Tensor.arange(400 * 500).reshape([400, 500]).realize(), { now } = performance;
  let ms = now.call(performance), turns = 0, reading = true;
  const next = (): void => {
    turns++;
    if (reading) setImmediate(next);
  };
  performance.now = () => ms += 11; // all that is done takes 11 ms
  try {
    setImmediate(next);
    const rows = await x.tolist<number[][]>();
    reading = false;
    assertEquals([rows.length, rows[399].length, rows[0][0], rows[123][45], rows[399][499]], [
      400,
      500,
      0,
      61545,
      199999,
    ]);
  } finally {
    performance.now = now;
  }
  await new Promise((done) => setImmediate(done));
  assert(turns > 10, `${turns} turns`);
});
