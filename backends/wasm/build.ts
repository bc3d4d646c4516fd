/**
 * Places values in nested frames (function, loops, ifs): constants, instructions hoisted out of loops, loads pinned where
 * they stand, and addresses split into a running pointer and a constant offset.
 *
 * @module
 */
import { F32, I32, I64, type Instr, V128, type ValType } from "./encoder.ts";
import { type Item, type Loop, Node, Variable } from "./wasm_ir.ts";

/** Constant offsets are folded into memory accesses up to this many bytes; all buffers lie above it. */
export const OFFSET_WINDOW: number = 1 << 19;
/** Pointers that a loop increments; further ones are computed from its counter. */
const MAX_INDUCTIONS = 12;

/** Loads of narrow integers: their bytes, and what makes words of four that were loaded as one. */
const NARROW: Readonly<Record<string, readonly [bytes: number, load: Instr, ...extend: Instr[]]>> = {
  "i32.load8_s": [1, "v128.load32_zero", "i16x8.extend_low_i8x16_s", "i32x4.extend_low_i16x8_s"],
  "i32.load8_u": [1, "v128.load32_zero", "i16x8.extend_low_i8x16_u", "i32x4.extend_low_i16x8_u"],
  "i32.load16_s": [2, "v128.load16x4_s"],
  "i32.load16_u": [2, "v128.load16x4_u"],
};

/** An open frame. */
interface Frame {
  readonly items: Item[];
  readonly loop: Loop | undefined;
  /** Values of this frame by what they compute, for sharing. */
  readonly known: Map<string, Node>;
}

/** Builds the items of one function. */
export class Builder {
  readonly frames: Frame[] = [{ items: [], loop: undefined, known: new Map() }];
  /** Loads, by how many stores, loops and ifs were begun or ended before. */
  private readonly loads = new Map<Node, number>();
  private effects = 0;
  private ids = new Map<Node, number>();
  private nextId = 1;

  /** Frames open now, less one. */
  get depth(): number {
    return this.frames.length - 1;
  }
  private get top(): Frame {
    return this.frames[this.frames.length - 1];
  }

  /** A scalar constant. */
  constant(type: ValType, value: number | bigint): Node {
    const op: Instr = type === I32
      ? "i32.const"
      : type === I64
      ? "i64.const"
      : type === F32
      ? "f32.const"
      : "f64.const";
    if (type === I64) value = BigInt(value);
    return new Node("const", op, type, [], 0, -1, value);
  }
  /** An i32 constant. */
  i32(value: number): Node {
    return this.constant(I32, value | 0);
  }
  /** A v128 constant whose four words are all these bits. */
  splatBits(bits: number): Node {
    return this.shared(`v${bits}`, 0, () => new Node("instr", "v128.const", V128, [], 0, -1, bits));
  }

  private id(n: Node): number {
    let id = this.ids.get(n);
    if (id === undefined) this.ids.set(n, id = this.nextId++);
    return id;
  }

  /** The value known as `key` in a frame that is open and no deeper than needed, else a new one. */
  shared(key: string, depth: number, make: () => Node): Node {
    for (let d = this.depth; d >= depth; d--) {
      const found = this.frames[d].known.get(key);
      if (found !== undefined) return found;
    }
    const node = this.place(make());
    this.frames[node.depth].known.set(key, node);
    return node;
  }

  /** Puts a value as far out as `node.depth` allows, crossing ifs only together with a loop inside them. */
  private place(node: Node): Node {
    const { depth } = this;
    for (let d = node.depth + 1; d <= depth; d++) {
      const { loop } = this.frames[d];
      if (loop === undefined) continue;
      node.depth = d - 1;
      loop.pre.push({ kind: "let", node });
      return node;
    }
    node.depth = depth;
    this.top.items.push({ kind: "let", node });
    return node;
  }

  /** A pure instruction. */
  instr(op: Instr, type: ValType, src: readonly Node[], imm = -1): Node {
    let depth = 0;
    for (const s of src) if (s.depth > depth) depth = s.depth;
    return this.place(new Node("instr", op, type, src, depth, imm));
  }

  /** A pure instruction, shared with equal ones. Constants among the sources are compared by value. */
  sharedInstr(op: Instr, type: ValType, src: readonly Node[], imm = -1): Node {
    let key = `${op} ${imm}`, depth = 0;
    for (const s of src) {
      key += s.kind === "const" ? ` #${s.value}` : ` ${this.id(s)}`;
      if (s.depth > depth) depth = s.depth;
    }
    return this.shared(key, depth, () => new Node("instr", op, type, src, depth, imm));
  }

  /** A load that may move freely: of arguments, which nothing writes. */
  argument(op: Instr, type: ValType, pointer: Node, offset: number): Node {
    return this.shared(`arg ${op} ${this.id(pointer)} ${offset}`, 0, () => {
      return new Node("instr", op, type, [pointer], 0, offset);
    });
  }

  /** A load that stays where it is; `gate` false gives `alt` and touches nothing. */
  load(op: Instr, type: ValType, pointer: Node, offset: number, gate?: Node, alt?: Node): Node {
    const src = gate === undefined ? [pointer] : [pointer, gate, alt!];
    const node = new Node("load", op, type, src, this.depth, offset);
    node.readsMemory = true;
    this.loads.set(node, this.effects);
    this.top.items.push({ kind: "let", node });
    return node;
  }

  /** Four narrow integers that lie one after the other, each loaded just now, as the words of a vector; undefined of others. */
  neighbors(lanes: readonly Node[]): Node | undefined {
    const [{ op, src: [pointer], imm }] = lanes;
    if (lanes.length !== 4 || NARROW[op] === undefined) return undefined;
    const [bytes, load, ...extend] = NARROW[op];
    const isNext = (n: Node, i: number): boolean =>
      n.op === op && n.src.length === 1 && n.src[0] === pointer && n.imm === imm + i * bytes &&
      this.loads.get(n) === this.effects;
    if (!lanes.every(isNext)) return undefined;
    return extend.reduce((x, by) => this.instr(by, V128, [x]), this.load(load, V128, pointer, imm));
  }

  /** The value of a variable now. */
  get(variable: Variable, depth: number = this.depth): Node {
    const node = new Node("get", "local.get", variable.type, [], depth, -1, 0, variable);
    if (!variable.fixed) {
      node.readsVars = [variable];
      this.top.items.push({ kind: "let", node });
    }
    return node;
  }

  /** A parameter of the function. */
  parameter(index: number): Node {
    const variable = new Variable(I32, true, `p${index}`);
    variable.local = index;
    return this.get(variable, 0);
  }

  /** Appends an effect. */
  effect(item: Item): void {
    if (item.kind !== "set") this.effects++;
    this.top.items.push(item);
  }

  /** Opens a loop; its counter counts from `begin` to `end`. */
  openLoop(type: ValType, begin: Node, end: Node, guard: boolean, name: string): Node {
    const counter = new Variable(type, true, name);
    const loop: Loop = { kind: "loop", pre: [], counter, begin, end, guard, body: [], inductions: [] };
    this.effect(loop);
    this.frames.push({ items: loop.body, loop, known: new Map() });
    return this.get(counter);
  }
  /** Opens an if. */
  openIf(condition: Node): void {
    const body: Item[] = [];
    this.effect({ kind: "if", condition, body });
    this.frames.push({ items: body, loop: undefined, known: new Map() });
  }
  /** Closes the innermost frame. */
  close(): void {
    this.effects++;
    this.frames.pop();
  }

  /** `node * factor`, by shift where that is a power of two. */
  scale(node: Node, factor: number): Node {
    if (factor === 1) return node;
    const shift = Math.log2(factor);
    return Number.isInteger(shift)
      ? this.sharedInstr("i32.shl", I32, [node, this.i32(shift)])
      : this.sharedInstr("i32.mul", I32, [node, this.i32(factor)]);
  }

  /**
   * The pointer `base + sum of terms`, coefficients in bytes. Terms are summed from the outermost frame inward, so that
   * each partial sum is computed once where it becomes known; a term that is the counter of a loop becomes a pointer
   * which that loop increments.
   */
  pointer(base: Node, terms: readonly (readonly [Node, number])[]): Node {
    const byDepth = terms.filter(([, c]) => (c | 0) !== 0).sort((a, b) => a[0].depth - b[0].depth);
    let at = base;
    for (let i = 0; i < byDepth.length;) {
      const { depth } = byDepth[i][0];
      let j = i + 1;
      while (j < byDepth.length && byDepth[j][0].depth === depth) j++;
      const [node, factor] = byDepth[i];
      const loop = this.frames[depth].loop;
      if (j === i + 1 && loop !== undefined && node.variable === loop.counter) {
        const running = this.induction(loop, depth, at, factor);
        if (running !== undefined) {
          at = running;
          i = j;
          continue;
        }
      }
      let sum: Node | undefined;
      for (; i < j; i++) {
        const term = this.scale(byDepth[i][0], byDepth[i][1]);
        sum = sum === undefined ? term : this.sharedInstr("i32.add", I32, [sum, term]);
      }
      at = this.sharedInstr("i32.add", I32, [at, sum!]);
    }
    return at;
  }

  private induction(loop: Loop, depth: number, base: Node, step: number): Node | undefined {
    if (loop.counter.type !== I32) return undefined;
    const key = `ptr ${this.id(base)} ${step}`;
    const known = this.frames[depth].known.get(key);
    if (known !== undefined) return known;
    if (loop.inductions.length >= MAX_INDUCTIONS) return undefined;
    let init = base;
    if (loop.begin.kind !== "const" || loop.begin.value !== 0) {
      // the entry loop starts where the call says: in the loop's preheader
      const scaled = new Node("instr", "i32.mul", I32, [loop.begin, this.i32(step)], depth - 1);
      init = new Node("instr", "i32.add", I32, [base, scaled], depth - 1);
      loop.pre.push({ kind: "let", node: scaled }, { kind: "let", node: init });
    }
    const variable = new Variable(I32, true, `ptr${loop.inductions.length}`);
    loop.inductions.push({ variable, init, step });
    const node = this.get(variable, depth);
    this.frames[depth].known.set(key, node);
    return node;
  }

  /** The items of the function. */
  finish(): Item[] {
    return this.frames[0].items;
  }
}

/** The type whose name prefixes the scalar instructions of `type`. */
export function prefixOf(type: ValType): "i32" | "i64" | "f32" | "f64" {
  return type === I32 ? "i32" : type === I64 ? "i64" : type === F32 ? "f32" : "f64";
}
