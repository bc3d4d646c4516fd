/**
 * A grammar as a machine that reads bytes: states of each rule with edges, and what goes on behind each rule. Calls of one
 * rule at one place of the text are one, as in generalized LL parsing (Scott and Johnstone, "GLL parsing", 2010), so that
 * many ways to read a text cost little. Sets of places are kept once, with the sets that bytes lead to.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import type { CodeRange, Grammar, Rule } from "./grammar.ts";

/** A state of a rule. */
interface Node {
  readonly id: number;
  /** Bytes from low to high lead to a state. */
  readonly edges: (readonly [low: number, high: number, to: Node])[];
  /** Where it goes without a byte. */
  readonly free: Node[];
  /** Rules that come here, and where it goes on behind them. */
  readonly calls: (readonly [rule: Part, next: Node])[];
}
/** A rule: where it begins and ends. */
interface Part {
  readonly name: string;
  readonly start: Node;
  readonly end: Node;
}
/** What goes on behind a rule. */
interface Frame {
  readonly id: number;
  readonly returns: readonly Place<Frame>[];
  /** Whether the text may end there. */
  readonly last: boolean;
}
/** A rule that is called where the text stands; who calls it is not known at once. */
interface Call {
  readonly returns: Place<Behind>[];
  /** Whether the rule may be empty here. */
  ended: boolean;
}
type Behind = Frame | Call;
type Place<B> = readonly [node: Node, behind: B];

/** Only ends of rules lead nowhere. */
function isEnd({ edges, free, calls }: Node): boolean {
  return edges.length + free.length + calls.length === 0;
}

/** Where a text stands in its grammar. */
export interface GrammarState {
  /** Whether the text may end here. */
  readonly accepts: boolean;
  /** Whether a byte may come. */
  readonly goesOn: boolean;
}
class State implements GrammarState {
  readonly next: Map<number, State | undefined> = new Map();
  constructor(readonly places: readonly Place<Frame>[], readonly accepts: boolean) {}
  get goesOn(): boolean {
    return this.places.length > 0;
  }
}

/** States of rules that a grammar may have, and sets that are kept. */
const MAX_NODES = 200_000, MAX_STATES = 20_000, ACTION = "use a grammar";

const utf8 = new TextEncoder();

/** The ranges of bytes, one after the other, that encode a range of characters without surrogates. */
function* byteRanges([low, high]: CodeRange): Generator<readonly (readonly [number, number])[]> {
  const limits = [0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff, 0x10ffff];
  for (const limit of limits) {
    if (low > limit || low > high) continue;
    const end = Math.min(high, limit);
    if (limit !== 0xdfff) yield* sameLength(low, end);
    low = end + 1;
  }
}
/** Of characters with as many bytes each. */
function* sameLength(low: number, high: number): Generator<readonly (readonly [number, number])[]> {
  const a = utf8.encode(String.fromCodePoint(low)), b = utf8.encode(String.fromCodePoint(high));
  for (let i = 1; i < a.length; i++) {
    const size = 1 << (6 * (a.length - i)), mask = size - 1;
    if ((low & ~mask) === (high & ~mask)) continue;
    if ((low & mask) !== 0) {
      yield* sameLength(low, low | mask);
      yield* sameLength((low | mask) + 1, high);
      return;
    }
    if ((high & mask) !== mask) {
      yield* sameLength(low, (high & ~mask) - 1);
      yield* sameLength(high & ~mask, high);
      return;
    }
  }
  yield Array.from(a, (x, i) => [x, b[i]] as const);
}

/** Makes the states of all rules. */
class Compiler {
  private count = 0;
  private readonly parts = new Map<string, Part>();
  constructor(private readonly grammar: Grammar) {}

  compile(): Part {
    for (const name of this.grammar.keys()) this.parts.set(name, { name, start: this.node(), end: this.node() });
    const root = this.part("root");
    for (const [name, rule] of this.grammar) {
      const { start, end } = this.parts.get(name)!;
      this.add(rule, start, end);
    }
    this.check();
    return root;
  }
  private part(name: string): Part {
    const part = this.parts.get(name);
    if (part === undefined) throw new ArgumentError(ACTION, { reason: `there is no rule "${name}"` });
    return part;
  }
  private node(): Node {
    if (this.count >= MAX_NODES) throw new ArgumentError(ACTION, { reason: `it has more than ${MAX_NODES} states` });
    return { id: this.count++, edges: [], free: [], calls: [] };
  }

  private add(rule: Rule, from: Node, to: Node): void {
    switch (rule.kind) {
      case "chars":
        for (const range of rule.ranges) for (const bytes of byteRanges(range)) this.bytes(bytes, from, to);
        return;
      case "text":
        return this.bytes(Array.from(utf8.encode(rule.text), (b) => [b, b] as const), from, to);
      case "sequence":
        return this.row(rule.items, from, to);
      case "choice":
        return rule.items.forEach((item) => this.add(item, from, to));
      case "repeat":
        return this.repeat(rule, from, to);
      case "name":
        from.calls.push([this.part(rule.name), to]);
        return;
      default:
        return rule satisfies never;
    }
  }
  private row(items: readonly Rule[], from: Node, to: Node): void {
    if (items.length === 0) from.free.push(to);
    let at = from;
    items.forEach((item, i) => {
      const next = i === items.length - 1 ? to : this.node();
      this.add(item, at, next);
      at = next;
    });
  }
  private bytes(ranges: readonly (readonly [number, number])[], from: Node, to: Node): void {
    if (ranges.length === 0) from.free.push(to);
    let at = from;
    ranges.forEach(([low, high], i) => {
      const next = i === ranges.length - 1 ? to : this.node();
      at.edges.push([low, high, next]);
      at = next;
    });
  }
  private repeat({ item, min, max }: Rule & { kind: "repeat" }, from: Node, to: Node): void {
    let at = from;
    for (let i = 0; i < min; i++) {
      const next = this.node();
      this.add(item, at, next);
      at = next;
    }
    if (max === Infinity) {
      // its own state, which nothing else leaves or enters
      const loop = this.node(), back = this.node();
      at.free.push(loop);
      this.add(item, loop, back);
      back.free.push(loop);
      loop.free.push(to);
      return;
    }
    for (let i = min; i < max; i++) {
      const next = this.node();
      at.free.push(to);
      this.add(item, at, next);
      at = next;
    }
    at.free.push(to);
  }

  /** Refuses rules that never end, and those that begin with themselves. */
  private check(): void {
    const parts = [...this.parts.values()];
    const ending = fixpoint(parts, (p, known) => reaches(p, known, true));
    const endless = parts.find((p) => !ending.has(p));
    if (endless !== undefined) throw new ArgumentError(ACTION, { reason: `rule "${endless.name}" never ends` });
    const empty = fixpoint(parts, (p, known) => reaches(p, known, false));
    const open = new Set<Part>(), done = new Set<Part>();
    const visit = (p: Part): void => {
      if (done.has(p)) return;
      if (open.has(p)) {
        throw new ArgumentError(ACTION, {
          reason: `rule "${p.name}" begins with itself; write a repetition, as ("," item)*, instead`,
        });
      }
      open.add(p);
      for (const n of nodesFrom(p.start, empty, false)) for (const [called] of n.calls) visit(called);
      open.delete(p);
      done.add(p);
    };
    parts.forEach(visit);
  }
}

/** The parts for which `holds`, given those for which it is known. */
function fixpoint(parts: readonly Part[], holds: (p: Part, known: ReadonlySet<Part>) => boolean): Set<Part> {
  const known = new Set<Part>();
  for (let before = -1; before !== known.size;) {
    before = known.size;
    for (const p of parts) if (!known.has(p) && holds(p, known)) known.add(p);
  }
  return known;
}
/** All states from one on, through the parts that are known, and through bytes where those may come. */
function nodesFrom(start: Node, through: ReadonlySet<Part>, bytes: boolean): Set<Node> {
  const seen = new Set([start]);
  for (const n of seen) {
    n.free.forEach((to) => seen.add(to));
    if (bytes) n.edges.forEach(([, , to]) => seen.add(to));
    for (const [part, next] of n.calls) if (through.has(part)) seen.add(next);
  }
  return seen;
}
function reaches(p: Part, known: ReadonlySet<Part>, bytes: boolean): boolean {
  return nodesFrom(p.start, known, bytes).has(p.end);
}

/** A grammar that reads bytes. States are good for all texts of it. */
export class GrammarMachine {
  /** Of the empty text. */
  readonly start: GrammarState;
  private frames: Map<string, Frame> = new Map();
  private states: Map<string, State> = new Map();
  private frameCount = 0;

  /** @throws {ArgumentError} for rules that are missing, never end or begin with themselves, and for too many states */
  constructor(grammar: Grammar) {
    if (!grammar.has("root")) throw new ArgumentError(ACTION, { reason: 'it has no rule "root"' });
    this.start = this.stateOf([[new Compiler(grammar).compile().start, this.frame([], true)]]);
  }

  /** Behind a byte; undefined where it may not come. */
  step(state: GrammarState, byte: number): GrammarState | undefined {
    const s = state as State;
    if (s.next.has(byte)) return s.next.get(byte);
    const places: Place<Frame>[] = [];
    for (const [node, behind] of s.places) {
      for (const [low, high, to] of node.edges) if (low <= byte && byte <= high) places.push([to, behind]);
    }
    const next = places.length === 0 ? undefined : this.stateOf(places);
    s.next.set(byte, next);
    return next;
  }
  /** Behind bytes; undefined where they may not come. */
  run(state: GrammarState, bytes: Iterable<number>): GrammarState | undefined {
    let at: GrammarState | undefined = state;
    for (const b of bytes) if ((at = this.step(at, b)) === undefined) return undefined;
    return at;
  }

  private frame(returns: readonly Place<Frame>[], last: boolean): Frame {
    const rows = new Map(returns.map((r) => [keyOf(r), r])), keys = [...rows.keys()].sort();
    const key = `${last}:${keys.join(";")}`;
    let frame = this.frames.get(key);
    if (frame === undefined) {
      this.frames.set(key, frame = { id: this.frameCount++, returns: keys.map((k) => rows.get(k)!), last });
    }
    return frame;
  }
  /** The frame of a call; what returns to the end of a rule returns to what is behind that. */
  private settled(behind: Behind, done: Map<Behind, Frame>): Frame {
    if ("id" in behind) return behind;
    let frame = done.get(behind);
    if (frame === undefined) {
      const returns: Place<Frame>[] = [];
      let last = false;
      for (const [node, b] of behind.returns) {
        const above = this.settled(b, done);
        if (!isEnd(node)) returns.push([node, above]);
        else {
          returns.push(...above.returns);
          last ||= above.last;
        }
      }
      done.set(behind, frame = this.frame(returns, last));
    }
    return frame;
  }

  /** All places that are reached without a byte, of which those with bytes are kept. */
  private stateOf(places: readonly Place<Frame>[]): State {
    const todo: Place<Behind>[] = [...places], seen = new Map<Behind, Set<Node>>(), calls = new Map<Part, Call>();
    let accepts = false;
    for (let place = todo.pop(); place !== undefined; place = todo.pop()) {
      const [node, behind] = place, known = seen.get(behind) ?? new Set();
      if (known.has(node)) continue;
      seen.set(behind, known.add(node));
      for (const to of node.free) todo.push([to, behind]);
      for (const [part, next] of node.calls) {
        let call = calls.get(part);
        if (call === undefined) {
          calls.set(part, call = { returns: [], ended: false });
          todo.push([part.start, call]);
        }
        call.returns.push([next, behind]);
        if (call.ended) todo.push([next, behind]);
      }
      if (!isEnd(node)) continue;
      todo.push(...behind.returns);
      if ("id" in behind) accepts ||= behind.last;
      else behind.ended = true;
    }
    if (this.states.size >= MAX_STATES) {
      this.states = new Map();
      this.frames = new Map();
    }
    const frames = new Map<Behind, Frame>(), kept = new Map<string, Place<Frame>>();
    for (const [behind, nodes] of seen) {
      for (const node of nodes) {
        if (node.edges.length === 0) continue;
        const place = [node, this.settled(behind, frames)] as const;
        kept.set(keyOf(place), place);
      }
    }
    const keys = [...kept.keys()].sort(), key = `${accepts}:${keys.join(";")}`;
    let state = this.states.get(key);
    if (state === undefined) this.states.set(key, state = new State(keys.map((k) => kept.get(k)!), accepts));
    return state;
  }
}

function keyOf([node, { id }]: Place<Frame>): string {
  return `${node.id},${id}`;
}
