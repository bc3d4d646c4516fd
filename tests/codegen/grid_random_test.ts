/**
 * Random kernels under random opts on simulated grids, against the same kernels on the JS device. What is only written holds
 * NaN before: an element that no thread writes shows.
 */
import { assert } from "@std/assert";
import { type Opt, optText } from "../../src/codegen/opt/opt.ts";
import { ArgumentError } from "../../src/helpers/errors.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { SIM_GRID, simCaps, SMALL_GRID } from "../fixtures/sim.ts";
import { drawnVars, gridOpts, poisoned, randomKernel } from "../fuzz/parts/kernel_maker.ts";
import { Random } from "../support/random.ts";
import { compile, type Data, run } from "./harness.ts";

const GRIDS = { GPU: simCaps(SIM_GRID), WEB: simCaps(SMALL_GRID) } as const;
function check(
  ast: UOp,
  data: readonly Data[],
  want: Data,
  opts: readonly Opt[] | undefined,
  grid: "GPU" | "WEB",
  vars: readonly number[],
): void {
  const [got] = run(ast, data, opts, GRIDS[grid], vars);
  for (let i = 0; i < want.length; i++) {
    if (got[i] === want[i] || Object.is(got[i], want[i])) continue;
    const text = opts === undefined ? "the heuristic's opts" : opts.map(optText).join(" ");
    throw new Error(`${text} on ${grid}: element ${i} of ${want.length} is ${got[i]}, not ${want[i]}`);
  }
}

const SEEDS = 20, KERNELS_EACH = 12;

for (let seed = 0; seed < SEEDS; seed++) {
  Deno.test(`grid: random kernels and opts, every element written (seed ${seed})`, () => {
    const random = new Random(seed * 7919 + 1);
    let possible = 0;
    for (let i = 0; i < KERNELS_EACH; i++) {
      const isOpen = i % 3 === 2, ast = randomKernel(random, isOpen), data = poisoned(ast, seed * 100 + i);
      const vars = drawnVars(random, ast), [want] = run(ast, data, [], {}, vars);
      // what is behind a variable end is written by nobody, there and here
      assert(isOpen || want.every((x) => !Number.isNaN(x)), "the JS device writes every element");
      try {
        for (const grid of ["GPU", "WEB"] as const) check(ast, data, want, undefined, grid, vars);
        for (let k = 0; k < 6; k++) {
          const opts = gridOpts(random, ast);
          try {
            compile(ast, opts, GRIDS.GPU);
          } catch (error) {
            if (error instanceof ArgumentError) continue; // threads or tiles that do not go together
            throw new Error(opts.map(optText).join(" "), { cause: error });
          }
          check(ast, data, want, opts, "GPU", vars);
          possible++;
        }
      } catch (error) {
        throw new Error(`kernel ${i} of seed ${seed}`, { cause: error });
      }
    }
    assert(possible >= KERNELS_EACH, `${possible} lists of opts were possible`);
  });
}
