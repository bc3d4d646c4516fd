/** Which reads the processor is told of ahead: those of large buffers that are read once and in order, in sums. */
import { assertEquals } from "@std/assert";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { C_LANGUAGE, vectorCaps } from "../../../src/renderer/c/c.ts";
import { CStyleRenderer } from "../../../src/renderer/c/cstyle.ts";
import { readsInOrder } from "../../../src/renderer/c/read_ahead.ts";
import { argOf, AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { baseOf } from "../../../src/uop/rewrite/walk.ts";
import { addKernel, matmulKernel } from "../../fixtures/kernels.ts";
import { optimized } from "../../fixtures/optimized.ts";

const caps = { ...vectorCaps(64, false), registers: 32, threads: 2, l1: 32768, l2: 1 << 20, hasMulAcc: true };
const renderer = new CStyleRenderer(C_LANGUAGE, caps), f32 = dtypes.float32;

/** out[i] = sum over k of an element of slot 1 times x[k], x in slot 2. */
function product(rows: number, n: number, element: (i: UOp, k: UOp) => UOp): UOp {
  const i = range(rows, 0, AxisKind.LOOP), k = range(n, 1, AxisKind.REDUCE);
  const sum = reduce(opCarrier(Ops.ADD, f32), [element(i, k).mul(load(index(param(2, f32, n), k)))], [k]);
  return sink([store(index(param(0, f32, rows), i), sum)]);
}
function rowMajor(rows: number, n: number): UOp {
  return product(rows, n, (i, k) => load(index(param(1, f32, rows * n), i.mul(n).add(k))));
}
/** Two numbers of 4 bits to a byte, the low ones of 16 bytes first. */
function nibbles(rows: number, n: number): UOp {
  return product(rows, n, (i, k) => {
    const at = i.mul(n / 2).add(k.floorDiv(32).mul(16)).add(k.floorMod(16));
    const byte = load(index(param(1, dtypes.uint8, rows * n / 2), at)).cast(dtypes.int32);
    return byte.shr(k.floorDiv(16).floorMod(2).mul(4)).and(15).cast(f32);
  });
}

for (
  const [name, ast, want] of [
    ["the matrix of a product with a vector, not the vector", rowMajor(512, 512), [1]],
    ["bytes that are read twice in a row, for each half", nibbles(512, 1024), [1]],
    [
      "columns of a matrix: rows lie far apart",
      product(512, 512, (i, k) => load(index(param(1, f32, 1 << 18), k.mul(512).add(i)))),
      [],
    ],
    ["a small matrix, which is in a cache", rowMajor(16, 512), []],
    ["matrices of a product, which are read again and again", matmulKernel(256, 256, 256).ast, []],
    ["what is not added up", addKernel(1 << 20).ast, []],
  ] as const
) {
  Deno.test(
    `read ahead: ${name}`,
    optimized(() => {
      const program = toProgram(ast, renderer), source = renderer.render(program) as string;
      const slots = [...readsInOrder(program).keys()].map((u) => argOf(baseOf(u.src[0]), Ops.PARAM).slot);
      assertEquals([...new Set(slots)], [...want]);
      const written = [...source.matchAll(/AHEAD\(\w+, &b(\d+)\[/g)].map((m) => Number(m[1]));
      assertEquals([...new Set(written)], [...want]);
    }),
  );
}

Deno.test(
  "read ahead: a line is asked for once, and not by a loop that reads a row again",
  optimized(() => {
    const rows = 512, n = 8192, narrow = new CStyleRenderer(C_LANGUAGE, { ...caps, ...vectorCaps(32, false) });
    const i = range(rows, 0, AxisKind.LOOP), add = opCarrier(Ops.ADD, f32);
    const [first, second] = [1, 2].map((id) => range(n, id, AxisKind.REDUCE));
    const at = (k: UOp): UOp => load(index(param(1, f32, rows * n), i.mul(n).add(k)));
    const sum = reduce(add, [at(first)], [first]), off = at(second).sub(sum);
    const program = toProgram(
      sink([store(index(param(0, f32, rows), i), reduce(add, [off.mul(off)], [second]))]),
      narrow,
    );
    const source = narrow.render(program) as string, reads = source.matchAll(/(AHEAD|_u \*\)|_u \*)[^&]*&b1\[(\w+)/g);
    const asked = new Map<string, boolean[]>(); // by the loop's address
    for (const [, how, address] of reads) asked.set(address, [...asked.get(address) ?? [], how === "AHEAD"]);
    const line = [true, false]; // two vectors of 32 bytes
    assertEquals([...asked.values()], [[...line, ...line, ...line, ...line], Array(8).fill(false)]);
  }),
);

Deno.test(
  "read ahead: in long rows 16 KB further on, of short ones the row that comes after those that are read side by side",
  optimized(() => {
    for (const [n, bits, far] of [[1 << 16, 32, 16384], [512, 32, 0], [1024, 4, 0], [64, 32, 0]]) {
      const rows = 4096, program = toProgram(bits === 4 ? nibbles(rows, n) : rowMajor(rows, n), renderer);
      const copies = Number(/UPCAST:0:(\d+)/.exec(program.opts ?? "")?.[1] ?? 1), nbytes = n * bits / 8;
      // as many groups of rows as 16 KB are
      const groups = Math.ceil(16384 / (copies * nbytes));
      const want = far === 0 ? groups * copies * nbytes : far, source = renderer.render(program) as string;
      const asked = [...source.matchAll(/AHEAD\(\w+, &b1\[.*?\], (\d+)\)/g)].map((m) => Number(m[1]));
      assertEquals([...new Set(asked)], [want], `${n}: ${program.opts}`);
    }
  }),
);
