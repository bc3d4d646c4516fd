/** Views that are told to lie apart, against their places; late reads of what nobody has overwritten, against an eager program. */
import assert from "node:assert/strict";
import { jit, StaleReadError, Tensor } from "../../../mod.ts";
import { isApart } from "../../../src/uop/graph/untouched.ts";
import { nodeView, type View } from "../../../src/uop/graph/view.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { onDevice } from "../../support/on_device.ts";
import { Random } from "../../support/random.ts";

type Slice = readonly [start: number, stop: number, step: number];

/** A part of each axis, by steps of 1 where `plain`. */
function partsOf(random: Random, shape: readonly number[], plain: boolean): Slice[] {
  return shape.map((n) => {
    const start = random.below(n), stop = random.int(start + 1, n);
    return [start, stop, plain ? 1 : random.pick([1, 1, 2, 3])];
  });
}

/** The places that parts of all axes are, row-major. */
function placesOf(shape: readonly number[], parts: readonly Slice[]): number[] {
  let places = [0];
  shape.forEach((n, axis) => {
    const [start, stop, step] = parts[axis], along: number[] = [];
    for (let i = start; i < stop; i += step) along.push(i);
    places = places.flatMap((at) => along.map((i) => at * n + i));
  });
  return places;
}

Deno.test("untouched: views that are told to be apart share no element, and boxes that share none are told to", () => {
  const random = new Random(7);
  const counts = { apart: 0, together: 0, unknown: 0 };
  for (let i = 0; i < 3000; i++) {
    const shape = Array.from({ length: random.int(1, 3) }, () => random.int(1, 7)), plain = random.below(2) === 0;
    const a = partsOf(random, shape, plain), b = partsOf(random, shape, plain), all = Tensor.zeros(shape).contiguous();
    const viewed = (parts: Slice[]): View => {
      const t = all.at(...parts), axes = shape.map((_, axis) => axis).reverse();
      return nodeView(random.pick([t, t.flip(0), t.permute(axes)]).uop).view!;
    };
    const other = new Set(placesOf(shape, b)), shares = placesOf(shape, a).some((at) => other.has(at));
    const told = isApart(viewed(a), viewed(b)), text = `${shape}: ${JSON.stringify(a)} and ${JSON.stringify(b)}`;
    if (told || plain) assert.equal(told, !shares, text);
    counts[told ? "apart" : shares ? "together" : "unknown"]++;
  }
  assert.ok(counts.apart > 500 && counts.together > 500 && counts.unknown < 300, JSON.stringify(counts));
});

for (const device of await devicesHere()) {
  Deno.test(`untouched ${device}: late reads give what was there, or say that it was overwritten`, () =>
    onDevice(device, async () => {
      const random = new Random(device.length), counts = { read: 0, refused: 0 };
      for (let i = 0; i < (device === "JS" || device === "WASM" ? 40 : 6); i++) {
        const shape = [random.int(2, 5), random.int(2, 6)], size = shape[0] * shape[1];
        const now = Array.from({ length: size }, (_, k) => k), a = new Tensor(now).reshape(shape).realize();
        const late: { t: Tensor; want: number[]; left: Set<number>; lost: boolean }[] = [];
        for (let step = 0; step < 6; step++) {
          const parts = partsOf(random, shape, true), places = placesOf(shape, parts);
          if (step % 3 < 2) {
            const of = a.at(...parts),
              t = random.pick([of.mul(2), of.flip(0).flip(0).mul(2), of.pad([[1, 1], [0, 0]]).mul(2).at([1, -1])]);
            late.push({ t, want: places.map((p) => now[p] * 2), left: new Set(places), lost: false });
            continue;
          }
          const value = 100 + 10 * i + step;
          if (random.below(2) === 0) a.setAt(parts, value);
          else {a.at(...parts).permute([1, 0]).assign(
              Tensor.full([1, 1], value).expand([...a.at(...parts).shape].reverse()),
            );}
          a.realize();
          for (const p of places) {
            now[p] = value;
            for (const l of late) l.lost ||= l.left.has(p);
          }
        }
        for (const { t, want, lost } of late) {
          if (lost) await assert.rejects(() => t.tolist(), StaleReadError);
          else assert.deepEqual(await t.flatten().tolist(), want);
          counts[lost ? "refused" : "read"]++;
        }
        assert.deepEqual(await a.flatten().tolist(), now);
      }
      assert.ok(counts.read > 5 && counts.refused > 5, JSON.stringify(counts));
    }));
}

Deno.test("untouched: what replays have written is not known, and refused, as what whole writes have", async () => {
  const make = (): Tensor => new Tensor([1, 2, 3, 4], { dtype: "float32", device: "JS" }).realize();
  const step = jit((x: Tensor) => (x.setAt([3], 9), x.sum()));
  const a = make();
  for (let i = 0; i < 3; i++) step(a);
  const before = a.at([0, 2]).mul(2);
  step(a);
  await assert.rejects(() => before.tolist(), StaleReadError);
  const b = make(), early = b.at([0, 2]).mul(2);
  b.at([2, 4]).bitcast("int32").assign(new Tensor([0, 0], { device: "JS" })).realize();
  assert.deepEqual([await early.tolist(), await b.tolist()], [[2, 4], [1, 2, 0, 0]]);
  const c = make(), first = c.at([0, 2]).mul(2);
  c.setAt([3], 7);
  c.realize();
  c.assign(c.add(1)).realize();
  await assert.rejects(() => first.tolist(), StaleReadError);
  const d = make(), [p, q] = d.chunk(2), sum = q.sum(), both = p.add(q);
  p.assign(p.mul(10)).realize();
  assert.equal(await sum.item(), 7);
  await assert.rejects(() => both.tolist(), StaleReadError);
  // what is written together with it is read before
  const e = make(), tail = e.at([2, 4]).mul(1);
  e.setAt([0], 5);
  e.realize();
  e.setAt([2], 6);
  Tensor.realize([e, tail]);
  assert.deepEqual([await e.tolist(), await tail.tolist()], [[5, 2, 6, 4], [3, 4]]);
});

for (const device of ["JS", "WASM"]) {
  Deno.test(`untouched ${device}: what captured functions close over is read as long as nobody has written there`, () =>
    onDevice(device, async () => {
      const f32 = (x: number[]): Tensor => new Tensor(x, { dtype: "float32" }).realize();
      const a = f32([1, 2, 3, 4]), late = a.at([0, 2]).mul(10), f = jit((x: Tensor) => x.add(late));
      for (let i = 0; i < 4; i++) {
        a.setAt([3], i);
        a.realize();
        assert.deepEqual(await f(f32([i, 0])).tolist(), [10 + i, 20]);
      }
      for (let i = 0; i < 4; i++) assert.deepEqual(await f(f32([i, 0])).tolist(), [10 + i, 20]);
      a.setAt([0], -1);
      a.realize();
      await assert.rejects(async () => await f(f32([0, 0])).tolist(), StaleReadError);
      // and where the function itself writes beside it; which parts replays write is not known, and what reads others is refused
      const b = f32([1, 2, 3, 4]), other = b.at([0, 2]).mul(10);
      b.setAt([3], 0);
      b.realize();
      const g = jit((x: Tensor) => (b.setAt([[2, 4]], x), other.add(x)));
      for (let i = 0; i < 5; i++) {
        const now = f32([i, i]);
        if (i < 3) assert.deepEqual(await g(now).tolist(), [10 + i, 20 + i]);
        else assert.throws(() => g(now), StaleReadError);
        assert.deepEqual(await b.tolist(), [1, 2, i, i]);
      }
    }));
}
