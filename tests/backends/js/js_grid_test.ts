import { assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "../../../src/device/buffer.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { SpecError } from "../../../src/helpers/errors.ts";
import { programOf } from "../../../src/renderer/renderer.ts";
import {
  elementsOf,
  type Fragment,
  MMA_BF16,
  MMA_F16,
  MMA_INT8,
  MMA_TF32,
  positionIn,
  type TensorCore,
} from "../../../src/renderer/tensor_core_table.ts";
import { LocalArg } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { constant, index, int, load, param, sink, store, toposort, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { makeSimDevice } from "../../fixtures/sim.ts";

const device = makeSimDevice();
const f32 = dtypes.float32;
const special = (name: string, n: number): UOp => uop(Ops.SPECIAL, dtypes.int32, [int(n)], name);
const shared = (d: DType, n: number, id = 0): UOp => uop(Ops.LOCAL, d, [], new LocalArg(id, n, "shared"));
const barrier = (...before: UOp[]): UOp => uop(Ops.BARRIER, dtypes.void, before);
const after = (x: UOp, ...deps: UOp[]): UOp => uop(Ops.AFTER, x.dtype, [x, ...deps]);

/** Runs a program of one output; inputs and output as typed arrays. */
function run(root: UOp, out: ArrayBufferView, dtype: DType, inputs: readonly (readonly [DType, ArrayBufferView])[]) {
  const [program] = device.compiler.compile([programOf("test", toposort(root))]);
  const bytes = (v: ArrayBufferView) => new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
  const buffers = [[dtype, out] as const, ...inputs].map(([d, v]) =>
    new Buffer(device, d, v.byteLength / d.itemsize).copyIn(bytes(v))
  );
  try {
    device.run([{ program, buffers, vars: [] }]);
    buffers[0].copyOut(bytes(out));
  } finally {
    buffers.forEach((b) => b.free());
  }
}

Deno.test("grid: a warp sums its lanes by shuffles, in every group", () => {
  const g = special("gidx0", 3), l = special("lidx0", 32), at = g.mul(32).add(l);
  let sum = load(index(param(1, f32, 96), at));
  for (const mask of [16, 8, 4, 2, 1]) sum = sum.add(uop(Ops.SHUFFLE, f32, [sum], mask));
  const out = new Float32Array(96);
  run(store(index(param(0, f32, 96), at), sum), out, f32, [[f32, Float32Array.from({ length: 96 }, (_, i) => i)]]);
  assertEquals([out[0], out[31], out[32], out[95]], [496, 496, 1520, 2544]);
});

function reversed(withBarrier: boolean): UOp {
  const l = special("lidx0", 64), local = shared(f32, 64);
  const write = store(index(local, l), load(index(param(1, f32, 64), l)));
  const seen = after(local, withBarrier ? barrier(write) : write);
  return store(index(param(0, f32, 64), l), load(index(seen, constant(63, dtypes.int32).add(l.mul(-1)))));
}
const countUp = Float32Array.from({ length: 64 }, (_, i) => i);

Deno.test("grid: shared memory is seen after a barrier", () => {
  const out = new Float32Array(64);
  run(reversed(true), out, f32, [[f32, countUp]]);
  assertEquals(out, countUp.toReversed());
});

Deno.test("grid: shared memory without a barrier is refused", () => {
  assertThrows(() => run(reversed(false), new Float32Array(64), f32, [[f32, countUp]]), SpecError);
});

Deno.test("grid: a barrier that only some threads reach is refused", () => {
  const l = special("lidx0", 64), local = shared(f32, 64);
  const write = store(index(local, l), load(index(param(1, f32, 64), l)));
  const cond = l.lt(16), open = uop(Ops.IF, dtypes.void, [cond]);
  const wait = barrier(write), read = load(index(after(local, wait), l));
  const put = store(index(param(0, f32, 64), l), read);
  const list = toposort(sink([put])).filter((u) => u.op !== Ops.SINK);
  list.splice(list.indexOf(wait), 0, cond, open);
  const ordered = [...new Set([...list, uop(Ops.ENDIF, dtypes.void, [open])])];
  const [program] = device.compiler.compile([programOf("some", ordered)]);
  const buffers = [0, 1].map(() => new Buffer(device, f32, 64));
  assertThrows(() => device.run([{ program, buffers, vars: [] }]), SpecError, "part in the program");
  buffers.forEach((b) => b.free());
});

function copied(wait: number): UOp {
  const l = special("lidx0", 16), local = shared(f32, 64), at = index(local, l.mul(4));
  const copy = uop(Ops.ASYNC_COPY, dtypes.void, [at, index(param(1, f32, 64), l.mul(4)), l.lt(15)], 16);
  const commit = uop(Ops.ASYNC_COMMIT, dtypes.void, [copy]);
  const done = barrier(uop(Ops.ASYNC_WAIT, dtypes.void, [commit], wait));
  const four = uop(Ops.LOAD, f32.vec(4), [index(after(local, done), l.mul(4))]);
  return store(index(param(0, f32, 64), l.mul(4)), four);
}

Deno.test("grid: asynchronous copies are there after a wait, zero where the gate is false", () => {
  const out = new Float32Array(64);
  run(copied(0), out, f32, [[f32, countUp]]);
  assertEquals(out, countUp.map((x) => x < 60 ? x : 0));
});

Deno.test("grid: asynchronous copies are not there without", () => {
  const out = new Float32Array(64);
  run(copied(1), out, f32, [[f32, countUp]]);
  assertEquals(out.some((x, i) => i > 0 && i < 60 && x === i), false);
});

/** The thread's elements of a tile that is stored in rows of `columns`. */
function fragment(p: UOp, f: Fragment, lane: UOp, columns: number): UOp {
  const parts = Array.from({ length: elementsOf(f) }, (_, e) => {
    const [row, column] = positionIn(f, 0, e);
    let at: UOp = int(row * columns + column);
    f.lane.forEach(([r, c], bit) => {
      const b = lane.alu(Ops.SHR, int(bit)).alu(Ops.AND, int(1));
      at = at.add(b.mul(r * columns + c));
    });
    return p.op === Ops.INDEX ? p : load(index(p, at));
  });
  return uop(Ops.VECTORIZE, p.dtype.vec(parts.length), parts);
}

for (const core of [MMA_F16, MMA_BF16, MMA_TF32, MMA_INT8] as TensorCore[]) {
  Deno.test(`grid: ${core} is a product of tiles`, () => {
    const { m, n, k } = core, lane = special("lidx0", 32);
    const small = (i: number): number => (i * 7) % 13 - 6;
    const array = (d: DType, size: number) => {
      const values = Array.from({ length: size }, (_, i) => small(i));
      if (d === dtypes.float16) return Float16Array.from(values);
      if (d === dtypes.int8) return Int8Array.from(values);
      if (d === dtypes.float32) return Float32Array.from(values);
      return Uint16Array.from(values, (x) => new Uint32Array(Float32Array.of(x).buffer)[0] >>> 16);
    };
    const a = fragment(param(1, core.input, m * k), core.a, lane, k);
    const b = fragment(param(2, core.input, k * n), core.b, lane, n);
    const zero = constant(0, core.output.vec(elementsOf(core.c)));
    const c = uop(Ops.WMMA, core.output.vec(elementsOf(core.c)), [a, b, zero], core);
    const stores = Array.from({ length: elementsOf(core.c) }, (_, e) => {
      const [row, column] = positionIn(core.c, 0, e);
      let at: UOp = int(row * n + column);
      core.c.lane.forEach(([r, cc], bit) => {
        at = at.add(lane.alu(Ops.SHR, int(bit)).alu(Ops.AND, int(1)).mul(r * n + cc));
      });
      return store(index(param(0, core.output, m * n), at), uop(Ops.EXTRACT, core.output, [c], e));
    });
    const out = core.output === f32 ? new Float32Array(m * n) : new Int32Array(m * n);
    run(sink(stores), out, core.output, [[core.input, array(core.input, m * k)], [
      core.input,
      array(core.input, k * n),
    ]]);
    const expected = Array.from({ length: m * n }, (_, i) => {
      let s = 0;
      for (let x = 0; x < k; x++) s += small(Math.floor(i / n) * k + x) * small(x * n + i % n);
      return s;
    });
    assertEquals([...out], expected);
  });
}

Deno.test("grid: LDMATRIX gives fragments of A as they are, of B transposed", () => {
  const lane = special("lidx0", 32), h = dtypes.float16, local = shared(h, 256);
  const fill = Array.from({ length: 8 }, (_, i) => {
    const at = lane.mul(8).add(i);
    return store(index(local, at), load(index(param(1, h, 256), at)));
  });
  // rows of 16: lanes 0-15 address the left half, the others the right one
  const row = lane.alu(Ops.AND, int(15)).mul(16).add(lane.alu(Ops.SHR, int(4)).mul(8));
  const m = uop(Ops.LDMATRIX, h.vec(8), [index(after(local, barrier(...fill)), row)], "");
  const out = new Float16Array(256);
  const values = Float16Array.from({ length: 256 }, (_, i) => i);
  run(store(index(param(0, h, 256), lane.mul(8)), m), out, h, [[h, values]]);
  for (let l = 0; l < 32; l++) {
    for (let e = 0; e < 8; e++) {
      const [r, c] = positionIn(MMA_F16.a, l, e);
      assertEquals(out[l * 8 + e], r * 16 + c);
    }
  }
});
