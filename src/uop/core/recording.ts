/**
 * What passes did, as data. In: the passes that `record` collected, which refer to nodes. Out: plain objects that
 * `JSON.stringify` takes, with all nodes in one table, from which a viewer can be rebuilt in another process.
 *
 * @module
 */
import type { Span } from "../../helpers/spans.ts";
import { type Line, lineText } from "../../helpers/stack.ts";
import { opName } from "./ops.ts";
import { argText } from "./print.ts";
import { toposort, type UOp } from "./uop.ts";

/** One application of one rule. */
export interface Change {
  /** The rule, as its pattern and place. */
  readonly rule: string;
  /** Where the rule is written, where it is known. */
  readonly line?: Line;
  /** The node that matched. */
  readonly from: UOp;
  /** What it became. */
  readonly to: UOp;
}

/** What passes belong to: a schedule on its way to steps, or a kernel on its way to linear UOps. */
export interface Work {
  /** Which of the two. */
  readonly kind: "schedule" | "kernel";
  /** Counts those of its kind in the process, from 1. */
  readonly number: number;
  /** The device of a kernel; "" of a schedule, which may have several. */
  readonly device: string;
  /** The name of the kernel; "" until it has one, and of a schedule. */
  name: string;
  /** The kernel's AST. */
  readonly ast?: UOp;
  /** What came of it: the linear program of a kernel, the variant of a schedule; undefined while it is made, or where it failed. */
  made: unknown;
}

/** What one pass did. `depth` is 0 for outermost passes; passes are listed in the order they began. */
export interface PassRecord {
  /** The name of the pass. */
  readonly name: string;
  /** 0 for passes that no other pass runs. */
  readonly depth: number;
  /** What it belongs to; undefined for what runs outside of schedules and kernels. */
  readonly of: Work | undefined;
  /** When it began, as `performance.now()` counts. */
  readonly startMs: number;
  /** The graph that went in. */
  readonly before: UOp;
  /** The graph that came out. */
  after: UOp;
  /** How long it took, recording included. */
  timeMs: number;
  /** Each rewrite, in order. */
  readonly changes: Change[];
}

/** A node in {@linkcode RecordingData}: its position in the table is its number. */
export interface NodeData {
  /** The name of its op. */
  readonly op: string;
  /** The name of its dtype. */
  readonly dtype: string;
  /** The numbers of its sources, all smaller than its own. */
  readonly src: readonly number[];
  /** Its argument as text; absent where it has none. */
  readonly arg?: string;
  /** The user's line that made it, where one was recorded. */
  readonly line?: string;
}

/** A pass in {@linkcode RecordingData}: as {@linkcode PassRecord}, with numbers of nodes. */
export interface PassData {
  /** The name of the pass. */
  readonly name: string;
  /** 0 for passes that no other pass runs. */
  readonly depth: number;
  /** What it belongs to, by its number in the table; absent for what runs outside of schedules and kernels. */
  readonly of?: number;
  /** When it began, in milliseconds since the first. */
  readonly startMs: number;
  /** How long it took, recording included. */
  readonly timeMs: number;
  /** The root of the graph that went in. */
  readonly before: number;
  /** The root of the graph that came out. */
  readonly after: number;
  /** Each rewrite, in order: the rule by its number, the node that matched, what it became. */
  readonly changes: readonly (readonly [rule: number, from: number, to: number])[];
}

/** A rule in {@linkcode RecordingData}. */
export interface RuleData {
  /** Its name, or its pattern. */
  readonly name: string;
  /** File and line of its table's row, where they are known. */
  readonly line?: string;
}

/** What passes belong to, in {@linkcode RecordingData}: as {@linkcode Work}. */
export interface WorkData {
  /** A schedule, or a kernel. */
  readonly kind: Work["kind"];
  /** Counts those of its kind in the process, from 1. */
  readonly number: number;
  /** The device of a kernel. */
  readonly device: string;
  /** The name of a kernel. */
  readonly name: string;
}

/** A recording as plain data. */
export interface RecordingData {
  /** Nodes, sources before users; equal nodes are one. */
  readonly nodes: readonly NodeData[];
  /** Rules that replaced something. */
  readonly rules: readonly RuleData[];
  /** Schedules and kernels that passes belong to. */
  readonly works: readonly WorkData[];
  /** Passes, in the order they began. */
  readonly passes: readonly PassData[];
}

/** Makes plain data of passes, some at a time: it keeps no graph alive. */
export class RecordingTable {
  /** As in {@linkcode RecordingData}. */
  readonly nodes: NodeData[] = [];
  /** Likewise. */
  readonly rules: RuleData[] = [];
  /** Likewise. */
  readonly works: WorkData[] = [];
  private readonly numbers = new WeakMap<UOp, number>();
  private readonly ruleNumbers = new Map<string, number>();
  private readonly workNumbers = new WeakMap<Work, number>();

  /** @param originMs when times begin; that of the first pass where it is left out */
  constructor(private originMs?: number) {}

  /** The number of a node; those below it have one then, too. */
  node(root: UOp): number {
    const { nodes, numbers } = this;
    if (!numbers.has(root)) {
      for (const u of toposort(root, (u) => !numbers.has(u))) {
        if (numbers.has(u)) continue;
        const arg = argText(u);
        numbers.set(u, nodes.length);
        nodes.push({
          op: opName[u.op],
          dtype: u.dtype.name,
          src: u.src.map((s) => numbers.get(s)!),
          ...(arg === "" ? {} : { arg }),
          ...(u.line === undefined ? {} : { line: lineText(u.line) }),
        });
      }
    }
    return numbers.get(root)!;
  }

  /** The number of a schedule or a kernel. */
  work(of: Work): number {
    let at = this.workNumbers.get(of);
    const { kind, number, device, name } = of, now = { kind, number, device, name };
    if (at === undefined) this.workNumbers.set(of, at = this.works.push(now) - 1);
    else if (this.works[at].name !== name) this.works[at] = now;
    return at;
  }

  /** A pass by numbers. */
  pass({ name, depth, of, startMs, timeMs, before, after, changes }: PassRecord): PassData {
    return {
      name,
      depth,
      ...(of === undefined ? {} : { of: this.work(of) }),
      startMs: startMs - (this.originMs ??= startMs),
      timeMs,
      before: this.node(before),
      after: this.node(after),
      changes: changes.map(({ rule, line, from, to }) => [this.rule(rule, line), this.node(from), this.node(to)]),
    };
  }

  private rule(name: string, line: Line | undefined): number {
    const text = line === undefined ? undefined : lineText(line), key = `${name} ${text}`;
    let at = this.ruleNumbers.get(key);
    if (at === undefined) {
      this.ruleNumbers.set(key, at = this.rules.push(text === undefined ? { name } : { name, line: text }) - 1);
    }
    return at;
  }
}

/** What a function returned, and every pass that ran in it. `JSON.stringify` gives {@linkcode RecordingData}. */
export class Recording<T> {
  /** What the function returned. */
  readonly result: T;
  /** The passes, in the order they began. */
  readonly passes: PassRecord[];
  /** What took time: schedules, kernels, launches, copies; in the order they ended. */
  readonly events: readonly Span[];

  /** Internal: use `record`. */
  constructor(result: T, passes: PassRecord[], events: readonly Span[] = []) {
    this.result = result;
    this.passes = passes;
    this.events = events;
  }

  /** The passes as plain data; the result of the function is left out. */
  toJSON(): RecordingData {
    const table = new RecordingTable(), passes = this.passes.map((p) => table.pass(p)), { nodes, rules, works } = table;
    return { nodes, rules, works, passes };
  }
}
