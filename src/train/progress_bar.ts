/**
 * Progress of a loop: a bar on a terminal, lines elsewhere, nothing where nobody looks. In: anything to iterate over; out:
 * the same items. What it writes goes to standard error, and never breaks the loop.
 *
 * @module
 */
import { terminal } from "../engine/progress.ts";
import { readEnv } from "../helpers/env.ts";
import { ArgumentError } from "../helpers/errors.ts";
import { checkBoolean, checkOptions, describe } from "../helpers/options.ts";

/** Options of {@linkcode progress}. */
export interface ProgressOptions {
  /** Stands before the bar. */
  readonly label?: string;
  /** How many items come; the length of what is iterated over unless given, or else unknown. */
  readonly total?: number;
  /** False writes nothing; true unless given, false where CI is set in the environment. */
  readonly enabled?: boolean;
  /** Where it writes; standard error unless given. */
  readonly output?: { readonly isTerminal: boolean; write(text: string): void };
}

/** Milliseconds between two states of a bar: it moves ten times a second at most. */
const BAR_MS = 100;
/** Milliseconds between two lines where there is no terminal. */
const LINE_MS = 10_000;
const WIDTH = 24;

/** Seconds as 1:05 or 1:02:05. */
function clock(seconds: number): string {
  if (!Number.isFinite(seconds)) return "?";
  const s = Math.max(0, Math.round(seconds)), two = (x: number) => String(x).padStart(2, "0");
  return s < 3600
    ? `${Math.floor(s / 60)}:${two(s % 60)}`
    : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

function shown(x: unknown): string {
  if (typeof x !== "number") return String(x);
  if (Number.isInteger(x)) return String(x);
  return Math.abs(x) >= 1e-3 && Math.abs(x) < 1e6 ? String(Number(x.toPrecision(4))) : x.toExponential(2);
}

/** What {@linkcode progress} gives: the items, and what to write beside the bar. */
export class Progress<T> {
  private readonly label: string;
  private readonly total: number | undefined;
  private readonly write: ((text: string) => void) | undefined;
  private readonly isTerminal: boolean;
  private values: Readonly<Record<string, unknown>> = {};
  private count = 0;
  private began = 0;
  private told = 0;

  /** See {@linkcode progress}. */
  constructor(private readonly items: Iterable<T> | AsyncIterable<T>, options: ProgressOptions = {}) {
    const action = "show progress";
    checkOptions(action, options, ["label", "total", "enabled", "output"]);
    const known = items as { readonly length?: unknown; readonly size?: unknown };
    if (typeof items === "string" || !(Symbol.iterator in Object(items) || Symbol.asyncIterator in Object(items))) {
      throw new ArgumentError(action, { reason: `it takes something to iterate over, not ${describe(items)}` });
    }
    this.label = options.label ?? "";
    this.total = options.total ?? lengthOf(() => known.length) ?? lengthOf(() => known.size);
    const isOn = options.enabled === undefined ? !readEnv("CI") : checkBoolean(action, "enabled", options.enabled);
    const output = options.output ?? { isTerminal: terminal.isThere(), write: (text) => terminal.write(text) };
    this.isTerminal = output.isTerminal;
    if (isOn) this.write = (text) => output.write(text);
  }

  /** Values beside the bar, as `{ loss: 0.25 }`: these in place of those of the same name. Numbers are shortened. */
  set(values: Readonly<Record<string, unknown>>): this {
    this.values = { ...this.values, ...values };
    return this;
  }

  private tell(isEnd = false): void {
    if (this.write === undefined) return;
    const now = performance.now(), since = now - this.told;
    if (!isEnd && since < (this.isTerminal ? BAR_MS : LINE_MS)) return;
    this.told = now;
    try {
      this.write(this.isTerminal ? `\r\x1b[K${this.text(now)}${isEnd ? "\n" : ""}` : `${this.text(now)}\n`);
    } catch {
      // who listens has gone; the loop goes on
    }
  }
  private text(now: number): string {
    const { count, total, label } = this, seconds = (now - this.began) / 1000, rate = seconds > 0 ? count / seconds : 0;
    const head = label === "" ? "" : `${label} `,
      values = Object.entries(this.values).map(([k, v]) => `${k} ${shown(v)}`);
    const tail = [`${rate < 1 && rate > 0 ? `${shown(1 / rate)} s/it` : `${shown(rate)} it/s`}`, ...values].join("  ");
    if (total === undefined) return `${head}${count}  ${clock(seconds)}  ${tail}`;
    const part = total === 0 ? 1 : Math.min(1, count / total), full = Math.round(part * WIDTH);
    const bar = this.isTerminal ? `${"█".repeat(full)}${"░".repeat(WIDTH - full)} ` : "";
    const left = count > 0 && count < total ? ` < ${clock(seconds / count * (total - count))}` : "";
    return `${head}${bar}${Math.round(part * 100)} %  ${count}/${total}  ${clock(seconds)}${left}  ${tail}`;
  }
  private begin(): void {
    [this.count, this.began] = [0, performance.now()];
    this.told = this.isTerminal ? 0 : this.began;
    if (this.isTerminal) this.tell();
  }

  /** The items. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, void> {
    this.begin();
    try {
      for await (const x of this.items) {
        yield x;
        this.count++;
        this.tell();
      }
    } finally {
      this.tell(true);
    }
  }
  /** The items, of what needs no waiting. */
  *[Symbol.iterator](): Generator<T, void, void> {
    if (!(Symbol.iterator in this.items)) {
      throw new ArgumentError("show progress", { reason: "the items have to be waited for; write for await" });
    }
    this.begin();
    try {
      for (const x of this.items as Iterable<T>) {
        yield x;
        this.count++;
        this.tell();
      }
    } finally {
      this.tell(true);
    }
  }
}

/** A length that something may have. */
function lengthOf(get: () => unknown): number | undefined {
  try {
    const n = get();
    return typeof n === "number" && Number.isFinite(n) ? n : undefined;
  } catch {
    return undefined; // of what is iterated over nobody knows
  }
}

/**
 * The items of `items`, with a bar on a terminal: how many, how fast, how long it will take. It moves at most ten times a
 * second. Elsewhere it is a line each ten seconds and one at the end; nothing in CI.
 *
 * ```ts
 * import { progress } from "./train.ts";
 * const bar = progress([1, 2, 3], { label: "epoch 1" });
 * for await (const x of bar) bar.set({ loss: 1 / x });
 * ```
 *
 * @throws {ArgumentError} for what nobody can iterate over
 */
export function progress<T>(items: AsyncIterable<T> | Iterable<T>, options: ProgressOptions = {}): Progress<T> {
  return new Progress<T>(items, options);
}
