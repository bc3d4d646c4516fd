/**
 * A recording as the page gets it: tables by columns, with numbers as text, and back to what the views read. In: what pack.ts
 * made; out: the same data. As page_text.ts, these functions are in the page as their own text.
 *
 * @module
 */
import type { NodeData, PassData } from "../../uop/core/recording.ts";
import type { KernelData, VizData } from "./viz_data.ts";

/** Texts of a column: each once, and by row its number in that list from 1 on, or 0 where there is none. */
export interface PackedTexts {
  readonly texts: readonly string[];
  readonly at: string;
}

/** Nodes by columns; strings are lists of integers, as {@linkcode numbersOf} reads them. */
export interface PackedNodes {
  readonly op: PackedTexts;
  readonly dtype: PackedTexts;
  readonly arg: PackedTexts;
  readonly line: PackedTexts;
  /** How many sources each has. */
  readonly counts: string;
  /**
   * How far each source is behind its node, less what that is for the node before of the same op and count: first sources,
   * second ones, third ones, all others.
   */
  readonly src: readonly string[];
}

/** Passes by columns. */
export interface PackedPasses {
  readonly name: PackedTexts;
  readonly depth: string;
  /** From 1 on; 0 for those that belong to nothing. */
  readonly of: string;
  /** Microseconds after the start of the one before. */
  readonly start: string;
  /** Microseconds. */
  readonly time: string;
  /** Less what came out of the pass before. */
  readonly before: string;
  /** Less what went in. */
  readonly after: string;
  /** How many changes each has. */
  readonly counts: string;
  /** Of all changes. */
  readonly rule: string;
  /** Less that of the change before. */
  readonly from: string;
  /** Less that of the change before. */
  readonly to: string;
}

/** A recording on its way to the page. */
export interface PackedData extends Omit<VizData, "nodes" | "passes" | "kernels"> {
  readonly nodes: PackedNodes;
  readonly passes: PackedPasses;
  readonly kernels: readonly (Omit<KernelData, "uops"> & {
    /** Each less the one before. */
    readonly uops: string;
  })[];
}

/** Integers from text, as source maps write them (ECMA-426): digits of 5 bits, the lowest first, the sign in the lowest bit. */
export function numbersOf(text: string): number[] {
  const out: number[] = [];
  for (let i = 0, value = 0, scale = 1; i < text.length; i++) {
    const c = text.charCodeAt(i), digit = c >= 97 ? c - 71 : c >= 65 ? c - 65 : c >= 48 ? c + 4 : c === 43 ? 62 : 63;
    value += digit % 32 * scale;
    scale *= 32;
    if (digit >= 32) continue;
    out.push(value % 2 === 1 ? -(value - 1) / 2 : value / 2);
    value = 0;
    scale = 1;
  }
  return out;
}

/** A column of texts. */
export function textsOf({ texts, at }: PackedTexts): (string | undefined)[] {
  return numbersOf(at).map((n) => texts[n - 1]);
}

/** Numbers that are each told by what is added to the one before. */
export function sumsOf(text: string): number[] {
  let sum = 0;
  return numbersOf(text).map((n) => sum += n);
}

/** The nodes. */
export function unpackNodes(packed: PackedNodes): NodeData[] {
  const op = textsOf(packed.op), dtype = textsOf(packed.dtype), arg = textsOf(packed.arg), line = textsOf(packed.line);
  const counts = numbersOf(packed.counts), columns = packed.src.map(numbersOf), read = columns.map(() => 0);
  const last = new Map<string, number[][]>();
  return counts.map((count, i) => {
    let before = last.get(op[i]!);
    if (before === undefined) last.set(op[i]!, before = []);
    const far: number[] = before[count] ??= new Array<number>(count).fill(0), src: number[] = [];
    for (let k = 0; k < count; k++) {
      const c = k < columns.length ? k : columns.length - 1;
      src.push(i - (far[k] += columns[c][read[c]++]));
    }
    const node: { -readonly [K in keyof NodeData]: NodeData[K] } = { op: op[i]!, dtype: dtype[i]!, src };
    if (arg[i] !== undefined) node.arg = arg[i];
    if (line[i] !== undefined) node.line = line[i];
    return node;
  });
}

/** The passes. */
export function unpackPasses(packed: PackedPasses): PassData[] {
  const name = textsOf(packed.name),
    [depth, of, time, before, after, counts, rule] = [
      packed.depth,
      packed.of,
      packed.time,
      packed.before,
      packed.after,
      packed.counts,
      packed.rule,
    ].map(numbersOf);
  const start = sumsOf(packed.start), from = sumsOf(packed.from), to = sumsOf(packed.to);
  let root = 0, at = 0;
  return counts.map((count, i) => {
    const input = root + before[i], changes: [number, number, number][] = [];
    root = input + after[i];
    for (const end = at + count; at < end; at++) changes.push([rule[at], from[at], to[at]]);
    return {
      name: name[i]!,
      depth: depth[i],
      ...(of[i] === 0 ? {} : { of: of[i] - 1 }),
      startMs: start[i] / 1000,
      timeMs: time[i] / 1000,
      before: input,
      after: root,
      changes,
    };
  });
}

/** All of it. */
export function unpackData(packed: PackedData): VizData {
  return {
    ...packed,
    nodes: unpackNodes(packed.nodes),
    passes: unpackPasses(packed.passes),
    kernels: packed.kernels.map((k) => ({ ...k, uops: sumsOf(k.uops) })),
  };
}
