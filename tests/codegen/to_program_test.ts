import { assert, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError } from "../../src/helpers/errors.ts";
import { context } from "../../src/helpers/env.ts";
import { Kernel } from "../../src/codegen/opt/kernel.ts";
import { type Opt, type OptOp, optText } from "../../src/codegen/opt/opt.ts";
import { simplifyRanges } from "../../src/codegen/ast/simplify.ts";
import type { Capabilities } from "../../src/renderer/renderer.ts";
import { listText } from "../../src/uop/core/print.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { addKernel, KERNEL_FIXTURES, matmulKernel } from "../fixtures/kernels.ts";
import { CAPS, compile, type Data, integers, opts, paramsOf, run } from "./harness.ts";
import { KERNELS } from "./kernels.ts";
import { optimized } from "../fixtures/optimized.ts";

function varsOf(name: string): number[] {
  return name === "symbolic" ? [11] : [];
}

function same(
  got: readonly Data[],
  want: readonly Data[],
  what: string,
  ast: UOp,
  o: Opt[] | undefined,
  caps: Partial<Capabilities>,
): void {
  got.forEach((g, slot) => {
    for (let i = 0; i < g.length; i++) {
      const a = Number(g[i]), b = Number(want[slot][i]);
      if (Object.is(a, b) || Math.abs(a - b) <= 1e-4 * Math.max(1, Math.abs(b))) continue;
      throw new Error(`${what}: buffer ${slot}[${i}] is ${a}, not ${b}\n${listText(compile(ast, o, caps).uops)}`);
    }
  });
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
  "THREAD:0:2 UPCAST:0:2",
  "VECTOR:1:4 UPCAST:0:3 SWAP:0:1 STAGE:2:1",
  "PADTO:1:8 VECTOR:1:4 UPCAST:1:2 STAGE:1:0 STAGE:2:0",
  "VECTOR:0:4 STAGE:2:1 STAGE:1:1",
  "VECTOR:2:4 STAGE:1:1",
];

for (const [name, ast] of Object.entries(KERNELS)) {
  Deno.test(`codegen: ${name} is the same under any opts`, () => {
    const data = integers(paramsOf(ast));
    const want = run(ast, data, [], {}, varsOf(name));
    assert(want[0].some((v, i) => v !== data[0][i]), "it writes something");
    for (const [kind, caps] of Object.entries(CAPS)) {
      same(run(ast, data, undefined, caps, varsOf(name)), want, `heuristic on ${kind}`, ast, undefined, caps);
      for (const text of SETS) {
        const o = opts(text);
        let got: Data[];
        try {
          got = run(ast, data, o, caps, varsOf(name));
        } catch (error) {
          if (error instanceof ArgumentError) continue; // not possible for this kernel
          throw error;
        }
        same(got, want, `${text} on ${kind}`, ast, o, caps);
      }
    }
  });
}

Deno.test("codegen: random opts give the same values", () => {
  let state = 12345;
  const next = (n: number): number => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) % n;
  const ops: OptOp[] = ["UPCAST", "UNROLL", "VECTOR", "PADTO", "THREAD", "SWAP", "STAGE"];
  let applied = 0;
  for (const [name, ast] of Object.entries(KERNELS)) {
    const data = integers(paramsOf(ast), 7);
    const want = run(ast, data, [], {}, varsOf(name));
    for (let round = 0; round < 12; round++) {
      const kernel = new Kernel(simplifyRanges(ast));
      for (let i = 0; i < 5; i++) {
        const op = ops[next(ops.length)];
        const arg = op === "SWAP" || op === "STAGE" ? next(3) : op === "THREAD" ? 0 : [2, 3, 4, 8][next(4)];
        try {
          kernel.apply({ op, axis: next(4), arg });
        } catch (error) {
          if (!(error instanceof ArgumentError)) throw error;
        }
      }
      const caps = Object.values(CAPS)[next(3)];
      const o = kernel.applied.slice();
      applied += o.length;
      try {
        same(run(ast, data, o, caps, varsOf(name)), want, `${name}: ${o.map(optText).join(" ")}`, ast, o, caps);
      } catch (error) {
        if (error instanceof ArgumentError) continue; // two lanes on one node
        throw error;
      }
    }
  }
  assert(applied > 400, `${applied} opts were applied`);
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
    same(run(ast, data, opts(text), CAPS.small), want, text, ast, opts(text), CAPS.small);
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
      "TC:0:0",
      "STAGE:9:0",
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
