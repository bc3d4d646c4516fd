/**
 * What VIZ shows, as plain data: passes with their graphs, kernels with what became of them, schedules with their buffers,
 * and everything that took time. In: a record, or the spans and passes of a program as it runs. Out: JSON of one format,
 * without values and without absolute paths.
 *
 * @module
 */
import type { Note } from "../../uop/core/notes.ts";
import type { Program } from "../../device/program.ts";
import type { CompiledKernel, ExecItem } from "../../engine/front/runners.ts";
import { FormatError } from "../../helpers/errors.ts";
import type { Span, SpanKind } from "../../helpers/spans.ts";
import { type Line, lineText } from "../../helpers/stack.ts";
import type { LinearProgram } from "../../renderer/renderer.ts";
import { stepLines } from "../../schedule/order/step_lines.ts";
import type { BoundSchedule } from "../../schedule/schedule.ts";
import {
  type NodeData,
  type PassData,
  type PassRecord,
  type Recording,
  RecordingTable,
  type RuleData,
  type Work,
  type WorkData,
} from "../../uop/core/recording.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { pathOf, shortLine, sourceText } from "../program/calls.ts";

/** What the format is called, and its version: files of another are refused. */
export const FORMAT = "dinograd recording", VERSION = 2;

/** A line of the program that computes something, or that calls what does. */
export interface PlaceData {
  /** The line that called the function it is in, by number; absent for the outermost. */
  readonly parent?: number;
  /** The function that it is in; "" at the top level. */
  readonly call: string;
  /** File and line, relative to the working folder. */
  readonly line: string;
  /** What stands there; "" where it could not be read. */
  readonly text: string;
}

/** A kernel. */
export interface KernelData {
  /** Its name: its kind and the sizes of its loops. */
  readonly name: string;
  /** The device that it was made for. */
  readonly device: string;
  /** Its number among the works; absent where it was compiled before the recording began. */
  readonly work?: number;
  /** The root of its AST. */
  ast?: number;
  /** The opts that were applied. */
  readonly opts: string;
  /** Arithmetic operations of a launch. */
  readonly flops: number;
  /** Bytes that a launch touches. */
  readonly bytes: number;
  /** The linear program: nodes, in order. */
  readonly uops: readonly number[];
  /** What was rendered; "" where it was not compiled. */
  source: string;
  /** The user's lines that it computes; where none are known, the one that asked for it. */
  lines: readonly string[];
  /** The same as places of the program, by number. */
  places: readonly number[];
}

/** A buffer of a schedule. */
export interface BufferData {
  /** Where it is. */
  readonly device: string;
  /** Of its elements. */
  readonly dtype: string;
  /** In elements. */
  readonly size: number;
  /** In bytes. */
  readonly nbytes: number;
  /** Memory that was there before, a result, a part of another buffer, or an intermediate. */
  readonly kind: "input" | "output" | "view" | "temporary";
  /** Where an intermediate lies: in which block, from which byte on. */
  readonly place?: readonly [block: number, offset: number];
}

/** A step of a schedule. */
export interface StepData {
  /** What it does. */
  readonly kind: string;
  /** Where. */
  readonly device: string;
  /** Its kernel, by number; absent for what is none, or was not compiled. */
  kernel?: number;
  /** By number: of a kernel those of its slots; of a copy [to, from]; of a view [view, base]. */
  readonly buffers: readonly number[];
  /** Those of them that it writes. */
  writes: readonly number[];
  /** The user's lines that it computes. */
  readonly lines: readonly string[];
}

/** A schedule. */
export interface ScheduleData {
  /** Its number among the works; absent where it was lowered before the recording began. */
  readonly work?: number;
  /** Nodes of its graph. */
  readonly nodes: number;
  /** In order. */
  readonly steps: readonly StepData[];
  /** By number. */
  readonly buffers: readonly BufferData[];
  /** Bytes of the blocks that intermediates lie in. */
  readonly blocks: readonly number[];
  /** How often it was asked for. */
  uses: number;
}

/** Something that took time. */
export interface EventData {
  /** What it is of. */
  readonly kind: SpanKind;
  /** The name of a kernel, or what is copied. */
  readonly name: string;
  /** Milliseconds since the recording began. */
  readonly startMs: number;
  /** How long it took, by the host's clock. */
  readonly timeMs: number;
  /** The device that was at work. */
  readonly device?: string;
  /** Milliseconds by the device's clock. */
  readonly deviceMs?: number;
  /** Whether it was only queued. */
  readonly isQueued?: boolean;
  /** By number. */
  readonly kernel?: number;
  /** By number. */
  readonly schedule?: number;
  /** The user's line. */
  readonly line?: string;
}

/** A recorded reason: what was decided of a node or a kernel, and why. */
export interface NoteData {
  /** Whether something was done, was not, or is only told. */
  readonly kind: string;
  /** A sentence. */
  readonly text: string;
  /** What it is about, by number. */
  readonly node?: number;
  /** Whose it is, by number. */
  readonly work?: number;
}

/** All that VIZ shows. */
export interface VizData {
  /** {@linkcode FORMAT}. */
  readonly format: string;
  /** {@linkcode VERSION}. */
  readonly version: number;
  /** What was recorded. */
  readonly title: string;
  /** As in a record. */
  readonly nodes: readonly NodeData[];
  /** Likewise. */
  readonly rules: readonly RuleData[];
  /** Likewise. */
  readonly works: readonly WorkData[];
  /** Likewise. */
  readonly passes: readonly PassData[];
  /** Lines of the program that compute something, callers first. */
  readonly places: readonly PlaceData[];
  /** In the order in which they were lowered, or first ran. */
  readonly kernels: readonly KernelData[];
  /** In the order in which they were first asked for. */
  readonly schedules: readonly ScheduleData[];
  /** In the order in which they ended. */
  readonly events: readonly EventData[];
  /** Reasons that were recorded. */
  readonly notes: readonly NoteData[];
  /** Events beyond the first {@linkcode MAX_EVENTS}, which are not kept. */
  readonly dropped: number;
  /** What the program threw, where it ended so. */
  readonly error?: string;
}

/** Events of a program that are kept: a training that goes on for hours is told from its beginning. */
const MAX_EVENTS = 100_000;
/** Characters of a line that are kept. */
const MOST_TEXT = 160;

/** Collects what VIZ shows; keeps no graph alive. */
export class VizRecorder {
  private readonly table: RecordingTable;
  private readonly passes: PassData[] = [];
  private readonly kernels: KernelData[] = [];
  private readonly schedules: ScheduleData[] = [];
  private readonly events: EventData[] = [];
  private readonly kernelOf = new WeakMap<LinearProgram, number>();
  private readonly scheduleOf = new WeakMap<object, number>();
  private readonly notes: NoteData[] = [];
  private readonly places: PlaceData[] = [];
  private readonly placeOf = new Map<string, number>();
  /** By schedule and step, the places of its lines. */
  private readonly stepPlaces: number[][][] = [];
  private dropped = 0;
  /** What the program threw. */
  error: string | undefined;

  /** @param title what is recorded @param originMs when times begin */
  constructor(readonly title: string, private readonly originMs: number = performance.now()) {
    this.table = new RecordingTable(originMs);
  }

  /** Takes passes that have ended. */
  take(records: readonly PassRecord[]): void {
    for (const r of records) this.passes.push(this.table.pass(r));
  }

  /** Takes a span. */
  hear(span: Span): void {
    const { kind, name, startMs, endMs, device, deviceMs, isQueued, later, subject } = span;
    if (kind === "pass") return; // it is among the passes
    let kernel: number | undefined, schedule: number | undefined, line: string | undefined;
    if (kind === "lower") {
      const work = subject as Work;
      if (work.made !== undefined) kernel = this.kernel(work.made as LinearProgram, work.device, work.ast, work);
    } else if (kind === "compile") {
      for (const p of subject as readonly Program[]) {
        this.kernels[this.program(p, device!, undefined)].source = p.source;
      }
    } else if (kind === "schedule") schedule = this.schedule(subject as BoundSchedule);
    else if (kind === "run") schedule = this.ran(subject as BoundSchedule);
    else if (kind === "launch") {
      const item = subject as ExecItem, { program } = item.runner as CompiledKernel;
      kernel = this.program(program, device!, item.ast);
      line = item.line;
      const k = this.kernels[kernel];
      if (k.lines.length === 0 && item.site !== undefined) {
        this.addLines(k, [lineText(item.site)], this.place(item.site));
      }
    }
    if (this.events.length >= MAX_EVENTS) return void this.dropped++;
    const event: { -readonly [K in keyof EventData]: EventData[K] } = {
      kind,
      name,
      startMs: startMs - this.originMs,
      timeMs: endMs - startMs,
      ...(device === undefined ? {} : { device }),
      ...(deviceMs === undefined ? {} : { deviceMs }),
      ...(isQueued ? { isQueued } : {}),
      ...(kernel === undefined ? {} : { kernel }),
      ...(schedule === undefined ? {} : { schedule }),
      ...(line === undefined ? {} : { line: lineText(line) }),
    };
    this.events.push(event);
    later?.then(([begin, end]) => {
      event.startMs = begin - this.originMs;
      event.timeMs = event.deviceMs = end - begin;
      delete event.isQueued;
    }, () => {}); // the device is lost: it stays queued
  }

  /** The number of a line's place, in a list; none for a line of nobody's. */
  private place(line: Line): readonly number[] {
    let at: number | undefined;
    for (const { name, at: where } of pathOf(line).calls) {
      const text = shortLine(where), key = `${at} ${name} ${text}`;
      let known = this.placeOf.get(key);
      if (known === undefined) {
        this.placeOf.set(key, known = this.places.length);
        const parent = at === undefined ? {} : { parent: at };
        this.places.push({ ...parent, call: name, line: text, text: sourceText(where).slice(0, MOST_TEXT) });
      }
      at = known;
    }
    return at === undefined ? [] : [at];
  }

  private addLines(k: KernelData, lines: readonly string[], places: readonly number[]): void {
    k.lines = [...new Set([...k.lines, ...lines])];
    k.places = [...new Set([...k.places, ...places])];
  }

  private program({ linear, source }: Program, device: string, ast: UOp | undefined): number {
    const at = this.kernel(linear, device, ast);
    if (this.kernels[at].source === "") this.kernels[at].source = source;
    return at;
  }

  private kernel(linear: LinearProgram, device: string, ast?: UOp, work?: Work): number {
    let at = this.kernelOf.get(linear);
    if (at !== undefined) return at;
    const { name, uops, flops, bytes, opts = "", text = "" } = linear;
    this.kernelOf.set(linear, at = this.kernels.length);
    this.kernels.push({
      name,
      device,
      ...(work === undefined ? {} : { work: this.table.work(work) }),
      ...(ast === undefined ? {} : { ast: this.table.node(ast) }),
      opts,
      flops,
      bytes,
      uops: uops.map((u) => this.table.node(u)),
      source: text,
      lines: [],
      places: [],
    });
    return at;
  }

  private schedule(bound: BoundSchedule): number {
    const { variant, order } = bound, { items, entries, plan } = variant;
    let at = this.scheduleOf.get(variant);
    if (at !== undefined) {
      this.schedules[at].uses++;
      return at;
    }
    this.scheduleOf.set(variant, at = this.schedules.length);
    const lines = stepLines(order, variant), last = this.passes.findLast((p) => p.of !== undefined);
    const work = last?.of !== undefined && this.table.works[last.of].kind === "schedule" && !bound.cached
      ? last.of
      : undefined;
    this.stepPlaces[at] = lines.map((own) => own.flatMap((line) => this.place(line)));
    this.schedules.push({
      ...(work === undefined ? {} : { work }),
      nodes: order.length,
      steps: items.map(({ kind, device, entries }, i): StepData => ({
        kind,
        device,
        buffers: entries,
        writes: entries.slice(0, 1),
        lines: [...new Set(lines[i].map(lineText))],
      })),
      buffers: entries.map(({ device, dtype, size, slot, kept, view }, e): BufferData => {
        const place = plan.places[e];
        return {
          device,
          dtype: dtype.name,
          size,
          nbytes: size * dtype.itemsize,
          kind: slot !== undefined ? "input" : view !== undefined ? "view" : kept ? "output" : "temporary",
          ...(place === undefined ? {} : { place: [place.block, place.offset] }),
        };
      }),
      blocks: plan.blocks.map((b) => b.nbytes),
      uses: 1,
    });
    return at;
  }

  /** A schedule has run: its kernels are known by now. */
  private ran(bound: BoundSchedule): number {
    const at = this.scheduleOf.get(bound.variant) ?? this.schedule(bound), { steps } = this.schedules[at];
    const { programs } = bound.variant;
    bound.variant.items.forEach((item, i) => {
      const program = programs?.get(item);
      if (program === undefined || steps[i].kernel !== undefined) return;
      const kernel = steps[i].kernel = this.program(program, item.device, item.ast), k = this.kernels[kernel];
      steps[i].writes = program.linear.params.filter((p) => p.writes).map((p) => item.entries[p.slot]);
      k.ast ??= this.table.node(item.ast!);
      this.addLines(k, steps[i].lines, this.stepPlaces[at][i]);
    });
    return at;
  }

  /** Takes a note. */
  note({ kind, text, node, of }: Note): void {
    const work = of === undefined ? {} : { work: this.table.work(of) };
    this.notes.push({ kind, text, node: this.table.node(node), ...work });
  }

  /** What was collected so far. */
  data(): VizData {
    const { title, table: { nodes, rules, works }, passes, places, kernels, schedules, events, notes, dropped, error } =
      this;
    return {
      format: FORMAT,
      version: VERSION,
      title,
      nodes,
      rules,
      works,
      passes,
      places,
      kernels,
      schedules,
      events,
      notes,
      dropped,
      ...(error === undefined ? {} : { error }),
    };
  }
}

/** What VIZ shows of a record. */
export function vizData(recording: Recording<unknown>, title: string = "a recording"): VizData {
  const { passes, events } = recording;
  const origin = Math.min(passes[0]?.startMs ?? Infinity, ...events.slice(0, 1000).map((e) => e.startMs));
  const recorder = new VizRecorder(title, Number.isFinite(origin) ? origin : 0);
  recorder.take(passes);
  for (const e of events) recorder.hear(e);
  return recorder.data();
}

/** Data of a file. @throws {FormatError} where it is no recording, or one of another version */
export function parseVizData(text: string, file: string): VizData {
  let data: Partial<VizData>;
  try {
    data = JSON.parse(text);
  } catch (error) {
    throw new FormatError("read a recording", { file, reason: `it is no JSON: ${(error as Error).message}` });
  }
  if (typeof data !== "object" || data === null || data.format !== FORMAT) {
    throw new FormatError("read a recording", { file, reason: "it is no recording; VIZ=name.json makes one" });
  }
  if (data.version !== VERSION) {
    throw new FormatError("read a recording", {
      file,
      reason: `it is of version ${data.version}, and this is version ${VERSION}: record it again`,
    });
  }
  return data as VizData;
}
