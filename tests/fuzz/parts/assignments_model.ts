/**
 * An eager model of tensors in memory, and random programs for it. Memory is bytes; each write makes a version of it, of
 * which the model keeps a copy, as it keeps what each version was computed from: so it knows which lazy reads are of what
 * a schedule has overwritten. Plain arrays, nothing of src.
 */
import type { Random } from "../simplify.ts";

/** What tensors hold here. */
export type Kind = "int32" | "uint32" | "int16" | "uint8" | "float32";

/** Part of an index: a position, a slice, positions of an axis, where a tensor is positive, or a window at a variable. */
export type Part =
  | number
  | ":"
  | readonly (number | null)[]
  | { readonly at: readonly number[] }
  | { readonly gt: string }
  | { readonly bound: readonly [start: number, count: number, max: number] };

/** One statement, as data: what it means for the library is in assignments.ts. */
export interface Statement {
  readonly op:
    | "leaf"
    | "view"
    | "value"
    | "assign"
    | "setAt"
    | "inplace"
    | "realize"
    | "read"
    | "scope"
    | "jit"
    | "call"
    | "optimize";
  readonly to?: string;
  readonly on?: string;
  readonly how?: string;
  readonly dtype?: Kind;
  readonly shape?: readonly number[];
  readonly values?: number[];
  readonly list?: readonly number[];
  readonly index?: readonly Part[];
  readonly value?: string | number;
  readonly names?: readonly string[];
  readonly body?: readonly Statement[];
  readonly params?: readonly string[];
  readonly result?: string;
  /** Whether a function gives a value computed from its result, and not that itself. */
  readonly isValue?: boolean;
  readonly terms?: readonly (readonly [number, number, boolean])[];
}

const SIZE: Record<Kind, number> = { int32: 4, uint32: 4, int16: 2, uint8: 1, float32: 4 };

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
  /** The views that it was computed from. */
  readonly cells: readonly Cell[];
  /** Whether it is kept in memory once it has been computed, or computed again for each who reads it. */
  isStored: boolean;
  isDone: boolean;
  /** Whether who reads it before it is done reads what it was computed from: a scan, a sum over one element. */
  isThrough?: boolean;
  /** Whether a write made it. */
  readonly isWrite?: boolean;
}

/** A view, and the memory that it got when it was realized: what was computed from it reads that. */
interface Cell {
  own: Version | undefined;
}

/** A name of a tensor: places in memory, and the version that it read. */
interface Handle {
  memory: Memory;
  version: Version;
  /** Bytes at which its elements begin. */
  places: readonly number[];
  readonly shape: readonly number[];
  readonly kind: Kind;
  /** What it is a view of. */
  parent: Handle | undefined;
  /** What it reads has been copied for it. */
  isCopied: boolean;
  isWritten: boolean;
  /** It, and what it is a view of. */
  cells: readonly Cell[];
  /** What a view reads beside the version: what that was computed from, while it might have been read through. */
  through?: readonly Version[];
}

const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);
const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

function load(bytes: Uint8Array, at: number, kind: Kind): number {
  const view = new DataView(bytes.buffer);
  switch (kind) {
    case "int32":
      return view.getInt32(at, true);
    case "uint32":
      return view.getUint32(at, true);
    case "int16":
      return view.getInt16(at, true);
    case "uint8":
      return view.getUint8(at);
    case "float32":
      return view.getFloat32(at, true);
  }
}

function store(bytes: Uint8Array, at: number, kind: Kind, x: number): void {
  const view = new DataView(bytes.buffer);
  switch (kind) {
    case "int32":
    case "uint32":
      return view.setInt32(at, x, true);
    case "int16":
      return view.setInt16(at, x, true);
    case "uint8":
      return view.setUint8(at, x);
    case "float32":
      return view.setFloat32(at, x, true);
  }
}

/** The positions of `shape`, in a row, that an index takes, and the shape of what it takes. */
export function taken(shape: readonly number[], index: readonly Part[]): { shape: number[]; at: number[] } {
  const out: number[] = [];
  let at = [0];
  shape.forEach((n, axis) => {
    const part = index[axis] ?? ":";
    let hits: number[];
    if (typeof part === "number") hits = [part < 0 ? part + n : part];
    else if (part === ":") hits = range(n);
    else if ("at" in part && Array.isArray(part.at)) hits = part.at.map((i: number) => i < 0 ? i + n : i);
    else if ("bound" in part) hits = range(part.bound[1]).map((i) => part.bound[0] + i);
    else {
      const [start, stop, by] = part as readonly (number | null)[], step = by ?? 1;
      hits = [];
      const clamp = (x: number, low: number, high: number) => Math.min(Math.max(x < 0 ? x + n : x, low), high);
      if (step > 0) {
        const end = stop === null || stop === undefined ? n : clamp(stop, 0, n);
        for (let i = start === null ? 0 : clamp(start, 0, n); i < end; i += step) hits.push(i);
      } else {
        const end = stop === null || stop === undefined ? -1 : clamp(stop, -1, n - 1);
        for (let i = start === null ? n - 1 : clamp(start, -1, n - 1); i > end; i += step) hits.push(i);
      }
    }
    if (typeof part !== "number") out.push(hits.length);
    at = at.flatMap((p) => hits.map((i) => p * n + i));
  });
  return { shape: out, at };
}

/** For each position of `shape` permuted by `order`, that in `shape`. */
function permuted(shape: readonly number[], order: readonly number[]): number[] {
  const to = order.map((a) => shape[a]);
  return range(product(to)).map((flat) => {
    const at = new Array<number>(shape.length);
    for (let i = to.length - 1; i >= 0; i--) {
      at[order[i]] = flat % to[i];
      flat = Math.floor(flat / to[i]);
    }
    return at.reduce((p, x, i) => p * shape[i] + x, 0);
  });
}

/** Whether a tensor is all of its memory, in order: another shape of it, which nothing copies. */
function isWhole({ memory, places, kind }: Handle): boolean {
  return places.length * SIZE[kind] === memory.newest.bytes.length && places.every((p, i) => p === i * SIZE[kind]);
}

/** What the value of a handle was computed from, where who reads it now reads that. */
function readThrough({ version }: Handle): readonly Version[] | undefined {
  return version.isThrough && !version.isDone ? version.from : undefined;
}

/** Whether what a view got when it was realized has been overwritten. */
function isOver({ own }: Cell): boolean {
  return own !== undefined && own.memory.done > own.at;
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
  return v.isDone ? v.memory.done > v.at : v.from.some((f) => isLate(f, seen)) || v.cells.some(isOver);
}

/** Runs programs eagerly. */
export class Model {
  readonly handles: Map<string, Handle> = new Map();
  private readonly functions = new Map<string, Statement>();
  /** All memory that there is. */
  private memories = new Set<Memory>();

  get(name: string): Handle {
    const h = this.handles.get(name);
    if (h === undefined) throw new Error(`no ${name}`);
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
  private now({ memory, places, kind }: Handle): number[] {
    return places.map((p) => load(memory.newest.bytes, p, kind));
  }

  /** Whether realizing these reads what an earlier schedule has overwritten. */
  isStale(names: readonly string[]): boolean {
    const seen = new Set<Version>();
    return names.some((name) => {
      const h = this.get(name), read = [h.version, ...h.through ?? []];
      return (!h.isCopied && read.some((v) => isLate(v, seen))) || h.cells.some(isOver);
    });
  }

  /**
   * Tells that these have been realized; `explicit` where that was asked for, and not to read them. Writes that read what
   * this overwrites are done with it, but for values that it computes on its way.
   */
  done(names: readonly string[], explicit: boolean): void {
    const seen = new Set<Version>();
    const waiting = [...this.memories].map((m) => m.newest).filter((v) => v.isWrite && !v.isDone && !isLate(v));
    this.realized(names, explicit, seen);
    for (let again = true; again;) {
      again = false;
      for (const v of waiting) {
        if (v.isDone || (!v.isStored && seen.has(v)) || !isLate(v)) continue;
        v.isStored = again = true;
        finish(v, new Set());
      }
    }
  }
  private realized(names: readonly string[], explicit: boolean, seen: Set<Version>): void {
    for (const name of names) {
      const h = this.get(name);
      if (h.parent === undefined && !h.version.isStored) {
        seen.delete(h.version);
        h.version.isStored = true;
      }
      if (!h.isCopied) finish(h.version, seen);
      h.isCopied = h.parent !== undefined && !isWhole(h);
      if (!explicit || h.parent === undefined || h.isWritten) continue;
      const { parent } = h, values = this.read(name);
      for (const other of this.handles.values()) if (other.parent === h) other.parent = parent;
      const own = this.made(values, h.shape, h.kind, []);
      own.version.isStored = true;
      h.cells[0].own = own.version;
      h.cells = own.cells;
      h.memory = own.memory;
      h.version = own.version;
      h.places = own.places;
      h.parent = undefined;
      h.isCopied = false;
      finish(h.version, seen);
    }
  }
  private made(
    values: readonly number[],
    shape: readonly number[],
    kind: Kind,
    from: readonly Version[],
    cells: readonly Cell[] = [],
  ): Handle {
    const bytes = new Uint8Array(Math.max(1, values.length) * SIZE[kind]),
      places = values.map((_, i) => i * SIZE[kind]);
    values.forEach((x, i) => store(bytes, places[i], kind, x));
    const memory = { done: -1 } as Memory;
    this.memories.add(memory);
    const version = memory.newest = { memory, at: 0, bytes, from, cells, isStored: false, isDone: false };
    return {
      memory,
      version,
      places,
      shape,
      kind,
      parent: undefined,
      isCopied: false,
      isWritten: false,
      cells: [{ own: undefined }],
    };
  }

  private viewOf(h: Handle, at: readonly number[], shape: readonly number[], kind: Kind = h.kind): Handle {
    return {
      ...h,
      places: at.map((i) => h.places[i]),
      shape,
      kind,
      parent: h,
      through: h.through ?? readThrough(h),
      isWritten: false,
      cells: [{ own: undefined }, ...h.cells],
    };
  }

  /** Writes values; `whole` where the library computes them into memory in any case. */
  private write(
    h: Handle,
    at: readonly number[],
    values: readonly number[],
    from: readonly Version[],
    cells: readonly Cell[],
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
      cells,
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
  ): { values: number[]; from: Version[]; cells: readonly Cell[] } {
    const count = product(shape);
    if (typeof x === "number") return { values: new Array<number>(count).fill(x), from: [], cells: [] };
    const h = this.get(x);
    if (h.shape.join() !== shape.join()) throw new Error(`${x} does not fit`);
    return { values: this.read(x), from: this.fromOf(h), cells: h.cells };
  }
  private fromOf(h: Handle): Version[] {
    return h.isCopied ? [] : [...h.through ?? readThrough(h) ?? [h.version]];
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
        const h = this.get(s.on!), { values, from, cells } = this.operand(s.value!, h.shape);
        if (s.value !== s.on) this.write(h, range(values.length), values, from, cells);
        return false;
      }
      case "setAt": {
        const h = this.get(s.on!), [first] = s.index!;
        if (typeof first === "object" && "gt" in first) {
          const mask = this.get(first.gt), hits = this.read(first.gt);
          if (mask.shape.join() !== h.shape.join()) throw new Error("no mask for it");
          const { values, from, cells } = this.operand(s.value!, h.shape),
            at = range(hits.length).filter((i) => hits[i] > 0);
          this.write(
            h,
            at,
            at.map((i) => values[i]),
            [...from, ...this.fromOf(mask)],
            [...cells, ...mask.cells],
            false,
            true,
          );
          return false;
        }
        const { at, shape } = taken(h.shape, s.index!), { values: given, from, cells } = this.operand(s.value!, shape);
        const values = s.value === s.on ? this.now(h) : given;
        this.write(
          h,
          at,
          values,
          from,
          cells,
          false,
          s.index!.some((x) => typeof x === "object" && (Array.isArray(x) ? (x[2] ?? 1) < 0 : "at" in x)),
        );
        return false;
      }
      case "inplace": {
        const h = this.get(s.on!), { values, from, cells } = this.operand(s.value!, h.shape);
        const now = this.now(h), other = s.value === s.on ? now : values;
        const next = now.map((x, i) => combine(s.how!, x, other[i], h.kind));
        this.write(h, range(now.length), next, [...from, ...this.fromOf(h)], [...cells, ...h.cells]);
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
      case "optimize":
        return this.optimize(s);
    }
    throw new Error(`no statement: ${s.op}`);
  }

  /** Ends a statement that has run. */
  settle(s: Statement): void {
    if (s.op === "realize") this.done(s.names!, true);
  }

  private view(s: Statement): Handle {
    const h = this.get(s.on!), all = range(h.places.length), list = s.list!;
    switch (s.how) {
      case "at": {
        const { at, shape } = taken(h.shape, s.index!);
        if (at.some((i) => i === undefined || i >= all.length)) throw new Error("out of range");
        return this.viewOf(h, at, shape);
      }
      case "permute":
        return this.viewOf(h, permuted(h.shape, list), list.map((a) => h.shape[a]));
      case "flip":
        return this.viewOf(
          h,
          taken(h.shape, h.shape.map((_, a) => list.includes(a) ? [null, null, -1] : ":")).at,
          h.shape,
        );
      case "reshape":
        if (product(list) !== all.length) throw new Error("sizes differ");
        return this.viewOf(h, all, list);
      case "shrink": {
        const { at, shape } = taken(h.shape, list.map((start, i) => [start, s.shape![i]]));
        return this.viewOf(h, at, shape);
      }
      case "bitcast": {
        const times = SIZE[h.kind] / SIZE[s.dtype!], shape = [...h.shape.slice(0, -1), (h.shape.at(-1) ?? 1) * times];
        const made = this.viewOf(h, all, h.shape.length === 0 ? [] : shape, s.dtype!);
        made.places = h.places.flatMap((p) => range(times).map((i) => p + i * SIZE[s.dtype!]));
        return made;
      }
    }
    return this.viewOf(h, all, h.shape);
  }

  private value(s: Statement): Handle {
    const h = this.get(s.on!), x = this.read(s.on!), { kind, shape } = h, list = s.list!;
    const make = (
      values: readonly number[],
      to: readonly number[],
      from: readonly Version[] = [],
      cells: readonly Cell[] = [],
    ): Handle => this.made(values, to, kind, [...this.fromOf(h), ...from], [...h.cells, ...cells]);
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
        const { values, from, cells } = this.operand(s.value!, shape);
        return make(x.map((v, i) => combine(s.how!, v, values[i], kind)), shape, from, cells);
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
    return made;
  }

  /** A call of a jit function: its arguments and what it gives are real, and what it writes. */
  private call({ on, to, names = [] }: Statement): boolean {
    const f = this.functions.get(on!);
    if (f === undefined) throw new Error(`no function ${on}`);
    const { params = [], body = [], result = "", isValue } = f, given = names.map((name) => this.get(name));
    let may = this.isStale(names);
    this.done(names, false);
    may ||= this.isStale(outsideOf(f)); // arguments are real before the function runs
    const inside = new Model();
    inside.memories = this.memories;
    for (const [name, h] of this.handles) inside.handles.set(name, h);
    params.forEach((p, k) => inside.handles.set(p, given[k]));
    for (const b of body) {
      if (inside.step(b)) may = true;
      inside.settle(b);
    }
    const own = inside.get(result), isArgument = given.some((h) => h.memory === own.memory);
    let made = own;
    if (isValue) made = inside.value({ op: "value", on: result, how: "mul", value: 1 });
    else if (!params.includes(result)) { // state is copied
      if (isArgument) throw new Error("state or an argument");
      made = inside.value({ op: "value", on: result, how: "clone" });
    }
    inside.handles.set("", made);
    const isItself = (b: Statement): boolean =>
      b.op === "assign" && typeof b.value === "string" && inside.get(b.on!) === inside.get(b.value);
    const isWrite = ({ op }: Statement): boolean => op !== "view" && op !== "value" && op !== "realize";
    const written = body.filter((b) => isWrite(b) && !isItself(b)).map((b) => {
      let name = b.on!;
      for (let v; (v = body.find((x) => x.to === name)) !== undefined;) name = v.on!;
      return name;
    });
    may ||= inside.isStale(["", ...written]);
    inside.done(["", ...written], true);
    // a view that is written shows what it is a view of
    for (const name of written) inside.get(name).isCopied = false;
    this.handles.set(to!, made);
    return may;
  }

  private optimize(s: Statement): boolean {
    const params = s.names!.map((n) => this.get(n)), may = this.isStale(s.names!), [half, steps] = s.list!;
    this.done(s.names!, true);
    const round = Math.fround, moments = params.map((h) => h.places.map(() => 0));
    for (let k = 0; k < steps; k++) {
      const old = params.map((h) => this.now(h)), sums = old.map((x) => x.reduce((a, b) => a + b, 0));
      const slopes = old.map((x) => x.map(() => 0));
      for (const [a, b, apart] of s.terms!) {
        for (const [p, q] of [[a, b], [b, a]]) {
          slopes[p] = slopes[p].map((g, i) => g + (apart ? sums[q] : old[q][i]));
        }
      }
      params.forEach((h, j) => {
        moments[j] = slopes[j].map((g, i) => round(g + (k === 0 ? 0 : half / 2) * moments[j][i]));
        const next = old[j].map((x, i) => round(x - 0.25 * moments[j][i]));
        this.write(h, range(next.length), next, [], []);
      });
    }
    this.done(s.names!, true);
    return may;
  }
}

/** The tensors that a function closes over. */
function outsideOf({ params = [], body = [], result = "" }: Statement): string[] {
  const own = new Set([...params, ...body.map((b) => b.to)]);
  const all = body.flatMap((b) => [b.on, b.value, ...b.names ?? []]).filter((x) => typeof x === "string");
  return [...new Set([...all, result])].filter((name) => !own.has(name));
}

function combine(how: string, a: number, b: number, kind: Kind): number {
  const bytes = new Uint8Array(4);
  const x = how === "add" ? a + b : how === "sub" ? a - b : how === "max" ? Math.max(a, b) : undefined;
  store(bytes, 0, kind, x ?? (kind === "float32" ? a * b : Math.imul(a, b)));
  return load(bytes, 0, kind);
}

// ---- programs as text

function partText(part: Part): string {
  if (typeof part !== "object") return JSON.stringify(part);
  if ("at" in part && Array.isArray(part.at)) return `new Tensor([${part.at.join(", ")}])`;
  if ("gt" in part) return `${part.gt}.gt(0)`;
  if ("bound" in part) {
    const [start, count, max] = part.bound;
    return `[p(${start}, ${max}), p(${start}, ${max}).add(${count})]`;
  }
  return JSON.stringify(part);
}

/** Ways to write a value that is another one. */
export const SAME = 4;
function sameText(x: string, way: number): string {
  return [`${x}.mul(1)`, `${x}.add(0)`, `new Tensor(true).where(${x}, ${x})`, `${x}.contiguous()`][way];
}

/** A statement as a person would write it. */
export function textOf(s: Statement): string {
  const index = s.index?.map(partText).join(", "), list = JSON.stringify(s.list), to = `const ${s.to} = ${s.on}`;
  switch (s.op) {
    case "leaf": {
      const end = s.how === "realized" ? ".realize()" : s.how === "clone" ? ".clone()" : "";
      return `const ${s.to} = new Tensor([${s.values!.join(", ")}], { dtype: "${s.dtype}" })` +
        `.reshape([${s.shape!.join(", ")}])${end};`;
    }
    case "view":
      if (s.how === "at") return `${to}.at(${index});`;
      if (s.how === "detach") return `${to}.detach();`;
      if (s.how === "bitcast") return `${to}.bitcast("${s.dtype}");`;
      if (s.how === "shrink") return `${to}.shrink(${JSON.stringify(s.list!.map((x, i) => [x, s.shape![i]]))});`;
      return `${to}.${s.how}(${list});`;
    case "value":
      switch (s.how) {
        case "max":
          return `${to}.maximum(${s.value});`;
        case "sum":
          return `${to}.sum(${s.list![0]});`;
        case "scan":
          return `${to}.cumsum(${s.list![0]});`;
        case "total":
          return `${to}.sum().add(${s.on}.flip(0));`;
        case "expand":
          return `${to}.unsqueeze(0).expand([2, ...${s.on}.shape]);`;
        case "pick":
          return `${to}.at(new Tensor(${list}));`;
        case "same":
          return `const ${s.to} = ${sameText(s.on!, s.list![0])};`;
        case "clone":
        case "contiguous":
          return `${to}.${s.how}();`;
      }
      return `${to}.${s.how}(${s.value});`;
    case "assign":
      return `${s.on}.assign(${s.value});`;
    case "setAt":
      return `${s.on}.setAt([${index}], ${s.value});`;
    case "inplace":
      return `${s.on}.${s.how}InPlace(${s.value});`;
    case "realize":
      return `Tensor.realize([${s.names!.join(", ")}]);`;
    case "read":
      return `await ${s.on}.tolist();`;
    case "scope":
      return `scope(() => {\n  ${s.body!.map(textOf).join("\n  ")}\n});`;
    case "jit": {
      const what = { nested: " // called by another one", check: " // with JIT_CHECK=1", off: " // with JIT=0" };
      return `const ${s.to} = jit((${s.params!.join(", ")}) => {\n  ${s.body!.map(textOf).join("\n  ")}\n  ` +
        `return ${s.result}${s.isValue ? ".mul(1)" : ""};\n});${what[s.how as keyof typeof what] ?? ""}`;
    }
    case "call":
      return `${to}(${s.names!.join(", ")});`;
    case "optimize":
      return `const opt = new nn.optim.SGD([${s.names!.join(", ")}], { lr: 0.25, momentum: ${s.list![0] / 2} }); ` +
        `// ${s.list![1]} steps of ` +
        s.terms!.map(([a, b, apart]) =>
          apart ? `${s.names![a]}.sum().mul(${s.names![b]}.sum())` : `${s.names![a]}.mul(${s.names![b]}).sum()`
        ).join(" + ");
  }
}

// ---- making programs

const SHAPES: readonly (readonly number[])[] = [[4], [6], [2, 3], [3, 2], [2, 2], [3, 4], [2, 2, 3]];
const VALUES = ["add", "add", "mul", "max", "sum", "scan", "total", "expand", "clone", "contiguous", "pick", "same"];
/** Share of lazy reads that may be too late already. */
const LATE = 0.02;

/** Makes one program. */
export class Maker {
  private readonly model = new Model();
  private readonly program: Statement[] = [];
  /** What was made by repeating or picking elements. */
  private readonly copies = new Set<string>();
  private count = 0;
  /** The functions, and a tensor that is like their arguments. */
  private readonly functions: { readonly name: string; readonly params: number; readonly like: string }[] = [];

  constructor(private readonly r: Random) {}

  private get chance(): number {
    return this.r.next();
  }
  private name(): string {
    return `t${this.count++}`;
  }
  private add(s: Statement): void {
    this.program.push(s);
    this.model.step(s);
    this.model.settle(s);
  }

  make(): readonly Statement[] {
    const { r } = this;
    if (this.chance < 0.1) {
      this.training();
      return this.program;
    }
    const leaves = r.int(1, 3);
    for (let i = 0; i < leaves; i++) this.leaf();
    const length = r.int(3, 12);
    for (let i = 0; i < length; i++) this.any();
    this.finish();
    return this.program;
  }

  /** All that can still be read, in some order, in one schedule or several. */
  private finish(): void {
    const { r, model } = this, rest = [...model.handles.keys()];
    while (rest.length > 0) {
      const some = rest.splice(r.int(0, rest.length - 1), 1);
      while (rest.length > 0 && this.chance < 0.4) some.push(...rest.splice(r.int(0, rest.length - 1), 1));
      const fresh = some.filter((n) => this.chance < LATE / 4 || !model.isStale([n]));
      const real = fresh.filter((n) => this.parts(n));
      if (real.length > 0 && this.chance < 0.6) this.add({ op: "realize", names: real });
      for (const on of fresh) {
        if (this.model.isStale([on]) && this.chance > LATE / 4) continue;
        this.read(on);
      }
    }
  }
  /** Whether realizing a tensor parts it from what it is a view of, or never does: that of another shape depends. */
  private parts(name: string): boolean {
    const h = this.model.get(name);
    return h.parent === undefined || h.isWritten || !isWhole(h);
  }
  private read(on: string): void {
    this.program.push({ op: "read", on });
    this.model.done([on], false);
  }

  private leaf(dtype: Kind = this.chance < 0.8 ? "int32" : "uint32", shape = this.r.pick(SHAPES)): string {
    const values = range(product(shape)).map(() => this.r.int(dtype === "int32" ? -3 : 0, 9)), to = this.name();
    this.add({ op: "leaf", to, shape, dtype, values, how: this.r.pick(["realized", "realized", "lazy", "clone"]) });
    return to;
  }

  /** A tensor that fits, to be read. */
  private pick(fits: (h: Handle) => boolean = () => true): string | undefined {
    const late = this.chance < LATE;
    const all = [...this.model.handles].filter(([n, h]) => fits(h) && (late || !this.model.isStale([n])));
    return all.length === 0 ? undefined : this.r.pick(all)[0];
  }
  private operand(shape: readonly number[], kind: Kind): string | number {
    const found = this.chance < 0.7 ? this.pick((h) => h.kind === kind && h.shape.join() === shape.join()) : undefined;
    return found ?? this.r.int(1, 9);
  }

  private any(): void {
    const p = this.chance;
    if (p < 0.3) this.view();
    else if (p < 0.5) this.value();
    else if (p < 0.85) this.write();
    else if (p < 0.93) {
      const names = new Set<string>();
      do {
        const n = this.pick();
        if (n !== undefined && this.parts(n)) names.add(n);
      } while (this.chance < 0.5);
      const list = [...names];
      if (list.length > 0) this.add({ op: "realize", names: list });
    } else if (p < 0.95) {
      const on = this.pick();
      if (on !== undefined) this.read(on);
    } else if (p < 0.965) this.scoped();
    else if (this.functions.length > 0 && this.chance < 0.6) this.call(this.r.pick(this.functions));
    else this.jit();
  }

  private part(n: number): Part {
    const { r } = this, p = this.chance;
    if (p < 0.3) return r.int(-n, n - 1);
    if (p < 0.45) return ":";
    if (p < 0.6) return [null, null, r.pick([-1, 2, -2, 3])];
    const start = r.int(0, n - 1), stop = r.int(start + 1, n);
    if (p < 0.75 && n > 1) {
      const count = Math.min(stop - start, n - 1);
      return { bound: [Math.min(start, n - count), count, n - count] };
    }
    return [start, stop];
  }
  private index(shape: readonly number[]): Part[] {
    const parts: Part[] = [];
    for (let i = 0; i < shape.length && (i === 0 || this.chance < 0.6); i++) parts.push(this.part(shape[i]));
    return parts;
  }

  private view(): string | undefined {
    const { r } = this, on = this.pick();
    if (on === undefined) return undefined;
    const { shape, kind } = this.model.get(on), rank = shape.length, to = this.name();
    const how = r.pick(["at", "at", "at", "permute", "flip", "reshape", "shrink", "bitcast", "detach"]);
    if (rank === 0 && how !== "detach") return undefined;
    switch (how) {
      case "at":
        this.add({ op: "view", to, on, how, index: this.index(shape) });
        break;
      case "permute":
        this.add({ op: "view", to, on, how, list: range(rank).sort(() => this.chance - 0.5) });
        break;
      case "flip":
        this.add({ op: "view", to, on, how, list: range(rank).filter(() => this.chance < 0.6) });
        break;
      case "reshape": {
        const n = product(shape), divisor = r.pick(range(n).map((i) => i + 1).filter((d) => n % d === 0));
        this.add({ op: "view", to, on, how, list: this.chance < 0.4 ? [n] : [divisor, n / divisor] });
        break;
      }
      case "shrink": {
        const list = shape.map((n) => r.int(0, n - 1));
        this.add({ op: "view", to, on, how, list, shape: shape.map((n, i) => r.int(list[i] + 1, n)) });
        break;
      }
      case "bitcast": {
        if (SIZE[kind] < 4) return undefined;
        this.add({ op: "view", to, on, how, dtype: r.pick(["int32", "uint32", "uint32", "int16", "uint8"]) });
        break;
      }
      default:
        this.add({ op: "view", to, on, how });
    }
    return to;
  }

  private value(): string | undefined {
    const { r } = this, on = this.pick((h) => SIZE[h.kind] === 4), to = this.name();
    if (on === undefined) return undefined;
    const { shape, kind } = this.model.get(on), rank = shape.length;
    let how = r.pick(VALUES);
    if (rank === 0 || product(shape) > 24) how = "add";
    if (how === "expand" || how === "pick") this.copies.add(to);
    if (how === "sum" || how === "scan") this.add({ op: "value", to, on, how, list: [r.int(0, rank - 1)] });
    else if (how === "pick") {
      this.add({
        op: "value",
        to,
        on,
        how,
        list: range(r.int(1, 3)).map(() => r.int(0, shape[0] - 1)),
      });
    } else if (how === "same") this.add({ op: "value", to, on, how, list: [r.int(0, SAME - 1)] });
    else if (["add", "mul", "max"].includes(how)) {
      this.add({ op: "value", to, on, how, value: this.operand(shape, kind) });
    } else this.add({ op: "value", to, on, how });
    return to;
  }

  private write(): Statement | undefined {
    const { r } = this, all = [...this.model.handles.keys()], on = r.pick(all), { shape, kind } = this.model.get(on);
    const p = this.chance;
    let s: Statement;
    // of a copy that may be a mistake: a named error (tests/tensor/inplace_test.ts)
    const mayAssign = !this.copies.has(on);
    if (p < 0.3 && mayAssign) s = { op: "assign", on, value: this.operand(shape, kind) };
    else if (p < 0.5) s = { op: "inplace", on, how: r.pick(["add", "mul", "sub"]), value: this.operand(shape, kind) };
    else if (p < 0.9 && shape.length > 0) {
      const index = this.chance < 0.2
        ? [{ at: range(r.int(1, 3)).map(() => r.int(-shape[0], shape[0] - 1)) }]
        : this.index(shape);
      s = { op: "setAt", on, index, value: this.operand(taken(shape, index).shape, kind) };
    } else {
      const gt = this.pick((h) => h.shape.join() === shape.join());
      if (gt === undefined || shape.length === 0) return undefined;
      s = { op: "setAt", on, index: [{ gt }], value: r.int(1, 9) };
    }
    this.add(s);
    return s;
  }

  /** Writes in a scope: what is made inside is gone after it. */
  private scoped(): void {
    const own = (h: Handle): boolean => h.parent === undefined && h.version.isDone && h.memory.newest === h.version;
    const on = this.pick((h) => own(h) && h.shape.length > 0);
    if (on === undefined) return;
    const { shape } = this.model.get(on), inner = this.name();
    const body: Statement[] = [
      { op: "view", to: inner, on, how: "at", index: this.index(shape) },
      { op: "inplace", on: inner, how: "add", value: this.r.int(1, 9) },
      { op: "realize", names: [on] },
    ];
    this.add({ op: "scope", body });
    this.model.handles.delete(inner);
  }

  /** A function that writes to its arguments, and to what it closes over, called some times, with other things in between. */
  private jit(): void {
    const { r, model } = this, own = (h: Handle): boolean => h.parent === undefined && SIZE[h.kind] === 4;
    const arg = this.pick((h) => own(h) && h.shape.length > 0);
    if (arg === undefined) return;
    const { shape, kind } = model.get(arg);
    const alike = (h: Handle): boolean => own(h) && h.shape.join() === shape.join() && h.kind === kind;
    const state = this.pick((h) => alike(h) && (h !== model.get(arg) || this.chance < 0.3)) ?? this.leaf(kind, shape);
    if (this.chance < 0.5) this.add({ op: "realize", names: [arg, state] });
    const body: Statement[] = [],
      params = range(r.pick([1, 1, 2])).map(() => this.name()),
      targets = [...params, state];
    const length = r.int(1, 3), inner = this.chance < 0.4 ? this.kept(body, r.pick(targets), shape) : undefined;
    // at once, together with what is written, or when the function ends
    const [at, beside] = [r.int(0, length + 1), this.chance < 0.5 ? r.pick(targets) : undefined];
    for (let i = 0; i <= length; i++) {
      if (inner !== undefined && i === at) {
        const written = beside !== undefined && body.some(({ on }) => on === beside) ? [beside] : [];
        body.push({ op: "realize", names: [inner, ...written] });
      }
      if (i === length) break;
      const on = r.pick(targets), p = this.chance;
      if (p < 0.3) body.push({ op: "inplace", on, how: r.pick(["add", "mul"]), value: r.pick([...targets, 3]) });
      else if (p < 0.5) body.push({ op: "assign", on, value: r.pick(targets) });
      else if (p < 0.75) body.push({ op: "setAt", on, index: [this.r.int(0, shape[0] - 1)], value: r.int(1, 9) });
      else {
        const inner = this.name();
        body.push({ op: "view", to: inner, on, how: "at", index: [[0, r.int(1, shape[0])]] });
        body.push({ op: "inplace", on: inner, how: "add", value: r.int(1, 9) });
      }
    }
    const name = this.name(), isValue = this.chance < 0.7, how = r.pick(["", "", "", "", "nested", "check", "off"]);
    const result = r.pick(inner === undefined ? targets : [inner, ...targets]);
    this.add({ op: "jit", to: name, how, params, body, result, isValue });
    const f = { name, params: params.length, like: arg };
    this.functions.push(f);
    const calls = r.int(2, 5), same = this.chance < 0.6 ? params.map(() => arg) : undefined;
    for (let i = 0; i < calls; i++) {
      this.call(f, this.chance < 0.8 ? same : undefined);
      while (this.chance < 0.5) this.between([arg, state]);
    }
  }

  /** A movement of a value that is what `on` is now; that of a part computes nothing. */
  private kept(body: Statement[], on: string, shape: readonly number[]): string {
    const { r } = this, value = this.name(), to = this.name(), n = product(shape);
    body.push({ op: "value", to: value, on, how: "same", list: [r.int(0, SAME - 1)] });
    const how = r.pick(["reshape", "reshape", "flip", "at"]);
    if (how === "reshape") body.push({ op: "view", to, on: value, how, list: r.pick([[n], [n, 1], [1, n]]) });
    else if (how === "flip") body.push({ op: "view", to, on: value, how, list: [0] });
    else body.push({ op: "view", to, on: value, how, index: [[0, r.int(1, shape[0])]] });
    return to;
  }

  /** A call with these arguments, or any that fit. */
  private call({ name, params, like }: Maker["functions"][number], given?: readonly string[]): void {
    const { model } = this, { shape, kind } = model.get(like);
    // a part of what the function closes over is refused
    const outside = outsideOf(this.program.find((s) => s.op === "jit" && s.to === name)!).map((n) =>
      model.get(n).memory
    );
    const fits = (h: Handle): boolean => h.parent === undefined || !outside.includes(h.memory);
    const names = given ??
      range(params).map(() => this.pick((h) => fits(h) && h.kind === kind && h.shape.join() === shape.join()));
    if (!names.every((n) => n !== undefined)) return;
    const s: Statement = { op: "call", to: this.name(), on: name, names };
    if (Model.accepts([...this.program, s])) this.add(s);
  }

  /** A lazy read, or a write that nothing realizes, of one of these; or anything. */
  private between(names: readonly string[]): void {
    const { r } = this, on = r.pick(names), { shape, kind } = this.model.get(on), p = this.chance;
    if (p < 0.3) {
      this.add({ op: "value", to: this.name(), on, how: "add", value: this.operand(shape, kind) });
    } else if (p < 0.5) this.add({ op: "inplace", on, how: r.pick(["add", "mul"]), value: this.operand(shape, kind) });
    else if (p < 0.6 && !this.copies.has(on)) this.add({ op: "assign", on, value: this.operand(shape, kind) });
    else if (p < 0.75) this.add({ op: "setAt", on, index: [r.int(0, shape[0] - 1)], value: r.int(1, 9) });
    else if (p < 0.8) this.read(on);
    else if (this.depth < 1) {
      this.depth++;
      this.any();
      this.depth--;
    }
  }
  private depth = 0;

  /** A model whose parameters meet in its loss. */
  private training(): void {
    const { r } = this,
      names: string[] = [],
      terms: [number, number, boolean][] = [],
      shape = r.pick(SHAPES.slice(0, 4));
    const count = r.int(2, 4);
    for (let i = 0; i < count; i++) {
      const to = this.name(), own = this.chance < 0.6 ? shape : r.pick(SHAPES.slice(0, 4));
      const values = range(product(own)).map(() => r.int(-2, 2));
      this.add({ op: "leaf", to, shape: own, dtype: "float32", values, how: "realized" });
      names.push(to);
    }
    for (let i = 0; i < count; i++) {
      const j = r.int(0, count - 1),
        same = this.model.get(names[i]).shape.join() === this.model.get(names[j]).shape.join();
      terms.push([i, j, !same || this.chance < 0.5]);
    }
    this.add({ op: "optimize", names, terms, list: [r.int(0, 1), r.int(1, 2)] });
    this.finish();
  }
}
