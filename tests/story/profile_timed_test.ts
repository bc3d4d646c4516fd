/**
 * What profiling costs: steps as programs have them, with and without, in turns, so that both see the same machine. It is
 * measured as time that the main thread was on a core, where the system tells it: what other programs do adds to time
 * itself far more than profiling does. That leaves nothing out: the main thread runs its part of each kernel, and spins
 * until the other threads have run theirs, so that what profiling adds to any of them makes this time longer, too, as it
 * does a step.
 */
import { assert } from "@std/assert";
import { context, Device, jit, nn, state, Tensor } from "../../mod.ts";
import { ConvNet } from "../../examples/convnet_support.ts";
import { spans } from "../../src/helpers/spans.ts";
import { Profiler } from "../../src/story/profiler.ts";
import { Random } from "../support/random.ts";

const device = "CLANG", ignore = !Device.list().some((d) => d.name === device && d.available);
if (!ignore) Device.get(device);

/** Milliseconds that this thread has been on a core; elsewhere than on Linux those that went by. */
function threadClock(): { readonly now: () => number; readonly close: () => void } {
  if (Deno.build.os !== "linux") return { now: () => performance.now(), close: () => {} };
  const libc = Deno.dlopen("libc.so.6", {
    clock_gettime: { parameters: ["i32", "buffer"], result: "i32" },
  });
  const time = new BigInt64Array(2), CLOCK_THREAD_CPUTIME_ID = 3;
  return {
    now: () => {
      libc.symbols.clock_gettime(CLOCK_THREAD_CPUTIME_ID, time);
      return Number(time[0]) * 1e3 + Number(time[1]) / 1e6;
    },
    close: () => libc.close(),
  };
}

/** A step of the demo: batches are uploaded, the learning rate moves, and the rest is a captured training step. */
function demoStep(): () => void {
  Tensor.manualSeed(1);
  const model = new ConvNet(), optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 0, weightDecay: 0.01 });
  const step = jit((x: Tensor, y: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = model.call(x).sparseCategoricalCrossentropy(y, { labelSmoothing: 0.1 }).backward();
      optimizer.step();
      return loss;
    })
  );
  const pixels = Float32Array.from({ length: 64 * 64 }, (_, i) => i % 17 / 17), digits = pixels.slice(0, 64);
  let at = 0;
  return () => {
    optimizer.setLr(0.001 / (1 + at++ % 7));
    const x = new Tensor(pixels).reshape([64, 1, 8, 8]), y = new Tensor(Int32Array.from(digits, (d) => 9 * d));
    step(x.realize(), y.realize()).dispose();
  };
}

/** A captured pass forward. */
function forward(): () => void {
  Tensor.manualSeed(1);
  const model = new ConvNet(), f = jit((x: Tensor) => model.call(x)), x = Tensor.rand([16, 1, 8, 8]).realize();
  return () => f(x).dispose();
}

/** By which part the times of one list are longer than those of the other: by their middle ones, which what others do moves alike. */
function longer(on: number[], off: number[]): number {
  const [a, b] = [on, off].map((list) => list.sort((x, y) => x - y)[list.length >> 1]);
  return a / b - 1;
}

/** By how many percent a step may take longer: it takes 1 to 2. */
const MOST = 3;
/** Rounds, of which the middle one counts, their length, and how many steps each takes where these are long (`NOOPT=1`). */
const ROUNDS = 9, ROUND_MS = 1000, STEPS = 20;

for (const [name, make] of [["a step of the demo", demoStep], ["a pass forward", forward]] as const) {
  Deno.test({
    name: `profile: ${name} costs at most ${MOST} % more`,
    ignore,
    fn: () =>
      context({ DEV: device }, () => {
        const step = make(), clock = threadClock();
        for (let i = 0; i < STEPS; i++) step();
        const profiler = new Profiler(), heard = spans.listener!;
        // lines of what is new are taken first, once: what goes on is measured
        for (const stop = performance.now() + 4000; heard.lines !== false && performance.now() < stop;) step();
        const rounds: number[] = [], random = new Random(17);
        try {
          while (rounds.length < ROUNDS) {
            const times: [number[], number[]] = [[], []], end = performance.now() + ROUND_MS;
            for (let i = 0; i < STEPS || performance.now() < end; i++) {
              const isOn = random.below(2); // in no order that the machine could follow
              spans.listener = isOn === 1 ? heard : undefined;
              const start = clock.now();
              step();
              times[isOn].push(clock.now() - start);
            }
            rounds.push(longer(times[1], times[0]));
          }
        } finally {
          spans.listener = heard;
          profiler.stop();
          clock.close();
        }
        const percents = rounds.map((r) => 100 * r).sort((a, b) => a - b);
        console.log(percents.map((p) => p.toFixed(2)).join(" "));
        assert(percents[ROUNDS >> 1] <= MOST, `${percents.map((p) => p.toFixed(1)).join(", ")} % in ${ROUNDS} rounds`);
      }),
  });
}
