/**
 * Small files of TensorFlow Lite for tests, as bytes: tensors, operators and graphs in a few words.
 *
 * @module
 */
/** A field of a table: numbers by their kind, lists, text, tables. */
export type Field =
  | { byte: number }
  | { int: number }
  | { float: number }
  | { bytes: Uint8Array }
  | { ints: readonly number[] }
  | { longs: readonly number[] }
  | { floats: readonly number[] }
  | { text: string }
  | { table: Fields }
  | { tables: readonly Fields[] };
/** Fields by number. */
export type Fields = Readonly<Record<number, Field>>;

/** A tensor of a file: floats unless `type` says otherwise. */
export interface LiteTensorSpec {
  readonly name: string;
  readonly shape: readonly number[];
  readonly type?: number;
  /** Bytes of a constant. */
  readonly data?: ArrayBufferView;
  readonly scale?: readonly number[];
  readonly zero?: readonly number[];
  readonly axis?: number;
}
/** An operator: its number, tensors by number, options. */
export interface LiteOpSpec {
  readonly code: number;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
  readonly options?: Fields;
}
/** A graph. */
export interface LiteGraphSpec {
  readonly tensors: readonly LiteTensorSpec[];
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
  readonly operators: readonly LiteOpSpec[];
}

/** A flatbuffer, written from its front: what a table refers to lies behind it. */
class Writer {
  private bytes: number[] = [0, 0, 0, 0, ...new TextEncoder().encode("TFL3")];
  private align(n: number): number {
    while (this.bytes.length % n !== 0) this.bytes.push(0);
    return this.bytes.length;
  }
  private put(at: number, bytes: ArrayLike<number>): void {
    for (let i = 0; i < bytes.length; i++) this.bytes[at + i] = bytes[i];
  }
  private u32(at: number, x: number): void {
    this.put(at, new Uint8Array(Int32Array.of(x | 0).buffer));
  }
  private vector(count: number, raw: Uint8Array, itemsize: number): number {
    while ((this.bytes.length + 4) % Math.max(4, itemsize) !== 0) this.bytes.push(0);
    const at = this.bytes.length;
    this.u32(at, count);
    this.put(at + 4, raw);
    return at;
  }
  table(fields: Fields): number {
    const numbers = Object.keys(fields).map(Number), count = Math.max(-1, ...numbers) + 1;
    const vtable = this.align(4), size = 4 + 2 * count;
    this.put(vtable, new Uint8Array(Uint16Array.of(size, 4 + 4 * count, ...Array(count).fill(0)).buffer));
    const at = this.align(4);
    this.u32(at, at - vtable);
    this.put(at + 4, new Uint8Array(4 * count));
    for (const n of numbers) {
      const place = at + 4 + 4 * n, f = fields[n];
      this.put(vtable + 4 + 2 * n, new Uint8Array(Uint16Array.of(4 + 4 * n).buffer));
      if ("byte" in f) this.bytes[place] = f.byte & 255;
      else if ("int" in f) this.u32(place, f.int);
      else if ("float" in f) this.put(place, new Uint8Array(Float32Array.of(f.float).buffer));
      else this.u32(place, this.behind(f) - place);
    }
    return at;
  }
  private behind(f: Field): number {
    const raw = (a: ArrayBufferView) => new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
    if ("bytes" in f) return this.vector(f.bytes.length, f.bytes, 16);
    if ("text" in f) return this.vector(f.text.length, new TextEncoder().encode(f.text), 1);
    if ("ints" in f) return this.vector(f.ints.length, raw(Int32Array.from(f.ints)), 4);
    if ("floats" in f) return this.vector(f.floats.length, raw(Float32Array.from(f.floats)), 4);
    if ("longs" in f) return this.vector(f.longs.length, raw(BigInt64Array.from(f.longs, BigInt)), 8);
    if ("table" in f) return this.table(f.table);
    const list = (f as { tables: readonly Fields[] }).tables;
    const at = this.vector(list.length, new Uint8Array(4 * list.length), 4);
    list.forEach((t, i) => this.u32(at + 4 + 4 * i, this.table(t) - (at + 4 + 4 * i)));
    return at;
  }
  file(root: Fields): Uint8Array<ArrayBuffer> {
    this.u32(0, this.table(root));
    return Uint8Array.from(this.bytes);
  }
}

/** A file with these graphs; the first is the model. */
export function buildTFLite(...graphs: readonly LiteGraphSpec[]): Uint8Array<ArrayBuffer> {
  const buffers: Fields[] = [{}], codes: number[] = [];
  const tensor = (t: LiteTensorSpec): Fields => {
    if (t.data !== undefined) {
      buffers.push({ 0: { bytes: new Uint8Array(t.data.buffer, t.data.byteOffset, t.data.byteLength) } });
    }
    const quantized: Fields = {
      2: { floats: t.scale ?? [] },
      3: { longs: t.zero ?? (t.scale ?? []).map(() => 0) },
      6: { int: t.axis ?? 0 },
    };
    return {
      0: { ints: t.shape },
      1: { byte: t.type ?? 0 },
      2: { int: t.data === undefined ? 0 : buffers.length - 1 },
      3: { text: t.name },
      ...(t.scale === undefined ? {} as Fields : { 4: { table: quantized } } as Fields),
    };
  };
  const operator = (o: LiteOpSpec): Fields => {
    if (!codes.includes(o.code)) codes.push(o.code);
    return {
      0: { int: codes.indexOf(o.code) },
      1: { ints: o.inputs },
      2: { ints: o.outputs },
      ...(o.options === undefined ? {} as Fields : { 3: { byte: 1 }, 4: { table: o.options } } as Fields),
    };
  };
  const made = graphs.map((g): Fields => ({
    0: { tables: g.tensors.map(tensor) },
    1: { ints: g.inputs },
    2: { ints: g.outputs },
    3: { tables: g.operators.map(operator) },
  }));
  return new Writer().file({
    0: { int: 3 },
    1: { tables: codes.map((c): Fields => ({ 0: { byte: Math.min(c, 127) }, 3: { int: c } })) },
    2: { tables: made },
    4: { tables: buffers },
  });
}
