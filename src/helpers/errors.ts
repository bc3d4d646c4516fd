/**
 * The error classes of dinograd. Each extends the nearest builtin, carries fields, and its text reads
 * "Cannot <action> <offending values>: <reason>", without a period at the end.
 *
 * @module
 */

/** Shapes of which sizes are variables, with the text of each. */
const symbolic = new WeakMap<readonly unknown[], readonly (string | undefined)[]>();

/** Tells what sizes of a shape are called, where they are variables; the numbers in it are the largest they may be. */
export function nameSizes<T extends readonly unknown[]>(shape: T, names: readonly (string | undefined)[]): T {
  symbolic.set(shape, names);
  return shape;
}

/** `[4, 3]` for a shape, with the names of sizes that are variables. A rank-0 shape prints as `[]`. */
export function shapeText(shape: readonly unknown[]): string {
  const names = symbolic.get(shape);
  return `[${shape.map((n, i) => names?.[i] ?? n).join(", ")}]`;
}

/** What a symbolic size is taken for, where `reason` says nothing of it. */
function largestText(shapes: readonly (readonly unknown[])[], reason: string): string {
  if (reason.includes("symbolic size")) return "";
  for (const shape of shapes) {
    const axis = symbolic.get(shape)?.findIndex((name) => name !== undefined) ?? -1, name = symbolic.get(shape)?.[axis];
    if (name === undefined) continue;
    return `; ${name} is a symbolic size of at most ${shape[axis]}, which padTo(shape) makes constant`;
  }
  return "";
}

function listText(items: readonly string[]): string {
  if (items.length <= 1) return items.join("");
  return `${items.slice(0, -1).join(", ")} and ${items[items.length - 1]}`;
}

/** What a {@linkcode ShapeError} says: the shapes involved, the axis at fault if one is, and why. */
export interface ShapeErrorOptions {
  readonly shapes?: readonly (readonly unknown[])[];
  readonly axis?: number;
  readonly reason: string;
}

/** Shapes, axes or sizes that do not fit an operation. */
export class ShapeError extends RangeError {
  /** The name of the class. */
  override readonly name: string = "ShapeError";
  /** What was tried, as a verb and its object. */
  readonly action: string;
  /** The shapes at fault. */
  readonly shapes: readonly (readonly unknown[])[];
  /** The axis at fault, if there is one. */
  readonly axis: number | undefined;

  /** The text is "Cannot", the action, the values at fault and the reason. */
  constructor(action: string, options: ShapeErrorOptions) {
    const shapes = options.shapes ?? [];
    const noun = shapes.length === 0
      ? ""
      : ` ${shapes.length > 1 ? "shapes" : "shape"} ${listText(shapes.map(shapeText))}`;
    super(`Cannot ${action}${noun}: ${options.reason}${largestText(shapes, options.reason)}`);
    this.action = action;
    this.shapes = shapes;
    this.axis = options.axis;
  }
}

/** An index outside an axis, or of a kind that cannot index. Named as in Python; shadows no builtin of JavaScript. */
export class IndexError extends RangeError {
  /** The name of the class. */
  override readonly name: string = "IndexError";
  /** What was tried, as a verb and its object. */
  readonly action: string;
  /** The axis at fault, if there is one. */
  readonly axis: number | undefined;

  /** The text is "Cannot", the action, the values at fault and the reason. */
  constructor(action: string, options: { readonly axis?: number; readonly reason: string }) {
    super(`Cannot ${action}: ${options.reason}`);
    this.action = action;
    this.axis = options.axis;
  }
}

/** A data type that an operation does not take. */
export class DTypeError extends TypeError {
  /** The name of the class. */
  override readonly name: string = "DTypeError";
  /** What was tried, as a verb and its object. */
  readonly action: string;
  /** The names of the dtypes at fault. */
  readonly dtypes: readonly string[];

  /** The text is "Cannot", the action, the values at fault and the reason. */
  constructor(
    action: string,
    options: { readonly dtypes?: readonly { toString(): string }[]; readonly reason: string },
  ) {
    const dtypes = (options.dtypes ?? []).map(String);
    super(`Cannot ${action}${dtypes.length ? ` ${listText(dtypes)}` : ""}: ${options.reason}`);
    this.action = action;
    this.dtypes = dtypes;
  }
}

/** An argument of the wrong kind or value that no other class fits: unknown options, ragged lists. */
export class ArgumentError extends TypeError {
  /** The name of the class. */
  override readonly name: string = "ArgumentError";
  /** What was tried, as a verb and its object. */
  readonly action: string;

  /** The text is "Cannot", the action, the values at fault and the reason. */
  constructor(action: string, options: { readonly reason: string }) {
    super(`Cannot ${action}: ${options.reason}`);
    this.action = action;
  }
}

/** A device that cannot open, lacks something, or was lost. */
export class DeviceError extends Error {
  /** The name of the class. */
  override readonly name: string = "DeviceError";
  /** The device at fault. */
  readonly device: string;

  /** The text is "Cannot", the action, the values at fault and the reason. */
  constructor(action: string, options: { readonly device: string; readonly reason: string; readonly cause?: unknown }) {
    super(`Cannot ${action}: ${options.reason}`, options.cause === undefined ? undefined : { cause: options.cause });
    this.device = options.device;
  }
}

/** A compiler that rejected what a renderer wrote; carries the source and the tool's log. */
export class CompileError extends Error {
  /** The name of the class. */
  override readonly name: string = "CompileError";
  /** The source that the compiler did not take. */
  readonly source: string;
  /** What the compiler said. */
  readonly log: string;

  /** The text is "Cannot", the action, the values at fault and the reason. */
  constructor(action: string, options: { readonly reason: string; readonly source?: string; readonly log?: string }) {
    super(`Cannot ${action}: ${options.reason}`);
    this.source = options.source ?? "";
    this.log = options.log ?? "";
  }
}

/** Something that a `jit` function cannot capture or replay. */
export class JitError extends Error {
  /** The name of the class. */
  override readonly name: string = "JitError";
  /** The text is "Cannot", the action, the values at fault and the reason. */
  constructor(action: string, options: { readonly reason: string }) {
    super(`Cannot ${action}: ${options.reason}`);
  }
}

/** A function that cannot become a program of its own. */
export class ExportError extends Error {
  /** The name of the class. */
  override readonly name: string = "ExportError";
  /** The text is "Cannot", the action and the reason. */
  constructor(action: string, options: { readonly reason: string; readonly cause?: unknown }) {
    super(`Cannot ${action}: ${options.reason}`, options.cause === undefined ? undefined : { cause: options.cause });
  }
}

/**
 * A lazy read of a buffer version that has been overwritten; names the line of the write and of the read. Realizing the
 * read before the write helps where that gives it memory: `reshape`, `detach` and the like share it, so they need `clone()`.
 */
export class StaleReadError extends Error {
  /** The name of the class. */
  override readonly name: string = "StaleReadError";
  /** Where the new values were written. */
  readonly writtenAt: string;
  /** Where the old values were asked for. */
  readonly readAt: string;

  /** The text is made of the fields. */
  constructor(options: {
    readonly action?: string;
    readonly writtenAt: string;
    readonly readAt: string;
    readonly shape?: readonly number[];
    readonly wayOut?: string;
  }) {
    const what = options.shape ? `a tensor of shape ${shapeText(options.shape)}` : "a tensor";
    const wayOut = options.wayOut ??
      "realize a clone() of the read before the write, or together with it by Tensor.realize([...])";
    super(
      `Cannot ${options.action ?? "read"} the earlier value of ${what} (read at ${options.readAt}): ` +
        `it was overwritten at ${options.writtenAt}; ${wayOut}`,
    );
    this.writtenAt = options.writtenAt;
    this.readAt = options.readAt;
  }
}

/** What stands for the line of disposal of a tensor that never had values: an argument while `vmap` or `jvp` traces. */
export const TRACED = "vmap or jvp";

/** A graph that needs a tensor which the user has disposed. */
export class DisposedError extends Error {
  /** The name of the class. */
  override readonly name: string = "DisposedError";
  /** Where it was disposed. */
  readonly disposedAt: string;

  /** The text is "Cannot", the action, the values at fault and the reason. */
  constructor(action: string, options: { readonly disposedAt: string }) {
    const reason = options.disposedAt === TRACED
      ? "it is, or reads, an argument of a function under vmap or jvp, which has no values, neither inside nor after it; " +
        "choose by where() inside, and read what vmap or jvp gives"
      : `the tensor was disposed at ${options.disposedAt}`;
    super(`Cannot ${action}: ${reason}`);
    this.disposedAt = options.disposedAt;
  }
}

/** Who holds a block of device memory. */
export interface MemoryHolder {
  /** Its bytes. */
  readonly nbytes: number;
  /** The dtype of its elements. */
  readonly dtype: { toString(): string };
  /** In elements. */
  readonly size: number;
  /** Of the tensor, where it is known. */
  readonly shape: readonly number[] | undefined;
  /** "tensor", or what else it is for. */
  readonly use: string;
  /** The user's line that made it, where recorded: under DEBUG_MEMORY, TRACEMETA or DEBUG >= 2. */
  readonly line: string | undefined;
}

/** Bytes for people: "1.5 GB", with powers of ten as the kernel lines have them. */
export function byteText(nbytes: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let n = nbytes, unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1000;
    unit++;
  }
  return `${unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(n >= 10 ? 1 : 2)} ${units[unit]}`;
}

/** Holders of one line, dtype, shape and use as one, with the sum of their bytes; largest first. */
function groupHolders(holders: readonly MemoryHolder[]): MemoryHolder[] {
  const groups = new Map<string, MemoryHolder[]>();
  for (const h of holders) {
    const key = [h.line, h.dtype, h.shape ?? h.size, h.use].join();
    const known = groups.get(key);
    if (known === undefined) groups.set(key, [h]);
    else known.push(h);
  }
  return [...groups.values()].map((list) => {
    const { nbytes, dtype, size, shape, use, line } = list[0], n = list.length;
    return { nbytes: nbytes * n, dtype, size, shape, use: n > 1 ? `${n} x ${use}` : use, line };
  }).sort((a, b) => b.nbytes - a.nbytes);
}

/** A table of holders, largest first: bytes, dtype, shape, what they are, and the line that made them. */
export function holderText(holders: readonly MemoryHolder[], limit: number): string {
  const rows = groupHolders(holders);
  const lines = rows.slice(0, limit).map((h) => {
    const shape = h.shape === undefined ? `${h.size} elements` : shapeText(h.shape);
    return `  ${byteText(h.nbytes).padStart(9)}  ${String(h.dtype).padEnd(8)} ${shape}  ${h.use}${
      h.line === undefined ? "" : ` made at ${h.line}`
    }`;
  });
  if (rows.length > limit) lines.push(`  ... and ${rows.length - limit} rows more`);
  return lines.join("\n");
}

/** How many rows an OutOfMemoryError has. */
const NAMED_HOLDERS = 10;

/** What an {@linkcode OutOfMemoryError} says; `used` and `count` of the device, and its largest holders. */
export interface OutOfMemoryErrorOptions {
  readonly device: string;
  readonly nbytes: number;
  readonly reason: string;
  readonly used?: number;
  readonly count?: number;
  readonly holders?: readonly MemoryHolder[];
}

function memoryAdvice(options: OutOfMemoryErrorOptions): string {
  const { used, count, holders = [] } = options;
  if (used === undefined || count === undefined) return "";
  const lines = holders.length > 0 && holders.every((h) => h.line === undefined)
    ? "; DEBUG_MEMORY=1 shows the line that made each"
    : "";
  const table = holders.length === 0 ? "" : `; the largest of them:\n${holderText(holders, NAMED_HOLDERS)}\n`;
  return `; ${byteText(used)} are held in ${count} blocks${table || "; "}` +
    "free tensors with `using`, dispose() or scope() around each step, or give a jit function its arguments with " +
    "{ donate: true }: inside one synchronous job nothing else frees them; " +
    `or await a read now and then, which collects what is unreachable; or use smaller batches${lines}`;
}

/** An allocation that the device refused, after all that was kept for reuse had been given back. */
export class OutOfMemoryError extends RangeError {
  /** The name of the class. */
  override readonly name: string = "OutOfMemoryError";
  /** The device at fault. */
  readonly device: string;
  /** How much was asked for. */
  readonly nbytes: number;
  /** Why, without the table. */
  readonly reason: string;
  /** Who holds memory of the device, largest first. */
  readonly holders: readonly MemoryHolder[];

  /** The text is made of the fields. */
  constructor(options: OutOfMemoryErrorOptions) {
    super(`Cannot allocate ${options.nbytes} bytes on ${options.device}: ${options.reason}${memoryAdvice(options)}`);
    this.device = options.device;
    this.nbytes = options.nbytes;
    this.reason = options.reason;
    this.holders = options.holders ?? [];
  }
}

/** An internal contradiction: a graph that the table of its stage does not allow. Please report it. */
export class SpecError extends Error {
  /** The name of the class. */
  override readonly name: string = "SpecError";
  /** The text is `what` and, below, `detail`: the printed nodes at fault. */
  constructor(what: string, detail = "") {
    super(detail ? `${what}:\n${detail}` : what);
  }
}

/** Items of a data set that could not be had: a worker that failed or ended, an item that no tensor can be made of. */
export class DataError extends Error {
  /** The name of the class. */
  override readonly name: string = "DataError";
  /** What was tried, as a verb and its object. */
  readonly action: string;

  /** The text is "Cannot", the action, the values at fault and the reason. */
  constructor(action: string, options: { readonly reason: string; readonly cause?: unknown }) {
    super(`Cannot ${action}: ${options.reason}`, options.cause === undefined ? undefined : { cause: options.cause });
    this.action = action;
  }
}

/** A file that does not follow its format; nothing of it was used. */
export class FormatError extends Error {
  /** The name of the class. */
  override readonly name: string = "FormatError";
  /** The file at fault. */
  readonly file: string;
  /** The text is "Cannot", the action, the values at fault and the reason. */
  constructor(action: string, options: { readonly file: string; readonly reason: string; readonly cause?: unknown }) {
    super(`Cannot ${action} ${options.file}: ${options.reason}`, { cause: options.cause });
    this.file = options.file;
  }
}

/** Writes that no order satisfies: two that follow the same version of one memory, or that need each other's result. */
export class CycleError extends Error {
  /** The name of the class. */
  override readonly name: string = "CycleError";
  /** Where each side was asked for. */
  readonly lines: readonly string[];

  /** The text names both sides. @param lines where each was asked for */
  constructor(lines: readonly string[]) {
    super(
      `Cannot order the assignments at ${listText(lines)}: each overwrites what the other needs; ` +
        `let one of them write to a .clone()`,
    );
    this.lines = lines;
  }
}
