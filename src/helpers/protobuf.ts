/**
 * Protocol buffers on the wire: bytes of a message as fields, and fields as bytes. In: bytes, or the calls that say what
 * to write; out: values in the order of the wire. The reader believes nothing: lengths stay inside of their message,
 * varints within 64 bits, messages nest 100 deep, groups are refused.
 *
 * @module
 */

/** How a field lies on the wire. */
const Wire = { VARINT: 0, FIXED64: 1, BYTES: 2, FIXED32: 5 } as const;
/** How a field lies on the wire. */
export type Wire = (typeof Wire)[keyof typeof Wire];

/** How deep messages may nest. */
const MAX_DEPTH = 100;
const encoder = new TextEncoder(), decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const WIRE_NAMES: Readonly<Record<number, string>> = { 0: "a varint", 1: "8 bytes", 2: "bytes", 5: "4 bytes" };

/**
 * Reads a message field by field: `while (r.next()) switch (r.field) { … default: r.skip(); }`. Every field is to be
 * read once, or skipped. `bad` makes the errors, of the caller's class.
 *
 * ```ts
 * import { ProtoReader, ProtoWriter } from "./protobuf.ts";
 * const w = new ProtoWriter();
 * w.text(1, "hello");
 * const r = new ProtoReader(w.done(), (reason) => new Error(reason));
 * while (r.next()) console.log(r.field, r.text()); // 1 hello
 * ```
 */
export class ProtoReader {
  /** The number of the field that is next. */
  field = 0;
  /** How it lies on the wire. */
  wire: Wire = Wire.VARINT;
  private readonly view: DataView;
  private at: number;

  /** Reads `bytes`, or those in `[start, end)`. */
  constructor(
    readonly bytes: Uint8Array,
    private readonly bad: (reason: string) => Error,
    start = 0,
    private end: number = bytes.length,
    private readonly depth = 0,
  ) {
    this.at = start;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Goes to the next field; false at the end of the message. */
  next(): boolean {
    if (this.at >= this.end) return false;
    const tag = this.varint();
    this.field = Math.floor(tag / 8);
    const wire = tag % 8;
    if (this.field === 0 || this.field >= 2 ** 29) throw this.fault(`field ${this.field} cannot be`);
    if (wire === 3 || wire === 4) throw this.fault(`field ${this.field} is a group, which nobody writes any more`);
    if (wire !== 0 && wire !== 1 && wire !== 2 && wire !== 5) throw this.fault(`wire type ${wire} cannot be`);
    this.wire = wire;
    return true;
  }
  /** An unsigned integer. @throws beyond 2^53 */
  uint(): number {
    this.expect(Wire.VARINT);
    const x = this.varint();
    if (!Number.isSafeInteger(x)) throw this.fault(`field ${this.field} is ${x}, beyond 2^53`);
    return x;
  }
  /** A signed integer of 64 bits. @throws beyond 2^53 */
  int(): number {
    const x = this.int64();
    if (x < -9007199254740991n || x > 9007199254740991n) throw this.fault(`field ${this.field} is ${x}, beyond 2^53`);
    return Number(x);
  }
  /** A signed integer of 64 bits, exactly. */
  int64(): bigint {
    this.expect(Wire.VARINT);
    return this.signed();
  }
  /** A float. */
  float(): number {
    this.expect(Wire.FIXED32);
    return this.view.getFloat32(this.take(4), true);
  }
  /** A double. */
  double(): number {
    this.expect(Wire.FIXED64);
    return this.view.getFloat64(this.take(8), true);
  }
  /** The bytes, which are a part of those that are read. */
  chunk(): Uint8Array {
    this.expect(Wire.BYTES);
    const [from, to] = this.range();
    return this.bytes.subarray(from, to);
  }
  /** Text. @throws where it is no UTF-8 */
  text(): string {
    const bytes = this.chunk();
    try {
      return decoder.decode(bytes);
    } catch {
      throw this.fault(`field ${this.field} is no UTF-8`);
    }
  }
  /** A message of its own. */
  message(): ProtoReader {
    this.expect(Wire.BYTES);
    if (this.depth >= MAX_DEPTH) throw this.fault(`messages nest more than ${MAX_DEPTH} deep`);
    const [from, to] = this.range();
    return new ProtoReader(this.bytes, this.bad, from, to, this.depth + 1);
  }
  /** Appends integers of 64 bits, one or packed. */
  int64s(out: bigint[]): void {
    this.repeated(Wire.VARINT, () => out.push(this.signed()));
  }
  /** Appends signed integers, one or packed. @throws beyond 2^53 */
  ints(out: number[]): void {
    this.repeated(Wire.VARINT, () => {
      const x = this.signed();
      if (x < -9007199254740991n || x > 9007199254740991n) throw this.fault(`field ${this.field} is ${x}, beyond 2^53`);
      out.push(Number(x));
    });
  }
  /** Appends floats, one or packed. */
  floats(out: number[]): void {
    this.repeated(Wire.FIXED32, () => out.push(this.view.getFloat32(this.take(4), true)));
  }
  /** Appends doubles, one or packed. */
  doubles(out: number[]): void {
    this.repeated(Wire.FIXED64, () => out.push(this.view.getFloat64(this.take(8), true)));
  }
  /** Passes over a field. */
  skip(): void {
    if (this.wire === Wire.VARINT) this.signed();
    else if (this.wire === Wire.BYTES) this.range();
    else this.take(this.wire === Wire.FIXED64 ? 8 : 4);
  }

  private fault(reason: string): Error {
    return this.bad(`${reason} (byte ${this.at})`);
  }
  private expect(wire: Wire): void {
    if (this.wire === wire) return;
    throw this.fault(`field ${this.field} is ${WIRE_NAMES[this.wire]}, not ${WIRE_NAMES[wire]}`);
  }
  private take(n: number): number {
    const at = this.at;
    if (n > this.end - at) throw this.fault(`${n} bytes are needed, and its message has ${this.end - at} more`);
    this.at += n;
    return at;
  }
  private range(): [from: number, to: number] {
    const n = this.varint(), from = this.take(n);
    return [from, from + n];
  }
  private repeated(wire: Wire, one: () => void): void {
    if (this.wire === wire) return one();
    this.expect(Wire.BYTES);
    const [from, to] = this.range(), rest = this.end;
    this.at = from;
    this.end = to; // a packed list ends where its bytes end, not where the message does
    while (this.at < to) one();
    this.end = rest;
  }
  /** An unsigned varint as a double: exact up to 2^53. */
  private varint(): number {
    let value = 0, scale = 1;
    for (let i = 0; i < 10; i++, scale *= 128) {
      const byte = this.bytes[this.take(1)];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    throw this.fault("an integer has more than 10 bytes");
  }
  private signed(): bigint {
    const start = this.at, small = this.varint();
    if (small <= Number.MAX_SAFE_INTEGER) return BigInt(small);
    let value = 0n;
    for (let i = this.at - 1; i >= start; i--) value = (value << 7n) | BigInt(this.bytes[i] & 127);
    return BigInt.asIntN(64, value);
  }
}

/** Writes fields, in the order of the calls. */
export class ProtoWriter {
  private bytes = new Uint8Array(64);
  private at = 0;

  /** An unsigned integer. */
  uint(field: number, n: number): void {
    this.varint(field * 8);
    this.varint(n);
  }
  /** A signed integer of 64 bits: a negative one has ten bytes. */
  int64(field: number, n: bigint | number): void {
    this.varint(field * 8);
    this.signed(BigInt(n));
  }
  /** Eight bytes of an unsigned integer. */
  fixed64(field: number, n: number): void {
    const at = this.fixed(field * 8 + 1, 8), view = new DataView(this.bytes.buffer);
    view.setUint32(at, n % 2 ** 32, true);
    view.setUint32(at + 4, Math.floor(n / 2 ** 32), true);
  }
  /** A double. */
  double(field: number, x: number): void {
    const at = this.fixed(field * 8 + 1, 8);
    new DataView(this.bytes.buffer).setFloat64(at, x, true);
  }
  /** A float. */
  float(field: number, x: number): void {
    const at = this.fixed(field * 8 + 5, 4);
    new DataView(this.bytes.buffer).setFloat32(at, x, true);
  }
  /** Bytes. */
  chunk(field: number, content: Uint8Array): void {
    this.varint(field * 8 + 2);
    this.varint(content.length);
    const at = this.room(content.length);
    this.bytes.set(content, at);
  }
  /** Text, as UTF-8. */
  text(field: number, text: string): void {
    this.chunk(field, encoder.encode(text));
  }
  /** A message: what `write` writes. */
  message(field: number, write: (w: ProtoWriter) => void): void {
    const inner = new ProtoWriter();
    write(inner);
    this.chunk(field, inner.done());
  }
  /** Signed integers, packed. */
  int64s(field: number, values: Iterable<bigint | number>): void {
    const inner = new ProtoWriter();
    for (const x of values) inner.signed(BigInt(x));
    this.chunk(field, inner.done());
  }
  /** Floats, packed. */
  floats(field: number, values: readonly number[]): void {
    const data = new Uint8Array(values.length * 4), view = new DataView(data.buffer);
    values.forEach((x, i) => view.setFloat32(i * 4, x, true));
    this.chunk(field, data);
  }
  /** Doubles, packed. */
  doubles(field: number, values: readonly number[]): void {
    const data = new Uint8Array(values.length * 8), view = new DataView(data.buffer);
    values.forEach((x, i) => view.setFloat64(i * 8, x, true));
    this.chunk(field, data);
  }
  /** What was written: a part of the writer's memory. */
  done(): Uint8Array<ArrayBuffer> {
    return this.bytes.subarray(0, this.at) as Uint8Array<ArrayBuffer>;
  }

  /** Where the next `n` bytes go. */
  private room(n: number): number {
    const at = this.at;
    this.at += n;
    if (this.at > this.bytes.length) {
      const grown = new Uint8Array(Math.max(2 * this.bytes.length, this.at));
      grown.set(this.bytes.subarray(0, at));
      this.bytes = grown;
    }
    return at;
  }
  private fixed(tag: number, n: number): number {
    this.varint(tag);
    return this.room(n);
  }
  private byte(n: number): void {
    const at = this.room(1);
    this.bytes[at] = n;
  }
  private varint(n: number): void {
    for (; n >= 0x80; n = Math.floor(n / 0x80)) this.byte((n % 0x80) | 0x80);
    this.byte(n);
  }
  private signed(n: bigint): void {
    for (n = BigInt.asUintN(64, n); n >= 128n; n >>= 7n) this.byte(Number(n & 127n) | 128);
    this.byte(Number(n));
  }
}

/** The bytes of a message: what `write` writes. */
export function protoBytes(write: (w: ProtoWriter) => void): Uint8Array<ArrayBuffer> {
  const w = new ProtoWriter();
  write(w);
  return w.done();
}
