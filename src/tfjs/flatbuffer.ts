/**
 * Flatbuffers, read with strict bounds. In: bytes; out: tables whose fields are asked for by number. Every offset, length and
 * table of fields is checked before it is followed, so that a spoiled file gives a named error, never a read beyond its
 * end. Format: the internals page of the FlatBuffers documentation.
 *
 * @module
 */
import type { Fault } from "./weights_manifest.ts";

/** A table of a flatbuffer. */
export class FlatTable {
  private readonly fields: number;
  private readonly count: number;

  /** @param at where it begins */
  constructor(private readonly view: DataView, private readonly at: number, private readonly bad: Fault) {
    this.fields = at - this.checked(at, 4).getInt32(at, true);
    const size = this.checked(this.fields, 4).getUint16(this.fields, true);
    if (size < 4 || size % 2 !== 0) throw bad(`the table at ${at} has ${size} bytes of fields`);
    this.checked(this.fields, size);
    this.count = (size - 4) / 2;
  }

  /** The root of a file. */
  static root(bytes: Uint8Array, bad: Fault): FlatTable {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (bytes.length < 8) throw bad(`it has ${bytes.length} bytes`);
    return new FlatTable(view, view.getUint32(0, true), bad);
  }

  /** The bytes at a place, which must be there. */
  private checked(at: number, nbytes: number): DataView {
    if (at >= 0 && at + nbytes <= this.view.byteLength) return this.view;
    throw this.bad(`it is truncated: ${nbytes} bytes at ${at} are needed, and it has ${this.view.byteLength}`);
  }
  /** Where a field is; 0 where it is not given. */
  private place(field: number): number {
    if (field >= this.count) return 0;
    const offset = this.view.getUint16(this.fields + 4 + 2 * field, true);
    return offset === 0 ? 0 : this.at + offset;
  }
  private follow(at: number): number {
    return at + this.checked(at, 4).getUint32(at, true);
  }
  /** Where elements begin, and how many there are. */
  private vector(field: number, itemsize: number): [start: number, count: number] {
    const at = this.place(field);
    if (at === 0) return [0, 0];
    const to = this.follow(at), count = this.checked(to, 4).getUint32(to, true);
    this.checked(to + 4, count * itemsize);
    return [to + 4, count];
  }

  /** Whether a field is given. */
  has(field: number): boolean {
    return this.place(field) !== 0;
  }
  /** Numbers: signed bytes, bytes, whole numbers of 32 and 64 bits, floats. */
  byte(field: number, otherwise = 0): number {
    const at = this.place(field);
    return at === 0 ? otherwise : this.checked(at, 1).getUint8(at);
  }
  int8(field: number, otherwise = 0): number {
    const at = this.place(field);
    return at === 0 ? otherwise : this.checked(at, 1).getInt8(at);
  }
  int(field: number, otherwise = 0): number {
    const at = this.place(field);
    return at === 0 ? otherwise : this.checked(at, 4).getInt32(at, true);
  }
  uint(field: number, otherwise = 0): number {
    const at = this.place(field);
    return at === 0 ? otherwise : this.checked(at, 4).getUint32(at, true);
  }
  long(field: number): number {
    const at = this.place(field);
    return at === 0 ? 0 : Number(this.checked(at, 8).getBigUint64(at, true));
  }
  float(field: number, otherwise = 0): number {
    const at = this.place(field);
    return at === 0 ? otherwise : this.checked(at, 4).getFloat32(at, true);
  }
  flag(field: number): boolean {
    return this.byte(field) !== 0;
  }
  /** Text. */
  text(field: number): string {
    const [at, count] = this.vector(field, 1);
    return new TextDecoder().decode(this.slice(at, count));
  }
  /** Lists. */
  bytes(field: number): Uint8Array<ArrayBuffer> {
    return this.slice(...this.vector(field, 1));
  }
  ints(field: number): number[] {
    const [at, count] = this.vector(field, 4);
    return Array.from({ length: count }, (_, i) => this.view.getInt32(at + 4 * i, true));
  }
  longs(field: number): number[] {
    const [at, count] = this.vector(field, 8);
    return Array.from({ length: count }, (_, i) => Number(this.view.getBigInt64(at + 8 * i, true)));
  }
  floats(field: number): number[] {
    const [at, count] = this.vector(field, 4);
    return Array.from({ length: count }, (_, i) => this.view.getFloat32(at + 4 * i, true));
  }
  /** A table, where it is given. */
  table(field: number): FlatTable | undefined {
    const at = this.place(field);
    return at === 0 ? undefined : new FlatTable(this.view, this.follow(at), this.bad);
  }
  /** A list of tables. */
  tables(field: number): FlatTable[] {
    const [at, count] = this.vector(field, 4);
    return Array.from({ length: count }, (_, i) => new FlatTable(this.view, this.follow(at + 4 * i), this.bad));
  }
  private slice(at: number, count: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.checked(at, count).buffer, this.view.byteOffset + at, count).slice();
  }
  /** Bytes anywhere in the file: of large ones, data lies behind the tables. */
  outside(at: number, count: number): Uint8Array<ArrayBuffer> {
    return this.slice(at, count);
  }
}
