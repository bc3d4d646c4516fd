/**
 * What passes did, as data. In: the passes that `record` collected, which refer to nodes. Out: plain objects that
 * `JSON.stringify` takes, with all nodes in one table, from which a viewer can be rebuilt in another process.
 *
 * @module
 */
import { opName } from "./ops.ts";
import { argText } from "./print.ts";
import { toposort, type UOp } from "./uop.ts";

/** One application of one rule. */
export interface Change {
  /** The rule, as its pattern and place. */
  readonly rule: string;
  /** The node that matched. */
  readonly from: UOp;
  /** What it became. */
  readonly to: UOp;
}

/** What one pass did. `depth` is 0 for outermost passes; passes are listed in the order they began. */
export interface PassRecord {
  /** The name of the pass. */
  readonly name: string;
  /** 0 for passes that no other pass runs. */
  readonly depth: number;
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
  /** How long it took, recording included. */
  readonly timeMs: number;
  /** The root of the graph that went in. */
  readonly before: number;
  /** The root of the graph that came out. */
  readonly after: number;
  /** Each rewrite, in order: the rule by its number, the node that matched, what it became. */
  readonly changes: readonly (readonly [rule: number, from: number, to: number])[];
}

/** A recording as plain data. */
export interface RecordingData {
  /** Nodes, sources before users; equal nodes are one. */
  readonly nodes: readonly NodeData[];
  /** The names of rules. */
  readonly rules: readonly string[];
  /** Passes, in the order they began. */
  readonly passes: readonly PassData[];
}

/** What a function returned, and every pass that ran in it. `JSON.stringify` gives {@linkcode RecordingData}. */
export class Recording<T> {
  /** What the function returned. */
  readonly result: T;
  /** The passes, in the order they began. */
  readonly passes: PassRecord[];

  /** Internal: use `record`. */
  constructor(result: T, passes: PassRecord[]) {
    this.result = result;
    this.passes = passes;
  }

  /** The passes as plain data; the result of the function is left out. */
  toJSON(): RecordingData {
    const nodes: NodeData[] = [], numbers = new Map<UOp, number>();
    const numberOf = (root: UOp): number => {
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
            ...(u.line === undefined ? {} : { line: String(u.line) }),
          });
        }
      }
      return numbers.get(root)!;
    };
    const rules = new Map<string, number>();
    const ruleOf = (name: string): number => {
      let at = rules.get(name);
      if (at === undefined) rules.set(name, at = rules.size);
      return at;
    };
    const passes = this.passes.map(({ name, depth, timeMs, before, after, changes }): PassData => ({
      name,
      depth,
      timeMs,
      before: numberOf(before),
      after: numberOf(after),
      changes: changes.map(({ rule, from, to }) => [ruleOf(rule), numberOf(from), numberOf(to)]),
    }));
    return { nodes, rules: [...rules.keys()], passes };
  }
}
