/**
 * A restricted reader of Python's pickles (protocols 0 to 5, as pickletools describes them). It builds numbers, text,
 * bytes, lists, tuples, sets and dictionaries; a global must be on the caller's list, and names a function of ours. No
 * code is ever looked up, imported or run: an opcode or a global outside the lists is an error that names it.
 *
 * @module
 */
import type { Bad, Source } from "./source.ts";

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
    if (found === undefined) throw this.bad(`it asks for ${JSON.stringify(name.slice(0, 100))}, which is not allowed`);
    return found;
  }
  private call(fn: unknown, args: unknown): unknown {
    if (!(fn instanceof PyGlobal) || fn.call === undefined || !(args instanceof PyTuple)) {
      throw this.bad(`it calls ${fn instanceof PyGlobal ? fn.name : "what is no function"}`);
    }
    return fn.call(args.items);
  }
  /** State of an object: attributes of a dictionary are left out; nothing else has any. */
  private build(): void {
    this.pop();
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

  run(): unknown {
    const { cursor: c } = this;
    for (;;) {
      const at = c.at, code = c.byte(), op = String.fromCharCode(code);
      switch (op) {
        case "\x80": { // PROTO
          const version = c.byte();
          if (version > 5) throw this.bad(`it is a pickle of protocol ${version}; up to 5 are known`);
          break;
        }
        case "\x95": // FRAME: its bytes follow as any
          c.take(8);
          break;
        case ".": {
          const value = this.pop();
          if (this.stack.length > 0) throw this.bad("it ends with more than one value");
          return value;
        }
        case "(":
          this.push(MARK);
          break;
        case "0":
          if (this.stack.at(-1) === MARK) this.stack.pop();
          else this.pop();
          break;
        case "1":
          this.popMark();
          break;
        case "2":
          this.push(this.top());
          break;
        case "N":
          this.push(null);
          break;
        case "\x88":
        case "\x89":
          this.push(op === "\x88");
          break;
        case "I":
        case "L":
          this.push(this.decimal(c.line()));
          break;
        case "J":
          this.push(c.int(4));
          break;
        case "K":
          this.push(c.uint(1));
          break;
        case "M":
          this.push(c.uint(2));
          break;
        case "\x8a": {
          const n = c.byte();
          this.push(n === 0 ? 0 : c.int(n));
          break;
        }
        case "F": {
          const text = c.line(), x = Number(text);
          if (text.trim() === "" || Number.isNaN(x)) throw this.bad(`"${text.slice(0, 40)}" is no number`);
          this.push(x);
          break;
        }
        case "G": {
          const b = c.take(8);
          this.push(new DataView(b.buffer, b.byteOffset, 8).getFloat64(0));
          break;
        }
        case "V":
          this.push(c.line());
          break;
        case "X":
          this.push(c.text(c.uint(4)));
          break;
        case "\x8c":
          this.push(c.text(c.uint(1)));
          break;
        case "\x8d":
          this.push(c.text(c.uint(8)));
          break;
        case "U": // text of Python 2: bytes, here as Latin-1
        case "T": {
          const n = c.uint(op === "U" ? 1 : 4);
          if (n > WINDOW) throw this.bad(`text of ${n} bytes at byte ${at}, more than ${WINDOW}`);
          this.push(String.fromCharCode(...c.take(n)));
          break;
        }
        case "C":
        case "B":
        case "\x8e":
          this.push(c.take(c.uint(op === "C" ? 1 : op === "B" ? 4 : 8)).slice());
          break;
        case "}":
          this.push(new Map());
          break;
        case "d": {
          const items = this.popMark();
          this.push(new Map());
          this.setItems(items);
          break;
        }
        case "]":
          this.push([]);
          break;
        case "l":
          this.push(this.popMark());
          break;
        case ")":
          this.push(new PyTuple([]));
          break;
        case "t":
          this.push(new PyTuple(this.popMark()));
          break;
        case "\x85":
        case "\x86":
        case "\x87":
          this.push(new PyTuple(this.pops(code - 0x84)));
          break;
        case "a":
          this.append(this.pops(1));
          break;
        case "e":
          this.append(this.popMark());
          break;
        case "s":
          this.setItems(this.pops(2));
          break;
        case "u":
          this.setItems(this.popMark());
          break;
        case "\x8f": // EMPTY_SET, ADDITEMS, FROZENSET: as lists
          this.push([]);
          break;
        case "\x90":
          this.append(this.popMark());
          break;
        case "\x91":
          this.push(this.popMark());
          break;
        case "p":
          this.memo.set(Number(this.decimal(c.line())), this.top());
          break;
        case "q":
          this.memo.set(c.uint(1), this.top());
          break;
        case "r":
          this.memo.set(c.uint(4), this.top());
          break;
        case "\x94":
          this.memo.set(this.memo.size, this.top());
          break;
        case "g":
          this.get(Number(this.decimal(c.line())));
          break;
        case "h":
          this.get(c.uint(1));
          break;
        case "j":
          this.get(c.uint(4));
          break;
        case "c": {
          const module = c.line(), name = c.line();
          this.push(this.global(`${module}.${name}`));
          break;
        }
        case "\x93": {
          const [module, name] = this.pops(2);
          if (typeof module !== "string" || typeof name !== "string") throw this.bad("it names a global by no text");
          this.push(this.global(`${module}.${name}`));
          break;
        }
        case "R":
        case "\x81": {
          const [fn, args] = this.pops(2);
          this.push(this.call(fn, args));
          break;
        }
        case "b":
          this.build();
          break;
        case "P":
          this.push(this.hooks.persistent(c.line()));
          break;
        case "Q":
          this.push(this.hooks.persistent(this.pop()));
          break;
        default:
          throw this.bad(`opcode 0x${code.toString(16).padStart(2, "0")} at byte ${at} is not allowed`);
      }
    }
  }
}

/** The value of the pickle at the cursor, which is left behind it. @throws {FormatError} */
export function unpickle(cursor: Cursor, hooks: PickleHooks): unknown {
  return new Machine(cursor, hooks).run();
}
