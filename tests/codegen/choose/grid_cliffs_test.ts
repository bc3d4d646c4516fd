/**
 * No cliffs between shapes, by the model's own account: a product is never expected to take much longer than one that is
 * larger along each side, which padding would make of it. SEED and COUNT draw other shapes.
 */
import { assert } from "@std/assert";
import { CompiledKernel, type DTypeName, schedule, Tensor } from "../../../mod.ts";
import { proposalsFor } from "../../../src/codegen/choose/choose.ts";
import { beforeOpts } from "../../../src/codegen/passes.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { openObserving } from "../../support/snapshot_writers.ts";

/** Microseconds of two more kernels that lay operands out. */
const COPIES = 6;

/** Bytes that the card's memory moves in a microsecond, which the model of tiles leaves to others. */
const MEMORY = 4e6;

type Shape = readonly [batch: number, m: number, k: number, n: number];

/** Microseconds that the kernels of a product take by the model; `forms`: operands as they are (n) or transposed (t). */
function expected(
  [batch, m, k, n]: Shape,
  forms: string,
  dtype: DTypeName,
  device: ReturnType<typeof openObserving>,
): number {
  const { renderer } = device, on = { dtype, device: device.name };
  const operand = (rows: number, columns: number, isTransposed: boolean): Tensor => {
    const x = Tensor.empty([batch, ...(isTransposed ? [columns, rows] : [rows, columns])], on).realize();
    return isTransposed ? x.transpose(1, 2) : x;
  };
  let sum = 0;
  for (const { runner } of schedule([operand(m, k, forms[0] === "t").matmul(operand(k, n, forms[1] === "t"))])) {
    if (!(runner instanceof CompiledKernel)) continue;
    sum += proposalsFor(beforeOpts(runner.ast, renderer), renderer.caps)[0]?.cost ?? Infinity;
  }
  return sum;
}

/** A side as people have them: any number, powers of two, those beside them, multiples of 64. */
function sideOf(draw: () => number): number {
  const form = Math.floor(draw() * 4);
  if (form === 0) return Math.round(2 ** (1 + draw() * 12));
  const power = 2 ** Math.floor(2 + draw() * 10);
  return form === 1 ? power : form === 2 ? power + 1 : 64 * Math.ceil(draw() * 64);
}

for (const dtype of ["bfloat16", "float32"] as const) {
  Deno.test(
    `cliffs: a product of ${dtype} takes little longer than one with larger sides`,
    optimized(() => {
      const device = openObserving("PTX");
      let seed = Number(Deno.env.get("SEED") ?? 20);
      const draw = (): number => (seed = seed * 48271 % 2147483647) / 2147483647;
      const rows: [Shape, string][] = [7, 9, 15, 17, 33, 65].map((m) => [[1, m, 4096, 4096], "nt"]);
      while (rows.length < Number(Deno.env.get("COUNT") ?? 24)) {
        const shape = [draw() < 0.7 ? 1 : 8, sideOf(draw), sideOf(draw), sideOf(draw)] as const;
        const work = shape.reduce((a, b) => a * b, 1);
        if (work > 1e7 && work < 1e12) rows.push([shape, ["nn", "nt", "tn"][Math.floor(draw() * 3)]]);
      }
      for (const [shape, forms] of rows) {
        const [batch, m, k, n] = shape, up = (x: number): number => x <= 16 ? 16 : Math.ceil(x / 64) * 64;
        const own = expected(shape, forms, dtype, device), sides = [batch, up(m), up(k), up(n)] as const;
        const least = batch * (m * k + k * n + m * n) * (dtype === "float32" ? 4 : 2) / MEMORY;
        const larger = Math.max(least, expected(sides, forms, dtype, device));
        assert(
          own <= 2.5 * larger + COPIES,
          `${shape} ${forms}: ${own.toFixed(1)} us, ${larger.toFixed(1)} as ${sides}`,
        );
      }
    }),
  );
}
