/** The passes of scheduling: which run, in which order, and when a graph goes back. */
import { assert, assertEquals } from "@std/assert";
import { type CompiledKernel, context, Device, record, schedule, Tensor } from "../../mod.ts";
import { argOf } from "../../src/uop/core/args.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { toposort, type UOp } from "../../src/uop/core/uop.ts";

Device.default = "JS";

/** The outermost passes up to the one that plans memory, in the order in which they began. */
function passesOf(fn: () => void): string[] {
  const { passes } = context({ SCACHE: 0, SPEC: 1 }, () => record(fn));
  const kept = passes.filter((p) => p.name === "keep").flatMap((p) => p.changes.map((c) => c.rule));
  assert(kept.every((rule) => rule === "kept in memory of its own"));
  assertEquals(kept.length > 0, passes.some((p) => p.name === "keep"));
  const names = passes.filter((p) => p.depth === 0).map((p) => p.name);
  return names.slice(0, names.indexOf("plan memory") + 1);
}

const vector = (): Tensor => new Tensor([1, 2, 3, 4], { dtype: "float32" }).realize();
const ONCE = "fold, settle devices, own values, find roots, fuse, place, limit, rangeify, collapse, check reads, " +
  "merge outputs, order, order for memory, number, share kernels, plan memory";
const UP_TO = (last: string): string => ONCE.slice(0, ONCE.indexOf(last) + last.length);
const AGAIN = `keep, ${ONCE.slice(ONCE.indexOf("find roots"))}`;

Deno.test("passes: a graph takes each once, in the order of the list", () => {
  const x = vector();
  assertEquals(passesOf(() => x.mul(2).sum().realize()).join(", "), ONCE);
});

Deno.test("passes: two that swap what they hold are one kernel, and no pass runs again", async () => {
  const x = vector(), y = x.mul(10).realize();
  const swap = (): void => {
    const [a, b] = [x.add(0), y.add(0)];
    x.assign(b);
    y.assign(a);
    Tensor.realize([x, y]);
  };
  assertEquals(passesOf(swap).join(", "), ONCE);
  assertEquals([await x.tolist(), await y.tolist()], [[10, 20, 30, 40], [1, 2, 3, 4]]);
});

for (
  const [name, last, write, want] of [
    ["a write that reads itself elsewhere", "check reads", (x: Tensor) => [x.assign(x.flip(0))], [4, 3, 2, 1]],
    ["writes that read each other's old values elsewhere", "order", (x: Tensor, y: Tensor) => {
      const old = x.flip(0);
      x.assign(y.flip(0));
      return [x, y.assign(old)];
    }, [4, 3, 2, 1]],
    ["a kernel that reads two versions of a buffer", "limit", (x: Tensor) => {
      const old = x.flip(0);
      x.assign(x.mul(2));
      return [x, x.add(old)];
    }, [2, 4, 6, 8]],
  ] as const
) {
  Deno.test(`passes: ${name} goes back after "${last}", once`, async () => {
    const x = vector(), y = vector();
    assertEquals(passesOf(() => Tensor.realize(write(x, y))).join(", "), `${UP_TO(last)}, ${AGAIN}`);
    assertEquals(await x.tolist(), [...want]);
  });
}

Deno.test('passes: what is combined by key makes another graph, whose roots are looked for behind "fuse", once', async () => {
  const ids = Array.from({ length: 64 }, (_, i) => i * 7 % 32),
    values = Array.from({ length: 64 * 16 }, (_, i) => i % 5);
  const table = new Tensor(values, { dtype: "float32", requiresGrad: true }).reshape([64, 16]).realize();
  const [slope] = table.at(new Tensor(ids).realize()).sum().add(table.mul(table).sum()).gradient([table]);
  const want = values.map((v, i) => 2 * v + ids.filter((id) => id === i >> 4).length);
  assertEquals(
    passesOf(() => slope.realize()).join(", "),
    `${UP_TO("fuse")}, ${ONCE.slice(ONCE.indexOf("find roots"))}`,
  );
  assertEquals(await slope.reshape([-1]).tolist(), want);
});

for (const device of ["JS", "WASM"]) {
  Deno.test(`passes: rows of a kernel are left undecided by the scheduler on ${device}, and settled by code generation`, () => {
    const x = Tensor.empty([32, 32], { device }).realize(), [item] = schedule([x.matmul(x).softmax(1)]).slice(-1);
    const scopesOf = (roots: UOp | readonly UOp[]): unknown[] =>
      toposort(roots).flatMap((u) =>
        u.op === Ops.STAGE ? [argOf(u, Ops.STAGE).scope] : u.op === Ops.LOCAL ? [argOf(u, Ops.LOCAL).scope] : []
      );
    assertEquals(new Set(scopesOf(item.ast!)), new Set(["undecided"]));
    assertEquals(new Set(scopesOf((item.runner as CompiledKernel).program.linear.uops)), new Set(["thread"]));
  });
}
