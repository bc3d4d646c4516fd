/**
 * What plans for loops do about memory: on random shapes, permutations and axes no kernel accesses single elements
 * where vectors lie side by side, and what is far apart is read in blocks.
 *
 * @module
 */
import assert from "node:assert/strict";
import { context, Tensor } from "../../../mod.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";
import { argOf, AxisKind } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import type { UOp } from "../../../src/uop/core/uop.ts";
import { Draw } from "../../fuzz/kernels.ts";
import { bufferAccesses } from "../../support/buffer_accesses.ts";
import { openObserving } from "../../support/snapshot_writers.ts";

/** Elements of buffers that are read or written alone in the loops of a program. */
function alone(program: LinearProgram): number {
  return bufferAccesses(program).reduce((n, { lanes, times }) => lanes === 1 ? n + times : n, 0);
}

/** Kernels of a graph of one tensor. */
function kernelsOf(writer: string, shape: readonly number[], graph: (x: Tensor) => Tensor): LinearProgram[] {
  const device = openObserving(writer);
  context({ NOOPT: 0 }, () => void graph(Tensor.empty(shape, { device: device.name })).realize());
  return device.kernels.map(({ program }) => program);
}

const OVER: Readonly<Record<string, (x: Tensor, axis: number) => Tensor>> = {
  sum: (x, axis) => x.sum(axis),
  "largest of exponentials": (x, axis) => x.exp().max(axis),
  argmax: (x, axis) => x.argmax(axis),
  variance: (x, axis) => x.var(axis),
  logsumexp: (x, axis) => x.logsumexp(axis),
  softmax: (x, axis) => x.softmax(axis),
};

for (const writer of ["CLANG", "WASM"]) {
  Deno.test(`loop plans: permutations move vectors on ${writer}`, () => {
    const d = new Draw(11, 2 ** 22);
    for (let n = 0; n < 12; n++) {
      const shape = Array.from({ length: 2 + d.below(3) }, () => d.pick([16, 17, 32, 50, 64, 96]));
      const order = shape.map((_, i) => i).sort(() => d.below(3) - 1);
      for (const p of kernelsOf(writer, shape, (x) => x.permute(order).mul(2).contiguous())) {
        assert.equal(alone(p), 0, `[${shape}] in order ${order}: ${p.opts}`);
      }
    }
  });

  for (const [name, over] of Object.entries(OVER)) {
    Deno.test(`loop plans: ${name} over outer axes reads vectors on ${writer}`, () => {
      const d = new Draw(7, 2 ** 22);
      for (let n = 0; n < 4; n++) {
        const shape = [d.pick([20, 512, 3000]), d.pick([40, 96, 130]), d.pick([64, 100, 257])], axis = d.below(2);
        for (const p of kernelsOf(writer, shape, (x) => over(x, axis))) {
          assert.equal(alone(p), 0, `[${shape}] over ${axis}: ${p.opts}`);
        }
      }
    });
  }
}

Deno.test("loop plans: a matrix is transposed in blocks, and columns are normalized without rows that are kept", () => {
  const [transposed] = kernelsOf("CLANG", [4096, 4096], (x) => x.transpose().contiguous());
  assert.match(transposed.opts!, /PADTO:0:\d+.*VECTOR/);
  const kernels = kernelsOf("CLANG", [4096, 1024], (x) => x.softmax(0));
  assert.ok(kernels.every(({ uops }) => uops.every((u) => u.op !== Ops.LOCAL)));
  // along rows it stays in the first cache
  assert.ok(kernelsOf("CLANG", [4096, 1024], (x) => x.softmax(1)).some((p) => p.uops.some((u) => u.op === Ops.LOCAL)));
});

Deno.test("loop plans: an axis of as many tiles as threads is cut in no chunks", () => {
  // a packed operand does not depend on the images, of which each thread would have one
  const [p] = kernelsOf("WASM", [8, 8, 14, 14], (x) => {
    return x.conv2d(Tensor.empty([16, 4, 5, 5], { device: x.device }), undefined, { padding: 2, groups: 2 });
  });
  assert.doesNotMatch(p.opts!, /PADTO:\d+:1\b/);
});

Deno.test("loop plans: the images of a thread's chunk follow each other, not pixel by pixel", () => {
  const [p] = kernelsOf("CLANG", [32, 3, 64, 64], (x) => {
    return x.conv2d(Tensor.empty([64, 3, 7, 7], { device: x.device }), undefined, { stride: 2, padding: 3 });
  });
  assert.match(p.opts!, /THREAD:0:\d+ STAGE/);
  const loops = p.uops.filter((u) => u.op === Ops.RANGE);
  const thread = loops.findIndex((u) => argOf(u, Ops.RANGE).kind === AxisKind.THREAD);
  // 4 images of 8 chunks, 32 rows, 32 columns in tiles of 4
  assert.deepEqual(loops.slice(thread, thread + 4).map((u) => u.src[0].value), [8, 4, 32, 8], p.opts);
});

Deno.test("loop plans: the weights of both of two convolutions that are added are packed", () => {
  const two = (x: Tensor, strided: Tensor): Tensor => {
    const [w, v] = [128, 256].map((n) => Tensor.empty([512, n, 1, 1], { device: x.device }));
    return x.conv2d(w).add(strided.conv2d(v, undefined, { stride: 2 })).relu();
  };
  const [p] = kernelsOf("CLANG", [4, 128, 28, 28], (x) => two(x, Tensor.empty([4, 256, 56, 56], { device: x.device })));
  assert.equal(p.opts?.match(/STAGE/g)?.length, 2, p.opts);
});

Deno.test("loop plans: rows whose vectors lie in two lines are packed where many tiles read them", () => {
  for (const [rows, inner, columns] of [[700, 1100, 900], [1000, 777, 333], [640, 900, 1001]]) {
    const [{ opts }] = kernelsOf(
      "CLANG",
      [rows, inner],
      (x) => x.matmul(Tensor.empty([inner, columns], { device: x.device })),
    );
    assert.match(opts!, /STAGE:2/, `${rows} x ${inner} x ${columns}: ${opts}`);
  }
});

Deno.test("loop plans: rows each in a page of its own are packed where many tiles read them, a line at a time", () => {
  const packs = (writer: string, [rows, inner, columns]: readonly number[]): boolean => {
    const [{ opts }] = kernelsOf(
      writer,
      [rows, inner],
      (x) => x.matmul(Tensor.empty([inner, columns], { device: x.device })),
    );
    return /STAGE:2/.test(opts!);
  };
  const far = [[256, 512, 1376], [196, 700, 3136], [320, 300, 880]];
  for (const shape of far) assert.ok(packs("CLANG", shape), `${shape} is not packed`);
  // few rows of x, few pages, and vectors of which several share a line
  for (const shape of [[8, 512, 1376], [256, 64, 1376], [256, 512, 144]]) assert.ok(!packs("CLANG", shape), `${shape}`);
  for (const shape of far) assert.ok(!packs("WASM", shape), `${shape} on WASM`);
});

Deno.test("loop plans: what a device has no vectors of gets no lanes", () => {
  const keys = ({ device }: Tensor): Tensor =>
    Tensor.empty([512, 512], { dtype: "int64", device }).mul(3).tril().contiguous();
  for (const [writer, lanes] of [["WASM", false], ["CLANG", true]] as const) {
    const p = kernelsOf(writer, [512, 512], keys).at(-1)!;
    assert.equal(p.opts?.includes("VECTOR"), lanes, `${writer}: ${p.opts}`);
  }
});

Deno.test("loop plans: many short rows are read whole and transposed, a lane each; long ones have the lanes", () => {
  for (
    const [rows, size, opts] of [
      [2000, 14, "VECTOR:0:16 UNROLL:0:4"],
      [2000, 15, "UPCAST:0:8 PADTO:1:16 VECTOR:1:16"],
      [2000, 24, "VECTOR:0:16 UNROLL:0:8"],
      [2000, 64, "UPCAST:0:8 VECTOR:1:16"],
      [3, 64, "VECTOR:1:16"],
      [2000, 4096, "VECTOR:1:16"],
    ] as const
  ) {
    const [p] = kernelsOf("CLANG", [rows, size], (x) => x.max(1));
    assert.ok(p.opts?.includes(opts), `${rows} ${size}: ${p.opts}`);
  }
});

Deno.test("loop plans: copies along what a window slides over share most of what they read", () => {
  const [p] = kernelsOf("WASM", [64, 16, 224], (x) => x.maxPool2d(2, { stride: 1 }));
  assert.match(p.opts ?? "", /UPCAST:1:8 UNROLL:1:2 UNROLL:0:2/);
});

Deno.test("loop plans: the triangle of a scan is one body, without comparisons in its loops", () => {
  for (const n of [4096, 8192, 20000]) {
    const [scan] = kernelsOf("CLANG", [64, n], (x) => x.cumsum(1)), open: UOp[] = [];
    let compares = 0;
    for (const u of scan.uops) {
      if (u.op === Ops.RANGE) open.push(u);
      else if (u.op === Ops.END) open.pop();
      else if (u.op === Ops.CMPLT && u.dtype.count > 1 && open.length > 2) compares++;
    }
    assert.equal(compares, 0, `${n}: ${scan.opts}`);
  }
});

for (
  const [name, shape, step, rest] of [
    ["by 3", [16, 4, 12, 96], 3, 0],
    ["by 2", [16, 4, 12, 64], 2, 0],
    ["over a row of one tile", [16, 4, 12, 64], 3, 1],
    ["over a row of seven vectors", [16, 4, 12, 112], 3, 1],
  ] as const
) {
  Deno.test(`loop plans: copies and lanes that are spread ${name} divide nothing in the loops of rows`, () => {
    const width = Math.floor(shape[3] / step), wide = width * step + rest;
    const [p] = kernelsOf("CLANG", [...shape.slice(0, 3), width], (x) => {
      const spread = x.unsqueeze(-1).pad([0, step - 1]).reshape([...shape.slice(0, 3), width * step]);
      return spread.pad([0, wide - width * step]).add(0.5).contiguous();
    });
    // places are constants: no memory between, no quotients
    assert.ok(p.uops.every(({ op }) => op !== Ops.LOCAL), p.opts);
    const isQuotient = ({ op }: UOp): boolean => [Ops.FLOORDIV, Ops.FLOORMOD, Ops.CDIV, Ops.CMOD].includes(op as never);
    assert.equal(p.uops.filter(isQuotient).length, 0, p.opts);
  });
}

Deno.test("loop plans: a transposed convolution has its channels in lanes, not what remainders find element by element", () => {
  const [kernel] = kernelsOf("WASM", [2, 32, 64, 64], (x) => {
    return x.convTranspose2d(Tensor.empty([32, 16, 3, 3], { device: x.device }), undefined, { stride: 2, padding: 1 });
  });
  assert.match(kernel.opts!, /VECTOR:1:4 /);
});
