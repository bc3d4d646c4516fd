/** Who takes part in a kernel: threads that sleep are woken for what is worth it, one beside its caller takes nothing. */
import { assertEquals } from "@std/assert";
import type { Device } from "../../../src/device/device.ts";
import type { Launch } from "../../../src/device/program.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { programOf } from "../../../src/renderer/renderer.ts";
import { addThreadVector } from "../../fixtures/kernels.ts";
import { bufferOf, compileOne, floats, openAt, test } from "./clang_harness.ts";

/** Additions in many shares, `times` one after the other; said to take so many microseconds each. */
function additions(device: Device, said: number, times: number): readonly Launch[] {
  const chunks = 1024, n = chunks * 8, made = programOf("threads", addThreadVector(chunks).linear!, said * 1e4);
  const program = compileOne(device, made), one = bufferOf(device, dtypes.float32, new Float32Array(n).fill(1));
  const [a, b] = [0, 0].map(() => bufferOf(device, dtypes.float32, new Float32Array(n)));
  return Array.from({ length: times }, (_, i) => ({
    program,
    buffers: i % 2 === 0 ? [b, a, one] : [a, b, one],
    vars: [],
  }));
}
/** What of `rounds` runs ran elsewhere than on the calling thread. */
function elsewhere(device: Device, run: () => void, rounds: number): number {
  const watch = device.threadTimes!.start(false);
  for (let i = 0; i < rounds; i++) run();
  watch.stop();
  return [...watch.read()].filter(([, { thread }]) => thread > 0).length;
}
const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** Opens CLANG, with objects and threads of its own. */
async function withDevice(f: (device: Device) => void | Promise<void>): Promise<void> {
  const folder = Deno.makeTempDirSync({ prefix: "dinograd-test-" });
  try {
    const device = openAt(folder);
    try {
      await f(device);
    } finally {
      device.close();
    }
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

test("short work in shares wakes nobody who sleeps, and is done", async () => {
  await withDevice(async (device) => {
    await sleep(300); // they sleep
    const launches = additions(device, 30, 2), graph = device.graph(launches);
    const [{ buffers: [, a] }] = launches;
    // one by one, where each run knows no more than what is said, and captured
    assertEquals(elsewhere(device, () => device.run(launches), 50), 0);
    // a graph watches by rows as well, where its runs are timed
    assertEquals(elsewhere(device, () => graph.run(new Float64Array(2)), 50), 0);
    assertEquals(floats(a).every((x) => x === 200), true);
    graph.dispose();
  });
});

test("what a kernel took counts more than what was said of it", async () => {
  await withDevice(async (device) => {
    const launches = additions(device, 1e6, 1), graph = device.graph(launches);
    for (let i = 0; i < 5; i++) graph.run();
    await sleep(300);
    assertEquals(elsewhere(device, () => graph.run(new Float64Array(1)), 50), 0);
    graph.dispose();
  });
});

/** Runs `f` on one core alone, to which threads that it makes are bound, too. */
async function onOneCore(f: () => Promise<void>): Promise<void> {
  const lib = Deno.dlopen("libc.so.6", {
    sched_getaffinity: { parameters: ["i32", "usize", "buffer"], result: "i32" },
    sched_setaffinity: { parameters: ["i32", "usize", "buffer"], result: "i32" },
    sched_getcpu: { parameters: [], result: "i32" },
  });
  try {
    const { sched_getaffinity, sched_setaffinity, sched_getcpu } = lib.symbols, all = new Uint8Array(128);
    assertEquals(sched_getaffinity(0, 128n, all), 0);
    const core = sched_getcpu(), one = new Uint8Array(128);
    one[core >> 3] = 1 << (core & 7);
    try {
      assertEquals(sched_setaffinity(0, 128n, one), 0);
      await f();
    } finally {
      assertEquals(sched_setaffinity(0, 128n, all), 0);
    }
  } finally {
    lib.close();
  }
}
// other systems do not say on which core a thread is
if (Deno.build.os === "linux") {
  test("threads on the core of their caller take nothing, and hold it up little", async () => {
    await onOneCore(() =>
      withDevice((device) => {
        const launches = additions(device, 1e6, 4), [{ buffers: [, a] }] = launches;
        assertEquals(elsewhere(device, () => device.run(launches), 50), 0);
        assertEquals(floats(a).every((x) => x === 200), true);
      })
    );
  });
}
