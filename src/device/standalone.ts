/**
 * What a backend offers to those who write programs down that run without this library: kernels for any machine of its
 * kind, and a file that has all of them. Types alone.
 *
 * @module
 */
import type { LinearProgram, Renderer } from "../renderer/renderer.ts";

/** What a scalar argument of a kernel is. */
export type StandaloneScalar =
  | { readonly kind: "variable"; readonly position: number }
  | { readonly kind: "counter"; readonly offset: number }
  | { readonly kind: "counterHigh" }
  | { readonly kind: "seed"; readonly word: 0 | 1 };

/** One thing after the other; places are bytes from the start of the program's memory. */
export type StandaloneStep =
  | {
    readonly kind: "kernel";
    readonly program: number;
    /** By slot. */
    readonly places: readonly number[];
    readonly scalars: readonly StandaloneScalar[];
  }
  | { readonly kind: "copy"; readonly to: number; readonly from: number; readonly nbytes: number };

/** A function that can be called. */
export interface StandaloneEntry {
  /** What it is called. */
  readonly name: string;
  /** What runs, in order. */
  readonly steps: readonly StandaloneStep[];
  /** Sizes that it takes as arguments. */
  readonly variables: readonly { readonly min: number; readonly max: number }[];
  /** Random numbers of a call. */
  readonly draws: number;
}

/** A program to be written down. */
export interface StandaloneSpec {
  /** The kernels, each once. */
  readonly programs: readonly LinearProgram[];
  /** What can be called; all run in the same memory. */
  readonly entries: readonly StandaloneEntry[];
  /** Random numbers before the first run. */
  readonly counter: bigint;
  /** What random numbers follow from. */
  readonly seed: bigint;
  /** Bytes of memory. */
  readonly nbytes: number;
  /** Places that have a name outside. */
  readonly exports: readonly { readonly name: string; readonly place: number }[];
  /** What is copied before the first run. */
  readonly init: readonly { readonly to: number; readonly from: number; readonly nbytes: number }[];
}

/** What writes them. */
export interface Standalone {
  /** Of kernels that need nothing of this machine. */
  readonly renderer: Renderer;
  /** The bytes of one module. */
  module(spec: StandaloneSpec): Uint8Array<ArrayBuffer>;
}
