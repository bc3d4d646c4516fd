/**
 * `explain`: what a function computed, as a program to read and run, as a story, and number by number.
 *
 * @module
 */
import { getDevice } from "../../device/device.ts";
import { stepLog } from "../../engine/exec.ts";
import { type Roofline, rooflineOf } from "../../engine/roofline.ts";
import { isGenerator } from "../../helpers/async_local.ts";
import { context } from "../../helpers/env.ts";
import { ArgumentError, IndexError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { checkOptions, describe } from "../../helpers/options.ts";
import { listen } from "../../helpers/spans.ts";
import { lineText, siteFrames } from "../../helpers/stack.ts";
import { listenToNotes, type Note } from "../../uop/core/notes.ts";
import type { PassRecord } from "../../uop/core/recording.ts";
import { recordAll } from "../../uop/rewrite/record.ts";
import { getStateDict, namesHeard } from "../../state/state_dict.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { realizedMemory } from "../../tensor/realize.ts";
import { Elements, type ElementTree, treeText } from "./explain_element.ts";
import { type Trace, type TraceBuffer, TraceRecorder, type TraceStep } from "./explain_record.ts";
import { storyText } from "./story_text.ts";
import { vizPage } from "../viz/page.ts";
import { VizRecorder } from "../viz/viz_data.ts";
import { type Script, writeScript } from "./script.ts";

/** Options of {@linkcode explain}. */
export interface ExplainOptions {
  /** "kernel", the default: a block of loops for each kernel that ran. "tensor": one for each operation as written. */
  readonly level?: "kernel" | "tensor";
  /** Whatever has tensors inside, as a model or `{ model, x }`: arrays are called as in its state dict. */
  readonly names?: unknown;
  /** Whether times, and shares of the roofline, stand in the texts; true unless given. */
  readonly times?: boolean;
  /** Steps that are recorded, at most; later ones run, and are left out. Default 2,000. */
  readonly limit?: number;
  /** What the file with the numbers of the script is called. Default "script.bin". */
  readonly dataFile?: string;
  /** Whether every rewrite of the compiler is recorded, for `page()`: it takes longer. Default false. */
  readonly passes?: boolean;
}

const KNOWN = ["level", "names", "times", "limit", "dataFile", "passes"];
const LIMIT = 2000;
const GENERATOR = "its body runs when it is asked for values, after explain has ended; explain what asks for them";

/** Lists the tensors in a value: itself, or what a tree of them has. */
function tensorsIn(value: unknown): Tensor[] {
  return typeof value === "object" && value !== null ? Object.values(getStateDict(value)) : [];
}

/** The shape of a buffer; a list where none is known. */
function shapeIn({ buffer: { shape }, size }: TraceBuffer): readonly number[] {
  return shape !== undefined && prod(shape) === size ? shape : [size];
}

/** What ran in a function. Texts are made when they are asked for. */
export class Explanation {
  /** What the function returned, its tensors realized; undefined where it threw. */
  readonly result: unknown;
  /** What the function threw: all else is about what ran before. */
  readonly error: unknown;
  /**
   * What ran, as the texts are made from it.
   *
   * @internal
   */
  readonly trace: Trace;
  private readonly names: ReadonlyMap<TraceBuffer, string>;
  private readonly results: ReadonlySet<TraceBuffer>;
  private made: Script | undefined;
  private elements: Elements | undefined;

  /** Internal: use {@linkcode explain}. */
  constructor(
    outcome: { readonly result?: unknown; readonly error?: unknown },
    trace: Trace,
    private readonly options: ExplainOptions,
    before: ReadonlyMap<unknown, string>,
    readonly notes: readonly Note[],
    private readonly viz: VizRecorder,
    listed: Iterable<readonly [string, Tensor]>,
  ) {
    this.result = outcome.result;
    this.error = outcome.error;
    this.trace = trace;
    const named = new Map([...namesOfBuffers(listed), ...before, ...namedBuffers(options.names)]);
    this.names = new Map(trace.buffers.flatMap((b) => named.has(b.whole) ? [[b, named.get(b.whole)!]] : []));
    const returned = new Map(tensorsIn(this.result).map((t) => [realizedMemory(t.uop), t.shape]));
    this.results = new Set(trace.buffers.filter((b) => returned.has(b.whole)));
    for (const b of this.results) if (b.whole === b.buffer) b.buffer.shape = returned.get(b.buffer);
  }

  /** The script and its names, made once. */
  private get parts(): Script {
    return this.made ??= writeScript({
      trace: this.trace,
      names: this.names,
      results: this.results,
      times: this.options.times !== false,
      dataFile: this.options.dataFile ?? "script.bin",
      head: this.head(),
      shareOf: (step) => shareOf(step),
    });
  }

  /** What stands on top of texts. */
  private head(): string[] {
    const { steps, isCut } = this.trace, kernels = steps.filter((s) => s.kind === "kernel").length;
    const devices = [
      ...new Set(steps.flatMap(({ item: { runner: r } }) => r.kind === "CompiledKernel" ? [r.device] : [])),
    ];
    const level = this.options.level === "tensor" ? ", one or more for each operation as written" : "";
    const lines = [
      `What a program computed, written by dinograd's explain: ${kernels} ${
        kernels === 1 ? "kernel" : "kernels"
      }${level}` +
      `${devices.length > 0 ? `, recorded on ${devices.join(", ")}` : ""}.`,
    ];
    if (steps.length === 0 && this.error === undefined) {
      lines.push("Nothing was computed in it: what it makes is computed where it is returned, realized or read.");
    }
    if (isCut) lines.push(`It went on after the ${steps.length} steps that are here.`);
    if (this.error !== undefined) lines.push(`It stopped here: ${String(this.error).split("\n")[0]}`);
    return lines;
  }

  /**
   * A TypeScript program that imports nothing, calls nothing but `Math`, and computes the same numbers: `deno run
   * --allow-read=script.bin script.ts` prints them, and how far they are from what was recorded.
   */
  get script(): string {
    return this.parts.text;
  }
  /**
   * The same in Markdown: what was written, what was decided and why, how each kernel was shaped, what ran, ranges of all
   * values with the first NaN or infinity. Every sentence is a recorded fact.
   */
  get story(): string {
    const { trace, notes } = this, times = this.options.times !== false;
    return storyText({
      trace,
      notes,
      nameOf: this.parts.nameOf,
      head: this.head(),
      times,
      shareOf: (s) => shareOf(s),
      notFiniteBy: (step, b, at) => this.behind().notFinite(step, b, at),
    });
  }

  /** One self-contained HTML file: the page of VIZ on what ran. With the option `passes` it has every rewrite too. */
  page(): Promise<string> {
    return vizPage(this.viz.data());
  }

  /** All of it as plain data. */
  toJSON(): ExplanationData {
    const { trace: { steps, buffers, isCut }, notes, error, parts: { nameOf } } = this;
    return {
      format: "dinograd explanation",
      version: 1,
      ...(error === undefined ? {} : { error: String(error) }),
      isCut,
      arrays: buffers.map((b) => ({ name: nameOf(b), dtype: b.dtype.name, shape: shapeIn(b), device: b.device })),
      steps: steps.map((s) => ({
        kind: s.kind,
        line: s.item.site === undefined ? undefined : lineText(s.item.site),
        reads: s.reads.map(nameOf),
        writes: s.writes.map(nameOf),
        statistics: s.statistics,
        timeMs: s.timeMs,
        ...kernelData(s),
      })),
      notes: notes.map((n) => ({
        kind: n.kind,
        text: n.text,
        numbers: n.numbers,
        line: n.node.line === undefined ? undefined : lineText(n.node.line),
        of: n.of === undefined ? undefined : `${n.of.kind} ${n.of.number}${n.of.name === "" ? "" : ` ${n.of.name}`}`,
      })),
      script: this.script,
      story: this.story,
    };
  }

  /**
   * The numbers behind one element: what it was computed from, of sums the largest terms first, and the same for those, down
   * to what was in memory before. `at([3, 1])` of the first tensor that the function returned, or of the array `of` of the
   * script. The tree prints as lines.
   *
   * @throws {IndexError} for an element that is not there
   * @throws {ArgumentError} for an index that is no list, and an array that the script does not have
   */
  at(index: readonly number[], options: { readonly of?: string; readonly limit?: number } = {}): ElementTree {
    if (!Array.isArray(index)) {
      throw new ArgumentError("explain an element", {
        reason: `its index must be a list, as [3, 1] or [] of one number, not ${describe(index)}`,
      });
    }
    checkOptions("explain an element", options, ["of", "limit"]);
    const { trace } = this, { of, limit = TREE_LINES } = options;
    const [result] = [...this.results, ...trace.buffers.filter((b) => b.last !== undefined).reverse()];
    const b = of === undefined ? result : trace.buffers.find((x) => this.parts.nameOf(x) === of);
    if (b === undefined) {
      const reason = of === undefined ? "nothing ran" : `the script has no array ${of}`;
      throw new ArgumentError("explain an element", { reason });
    }
    const shape = shapeIn(b),
      isIn = index.length === shape.length &&
        index.every((x, i) => Number.isInteger(x) && x >= 0 && x < shape[i]);
    if (!isIn) {
      throw new IndexError("explain an element", {
        reason: `[${index.join(", ")}] is none of ${this.parts.nameOf(b)}, of shape [${shape.join(", ")}]`,
      });
    }
    const flat = index.reduce((at, x, i) => at * shape[i] + x, 0);
    const tree = this.behind().tree(b, flat, limit);
    return Object.defineProperties(tree, {
      toString: { value: () => treeText(tree) },
      [Symbol.for("Deno.customInspect")]: { value: () => treeText(tree) },
    });
  }

  /** What tells of single elements. */
  private behind(): Elements {
    return this.elements ??= new Elements(this.trace, this.parts.nameOf, shapeIn);
  }

  /** What the file beside the script holds; empty where it needs none. */
  get data(): Uint8Array {
    return this.parts.data;
  }
}

/** Lines of a tree of elements, about. */
const TREE_LINES = 40;

/** An explanation as `JSON.stringify` gives it. Names are those of the script. */
export interface ExplanationData {
  /** What this is. */
  readonly format: string;
  /** Of the format. */
  readonly version: number;
  /** What the function threw. */
  readonly error?: string;
  /** Whether steps were left out. */
  readonly isCut: boolean;
  /** Memory that was used. */
  readonly arrays: readonly object[];
  /** Steps in order. */
  readonly steps: readonly object[];
  /** Reasons that were recorded. */
  readonly notes: readonly object[];
  /** The program that computes the same. */
  readonly script: string;
  /** What happened, as Markdown. */
  readonly story: string;
}

/** What a kernel is and does. */
function kernelData({ item: { runner } }: TraceStep): object {
  if (runner.kind !== "CompiledKernel") return {};
  const { source, linear: { name, opts, flops, bytes } } = runner.program;
  return { name, device: runner.device, opts, flops, bytes, source };
}

/** What a device reaches at best; undefined where it is gone. */
function roofOf(device: string): Roofline | undefined {
  try {
    return rooflineOf(getDevice(device));
  } catch {
    return undefined;
  }
}

/** Part of what the device reaches at best, by arithmetic or by memory; undefined where it is not known. */
function shareOf({ item: { runner }, timeMs }: TraceStep): number | undefined {
  if (runner.kind !== "CompiledKernel" || timeMs <= 0) return undefined;
  const roof = roofOf(runner.device), { flops, bytes } = runner.program.linear;
  return roof === undefined ? undefined : Math.max(flops / roof.gflops, bytes / roof.gbs) / 1e6 / timeMs;
}

function namedBuffers(tree: unknown): Map<unknown, string> {
  return namesOfBuffers(tree === undefined ? [] : Object.entries(getStateDict(tree)));
}
function namesOfBuffers(named: Iterable<readonly [string, Tensor]>): Map<unknown, string> {
  const out = new Map<unknown, string>();
  for (const [name, t] of named) {
    const buffer = realizedMemory(t.uop);
    if (buffer === undefined || out.has(buffer)) continue;
    buffer.shape = t.shape;
    out.set(buffer, name);
  }
  return out;
}

/**
 * Runs a function, or realizes a tensor, and explains what ran. What the function returns is realized with it: a tensor, or
 * anything that has tensors inside. Steps run one by one meanwhile, those of captured functions too. Where the function
 * throws, `error` is what it threw, and the rest is about what ran before.
 *
 * ```ts
 * import { Tensor } from "../../../mod.ts";
 * import { explain } from "./explain.ts";
 * const x = new Tensor([[1, 2], [3, 4]]);
 * const e = explain(() => x.softmax(), { names: { x } });
 * console.log(e.script.includes("Math.exp")); // true
 * ```
 *
 * @throws {ArgumentError} for a tensor that is realized already, and a generator, whose body would run later
 */
export function explain<T>(f: () => Promise<T>, options?: ExplainOptions): Promise<Explanation>;
/** The same for what is not async. */
export function explain(f: Tensor | (() => unknown), options?: ExplainOptions): Explanation;
export function explain(
  f: Tensor | (() => unknown),
  options: ExplainOptions = {},
): Explanation | Promise<Explanation> {
  checkOptions("explain", options, KNOWN);
  const { level = "kernel", limit = LIMIT } = options;
  if (level !== "kernel" && level !== "tensor") {
    throw new ArgumentError("explain", { reason: `level must be "kernel" or "tensor", not ${describe(level)}` });
  }
  if (f instanceof Tensor && f.isRealized) {
    throw new ArgumentError("explain a tensor", {
      reason: "it is realized already; pass the function that makes it: explain(() => ...)",
    });
  }
  if (!(f instanceof Tensor) && typeof f !== "function") {
    throw new ArgumentError("explain", { reason: `it takes a tensor or a function, not ${describe(f)}` });
  }
  const recorder = new TraceRecorder(limit), before = namedBuffers(options.names);
  const listed = new Map<Tensor, string>();
  const notes: Note[] = [], viz = new VizRecorder("explain"), passes: PassRecord[] = [], stops: (() => void)[] = [];
  const start = (): void => {
    siteFrames.wanted++;
    stops.push(
      stepLog.listen(recorder),
      // a model is called as where the program lists its tensors; numbers alone are no names
      namesHeard.listen((name, t) => {
        if (!listed.has(t) && /[A-Za-z]/.test(name)) listed.set(t, name);
      }),
      listenToNotes((n) => notes.push(n)),
      listenToNotes((n) => viz.note(n)),
      listen((s) => viz.hear(s)),
    );
    if (options.passes === true) stops.push(recordAll(passes));
  };
  const stop = (): void => {
    for (const end of stops) end();
    siteFrames.wanted--;
    viz.take(passes);
  };
  const realized = (result: unknown): { readonly result: unknown } => {
    const lazy = tensorsIn(result).filter((t) => !t.isRealized);
    if (lazy.length > 0) Tensor.realize(lazy);
    return { result };
  };
  const explained = (outcome: { readonly result?: unknown; readonly error?: unknown }): Explanation => {
    stop();
    return new Explanation(
      outcome,
      recorder.trace,
      options,
      before,
      notes,
      viz,
      [...listed].map(([t, name]) => [name, t]),
    );
  };
  let refused: ArgumentError | undefined;
  start();
  try {
    return context({ TRACEMETA: 1, FUSE: level === "kernel" ? 1 : 0 }, () => {
      const result = f instanceof Tensor ? f.realize() : f();
      if (isGenerator(result)) refused = new ArgumentError("explain a generator", { reason: GENERATOR });
      if (refused !== undefined) throw refused;
      if (!(result instanceof Promise)) return explained(realized(result));
      return result.then((r) => explained(realized(r)), (error) => explained({ error }));
    });
  } catch (error) {
    if (error !== refused) return explained({ error });
    stop();
    throw error;
  }
}
