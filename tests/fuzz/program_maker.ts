/**
 * Makes random tensor programs: lines of JavaScript over `Tensor`, one statement a line, so that what is run is what is
 * printed. Each line is tried on lazy tensors as it is made: what the library refuses with one of its errors is no part
 * of the program. In: a seeded generator. Out: lines; names `t0`, `t1`, ... stand for tensors.
 */
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { prod } from "../../src/helpers/math.ts";
import { shapeOf } from "../../src/uop/shape.ts";
import { toposort, type UOp } from "../../src/uop/uop.ts";
import { Tensor } from "../../mod.ts";
import type { Random } from "./simplify.ts";

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
  const scale = dtype.includes("float") ? 8 : 1, low = dtype.startsWith("uint") ? 0 : 30;
  const value = (i) => ((i * 37 + k * 11) % 61 - low) / scale;
  const data = Array.from({ length: n }, (_, i) => bool ? value(i) > 0 : big ? BigInt(value(i)) : value(i));
  return new Tensor(data, { dtype }).reshape(shape);
}`;

/** Tensors by name. */
export type Names = Record<string, Tensor>;

type Runner = (tensor: typeof Tensor, names: Names) => void;

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
      run = new Function("Tensor", "n", `"use strict";\n${LEAF_SOURCE}\n${body}`) as Runner;
      if (compiled.size > 50000) compiled.clear();
      compiled.set(text, run);
    }
    run(Tensor, into);
  }
  return into;
}

const FLOATS = ["float32", "float32", "float32", "float16", "bfloat16", "float64"] as const;
const INTS = ["int32", "int32", "uint8", "int8", "int16", "uint16", "uint32", "int64", "uint64"] as const;
const SIZES = [1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64, 100] as const;

/** Elements of one tensor, and of all nodes below it, that a program may have. */
const MAX_NUMEL = 6000, MAX_WORK = 150_000;

const list = (xs: readonly (number | string)[]): string => `[${xs.join(", ")}]`;

/** Makes one program. */
export class ProgramMaker {
  readonly lines: Line[] = [];
  readonly names: Names = {};
  private readonly live: string[] = [];
  private count = 0;
  private reductions = 0;

  constructor(readonly r: Random) {}

  /** A program of up to `length` lines with one to three outputs. */
  make(length: number): Program {
    const { r } = this;
    this.leaf(this.shape(), this.dtype());
    for (let tries = 0; this.lines.length < length && tries < length * 4; tries++) this.step();
    const outputs = new Set([this.live[this.live.length - 1]]);
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
    return p < 0.6 ? r.pick(FLOATS) : p < 0.93 ? r.pick(INTS) : "bool";
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

  private leaf(shape: readonly number[], dtype: string): string {
    const { r } = this, p = r.next(), before = this.lines.length;
    const float = dtype.includes("float");
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
    if (p < 0.28) this.movement(x);
    else if (p < 0.5) this.binary(x);
    else if (p < 0.62) this.unary(x);
    else if (p < 0.75) this.reduce(x);
    else if (p < 0.8) this.composite(x);
    else if (p < 0.86) this.contraction(x);
    else if (p < 0.92) this.indexing(x);
    else if (p < 0.95) this.write(x);
    else if (p < 0.97) this.emit(`${x}${r.pick([".contiguous()", ".detach()", ".clone()"])}`);
    else if (p < 0.985) this.emit(`${r.next() < 0.5 ? x : this.pick()}.realize()`, "realize", 0);
    else if (p < 0.993) this.gradient(x);
    else this.leaf(this.shape(), this.dtype());
  }

  private movement(x: string): void {
    const { r } = this, shape = this.shapeOf(x), rank = shape.length, axis = r.int(0, Math.max(0, rank - 1));
    const pairs = (f: (n: number) => [number, number]): string => list(shape.map((n) => list(f(n))));
    switch (r.pick([0, 1, 1, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])) {
      case 0:
        return void this.emit(`${x}.reshape(${list(this.factored(prod(shape)))})`);
      case 1:
        return void this.emit(`${x}.permute(${list(this.shuffled(rank))})`);
      case 2:
        return void this.emit(`${x}.flip(${list(shape.map((_, i) => i).filter(() => r.next() < 0.5))})`);
      case 3:
        return void this.emit(`${x}.pad(${pairs(() => [r.pick([0, 0, 1, 2]), r.pick([0, 0, 1, 3])])})`);
      case 4:
        return void this.emit(`${x}.shrink(${
          pairs((n) => {
            const start = r.int(0, n >> 1);
            return [start, r.int(Math.min(n, start + 1), n)];
          })
        })`);
      case 5:
        return void this.emit(
          `${x}.unsqueeze(${r.int(0, rank)}).expand(${list([r.pick([2, 3, 5]), ...shape.map(() => -1)])})`,
        );
      case 6:
        return void this.emit(`${x}.expand(${list(shape.map((n) => n === 1 ? r.pick([1, 2, 4, 7]) : n))})`);
      case 7:
        return void this.emit(`${x}.repeat(${list(shape.map(() => r.pick([1, 1, 2, 3])))})`);
      case 8:
        return void this.emit(`${x}.roll(${r.int(-3, 3)}, ${axis})`);
      case 9: {
        const other = r.next() < 0.5 ? x : this.leaf(shape, this.dtypeOf(x).name);
        return void this.emit(`${x}.cat([${other}], ${axis})`);
      }
      case 10:
        return void this.emit(`${x}.at(${list(shape.map((n) => this.slice(n))).slice(1, -1)})`);
      case 11:
        return void this.emit(
          `${x}.pad(${
            pairs((n) => [r.int(0, Math.min(2, Math.max(0, n - 1))), r.int(0, Math.min(2, Math.max(0, n - 1)))])
          }, { mode: "${r.pick(["reflect", "replicate", "circular"])}" })`,
        );
      case 12:
        return void this.emit(`${x}.unfold(${axis}, ${r.int(1, 3)}, ${r.int(1, 3)})`);
      case 13:
        return void this.emit(
          `${x}.${r.pick(["flatten()", "squeeze()", "transpose()", "diagonal()", "tril()", "triu(1)"])}`,
        );
    }
  }

  private factored(n: number): number[] {
    const { r } = this, out: number[] = [];
    for (let left = n; left > 1;) {
      const divisors = [left];
      for (let d = 2; d * d <= left; d++) if (left % d === 0) divisors.push(d, left / d);
      const d = r.pick(divisors);
      out.push(d);
      left /= d;
    }
    if (n === 0) return [r.int(0, 2), 0];
    if (r.next() < 0.3) out.splice(r.int(0, out.length), 0, 1);
    return out;
  }
  private shuffled(n: number): number[] {
    const order = Array.from({ length: n }, (_, i) => i);
    for (let i = n - 1; i > 0; i--) {
      const j = this.r.int(0, i);
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }
  private slice(n: number): string {
    const { r } = this, p = r.next();
    if (p < 0.25) return `":"`;
    if (p < 0.4 && n > 0) return String(r.int(-n, n - 1));
    if (p < 0.5) return `null, ":"`;
    const start = r.int(0, n >> 1);
    return p < 0.9
      ? list([start, r.int(start, n), ...(r.next() < 0.4 ? [r.int(1, 3)] : [])])
      : list([n - 1, "null", -r.int(1, 3)]);
  }

  /** An operand that broadcasts with `x`: a number, a tensor that is there, or a new one. */
  private operand(x: string, dtype: string = this.dtypeOf(x).name): string {
    const { r } = this, shape = this.shapeOf(x), p = r.next();
    const float = dtype.includes("float");
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

  private binary(x: string): void {
    const { r } = this, d = this.dtypeOf(x), p = r.next();
    if (p < 0.12) return void this.emit(`${this.condition(x)}.where(${x}, ${this.operand(x)})`);
    if (p < 0.2) return void this.emit(this.condition(x));
    if (d.isFloat) {
      const op = r.pick(["add", "add", "sub", "mul", "mul", "div", "maximum", "minimum", "copysign"]);
      const y = this.operand(x);
      if (op === "div" && !/^t/.test(y) || op !== "div") return void this.emit(`${x}.${op}(${y})`);
      return void this.emit(`${x}.div(${y}.square().add(1))`);
    }
    if (d.isBool) {
      return void this.emit(
        `${x}.${r.pick(["bitwiseAnd", "bitwiseOr", "bitwiseXor", "mul", "add"])}(${this.operand(x)})`,
      );
    }
    const op = r.pick([
      "add",
      "sub",
      "mul",
      "maximum",
      "minimum",
      "bitwiseAnd",
      "bitwiseOr",
      "bitwiseXor",
      "floorDiv",
      "mod",
      "fmod",
      "shift",
      "div",
    ]);
    if (op === "shift") {
      return void this.emit(`${x}.${r.pick(["lshift", "rshift"])}(${r.int(0, Math.min(7, d.bits - 1))})`);
    }
    if (["floorDiv", "mod", "fmod", "div"].includes(op)) {
      const n = r.int(1, 9) * (d.isUnsigned || r.next() < 0.8 ? 1 : -1);
      const by = r.next() < 0.7 ? String(n) : `${this.leaf(this.shapeOf(x), d.name)}.bitwiseAnd(7).add(1)`;
      return void this.emit(`${x}.${op}(${by}${op === "div" && r.next() < 0.5 ? ', { roundingMode: "trunc" }' : ""})`);
    }
    this.emit(`${x}.${op}(${this.operand(x)})`);
  }

  private condition(x: string): string {
    return `${x}.${this.r.pick(["lt", "le", "gt", "ge", "eq", "ne"])}(${this.operand(x)})`;
  }

  private unary(x: string): void {
    const { r } = this, d = this.dtypeOf(x), p = r.next();
    if (p < 0.35) return void this.emit(`${x}.cast("${this.dtype()}")`);
    if (d.isFloat) {
      const op = r.pick([
        "relu",
        "exp",
        "exp2",
        "abs",
        "neg",
        "square",
        "sqrt",
        "abs().add(1).log",
        "sin",
        "cos",
        "tanh",
        "sigmoid",
        "floor",
        "ceil",
        "round",
        "trunc",
        "sign",
        "abs().add(0.5).rsqrt",
        "abs().add(0.5).reciprocal",
        "gelu",
        "silu",
        "erf",
        "isnan",
        "isfinite",
        "softplus",
        "clamp(-1, 1).asin",
        "atan",
        "leakyRelu",
        "elu",
      ]);
      return void this.emit(`${x}.${op}()`);
    }
    if (d.isBool) return void this.emit(`${x}.${r.pick(["logicalNot()", 'cast("int32")', 'cast("float32")'])}`);
    const same = ["int32,uint32,float32", "int64,uint64,float64", "int16,uint16,float16", "int8,uint8"].find((s) =>
      s.split(",").includes(d.name)
    )!.split(",").filter((s) => !s.includes("float"));
    this.emit(
      `${x}.${
        r.pick([
          "abs()",
          "neg()",
          "square()",
          "clamp(-2, 9)",
          "bitwiseNot()",
          "sign()",
          "relu()",
          `bitcast("${r.pick(same)}")`,
        ])
      }`,
    );
  }

  private axes(shape: readonly number[]): string {
    const { r } = this;
    if (shape.length === 0 || r.next() < 0.15) return "null";
    const all = shape.map((_, i) => i).filter(() => r.next() < 0.5);
    return all.length === 0 ? String(r.int(-shape.length, shape.length - 1)) : list(all);
  }

  private reduce(x: string): void {
    const { r } = this, d = this.dtypeOf(x), shape = this.shapeOf(x);
    // whole reductions leave little to go on with
    if (shape.length < 2 && r.next() < 0.5 || this.reductions > 4) return;
    this.reductions++;
    const ops = ["sum", "sum", "sum", "max", "min"];
    if (d.isFloat) ops.push("mean", "var", "std", "logsumexp");
    if (d.isBool) ops.push("any", "all");
    if (d.isInt) ops.push("prod");
    const keep = r.next() < 0.5 ? ", { keepdim: true }" : "";
    const op = r.pick(ops);
    if (r.next() < 0.12 && shape.length > 0) {
      return void this.emit(`${x}.${r.pick(["argmax", "argmin"])}(${r.int(0, shape.length - 1)}${keep})`);
    }
    if (this.emit(`${x}.${op}(${this.axes(shape)}${keep})`) && keep !== "" && r.next() < 0.5) {
      this.emit(`${x}.${r.pick(["sub", "mul", "add", "lt"])}(${this.live[this.live.length - 1]})`);
    }
  }

  private composite(x: string): void {
    const { r } = this, d = this.dtypeOf(x), rank = this.shapeOf(x).length;
    if (rank === 0) return;
    const axis = r.int(-rank, rank - 1);
    if (r.next() < 0.3) {
      const p = r.next();
      if (p < 0.4) return void this.emit(`${x}.${r.pick(["cumsum", "cumprod"])}(${axis})`);
      if (p < 0.6) return void this.emit(`${x}.cummax(${axis})`, "op", 2);
      if (p < 0.8) {
        return void this.emit(`${x}.sort(${axis}${r.next() < 0.5 ? ", { descending: true }" : ""})`, "op", 2);
      }
      return void this.emit(`${x}.topk(${r.int(1, 3)}, ${axis})`, "op", 2);
    }
    if (!d.isFloat) return;
    this.emit(`${x}.${
      r.pick([
        `softmax(${axis})`,
        `logSoftmax(${axis})`,
        `layernorm(${axis})`,
        `softmax(${axis})`,
        `normalize({ dim: ${axis} })`,
        `sub(${x}.mean(${axis}, { keepdim: true })).square().sum(${axis})`,
        `logcumsumexp(${axis})`,
      ])
    }`);
  }

  private contraction(x: string): void {
    const { r } = this, d = this.dtypeOf(x).name, shape = this.shapeOf(x), rank = shape.length;
    const p = r.next();
    if (rank < 1 || this.reductions > 4) return;
    this.reductions++;
    if (p < 0.5) {
      const k = shape[rank - 1], n = r.pick(SIZES);
      const w = this.leaf(r.next() < 0.15 ? [k] : [...(rank > 2 && r.next() < 0.5 ? shape.slice(0, -2) : []), k, n], d);
      if (!this.emit(`${x}.matmul(${w})`)) return;
      if (r.next() < 0.4) this.emit(`${this.live[this.live.length - 1]}.add(${this.leaf([n], d)}).relu()`);
    } else if (p < 0.75 && rank >= 3) {
      const dims = Math.min(2, rank - 2), spatial = shape.slice(rank - dims);
      const y = rank === dims + 2
        ? x
        : this.emit(`${x}.reshape(${list([1, -1, ...spatial])})`)
        ? this.live[this.live.length - 1]
        : x;
      const c = this.shapeOf(y)[1], groups = r.next() < 0.2 && c > 0 ? c : 1;
      const kernel = spatial.map((n) => r.int(1, Math.min(3, Math.max(1, n))));
      const w = this.leaf([groups * r.pick([1, 2, 3]), c / groups, ...kernel], d);
      const options = `groups: ${groups}, stride: ${r.pick([1, 1, 2])}, padding: ${r.pick([0, 0, 1])}, dilation: ${
        r.pick([1, 1, 2])
      }`;
      this.emit(`${y}.conv2d(${w}, undefined, { ${options} })`);
    } else if (rank >= 3) {
      const y = rank > 4 ? x : x, k = r.int(1, 3);
      this.emit(`${y}.${r.pick(["maxPool2d", "avgPool2d"])}(${k}, { stride: ${r.int(1, 2)} })`);
    } else if (rank === 2) {
      this.emit(`${x}.matmul(${x}.transpose())`);
    }
  }

  private indexing(x: string): void {
    const { r } = this, shape = this.shapeOf(x), rank = shape.length;
    if (rank === 0 || shape.includes(0)) return;
    const axis = r.int(0, rank - 1), n = shape[axis], p = r.next();
    const positions = (s: readonly number[], mod: number): string => {
      const name = this.leaf(s, r.pick(["int32", "int32", "int64", "uint8"]));
      return this.emit(`${name}.mod(${mod})`) ? this.live[this.live.length - 1] : name;
    };
    if (p < 0.4) {
      const s = r.next() < 0.3 ? [r.int(1, 3), r.int(1, 3)] : [r.int(1, 6)];
      const index = positions(s, n);
      const second = axis + 1 < rank && r.next() < 0.3 ? `, ${positions(s, shape[axis + 1])}` : "";
      this.emit(`${x}.at(${[...new Array(axis).fill('":"'), index].join(", ")}${second})`);
    } else if (p < 0.6) {
      const s = shape.map((m, i) => i === axis ? r.int(1, 5) : m);
      this.emit(`${x}.gather(${axis}, ${positions(s, n)})`);
    } else if (p < 0.8) {
      const s = shape.map((m, i) => i === axis ? r.int(1, 5) : m), index = positions(s, n);
      this.emit(
        `${x}.scatter(${axis}, ${index}, ${this.leaf(s, this.dtypeOf(x).name)}${r.next() < 0.5 ? ', "add"' : ""})`,
      );
    } else if (p < 0.9 && rank === 1) {
      this.emit(`${x}.cast("int32").mod(5).oneHot(5)`);
    } else {this.emit(
        `${this.condition(x)}.where(${x}, Tensor.arange(${shape[rank - 1]}).cast("${this.dtypeOf(x).name}"))`,
      );}
  }

  private write(x: string): void {
    const { r } = this, shape = this.shapeOf(x), p = r.next();
    if (p < 0.3) return void this.emit(`${x}.assign(${this.operand(x)})`, "write", 0);
    if (p < 0.5) return void this.emit(`${x}.${r.pick(["addInPlace", "mulInPlace"])}(${this.operand(x)})`, "write", 0);
    if (shape.length === 0 || shape.includes(0)) return;
    for (let i = r.pick([1, 1, 2, 3]); i > 0; i--) {
      const cut = shape.slice(0, r.int(1, shape.length)).map((n) => {
        const start = r.int(0, n - 1);
        return r.next() < 0.3 ? String(start) : list([start, r.int(start + 1, n)]);
      });
      this.emit(
        `${x}.setAt(${list(cut)}, ${this.operand(x, this.dtypeOf(x).name).replace(/^t\d+$/, (y) => `${y}.sum()`)})`,
        "write",
        0,
      );
    }
  }

  /** The gradient of a weighted sum with respect to a float that it depends on. */
  private gradient(x: string): void {
    // what was realized has no past
    if (!this.dtypeOf(x).isFloat || this.lines.some((l) => l.kind === "realize")) return;
    const below = new Set(toposort(this.names[x].uop));
    const leaves = this.live.filter((y) => y !== x && this.dtypeOf(y).isFloat && below.has(this.names[y].uop));
    if (leaves.length === 0) return;
    const weight = this.leaf(this.shapeOf(x), this.dtypeOf(x).name);
    this.emit(`${x}.mul(${weight}).sum().gradient([${this.r.pick(leaves)}])[0]`);
  }
}

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
