/** Random programs of reads, views and writes: each statement is run by the model, which knows what may be read. */
import type { Random } from "../../support/random.ts";
import { product, range, SIZE, taken } from "./assignments_bytes.ts";
import { comesFrom, type Handle, isOpen, Model } from "./assignments_model.ts";
import { type Kind, type Part, SAME, SAME_COPIES, type Statement } from "./assignments_program.ts";

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
    if (this.chance < 0.25) {
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
      if (fresh.length > 0 && this.chance < 0.6) this.add({ op: "realize", names: fresh });
      for (const on of fresh) {
        if (this.model.isStale([on]) && this.chance > LATE / 4) continue;
        this.read(on);
      }
    }
  }
  private read(on: string): void {
    this.program.push({ op: "read", on });
    this.model.done([on]);
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
        if (n !== undefined) names.add(n);
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
        return this.addView({ op: "view", to, on, how, index: this.index(shape) });
      case "permute":
        return this.addView({ op: "view", to, on, how, list: range(rank).sort(() => this.chance - 0.5) });
      case "flip":
        return this.addView({ op: "view", to, on, how, list: range(rank).filter(() => this.chance < 0.6) });
      case "reshape": {
        const n = product(shape), divisor = r.pick(range(n).map((i) => i + 1).filter((d) => n % d === 0));
        return this.addView({ op: "view", to, on, how, list: this.chance < 0.4 ? [n] : [divisor, n / divisor] });
      }
      case "shrink": {
        const list = shape.map((n) => r.int(0, n - 1));
        return this.addView({ op: "view", to, on, how, list, shape: shape.map((n, i) => r.int(list[i] + 1, n)) });
      }
      case "bitcast": {
        if (SIZE[kind] < 4) return undefined;
        return this.addView({
          op: "view",
          to,
          on,
          how,
          dtype: r.pick(["int32", "uint32", "uint32", "int16", "uint8"]),
        });
      }
      default:
        return this.addView({ op: "view", to, on, how });
    }
  }
  /** Adds a view, unless it is open whether it is its tensor in another shape. */
  private addView(s: Statement): string | undefined {
    if (isOpen(this.model.view(s))) return undefined;
    this.add(s);
    return s.to;
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
    } else if (how === "same") {
      const way = r.int(0, SAME - 1);
      if (way >= SAME_COPIES) this.copies.add(to);
      this.add({ op: "value", to, on, how, list: [way] });
    } else if (["add", "mul", "max"].includes(how)) {
      this.add({ op: "value", to, on, how, value: this.operand(shape, kind) });
    } else this.add({ op: "value", to, on, how });
    return to;
  }

  private write(): Statement | undefined {
    const { r } = this, all = [...this.model.handles.keys()], on = r.pick(all), { shape, kind } = this.model.get(on);
    const p = this.chance;
    let s: Statement;
    // of a copy that may be a mistake: a named error (tests/tensor/inplace_order_test.ts)
    const mayAssign = !this.copies.has(on);
    if (p < 0.3 && mayAssign) {
      const value = this.operand(shape, kind);
      if (value !== on && this.isOneShape(on, value)) return undefined;
      s = { op: "assign", on, value };
    } else if (p < 0.5) s = { op: "inplace", on, how: r.pick(["add", "mul", "sub"]), value: this.operand(shape, kind) };
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

  /** Whether both are all of one memory: to write one to the other may be no write at all. */
  private isOneShape(on: string, value: string | number): boolean {
    if (typeof value === "number") return false;
    const [a, b] = [on, value].map((n) => this.model.get(n));
    return a.memory === b.memory && a.isShape && b.isShape;
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
    let state = this.pick((h) => alike(h) && (h !== model.get(arg) || this.chance < 0.3)) ?? this.leaf(kind, shape);
    if (this.copies.has(state)) state = this.leaf(kind, shape);
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
    let result = r.pick(inner === undefined ? targets : [inner, ...targets]);
    if (params.includes(result) && this.chance < 0.3) result = this.shownOf(body, result, shape);
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

  /** A view of an argument. */
  private shownOf(body: Statement[], on: string, shape: readonly number[]): string {
    const to = this.name(), k = this.r.int(0, shape[0]);
    if (k === 0) body.push({ op: "view", to, on, how: "flip", list: [0] });
    else body.push({ op: "view", to, on, how: "at", index: [[0, k]] });
    return to;
  }

  /** A call with these arguments, or any that fit. */
  private call({ name, params, like }: Maker["functions"][number], given?: readonly string[]): void {
    const { model } = this, { shape, kind } = model.get(like);
    const names = given ??
      range(params).map(() => this.pick((h) => h.kind === kind && h.shape.join() === shape.join()));
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

  /** Parameters that meet in a loss, statistics of them that are written lazily, and what else reads and writes these. */
  private training(): void {
    const { r } = this, shape = r.pick(SHAPES.slice(0, 4)), count = r.int(2, 4), names: string[] = [];
    const leaf = (own: readonly number[], how: string): string => {
      const to = this.name(), values = range(product(own)).map(() => r.int(-2, 2));
      this.add({ op: "leaf", to, shape: own, dtype: "float32", values, how });
      return to;
    };
    for (let i = 0; i < count; i++) {
      names.push(leaf(this.chance < 0.6 ? shape : r.pick(SHAPES.slice(0, 4)), "realized"));
    }
    const stats = range(r.int(1, 3)).map(() =>
      leaf(this.model.get(r.pick(names)).shape, r.pick(["realized", "realized", "lazy", "clone"]))
    );
    const terms = range(count).map((i): [number, number, boolean] => {
      const j = r.int(0, count - 1), [a, b] = [names[i], names[j]].map((n) => this.model.get(n).shape.join());
      return [i, j, a !== b || this.chance < 0.5];
    });
    const half = r.int(0, 1), on = this.name();
    this.add({ op: "optimizer", to: on, names, terms, list: [half, r.int(0, 1)] });
    const steppers = range(r.int(1, 2)).map(() => {
      const body: Statement[] = [],
        to = this.name(),
        how = r.pick(["", "", "jit", "jit", "jit", "nested", "check", "off"]);
      for (let i = r.int(0, 2); i > 0; i--) body.push(...this.statistic(r.pick(stats), names));
      // a value and its assignment are not parted
      const starts = range(body.length + 1).filter((i) =>
        i === 0 || body[i - 1].op !== "value" && body[i - 1].op !== "view"
      );
      this.add({ op: "stepper", to, on, how, body, list: [r.pick(starts)] });
      return to;
    });
    const functions = this.chance < 0.4 ? [this.slopes()] : [];
    const weights = functions.map(() => leaf(shape, "weight"));
    let steps = half === 1 ? 3 : 5; // what is computed stays exact
    const stepper = this.chance < 0.7 ? steppers[0] : undefined;
    for (let i = r.int(4, 12); i > 0; i--) {
      const p = this.chance;
      if (p < 0.45 && steps-- > 0) this.add({ op: "step", on: stepper ?? r.pick(steppers) });
      else if (p < 0.52) this.add({ op: "failing", on });
      else if (p < 0.75) { for (const s of this.statistic(r.pick(stats), names)) this.add(s); }
      else if (p < 0.9 && functions.length > 0) this.slope(functions[0], weights[0]);
      else if (p < 0.93) {
        const s: Statement = { op: "grad", to: this.name(), on, value: r.pick(names) };
        if (Model.accepts([...this.program, s])) this.add(s);
      } else if (p < 0.96) {
        const n = this.pick();
        if (n !== undefined) this.read(n);
      } else {
        const n = this.pick((h) => h.kind === "float32");
        if (n !== undefined) this.add({ op: "value", to: this.name(), on: n, how: "add", value: 1 });
      }
    }
    this.finish();
  }

  /** A lazy write to `on` of what parameters are. */
  private statistic(on: string, names: readonly string[]): Statement[] {
    const { r, model } = this, { shape } = model.get(on), p = this.chance;
    const like = names.filter((n) => model.get(n).shape.join() === shape.join()),
      param = like.length > 0 ? r.pick(like) : 2;
    if (p < 0.3) return [{ op: "inplace", on, how: r.pick(["add", "sub"]), value: param }];
    if (p < 0.45) return [{ op: "assign", on, value: param }];
    if (p < 0.55) return [{ op: "setAt", on, index: [r.int(0, shape[0] - 1)], value: r.int(1, 9) }];
    const to = this.name();
    if (p < 0.85) {
      const next = this.name(), value: Statement = { op: "value", to, on, how: "mul", value: 2 };
      return [value, { op: "value", to: next, on: to, how: "add", value: param }, { op: "assign", on, value: next }];
    }
    return [
      { op: "view", to, on, how: "at", index: [[0, r.int(1, shape[0])]] },
      { op: "inplace", on: to, how: "add", value: r.int(1, 9) },
    ];
  }

  /** Gradients: what writes them is not to be called with them. */
  private readonly slopesMade = new Set<string>();
  /** Functions of gradients that write a factor, and the memory of what they wrote. */
  private readonly adds = new Set<string>();
  private readonly spoiled = new Set<Handle["memory"]>();

  /** A function that fills the gradient of its first argument, and may write its second one. */
  private slopes(): string {
    const to = this.name(), how = this.r.pick(["", "", "nested", "check", "off"]);
    const scale = this.r.int(1, 3), adds = this.chance < 0.4 ? this.r.int(1, 3) : 0;
    if (adds > 0) this.adds.add(to);
    this.add({ op: "slopes", to, how, list: [scale, adds] });
    return to;
  }
  private slope(on: string, x: string): void {
    const { shape } = this.model.get(x);
    const { memory } = this.model.get(x); // of what is computed from it there is a second way to its gradient
    // a weight that something else than a step writes makes what was computed from it stale to gradients
    const isOld = (h: Handle): boolean => [...this.spoiled].some((m) => m !== h.memory && comesFrom(h.version, m));
    const fits = (h: Handle): boolean =>
      h.parent === undefined && h.kind === "float32" && !comesFrom(h.version, memory) && !isOld(h);
    const y = this.pick((h) => fits(h) && h.shape.join() === shape.join());
    const to = this.name();
    this.slopesMade.add(to);
    if (y === undefined || y === x || this.slopesMade.has(y)) return;
    const s: Statement = { op: "slope", to, on, names: [x, y], list: [this.chance < 0.5 ? 1 : 0] };
    if (!Model.accepts([...this.program, s])) return;
    this.add(s);
    if (this.adds.has(on)) this.spoiled.add(this.model.get(y).memory);
  }
}
