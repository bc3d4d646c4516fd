/**
 * Random lists of opts over random kernels and those of tests/codegen/kernels.ts: whatever is possible computes what the
 * kernel computes without opts, and touches no memory beyond its buffers. JS checks the bounds of each access, as a small, a
 * large and a scalar machine; on CLANG memory ends where a page without access begins (SPEC=1), and a process that dies of
 * that tells its case; GRID is a simulated grid.
 *
 *     deno run -A tests/fuzz/opts.ts [--device JS,CLANG,GRID] [--count 1000] [--seed 1] [--case 17]
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { clangBackend } from "../../backends/clang/clang.ts";
import { toProgram } from "../../src/codegen/to_program.ts";
import { type Opt, optsText, withOpts } from "../../src/codegen/opt/opt.ts";
import type { Device } from "../../src/device/device.ts";
import { context } from "../../src/helpers/env.ts";
import { ArgumentError } from "../../src/helpers/errors.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { CAPS, type Data, expectSame, possible, run, runOn } from "../codegen/harness.ts";
import { KERNELS } from "../codegen/kernels.ts";
import { SIM_GRID, simCaps } from "../fixtures/sim.ts";
import { Random } from "../support/random.ts";
import { drawnVars, gridOpts, loopOpts, poisoned, randomKernel } from "./parts/kernel_maker.ts";

/** Where kernels run. */
export type Place = "JS" | "CLANG" | "GRID";

/** Some cases: from the `first` on. */
export interface Cases {
  readonly seed: number;
  readonly first: number;
  readonly count: number;
}

/** What a run found. */
export interface Found {
  /** Lists that were possible. */
  possible: number;
  readonly failures: string[];
}

/** A kernel under a list of opts. */
export interface Case {
  readonly text: string;
  readonly ast: UOp;
  readonly opts: readonly Opt[];
  readonly vars: readonly number[];
  readonly data: readonly Data[];
  readonly want: readonly Data[];
}

/** Case `index` of a run, and what it must compute. */
export function caseOf(seed: number, index: number, place: Place): Case {
  const random = new Random(seed * 1_000_003 + index), isGrid = place === "GRID", names = Object.keys(KERNELS);
  const name = isGrid || random.below(2) === 0 ? undefined : random.pick(names);
  const ast = name === undefined ? randomKernel(random, random.below(3) === 0) : KERNELS[name];
  const vars = drawnVars(random, ast);
  const opts = isGrid ? gridOpts(random, ast) : loopOpts(random, ast), data = poisoned(ast, index);
  const text = `seed ${seed} case ${index} on ${place}: ${name ?? "a random kernel"} under ${optsText(opts)}`;
  return { text, ast, opts, vars, data, want: run(ast, data, [], {}, vars) };
}

/** Runs cases on JS or a simulated grid. */
export function runCases(place: "JS" | "GRID", { seed, first, count }: Cases): Found {
  const found: Found = { possible: 0, failures: [] }, machines = place === "JS" ? CAPS : { grid: simCaps(SIM_GRID) };
  for (let i = first; i < first + count; i++) {
    const { text, ast, opts, vars, data, want } = caseOf(seed, i, place);
    for (const [machine, caps] of Object.entries(machines)) {
      try {
        const program = possible(ast, opts, caps);
        if (program === undefined) continue;
        found.possible++;
        expectSame(ast, run(ast, data, opts, caps, vars, program), want, machine);
      } catch (error) {
        found.failures.push(`${text}, ${machine}: ${error}`);
      }
    }
  }
  return found;
}

/** Cases that are compiled, and run by one process, at a time. */
const TOGETHER = 64;

/** Runs cases on a guarded CLANG, in this process; `tell` hears the case that is about to run. */
function runGuarded(device: Device, { seed, first, count }: Cases, tell: (text: string) => void): Found {
  const found: Found = { possible: 0, failures: [] }, cases: Case[] = [], linear: LinearProgram[] = [];
  for (let i = first; i < first + count; i++) {
    const made = caseOf(seed, i, "CLANG");
    try {
      linear.push(toProgram(withOpts(made.ast, made.opts), device.renderer));
      cases.push(made);
    } catch (error) {
      if (!(error instanceof ArgumentError)) found.failures.push(`${made.text}: ${error}`);
    }
  }
  device.compiler.compile(linear).forEach((program, k) => {
    const { text, ast, vars, data, want } = cases[k];
    tell(text);
    try {
      expectSame(ast, runOn(device, ast, data, program, vars), want, "values");
    } catch (error) {
      found.failures.push(`${text}: ${error}`);
    }
  });
  found.possible = cases.length;
  return found;
}

/** What a process that runs guarded cases says. */
const AT = "at ", FOUND = "found ";

/** Runs cases on CLANG, each part of them in a process of its own. */
export function runInProcesses({ seed, first, count }: Cases): Found {
  const all: Found = { possible: 0, failures: [] };
  for (let at = first; at < first + count; at += TOGETHER) {
    const part: Cases = { seed, first: at, count: Math.min(TOGETHER, first + count - at) };
    const { stdout, stderr, success } = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", import.meta.url, "--part", JSON.stringify(part)],
    }).outputSync();
    const lines = new TextDecoder().decode(stdout).split("\n");
    const said = lines.findLast((l) => l.startsWith(FOUND));
    if (success && said !== undefined) {
      const found: Found = JSON.parse(said.slice(FOUND.length));
      all.possible += found.possible;
      all.failures.push(...found.failures);
      continue;
    }
    const last = lines.findLast((l) => l.startsWith(AT))?.slice(AT.length);
    all.failures.push(
      `${last ?? `cases from ${at} on`}: the process ended; ${new TextDecoder().decode(stderr).slice(0, 600)}`,
    );
  }
  return all;
}

function main(): number {
  const { device = "JS,CLANG,GRID", count = "1000", seed = "1", case: only, part } = parseArgs(Deno.args, {
    string: ["device", "count", "seed", "case", "part"],
  });
  if (part !== undefined) {
    const guarded = context({ SPEC: 1, THREADS: 2 }, () => clangBackend.open(0));
    const found = runGuarded(guarded, JSON.parse(part), (text) => console.log(`${AT}${text}`));
    console.log(`${FOUND}${JSON.stringify(found)}`);
    return 0;
  }
  let failed = 0;
  for (const place of device.split(",") as Place[]) {
    const start = performance.now(), first = Number(only ?? 0);
    const cases: Cases = { seed: Number(seed), first, count: only === undefined ? Number(count) : 1 };
    const { possible, failures } = place === "CLANG" ? runInProcesses(cases) : runCases(place, cases);
    for (const text of failures) console.log(text);
    failed += failures.length;
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    console.log(`${place}: ${cases.count} cases, ${possible} possible, ${failures.length} findings, ${seconds} s`);
  }
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(main());
