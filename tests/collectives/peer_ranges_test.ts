/**
 * Collectives between devices that reach each other and whose memory the host does not see, as cards: the bits of the host's
 * engine, in all orders, dtypes and sizes, and nothing that goes through the host.
 */
import assert from "node:assert/strict";
import { jsBackend } from "../../backends/js/js.ts";
import { Device, jit, nn, state, Tensor } from "../../mod.ts";
import type { Collective, ReduceOp } from "../../src/collectives/communicator.ts";
import { LocalCommunicator } from "../../src/collectives/local.ts";
import { movePeers } from "../../src/collectives/peer_ranges.ts";
import { type Allocator, type Block, LruAllocator } from "../../src/device/allocator.ts";
import { Buffer } from "../../src/device/buffer.ts";
import { getDevice, registerBackend } from "../../src/device/device.ts";
import { Mesh } from "../../src/dist/dist.ts";
import { truncateTo, writeScalar } from "../../src/dtype/convert.ts";
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { reduceRanges } from "../../src/engine/collective.ts";
import { context } from "../../src/helpers/env.ts";
import { Random } from "../support/random.ts";

/** Bytes that went through the host, and copies between two devices. */
const moved = { hostBytes: 0, copies: 0 };

/** Memory of a JS device that the host reads and writes by copies alone. */
class FarAllocator implements Allocator {
  readonly layout: Allocator["layout"];
  constructor(private readonly inner: Allocator) {
    this.layout = inner.layout;
  }
  alloc(nbytes: number): Block {
    return this.inner.alloc(nbytes);
  }
  free(block: Block, nbytes: number): void {
    this.inner.free(block, nbytes);
  }
  copyIn(block: Block, offset: number, src: Uint8Array): void {
    moved.hostBytes += src.byteLength;
    this.inner.copyIn(block, offset, src);
  }
  copyOut(dst: Uint8Array, block: Block, offset: number): void {
    moved.hostBytes += dst.byteLength;
    this.inner.copyOut!(dst, block, offset);
  }
  transfer(dst: Block, dstOffset: number, src: Block, srcOffset: number, nbytes: number, from?: Allocator): void {
    if (from !== undefined) moved.copies++;
    this.inner.transfer!(dst, dstOffset, src, srcOffset, nbytes);
  }
  peer(other: Allocator): boolean {
    return other instanceof FarAllocator;
  }
}
registerBackend({
  name: "FAR",
  description: "JS devices as cards are",
  permissions: [],
  unavailable: () => undefined,
  open(ordinal) {
    const own = jsBackend.open(ordinal), name = ordinal === 0 ? "FAR" : `FAR:${ordinal}`;
    const allocator = new LruAllocator(name, new FarAllocator(own.allocator.inner));
    return {
      name,
      renderer: own.renderer,
      compiler: own.compiler,
      allocator,
      run: (launches) => own.run(launches),
      graph: (launches) => own.graph(launches),
      synchronize: () => own.synchronize(),
      info: () => own.info(),
      close: () => own.close(),
    };
  },
});
Device.default = "JS";

function names(base: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => i === 0 ? base : `${base}:${i}`);
}
/** What each rank has of `rows` after a collective on devices of `base`. */
function after(
  base: string,
  collective: Collective,
  rows: readonly Uint8Array[],
  size: number,
  dtype: DType,
  isInPlace = false,
): string[] {
  const devices = names(base, rows.length).map(getDevice), local = new LocalCommunicator(rows.length, reduceRanges);
  const from = devices.map((d, i) => new Buffer(d, dtype, rows[i].length / dtype.itemsize).copyIn(rows[i]));
  const to = isInPlace ? from : devices.map((d) => new Buffer(d, dtype, size));
  moved.hostBytes = moved.copies = 0;
  local.start(collective, from, to).wait();
  if (base === "FAR") assert.equal(moved.hostBytes, 0, "nothing goes through the host");
  return to.map((b) => b.copyOut(new Uint8Array(b.nbytes)).toHex());
}
/** Elements of a dtype, the same in each run. */
function elements(n: number, dtype: DType, seed: number): Uint8Array {
  const random = new Random(seed + 1), bytes = new Uint8Array(n * dtype.itemsize), view = new DataView(bytes.buffer);
  for (let i = 0; i < n; i++) {
    const x = random.below(8001) / 1000 - 4, whole = dtype.isBool ? random.below(2) : random.below(7);
    const value = dtype.isFloat ? truncateTo(dtype, x) : dtype === dtypes.int64 ? BigInt(whole) : whole;
    writeScalar(view, i * dtype.itemsize, dtype, value);
  }
  return bytes;
}

const ORDERS = [{ RING: 0 }, { RING: 2 }, { ALL2ALL: 2 }] as const,
  OPS: readonly ReduceOp[] = ["sum", "prod", "max", "min"];
for (const name of ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"] as const) {
  Deno.test(`peers: reductions of ${name} have the bits of the host's engine, in all orders`, () => {
    const dtype = dtypes[name];
    for (const ranks of [2, 3]) {
      for (const op of OPS) {
        for (const size of [1, 37]) {
          for (const values of ORDERS) {
            const rows = Array.from({ length: ranks }, (_, r) => elements(size * ranks, dtype, 7 * size + r));
            const what = `${op} of ${size} by ${ranks}, ${JSON.stringify(values)}`;
            const both = (collective: Collective, n: number, isInPlace = false): void =>
              context(values, () => {
                const want = after("JS", collective, rows, n, dtype);
                assert.deepEqual(after("FAR", collective, rows, n, dtype, isInPlace), want, what);
              });
            both({ kind: "allReduce", op }, size * ranks);
            both({ kind: "allReduce", op }, size * ranks, true);
            both({ kind: "reduceScatter", op }, size);
          }
        }
      }
    }
  });
}

Deno.test("peers: what is no number is the largest, and the smallest", () => {
  const rows = [[1, NaN, 2, NaN], [NaN, 1, 3, NaN]].map((row) => new Uint8Array(Float32Array.from(row).buffer));
  for (const [op, third] of [["max", 3], ["min", 2]] as const) {
    const [hex] = after("FAR", { kind: "allReduce", op }, rows, 4, dtypes.float32);
    assert.deepEqual([...new Float32Array(Uint8Array.fromHex(hex).buffer)], [NaN, NaN, third, NaN]);
  }
});

const MOVES: readonly (readonly [Collective, from: number, to: number, copies: number])[] = [
  [{ kind: "allGather" }, 5, 15, 6],
  [{ kind: "allToAll" }, 6, 6, 6],
  [{ kind: "broadcast", root: 1 }, 5, 5, 2],
  [{ kind: "permute", pairs: [[0, 1], [1, 2], [2, 0]] }, 5, 5, 3],
];
for (const [collective, from, to, copies] of MOVES) {
  Deno.test(`peers: ${collective.kind} copies from device to device`, () => {
    const rows = [0, 1, 2].map((r) => elements(from, dtypes.float32, r));
    const want = after("JS", collective, rows, to, dtypes.float32);
    assert.deepEqual(after("FAR", collective, rows, to, dtypes.float32), want);
    assert.equal(moved.copies, copies);
  });
}

Deno.test("peers: large ranges go piece by piece, parts of a ring by the rank that has them last", () => {
  const size = 1000, f32 = dtypes.float32, sum: Collective = { kind: "allReduce", op: "sum" };
  const rows = [0, 1, 2].map((r) => elements(size, f32, r)), devices = names("FAR", 3).map(getDevice);
  for (const values of ORDERS) {
    context(values, () => {
      const want = after("JS", sum, rows, size, f32),
        to = devices.map((d, i) => new Buffer(d, f32, size).copyIn(rows[i]));
      moved.copies = 0;
      movePeers(sum, to, to, reduceRanges, 1024);
      assert.deepEqual(to.map((b) => b.copyOut(new Uint8Array(b.nbytes)).toHex()), want);
      // four pieces that three ranks get from two others; or parts in two pieces, from two others and to them
      assert.equal(moved.copies, 24);
    });
  }
});

Deno.test("peers: a mesh of such devices trains as one of JS devices, captured too", async () => {
  const losses = async (base: string): Promise<number[]> => {
    Tensor.manualSeed(5);
    const mesh = Mesh.of({ data: 2, model: 2 }, { devices: names(base, 4) as never }), model = new nn.Linear(6, 4);
    const x = Tensor.randn([8, 6]).realize(), y = Tensor.randint([8], { low: 0, high: 4 }).realize();
    state.place(model, mesh, { shard: "data" });
    const optimizer = new nn.optim.Adam(state.getParameters(model), { lr: 0.05 }), out: number[] = [];
    const step = jit((x: Tensor, y: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = model.call(x).crossEntropy(y).backward();
        Tensor.realize([loss, ...optimizer.scheduleStep()]);
        return loss;
      })
    );
    const shares = [x.shard(mesh, ["data", null]).realize(), y.shard(mesh, ["data"]).realize()] as const;
    for (let i = 0; i < 6; i++) {
      moved.hostBytes = 0;
      const loss = step(...shares);
      if (i > 2) assert.equal(moved.hostBytes, 0, "nothing goes through the host");
      out.push(await loss.item());
    }
    return out;
  };
  assert.deepEqual(await losses("FAR"), await losses("JS"));
});
