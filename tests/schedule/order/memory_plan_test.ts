/** The memory planner: nothing that is in use together overlaps, plans come close to the bound, values do not change. */
import { assert, assertEquals } from "@std/assert";
import { planOf } from "../../../bench/memory.ts";
import { context, Device, dtypes, jit, Tensor } from "../../../mod.ts";
import type { MemoryLayout } from "../../../src/device/allocator.ts";
import { type MemoryPlan, planMemory, type Plannable } from "../../../src/schedule/order/memory_plan.ts";
import { Random } from "../../support/random.ts";

const LAYOUT: MemoryLayout = { viewAlign: 256, arenas: true, maxBytes: Infinity };
const ALIGN = 256;

type Use = readonly [bytes: number, first: number, last: number, device?: string];

/** A template whose temporaries are in use as given. */
function template(uses: readonly Use[]): Plannable {
  const steps = Math.max(0, ...uses.map((u) => u[2] + 1));
  return {
    entries: uses.map(([size, , , device = "A"]) => (
      { device, dtype: dtypes.uint8, size, slot: undefined, kept: false, view: undefined }
    )),
    items: Array.from({ length: steps }, (_, i) => ({
      entries: uses.flatMap(([, first, last], e) => i === first || i === last ? [e] : []),
    })),
  };
}

/** Checks a plan, and gives the bytes of its blocks. */
function check(uses: readonly Use[], plan: MemoryPlan): number {
  const parts = uses.map(([bytes, first, last, device = "A"], e) => {
    const place = plan.places[e]!, block = plan.blocks[place.block];
    assertEquals([place.offset % ALIGN, block.device], [0, device]);
    assert(place.offset + bytes <= block.nbytes, `entry ${e} leaves its block`);
    return { ...place, bytes, first, last };
  });
  parts.forEach((a, i) =>
    parts.slice(i + 1).forEach((b, j) => {
      if (a.block !== b.block || a.last < b.first || b.last < a.first) return;
      const apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      assert(apart, `entries ${i} and ${i + 1 + j} overlap`);
    })
  );
  return plan.blocks.reduce((n, b) => n + b.nbytes, 0);
}

function randomUses(seed: number, count: number): Use[] {
  const random = new Random(seed), below = (n: number): number => random.below(n);
  return Array.from({ length: count }, (): Use => {
    const first = below(count);
    return [1 + below(below(2) === 0 ? 600 : 20_000), first, first + below(below(4) === 0 ? count : 4)];
  });
}

for (let seed = 1; seed <= 20; seed++) {
  Deno.test(`memory: random lifetimes, seed ${seed}`, () => {
    const uses = randomUses(seed, 60), plan = planMemory(template(uses), () => LAYOUT);
    const planned = check(uses, plan);
    assert(planned >= plan.boundBytes && planned <= plan.boundBytes * 1.25, `${planned} of ${plan.boundBytes}`);
    assertEquals(plan.blocks.length, 1);
    assertEquals(planMemory(template(uses), () => LAYOUT), plan);
    const separate = planMemory(template(uses), () => ({ ...LAYOUT, arenas: false }));
    check(uses, separate);
    assert(separate.places.every((p) => p!.offset === 0));
    const limited = planMemory(template(uses), () => ({ ...LAYOUT, maxBytes: 40_960 }));
    check(uses, limited);
    assert(limited.blocks.every((b) => b.nbytes <= 40_960));
    const alone = context({ NO_MEMORY_PLANNER: 1 }, () => planMemory(template(uses), () => LAYOUT));
    assertEquals([alone.blocks.length, alone.boundBytes], [uses.length, plan.boundBytes]);
  });
}

const CASES: [name: string, uses: Use[], want: number[]][] = [
  ["one after another", [[1000, 0, 0], [1000, 1, 1], [300, 2, 2]], [1024]],
  ["a step's input and output are apart", [[1000, 0, 1], [1000, 1, 2], [1000, 2, 3]], [2048]],
  ["two small ones in the place of a large one", [[1024, 0, 1], [512, 2, 3], [512, 2, 3]], [1024]],
  ["a block for each device", [[256, 0, 1], [256, 0, 1, "B"], [256, 2, 3]], [256, 256]],
  ["none", [], []],
];
for (const [name, uses, want] of CASES) {
  Deno.test(`memory: ${name}`, () => {
    const plan = planMemory(template(uses), () => LAYOUT);
    check(uses, plan);
    assertEquals(plan.blocks.map((b) => b.nbytes), want);
  });
}

Deno.test("memory: a block of its own for what is larger than blocks may be", () => {
  const uses: Use[] = [[1000, 0, 1], [5000, 0, 1]];
  const { blocks } = planMemory(template(uses), () => ({ ...LAYOUT, maxBytes: 2048 }));
  assertEquals(blocks.map((b) => b.nbytes), [5120, 1024]);
});

for (const name of ["resnet50", "mnistStep", "gpt2"]) {
  Deno.test(`memory: the plan of ${name} is within 10 % of the bound`, () => {
    const { planned, bound, unplanned } = planOf(name);
    assert(planned <= bound * 1.1 && bound < unplanned, `${planned} planned, ${bound} bound, ${unplanned} unplanned`);
    const alone = context({ NO_MEMORY_PLANNER: 1 }, () => planOf(name));
    assert(alone.planned >= alone.unplanned && alone.blocks === alone.intermediates);
  });
}

for (const device of ["JS", "WASM"]) {
  Deno.test(`memory ${device}: values are the same with and without the planner, and under jit`, async () => {
    const values = (shape: number[], k: number): Tensor =>
      Tensor.arange(shape[0] * shape[1]).mul(k).mod(13).sub(6).cast("float32").reshape(shape).to(device).realize();
    const x = values([16, 24], 7), ws = [values([24, 24], 5), values([24, 24], 3), values([24, 24], 11)];
    const net = (x: Tensor): Tensor => {
      let h = x;
      for (const w of ws) h = h.matmul(w).contiguous().relu().add(h).div(8);
      return h.softmax(1).mul(h.sum(0, { keepdim: true }));
    };
    const planned = await net(x).tolist();
    assertEquals(await context({ NO_MEMORY_PLANNER: 1 }, () => net(x).tolist()), planned);
    const { layout } = Device.get(device).allocator;
    Object.assign(layout, { arenas: false });
    try {
      assertEquals(await context({ SCACHE: 0 }, () => net(x).tolist()), planned);
    } finally {
      Object.assign(layout, { arenas: true });
    }
    const f = jit(net);
    for (let i = 0; i < 3; i++) assertEquals(await f(x).tolist(), planned);
  });
}
