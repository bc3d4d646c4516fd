/**
 * What lowering a graph gives: buffers by number, and the steps that fill them.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import type { CollectiveArg } from "../../uop/core/sharding.ts";
import type { UOp } from "../../uop/core/uop.ts";

/** A buffer of a schedule: one that exists (a storage of the graph, by slot) or one to be made. */
export interface EntryInfo {
  readonly device: string;
  readonly dtype: DType;
  /** In elements. */
  readonly size: number;
  /** Slot of the storage in the graph's key; undefined for new buffers. */
  readonly slot: number | undefined;
  /** Writes in this schedule. */
  versions: number;
  /** New buffers that outlive the schedule: some node becomes them. */
  kept: boolean;
  /** Where the buffer is part of another entry's: of which, and from which byte on. */
  readonly view: ViewInfo | undefined;
}

/** A part of an entry, from byte `offset` on, plus some bytes for each one of variables. */
export interface ViewInfo {
  readonly base: number;
  readonly offset: number;
  readonly moving: readonly { readonly name: string; readonly nbytes: number }[];
}

/**
 * A step of a template. `entries` by slot of the kernel; for a copy [to, from], a collective all that it
 * writes, then all that it reads, a view [view, base], a fill [to].
 */
export interface TemplateItem {
  readonly kind: "kernel" | "copy" | "collective" | "fill" | "empty" | "view";
  readonly device: string;
  readonly entries: readonly number[];
  /** The kernel AST (PARAM slots 0, 1, ...), or the value of a fill. */
  readonly ast: UOp | undefined;
  /** What a collective does. */
  readonly collective?: CollectiveArg;
  /** Names of the schedule's variables that the kernel calls v0, v1, ... */
  readonly vars: readonly string[];
  /** Position in the key's order of the node that it computes. */
  readonly at: number | undefined;
  /** What the store of lowered kernels calls the kernel, where another process has made the template. */
  readonly stored?: string;
}

/** A node of the graph that becomes a version of an entry. */
export interface Becoming {
  /** Its position in the order of the graph. */
  readonly at: number;
  readonly entry: number;
  readonly version: number;
}

/** What realizing a graph takes, in terms of entries. */
export interface Template {
  readonly entries: readonly EntryInfo[];
  readonly items: readonly TemplateItem[];
  /** Nodes of the graph that become a version of an entry. */
  readonly becomes: readonly Becoming[];
}
