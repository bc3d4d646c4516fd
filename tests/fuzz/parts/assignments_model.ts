/**
 * An eager model of tensors in memory. Memory is bytes; each write makes a version of it, of which the model keeps a copy,
 * as it keeps what each version was computed from: so it knows which lazy reads are of what a schedule has overwritten.
 * Plain arrays, nothing of src.
 */
import { combine, load, permuted, product, range, SIZE, store, taken } from "./assignments_bytes.ts";
import { type Kind, type Part, SAME_NODES, type Statement } from "./assignments_program.ts";
import { Training } from "./assignments_training.ts";

/** A tensor's memory. */
interface Memory {
  newest: Version;
  /** The last version that a schedule has written. */
  done: number;
}

/** What memory holds after a write, and what that was computed from. */
interface Version {
  readonly memory: Memory;
  readonly at: number;
  readonly bytes: Uint8Array;
  readonly from: readonly Version[];
  /** Whether it is kept in memory once it has been computed, or computed again for each who reads it. */
  isStored: boolean;
  isDone: boolean;
  /** Whether who reads it before it is done reads what it was computed from: a scan, a sum over one element. */
  isThrough?: boolean;
  /** Whether a write made it. */
  readonly isWrite?: boolean;
  /** A value that a write made, of what has been overwritten: it was kept in time, or was taken for an intermediate. */
  isMaybe?: boolean;
}

/** A name of a tensor: places in memory, and the version that it read. */
export interface Handle {
  memory: Memory;
  version: Version;
  /** Bytes at which its elements begin. */
  places: readonly number[];
  readonly shape: readonly number[];
  readonly kind: Kind;
  /** What it is a view of. */
  parent: Handle | undefined;
  /** Whether it is all of its memory in order, and that can be seen from how it was made: nothing copies it. */
  isShape: boolean;
  /** Whether it has been realized as such: it is what is in its memory now. */
  follows: boolean;
  /** What it reads has been copied for it. */
  isCopied: boolean;
  isWritten: boolean;
  /** What a view reads beside the version: what that was computed from, while it might have been read through. */
  through?: readonly Version[];
}

/** Whether a tensor is all of its memory, in order, by steps that may show or may not: it may be copied, or not. */
export function isOpen({ memory, places, kind, isShape }: Handle): boolean {
  if (isShape || places.length * SIZE[kind] !== memory.newest.bytes.length) return false;
  return places.every((p, i) => p === i * SIZE[kind]);
}

/** Whether an index takes all of an axis, as it is. */
function takesAll(part: Part, n: number): boolean {
  if (typeof part === "number") return n === 1;
  if (part === ":") return true;
  if (!Array.isArray(part)) return false;
  const [start, stop, by] = part as readonly (number | null)[];
  return start === 0 && stop === n && by === undefined;
}

/** What the value of a handle was computed from, where who reads it now reads that. */
function readThrough({ version }: Handle): readonly Version[] | undefined {
  return version.isThrough && !version.isDone ? version.from : undefined;
}

/** A version, and what it is computed from, has been realized, as far as that is kept in memory. */
function finish(v: Version, seen: Set<Version>): void {
  if (v.isDone || seen.has(v)) return;
  seen.add(v);
  for (const f of v.from) finish(f, seen);
  if (!v.isStored) return;
  v.isDone = true;
  v.memory.done = Math.max(v.memory.done, v.at);
}

/** Whether computing a version reads what an earlier schedule has overwritten. */
function isLate(v: Version, seen: Set<Version> = new Set()): boolean {
  if (seen.has(v)) return false;
  seen.add(v);
  if (v.isMaybe) return true;
  return v.isDone ? v.memory.done > v.at : v.from.some((f) => isLate(f, seen));
}

/** Whether a version was computed from what some memory held. */
export function comesFrom(v: Version, memory: Memory, seen: Set<Version> = new Set()): boolean {
  if (seen.has(v)) return false;
  seen.add(v);
  return v.memory === memory || v.from.some((f) => comesFrom(f, memory, seen));
}

/** Runs programs eagerly. */
export class Model {
  readonly handles: Map<string, Handle> = new Map();
  private readonly functions = new Map<string, Statement>();
  /** All memory that there is. */
  private memories = new Set<Memory>();
  private readonly training: Training = new Training(this);
  /** The arguments of the function that this sees the body of. */
  private params: readonly string[] = [];

  get(name: string): Handle {
    const h = this.handles.get(name);
    if (h === undefined) throw new Error(`no ${name}`);
    if (h.follows) h.version = h.memory.newest;
    return h;
  }

  /** Whether a list of statements makes sense. */
  static accepts(program: readonly Statement[]): boolean {
    try {
      const model = new Model();
      for (const s of program) {
        if (s.op === "read") model.read(s.on!);
        else model.step(s);
        model.settle(s);
      }
      return true;
    } catch {
      return false;
    }
  }

  /** The values of a tensor: of the version that it names. */
  read(name: string): number[] {
    const { version, places, kind } = this.get(name);
    return places.map((p) => load(version.bytes, p, kind));
  }
  /** The values that its places have now. */
  now({ memory, places, kind }: Handle): number[] {
    return places.map((p) => load(memory.newest.bytes, p, kind));
  }

  /** Whether realizing these reads what an earlier schedule has overwritten. */
  isStale(names: readonly string[]): boolean {
    const seen = new Set<Version>();
    return names.some((name) => {
      const h = this.get(name), read = [h.version, ...h.through ?? []];
      return !h.isCopied && read.some((v) => isLate(v, seen));
    });
  }

  /**
   * Tells that these have been realized. Writes that read what this overwrites are done with it, but perhaps for values that
   * it computes on its way. Arguments of jit functions stay what they were: `given`.
   */
  done(names: readonly string[], given: readonly string[] = []): void {
    const waiting = [...this.memories].map((m) => m.newest).filter((v) => v.isWrite && !v.isDone && !isLate(v));
    this.realized(names, given);
    for (let late = waiting; late.length > 0;) {
      // all at a time: what one of them reads another one may make real, in one order, and not in another
      late = waiting.filter((v) => !v.isDone && isLate(v));
      for (const v of late) {
        if (!v.isStored) v.isMaybe = true;
        v.isStored = true;
        finish(v, new Set());
      }
    }
  }
  private realized(names: readonly string[], given: readonly string[]): void {
    const seen = new Set<Version>();
    for (const name of names) {
      const h = this.get(name);
      if ((h.parent === undefined || h.isShape) && !h.version.isStored) {
        seen.delete(h.version);
        h.version.isStored = true;
      }
      if (!h.isCopied) finish(h.version, seen);
      h.isCopied = h.parent !== undefined && !h.isShape;
      h.follows ||= !given.includes(name) && h.parent !== undefined && h.isShape && h.version === h.memory.newest;
      if (h.follows) h.through = undefined;
    }
  }
  made(
    values: readonly number[],
    shape: readonly number[],
    kind: Kind,
    from: readonly Version[],
  ): Handle {
    const bytes = new Uint8Array(Math.max(1, values.length) * SIZE[kind]),
      places = values.map((_, i) => i * SIZE[kind]);
    values.forEach((x, i) => store(bytes, places[i], kind, x));
    const memory = { done: -1 } as Memory;
    this.memories.add(memory);
    const version = memory.newest = { memory, at: 0, bytes, from, isStored: false, isDone: false };
    return {
      memory,
      version,
      places,
      shape,
      kind,
      parent: undefined,
      isShape: true,
      follows: false,
      isCopied: false,
      isWritten: false,
    };
  }

  /** A tensor in memory, like another one. */
  real(values: readonly number[], { shape, kind }: Handle): Handle {
    const made = this.made(values, shape, kind, []);
    made.version.isStored = made.version.isDone = true;
    made.memory.done = 0;
    return made;
  }

  private viewOf(h: Handle, at: readonly number[], shape: readonly number[], isShape: boolean, kind = h.kind): Handle {
    return {
      ...h,
      isShape: h.isShape && isShape,
      follows: false,
      places: at.map((i) => h.places[i]),
      shape,
      kind,
      parent: h,
      through: h.through ?? readThrough(h),
      isWritten: false,
    };
  }

  /** Writes values; `whole` where the library computes them into memory in any case. */
  write(
    h: Handle,
    at: readonly number[],
    values: readonly number[],
    from: readonly Version[],
    whole = true,
    isMerged = false,
  ): void {
    const { memory } = h, old = memory.newest, bytes = old.bytes.slice();
    at.forEach((p, i) => store(bytes, h.places[p], h.kind, values[i]));
    const isStored = whole || old.isStored || h.parent !== undefined;
    const isOld = old.isStored || h.parent !== undefined || isMerged || at.length < bytes.length / SIZE[h.kind],
      all = isOld ? [old, ...from] : from;
    const version = memory.newest = {
      memory,
      at: old.at + 1,
      bytes,
      from: all,
      isStored,
      isDone: false,
      isWrite: true,
    };
    for (let t: Handle | undefined = h; t !== undefined; t = t.parent) {
      t.version = version;
      t.isCopied = false;
      t.isWritten = true;
      t.through = undefined;
    }
  }

  /** A value as a list of `count` elements, and what it reads. */
  private operand(
    x: string | number,
    shape: readonly number[],
  ): { values: number[]; from: Version[] } {
    const count = product(shape);
    if (typeof x === "number") return { values: new Array<number>(count).fill(x), from: [] };
    const h = this.get(x);
    if (h.shape.join() !== shape.join()) throw new Error(`${x} does not fit`);
    return { values: this.read(x), from: this.fromOf(h) };
  }
  private fromOf(h: Handle): Version[] {
    return h.isCopied ? [] : [...h.through ?? readThrough(h) ?? [h.version]];
  }

  /** Whether what a statement writes is what it writes to, under whichever name: one tensor, which names the newest version. */
  private isItself({ on, value }: Statement): boolean {
    return typeof value === "string" && this.get(on!) === this.get(value);
  }

  /** Whether an assignment writes nothing. A replay writes also where an argument is what the function closes over. */
  private isNothing(s: Statement): boolean {
    const isShared = s.on !== s.value && (this.params.includes(s.on!) || this.params.includes(String(s.value)));
    return this.isItself(s) && !isShared;
  }

  /** Runs a statement. Tells whether the library may refuse it with a StaleReadError. */
  step(s: Statement): boolean {
    const set = (h: Handle): boolean => {
      this.handles.set(s.to!, h);
      return false;
    };
    switch (s.op) {
      case "leaf": {
        const h = this.made(s.values!, s.shape!, s.dtype!, []);
        h.version.isStored = true;
        if (s.how === "realized") {
          h.version.isDone = true;
          h.memory.done = 0;
        }
        return set(h);
      }
      case "view":
        return set(this.view(s));
      case "value":
        return set(this.value(s));
      case "assign": {
        const h = this.get(s.on!), { values, from } = this.operand(s.value!, h.shape);
        if (!this.isNothing(s)) this.write(h, range(values.length), values, from);
        return false;
      }
      case "setAt": {
        const h = this.get(s.on!), [first] = s.index!;
        if (typeof first === "object" && "gt" in first) {
          const mask = this.get(first.gt), hits = this.read(first.gt);
          if (mask.shape.join() !== h.shape.join()) throw new Error("no mask for it");
          const { values, from } = this.operand(s.value!, h.shape),
            at = range(hits.length).filter((i) => hits[i] > 0);
          this.write(
            h,
            at,
            at.map((i) => values[i]),
            [...from, ...this.fromOf(mask)],
            false,
            true,
          );
          return false;
        }
        const { at, shape } = taken(h.shape, s.index!), { values: given, from } = this.operand(s.value!, shape);
        const values = this.isItself(s) ? this.now(h) : given;
        this.write(
          h,
          at,
          values,
          from,
          false,
          s.index!.some((x) => typeof x === "object" && (Array.isArray(x) ? (x[2] ?? 1) < 0 : "at" in x)),
        );
        return false;
      }
      case "inplace": {
        const h = this.get(s.on!), { values, from } = this.operand(s.value!, h.shape);
        const now = this.now(h), other = this.isItself(s) ? now : values;
        const next = now.map((x, i) => combine(s.how!, x, other[i], h.kind));
        const isNow = h.version === h.memory.newest; // else it reads what is there now, and not what it has named so far
        const own = isNow ? this.fromOf(h) : [h.memory.newest];
        this.write(h, range(now.length), next, [...from, ...own]);
        return false;
      }
      case "realize":
        return this.isStale(s.names!);
      case "scope":
        return s.body!.map((b) => {
          const may = this.step(b);
          this.settle(b);
          return may;
        }).some((may) => may);
      case "jit":
        for (const name of outsideOf(s)) this.get(name);
        this.functions.set(s.to!, s);
        return false;
      case "call":
        return this.call(s);
      case "optimizer":
      case "stepper":
      case "step":
      case "failing":
      case "grad":
      case "slopes":
      case "slope":
        return this.training.run(s);
    }
    throw new Error(`no statement: ${s.op}`);
  }

  /** Ends a statement that has run. */
  settle(s: Statement): void {
    if (s.op === "realize") this.done(s.names!);
  }

  /** What a statement makes a view. */
  view(s: Statement): Handle {
    const h = this.get(s.on!), all = range(h.places.length), list = s.list!;
    switch (s.how) {
      case "at": {
        const { at, shape } = taken(h.shape, s.index!);
        if (at.some((i) => i === undefined || i >= all.length)) throw new Error("out of range");
        return this.viewOf(h, at, shape, s.index!.every((part, axis) => takesAll(part, h.shape[axis])));
      }
      case "permute":
        return this.viewOf(h, permuted(h.shape, list), list.map((a) => h.shape[a]), list.every((a, i) => a === i));
      case "flip":
        return this.viewOf(
          h,
          taken(h.shape, h.shape.map((_, a) => list.includes(a) ? [null, null, -1] : ":")).at,
          h.shape,
          list.every((a) => h.shape[a] === 1),
        );
      case "reshape":
        if (product(list) !== all.length) throw new Error("sizes differ");
        return this.viewOf(h, all, list, true);
      case "shrink": {
        const { at, shape } = taken(h.shape, list.map((start, i) => [start, s.shape![i]]));
        return this.viewOf(h, at, shape, shape.join() === h.shape.join());
      }
      case "bitcast": {
        const times = SIZE[h.kind] / SIZE[s.dtype!], shape = [...h.shape.slice(0, -1), (h.shape.at(-1) ?? 1) * times];
        const made = this.viewOf(h, all, h.shape.length === 0 ? [] : shape, s.dtype === h.kind, s.dtype!);
        made.places = h.places.flatMap((p) => range(times).map((i) => p + i * SIZE[s.dtype!]));
        return made;
      }
    }
    return this.viewOf(h, all, h.shape, true);
  }

  private value(s: Statement): Handle {
    const h = this.get(s.on!), x = this.read(s.on!), { kind, shape } = h, list = s.list!;
    const make = (
      values: readonly number[],
      to: readonly number[],
      from: readonly Version[] = [],
    ): Handle => this.made(values, to, kind, [...this.fromOf(h), ...from]);
    const along = (axis: number, f: (row: number[]) => number[]): number[] => {
      const n = shape[axis], inner = product(shape.slice(axis + 1)), rows = new Map<number, number[]>();
      x.forEach((v, i) => {
        const key = Math.floor(i / (n * inner)) * inner + i % inner;
        rows.set(key, [...rows.get(key) ?? [], v]);
      });
      const made = [...rows].map(([key, row]) => [key, f(row)] as const), count = made[0][1].length;
      const out = new Array<number>(made.length * count);
      for (const [key, row] of made) {
        row.forEach((v, i) => out[(Math.floor(key / inner) * count + i) * inner + key % inner] = v);
      }
      return out;
    };
    switch (s.how) {
      case "add":
      case "mul":
      case "max": {
        const { values, from } = this.operand(s.value!, shape);
        return make(x.map((v, i) => combine(s.how!, v, values[i], kind)), shape, from);
      }
      case "sum": {
        const made = make(
          along(list[0], (row) => [row.reduce((a, b) => combine("add", a, b, kind))]),
          shape.filter((_, a) => a !== list[0]),
        );
        made.version.isThrough = shape[list[0]] === 1;
        return made;
      }
      case "scan": {
        const sums = (row: number[]) =>
          row.map((_, i) => row.slice(0, i + 1).reduce((a, b) => combine("add", a, b, kind)));
        const made = make(along(list[0], sums), shape);
        made.version.isThrough = true; // it ends in movement, which a view of it may be one with
        return made;
      }
      case "total": {
        const sum = x.reduce((a, b) => combine("add", a, b, kind));
        const { at } = taken(shape, [[null, null, -1]]);
        return make(at.map((i) => combine("add", sum, x[i], kind)), shape);
      }
      case "expand":
        return make([...x, ...x], [2, ...shape]);
      case "pick": {
        const { at, shape: to } = taken(shape, [{ at: list }]);
        return make(at.map((i) => x[i]), to);
      }
    }
    const made = make(x, shape);
    made.version.isStored = s.how === "clone";
    made.version.isThrough = s.how === "same" && list[0] >= SAME_NODES; // of the same node
    return made;
  }

  /** What a function sees: names that it makes are its own. */
  inner(): Model {
    const inside = new Model();
    inside.memories = this.memories;
    for (const [name, h] of this.handles) inside.handles.set(name, h);
    return inside;
  }

  /** The tensors that statements write, of views what they are views of. */
  writtenBy(body: readonly Statement[]): string[] {
    const isWrite = ({ op }: Statement): boolean => op !== "view" && op !== "value" && op !== "realize";
    return body.filter((b) => isWrite(b) && (b.op !== "assign" || !this.isNothing(b))).map((b) => {
      let name = b.on!;
      for (let v; (v = body.find((x) => x.to === name)) !== undefined;) name = v.on!;
      return name;
    });
  }

  /** A call of a jit function: its arguments and what it gives are real, and what it writes. */
  private call({ on, to, names = [] }: Statement): boolean {
    const f = this.functions.get(on!);
    if (f === undefined) throw new Error(`no function ${on}`);
    const { params = [], body = [], result = "", isValue } = f, given = names.map((name) => this.get(name));
    const late = names.filter((name) => this.isStale([name])); // read by nobody, they stay that
    let may = late.length > 0;
    this.done(names.filter((name) => !late.includes(name)), names);
    may ||= this.isStale(outsideOf(f)); // arguments are real before the function runs
    const inside = this.inner();
    inside.params = params;
    params.forEach((p, k) => inside.handles.set(p, given[k]));
    // a replay realizes what its argument is, and not the caller's view
    const isView = (n: string): boolean => params.includes(n) && given[params.indexOf(n)].parent !== undefined;
    if (body.some((b) => b.op === "realize" && b.names!.some(isView))) throw new Error("depends");
    for (const b of body) {
      if (inside.step(b)) may = true;
      inside.settle(b);
    }
    const own = inside.get(result), isArgument = given.some((h) => h.memory === own.memory);
    let made = own;
    const isShown = !isValue && own.parent !== undefined && given.some((h) => own.parent === h);
    if (isValue) made = inside.value({ op: "value", on: result, how: "mul", value: 1 });
    else if (!params.includes(result) && !isShown) { // state is copied
      if (isArgument) throw new Error("state or an argument");
      made = inside.value({ op: "value", on: result, how: "clone" });
    }
    // of another shape of a tensor it depends whether it is parted from that
    const below = isShown ? own.parent! : own;
    const isAll = below.isShape || isOpen(below) || isOpen(own);
    if (made === own && below.parent !== undefined && isAll && !own.isWritten) throw new Error("depends");
    inside.handles.set("", made);
    const written = inside.writtenBy(body);
    may ||= inside.isStale(["", ...written]);
    const lost = written.filter((name) => inside.isStale([name])); // as long as nobody reads them
    inside.done(["", ...written.filter((name) => !lost.includes(name))], written);
    // a part that nobody has written is a value
    if (isShown && !made.isShape && !made.isWritten) made = inside.real(inside.read(""), made);
    // a view that is written shows what it is a view of
    for (const name of written) inside.get(name).isCopied = false;
    this.handles.set(to!, made);
    return may;
  }
}

/** The tensors that a function closes over. */
export function outsideOf({ params = [], body = [], result = "" }: Statement): string[] {
  const own = new Set([...params, ...body.map((b) => b.to)]);
  const all = body.flatMap((b) => [b.on, b.value, ...b.names ?? []]).filter((x) => typeof x === "string");
  return [...new Set([...all, result])].filter((name) => !own.has(name));
}
