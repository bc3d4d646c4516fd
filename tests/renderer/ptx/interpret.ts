/**
 * Runs the text of a PTX kernel: what PtxRenderer writes can be held against values without a card. Threads of a group go
 * on in turns from one meeting (a barrier, an exchange of lanes) to the next; every access is checked for its memory's
 * bounds and its alignment. Copies that go on by themselves, and matrix units that do (interpret_units.ts), are over when they
 * are waited for, and no earlier; other matrix units are left out: `UnsupportedPtx`.
 *
 * Source of what instructions do: NVIDIA, "Parallel Thread Execution ISA".
 *
 * @module
 */
import { f32Bits, f32FromBits, f32ToBf16Bits, f64Bits, oddNumber } from "../../../src/dtype/convert.ts";
import { f16Bits, f16Value } from "../../../src/dtype/float16.ts";
import type { ProgramMap } from "../../../src/renderer/renderer.ts";
import {
  Batches,
  boxBytes,
  bringBox,
  multiply,
  PhaseBarrier,
  type UnitProduct,
  unitProduct,
} from "./interpret_units.ts";

/** An instruction that is not run here. */
export class UnsupportedPtx extends Error {}

/** What a kernel is started with. */
export interface PtxLaunch {
  /** The memory of each parameter that is an address, the value of each that is a number, and maps, in the order of parameters. */
  readonly args: readonly (Uint8Array | number | bigint | ProgramMap)[];
  readonly groups: readonly number[];
  readonly threads: readonly number[];
  /** Bytes of shared memory. */
  readonly shared: number;
}

type Value = number | bigint | boolean;
/** Values of registers by name: signed 32 bits, signed 64 bits as bigint, 16 bits unsigned, floats, predicates. */
type Registers = Map<string, Value>;

interface Instruction {
  readonly guard?: string;
  readonly isNegated: boolean;
  /** The parts of its name: "ld", "global", "nc", "f32". */
  readonly name: readonly string[];
  readonly operands: readonly string[];
  readonly text: string;
}

interface Kernel {
  readonly params: readonly { readonly name: string; readonly type: string }[];
  readonly code: readonly Instruction[];
  readonly labels: ReadonlyMap<string, number>;
  /** The arrays of a thread, and how many bytes each has. */
  readonly locals: readonly string[];
  readonly sizes: readonly number[];
}

interface Thread {
  readonly registers: Registers;
  readonly id: readonly number[];
  readonly group: readonly number[];
  readonly local: readonly DataView[];
  readonly copies: Batches<() => void>;
  readonly products: Batches<UnitProduct>;
  at: number;
  state: "runs" | "waits" | "exchanges" | "multiplies" | "polls" | "ended";
}

/** Memory of parameter `slot` begins here: no access reaches the next one by mistake. */
const addressOf = (slot: number): bigint => BigInt(slot + 1) << 40n;
/** Parameters that are no address begin here. */
const PARAMETERS = 56n;

function parse(text: string): Kernel {
  const head = /\.visible \.entry \w+\(([^)]*)\)([^{]*)\{([^]*)\}/.exec(text);
  if (head === null) throw new Error(`no kernel in ${text.slice(0, 200)}`);
  const params = [...head[1].matchAll(/\.param (?:\.align \d+ )?\.(\w+) (\w+)/g)].map(([, type, name]) => ({
    name,
    type,
  }));
  const code: Instruction[] = [], labels = new Map<string, number>();
  const locals: string[] = [], sizes: number[] = [];
  for (const line of head[3].split("\n").map((l) => l.trim()).filter((l) => l !== "")) {
    const array = /^\.local \.align \d+ \.b8 (\w+)\[(\d+)\];$/.exec(line);
    if (array !== null) {
      locals.push(array[1]);
      sizes.push(Number(array[2]));
    } else if (/^\$\w+:$/.test(line)) labels.set(line.slice(0, -1), code.length);
    else if (!line.startsWith(".")) {
      const [, guard, rest] = /^(?:@(!?%\w+) )?(.*);$/.exec(line) ?? [];
      if (rest === undefined) throw new Error(`cannot read ${line}`);
      const space = rest.indexOf(" "), name = space < 0 ? rest : rest.slice(0, space);
      const operands = space < 0
        ? []
        : [...rest.slice(space + 1).matchAll(/\{[^}]*\}|\[[^\]]*\]|[^,\s]+/g)].map(([o]) => o);
      code.push({
        guard: guard?.replace("!", ""),
        isNegated: guard?.[0] === "!",
        name: name.split("."),
        operands,
        text: line,
      });
    }
  }
  return { params, code, labels, locals, sizes };
}

/** The registers in an operand. */
function registersOf(operand: string): string[] {
  return operand.match(/%\w+/g) ?? [];
}

/**
 * Does the assembler keep what it must? Of left operands of products that a loop finds in registers, ptxas loses what is not
 * read behind the loop, where the loop has branches.
 */
function checkFound({ code, labels }: Kernel): void {
  code.forEach(({ name, operands: [label] }, end) => {
    const begin = name[0] === "bra" ? labels.get(label)! : end;
    if (begin >= end) return;
    const inside = code.slice(begin, end),
      behind = new Set(code.slice(end).flatMap((x) => x.operands.flatMap(registersOf)));
    const written = new Set(inside.flatMap(({ operands }) => registersOf(operands[0] ?? "")));
    for (const { name, operands, text } of inside) {
      if (name[0] !== "wgmma" || name[1] !== "mma_async" || !operands[1].startsWith("{")) continue;
      const lost = registersOf(operands[1]).find((r) => !written.has(r) && !behind.has(r));
      if (lost !== undefined) throw new Error(`${lost} is not read behind the loop around ${text}`);
    }
  });
}

const floats = new DataView(new ArrayBuffer(8));
function float64Of(bits: bigint): number {
  floats.setBigUint64(0, bits);
  return floats.getFloat64(0);
}

/** A value as an integer of a type, in the range of that type. */
function integer(x: Value, type: string): bigint {
  const n = typeof x === "bigint" ? x : BigInt(Math.trunc(Number(x))), bits = Number(type.slice(1));
  return type[0] === "s" ? BigInt.asIntN(bits, n) : BigInt.asUintN(bits, n);
}
/** How a register holds an integer of a type: signed. */
function held(x: bigint, type: string): Value {
  const bits = Number(type.slice(1));
  return bits === 64 ? BigInt.asIntN(64, x) : bits === 32 ? Number(BigInt.asIntN(32, x)) : Number(x);
}
function rounded(x: number, type: string): number {
  return type === "f32" ? Math.fround(x) : x;
}
/** A whole float as an integer of a type: what is beyond is the nearest, NaN 0. */
function saturated(x: number, type: string): bigint {
  if (Number.isNaN(x)) return 0n;
  const bits = BigInt(type.slice(1)), isSigned = type[0] === "s";
  const most = (1n << (isSigned ? bits - 1n : bits)) - 1n, least = isSigned ? -most - 1n : 0n;
  if (!Number.isFinite(x)) return x > 0 ? most : least;
  const n = BigInt(Math.trunc(x));
  return n > most ? most : n < least ? least : n;
}

/** x * y + z, rounded once where that is float32: the product is exact in float64, whose sum is rounded to odd. */
function fused(x: number, y: number, z: number, type: string): number {
  const p = x * y;
  if (type !== "f32" || !Number.isFinite(p) || !Number.isFinite(z)) return rounded(p + z, type);
  const s = p + z, t = s - p, error = (p - (s - t)) + (z - t);
  if (error === 0) return Math.fround(s);
  floats.setFloat64(0, s);
  const bits = floats.getBigInt64(0);
  if ((bits & 1n) === 0n) floats.setBigInt64(0, bits + ((error > 0) === (s > 0) ? 1n : -1n));
  return Math.fround(floats.getFloat64(0));
}

const COMPARE: Readonly<Record<string, (a: number | bigint, b: number | bigint) => boolean>> = {
  lt: (a, b) => a < b,
  le: (a, b) => a <= b,
  gt: (a, b) => a > b,
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  neu: (a, b) => a !== b,
  nan: (a, b) => a !== a || b !== b,
};

const FLOAT: Readonly<Record<string, (a: number, b: number, c: number, type: string) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  fma: fused,
  neg: (a) => -a,
  sqrt: (a) => Math.sqrt(a),
  rcp: (a) => 1 / a,
  ex2: (a) => 2 ** a,
  lg2: (a) => Math.log2(a),
  max: (a, b) => Math.max(a, b), // max.NaN
};

const INTEGER: Readonly<Record<string, (a: bigint, b: bigint, c: bigint) => bigint>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  mad: (a, b, c) => a * b + c,
  div: (a, b) => b === 0n ? -1n : a / b,
  rem: (a, b) => b === 0n ? a : a % b,
  neg: (a) => -a,
  max: (a, b) => a > b ? a : b,
  min: (a, b) => a < b ? a : b,
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
  not: (a) => ~a,
};

/** The threads of one group, and what they share. */
class Group {
  private readonly shared: DataView;
  /** By where they are in shared memory. */
  private readonly barriers = new Map<number, PhaseBarrier>();
  readonly threads: Thread[] = [];

  constructor(private readonly kernel: Kernel, private readonly launch: PtxLaunch, group: readonly number[]) {
    this.shared = new DataView(new ArrayBuffer(launch.shared));
    const [x, y, z] = launch.threads;
    for (let i = 0; i < x * y * z; i++) {
      const local = kernel.sizes.map((n) => new DataView(new ArrayBuffer(n)));
      const id = [i % x, Math.floor(i / x) % y, Math.floor(i / (x * y))];
      const [copies, products] = [new Batches<() => void>(), new Batches<UnitProduct>()];
      this.threads.push({ registers: new Map(), id, group, local, copies, products, at: 0, state: "runs" });
    }
  }

  run(): void {
    for (;;) {
      for (const t of this.threads) while (t.state === "runs") this.step(t);
      if (this.threads.every((t) => t.state === "ended")) return;
      if (this.exchange() || this.multiply() || this.poll()) continue;
      if (this.threads.some((t) => t.state === "polls")) {
        throw new Error("threads wait for a phase of a barrier that is never complete");
      }
      if (this.threads.some((t) => t.state !== "waits")) {
        throw new Error("threads of a group end, or exchange values, while others wait at a barrier");
      }
      for (const t of this.threads) t.state = "runs";
    }
  }

  /** Lets the warps exchange values of which all threads are at one SHUFFLE; whether there are some. */
  private exchange(): boolean {
    let found = false;
    for (let w = 0; w < this.threads.length; w += 32) {
      const warp = this.threads.slice(w, w + 32);
      if (!warp.every((t) => t.state === "exchanges")) continue;
      if (warp.some((t) => t.at !== warp[0].at)) throw new Error("lanes of a warp exchange values at different places");
      const { operands: [to, from, mask] } = this.kernel.code[warp[0].at];
      const values = warp.map((t) => this.read(t, from));
      warp.forEach((t, lane) => {
        t.registers.set(to, values[lane ^ Number(mask)] ?? values[lane]);
        t.at++;
        t.state = "runs";
      });
      found = true;
    }
    return found;
  }

  /** Ends products for which all 128 threads that do them wait; whether there are some. */
  private multiply(): boolean {
    let found = false;
    for (let w = 0; w < this.threads.length; w += 128) {
      const all = this.threads.slice(w, w + 128);
      if (!all.every((t) => t.state === "multiplies")) continue;
      if (all.some((t) => t.at !== all[0].at)) throw new Error("threads wait for products at different places");
      const left = Number(this.kernel.code[all[0].at].operands[0]), lists = all.map((t) => t.products.take(left));
      const lanes = all.map(({ registers }) => ({
        get: (r: string): number => Number(registers.get(r)),
        set: (r: string, x: number): void => void registers.set(r, x),
      }));
      lists[0].forEach((p, i) => {
        if (lists.some((l) => l[i]?.right !== p.right)) throw new Error(`threads do not agree on ${p.text}`);
        multiply(p, lanes, this.shared);
      });
      for (const t of all) {
        t.at++;
        t.state = "runs";
      }
      found = true;
    }
    return found;
  }

  /** Lets threads go on whose phase of a barrier is complete now; whether there are some. */
  private poll(): boolean {
    let found = false;
    for (const t of this.threads) {
      if (t.state !== "polls") continue;
      const [, at, phase] = this.kernel.code[t.at].operands;
      if (!this.barrier(t, at).isOver(Number(this.read(t, phase)))) continue;
      t.state = "runs";
      found = true;
    }
    return found;
  }

  private barrier(t: Thread, operand: string): PhaseBarrier {
    const { at } = this.place(t, operand, "shared", 8), found = this.barriers.get(at);
    if (found === undefined) throw new Error(`there is no barrier at ${at} of shared memory`);
    return found;
  }

  /** An mbarrier instruction. */
  private onBarrier(t: Thread, name: readonly string[], operands: readonly string[]): void {
    if (name[1] === "init") {
      const { at } = this.place(t, operands[0], "shared", 8);
      this.barriers.set(at, new PhaseBarrier(Number(operands[1])));
    } else if (name[1] === "arrive") this.barrier(t, operands[1]).expect(Number(operands[2]));
    else if (this.barrier(t, operands[1]).isOver(Number(this.read(t, operands[2])))) t.registers.set(operands[0], true);
    else {
      t.state = "polls";
      return;
    }
    t.at++;
  }

  /** Starts a copy of a box: it is over when its barrier is waited for. */
  private copyBox(t: Thread, [to, from, barrier]: readonly string[]): void {
    const [, map, list] = /^\[(\S+), \{(.*)\}\]$/.exec(from)!;
    const arg = this.launch.args[Number(this.read(t, map) as bigint >> PARAMETERS) - 1] as ProgramMap;
    const source = this.launch.args[arg.slot] as Uint8Array, nbytes = boxBytes(arg);
    const { view, at } = this.place(t, to, "shared", 16),
      position = list.split(", ").map((x) => Number(this.read(t, x)));
    if (at % 128 !== 0 || at + nbytes > view.byteLength) throw new Error(`a box at ${at} of shared memory`);
    this.barrier(t, barrier).bring(nbytes, () => bringBox(arg, source, position, view, at));
  }

  /** What goes on by itself; false for other instructions. */
  private starts(t: Thread, name: readonly string[], operands: readonly string[]): boolean {
    const isCopy = name[0] === "cp" && name[1] === "async", kind = name[0] === "wgmma" ? name[1] : undefined;
    if (isCopy && name[2] === "bulk") this.copyBox(t, operands);
    else if (isCopy && name[2] === "commit_group") t.copies.commit();
    else if (isCopy && name[2] === "wait_group") { for (const fn of t.copies.take(Number(operands[0]))) fn(); }
    else if (isCopy) {
      const [to, from, size, some] = operands,
        n = Number(size),
        count = some === undefined ? n : Number(this.read(t, some));
      const into = this.place(t, to, "shared", n), source = count > 0 ? this.place(t, from, "global", n) : undefined;
      t.copies.add(() => {
        for (let i = 0; i < n; i++) {
          into.view.setUint8(into.at + i, i < count ? source!.view.getUint8(source!.at + i) : 0);
        }
      });
    } else if (kind === "mma_async") t.products.add(unitProduct(name.join("."), operands, (x) => this.read(t, x)));
    else if (kind === "commit_group") t.products.commit();
    else return kind === "fence" || name[0] === "fence";
    return true;
  }

  private read(t: Thread, operand: string): Value {
    const special = /^%(tid|ctaid|nctaid)\.([xyz])$/.exec(operand);
    if (special !== null) {
      const from = special[1] === "tid" ? t.id : special[1] === "ctaid" ? t.group : this.launch.groups;
      return from["xyz".indexOf(special[2])];
    }
    if (operand.startsWith("%")) {
      const known = t.registers.get(operand);
      if (known === undefined) throw new Error(`${operand} is read before it is written`);
      return known;
    }
    if (operand.startsWith("0f")) return f32FromBits(Number.parseInt(operand.slice(2), 16));
    if (operand.startsWith("0d")) return float64Of(BigInt(`0x${operand.slice(2)}`));
    if (/^-?(0x)?[0-9a-fA-F]+$/.test(operand)) {
      return operand.startsWith("-") ? -BigInt(operand.slice(1)) : BigInt(operand);
    }
    const parameter = this.kernel.params.findIndex((p) => p.name === operand);
    if (parameter >= 0) return BigInt(parameter + 1) << PARAMETERS;
    return BigInt(this.kernel.locals.indexOf(operand) + 1) << 30n; // 0 where shared memory begins
  }

  /** Memory at "[register+offset]" or "[name]". */
  private place(t: Thread, operand: string, space: string, nbytes: number): { view: DataView; at: number } {
    const [, base, offset = "0"] = /^\[([^+\]]+)(?:\+(-?\d+))?\]$/.exec(operand)!;
    let view: DataView | undefined, at = BigInt(offset) + integer(this.read(t, base), "s64");
    if (space === "shared") view = this.shared;
    else if (space === "local") {
      view = t.local[Number(at >> 30n) - 1];
      at &= (1n << 30n) - 1n;
    } else {
      const memory = this.launch.args[Number(at >> 40n) - 1];
      if (memory instanceof Uint8Array) view = new DataView(memory.buffer, memory.byteOffset, memory.byteLength);
      at &= (1n << 40n) - 1n;
    }
    if (view === undefined || at < 0n || at + BigInt(nbytes) > BigInt(view.byteLength)) {
      throw new Error(`${nbytes} bytes at ${at} of ${space} memory of ${view?.byteLength ?? 0}`);
    }
    if (at % BigInt(nbytes) !== 0n) throw new Error(`${nbytes} bytes at ${at} of ${space} memory are not aligned`);
    return { view, at: Number(at) };
  }

  private step(t: Thread): void {
    const { code, labels } = this.kernel, instruction = code[t.at], { guard, isNegated, name, operands } = instruction;
    if (guard !== undefined && t.registers.get(guard) === isNegated) return void t.at++;
    try {
      if (this.starts(t, name, operands)) return void t.at++;
      switch (name[0]) {
        case "ret":
          return void (t.state = "ended");
        case "bra":
          return void (t.at = labels.get(operands[0])!);
        case "bar":
          t.state = "waits";
          return void t.at++;
        case "mbarrier":
          return this.onBarrier(t, name, operands);
        case "shfl":
          return void (t.state = "exchanges");
        case "wgmma":
          if (name[1] === "wait_group") return void (t.state = "multiplies");
          break;
        case "ld":
          this.load(t, name, operands);
          break;
        case "st":
          this.store(t, name, operands);
          break;
        default:
          this.compute(t, name, operands);
      }
    } catch (error) {
      if (error instanceof UnsupportedPtx) throw error;
      throw new Error(`${(error as Error).message}, in "${instruction.text}" of thread ${t.id} of group ${t.group}`);
    }
    t.at++;
  }

  private load(t: Thread, name: readonly string[], [to, from]: readonly string[]): void {
    const type = name[name.length - 1];
    if (name[1] === "param") {
      const slot = this.kernel.params.findIndex((p) => `[${p.name}]` === from), arg = this.launch.args[slot];
      const value = arg instanceof Uint8Array
        ? addressOf(slot)
        : type[0] === "f"
        ? Number(arg)
        : held(integer(arg as Value, type), type);
      return void t.registers.set(to, value);
    }
    const into = to.startsWith("{") ? to.slice(1, -1).split(", ") : [to], size = Number(type.slice(1)) >> 3;
    const { view, at } = this.place(t, from, name[1], size * into.length);
    into.forEach((r, i) => t.registers.set(r, readAs(view, at + i * size, type)));
  }

  private store(t: Thread, name: readonly string[], [to, from]: readonly string[]): void {
    const type = name[name.length - 1], size = Number(type.slice(1)) >> 3;
    const values = (from.startsWith("{") ? from.slice(1, -1).split(", ") : [from]).map((x) => this.read(t, x));
    const { view, at } = this.place(t, to, name[1], size * values.length);
    values.forEach((x, i) => writeAs(view, at + i * size, type, x));
  }

  private compute(t: Thread, name: readonly string[], operands: readonly string[]): void {
    const [head] = name, type = name[name.length - 1], [to, ...from] = operands;
    const set = (x: Value): void => void t.registers.set(to, x);
    if (head === "mov") {
      return type === "pred" ? set(Boolean(this.read(t, from[0]))) : this.move(t, type, to, from[0]);
    }
    if (head === "cvta") return set(this.read(t, from[0]));
    const values = from.map((x) => this.read(t, x));
    if (head === "selp") return set(values[2] ? values[0] : values[1]);
    if (type === "pred") return set(logical(head, values as boolean[]));
    if (head === "cvt") return set(converted(name.slice(1), values));
    if (head === "setp") {
      if (type[0] === "f") return set(COMPARE[name[1]](values[0] as number, values[1] as number));
      return set(COMPARE[name[1]](integer(values[0], type), integer(values[1], type)));
    }
    if (type[0] === "f") {
      const row = FLOAT[head];
      if (row === undefined) throw new UnsupportedPtx(name.join("."));
      const [a, b, c] = values as number[];
      return set(rounded(row(a, b, c, type), type));
    }
    const bits = Number(type.slice(1)), n = values.map((x) => integer(x, type));
    if (name[1] === "wide") {
      const product = integer(values[0], type) * integer(values[1], type);
      return set(held(product + (head === "mad" ? integer(values[2], "s64") : 0n), "s64"));
    }
    if (head === "shl" || head === "shr") {
      const by = integer(values[1], "u32");
      return set(held(head === "shr" ? n[0] >> by : by >= BigInt(bits) ? 0n : n[0] << by, type));
    }
    if (head === "bfe") {
      const start = integer(values[1], "u32"), length = integer(values[2] ?? 1n, "u32"), field = n[0] >> start;
      return set(
        held(type[0] === "s" ? BigInt.asIntN(Number(length), field) : BigInt.asUintN(Number(length), field), type),
      );
    }
    if (head === "prmt") return set(permuted(values.map((x) => Number(integer(x, "u32")))));
    const row = INTEGER[head];
    if (row === undefined) throw new UnsupportedPtx(name.join("."));
    set(held(row(n[0], n[1], n[2]), type));
  }

  /** A copy, of bits between registers of other kinds, or of the two halves of one. */
  private move(t: Thread, type: string, to: string, from: string): void {
    const half = Number(type.slice(1)) / 2;
    if (to.startsWith("{")) {
      const whole = rawOf(this.read(t, from), from), parts = to.slice(1, -1).split(", ");
      return parts.forEach((r, i) => t.registers.set(r, ofRaw(BigInt.asUintN(half, whole >> BigInt(i * half)), r)));
    }
    if (from.startsWith("{")) {
      const parts = from.slice(1, -1).split(", ").map((x) => BigInt.asUintN(half, rawOf(this.read(t, x), x)));
      return void t.registers.set(to, ofRaw(parts[0] | parts[1] << BigInt(half), to));
    }
    t.registers.set(to, ofRaw(rawOf(this.read(t, from), from), to));
  }
}

/** The bits of a value, by the register or literal that holds it. */
function rawOf(x: Value, operand: string): bigint {
  if (/^(%f\d|0f)/.test(operand)) return BigInt.asUintN(32, BigInt(f32Bits(x as number)));
  if (/^(%fd|0d)/.test(operand)) return BigInt.asUintN(64, f64Bits(x as number));
  return BigInt.asUintN(64, BigInt(x as number | bigint));
}
/** What a register holds of these bits. */
function ofRaw(x: bigint, register: string): Value {
  if (register.startsWith("%fd")) return float64Of(BigInt.asUintN(64, x));
  if (register.startsWith("%f")) return f32FromBits(Number(BigInt.asUintN(32, x)));
  return held(x, register.startsWith("%rd") ? "b64" : register.startsWith("%h") ? "b16" : "b32");
}

function logical(head: string, [a, b]: readonly boolean[]): boolean {
  return head === "and" ? a && b : head === "or" ? a || b : head === "xor" ? a !== b : !a;
}

/** cvt: `how` is a rounding, where there is one, and the two types. */
function converted(how: readonly string[], values: readonly Value[]): Value {
  const to = how[how.length - 2], from = how[how.length - 1], [x] = values, isCut = how.includes("rzi");
  if (to === "f16x2" || to === "bf16x2") {
    const bits = to === "f16x2" ? f16Bits : f32ToBf16Bits, [high, low] = values as number[];
    return bits(high) << 16 | bits(low);
  }
  const value = from === "f16" ? f16Value(x as number) : from[0] === "f" ? x as number : undefined;
  if (to === "f16") return f16Bits(value!);
  if (to === "bf16") return f32ToBf16Bits(value!);
  if (to[0] === "f") {
    if (value !== undefined) return rounded(isCut ? Math.trunc(value) : value, to);
    const n = integer(x, from);
    return to === "f64" ? Number(n) : Math.fround(oddNumber(n));
  }
  return held(value !== undefined ? saturated(value, to) : integer(integer(x, from), to), to);
}
/** prmt.b32: bytes of two words by the digits of a selector. */
function permuted([a, b, selector]: readonly number[]): number {
  const byte = (i: number): number => (i < 4 ? a >>> 8 * i : b >>> 8 * (i - 4)) & 255;
  return [0, 1, 2, 3].reduce((word, i) => word | byte(selector >> 4 * i & 7) << 8 * i, 0);
}

function readAs(view: DataView, at: number, type: string): Value {
  switch (type) {
    case "f32":
      return view.getFloat32(at, true);
    case "f64":
      return view.getFloat64(at, true);
    case "s8":
      return view.getInt8(at);
    case "u8":
      return view.getUint8(at);
    case "s16":
      return view.getInt16(at, true);
    case "u16":
    case "b16":
      return view.getUint16(at, true);
    case "s64":
    case "u64":
    case "b64":
      return view.getBigInt64(at, true);
  }
  return view.getInt32(at, true);
}
function writeAs(view: DataView, at: number, type: string, x: Value): void {
  if (type === "f32") view.setFloat32(at, x as number, true);
  else if (type === "f64") view.setFloat64(at, x as number, true);
  else if (type.endsWith("64")) view.setBigInt64(at, BigInt(x as bigint), true);
  else if (type.endsWith("8")) view.setInt8(at, Number(x));
  else if (type.endsWith("16")) view.setInt16(at, Number(x), true);
  else view.setInt32(at, Number(x), true);
}

/** Runs a kernel: what it writes is in the memory of its arguments. @throws {UnsupportedPtx} */
export function interpret(text: string, launch: PtxLaunch): void {
  const kernel = parse(text), [x, y, z] = launch.groups;
  checkFound(kernel);
  for (let i = 0; i < x * y * z; i++) {
    new Group(kernel, launch, [i % x, Math.floor(i / x) % y, Math.floor(i / (x * y))]).run();
  }
}
