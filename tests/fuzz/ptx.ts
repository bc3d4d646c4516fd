/**
 * Random kernels, and those of tests/codegen/kernels.ts, under random opts as PTX for a Hopper card: what an interpreter
 * (tests/renderer/ptx/interpret.ts) makes of the text is what the kernel computes without opts. Kernels with matrix units
 * or copies that go on by themselves are left out.
 *
 *     deno run -A tests/fuzz/ptx.ts [--count 1000] [--seed 1] [--case 17]
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { toProgram } from "../../src/codegen/to_program.ts";
import { withOpts } from "../../src/codegen/opt/opt.ts";
import { groupsOf } from "../../src/device/program.ts";
import { context } from "../../src/helpers/env.ts";
import { ArgumentError } from "../../src/helpers/errors.ts";
import { cudaCaps } from "../../src/renderer/cuda_caps.ts";
import { sharedBytesOf } from "../../src/renderer/lanes.ts";
import { PtxRenderer } from "../../src/renderer/ptx/ptx.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { type Data, expectSame } from "../codegen/harness.ts";
import { interpret, UnsupportedPtx } from "../renderer/ptx/interpret.ts";
import { caseOf, type Cases } from "./opts.ts";

const HOPPER = new PtxRenderer(cudaCaps({ arch: "sm_90a" }), "sm_90a");

/** All buffers after a kernel has run on copies of `data`. */
export function runPtx(program: LinearProgram, data: readonly Data[], vars: readonly number[]): Data[] {
  const made = data.map((d) => d.slice()), memory = made.map((d) => new Uint8Array(d.buffer));
  interpret(HOPPER.body(program, "k"), {
    args: [...memory.slice(0, program.params.length), ...vars, ...program.maps ?? []],
    groups: groupsOf(program, vars),
    threads: program.grid?.size ?? [1, 1, 1],
    shared: sharedBytesOf(program),
  });
  return made;
}

function programOf(ast: UOp, isChosen: boolean): LinearProgram | undefined {
  try {
    return context({ NOOPT: isChosen ? 0 : 1 }, () => toProgram(ast, HOPPER));
  } catch (error) {
    if (error instanceof ArgumentError) return undefined;
    throw error;
  }
}

/** Runs cases, each under its opts and as the machine model chooses. */
export function findPtx({ seed, first, count }: Cases): { ran: number; left: number; failures: string[] } {
  const found = { ran: 0, left: 0, failures: [] as string[] };
  for (let i = first; i < first + count; i++) {
    const { text, ast, opts, vars, data, want } = caseOf(seed, i, i % 2 === 0 ? "GRID" : "JS");
    for (const isChosen of [false, true]) {
      const program = programOf(isChosen ? ast : withOpts(ast, opts), isChosen);
      if (program === undefined) continue;
      try {
        expectSame(ast, runPtx(program, data, vars), want, isChosen ? "as chosen" : "under opts");
        found.ran++;
      } catch (error) {
        if (error instanceof UnsupportedPtx) found.left++;
        else found.failures.push(`${text}: ${program.opts}: ${error}`);
      }
    }
  }
  return found;
}

if (import.meta.main) {
  const { count, seed, case: only } = parseArgs(Deno.args, {
    string: ["count", "seed", "case"],
    default: { count: "1000", seed: "1" },
  });
  const cases: Cases = { seed: Number(seed), first: Number(only ?? 0), count: only === undefined ? Number(count) : 1 };
  const { ran, left, failures } = findPtx(cases);
  for (const text of failures) console.log(text);
  console.log(`${cases.count} cases, ${ran} ran, ${left} left out, ${failures.length} findings`);
  Deno.exit(failures.length === 0 ? 0 : 1);
}
