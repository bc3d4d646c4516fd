/**
 * Random programs on tensors that are divided among devices of one process, against the same on one device: layers, sums,
 * slices, movement, reshards, writes in place, gradients and optimizers; as they are, or captured and run several times on
 * other values. What is refused is done again on operands made whole, as the error says.
 *
 * deno run -A --no-check tests/fuzz/sharded_programs.ts [seed] [seconds] [case]
 */
import { Device, jit, nn, ShapeError, Tensor } from "../../mod.ts";
import type { Mesh } from "../../src/dist/dist.ts";
import { Random } from "../support/random.ts";
import { MESHES } from "./parts/meshes.ts";

type Spec = (string | null)[];
type Shape = readonly [number, number];
const SIZES = [2, 3, 4, 4, 5, 6, 8];

/** What a program does next: `make` on the values of registers; `text` for people. */
interface Line {
  readonly text: string;
  /** Registers that it reads. */
  readonly reads: readonly number[];
  readonly make: (...xs: Tensor[]) => Tensor;
  /** Whether the first of its registers is written in place. */
  readonly writes?: boolean;
  /** How the result is divided from then on, where that is said. */
  readonly spec?: Spec;
}

/** A program: registers 0 to `leaves.length - 1` are its leaves, each line makes one more. */
export interface ShardedProgram {
  readonly mesh: Mesh;
  readonly leaves: readonly { readonly shape: Shape; readonly spec: Spec }[];
  readonly lines: readonly Line[];
  /** The register whose square is the loss; -1 where nothing is trained. */
  readonly loss: number;
  readonly optimizer: string;
  readonly captured: boolean;
}

const OPTIMIZERS: Readonly<Record<string, (p: Tensor[]) => nn.optim.Optimizer>> = {
  SGD: (p) => new nn.optim.SGD(p, { lr: 0.05, momentum: 0.9 }),
  AdamW: (p) => new nn.optim.AdamW(p, { lr: 0.02, weightDecay: 0.1 }),
  RMSprop: (p) => new nn.optim.RMSprop(p, { lr: 0.02 }),
};

function specOf(r: Random, mesh: Mesh): Spec {
  const spec: Spec = [null, null];
  for (const name of mesh.names) if (r.next() < 0.7) spec[r.below(2)] ??= name;
  return spec;
}

/** Makes programs line by line; shapes are those of registers. */
class Maker {
  readonly shapes: Shape[] = [];
  readonly lines: Line[] = [];
  /** Registers that are memory, and may be written. */
  readonly memory: number[] = [];

  constructor(private readonly r: Random, private readonly mesh: Mesh) {}

  add(text: string, reads: number[], shape: Shape, make: Line["make"], more: Partial<Line> = {}): number {
    this.lines.push({ text: `r${this.shapes.length} = ${text}`, reads, make, ...more });
    return this.shapes.push(shape) - 1;
  }
  private any(): number {
    const n = this.shapes.length;
    return this.r.next() < 0.5 ? this.r.below(n) : n - 1;
  }
  private range(n: number): [number, number] {
    const from = this.r.below(n);
    return [from, from + 1 + this.r.below(n - from)];
  }

  line(): void {
    const { r } = this, a = this.any(), [m, n] = this.shapes[a], kind = r.below(14);
    switch (kind) {
      case 0:
      case 1: {
        const f = r.pick(["tanh", "square", "relu", "abs", "sigmoid"] as const);
        this.add(`r${a}.${f}()`, [a], [m, n], (x) => x[f]().tanh());
        return;
      }
      case 2:
      case 3: {
        const same = this.shapes.flatMap(([p, q], b) => (p === m || p === 1) && (q === n || q === 1) ? [b] : []);
        const b = r.pick(same), f = r.pick(["add", "mul", "sub", "maximum"] as const);
        this.add(`r${a}.${f}(r${b})`, [a, b], [m, n], (x, y) => x[f](y));
        return;
      }
      case 4:
      case 5: {
        const fit = this.shapes.flatMap(([p], b) => p === n ? [b] : []);
        if (fit.length === 0) return;
        const b = r.pick(fit);
        this.add(`r${a}.matmul(r${b})`, [a, b], [m, this.shapes[b][1]], (x, y) => x.matmul(y).tanh());
        return;
      }
      case 6: {
        const dim = r.below(2), f = r.pick(["sum", "mean", "max"] as const), shape: Shape = dim === 0 ? [1, n] : [m, 1];
        this.add(`r${a}.${f}(${dim})`, [a], shape, (x) => x[f](dim, { keepdim: true }));
        return;
      }
      case 7: {
        const [p, q] = [this.range(m), this.range(n)],
          rows = r.next() < 0.7 ? p : null,
          columns = rows === null ? q : null;
        const shape: Shape = [rows === null ? m : rows[1] - rows[0], columns === null ? n : columns[1] - columns[0]];
        this.add(
          `r${a}.shrink([${JSON.stringify(rows)}, ${JSON.stringify(columns)}])`,
          [a],
          shape,
          (x) => x.shrink([rows, columns]),
        );
        return;
      }
      case 8:
        this.add(`r${a}.T`, [a], [n, m], (x) => x.T);
        return;
      case 9: {
        const dim = r.below(2);
        this.add(`r${a}.softmax(${dim})`, [a], [m, n], (x) => x.softmax(dim));
        return;
      }
      case 10: {
        const spec = specOf(r, this.mesh);
        this.add(`r${a}.reshard(${JSON.stringify(spec)})`, [a], [m, n], (x) => x, { spec });
        return;
      }
      case 11: {
        const f = r.pick(["flip", "pad", "cat", "cumsum"] as const),
          shape: Shape = f === "pad" ? [m + 1, n] : f === "cat" ? [2 * m, n] : [m, n];
        const make = {
          flip: (x: Tensor) => x.flip(0),
          pad: (x: Tensor) => x.pad([[0, 1], null]),
          cat: (x: Tensor) => Tensor.cat([x, x], 0),
          cumsum: (x: Tensor) => x.cumsum(0).tanh(),
        };
        this.add(`r${a}.${f}(0)`, [a], shape, make[f]);
        return;
      }
      case 12:
      case 13: {
        const to = r.pick(this.memory),
          [p, q] = this.shapes[to],
          rows = r.next() < 0.6 ? this.range(p) : [0, p] as const;
        const count = rows[1] - rows[0];
        const fit = this.shapes.flatMap(([x, y], b) => (x === count || x === 1) && (y === q || y === 1) ? [b] : []);
        const value = fit.length > 0 && r.next() < 0.8 ? r.pick(fit) : undefined;
        const number = r.int(-2, 2) / 2, named = value === undefined ? String(number) : `r${value}`;
        const isAll = count === p && r.next() < 0.5;
        this.add(
          isAll ? `r${to}.assign(${named})` : `r${to}.setAt([[${rows}]], ${named})`,
          value === undefined ? [to] : [to, value],
          [p, q],
          (x, y?: Tensor) => {
            const v = (y ?? Tensor.full([1, 1], number)).detach().expand([count, q]);
            const own = y === undefined ? v.to(x.device) : v;
            return isAll ? x.assign(own) : x.setAt([[...rows]], own);
          },
          { writes: true },
        );
        return;
      }
    }
  }
}

/** A program by a seed. */
export function programOf(r: Random, meshes: readonly Mesh[] = MESHES): ShardedProgram {
  const mesh = r.pick(meshes), maker = new Maker(r, mesh), leaves: ShardedProgram["leaves"][number][] = [];
  const count = r.int(2, 4);
  for (let k = 0; k < count; k++) {
    const shape: Shape = [r.pick(SIZES), r.pick(SIZES)];
    leaves.push({ shape, spec: specOf(r, mesh) });
    maker.shapes.push(shape);
    if (k > 0) maker.memory.push(k);
  }
  const length = r.int(3, 12), trains = r.next() < 0.5;
  if (trains) maker.memory.splice(0, maker.memory.length - 1); // parameters are written by the optimizer alone
  for (let i = 0; i < length; i++) maker.line();
  const loss = trains ? maker.shapes.length - 1 : -1;
  return {
    mesh,
    leaves,
    lines: maker.lines,
    loss,
    optimizer: r.pick(Object.keys(OPTIMIZERS)),
    captured: r.next() < 0.5,
  };
}

/** Numbers that depend on a register and a call. */
function values([m, n]: Shape, k: number): Tensor {
  return Tensor.arange(m * n).mul(0.37 + 0.11 * k).add(k).sin().reshape([m, n]).realize();
}

/** What a program gives. */
interface Outcome {
  readonly values: number[][];
  readonly refused: number;
}

/** Runs a program three times; `isDivided` on its mesh. */
function runProgram(
  { mesh, leaves, lines, loss, optimizer, captured }: ShardedProgram,
  isDivided: boolean,
): Outcome {
  let refused = 0;
  const put = (t: Tensor, spec: Spec): Tensor => isDivided ? t.shard(mesh, spec).realize() : t;
  const leaf = leaves.map(({ shape, spec }, k) => put(values(shape, k), spec));
  const trained = loss < 0 ? [] : leaf.slice(1, -1);
  for (const t of trained) t.requiresGrad = true;
  const made = trained.length > 0 ? OPTIMIZERS[optimizer](trained) : undefined;
  const act = ({ reads, make, spec, writes }: Line, regs: Tensor[]): Tensor => {
    const xs = reads.map((k) => regs[k]);
    if (spec !== undefined) return isDivided ? xs[0].reshard(mesh, spec) : xs[0].contiguous();
    const run = (list: Tensor[]): Tensor => {
      const made = make(...list);
      void made.sharding;
      return made;
    };
    if (!isDivided) return run(xs);
    const wholes = (): Tensor[] => xs.map((x, i) => writes && i === 0 ? x : x.reshard(mesh, [null, null]));
    try {
      return run(xs);
    } catch (error) {
      if (!(error instanceof ShapeError) || !String(error).includes(".reshard(mesh, [")) throw error;
      refused++;
      return run(wholes());
    }
  };
  const body = (x: Tensor): Tensor[] =>
    Tensor.train(() => {
      made?.zeroGrad();
      const regs = [x, ...leaf.slice(1)];
      for (const line of lines) regs.push(act(line, regs));
      const results = regs.slice(-3);
      if (made !== undefined) {
        const total = regs[loss].square().sum();
        if (total.requiresGrad) {
          total.backward();
          for (const p of trained) p.grad ??= p.mul(0).detach();
          made.step();
        }
      }
      const copies = results.map((t) => t.contiguous());
      Tensor.realize(copies);
      return copies;
    });
  const step = captured ? jit(body) : body, out: Tensor[] = [];
  const read = (t: Tensor): number[] => Array.from(t.dataSync() as ArrayLike<number>, Number);
  const all: number[][] = [];
  for (let i = 0; i < 3; i++) {
    const x = put(values(leaves[0].shape, 10 + i), leaves[0].spec);
    for (const t of step(x)) all.push(read(t));
  }
  out.push(...leaf.slice(1));
  return { values: [...all, ...out.map(read)], refused };
}

/** A program as text. */
export function programText({ mesh, leaves, lines, loss, optimizer, captured }: ShardedProgram): string {
  const head = leaves.map(({ shape, spec }, k) => `r${k}: [${shape}] ${JSON.stringify(spec)}`).join(", ");
  const end = loss < 0 ? "" : `\n  r${loss}.square().sum().backward(), ${optimizer}`;
  return `${mesh}${captured ? ", captured" : ""}: ${head}\n  ${lines.map((l) => l.text).join("\n  ")}${end}`;
}

function isNear(a: number, b: number): boolean {
  return Object.is(a, b) || a === b || Math.abs(a - b) <= 5e-4 * Math.max(1, Math.abs(a), Math.abs(b));
}

/** Runs a program both ways; what is wrong, if something is. */
export function checkProgram(
  p: ShardedProgram,
): { readonly why?: string; readonly refused: number; readonly skipped?: boolean } {
  let want: Outcome, got: Outcome;
  try {
    want = runProgram(p, false);
  } catch (error) {
    return {
      refused: 0,
      skipped: true,
      why: undefined,
      ...(String(error).includes("SpecError") ? { why: `alone: ${error}` } : {}),
    };
  }
  try {
    got = runProgram(p, true);
  } catch (error) {
    return { why: String((error as Error).stack ?? error).slice(0, 700), refused: 0 };
  }
  for (let k = 0; k < want.values.length; k++) {
    const a = want.values[k], b = got.values[k];
    const at = a.length === b.length ? a.findIndex((v, i) => !isNear(v, b[i])) : 0;
    if (at >= 0) return { why: `result ${k}: element ${at} is ${b[at]}, not ${a[at]}`, refused: got.refused };
  }
  return { refused: got.refused };
}

if (import.meta.main) {
  Device.default = "JS";
  const [seed = "1", seconds = "30", only] = Deno.args, end = performance.now() + Number(seconds) * 1e3;
  const counts = { cases: 0, refused: 0, skipped: 0, wrong: 0 };
  for (let k = only === undefined ? 0 : Number(only); performance.now() < end; k++) {
    const p = programOf(new Random(Number(seed) * 1000003 + k));
    if (only !== undefined) console.log(programText(p));
    const { why, refused, skipped } = checkProgram(p);
    counts.cases++;
    counts.refused += refused;
    if (skipped) counts.skipped++;
    if (why !== undefined) {
      counts.wrong++;
      if (counts.wrong <= 6 || only !== undefined) console.log(`${k}: ${programText(p)}\n   ${why}`);
    }
    if (only !== undefined) break;
  }
  console.log(JSON.stringify(counts));
}
