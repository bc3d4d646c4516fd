/**
 * The error classes of dinograd. Each extends the nearest builtin, carries fields, and its text reads
 * "Cannot <action> <offending values>: <reason>", without a period at the end.
 *
 * @module
 */

/** `[4, 3]` for a shape, `scalar []` never: a rank-0 shape prints as `[]`. */
export function shapeText(shape: readonly unknown[]): string {
  return `[${shape.join(", ")}]`;
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
  override readonly name: string = "ShapeError";
  readonly action: string;
  readonly shapes: readonly (readonly unknown[])[];
  readonly axis: number | undefined;

  constructor(action: string, options: ShapeErrorOptions) {
    const shapes = options.shapes ?? [];
    const noun = shapes.length === 0
      ? ""
      : ` ${shapes.length > 1 ? "shapes" : "shape"} ${listText(shapes.map(shapeText))}`;
    super(`Cannot ${action}${noun}: ${options.reason}`);
    this.action = action;
    this.shapes = shapes;
    this.axis = options.axis;
  }
}

/** An index outside an axis, or of a kind that cannot index. Named as in Python; shadows no builtin of JavaScript. */
export class IndexError extends RangeError {
  override readonly name: string = "IndexError";
  readonly action: string;
  readonly axis: number | undefined;

  constructor(action: string, options: { readonly axis?: number; readonly reason: string }) {
    super(`Cannot ${action}: ${options.reason}`);
    this.action = action;
    this.axis = options.axis;
  }
}

/** A data type that an operation does not take. */
export class DTypeError extends TypeError {
  override readonly name: string = "DTypeError";
  readonly action: string;
  readonly dtypes: readonly string[];

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
  override readonly name: string = "ArgumentError";
  readonly action: string;

  constructor(action: string, options: { readonly reason: string }) {
    super(`Cannot ${action}: ${options.reason}`);
    this.action = action;
  }
}

/** A device that cannot open, lacks something, or was lost. */
export class DeviceError extends Error {
  override readonly name: string = "DeviceError";
  readonly device: string;

  constructor(action: string, options: { readonly device: string; readonly reason: string; readonly cause?: unknown }) {
    super(`Cannot ${action}: ${options.reason}`, options.cause === undefined ? undefined : { cause: options.cause });
    this.device = options.device;
  }
}

/** A compiler that rejected what a renderer wrote; carries the source and the tool's log. */
export class CompileError extends Error {
  override readonly name: string = "CompileError";
  readonly source: string;
  readonly log: string;

  constructor(action: string, options: { readonly reason: string; readonly source?: string; readonly log?: string }) {
    super(`Cannot ${action}: ${options.reason}`);
    this.source = options.source ?? "";
    this.log = options.log ?? "";
  }
}

/** Something that a `jit` function cannot capture or replay. */
export class JitError extends Error {
  override readonly name: string = "JitError";
  constructor(action: string, options: { readonly reason: string }) {
    super(`Cannot ${action}: ${options.reason}`);
  }
}

/** A lazy read of a buffer version that has been overwritten; names the line of the write and of the read. */
export class StaleReadError extends Error {
  override readonly name: string = "StaleReadError";
  readonly writtenAt: string;
  readonly readAt: string;

  constructor(options: { readonly writtenAt: string; readonly readAt: string; readonly shape?: readonly number[] }) {
    const what = options.shape ? `a tensor of shape ${shapeText(options.shape)}` : "a tensor";
    super(
      `Cannot read the earlier value of ${what} (read at ${options.readAt}): it was overwritten at ${options.writtenAt}; ` +
        `realize the read before the write, or realize both together with Tensor.realize([...])`,
    );
    this.writtenAt = options.writtenAt;
    this.readAt = options.readAt;
  }
}

/** A graph that needs a tensor which the user has disposed. */
export class DisposedError extends Error {
  override readonly name: string = "DisposedError";
  readonly disposedAt: string;

  constructor(action: string, options: { readonly disposedAt: string }) {
    super(`Cannot ${action}: the tensor was disposed at ${options.disposedAt}`);
    this.disposedAt = options.disposedAt;
  }
}

/** An allocation that the device refused. */
export class OutOfMemoryError extends RangeError {
  override readonly name: string = "OutOfMemoryError";
  readonly device: string;
  readonly nbytes: number;

  constructor(options: { readonly device: string; readonly nbytes: number; readonly reason: string }) {
    super(`Cannot allocate ${options.nbytes} bytes on ${options.device}: ${options.reason}`);
    this.device = options.device;
    this.nbytes = options.nbytes;
  }
}

/** An internal contradiction: a graph that the table of its stage does not allow. Please report it. */
export class SpecError extends Error {
  override readonly name: string = "SpecError";
  constructor(what: string, detail = "") {
    super(detail ? `${what}:\n${detail}` : what);
  }
}

/** A file that does not follow its format; nothing of it was used. */
export class FormatError extends Error {
  override readonly name: string = "FormatError";
  readonly file: string;
  constructor(action: string, options: { readonly file: string; readonly reason: string }) {
    super(`Cannot ${action} ${options.file}: ${options.reason}`);
    this.file = options.file;
  }
}

/** Assignments that each need the other's old value: no order of kernels satisfies both. Names both lines. */
export class CycleError extends Error {
  override readonly name: string = "CycleError";
  readonly lines: readonly string[];

  constructor(lines: readonly string[]) {
    super(
      `Cannot order the assignments at ${listText(lines)}: each reads what the other overwrites; ` +
        `make a copy of one operand with .contiguous() first`,
    );
    this.lines = lines;
  }
}
