/** Programs in windows: their boxes hold each group once, their grammar is that of linear programs, and how many there are. */
import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { toProgram } from "../../src/codegen/to_program.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { prod } from "../../src/helpers/math.ts";
import { DeviceError } from "../../src/helpers/errors.ts";
import type { LinearProgram, Renderer } from "../../src/renderer/renderer.ts";
import { inWindows, type Windows } from "../../src/renderer/binding_windows.ts";
import { opCarrier, reduce } from "../../src/uop/core/carrier.ts";
import { AxisKind, type VariableArg } from "../../src/uop/core/args.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { specLinear, verify } from "../../src/uop/core/spec.ts";
import { index, load, param, range, sink, store, type UOp } from "../../src/uop/core/uop.ts";
import { optimized } from "../fixtures/optimized.ts";
import { simCaps, SMALL_GRID } from "../fixtures/sim.ts";

const renderer: Renderer = { name: "TEST", caps: simCaps(SMALL_GRID), render: () => "" };
const LIMITS = { device: "TEST", maxBytes: 65536, align: 256, maxBuffers: 8 };
const { float32, uint8, int32 } = dtypes;

const at = (slot: number, n: number, i: UOp, dtype = float32): UOp => index(param(slot, dtype, n), i);
function compiled(to: UOp, value: UOp): LinearProgram {
  return optimized(() => toProgram(sink([store(to, value)]), renderer))();
}
const loop = (n: number, id: number): UOp => range(n, id, AxisKind.LOOP);

function elementwise(n: number, dtype = float32): LinearProgram {
  const i = loop(n, 0);
  return compiled(at(0, n, i, dtype), load(at(1, n, i, dtype)).add(load(at(2, n, i, dtype))));
}
function transposed(rows: number, columns: number): LinearProgram {
  const i = loop(rows, 0), j = loop(columns, 1), n = rows * columns;
  return compiled(at(0, n, i.mul(columns).add(j)), load(at(1, n, j.mul(rows).add(i))));
}
function product(m: number, n: number, k: number): LinearProgram {
  const i = loop(m, 0), j = loop(n, 1), r = range(k, 2, AxisKind.REDUCE);
  const value = load(at(1, m * k, i.mul(k).add(r))).mul(load(at(2, k * n, r.mul(n).add(j))));
  return compiled(at(0, m * n, i.mul(n).add(j)), reduce(opCarrier(Ops.ADD, float32), [value], [r]));
}
/** Rows named by indices in memory. */
function gathered(rows: number, of: number): LinearProgram {
  const i = loop(rows, 0), j = loop(64, 1), row = load(at(2, rows, i, int32));
  return compiled(at(0, rows * 64, i.mul(64).add(j)), load(at(1, of * 64, row.mul(64).add(j))));
}

/** Windows by slot of the whole program. */
function counts({ slots }: Windows): number[] {
  const out: number[] = [];
  for (const { slot, part } of slots) if (part !== undefined) out[slot] = Math.max(out[slot] ?? 0, part + 1);
  return out;
}

const CASES: [name: string, program: LinearProgram, windows: number[], boxes: [least: number, most: number]][] = [
  ["elementwise", elementwise(2 ** 18), [1, 1, 1], [16, 64]],
  ["elementwise, an odd number", elementwise(2 ** 18 + 1), [1, 1, 1], [17, 64]],
  ["bytes", elementwise(2 ** 20, uint8), [1, 1, 1], [16, 64]],
  ["transposed", transposed(256, 512), [4, 1], [8, 64]],
  ["a product of long rows", product(512, 16, 1024), [, 1] as number[], [32, 64]],
  ["a product of two large matrices", product(256, 256, 256), [1, 1, 4], [4, 64]],
  ["rows named by indices", gathered(512, 1024), [1, 4], [2, 4]],
];
for (const [name, program, windows, [least, most]] of CASES) {
  Deno.test(`windows: ${name}`, () => {
    const made = inWindows(program, LIMITS)!, { boxes, nbytes } = made;
    verify(made.program.uops, specLinear, "in windows");
    assertEquals(counts(made), windows);
    assert(boxes.length >= least && boxes.length <= most, `${boxes.length} boxes`);
    // the boxes hold each group once: as many as there are, and none twice
    const size = program.grid!.groups.map((g) => g.value), seen = new Uint8Array(prod(size));
    for (const { first, count, starts } of boxes) {
      for (const start of starts.values()) assertEquals(start % LIMITS.align, 0);
      for (let z = 0; z < count[2]; z++) {
        for (let y = 0; y < count[1]; y++) {
          for (let x = 0; x < count[0]; x++) {
            seen[((first[2] + z) * size[1] + first[1] + y) * size[0] + first[0] + x]++;
          }
        }
      }
    }
    assert(seen.every((n) => n === 1));
    assert(made.program.params.every((p) => p.size * p.dtype.itemsize <= nbytes));
    assertEquals(made.vars.length, made.program.vars.length);
  });
}

Deno.test("windows: a program that can be bound stays", () => {
  assertStrictEquals(inWindows(elementwise(2 ** 14), LIMITS), undefined);
});

Deno.test("windows: a slot that is not used stays empty", () => {
  const i = loop(2 ** 16, 0), made = inWindows(compiled(at(0, 2 ** 16, i), load(at(2, 2 ** 16, i))), LIMITS)!;
  assertEquals(counts(made), [1, , 1] as number[]);
  assertEquals([1 in made.program.params, made.program.params.length], [false, 3]);
});

Deno.test("windows: too many at once is an error with the limits", () => {
  assertThrows(() => inWindows(gathered(512, 4096), LIMITS), DeviceError, "take 18 bindings at once, and there are 8");
});

Deno.test("windows: a kernel of the user's text is not split", () => {
  const program = { ...elementwise(2 ** 18), text: "" };
  assertThrows(
    () => inWindows(program, LIMITS),
    DeviceError,
    "given as text is not split, and a binding holds 65.5 kB",
  );
});

Deno.test("windows: what a box passes", () => {
  const made = inWindows(elementwise(2 ** 18), LIMITS)!;
  const names = made.program.vars.map((v) => (v.arg as VariableArg).name);
  assertEquals(names, ["group_0", "start_0", "start_1", "start_2"].filter((n) => names.includes(n)));
  assertEquals(made.program.uops.filter((u) => u.op === Ops.VARIABLE).length, names.length);
  const last = made.boxes[made.boxes.length - 1];
  assertEquals(last.starts.get(0), last.starts.get(1));
});
