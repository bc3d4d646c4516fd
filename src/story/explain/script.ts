/**
 * A run as one flat TypeScript program: what was in memory, a block of loops for each step, and a comparison of what came
 * out with what was recorded. It imports nothing and has no functions; calls and lines of the user's stand in comments.
 *
 * @module
 */
import { arrayName, type DType, DTYPES, dtypes } from "../../dtype/dtype.ts";
import { numbersOf } from "../../dtype/numbers.ts";
import { byteText } from "../../helpers/errors.ts";
import { scriptArray } from "../../renderer/c/typescript.ts";
import type { UOp } from "../../uop/core/uop.ts";
import type { Trace, TraceBuffer, TraceStep } from "./explain_record.ts";
import { statisticsText } from "./explain_values.ts";
import { DataFile, elementsOf, elementText, wrapList } from "./script_data.ts";
import { drawLines, type Folded } from "./script_draws.ts";
import {
  bound,
  type Changing,
  changingNumbers,
  type Column,
  columnsOf,
  findRepeats,
  foldedAst,
  numberOf,
  openAst,
  paramTypes,
  type Repeat,
  ScriptKernels,
  StepKeys,
} from "./script_kernels.ts";
import { arraysOf, type Moved, roundingOf } from "./script_rounding.ts";
import { type CallPath, pathOf, shortLine, sourceText } from "../program/calls.ts";
import { BufferNames, NameTable } from "./script_names.ts";

/** What a script is made of. */
export interface ScriptSpec {
  readonly trace: Trace;
  /** Names of buffers that the user has given. */
  readonly names: ReadonlyMap<TraceBuffer, string>;
  /** What the function returned. */
  readonly results: ReadonlySet<TraceBuffer>;
  /** Whether times stand in it. */
  readonly times: boolean;
  /** The name of the file with its numbers. */
  readonly dataFile: string;
  /** What stands on top, in lines. */
  readonly head: readonly string[];
  /** The share of the roofline that a step reached, where it is known. */
  readonly shareOf: (step: TraceStep) => number | undefined;
}

/** A script. */
export interface Script {
  readonly text: string;
  /** What the file beside it holds; empty where all numbers stand in the text. */
  readonly data: Uint8Array;
  /** What a buffer is called. */
  readonly nameOf: (b: TraceBuffer) => string;
}

/**
 * How far results may be from those recorded: the root of the mean square of the differences, relative to that of the
 * numbers. Sums are added in another order, and training divides by what is nearly nothing. One number alone may be eight
 * times as far, relative to the largest.
 */
const ALLOWED: ReadonlyMap<unknown, number> = new Map([
  [dtypes.float64, 2 ** -40],
  [dtypes.float32, 2 ** -10],
  [dtypes.float16, 2 ** -8],
  [dtypes.bfloat16, 2 ** -5],
  // bits, of which neighbors are one apart
  ...DTYPES.filter((d) => d.isFloat && d.bits === 8).map((d): [DType, number] => [d, 2 / 255]),
]);

/** Operations of a script that is run to see how far rounding moves what it comes to, at most. */
const MOST_TRIED = 2 ** 33;
/** The same where nothing is written over, and most scripts come near. */
const MOST_TRIED_PLAIN = 2 ** 25;
/** How many times as far as that a result may be: it is one of many ways to round. */
const WAYS = 8;

/** The largest of some numbers, of those that are finite. */
function largestOf(numbers: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < numbers.length; i++) if (Number.isFinite(numbers[i])) most = Math.max(most, Math.abs(numbers[i]));
  return most;
}
/** Whether a script finds numbers near enough to those that were recorded. */
function near(made: ArrayLike<number>, recorded: ArrayLike<number>, allowed: number): boolean {
  let difference = 0, apart = 0, all = 0;
  for (let i = 0; i < made.length; i++) {
    const a = Number(made[i]), b = Number(recorded[i]);
    if (b - b === 0) all += b * b;
    if (a === b || (a !== a && b !== b)) continue;
    difference = Math.max(difference, Math.abs(a - b) || Infinity);
    apart += (a - b) ** 2;
  }
  return difference <= 8 * allowed * largestOf(recorded) && Math.sqrt(apart) <= allowed * Math.sqrt(all);
}

/** Elements of a recorded result that stand in the text, at most. */
const INLINE_RECORDED = 16;

/** Characters of a comment that names a call, at most. */
const WIDEST = 120;

/** What a buffer is, as comments say it. */
export function bufferText({ dtype, size, buffer: { shape } }: TraceBuffer): string {
  return `${dtype}[${(shape ?? [size]).join(", ")}]`;
}

/** "12.3 MFLOP" */
function flopText(flops: number): string {
  const unit = flops >= 1e12 ? 1e12 : flops >= 1e9 ? 1e9 : flops >= 1e6 ? 1e6 : flops >= 1e3 ? 1e3 : 1;
  const name = { 1e12: "TFLOP", 1e9: "GFLOP", 1e6: "MFLOP", 1e3: "kFLOP", 1: "FLOP" }[unit];
  return `${Number((flops / unit).toPrecision(3))} ${name}`;
}

/** What a step took. */
export function costText({ item, timeMs, bufs }: TraceStep, times: boolean, share: number | undefined): string {
  const { runner } = item, parts: string[] = [];
  if (runner.kind === "CompiledKernel") {
    const { flops, bytes } = runner.program.linear;
    parts.push(`${flops > 0 ? `${flopText(flops)}, ` : ""}${byteText(bytes)}`);
  } else parts.push(byteText(bufs[0]?.buffer.nbytes ?? 0));
  if (times) parts.push(`${Number(timeMs.toPrecision(3))} ms`);
  // what a roofline is measured by lies in memory, not in caches
  if (times && share !== undefined) {
    parts.push(share > 1 ? "beyond the roofline, in caches" : `${Math.round(100 * share)} % of the roofline`);
  }
  return parts.join(", ");
}

class ScriptWriter {
  private readonly lines: string[] = [];
  private readonly declarations = new Map<string, string>();
  private readonly data = new DataFile();
  private readonly table = new NameTable();
  private readonly kernels = new ScriptKernels();
  private readonly names: BufferNames;
  private readonly declared = new Set<TraceBuffer>();
  private readonly inputs: string[] = [];
  /** Copies of what was in memory into what nobody has written: both are one array. */
  private readonly merged = new Map<TraceBuffer, TraceBuffer>();
  private readonly skipped = new Set<TraceStep>();
  /** Names of arrays that are the bytes of others, by name and dtype. */
  private readonly bytes = new Map<string, string>();
  /** Of each step, with its variables, and without its random draws. */
  private readonly folded: readonly (Folded | undefined)[];
  private readonly skip: number;
  private path: CallPath = { calls: [], method: "" };

  constructor(private readonly spec: ScriptSpec) {
    const { steps } = spec.trace;
    for (const s of steps) this.mergeCopy(s);
    this.names = new BufferNames(steps, spec.names, this.table);
    this.folded = steps.map(foldedAst);
    this.skip = commonCalls(steps);
  }

  /** The array that a buffer is in the script. */
  private arrayOf(b: TraceBuffer): TraceBuffer {
    return this.merged.get(b) ?? b;
  }
  private nameOf(b: TraceBuffer): string {
    return this.names.of(this.arrayOf(b));
  }

  private mergeCopy(step: TraceStep): void {
    if (step.kind !== "copy") return;
    const [to, from] = step.bufs;
    const isFirst = to.writers[0] === step.number && to.initial === undefined && to.part === undefined;
    const isOnly = from.readers.length === 1 && from.writers.length === 0 && from.part === undefined;
    if (!isFirst || !isOnly || from.initial === undefined || to.dtype !== from.dtype || to.size !== from.size) return;
    to.initial = from.initial;
    to.buffer.shape ??= from.buffer.shape;
    this.merged.set(from, to);
    this.skipped.add(step);
  }

  /** Declares an array: with what was in memory at the top, else here, empty. */
  private declare(b: TraceBuffer, indent: string, note: string = bufferText(b)): void {
    if (this.declared.has(b)) return;
    this.declared.add(b);
    const name = this.names.of(b), { part, dtype, size, initial } = b, Class = scriptArray(dtype);
    if (part !== undefined) {
      const of = this.arrayOf(part.of), base = this.names.of(of), { offset } = part;
      this.declare(of, indent);
      const isSame = of.dtype === dtype && offset % dtype.real.itemsize === 0;
      const start = offset / dtype.real.itemsize;
      const target = of.initial === undefined ? this.lines : this.inputs;
      target.push(
        isSame
          ? `${indent}const ${name} = ${base}.subarray(${start}, ${start + size}); // ${note}, a part of ${base}`
          : `${indent}const ${name} = new ${Class}(${base}.buffer, ${base}.byteOffset + ${offset}, ${size}); // ${note}`,
      );
    } else if (initial !== undefined) this.inputs.push(...this.data.declare(name, initial, dtype, note));
    else this.lines.push(`${indent}const ${name} = new ${Class}(${size}); // ${note}`);
  }

  /** Comments of the calls that lead from the step before to this one. */
  private tellPath(step: TraceStep, indent: string): void {
    const { calls, method } = pathOf(step.item.site), old = this.path.calls, now = calls.slice(this.skip);
    if (now.length === 0) return;
    let same = 0;
    while (
      same < old.length && same < now.length && old[same].name === now[same].name &&
      shortLine(old[same].at) === shortLine(now[same].at)
    ) {
      same++;
    }
    for (let i = old.length - 1; i > Math.max(same, 0); i--) {
      if (old[i].name !== "") this.lines.push(`${indent}// ${"  ".repeat(i)}<- ${old[i].name}`);
    }
    for (let i = same; i < now.length; i++) {
      const { name, at } = now[i], text = sourceText(at);
      const head = i > 0 && name !== "" ? `${name}, ` : "";
      const line = `${indent}// ${"  ".repeat(i)}${head}${shortLine(at)}${text === "" ? "" : `  ${text}`}`;
      this.lines.push(line.length > WIDEST ? `${line.slice(0, WIDEST - 4)} ...` : line);
    }
    if (method !== "" && (same < now.length || method !== this.path.method)) {
      this.lines.push(`${indent}// ${"  ".repeat(now.length)}${method}`);
    }
    this.path = { calls: now, method };
  }

  /** A step on arrays of these names, with the numbers of this run but for those that are called something. */
  private writeStep(
    step: TraceStep,
    params: readonly string[],
    indent: string,
    nameOf: (u: UOp) => string | undefined = () => undefined,
  ): void {
    const folded = this.folded[step.number],
      ast = bound(step, folded?.ast, nameOf),
      { item, kind, bufs, writes } = step,
      put = (text: string): void => {
        this.lines.push(indent + text);
      };
    switch (kind) {
      case "copy":
        return put(`${params[0]}.set(${params[1]});`);
      case "fill":
        return put(`${params[0]}.fill(${this.fillOf(step)});`);
      case "view":
      case "empty":
        return;
    }
    if (ast !== undefined) {
      const drawn = folded!.draws.map((draw) => {
        const name = this.table.take(`${this.nameOf(writes[0])}_bits`);
        drawLines(name, draw, draw.variables.map((u) => nameOf(u) ?? String(numberOf(item, u)))).forEach(put);
        return [draw.slot, name] as const;
      });
      const nameOfDraw = new Map(drawn);
      const own = paramTypes(ast).map((d, slot) => {
        if (slot >= bufs.length) return nameOfDraw.get(slot)!;
        const { dtype, buffer: { nbytes } } = bufs[slot], Class = d === undefined ? "" : scriptArray(d);
        if (d === undefined || Class === scriptArray(dtype)) return params[slot];
        return this.bytesAs(params[slot], d, nbytes / d.itemsize, Class, indent);
      });
      const { declarations, lines } = this.kernels.write(ast, own, (name) => this.table.has(name));
      for (const [name, text] of declarations) this.declarations.set(name, text);
      for (const line of lines) put(line);
      return;
    }
    const isText = item.runner.kind === "CompiledKernel";
    put(
      isText
        ? `// ${item.runner.name} is the user's own text: what it wrote was recorded`
        : `// ${item.runner}: what each device has of it was recorded`,
    );
    writes.forEach((b, i) => {
      const bytes = step.values[i] ?? b.last;
      if (bytes === undefined) return put(`// ${params[bufs.indexOf(b)]}: too large to be kept`);
      const name = this.table.take(`${this.nameOf(b)}_recorded`);
      this.inputs.push(...this.data.declare(name, bytes, b.dtype, ""));
      put(`${params[bufs.indexOf(b)]}.set(${name});`);
    });
  }

  /** The array that an array is by its bytes, read as another kind of number. */
  private bytesAs(name: string, { name: dtype }: DType, size: number, Class: string, indent: string): string {
    const key = `${name} ${dtype}`, known = this.bytes.get(key);
    if (known !== undefined) return known;
    const made = this.table.take(`${name}_${dtype}`);
    if (indent === "") this.bytes.set(key, made);
    this.lines.push(
      `${indent}const ${made} = new ${Class}(${name}.buffer, ${name}.byteOffset, ${size}); // bytes of ${name}`,
    );
    return made;
  }

  /** The head of a step: which it is, and what it took. */
  private tellStep(step: TraceStep, indent: string, more = ""): void {
    const { trace: { steps }, times, shareOf } = this.spec, { runner } = step.item;
    const kernels = steps.filter((s) => s.kind === "kernel");
    const what = runner.kind === "CompiledKernel"
      ? `kernel ${kernels.indexOf(step) + 1} of ${kernels.length}, ${runner.name}`
      : step.kind;
    const device = runner.kind === "CompiledKernel" ? ` on ${step.writes[0]?.device ?? runner.device}` : "";
    this.lines.push(`${indent}// ${what}${device}${more}: ${costText(step, times, times ? shareOf(step) : undefined)}`);
  }

  /** What a step has made, where that does not stand beside its declaration. */
  private tellResult(step: TraceStep, indent: string, params: readonly string[], told: ReadonlySet<TraceBuffer>): void {
    step.writes.forEach((b, i) => {
      if (told.has(b)) return;
      const name = params[step.bufs.indexOf(b)];
      this.lines.push(`${indent}// <- ${name}: ${bufferText(b)}, ${statisticsText(step.statistics[i])}`);
    });
  }

  private writeOnce(step: TraceStep): void {
    if (this.skipped.has(step) || step.kind === "view") return;
    if (step.kind === "fill" && this.writeFill(step)) return;
    this.tellPath(step, "");
    this.tellStep(step, "");
    const told = new Set<TraceBuffer>();
    for (const b of step.bufs) {
      const at = step.writes.indexOf(b),
        isNew = !this.declared.has(b) && b.initial === undefined && b.part === undefined;
      if (isNew && at >= 0) {
        told.add(b);
        this.declare(b, "", `${bufferText(b)}, ${statisticsText(step.statistics[at])}`);
      } else this.declare(this.arrayOf(b), "");
    }
    const params = step.bufs.map((b) => this.nameOf(b));
    this.writeStep(step, params, "");
    this.tellResult(step, "", params, told);
    this.lines.push("");
  }

  /** The value of a fill. */
  private fillOf({ values, writes, bufs: [{ dtype }] }: TraceStep): string {
    const bytes = values[0] ?? writes[0].last;
    return bytes === undefined ? "0" : elementText(elementsOf(bytes, dtype)[0] ?? 0, dtype);
  }

  /** A fill of what is not there yet is a declaration. */
  private writeFill(step: TraceStep): boolean {
    const b = this.arrayOf(step.bufs[0]), value = this.fillOf(step);
    if (this.declared.has(b) || b.initial !== undefined || b.part !== undefined) return false;
    this.declared.add(b);
    const fill = value === "0" || value === "0n" ? "" : `.fill(${value})`;
    this.lines.push(
      `const ${this.nameOf(b)} = new ${scriptArray(b.dtype)}(${b.size})${fill}; // ${bufferText(b)}, filled`,
    );
    return true;
  }

  /** Several times the same steps, as a loop over the arrays of each time. */
  private writeRepeat(repeat: Repeat): void {
    const { steps } = this.spec.trace, { start, period, times } = repeat, places = columnsOf(steps, repeat);
    const columns = [...new Set(places.flat())].filter((c): c is Column => "buffers" in c);
    const shared = columns.filter((c) => !c.isOwn), names = new Map<Column, string>();
    for (const b of new Set(places.flat())) if (!("buffers" in b)) this.declare(this.arrayOf(b), "");
    for (const c of shared) for (const b of c.buffers) this.declare(this.arrayOf(b), "");
    for (const c of columns) {
      const wishes = c.buffers.map((b) => c.isOwn ? this.names.wishOf(b) : this.nameOf(b));
      names.set(c, this.table.take(commonName(wishes)));
    }
    // numbers that are others each time, as the counter of random draws
    const of = (p: number): TraceStep[] => Array.from({ length: times }, (_, t) => steps[start + t * period + p]);
    const numbers = places.map((_, p) => changingNumbers(of(p), openAst(steps[start + p])));
    const keyOf = (u: UOp, { name, numbers }: Changing): string => `${u.dtype} ${name} ${numbers}`;
    const numberNames = new Map<string, string>(), rows: string[][] = Array.from({ length: times }, () => []);
    for (const [u, changing] of numbers.flatMap((m) => [...m])) {
      const key = keyOf(u, changing);
      if (numberNames.has(key)) continue;
      numberNames.set(key, this.table.take(changing.name.replace(/[\W_]+\d+$/, ""))); // variables are numbered
      const isBig = u.dtype.isInt && u.dtype.bits === 64;
      changing.numbers.forEach((n, t) => rows[t].push(elementText(isBig ? BigInt(n) : n, u.dtype)));
    }
    const indent = "  ";
    this.lines.push(`// ${times} times the same: steps ${start + 1} to ${start + period * times}`);
    this.path = { calls: [], method: "" };
    if (shared.length + numberNames.size === 0) this.lines.push(`for (let time = 0; time < ${times}; time++) {`);
    else {
      this.lines.push(
        ...wrapList("for (const [", [...shared.map((c) => names.get(c)!), ...numberNames.values()], "] of [", ""),
      );
      for (let t = 0; t < times; t++) {
        this.lines.push(...wrapList("[", [...shared.map((c) => this.nameOf(c.buffers[t])), ...rows[t]], "],", indent));
      }
      this.lines.push("] as const) {");
    }
    const made = new Set<Column>(), told = new Set<TraceBuffer>();
    places.forEach((slots, p) => {
      const step = steps[start + p];
      this.tellPath(step, indent);
      this.tellStep(step, indent, `, ${times} times`);
      for (const c of slots) {
        if (!("buffers" in c) || !c.isOwn || made.has(c)) continue;
        made.add(c);
        const [b] = c.buffers, at = step.writes.indexOf(b);
        const text = at < 0 ? "" : `, the first time ${statisticsText(step.statistics[at])}`;
        told.add(b);
        this.lines.push(
          `${indent}const ${names.get(c)} = new ${scriptArray(b.dtype)}(${b.size}); // ${bufferText(b)}${text}`,
        );
      }
      const params = slots.map((c) => "buffers" in c ? names.get(c)! : this.nameOf(c));
      const changing = numbers[p],
        callOf = (u: UOp): string | undefined => {
          const of = changing.get(u);
          return of && numberNames.get(keyOf(u, of));
        };
      this.writeStep(step, params, indent, callOf);
      this.tellResult(step, indent, params, told);
    });
    this.path = { calls: [], method: "" };
    this.lines.push("}", "");
  }

  private writeSteps(): void {
    const { steps } = this.spec.trace, keys = new StepKeys();
    const repeats = findRepeats(steps.map((s) => keys.keyOf(s, this.folded[s.number]?.ast)));
    for (let i = 0; i < steps.length;) {
      const repeat = repeats.find((r) => r.start === i);
      if (repeat === undefined) this.writeOnce(steps[i++]);
      else {
        this.writeRepeat(repeat);
        i += repeat.period * repeat.times;
      }
    }
  }

  /** The comparison of what the script has with what the run had at its end. */
  private writeChecks(): void {
    const { trace, results } = this.spec, { buffers } = trace;
    const made = buffers.filter((b) =>
      b.last !== undefined && b.size > 0 && this.declared.has(b) &&
      b.writers.some((n) => !this.skipped.has(trace.steps[n]))
    );
    if (made.length === 0) return;
    made.sort((a, b) => Number(results.has(b)) - Number(results.has(a)) || a.id - b.id);
    const rounding = this.rounding(made);
    this.lines.push("// What was recorded, and how far this script is from it.");
    const rows: string[][] = [], notes: string[] = [];
    for (const b of made) {
      const { dtype } = b, name = this.nameOf(b);
      const recorded = this.table.take(`${name}_recorded`), isBf16 = dtype === dtypes.bfloat16;
      let own = name;
      if (isBf16) {
        own = this.table.take(`${name}_numbers`);
        for (const [key, text] of bfloatViews()) this.declarations.set(key, text);
        this.lines.push(
          `const ${own} = new Float32Array(${b.size});`,
          `for (let i = 0; i < ${b.size}; i++) ${own}[i] = (u32[0] = ${name}[i] << 16, f32[0]);`,
        );
      }
      const shown = isBf16 ? dtypes.float32 : dtype;
      const bytes = isBf16 ? bytesOf(numbersOf(b.last!, dtype) as Float32Array) : b.last!;
      this.lines.push(...this.data.declare(recorded, bytes, shown, "", INLINE_RECORDED));
      const usual = ALLOWED.get(dtype.real) ?? 0,
        { mean, most, far } = rounding.get(name) ?? { mean: 0, most: 0, far: 0 };
      const isLoose = usual > 0 && (mean > usual || most > 8 * usual);
      const loose = Number((WAYS * Math.max(mean, most / 8)).toPrecision(3)), least = WAYS * far;
      // of numbers that cancel nothing may be left, of which no share is allowed
      const isFloored = isLoose && least > 8 * loose * largestOf(numbersOf(b.last!, dtype) as ArrayLike<number>);
      rows.push([
        `"${name}"`,
        own,
        recorded,
        String(isLoose && !isFloored ? loose : usual),
        isFloored ? least.toPrecision(2) : "0",
      ]);
      const moved = isFloored ? far.toPrecision(2) : `${Number((100 * most).toPrecision(2))} %`;
      notes.push(isLoose ? ` // rounding alone moves it by ${moved}` : "");
    }
    const hasFloors = rows.some((r) => r[4] !== "0");
    this.lines.push(
      "let isFar = false;",
      `for (const [name, made, recorded, allowed${hasFloors ? ", floor" : ""}] of [`,
      ...rows.map((r, i) => `  [${r.slice(0, hasFloors ? 5 : 4).join(", ")}],${notes[i]}`),
      "] as const) {",
      "  let difference = 0, largest = 0, apart = 0, all = 0;",
      "  for (let i = 0; i < made.length; i++) {",
      "    const a = Number(made[i]), b = Number(recorded[i]);",
      "    if (b - b === 0) [largest, all] = [Math.max(largest, Math.abs(b)), all + b * b];",
      "    if (made[i] === recorded[i] || (a !== a && b !== b)) continue;",
      "    difference = Math.max(difference, Math.abs(a - b) || Infinity);",
      "    apart += (a - b) ** 2;",
      "  }",
      '  const shown = made.length <= 10 ? made.join(", ") : `${made.slice(0, 6).join(", ")}, ... (${made.length} numbers)`;',
      "  console.log(`${name}: ${shown}; largest difference ${difference}`);",
      ...(hasFloors ? ["  if (difference <= floor) continue;"] : []),
      "  if (!(difference <= 8 * allowed * largest && Math.sqrt(apart) <= allowed * Math.sqrt(all))) isFar = true;",
      "}",
      'if (isFar) throw new Error("a result is farther from the recorded one than its dtype allows");',
    );
  }

  /**
   * How far rounding moves the results of a run that writes over what it reads, as training does: there gradients are
   * divided by their own size. Others are tried where their script does not come near: there numbers cancel.
   */
  private rounding(made: readonly TraceBuffer[]): ReadonlyMap<string, Moved> {
    let flops = 0, isInPlace = false;
    const read = new Set<TraceBuffer>();
    for (const { item: { runner }, reads, writes } of this.spec.trace.steps) {
      if (runner.kind === "CompiledKernel") flops += runner.program.linear.flops;
      for (const b of reads) read.add(b);
      // operations as written copy there what a kernel made
      isInPlace ||= writes.some((b) => ALLOWED.has(b.dtype.real) && read.has(b));
    }
    if (flops > (isInPlace ? MOST_TRIED : MOST_TRIED_PLAIN)) return new Map();
    const text = this.text(), names = made.map((b) => this.nameOf(b)), { bytes } = this.data;
    if (!isInPlace) {
      const arrays = arraysOf(text, bytes, names);
      const isNear = (b: TraceBuffer, i: number): boolean => {
        const usual = ALLOWED.get(b.dtype) ?? 0;
        return usual === 0 ||
          near(arrays![i] as ArrayLike<number>, numbersOf(b.last!, b.dtype) as ArrayLike<number>, usual);
      };
      if (arrays === undefined || made.every(isNear)) return new Map();
    }
    return roundingOf(text, bytes, names);
  }

  /** The script so far. */
  private text(): string {
    const { head, dataFile } = this.spec, top = head.map((line) => `// ${line}`.trimEnd());
    if (!this.data.isEmpty) {
      top.push("", `const data = Deno.readFileSync(new URL("${dataFile}", import.meta.url)).buffer;`);
    }
    if (this.declarations.size > 0) top.push("", ...this.declarations.values());
    if (this.inputs.length > 0) top.push("", "// What was in memory before.", ...this.inputs);
    return [...top, "", ...this.lines].join("\n").replace(/\n{3,}/g, "\n\n").trimEnd() + "\n";
  }

  write(): Script {
    this.writeSteps();
    this.writeChecks();
    return { text: this.text(), data: this.data.bytes, nameOf: (b) => this.nameOf(b) };
  }
}

function bytesOf(x: Float32Array): Uint8Array {
  return new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
}

/** Declarations by which the check reads bfloat16. */
function bfloatViews(): readonly (readonly [string, string])[] {
  return [
    ["bits", "const bits = new ArrayBuffer(8); // the same bytes as one kind of number and another"],
    ["f32", `const f32 = new ${arrayName(dtypes.float32)}(bits);`],
    ["u32", `const u32 = new ${arrayName(dtypes.uint32)}(bits);`],
  ];
}

/** How many of the outermost calls all steps share, but the last. */
function commonCalls(steps: readonly TraceStep[]): number {
  const paths = steps.map((s) => pathOf(s.item.site).calls).filter((calls) => calls.length > 0);
  if (paths.length === 0) return 0;
  let same = 0;
  while (paths.every((p) => same < p.length - 1 && p[same].at === paths[0][same].at)) same++;
  return same;
}

/** What names have in common: "blocks_weight" of "blocks_0_weight" and "blocks_1_weight". */
function commonName(names: readonly string[]): string {
  if (names.every((n) => n === names[0])) return names[0];
  const split = names.map((n) => n.split("_"));
  const words = split[0].filter((word, i) => split.every((s) => s[i] === word));
  return words.length > 0 && split.every((s) => s.length === split[0].length)
    ? words.join("_")
    : names[0].replace(/_\d+/g, "");
}

/** Writes the script of a run. */
export function writeScript(spec: ScriptSpec): Script {
  return new ScriptWriter(spec).write();
}
