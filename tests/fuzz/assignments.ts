/**
 * Random programs of reads, views and writes, against an eager model of memory: every tensor is bytes, a view a list of
 * places in them, a write happens at once, and a read is of what is there when it is asked for. What the model says must
 * come out, on every device, in whatever order things are realized; a program may also be refused, but only with a
 * StaleReadError, and only where a lazy read is realized in a later schedule than a write over what it reads. The model
 * (assignments_model.ts) knows nothing of schedules and kernels. A failure is shrunk and printed as a program.
 *
 * Run: `deno run -A tests/fuzz/assignments.ts --count 10000 --seed 7 --device WASM`. Other options: `--case 17` (only that
 * one), `--from 500` (the first of the `--count` cases), `--failures 3` (stop after as many), `--jobs 2` (processes; as
 * many as there are processors where nothing is said and the count is large).
 */
import { parseArgs } from "@std/cli/parse-args";
import { context, Device, DisposedError, jit, nn, scope, StaleReadError, Tensor, Variable } from "../../mod.ts";
import { Maker } from "./parts/assignments_maker.ts";
import { Model } from "./parts/assignments_model.ts";
import { type Statement, textOf } from "./parts/assignments_program.ts";
import { Random } from "../support/random.ts";

/** What a run found. */
export interface Report {
  /** Programs of which every value was compared. */
  readonly compared: number;
  /** Programs that ended in a StaleReadError where the rule says so. */
  readonly stale: number;
  readonly failures: readonly string[];
}

/** Tensors by name, and functions. */
class Names extends Map<string, Tensor> {
  readonly functions: Map<string, (...args: Tensor[]) => Tensor> = new Map();
  /** Steps of optimizers, which realize others beside them. */
  readonly steps: Map<string, (also: Tensor[]) => Tensor> = new Map();
}

/** An index of a statement as the library takes it. */
function indexOf(index: readonly unknown[], names: Names): never[] {
  return index.map((x) => {
    if (typeof x !== "object" || x === null || Array.isArray(x)) return x;
    const at = x as { at?: number[]; gt?: string; bound?: [number, number, number] };
    if (at.at !== undefined) return new Tensor(at.at, { dtype: "int32" });
    if (at.gt !== undefined) return names.get(at.gt)!.gt(0);
    const p = new Variable("p", 0, at.bound![2]).bind(at.bound![0]);
    return [p, p.add(at.bound![1])];
  }) as never[];
}

/** What `sameText` of assignments_program.ts says. */
const SAME_AS: readonly ((x: Tensor) => Tensor)[] = [
  (x) => x.mul(1),
  (x) => x.add(0),
  (x) => new Tensor(true).where(x, x),
  (x) => x.contiguous(),
  (x) => x.pow(1),
  (x) => x.repeatInterleave(1, 0),
  (x) => x.pad([0, 0]),
  (x) => x.roll(0),
];

/** A function under jit, or, by `how`, called by another one, with JIT_CHECK=1, or with JIT=0. */
function jitted(body: (...args: Tensor[]) => Tensor, how: string): (...args: Tensor[]) => Tensor {
  const inner = jit(body), f = how === "nested" ? jit((...given: Tensor[]) => inner(...given)) : inner;
  const modes = how === "check" ? { JIT_CHECK: 1 } : how === "off" ? { JIT: 0 } : undefined;
  return modes === undefined ? f : (...given) => context(modes, () => f(...given));
}

/** Runs a statement on the library. */
function step(s: Statement, names: Names): void {
  const get = (name: string): Tensor => names.get(name)!;
  const operand = (x: string | number): Tensor | number => typeof x === "number" ? x : get(x);
  const set = (t: Tensor): void => void names.set(s.to!, t);
  switch (s.op) {
    case "leaf": {
      const t = new Tensor(s.values!, { dtype: s.dtype }).reshape(s.shape!);
      if (s.how === "weight") t.realize().requiresGrad = true;
      return set(s.how === "realized" ? t.realize() : s.how === "clone" ? t.clone() : t);
    }
    case "view": {
      const x = get(s.on!), list = s.list!;
      switch (s.how) {
        case "at":
          return set(x.at(...indexOf(s.index!, names)));
        case "permute":
          return set(x.permute(list));
        case "flip":
          return set(x.flip(list));
        case "reshape":
          return set(x.reshape(list));
        case "shrink":
          return set(x.shrink(list.map((start, i) => [start, s.shape![i]] as [number, number])));
        case "bitcast":
          return set(x.bitcast(s.dtype!));
      }
      return set(x.detach());
    }
    case "value": {
      const x = get(s.on!), y = s.value === undefined ? 0 : operand(s.value);
      switch (s.how) {
        case "add":
          return set(x.add(y));
        case "mul":
          return set(x.mul(y));
        case "max":
          return set(x.maximum(y));
        case "sum":
          return set(x.sum(s.list![0]));
        case "scan":
          return set(x.cumsum(s.list![0]));
        case "total":
          return set(x.sum().add(x.flip(0)));
        case "expand":
          return set(x.unsqueeze(0).expand([2, ...x.shape]));
        case "same":
          return set(SAME_AS[s.list![0]](x));
        case "clone":
          return set(x.clone());
        case "pick":
          return set(x.at(new Tensor(s.list!, { dtype: "int32" })));
      }
      return set(x.contiguous());
    }
    case "assign":
      return void get(s.on!).assign(operand(s.value!));
    case "setAt":
      return void get(s.on!).setAt(indexOf(s.index!, names), operand(s.value!));
    case "inplace": {
      const x = get(s.on!), y = operand(s.value!);
      return void (s.how === "add" ? x.addInPlace(y) : s.how === "mul" ? x.mulInPlace(y) : x.subInPlace(y));
    }
    case "realize":
      return void Tensor.realize(s.names!.map(get));
    case "scope":
      return scope(() => {
        for (const b of s.body!) step(b, names);
      });
    case "jit": {
      const body = (...given: Tensor[]): Tensor => {
        const inside = new Names(names);
        s.params!.forEach((p, i) => inside.set(p, given[i]));
        for (const b of s.body!) step(b, inside);
        const result = inside.get(s.result!)!;
        return s.isValue ? result.mul(1) : result;
      };
      return void names.functions.set(s.to!, jitted(body, s.how!));
    }
    case "call":
      return set(names.functions.get(s.on!)!(...s.names!.map(get)));
    case "optimizer": {
      const params = s.names!.map(get), opt = new nn.optim.SGD(params, { lr: 0.25, momentum: s.list![0] / 2 });
      return void names.steps.set(s.to!, (also) => {
        opt.zeroGrad();
        let loss: Tensor | undefined;
        for (const [a, b, apart] of s.terms!) {
          const [p, q] = [params[a], params[b]], term = apart ? p.sum().mul(q.sum()) : p.mul(q).sum();
          loss = loss === undefined ? term : loss.add(term);
        }
        loss!.backward();
        opt.step({ also: s.list![1] === 1 ? [...also, ...params.flatMap((p) => p.grad ?? [])] : also });
        return loss!;
      });
    }
    case "stepper": {
      const stepped = names.steps.get(s.on!)!, [k] = s.list!;
      const f = (): Tensor =>
        Tensor.train(() => {
          const inside = new Names(names);
          for (const b of s.body!.slice(0, k)) step(b, inside);
          const loss = stepped([]);
          for (const b of s.body!.slice(k)) step(b, inside);
          return loss;
        });
      return void names.functions.set(s.to!, s.how === "" ? f : jitted(f, s.how!));
    }
    case "step":
      return void names.functions.get(s.on!)!();
    case "failing": {
      const gone = new Tensor([1], { dtype: "float32" }).realize(), late = gone.mul(2);
      gone.dispose();
      try {
        Tensor.train(() => names.steps.get(s.on!)!([late]));
      } catch (error) {
        if (error instanceof DisposedError) return;
        throw error;
      }
      throw new Error("a step beside what is disposed did not fail");
    }
    case "grad":
      return set(get(String(s.value)).grad!);
    case "slopes": {
      const [scale, adds] = s.list!;
      const f = (x: Tensor, y: Tensor): Tensor => {
        x.mul(y).mul(scale).sum().backward();
        if (adds !== 0) y.addInPlace(adds);
        return x.sum();
      };
      return void names.functions.set(s.to!, jitted(f, s.how!));
    }
    case "slope": {
      const [x, y] = s.names!.map(get);
      if (s.list![0] === 1) x.grad = undefined;
      names.functions.get(s.on!)!(x, y);
      return set(x.grad!);
    }
  }
  throw new Error(`no statement: ${s.op}`);
}

/** The values of a tensor as numbers, in a row. */
async function valuesOf(t: Tensor): Promise<number[]> {
  return Array.from(await t.data() as ArrayLike<number>);
}

/** What is wrong with a program: undefined where nothing is; "stale" where it ended in a StaleReadError as it may. */
export async function check(program: readonly Statement[]): Promise<string | undefined> {
  const model = new Model(), names = new Names();
  const compare = async (name: string): Promise<string | undefined> => {
    const want = model.read(name), got = await valuesOf(names.get(name)!);
    if (want.length === got.length && want.every((x, i) => x === got[i])) return undefined;
    return `${name} is [${got.join(", ")}], want [${want.join(", ")}]`;
  };
  let at = "";
  let mayBeStale = false;
  try {
    for (const s of program) {
      at = textOf(s);
      if (s.op === "read") {
        mayBeStale = model.isStale([s.on!]);
        const why = await compare(s.on!);
        if (why !== undefined) return `${at}: ${why}`;
        model.done([s.on!]);
        continue;
      }
      mayBeStale = model.step(s);
      step(s, names);
      model.settle(s);
    }
  } catch (error) {
    const { name, message, stack } = error as Error;
    if (error instanceof StaleReadError && mayBeStale) return "stale";
    return `${at}: ${name}: ${message}\n${stack?.split("\n    at ").slice(1, 7).join("\n  ")}`;
  }
  return undefined;
}

/** The smallest program found by leaving out statements that fails alike. */
async function shrink(program: readonly Statement[], why: string): Promise<[readonly Statement[], string]> {
  const kindOf = (text: string): string => /: (\w+Error):/.exec(text)?.[1] ?? "value";
  const deadline = performance.now() + 20000;
  for (let again = true; again && performance.now() < deadline;) {
    again = false;
    for (const smaller of smallerOf(program)) {
      if (!Model.accepts(smaller)) continue;
      const found = await check(smaller);
      if (found === undefined || found === "stale" || kindOf(found) !== kindOf(why)) continue;
      [program, why, again] = [smaller, found, true];
      break;
    }
  }
  return [program, why];
}

function* smallerOf(program: readonly Statement[]): Generator<readonly Statement[]> {
  for (let i = program.length - 1; i >= 0; i--) {
    yield [...program.slice(0, i), ...program.slice(i + 1)];
    const { body, names } = program[i];
    if (body !== undefined) {
      for (let k = 0; k < body.length; k++) {
        yield program.with(i, { ...program[i], body: [...body.slice(0, k), ...body.slice(k + 1)] });
      }
    }
    if (names !== undefined && names.length > 1) {
      for (let k = 0; k < names.length; k++) {
        yield program.with(i, { ...program[i], names: [...names.slice(0, k), ...names.slice(k + 1)] });
      }
    }
  }
}

/** Runs programs on the default device. */
export async function fuzzAssignments(
  options: { seed: number; count: number; from?: number; failures?: number; log?: (text: string) => void },
): Promise<Report> {
  const { seed, count, from = 0, log = () => {} } = options, failures: string[] = [];
  let compared = 0, stale = 0;
  for (let k = from; k < from + count; k++) {
    const program = new Maker(new Random(seed * 1000003 + k)).make(), why = await check(program);
    if (why === "stale") stale++;
    else if (why === undefined) compared++;
    else {
      const [small, found] = await shrink(program, why);
      failures.push(`seed ${seed} case ${k} on ${Device.default}: ${found}\n${small.map(textOf).join("\n")}\n`);
      log(failures[failures.length - 1]);
      if (failures.length >= (options.failures ?? 1)) break;
    }
  }
  return { compared, stale, failures };
}

/** As `fuzzAssignments`, each part of the cases in a process of its own. */
async function inProcesses(
  { seed, count, from, failures, jobs }: { seed: number; count: number; from: number; failures: number; jobs: number },
  device: string,
): Promise<Report> {
  const ends = Array.from({ length: jobs + 1 }, (_, i) => from + Math.floor(count * i / jobs));
  const parts = await Promise.all(
    ends.slice(0, jobs).map(async (start, i): Promise<Report> => {
      const options = { seed, count: ends[i + 1] - start, from: start, failures, jobs: 1, device };
      const child = new Deno.Command(Deno.execPath(), {
        args: [
          ...["run", "-A", "--no-check", import.meta.url, "--json"],
          ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]),
        ],
        stdin: "null",
        stderr: "inherit",
      });
      const text = new TextDecoder().decode((await child.output()).stdout).trimEnd();
      try {
        const report = JSON.parse(text.slice(text.lastIndexOf("\n") + 1)) as Report;
        for (const failure of report.failures) console.log(failure);
        return report;
      } catch {
        const cases = `cases ${start} to ${ends[i + 1] - 1} on ${device}`;
        console.log(`${cases}: the process has ended without a report\n${text}`);
        return { compared: 0, stale: 0, failures: [`${cases}: no report`] };
      }
    }),
  );
  return {
    compared: parts.reduce((n, p) => n + p.compared, 0),
    stale: parts.reduce((n, p) => n + p.stale, 0),
    failures: parts.flatMap((p) => p.failures),
  };
}

/** Programs below which another process is not worth its start. */
const FEW = 200;

if (import.meta.main) {
  const names = ["seed", "count", "case", "from", "failures", "device", "jobs"] as const;
  const given = parseArgs(Deno.args, { string: names, boolean: ["json"] });
  const { seed = 1, case: only, failures = 3, device: devices = "JS,WASM" } = given;
  const count = only === undefined ? Number(given.count ?? 1000) : 1, from = Number(only ?? given.from ?? 0);
  const jobs = Number(given.jobs ?? (count < FEW ? 1 : Math.min(navigator.hardwareConcurrency, count / FEW | 0)));
  let found = 0;
  for (const device of devices.split(",")) {
    const start = performance.now(), options = { seed: Number(seed), count, from, failures: Number(failures) };
    let report: Report;
    if (jobs > 1) report = await inProcesses({ ...options, jobs }, device);
    else {
      await Device.open(device);
      Device.default = device;
      report = await fuzzAssignments({ ...options, log: given.json ? undefined : console.log });
    }
    found += report.failures.length;
    console.log(
      given.json
        ? JSON.stringify(report)
        : `${device}: ${report.compared} programs compared, ${report.stale} refused as ` +
          `too late, ${report.failures.length} failures, ${((performance.now() - start) / 1000).toFixed(1)} s`,
    );
  }
  if (found > 0) Deno.exit(1);
}
