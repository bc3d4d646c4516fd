import { assert, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError } from "../../src/helpers/errors.ts";
import { context } from "../../src/helpers/env.ts";
import { Kernel } from "../../src/codegen/opt/kernel.ts";
import { type AxisOpt, axisOpt, optText } from "../../src/codegen/opt/opt.ts";
import { simplifyRanges } from "../../src/codegen/ast/simplify.ts";
import { listText } from "../../src/uop/core/print.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { renewedGraph, rotateInternTable, toposort } from "../../src/uop/core/uop.ts";
import { addKernel, KERNEL_FIXTURES, matmulKernel } from "../fixtures/kernels.ts";
import { CAPS, compile, expectSame, integers, opts, paramsOf, possible, run, testUnderOpts } from "./harness.ts";
import { KERNELS } from "./kernels.ts";
import { optimized } from "../fixtures/optimized.ts";
import { Random } from "../support/random.ts";

function varsOf(name: string): number[] {
  return name === "symbolic" ? [11] : [];
}

for (const f of KERNEL_FIXTURES) {
  Deno.test(`codegen: fixture ${f.name}`, () => {
    const data = f.sizes.map((n, s) => Float32Array.from({ length: n }, (_, i) => s === 0 ? 99 : (i * 7 + s) % 13 - 6));
    assertEquals([...run(f.ast, data, undefined)[0]], f.expected(data.slice(1)));
  });
}

const SETS = [
  "UPCAST:0:2",
  "UPCAST:0:4 UPCAST:1:3",
  "VECTOR:0:4",
  "VECTOR:1:4",
  "VECTOR:1:8 UPCAST:1:2 UPCAST:0:3",
  "VECTOR:2:4 UNROLL:0:2",
  "VECTOR:2:4 UNROLL:0:4 UPCAST:0:4 UPCAST:1:4",
  "PADTO:0:8 VECTOR:0:4 UPCAST:0:2 THREAD:0",
  "PADTO:1:8 VECTOR:1:8 UPCAST:1:2 UNROLL:0:2",
  "PADTO:2:7 UNROLL:0:7",
  "SWAP:0:1 UPCAST:1:2 THREAD:1",
  "UNROLL:0:5",
  "THREAD:0 UPCAST:0:2",
  "VECTOR:1:4 UPCAST:0:3 SWAP:0:1 STAGE:2:loops=1",
  "PADTO:1:8 VECTOR:1:4 UPCAST:1:2 STAGE:1:loops=0 STAGE:2:loops=0",
  "VECTOR:0:4 STAGE:2:loops=1 STAGE:1:loops=1",
  "VECTOR:2:4 STAGE:1:loops=1",
  "UNROLL:0:2 STAGE:1",
  "UNROLL:0:2 UPCAST:0:2 STAGE:1:loops=3",
  "VECTOR:2:2 UPCAST:1:2 UNROLL:1:2",
];

testUnderOpts("codegen", KERNELS, varsOf, SETS, CAPS);

Deno.test("codegen: random opts give the same values", () => {
  const random = new Random(1), next = (n: number): number => random.below(n);
  const ops: (AxisOpt["op"] | "STAGE")[] = ["UPCAST", "UNROLL", "VECTOR", "PADTO", "THREAD", "SWAP", "STAGE"];
  let applied = 0, refused = 0;
  for (const [name, ast] of Object.entries(KERNELS)) {
    const data = integers(paramsOf(ast), 7);
    const want = run(ast, data, [], {}, varsOf(name));
    for (let round = 0; round < 12; round++) {
      const kernel = new Kernel(simplifyRanges(ast));
      for (let i = 0; i < 5; i++) {
        const op = ops[next(ops.length)];
        const arg = op === "SWAP" || op === "STAGE" ? next(3) : op === "THREAD" ? 0 : [2, 3, 4, 8][next(4)];
        try {
          const axis = next(4);
          kernel.apply(op === "STAGE" ? { op, input: axis, loops: arg } : axisOpt(op, axis, arg));
        } catch (error) {
          if (!(error instanceof ArgumentError)) throw error;
        }
      }
      const caps = Object.values(CAPS)[next(3)];
      const o = kernel.applied.slice();
      const program = possible(ast, o, caps);
      if (program === undefined) {
        refused++; // two lanes on one node
        continue;
      }
      applied += o.length;
      expectSame(ast, run(ast, data, o, caps, varsOf(name), program), want, `${name}: ${o.map(optText).join(" ")}`);
    }
  }
  assert(applied > 500 && refused < 280, `${applied} opts were applied, ${refused} kernels refused theirs`);
});

Deno.test("codegen: every stage is legal by its spec", () => {
  for (const [name, ast] of Object.entries(KERNELS)) {
    for (const caps of Object.values(CAPS)) {
      context({ SPEC: 1 }, () => assert(compile(ast, undefined, caps).uops.length > 0, name));
    }
  }
});

Deno.test("codegen: a tile along what a STAGE depends on stands outside of the STAGE", () => {
  const ast = KERNELS.staged_rows, data = integers(paramsOf(ast), 3), want = run(ast, data, []);
  for (const text of ["PADTO:0:2", "PADTO:0:4 VECTOR:2:4 UPCAST:1:2", "PADTO:0:2 UPCAST:0:2 THREAD:0:0"]) {
    expectSame(ast, run(ast, data, opts(text), CAPS.small), want, text);
  }
});

Deno.test(
  "codegen: packing keeps a panel in kernel memory",
  optimized(() => {
    const p = compile(matmulKernel(64, 512, 1024).ast, undefined, CAPS.large);
    assert(p.uops.some((u) => u.op === Ops.LOCAL));
    assert(p.uops.length < 500, `${p.uops.length} uops`);
  }),
);

Deno.test("codegen: a padded convolution loads vectors where all lanes are inside", () => {
  const p = compile(KERNELS.conv_padded, opts("VECTOR:2:4 UPCAST:0:4"), CAPS.small);
  assert(p.uops.some((u) => u.op === Ops.IF));
  assert(
    p.uops.some((u) =>
      u.op === Ops.LOAD && u.dtype.count === 4 && u.src[0].op === Ops.INDEX && u.src[0].src[0].op === Ops.PARAM
    ),
  );
});

Deno.test("codegen: opts that cannot be are named errors", () => {
  for (
    const text of [
      "UPCAST:5:2",
      "UPCAST:0:100",
      "UNROLL:0:1",
      "VECTOR:0:4 VECTOR:0:2",
      "THREAD:0:7",
      "TC:0",
      "STAGE:9:loops=0",
      "STAGE:1:ring=2",
    ]
  ) {
    assertThrows(() => compile(matmulKernel(12, 8, 16).ast, opts(text), CAPS.small), ArgumentError, "apply");
  }
});

Deno.test("codegen: names", () => {
  assertEquals(compile(addKernel(10).ast, []).name, "E_10");
  assertEquals(compile(KERNELS.sum_all, []).name, "r_130");
  assertEquals(compile(matmulKernel(6, 5, 8).ast, opts("VECTOR:1:4 UPCAST:0:2")).name, "r_3_2_5_2_4");
});

Deno.test("codegen: estimates", () => {
  const p = compile(matmulKernel(6, 5, 8).ast, []);
  assertEquals([p.flops, p.bytes], [2 * 6 * 5 * 8, 4 * (48 + 30 + 40)]);
});

Deno.test(
  "codegen: NOOPT",
  optimized(() => {
    const ast = matmulKernel(64, 64, 64).ast;
    assertEquals(context({ NOOPT: 1 }, () => compile(ast, undefined, CAPS.large).name), "r_64_64_64");
    assert(compile(ast, undefined, CAPS.large).name !== "r_64_64_64");
  }),
);

Deno.test("codegen: the same kernel gives the same program", () => {
  for (const ast of Object.values(KERNELS)) {
    assertEquals(
      listText(compile(ast, undefined, CAPS.large).uops),
      listText(compile(ast, undefined, CAPS.large).uops),
    );
  }
});

Deno.test(
  "codegen: a large matmul stays small",
  optimized(() => {
    const p = compile(matmulKernel(1024, 1024, 1024).ast, undefined, CAPS.large);
    assert(p.uops.length < 500, `${p.uops.length} uops`);
    assert(p.threads > 1);
  }),
);

Deno.test("codegen: a kernel that is compiled generations of nodes later is the same program", () => {
  const asts = Object.values(KERNELS), texts = asts.map((ast) => listText(compile(ast, undefined).uops));
  for (let i = 0; i < 2; i++) rotateInternTable();
  asts.forEach((ast, i) => {
    // as what is made for another kernel in between: equal to what this one holds, and not the same
    for (const u of toposort(ast)) if (u.op === Ops.RANGE) u.mul(64).add(u);
    assertEquals(listText(compile(ast, undefined).uops), texts[i]);
    assert(renewedGraph(ast) === renewedGraph(ast));
  });
});
