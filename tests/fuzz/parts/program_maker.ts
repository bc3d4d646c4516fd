/**
 * Makes random tensor programs: lines of JavaScript over `Tensor`, one statement a line, so that what is run is what is
 * printed. Each line is tried on lazy tensors as it is made: what the library refuses with one of its errors is no part
 * of the program. In: a seeded generator. Out: lines; names `t0`, `t1`, ... stand for tensors.
 */
import { type DType, dtypes, toDType } from "../../../src/dtype/dtype.ts";
import { prod } from "../../../src/helpers/math.ts";
import { shapeOf } from "../../../src/uop/core/shape.ts";
import { toposort, type UOp } from "../../../src/uop/core/uop.ts";
import { checkpoint, grad, jvp, Tensor, valueAndGrad, vmap } from "../../../mod.ts";
import { type Hand, list, type OpRow, takes } from "./op_rows.ts";
import { ALL_ROWS } from "./op_rows_more.ts";
import type { Random } from "../../support/random.ts";

/** One statement. A `realize` may be left out without changing any value. */
export interface Line {
  readonly text: string;
  readonly kind: "leaf" | "op" | "write" | "realize";
}

/** Lines, and the names of what they compute. */
export interface Program {
  readonly lines: readonly Line[];
  readonly outputs: readonly string[];
}

/** Fills a tensor with small values that repeat at no axis: the preamble of every program. */
export const LEAF_SOURCE = `function leaf(shape, dtype, k) {
  const n = shape.reduce((p, q) => p * q, 1), bool = dtype === "bool", big = dtype.endsWith("int64");
  const scale = /^(bfloat|float|fp8)/.test(dtype) ? 8 : 1, low = dtype.startsWith("uint") ? 0 : 30;
  const value = (i) => ((i * 37 + k * 11) % 61 - low) / scale;
  const data = Array.from({ length: n }, (_, i) => bool ? value(i) > 0 : big ? BigInt(value(i)) : value(i));
  return new Tensor(data, { dtype }).reshape(shape);
}`;

/** Tensors by name. */
export type Names = Record<string, Tensor>;

/** What programs may use beside `Tensor`. */
const LIBRARY = { grad, valueAndGrad, jvp, vmap, checkpoint } as const;
/** The names of it. */
export const LIBRARY_NAMES: readonly string[] = Object.keys(LIBRARY);

type Runner = (tensor: typeof Tensor, library: typeof LIBRARY, names: Names) => void;

const compiled = new Map<string, Runner>();

/** Runs lines on the default device: names to tensors. `realize` false leaves realizations out. */
export function runLines(lines: readonly Line[], realize: boolean, into: Names = {}): Names {
  for (const { text, kind } of lines) {
    if (kind === "realize" && !realize) continue;
    let run = compiled.get(text);
    if (run === undefined) {
      const body = text.replace(/^const (\w+) =/, "n.$1 =").replace(/^const \[([^\]]*)\] =/, (_, list: string) => {
        return `[${list.split(", ").map((name) => `n.${name}`).join(", ")}] =`;
      }).replace(/(?<![\w.])t\d+\b/g, "n.$&");
      const head = `"use strict";\nconst { ${LIBRARY_NAMES.join(", ")} } = library;\n${LEAF_SOURCE}`;
      run = new Function("Tensor", "library", "n", `${head}\n${body}`) as Runner;
      if (compiled.size > 50000) compiled.clear();
      compiled.set(text, run);
    }
    run(Tensor, LIBRARY, into);
  }
  return into;
}

const FLOATS = [
  ...["float32", "float32", "float32", "float32", "float32", "float16", "float16", "bfloat16", "bfloat16"],
  ...["float64", "float64", "fp8e4m3", "fp8e5m2"],
] as const;
const INTS = ["int32", "int32", "uint8", "int8", "int16", "uint16", "uint32", "int64", "uint64"] as const;
const SIZES = [1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64, 100] as const;

const isFloat = (dtype: string): boolean => toDType(dtype).isFloat;

/** Elements of one tensor, and of all nodes below it, that a program may have. */
const MAX_NUMEL = 6000, MAX_WORK = 150_000;

/** What a program is to be like. */
export interface Wish {
  /** An op that it has. */
  readonly op?: OpRow;
  /** The only dtype of its floats. */
  readonly floats?: string;
  /** Whether its gradient with respect to data of `floats` is wanted. Else it is there more often than not. */
  readonly gradient?: boolean;
}

/** Makes one program. */
export class ProgramMaker {
  readonly lines: Line[] = [];
  readonly names: Names = {};
  private readonly live: string[] = [];
  private count = 0;

  constructor(readonly r: Random, readonly wish: Wish = {}) {}

  /** A program of up to `length` lines with one to three outputs. */
  make(length: number): Program {
    const { r } = this, { op } = this.wish, outputs = new Set<string>();
    this.leaf(this.shape(), this.dtype());
    if (op !== undefined) {
      const made = this.wished(op);
      if (made !== undefined) outputs.add(made);
    }
    for (let tries = 0; this.lines.length < length && tries < length * 4; tries++) this.step();
    outputs.add(this.live[this.live.length - 1]);
    while (r.next() < 0.4) outputs.add(r.pick(this.live));
    return { lines: this.lines, outputs: [...outputs] };
  }

  private shape(): number[] {
    const { r } = this, shape: number[] = [], rank = r.pick([0, 1, 1, 2, 2, 2, 3, 3, 4]);
    const zero = r.next() < 0.02 ? r.int(0, 3) : -1;
    for (let i = 0; i < rank; i++) shape.push(i === zero ? 0 : r.pick(SIZES));
    while (prod(shape) > 3000) shape[shape.indexOf(Math.max(...shape))] = r.int(1, 7);
    return shape;
  }
  private dtype(): string {
    const { r } = this, p = r.next();
    return p < 0.6 ? this.wish.floats ?? r.pick(FLOATS) : p < 0.93 ? r.pick(INTS) : "bool";
  }

  /** A call of `op` and, where it has one, its gradient. Gives the last name; undefined where it did not come about. */
  private wished(op: OpRow): string | undefined {
    for (let tries = 0; tries < 100; tries++) {
      const { gradient, floats } = this.wish, dtype = gradient ? floats! : this.dtype();
      const shape = this.shape().map((n) => tries < 50 ? n : Math.min(n, 4)); // many elements may be too many
      if (!takes(op, toDType(dtype), shape.length) || (tries < 90 && shape.includes(0))) continue;
      const x = this.leaf(shape, dtype, gradient);
      if (!this.call(op, x)) continue;
      const [result] = this.live.slice(-(op.results ?? 1));
      if (op.smooth && (gradient || this.r.next() < 0.6)) this.gradient(result, x);
      return this.live[this.live.length - 1];
    }
    return undefined;
  }

  /** Calls an op on `x`. */
  private call(op: OpRow, x: string): boolean {
    const text = op.make(this.hand(x, this.shapeOf(x), this.dtypeOf(x)));
    return text !== undefined && this.emit(text, "op", op.results ?? 1);
  }

  /** What rows of the table may ask of this program. */
  private hand(x: string, shape: readonly number[], dtype: DType): Hand {
    return {
      r: this.r,
      x,
      shape,
      dtype,
      operand: () => this.operand(shape, dtype.name),
      leaf: (s, d) => this.leaf(s, d ?? this.dtype()),
      anyDType: () => this.dtype(),
    };
  }

  /** An op for a dtype and rank. */
  private row(dtype: DType, rank: number, fits: (op: OpRow) => boolean = () => true): OpRow | undefined {
    const { r } = this;
    let p = r.next() * ALL_ROWS.reduce((sum, [share]) => sum + share, 0);
    for (const [share, rows] of ALL_ROWS) {
      p -= share;
      if (p > 0) continue;
      const legal = rows.filter((op) => takes(op, dtype, rank) && fits(op));
      return legal.length === 0 ? undefined : r.pick(legal);
    }
    return undefined;
  }

  /** Tries a statement that defines `results` tensors ($0, $1, ... are names); whether it is part of the program now. */
  private emit(expression: string, kind: Line["kind"] = "op", results = 1): boolean {
    const names = Array.from({ length: results }, (_, i) => `t${this.count + i}`);
    const target = results === 1 ? `const ${names[0]} = ` : results > 1 ? `const [${names.join(", ")}] = ` : "";
    const line: Line = { text: `${target}${expression};`, kind };
    const before = { ...this.names };
    const restore = (): boolean => {
      for (const name of Object.keys(this.names)) delete this.names[name];
      Object.assign(this.names, before);
      return false;
    };
    try {
      runLines([line], false, this.names);
    } catch (error) {
      // the library refuses: of no interest here
      if (/^(ShapeError|IndexError|DTypeError|ArgumentError)$/.test((error as Error).name)) return restore();
      throw new Error(
        `${(error as Error).name} while building: ${this.lines.map((l) => l.text).join("\n")}\n${line.text}`,
        {
          cause: error,
        },
      );
    }
    const touched = results > 0 ? names : Object.keys(this.names);
    if (touched.some((name) => !isSmall(this.names[name].uop))) return restore();
    this.lines.push(line);
    this.live.push(...names);
    this.count += results;
    return true;
  }

  /** A tensor of data, unless `plain` sometimes one that is computed or has special values. */
  private leaf(shape: readonly number[], dtype: string, plain = false): string {
    const { r } = this, p = plain ? 1 : r.next(), before = this.lines.length;
    const float = isFloat(dtype);
    const value = dtype === "bool"
      ? r.pick(["true", "false"])
      : float
      ? r.pick(["0", "1", "-0.5", "2.25"])
      : String(r.int(0, 9));
    if (p < 0.08) this.emit(`Tensor.full(${list(shape)}, ${value}, { dtype: "${dtype}" })`, "leaf");
    else if (p < 0.14 && dtype !== "bool") {
      this.emit(`Tensor.arange(${prod(shape)}, undefined, 1, { dtype: "${dtype}" }).reshape(${list(shape)})`, "leaf");
    } else if (p < 0.17 && float) {
      const special = ["NaN", "Infinity", "-Infinity", "-0", "1", "-3.5"];
      this.emit(
        `new Tensor(${list(Array.from({ length: 5 }, () => r.pick(special)))}, { dtype: "${dtype}" })`,
        "leaf",
      );
    }
    if (this.lines.length === before) this.emit(`leaf(${list(shape)}, "${dtype}", ${r.int(0, 60)})`, "leaf");
    return this.live[this.live.length - 1];
  }

  private pick(): string {
    const { r, live } = this;
    // mostly what is new, so that chains grow
    return r.next() < 0.6 ? live[live.length - 1] : r.pick(live);
  }
  private shapeOf(name: string): readonly number[] {
    return this.names[name].shape;
  }
  private dtypeOf(name: string): DType {
    return this.names[name].dtype;
  }

  private step(): void {
    const { r } = this, p = r.next(), x = this.pick();
    if (p < 0.83) {
      const op = this.row(this.dtypeOf(x), this.shapeOf(x).length);
      if (op !== undefined) this.call(op, x);
    } else if (p < 0.87) this.write(x);
    else if (p < 0.89) this.emit(`${r.next() < 0.5 ? x : this.pick()}.realize()`, "realize", 0);
    else if (p < 0.93) this.gradient(x);
    else if (p < 0.97) this.transform(x);
    else this.leaf(this.shape(), this.dtype());
  }

  /** An operand that broadcasts with `x`: a number, a tensor that is there, or a new one. */
  private operand(shape: readonly number[], dtype: string): string {
    const { r } = this, p = r.next();
    const float = isFloat(dtype);
    if (p < 0.35) {
      if (dtype === "bool") return r.pick(["true", "false"]);
      return float ? r.pick(["2", "0.5", "-1", "3", "0.1", "-2.5"]) : String(r.int(dtype.startsWith("u") ? 0 : -3, 7));
    }
    if (p < 0.7) {
      const fit = this.live.filter((y) => broadcasts(shape, this.shapeOf(y)));
      if (fit.length > 0) return r.pick(fit);
    }
    const cut = r.next() < 0.3 ? r.int(0, shape.length) : 0;
    return this.leaf(shape.slice(cut).map((n) => r.next() < 0.3 ? 1 : n), dtype);
  }

  private write(x: string): void {
    const { r } = this, shape = this.shapeOf(x), d = this.dtypeOf(x), p = r.next();
    const operand = (): string => this.operand(shape, d.name);
    if (p < 0.25) return void this.emit(`${x}.assign(${operand()})`, "write", 0);
    if (p < 0.5) {
      const ops = d.isFloat
        ? ["add", "sub", "mul"]
        : d.isBool
        ? ["bitwiseAnd", "bitwiseOr", "bitwiseXor"]
        : ["add", "sub", "mul", "bitwiseXor"];
      return void this.emit(`${x}.${r.pick(ops)}InPlace(${operand()})`, "write", 0);
    }
    if (shape.length === 0 || shape.includes(0)) return;
    if (p < 0.6) {
      const at = `${this.leaf([r.int(1, 4)], "int32")}.mod(${shape[0]})`;
      return void this.emit(`${x}.setAt([${at}], ${r.int(0, 1)})`, "write", 0);
    }
    if (p < 0.68) return void this.emit(`${x}.setAt([${this.leaf(shape, "bool")}], ${r.int(0, 1)})`, "write", 0);
    for (let i = r.pick([1, 1, 2, 3]); i > 0; i--) {
      const cut = shape.slice(0, r.int(1, shape.length)).map((n) => {
        const start = r.int(0, n - 1);
        return r.next() < 0.3 ? String(start) : list([start, r.int(start + 1, n)]);
      });
      this.emit(`${x}.setAt(${list(cut)}, ${operand().replace(/^t\d+$/, (y) => `${y}.sum()`)})`, "write", 0);
    }
  }

  /** The gradient of a weighted sum with respect to a float that it depends on. */
  private gradient(x: string, of?: string): void {
    // what was realized has no past
    if (!this.dtypeOf(x).isFloat || this.lines.some((l) => l.kind === "realize")) return;
    const below = new Set(toposort(this.names[x].uop));
    const leaves = this.live.filter((y) => y !== x && this.dtypeOf(y).isFloat && below.has(this.names[y].uop));
    if (leaves.length === 0) return;
    const weight = this.leaf(this.shapeOf(x), this.dtypeOf(x).name);
    this.emit(`${x}.mul(${weight}).sum().gradient([${of ?? this.r.pick(leaves)}])[0]`);
  }

  /** A function of a function: the table's ops inside of `grad`, `jvp`, `vmap` and `checkpoint`. */
  private transform(x: string): void {
    const { r } = this, shape = this.shapeOf(x), d = this.dtypeOf(x);
    const inner = (s: readonly number[], fits: (op: OpRow) => boolean): string | undefined => {
      const op = this.row(d, s.length, (o) => !o.name.startsWith("Tensor.") && fits(o));
      const text = op?.make(this.hand("a", s, d));
      return text === undefined ? undefined : `${text}${op!.results === undefined ? "" : "[0]"}`;
    };
    if (r.next() < 0.4 && shape.length > 0) {
      const axis = r.int(0, shape.length - 1), text = inner(shape.toSpliced(axis, 1), () => true);
      if (text !== undefined) this.emit(`vmap((a) => ${text}${where(axis)})(${x})`);
      return;
    }
    if (!d.isFloat) return;
    const text = inner(shape, (op) => op.smooth === true);
    if (text === undefined) return;
    const how = r.pick(["grad", "valueAndGrad", "jvp", "checkpoint", "grad of grad"]);
    if (how === "grad") this.emit(`grad((a) => ${text}.square().sum())(${x})`);
    else if (how === "valueAndGrad") this.emit(`valueAndGrad((a) => ${text}.sum())(${x})`, "op", 2);
    else if (how === "jvp") this.emit(`jvp((a) => ${text}, [${x}], [${this.leaf(shape, d.name)}])`, "op", 2);
    else if (how === "checkpoint") {
      if (this.emit(`checkpoint((a) => ${text})(${x})`)) this.gradient(this.live[this.live.length - 1], x);
    } else this.emit(`grad((b) => grad((a) => ${text}.square().sum())(b).sum())(${x})`);
  }
}

/** The options of a `vmap` over an axis. */
const where = (axis: number): string => axis === 0 ? "" : `, { inAxes: ${axis} }`;

/** Whether `b` broadcasts to `a`. */
function broadcasts(a: readonly number[], b: readonly number[]): boolean {
  return b.length <= a.length && b.every((n, i) => n === 1 || n === a[a.length - b.length + i]);
}

function isSmall(u: UOp): boolean {
  if (prod(shapeOf(u)) > MAX_NUMEL) return false;
  let work = 0;
  for (const v of toposort(u)) {
    if (v.dtype !== dtypes.void) work += prod(shapeOf(v));
    if (work > MAX_WORK) return false;
  }
  return true;
}
