/** Bytes as elements of a dtype, and which of them an index takes: for the model of assignments. */
import type { Kind, Part } from "./assignments_program.ts";

/** Bytes of an element. */
export const SIZE: Record<Kind, number> = { int32: 4, uint32: 4, int16: 2, uint8: 1, float32: 4 };

/** Elements of a shape. */
export const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);
/** The numbers below `n`. */
export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/** An element at a byte. */
export function load(bytes: Uint8Array, at: number, kind: Kind): number {
  const view = new DataView(bytes.buffer);
  switch (kind) {
    case "int32":
      return view.getInt32(at, true);
    case "uint32":
      return view.getUint32(at, true);
    case "int16":
      return view.getInt16(at, true);
    case "uint8":
      return view.getUint8(at);
    case "float32":
      return view.getFloat32(at, true);
  }
}

/** Writes one. */
export function store(bytes: Uint8Array, at: number, kind: Kind, x: number): void {
  const view = new DataView(bytes.buffer);
  switch (kind) {
    case "int32":
    case "uint32":
      return view.setInt32(at, x, true);
    case "int16":
      return view.setInt16(at, x, true);
    case "uint8":
      return view.setUint8(at, x);
    case "float32":
      return view.setFloat32(at, x, true);
  }
}

/** The positions of `shape`, in a row, that an index takes, and the shape of what it takes. */
export function taken(shape: readonly number[], index: readonly Part[]): { shape: number[]; at: number[] } {
  const out: number[] = [];
  let at = [0];
  shape.forEach((n, axis) => {
    const part = index[axis] ?? ":";
    let hits: number[];
    if (typeof part === "number") hits = [part < 0 ? part + n : part];
    else if (part === ":") hits = range(n);
    else if ("at" in part && Array.isArray(part.at)) hits = part.at.map((i: number) => i < 0 ? i + n : i);
    else if ("bound" in part) hits = range(part.bound[1]).map((i) => part.bound[0] + i);
    else {
      const [start, stop, by] = part as readonly (number | null)[], step = by ?? 1;
      hits = [];
      const clamp = (x: number, low: number, high: number) => Math.min(Math.max(x < 0 ? x + n : x, low), high);
      if (step > 0) {
        const end = stop === null || stop === undefined ? n : clamp(stop, 0, n);
        for (let i = start === null ? 0 : clamp(start, 0, n); i < end; i += step) hits.push(i);
      } else {
        const end = stop === null || stop === undefined ? -1 : clamp(stop, -1, n - 1);
        for (let i = start === null ? n - 1 : clamp(start, -1, n - 1); i > end; i += step) hits.push(i);
      }
    }
    if (typeof part !== "number") out.push(hits.length);
    at = at.flatMap((p) => hits.map((i) => p * n + i));
  });
  return { shape: out, at };
}

/** For each position of `shape` permuted by `order`, that in `shape`. */
export function permuted(shape: readonly number[], order: readonly number[]): number[] {
  const to = order.map((a) => shape[a]);
  return range(product(to)).map((flat) => {
    const at = new Array<number>(shape.length);
    for (let i = to.length - 1; i >= 0; i--) {
      at[order[i]] = flat % to[i];
      flat = Math.floor(flat / to[i]);
    }
    return at.reduce((p, x, i) => p * shape[i] + x, 0);
  });
}

/** What an op gives for two elements. */
export function combine(how: string, a: number, b: number, kind: Kind): number {
  const bytes = new Uint8Array(4);
  const x = how === "add" ? a + b : how === "sub" ? a - b : how === "max" ? Math.max(a, b) : undefined;
  store(bytes, 0, kind, x ?? (kind === "float32" ? a * b : Math.imul(a, b)));
  return load(bytes, 0, kind);
}
