/**
 * From a {@linkcode Kernel} to a function body. A value is written where it is first used, so that few are alive at a time:
 * engines keep the order. With one use in the same straight line it stays on the operand stack; others get a local, which
 * is reused after the last use. A pending read is written out before a store to memory or a set of its variable could
 * change it.
 *
 * @module
 */
import { Bytes, EMPTY, F32, F64, I32, I64, type Instr, OPCODES, type ValType, valTypeName } from "./encoder.ts";
import { order } from "./order.ts";
import { type Item, type Kernel, KERNEL_PARAMS, type Loop, type Node, type Variable } from "./wasm_ir.ts";

/** A function body, and its listing if one was asked for. */
export interface Emitted {
  readonly locals: ValType[];
  readonly code: Uint8Array;
  readonly text: string;
}

class Emitter {
  private readonly out = new Bytes(1024);
  private readonly locals: ValType[] = [];
  private readonly free = new Map<ValType, number[]>();
  /** Per open loop: locals to free when it ends. */
  private readonly deferred: [ValType, number][][] = [];
  private pending: Node[] = [];
  private readonly lines: string[] = [];
  private indent = 1;

  constructor(private readonly listing: boolean) {}

  run(kernel: Kernel): Emitted {
    order(kernel.items);
    count(kernel.items);
    this.items(kernel.items);
    let text = "";
    if (this.listing) {
      const locals = this.locals.map((t, i) => `(local $${i + KERNEL_PARAMS} ${valTypeName(t)})`);
      text = [...(locals.length > 0 ? [`  ${locals.join(" ")}`] : []), ...this.lines].join("\n");
    }
    return { locals: this.locals, code: this.out.take(), text };
  }

  private line(text: string): void {
    if (this.listing) this.lines.push("  ".repeat(this.indent) + text);
  }
  private put(name: Instr, ...immediates: number[]): void {
    this.out.i(name, ...immediates);
    if (this.listing) this.line([name, ...immediates].join(" "));
  }

  /** Opens a loop or an if, which gives a value where it has a type. */
  private open(name: "if" | "loop", type?: ValType): void {
    this.out.op(OPCODES[name]).u8(type ?? EMPTY);
    this.line(type === undefined ? name : `${name} (result ${valTypeName(type)})`);
    this.indent++;
  }
  private end(): void {
    this.indent--;
    this.put("end");
  }

  private alloc(type: ValType): number {
    const local = this.free.get(type)?.pop();
    if (local !== undefined) return local;
    this.locals.push(type);
    return this.locals.length - 1 + KERNEL_PARAMS;
  }
  private release(type: ValType, local: number): void {
    const list = this.free.get(type);
    if (list === undefined) this.free.set(type, [local]);
    else list.push(local);
  }

  /** Counts a use of a value in a local: after the last one that is free again, at the end of the loops around it. */
  private used(n: Node): void {
    if (--n.uses > 0) return;
    if (n.loops === this.deferred.length) this.release(n.type, n.local);
    else this.deferred[n.loops].push([n.type, n.local]);
  }

  /** Writes the value onto the stack and counts one use. */
  private push(n: Node): void {
    if (n.kind === "const") return this.constant(n);
    if (n.kind === "get" && n.variable!.fixed) return this.put("local.get", n.variable!.local);
    if (n.local >= 0) {
      this.put("local.get", n.local);
      return this.used(n);
    }
    n.written = true;
    this.instruction(n);
    if (n.uses === 1) return;
    this.keep(n, "local.tee");
    n.uses--;
  }

  private constant(n: Node): void {
    const { out } = this;
    out.op(OPCODES[n.op]);
    if (n.type === I32) out.s32(Number(n.value));
    else if (n.type === I64) out.s64(n.value as bigint);
    else if (n.type === F32) out.f32(Number(n.value));
    else if (n.type === F64) out.f64(Number(n.value));
    if (this.listing) this.line(`${n.op} ${Object.is(n.value, -0) ? "-0" : n.value}`);
  }

  private instruction(n: Node): void {
    if (n.kind === "get") return this.put("local.get", n.variable!.local);
    if (n.op === "v128.const") {
      this.out.op(OPCODES[n.op]);
      const bits = Number(n.value);
      for (let i = 0; i < 16; i++) this.out.u8((bits >> (8 * (i & 3))) & 0xff);
      return this.line(`v128.const i32x4 ${[bits, bits, bits, bits].join(" ")}`);
    }
    const isLoad = n.kind === "load";
    if (isLoad && n.src.length > 1) {
      const [pointer, gate, alt] = n.src;
      this.settle(pointer);
      this.settle(alt);
      this.push(gate);
      this.open("if", n.type);
      this.push(pointer);
      this.memory(n.op, n.imm);
      this.indent--;
      this.put("else");
      this.indent++;
      this.push(alt);
      return this.end();
    }
    for (const s of n.src) this.push(s);
    if (isLoad || n.op.includes(".load")) this.memory(n.op, n.imm);
    else if (n.op === "i8x16.shuffle") {
      this.out.op(OPCODES[n.op]);
      const bytes = Array.from({ length: 16 }, (_, i) => 4 * ((n.imm >> (3 * (i >> 2))) & 7) + (i & 3));
      for (const x of bytes) this.out.u8(x);
      this.line(`${n.op} ${bytes.join(" ")}`);
    } else if (n.imm >= 0) {
      this.out.op(OPCODES[n.op]).u8(n.imm);
      this.line(`${n.op} ${n.imm}`);
    } else this.put(n.op);
  }

  private memory(op: Instr, offset: number, lane = -1): void {
    this.out.op(OPCODES[op]).u32(alignOf(op)).u32(offset);
    if (lane >= 0) this.out.u8(lane);
    if (this.listing) this.line(`${op}${offset > 0 ? ` offset=${offset}` : ""}${lane >= 0 ? ` ${lane}` : ""}`);
  }

  /** Puts a value into a local. */
  private materialize(n: Node): void {
    n.written = true;
    this.instruction(n);
    this.keep(n, "local.set");
  }
  /** Gives the value on the stack a local. */
  private keep(n: Node, op: "local.set" | "local.tee"): void {
    n.local = this.alloc(n.type);
    n.loops = this.deferred.length;
    this.put(op, n.local);
  }
  /** Writes out what has other uses, of a value that is computed on one path alone. */
  private settle(n: Node): void {
    if (n.local >= 0 || n.kind === "const" || (n.kind === "get" && n.variable!.fixed)) return;
    if (n.uses > 1) this.materialize(n);
    else n.src.forEach((s) => this.settle(s));
  }

  /** Writes out the pending values for which `test` holds. */
  private flush(test: (n: Node) => boolean): void {
    if (this.pending.length === 0) return;
    const all = this.pending;
    this.pending = [];
    for (let i = all.length - 1; i >= 0; i--) {
      const n = all[i];
      if (!n.written && test(n)) this.materialize(n);
    }
    this.pending = all.filter((n) => !n.written);
  }

  private items(items: readonly Item[]): void {
    const declared: Variable[] = [];
    for (const item of items) this.item(item, declared);
    this.flush(always);
    for (const v of declared) this.release(v.type, v.local);
  }

  private item(item: Item, declared: Variable[]): void {
    switch (item.kind) {
      case "let":
        return this.define(item.node);
      case "declare":
        item.variable.local = this.alloc(item.variable.type);
        declared.push(item.variable);
        return;
      case "set":
        this.push(item.value);
        this.flush((n) => n.readsVars !== undefined && n.readsVars.includes(item.variable));
        return this.put("local.set", item.variable.local);
      case "store":
        this.push(item.address);
        this.push(item.value);
        this.flush((n) => n.readsMemory);
        return this.memory(item.op, item.offset, item.lane);
      case "if":
        this.push(item.condition);
        this.flush(always);
        this.open("if");
        this.items(item.body);
        return this.end();
      case "loop":
        return this.loop(item);
    }
  }

  private define(n: Node): void {
    if (n.uses === 0) return;
    for (const s of n.src) {
      if (s.local >= 0 || s.kind === "const") continue;
      if (s.readsMemory) n.readsMemory = true;
      const { readsVars: own = [] } = n, more = s.readsVars?.filter((v) => !own.includes(v)) ?? [];
      if (more.length > 0) n.readsVars = own.length === 0 ? s.readsVars : own.concat(more);
    }
    if (n.isPlaced) this.materialize(n);
    else this.pending.push(n);
  }

  /** Counts a use that wrote nothing. */
  private drop(n: Node): void {
    if (n.kind === "const" || (n.kind === "get" && n.variable!.fixed) || n.uses === 0) return;
    if (n.local >= 0) this.used(n);
  }

  private loop(item: Loop): void {
    for (const pre of item.pre) this.item(pre, []);
    const { counter, inductions, end } = item;
    const p = counter.type === I64 ? "i64" : "i32";
    counter.local = this.alloc(counter.type);
    this.push(item.begin);
    this.put("local.set", counter.local);
    for (const { variable, init } of inductions) {
      variable.local = this.alloc(variable.type);
      this.push(init);
      this.put("local.set", variable.local);
    }
    // the end is read after every iteration: it must be in a local, unless it is constant or fixed
    this.flush(always);
    if (item.guard) {
      this.put("local.get", counter.local);
      this.peek(end);
      this.put(`${p}.lt_s`);
      this.open("if");
    }
    this.open("loop");
    this.deferred.push([]);
    this.items(item.body);
    for (const { variable, step } of inductions) {
      this.put("local.get", variable.local);
      this.out.i32(step);
      this.line(`i32.const ${step}`);
      this.put("i32.add");
      this.put("local.set", variable.local);
    }
    this.put("local.get", counter.local);
    if (p === "i64") this.out.op(OPCODES["i64.const"]).s32(1);
    else this.out.i32(1);
    this.line(`${p}.const 1`);
    this.put(`${p}.add`);
    this.put("local.tee", counter.local);
    this.peek(end);
    this.put(`${p}.lt_s`);
    this.put("br_if", 0);
    for (const [type, local] of this.deferred.pop()!) this.release(type, local);
    this.drop(end);
    this.drop(end);
    this.end();
    if (item.guard) this.end();
    for (const { variable } of inductions) this.release(variable.type, variable.local);
    this.release(counter.type, counter.local);
  }

  /** Writes a value that is in a local or constant, and counts no use. */
  private peek(n: Node): void {
    if (n.kind === "const") this.constant(n);
    else this.put("local.get", n.local >= 0 ? n.local : n.variable!.local);
  }
}

function always(): boolean {
  return true;
}

function alignOf(op: Instr): number {
  if (op.includes("8")) return op.startsWith("v128") ? 2 : 0;
  if (op.includes("16")) return 1;
  return op === "i64.load" || op === "i64.store" || op === "f64.load" || op === "f64.store" ? 3 : 2;
}

/** Counts the uses of every value, users first: what only dead values use is dead. */
function count(items: readonly Item[]): void {
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i];
    switch (item.kind) {
      case "let":
        if (item.node.uses > 0) { for (const s of item.node.src) s.uses++; }
        break;
      case "set":
        item.value.uses++;
        break;
      case "store":
        item.address.uses++;
        item.value.uses++;
        break;
      case "if":
        count(item.body);
        item.condition.uses++;
        break;
      case "loop":
        count(item.body);
        for (const { init } of item.inductions) init.uses++;
        item.begin.uses++;
        item.end.uses += 2; // kept in a local
        count(item.pre);
        break;
    }
  }
}

/** Writes the function body of a kernel; with `listing`, also as text. A kernel can be written once. */
export function emit(kernel: Kernel, listing = false): Emitted {
  return new Emitter(listing).run(kernel);
}
