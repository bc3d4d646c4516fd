/**
 * Sizes that are variables, in every public function of tensors: a valid call of the tables of arguments.ts, of which axes
 * and sizes are symbolic. Whatever their variables are bound to, it gives the values, shapes and gradients of the same
 * call with numbers, also in a capture of `jit` that serves all lengths; or an error of ours that names the variable and
 * says what to do.
 *
 *     deno run -A tests/fuzz/symbolic_methods.ts --count 10000 --seed 7 [--only cov,Tensor.cat] [--device JS] [--errors] [--case 12]
 *
 * Cases go round the functions. `--errors` lists what was refused, and how; `--case` runs one.
 *
 * @module
 */
import * as dinograd from "../../mod.ts";
import { Device, jit, Tensor, Variable } from "../../mod.ts";
import { parseArgs } from "../support/parse_args.ts";
import { Random } from "../support/random.ts";
import { publicFunctions, putBack, type Target } from "./arguments.ts";
import {
  atLengths,
  drawCase,
  type Length,
  type RoomyCall,
  roomyCall,
  type SymbolicCase,
} from "./parts/symbolic_calls.ts";

/** Functions whose numbers differ in each call: of those, shapes are compared. */
const RANDOM = new RegExp(
  "rand|[dD]ropout|normal|uniform|bernoulli|poisson$|binomial|exponential|cauchy|Normal|geometric|multinomial|empty|" +
    "Uniform|gumbel|rrelu|invalids|Lowrank|lobpcg|fractional",
);
/** What counts the largest size, and what is no function of values alone. */
const LEFT_OUT = new RegExp(
  "^(numel|nbytes|size|toString|schedule|shard|shardInPlace|reshard|shardLike|backward|gradient|dispose|replace|" +
    "viewOf|customKernel|to|toInPlace|asParam|Tensor\\.(fromBlob|train|manualSeed|realize|kernelize)|elementSize)$",
);
const NAMES = ["rows", "columns"];

/** The functions that are tried. */
export function symbolicTargets(): Target[] {
  return publicFunctions().targets.filter(({ name }) =>
    /^(Tensor\.)?[a-z]\w*$/.test(name) && !LEFT_OUT.test(name) &&
    (name.startsWith("Tensor.") || name in Tensor.prototype)
  );
}

const ERRORS = Object.values(dinograd).filter((x) => typeof x === "function" && x.prototype instanceof Error);

/** Why an error does not do. */
function faultOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return `threw ${typeof error}`;
  const isOurs = ERRORS.includes(error.constructor as never) && !/Spec|Compile/.test(error.constructor.name);
  if (!isOurs || !error.message.startsWith("Cannot ")) return `${error.stack}`;
  if (!NAMES.some((n) => new RegExp(`\\b${n}\\b`).test(error.message))) return `it names no variable: ${error.message}`;
  return undefined;
}

function leavesOf(x: unknown, found: unknown[] = [], depth = 0): unknown[] {
  if (x instanceof Tensor || typeof x !== "object" || x === null || depth > 5) found.push(x);
  else if (ArrayBuffer.isView(x)) found.push(...x as unknown as Iterable<unknown>);
  else for (const value of Object.values(x)) leavesOf(value, found, depth + 1);
  return found;
}

/** Values of what a call gave: tensors with shape and dtype. */
interface Value {
  readonly shape: string;
  readonly data: ArrayLike<unknown>;
}

async function valueOf(x: unknown): Promise<Value> {
  if (!(x instanceof Tensor)) return { shape: typeof x, data: [typeof x === "function" ? 0 : x] };
  const parts = x.dtype.isComplex ? Tensor.stack([x.real(), x.imag()]) : x;
  return { shape: `${x.dtype}[${x.boundShape}]`, data: await parts.data() as ArrayLike<unknown> };
}

function differ(got: readonly Value[], want: readonly Value[], isRandom: boolean): string | undefined {
  if (got.length !== want.length) return `${got.length} results, not ${want.length}`;
  for (const [i, { shape, data }] of want.entries()) {
    if (got[i].shape !== shape) return `result ${i} is ${got[i].shape}, not ${shape}`;
    if (isRandom) continue;
    if (got[i].data.length !== data.length) return `result ${i} has ${got[i].data.length} values, not ${data.length}`;
    const by = /float16|bfloat16/.test(shape) ? 4e-3 : 2e-4;
    for (let k = 0; k < data.length; k++) {
      const a = got[i].data[k], b = data[k];
      if (Object.is(a, b) || a === b) continue;
      if (Math.abs(Number(a) - Number(b)) <= by * (1 + Math.abs(Number(b)))) continue;
      return `result ${i} at ${k} is ${a}, not ${b}: [${Array.from(got[i].data).slice(0, 12)}] not [${
        Array.from(data).slice(0, 12)
      }]`;
    }
  }
  return undefined;
}

type Made = { readonly error: unknown } | { readonly leaves: unknown[] };

async function made(c: SymbolicCase, call: RoomyCall, lengths: readonly Length[], memory?: Tensor[]): Promise<Made> {
  try {
    const [self, ...args] = atLengths(c, call, lengths, memory);
    const act = (): unknown => c.target.apply(self, args);
    return { leaves: leavesOf(await (call.training ? Tensor.train(act) : act())) };
  } catch (error) {
    return { error };
  }
}

/** What a call gives: values, what its memory holds after it, and gradients; or an error. */
async function outcome(
  c: SymbolicCase,
  lengths: readonly Length[],
): Promise<{ error: unknown } | { values: Value[]; slopes?: Value[]; noSlopes?: unknown }> {
  const call = await roomyCall(c), got = await made(c, call, lengths);
  if ("error" in got) return got;
  let values: Value[];
  try {
    values = await Promise.all([...got.leaves, ...call.rooms.map((room) => room.memory)].map(valueOf));
  } catch (error) {
    return { error };
  }
  const leaves = call.rooms.filter(({ memory }) => memory.dtype.isFloat).map(({ memory }) => memory);
  if (leaves.length === 0 || RANDOM.test(c.target.name) || /InPlace$|assign|setAt/.test(c.target.name)) {
    return { values };
  }
  try {
    const again = await roomyCall(c), memory = again.rooms.map((room) => room.memory);
    for (const x of memory) if (x.dtype.isFloat) x.requiresGrad = true;
    const got = await made(c, again, lengths, memory);
    if ("error" in got) return { values };
    const outs = got.leaves.filter((x): x is Tensor =>
      x instanceof Tensor && x.dtype.isFloat && x.requiresGrad !== false
    );
    const loss = outs.map((x) => x.mul(x).add(x).sum()).reduce((a, b) => a.add(b));
    const slopes = loss.gradient(memory.filter((x) => x.dtype.isFloat));
    return { values, slopes: await Promise.all(slopes.map(valueOf)) };
  } catch (noSlopes) {
    return { values, noSlopes };
  } finally {
    putBack(Device.default);
  }
}

/** Whether an error may be of indices or labels that a tensor has. */
function hasIndices({ target }: SymbolicCase, error: unknown): boolean {
  const { args } = target.make();
  return error instanceof dinograd.IndexError && args.some(({ value }) => value instanceof Tensor && value.dtype.isInt);
}

/** What is wrong with a case; `refused` is told how it was refused. */
export async function checkCase(
  c: SymbolicCase,
  refused: (message: string) => void = () => {},
): Promise<string | undefined> {
  const variables = c.bounds.map(([min, max], i) => new Variable(NAMES[i], min, max));
  const bound = (lengths: readonly number[]): Tensor[] => lengths.map((n, i) => variables[i].bind(n));
  const isRandom = RANDOM.test(c.target.name), wanted: (Value[] | undefined)[] = [];
  let errors = 0, told = false;
  for (const lengths of c.lengths) {
    const want = await outcome(c, lengths), got = await outcome(c, bound(lengths));
    wanted.push("values" in want ? want.values : undefined);
    const at = `at ${lengths.join(", ")}`;
    if ("error" in got) {
      errors++;
      if ("error" in want) {
        const why = got.error instanceof Error && /^Cannot /.test(got.error.message)
          ? undefined
          : String((got.error as Error)?.stack);
        if (why !== undefined) return `${at}: ${why}`;
        continue;
      }
      const why = faultOf(got.error);
      if (why !== undefined) return `${at}: ${why}`;
      if (!told) refused((got.error as Error).message);
      told = true;
    } else if ("error" in want) {
      // of values, and of nothing: neither is known before it is computed
      const { error } = want, isOfValues = error instanceof dinograd.ArgumentError || hasIndices(c, error);
      if (isOfValues || lengths.includes(0)) continue;
      return `${at}: it is taken, with ${got.values.map((v) => v.shape).join(" ")}; a number is refused: ${want.error}`;
    } else {
      const why = differ(got.values, want.values, isRandom);
      if (why !== undefined) return `${at}: ${why}`;
      if (want.slopes === undefined) continue;
      if (got.slopes === undefined) {
        const why = faultOf(got.noSlopes);
        if (why !== undefined) return `${at}: no gradients: ${why}`;
        continue;
      }
      const slope = differ(got.slopes, want.slopes, false);
      if (slope !== undefined) return `${at}, gradients: ${slope}`;
    }
  }
  if (errors > 0) return undefined;
  return await checkCapture(c, bound, wanted, isRandom);
}

/** One capture, replayed at all lengths. */
async function checkCapture(
  c: SymbolicCase,
  bound: (lengths: readonly number[]) => Tensor[],
  wanted: readonly (Value[] | undefined)[],
  isRandom: boolean,
): Promise<string | undefined> {
  const call = await roomyCall(c);
  if (call.rooms.length === 0) return undefined;
  const step = jit((memory: Tensor[], lengths: Tensor[]) => {
    const [self, ...args] = atLengths(c, call, lengths, memory);
    const act = (): unknown => c.target.apply(self, args), result = call.training ? Tensor.train(act) : act();
    if (result instanceof Promise) throw new TypeError("async");
    return leavesOf(result).filter((x) => x instanceof Tensor);
  });
  for (const at of [0, 0, ...c.lengths.keys()]) {
    if (wanted[at] === undefined) continue;
    const fresh = (await roomyCall(c)).rooms.map((room) => room.memory);
    try {
      const results = step(fresh, bound(c.lengths[at])), got = await Promise.all(results.map(valueOf));
      const tensors = wanted[at]!.slice(0, -fresh.length).filter((v) => v.shape.includes("["));
      const why = differ(got, tensors, isRandom);
      if (why !== undefined) return `in a capture at ${c.lengths[at]}: ${why}`;
    } catch (error) {
      if (error instanceof TypeError && error.message === "async") return undefined;
      const isOurs = ERRORS.includes((error as Error).constructor as never) && /^Cannot/.test((error as Error).message);
      return isOurs ? undefined : `in a capture at ${c.lengths[at]}: ${(error as Error)?.stack}`;
    }
  }
  return undefined;
}

/** Case `index` of a seed; undefined where the function has nothing to make symbolic. */
export function caseOf(targets: readonly Target[], seed: number, index: number): SymbolicCase | undefined {
  const r = new Random(seed * 1_000_003 + index), variable = new Variable(NAMES[0], 1, 9).bind(2);
  return drawCase(targets[index % targets.length], r.int(0, 1 << 30), r, variable);
}

if (import.meta.main) {
  const given = parseArgs(Deno.args, {
    string: ["seed", "count", "only", "device", "case", "from"],
    boolean: ["errors", "show"],
  });
  const { seed = 1, count = 1000, device = "JS", only } = given, names = only?.split(",");
  await Device.open(device);
  Device.default = device;
  const targets = symbolicTargets().filter(({ name }) => names === undefined || names.includes(name));
  const errors = new Map<string, Set<string>>();
  let findings = 0, tried = 0;
  const from = Number(given.case ?? given.from ?? 0), end = given.case === undefined ? Number(count) : from + 1;
  for (let i = from; i < end; i++) {
    const c = caseOf(targets, Number(seed), i);
    if (c === undefined) continue;
    if (given.show) console.log(`${i}: ${c.text}`);
    tried++;
    const why = await checkCase(c, (message) => {
      const names = errors.get(message) ?? new Set();
      errors.set(message, names.add(c.target.name));
    });
    putBack(device);
    if (why === undefined) continue;
    findings++;
    console.log(`finding ${findings}, case ${i}: ${c.text}\n  ${why}\n`);
  }
  if (given.errors) { for (const [message, names] of errors) console.log(`${[...names].join(" ")}: ${message}`); }
  console.log(`${tried} calls with symbolic sizes on ${device}: ${findings} findings`);
  Deno.exit(findings === 0 ? 0 : 1);
}
