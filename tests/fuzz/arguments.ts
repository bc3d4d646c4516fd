/**
 * Wrong arguments to every public function: one or two arguments of a valid call are left out, or put in another's place,
 * or are `undefined`, `null`, of another type, or options of another function. Whatever comes: a value, or an error of one
 * of our classes that says "Cannot", what was tried, and why; where no value of JavaScript of that kind could be meant,
 * the error. Results are realized, so that a call that builds a graph that nothing can compute is found, too.
 *
 *     deno run -A tests/fuzz/arguments.ts --count 10000 --seed 7 [--device JS] [--only gather,nn] [--jobs 2] [--all] [--wrong]
 *
 * A case that takes more than ten seconds of a processor, or a minute by the clock, is a finding. `--all` tries every value
 * in every place once, `--wrong` only what its kind must refuse; `--jobs` shares the cases among so many programs.
 *
 * @module
 */
import process from "node:process";
import { parseArgs } from "@std/cli/parse-args";
import * as dinograd from "../../mod.ts";
import { Device, Tensor } from "../../mod.ts";
import { liveLeaves } from "../../src/tensor/gradients/origins.ts";
import { FAMILIES } from "../../src/tensor/families.ts";
import { LATE_FAMILIES } from "../../src/tensor/late_families.ts";
import { METHODS, STATICS } from "./parts/argument_calls.ts";
import type { Call } from "./parts/argument_makers.ts";
import { MEMBERS } from "./parts/argument_calls_members.ts";
import { CLASSES, FUNCTIONS, LEFT_OUT, SETTERS } from "./parts/argument_calls_more.ts";
import { type Arg, VALUES } from "./parts/argument_kinds.ts";
import { type Part, partOf, runParts } from "../support/parts.ts";
import { Random } from "../support/random.ts";

/** A public function: its name, a valid call of it, and how it is called. */
export interface Target {
  readonly name: string;
  readonly make: () => Call;
  readonly apply: (self: unknown, args: unknown[]) => unknown;
}

type Callable = (...args: unknown[]) => unknown;

// ---- what is public

/** What is private or protected in the sources, as "Class.member". */
function hiddenMembers(): Set<string> {
  const hidden = new Set<string>(), root = new URL("../../src/", import.meta.url);
  const visit = (folder: URL): void => {
    for (const entry of Deno.readDirSync(folder)) {
      if (entry.isDirectory) visit(new URL(`${entry.name}/`, folder));
      else if (entry.name.endsWith(".ts")) {
        let name = "";
        for (const line of Deno.readTextFileSync(new URL(entry.name, folder)).split("\n")) {
          name = /^(?:export )?(?:abstract )?class (\w+)/.exec(line)?.[1] ?? name;
          const member = /^ {2}(?:private|protected) (?:(?:static|abstract|override|async|readonly|get|set) )*\*?(\w+)/
            .exec(line);
          if (member !== null) hidden.add(`${name}.${member[1]}`);
        }
      }
    }
  };
  visit(root);
  return hidden;
}

/** The public methods of a class, its families and those it extends, each with the class that has it. */
function methodsOf(cls: { readonly prototype: object }, hidden: Set<string>): [name: string, owner: string][] {
  const found = new Map<string, string>(), secret = new Set<string>();
  const prototypes = cls === Tensor ? [...FAMILIES, ...LATE_FAMILIES].map((family): object => family.prototype) : [];
  for (let p = cls.prototype; p !== Object.prototype && p !== null; p = Object.getPrototypeOf(p)) prototypes.push(p);
  for (const p of prototypes) {
    const owner = (p.constructor as { name: string }).name;
    for (const name of Object.getOwnPropertyNames(p)) {
      if (hidden.has(`${owner}.${name}`)) secret.add(name);
      const own: unknown = Object.getOwnPropertyDescriptor(p, name)!.value;
      if (name !== "constructor" && typeof own === "function" && !found.has(name)) found.set(name, owner);
    }
  }
  return [...found].filter(([name]) => !secret.has(name));
}

const isClass = (x: unknown): x is { readonly prototype: object; readonly name: string } =>
  typeof x === "function" && /^class\b/.test(Function.prototype.toString.call(x));

/** All public functions that have a valid call, and the names of those that have none. */
export function publicFunctions(): {
  readonly targets: Target[];
  readonly missing: string[];
  readonly unknown: string[];
} {
  const hidden = hiddenMembers(), targets: Target[] = [], missing: string[] = [], used = new Set<unknown>();
  const take = (name: string, make: (() => Call) | undefined, apply: Target["apply"]): void => {
    if (make !== undefined) {
      targets.push({ name, make, apply });
      used.add(make);
    } else if (!Object.hasOwn(LEFT_OUT, name) && !Object.hasOwn(LEFT_OUT, name.split(".").at(-1)!)) missing.push(name);
  };
  const method = (name: string): Target["apply"] => (self, args) => (self as Record<string, Callable>)[name](...args);
  const setter = (name: string): Target["apply"] => (self, [x]) => {
    (self as Record<string, unknown>)[name] = x;
  };
  const own = <T>(table: Readonly<Record<string, T>>, name: string): T | undefined =>
    Object.hasOwn(table, name) ? table[name] : undefined;
  for (const [name] of methodsOf(Tensor, hidden)) take(name, own(METHODS, name), method(name));
  for (let c: object = Tensor; c !== Function.prototype; c = Object.getPrototypeOf(c)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(c))) {
      if (typeof value === "function") take(`Tensor.${name}`, own(STATICS, name), method(name));
    }
  }
  const visit = (value: unknown, name: string): void => {
    if (isClass(value)) {
      if (value.prototype instanceof Error) return; // made by the library
      take(
        `new ${name}`,
        own(CLASSES, name),
        (_, args) => new (value as unknown as new (...a: unknown[]) => object)(...args),
      );
      if (value === Tensor || Object.hasOwn(LEFT_OUT, `new ${name}`)) return;
      for (const [member, owner] of methodsOf(value, hidden)) {
        const row = own(MEMBERS, value.name) ?? own(MEMBERS, owner);
        take(`${name}.${member}`, row?.[member] ?? own(MEMBERS, owner)?.[member], method(member));
      }
    } else if (typeof value === "function") {
      take(name, own(FUNCTIONS, name), (self, args) => (value as Callable).apply(self, args));
      const row = own(MEMBERS, name);
      if (row !== undefined) take(`${name}(...)`, row.call, method("call"));
    } else if (typeof value === "object" && value !== null && (name.split(".").length < 3)) {
      if (name === "dtypes" || name === "nn.state" || name === "CONTEXT_VARS") return;
      for (const [key, x] of Object.entries(Object.getOwnPropertyDescriptors(value))) {
        if (x.value !== undefined) visit(x.value, `${name}.${key}`);
        else if (x.set !== undefined) take(`set ${name}.${key}`, own(SETTERS, `${name}.${key}`), setter(key));
        else visit(x.get!(), `${name}.${key}`);
      }
    }
  };
  for (const [name, value] of Object.entries(dinograd)) visit(value, name);
  for (const name of ["requiresGrad", "training"]) take(`set Tensor.${name}`, SETTERS[`Tensor.${name}`], setter(name));
  const tables = [METHODS, STATICS, FUNCTIONS, CLASSES, SETTERS, ...Object.values(MEMBERS)];
  const unknown = tables.flatMap((t) => Object.entries(t).filter(([, make]) => !used.has(make)).map(([name]) => name));
  return { targets, missing, unknown };
}

// ---- what is changed

/** A change of a valid call. */
export type Change =
  | { readonly kind: "value"; readonly at: number; readonly option?: string; readonly value: number }
  | {
    readonly kind: "element";
    readonly at: number;
    readonly option?: string;
    readonly index: number;
    readonly value: number;
  }
  | { readonly kind: "missing"; readonly at: number }
  | { readonly kind: "unknown option"; readonly at: number; readonly option: string }
  | { readonly kind: "swap"; readonly at: number; readonly to: number };

const known = new WeakMap<Target, Change[]>();

/** Every change of one place of a function's valid call. */
export function changesOf(target: Target): readonly Change[] {
  const made = known.get(target);
  if (made !== undefined) return made;
  const out: Change[] = [], call = target.make(), { args } = call;
  known.set(target, out);
  args.forEach((arg, at) => {
    out.push({ kind: "missing", at });
    VALUES.forEach((_, value) => out.push({ kind: "value", at, value }));
    const elements = (list: unknown, option?: string): void => {
      if (!Array.isArray(list)) return;
      list.forEach((_, index) => VALUES.forEach((_, value) => out.push({ kind: "element", at, option, index, value })));
    };
    for (const [option, { value: valid }] of Object.entries(arg.options ?? {})) {
      VALUES.forEach((_, value) => out.push({ kind: "value", at, option, value }));
      elements(valid, option);
      out.push({ kind: "unknown option", at, option });
    }
    elements(arg.value);
    for (let to = at + 1; to < args.length; to++) out.push({ kind: "swap", at, to });
  });
  putBack(Device.default);
  return out;
}

interface Changed {
  readonly args: unknown[];
  /** Whether only an error is right. */
  readonly mustFail: boolean;
  /** The same call with what is `undefined` left out, if that is all. */
  readonly without?: unknown[];
  readonly text: string;
}

const isRecord = (x: unknown): x is Record<string, unknown> => typeof x === "object" && x !== null;

/** Whether an argument may be this. */
function may(arg: Arg, x: unknown): boolean {
  return arg.kind.fits(x) || arg.optional && (x === undefined || x === null);
}

/** A call with changes; undefined where it must not be tried. */
function changed(call: Call, changes: readonly Change[]): Changed | undefined {
  let args = call.args.map((a) => a.value), mustFail = false, without: unknown[] | undefined;
  const texts: string[] = [];
  for (const c of changes) {
    const arg = call.args[c.at];
    if (c.kind === "missing") {
      if (args.length <= c.at) continue;
      args = args.slice(0, c.at);
      mustFail ||= !arg.optional && !arg.kind.fits(undefined);
      texts.push(`without argument ${c.at}`);
    } else if (c.kind === "swap") {
      if (args.length <= c.to) continue;
      [args[c.at], args[c.to]] = [args[c.to], args[c.at]];
      texts.push(`arguments ${c.at} and ${c.to} swapped`);
    } else if (c.kind === "unknown option") {
      if (args.length <= c.at || typeof args[c.at] !== "object") continue;
      const typo = c.option.toLowerCase() === c.option ? `${c.option}s` : c.option.toLowerCase();
      args[c.at] = { ...args[c.at] as object, [typo]: true };
      mustFail = true;
      texts.push(`with option ${typo}`);
    } else if (c.kind === "element") {
      const [name, make] = VALUES[c.value], x = make(), given = args[c.at], { option } = c;
      const list = option === undefined ? given : isRecord(given) ? given[option] : undefined;
      if (!Array.isArray(list) || c.index >= list.length) continue;
      const into = option === undefined ? arg : arg.options![option];
      if (into.kind.guarded && may(into, x)) return undefined;
      const next = list.with(c.index, x);
      args[c.at] = option === undefined ? next : { ...given as object, [option]: next };
      mustFail ||= !may(into, next);
      texts.push(`${option ?? `argument ${c.at}`}[${c.index}] = ${name}`);
    } else {
      const [name, make] = VALUES[c.value], x = make();
      if (args.length <= c.at) continue;
      const into = c.option === undefined ? arg : arg.options![c.option];
      if (into.kind.guarded && into.kind.fits(x) || typeof x === "number" && x > (into.kind.tooLarge ?? Infinity)) {
        return undefined;
      }
      if (c.option === undefined) {
        if (x === undefined && arg.optional && c.at === args.length - 1) without = args.slice(0, c.at);
        args[c.at] = x;
      } else {
        if (typeof args[c.at] !== "object" || args[c.at] === null) continue;
        if (x === undefined && into.optional) {
          const rest = { ...args[c.at] as Record<string, unknown> };
          delete rest[c.option];
          without = [...args.slice(0, c.at), rest, ...args.slice(c.at + 1)];
        }
        args[c.at] = { ...args[c.at] as object, [c.option]: x };
      }
      mustFail ||= !may(into, x);
      texts.push(`${c.option ?? `argument ${c.at}`} = ${name}`);
    }
  }
  // a second change may have made good what the first one spoiled
  return {
    args,
    mustFail: mustFail && changes.length === 1,
    without: changes.length === 1 ? without : undefined,
    text: texts.join(", "),
  };
}

// ---- what comes of it

const OURS = new Set<unknown>([
  dinograd.ArgumentError,
  dinograd.DTypeError,
  dinograd.DataError,
  dinograd.DeviceError,
  dinograd.DisposedError,
  dinograd.FormatError,
  dinograd.IndexError,
  dinograd.JitError,
  dinograd.OutOfMemoryError,
  dinograd.ShapeError,
  dinograd.StaleReadError,
]);
const INTERNAL = /\[object|is not a function|not iterable|reading '|=>|class Wrong \{|native code/;
const MOST = 20_000;

/** Why an error is not as it should be; undefined where it is. */
function faultOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return `threw ${typeof error}`;
  const file = error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
  if (file) return undefined;
  if (!OURS.has(error.constructor)) return `${error.constructor.name}: ${error.message}\n${error.stack}`;
  const text = error.message;
  if (!/^Cannot \S/.test(text) || INTERNAL.test(text) || text.endsWith(".")) return `text: ${text}`;
  return undefined;
}

function tensorsIn(x: unknown, found: Tensor[] = [], depth = 0): Tensor[] {
  if (x instanceof Tensor) found.push(x);
  else if (typeof x === "object" && x !== null && depth < 6 && !ArrayBuffer.isView(x)) {
    for (const value of Object.values(x)) tensorsIn(value, found, depth + 1);
  }
  return found;
}

/** What a call came to: an error, or the shapes and dtypes of its tensors, which are computed. */
async function outcome(
  target: Target,
  call: Call,
  args: unknown[],
): Promise<{ error?: unknown; result?: unknown; text: string }> {
  const act = (): unknown => target.apply(call.self, args);
  try {
    let result = await (call.training ? Tensor.train(act) : act());
    // what is given back as it was is no function of tensors
    if (typeof result === "function" && !args.includes(result)) {
      result = await (result as Callable)(Tensor.ones([2, 3]));
    }
    const found = tensorsIn(result), texts: string[] = [];
    for (const t of found) {
      if (!t.shape.every((n) => Number.isSafeInteger(n) && n >= 0)) throw new Error(`shape [${t.shape}]`);
      texts.push(`${t.dtype}[${t.shape}]`);
    }
    const small = found.filter((t) => t.numel() <= MOST && t.device !== "NULL");
    if (small.length > 0) Tensor.realize(small);
    return { result, text: texts.join() };
  } catch (error) {
    // names of files that were begun differ
    return { error, text: error instanceof Error ? error.message.replace(/\w+\.part/, "part") : typeof error };
  }
}

/** Puts back what setters change, and takes gradients off: every `backward()` looks at all tensors that want one. */
export function putBack(device: string): void {
  if (Tensor.training) Tensor.training = false;
  if (Device.default !== device) Device.default = device;
  for (const t of liveLeaves()) t.requiresGrad = false;
}

/** Tries a change of a call: what is wrong with what came of it, or undefined. */
export async function tryCase(target: Target, changes: readonly Change[]): Promise<{ text: string; why?: string }> {
  const before = Device.default, call = target.make(), made = changed(call, changes);
  if (made === undefined || made.text === "") return { text: "" };
  const text = `${target.name}: ${made.text}`;
  const got = await outcome(target, call, made.args);
  putBack(before);
  if (got.error !== undefined) {
    const why = faultOf(got.error);
    if (why !== undefined) return { text, why };
  } else if (made.mustFail) return { text, why: `accepted; it gave ${got.text || "no tensor"}` };
  if (made.without === undefined) return { text };
  const again = target.make(), want = await outcome(target, again, changed(again, changes)!.without!);
  putBack(before);
  if (want.text === got.text) return { text };
  return { text, why: `with undefined: ${got.text}\nwithout: ${want.text}` };
}

/** Case `index` of `seed`: a function and one change of a valid call of it, sometimes two. */
export function caseOf(targets: readonly Target[], seed: number, index: number): [Target, Change[]] {
  const random = new Random(seed * 1_000_003 + index), pick = <T>(list: readonly T[]): T => random.pick(list);
  for (;;) {
    const target = pick(targets), all = changesOf(target);
    if (all.length === 0) continue;
    return [target, random.int(0, 3) === 0 ? [pick(all), pick(all)] : [pick(all)]];
  }
}

// ---- the command line

interface Job extends Part {
  readonly seed: number;
  readonly from: number;
  readonly count: number;
  readonly device: string;
  readonly only?: string;
  readonly all: boolean;
  readonly wrong: boolean;
}

/** The changes of a function's valid call that alone must be refused. */
export function wrongChanges(target: Target): Change[] {
  const call = target.make();
  putBack(Device.default);
  return changesOf(target).filter((c) => changed(call, [c])?.mustFail === true);
}

/** In a worker, so that what never ends can be ended. */
async function work({ seed, from, count, device, only, all, wrong, part, parts }: Job): Promise<void> {
  const post = (message: unknown): void => (self as unknown as { postMessage(m: unknown): void }).postMessage(message);
  await Device.open(device);
  Device.default = device;
  const names = only?.split(","),
    targets = publicFunctions().targets.filter((t) => names === undefined || names.includes(t.name));
  const tried = (t: Target): readonly Change[] => wrong ? wrongChanges(t) : changesOf(t);
  const every = all || wrong ? targets.flatMap((t) => tried(t).map((c): [Target, Change[]] => [t, [c]])) : undefined;
  const end = every === undefined ? count : every.length;
  for (let i = from; i < end; i++) {
    if (i % parts !== part) continue;
    const [target, changes] = every?.[i] ?? caseOf(targets, seed, i);
    post({ index: i, text: `${target.name} ${JSON.stringify(changes)}` });
    const { text, why } = await tryCase(target, changes);
    if (why !== undefined) post({ finding: `${text}\n  ${why}` });
  }
  post({ done: end });
}

/** What processors have spent on this program, in milliseconds. */
function spentMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

const inWorker = "WorkerGlobalScope" in globalThis;
if (import.meta.main && !inWorker) {
  const { seed = 1, count = 1000, device = "WASM", only, all, wrong, jobs = 1, ...share } = parseArgs(
    Deno.args,
    {
      string: ["seed", "count", "device", "only", "jobs", "part", "parts"],
      boolean: ["all", "wrong"],
    },
  );
  if (Number(jobs) > 1) Deno.exit(await runParts(import.meta.url, Number(jobs)));
  const job = {
    seed: Number(seed),
    count: Number(count),
    device,
    only,
    all,
    wrong,
    ...partOf(share),
  };
  let findings = 0, from = 0, done = false;
  const tell = (text: string): void => {
    findings++;
    console.log(`finding ${findings}: ${text}\n`);
  };
  while (!done) {
    const worker = new Worker(import.meta.url, { type: "module" });
    let last = "", at = from, beat = performance.now(), spent = spentMs();
    await new Promise<void>((resolve) => {
      const next = (): void => {
        clearInterval(watch);
        resolve();
      };
      const watch = setInterval(() => {
        const isFirst = at === from; // which loads the sources, too
        if (performance.now() - beat < 60_000 && (isFirst || spentMs() - spent < 10_000)) return;
        tell(`case ${at} takes more than ten seconds: ${last}`);
        from = at + 1;
        next();
      }, 500);
      worker.onerror = (event) => {
        event.preventDefault();
        tell(`case ${at} ended the program: ${last}\n  ${event.message}`);
        from = at + 1;
        next();
      };
      worker.onmessage = ({ data }) => {
        beat = performance.now();
        spent = spentMs();
        if (data.ready) worker.postMessage({ ...job, from });
        else if (data.finding !== undefined) tell(data.finding);
        else if (data.done !== undefined) {
          from = data.done;
          done = true;
          next();
        } else [at, last] = [data.index, data.text];
      };
    });
    if (!done) worker.terminate(); // which takes Deno with it where WEBGPU is open
  }
  const which = job.parts > 1 ? `, part ${job.part} of ${job.parts}` : "";
  console.log(`${from} calls with wrong arguments on ${job.device}${which}: ${findings} findings`);
  Deno.exit(findings === 0 ? 0 : 1);
} else if (inWorker) {
  const scope = globalThis as unknown as {
    onmessage: (event: MessageEvent<Job>) => void;
    postMessage(message: unknown): void;
  };
  scope.onmessage = ({ data }) => void work(data);
  scope.postMessage({ ready: true });
}
