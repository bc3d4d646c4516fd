/**
 * A restricted reader of Python's pickles (protocols 0 to 5, as pickletools describes them). It builds numbers, text,
 * bytes, lists, tuples, sets and dictionaries; a global must be on the caller's list, and names a function of ours. No
 * code is ever looked up, imported or run: an opcode or a global outside the lists is an error that names it.
 *
 * @module
 */
import type { Bad, Source } from "../source.ts";

/** A tuple: a list that nothing appends to. */
export class PyTuple {
  constructor(readonly items: readonly unknown[]) {}
}

/** A global of the list: a value as it is, or with a function to call. */
export class PyGlobal {
  constructor(readonly name: string, readonly call?: (args: readonly unknown[]) => unknown) {}
}

/** What may occur in a pickle beyond plain values. */
export interface PickleHooks {
  /** The global of a name as "collections.OrderedDict"; undefined for all that are not allowed. */
  find(name: string): PyGlobal | undefined;
  /** What a persistent id stands for. */
  persistent(id: unknown): unknown;
  /** Gives a value the state that follows it; false where it has none. */
  build?(value: unknown, state: unknown): boolean;
  /** What to do about a global that is not allowed. */
  wayAround?(name: string): string;
}

const MAX_TEXT = 1 << 28, WINDOW = 1 << 16, MAX_DEPTH = 1 << 20;

/** Reads bytes of a source in turn, a window at a time. */
export class Cursor {
  private window: Uint8Array = new Uint8Array(0);
  private from = 0;
  /** The next byte. */
  at = 0;
  constructor(readonly source: Source) {}

  /** The next `n` bytes. @throws {FormatError} where there are fewer */
  take(n: number): Uint8Array {
    const { source } = this;
    if (n > MAX_TEXT) throw source.bad(`a value of ${n} bytes at byte ${this.at}, more than ${MAX_TEXT}`);
    if (this.at + n > source.size) throw source.bad(`it is truncated at byte ${this.at}`);
    if (this.at < this.from || this.at + n > this.from + this.window.length) {
      this.from = this.at;
      this.window = source.read(this.at, Math.min(Math.max(n, WINDOW), source.size - this.at));
    }
    const start = this.at - this.from;
    this.at += n;
    return this.window.subarray(start, start + n);
  }
  /** The next byte. */
  byte(): number {
    return this.take(1)[0];
  }
  /** An unsigned integer of `n` bytes, little-endian. */
  uint(n: number): number {
    return this.take(n).reduceRight((x, b) => x * 256 + b, 0);
  }
  /** A signed integer of `n` bytes, little-endian: a bigint beyond 2^53. */
  int(n: number): number | bigint {
    let x = 0n;
    for (const b of [...this.take(n)].reverse()) x = (x << 8n) | BigInt(b);
    const signed = BigInt.asIntN(8 * n, x), small = Number(signed);
    return Number.isSafeInteger(small) ? small : signed;
  }
  /** UTF-8 text of `n` bytes. */
  text(n: number): string {
    const bytes = this.take(n);
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      throw this.source.bad(`text before byte ${this.at} is no UTF-8`);
    }
  }
  /** Up to the end of the line, which is taken and not given. */
  line(): string {
    let out = "";
    for (let b = this.byte(); b !== 10; b = this.byte()) {
      if (out.length > 4096) throw this.source.bad(`a line before byte ${this.at} does not end`);
      out += String.fromCharCode(b);
    }
    return out;
  }
}

/** What a mark looks like on the stack. */
const MARK = Symbol("mark");

/** The machine of one pickle. */
class Machine {
  private stack: unknown[] = [];
  private readonly memo = new Map<number, unknown>();
  private readonly bad: Bad;
  /** Where the opcode stands that is done now. */
  private opcodeAt = 0;
  constructor(private readonly cursor: Cursor, private readonly hooks: PickleHooks) {
    this.bad = cursor.source.bad;
  }

  private pop(): unknown {
    if (this.stack.length === 0 || this.stack.at(-1) === MARK) {
      throw this.bad(`its stack is empty at byte ${this.cursor.at}`);
    }
    return this.stack.pop();
  }
  private top(): unknown {
    const x = this.pop();
    this.stack.push(x);
    return x;
  }
  private push(x: unknown): void {
    if (this.stack.length >= MAX_DEPTH) throw this.bad("its stack is too deep");
    this.stack.push(x);
  }
  private popMark(): unknown[] {
    const at = this.stack.lastIndexOf(MARK);
    if (at < 0) throw this.bad(`it lacks a mark at byte ${this.cursor.at}`);
    const items = this.stack.splice(at);
    items.shift();
    return items;
  }
  private pops(n: number): unknown[] {
    const out: unknown[] = [];
    for (let i = 0; i < n; i++) out.unshift(this.pop());
    return out;
  }
  private append(items: readonly unknown[]): void {
    const list = this.top();
    if (!Array.isArray(list)) throw this.bad("it appends to what is no list");
    for (const x of items) list.push(x);
  }
  private setItems(items: readonly unknown[]): void {
    const map = this.top();
    if (!(map instanceof Map) || items.length % 2 !== 0) throw this.bad("it sets items of what is no dictionary");
    for (let i = 0; i < items.length; i += 2) map.set(this.key(items[i]), items[i + 1]);
  }
  private key(x: unknown): unknown {
    if (x === null || typeof x !== "object") return x;
    throw this.bad("a key is no text and no number");
  }
  private get(at: number): void {
    if (!this.memo.has(at)) throw this.bad(`it refers to ${at}, which is not there`);
    this.push(this.memo.get(at));
  }
  private global(name: string): PyGlobal {
    const found = this.hooks.find(name);
    if (found === undefined) {
      const way = this.hooks.wayAround?.(name);
      throw this.bad(`it asks for ${JSON.stringify(name.slice(0, 100))}, which is not allowed${way ? `: ${way}` : ""}`);
    }
    return found;
  }
  private call([fn, args]: readonly unknown[]): unknown {
    if (!(fn instanceof PyGlobal) || fn.call === undefined || !(args instanceof PyTuple)) {
      throw this.bad(`it calls ${fn instanceof PyGlobal ? fn.name : "what is no function"}`);
    }
    return fn.call(args.items);
  }
  /** State of an object: attributes of a dictionary are left out; nothing else has any. */
  private build(): void {
    const state = this.pop();
    if (this.hooks.build?.(this.top(), state)) return;
    if (!(this.top() instanceof Map)) throw this.bad("it sets the state of what has none");
  }
  /** Digits of protocol 0. */
  private decimal(text: string): number | bigint | boolean {
    if (text === "00") return false;
    if (text === "01") return true;
    if (!/^-?\d{1,400}L?$/.test(text)) throw this.bad(`"${text.slice(0, 40)}" is no number`);
    const n = BigInt(text.replace("L", "")), small = Number(n);
    return Number.isSafeInteger(small) ? small : n;
  }

  /** PROTO. */
  private checkVersion(version: number): void {
    if (version > 5) throw this.bad(`it is a pickle of protocol ${version}; up to 5 are known`);
  }
  private popAny(): void {
    if (this.stack.at(-1) === MARK) this.stack.pop();
    else this.pop();
  }
  private float(text: string): number {
    const x = Number(text);
    if (text.trim() === "" || Number.isNaN(x)) throw this.bad(`"${text.slice(0, 40)}" is no number`);
    return x;
  }
  /** Text of Python 2: bytes, here as Latin-1. */
  private latin(n: number): string {
    if (n > WINDOW) throw this.bad(`text of ${n} bytes at byte ${this.opcodeAt}, more than ${WINDOW}`);
    return String.fromCharCode(...this.cursor.take(n));
  }
  private dictionary(items: readonly unknown[]): void {
    this.push(new Map());
    this.setItems(items);
  }
  private named([module, name]: readonly unknown[]): PyGlobal {
    if (typeof module !== "string" || typeof name !== "string") throw this.bad("it names a global by no text");
    return this.global(`${module}.${name}`);
  }
  private note(at: number): void {
    this.memo.set(at, this.top());
  }

  run(): unknown {
    for (;;) {
      this.opcodeAt = this.cursor.at;
      const code = this.cursor.byte(), op = String.fromCharCode(code);
      if (op === ".") break;
      const step = Machine.STEPS.get(op);
      if (step === undefined) {
        throw this.bad(`opcode 0x${code.toString(16).padStart(2, "0")} at byte ${this.opcodeAt} is not allowed`);
      }
      step(this, this.cursor);
    }
    const value = this.pop();
    if (this.stack.length > 0) throw this.bad("it ends with more than one value");
    return value;
  }

  /** What each opcode does. */
  private static readonly STEPS: ReadonlyMap<string, (m: Machine, c: Cursor) => void> = new Map(Object.entries(
    {
      "\x80": (m, c) => m.checkVersion(c.byte()),
      "\x95": (_, c) => c.take(8), // FRAME: its bytes follow as any
      "(": (m) => m.push(MARK),
      "0": (m) => m.popAny(),
      "1": (m) => m.popMark(),
      "2": (m) => m.push(m.top()),
      "N": (m) => m.push(null),
      "\x88": (m) => m.push(true),
      "\x89": (m) => m.push(false),
      "I": (m, c) => m.push(m.decimal(c.line())),
      "L": (m, c) => m.push(m.decimal(c.line())),
      "J": (m, c) => m.push(c.int(4)),
      "K": (m, c) => m.push(c.uint(1)),
      "M": (m, c) => m.push(c.uint(2)),
      "\x8a": (m, c) => m.push(c.int(c.byte())),
      "F": (m, c) => m.push(m.float(c.line())),
      "G": (m, c) => m.push(new DataView(c.take(8).slice().buffer).getFloat64(0)),
      "V": (m, c) => m.push(c.line()),
      "X": (m, c) => m.push(c.text(c.uint(4))),
      "\x8c": (m, c) => m.push(c.text(c.uint(1))),
      "\x8d": (m, c) => m.push(c.text(c.uint(8))),
      "U": (m, c) => m.push(m.latin(c.uint(1))),
      "T": (m, c) => m.push(m.latin(c.uint(4))),
      "C": (m, c) => m.push(c.take(c.uint(1)).slice()),
      "B": (m, c) => m.push(c.take(c.uint(4)).slice()),
      "\x8e": (m, c) => m.push(c.take(c.uint(8)).slice()),
      "}": (m) => m.push(new Map()),
      "d": (m) => m.dictionary(m.popMark()),
      "]": (m) => m.push([]),
      "l": (m) => m.push(m.popMark()),
      ")": (m) => m.push(new PyTuple([])),
      "t": (m) => m.push(new PyTuple(m.popMark())),
      "\x85": (m) => m.push(new PyTuple(m.pops(1))),
      "\x86": (m) => m.push(new PyTuple(m.pops(2))),
      "\x87": (m) => m.push(new PyTuple(m.pops(3))),
      "a": (m) => m.append(m.pops(1)),
      "e": (m) => m.append(m.popMark()),
      "s": (m) => m.setItems(m.pops(2)),
      "u": (m) => m.setItems(m.popMark()),
      "\x8f": (m) => m.push([]), // EMPTY_SET, ADDITEMS, FROZENSET: as lists
      "\x90": (m) => m.append(m.popMark()),
      "\x91": (m) => m.push(m.popMark()),
      "p": (m, c) => m.note(Number(m.decimal(c.line()))),
      "q": (m, c) => m.note(c.uint(1)),
      "r": (m, c) => m.note(c.uint(4)),
      "\x94": (m) => m.note(m.memo.size),
      "g": (m, c) => m.get(Number(m.decimal(c.line()))),
      "h": (m, c) => m.get(c.uint(1)),
      "j": (m, c) => m.get(c.uint(4)),
      "c": (m, c) => m.push(m.global(`${c.line()}.${c.line()}`)),
      "\x93": (m) => m.push(m.named(m.pops(2))),
      "R": (m) => m.push(m.call(m.pops(2))),
      "\x81": (m) => m.push(m.call(m.pops(2))),
      "b": (m) => m.build(),
      "P": (m, c) => m.push(m.hooks.persistent(c.line())),
      "Q": (m) => m.push(m.hooks.persistent(m.pop())),
    } satisfies Record<string, (m: Machine, c: Cursor) => void>,
  ));
}

/** The value of the pickle at the cursor, which is left behind it. @throws {FormatError} */
export function unpickle(cursor: Cursor, hooks: PickleHooks): unknown {
  return new Machine(cursor, hooks).run();
}
