/**
 * Kernels of a program kept in a file, CAPTURE_KERNELS=1, to be compared with those that another version of the compiler
 * makes. In: what is lowered and compiled while the program runs; out: for each kernel its device, AST, opts and source.
 *
 * @module
 */
import type { Program } from "../device/program.ts";
import { FormatError } from "../helpers/errors.ts";
import { listen } from "../helpers/spans.ts";
import type { LinearProgram } from "../renderer/renderer.ts";
import { printUOp } from "../uop/core/print.ts";
import type { Work } from "../uop/core/recording.ts";
import type { UOp } from "../uop/core/uop.ts";

/** A kernel of a capture. */
export interface CapturedKernel {
  /** Where it was compiled for. */
  readonly device: string;
  /** The name that it was given. */
  readonly name: string;
  /** Its AST as text: what the scheduler asked for. */
  readonly ast: string;
  /** The opts that were applied. */
  readonly opts: string;
  /** What was rendered. */
  readonly source: string;
}

/** What the format is called, and its version: files of another are refused. */
const FORMAT = "dinograd kernels", VERSION = 1;

/** Keeps each kernel from now on; equal ones once. What is returned gives them as the text of a file. */
export function captureKernels(): () => string {
  const asts = new WeakMap<LinearProgram, UOp>(), kernels = new Map<string, CapturedKernel>();
  listen(({ kind, device = "", subject }) => {
    if (kind === "lower") {
      const { made, ast } = subject as Work;
      if (made !== undefined && ast !== undefined) asts.set(made as LinearProgram, ast);
    } else if (kind === "compile") {
      for (const { linear, source } of subject as readonly Program[]) {
        const { name, opts = "" } = linear, root = asts.get(linear);
        const ast = root === undefined ? "" : printUOp(root, Infinity);
        kernels.set(`${device}\n${ast}\n${opts}`, { device, name, ast, opts, source });
      }
    }
  });
  return () => `${JSON.stringify({ format: FORMAT, version: VERSION, kernels: [...kernels.values()] }, null, 1)}\n`;
}

/** The kernels of a file. @throws {FormatError} where it is no capture, or one of another version */
export function parseKernels(text: string, file: string): readonly CapturedKernel[] {
  let data:
    | { readonly format?: unknown; readonly version?: unknown; readonly kernels?: readonly CapturedKernel[] }
    | null;
  try {
    data = JSON.parse(text);
  } catch (error) {
    throw new FormatError("read kernels", { file, reason: `it is no JSON: ${(error as Error).message}` });
  }
  if (data?.format !== FORMAT || !Array.isArray(data.kernels)) {
    throw new FormatError("read kernels", {
      file,
      reason: "it has no kernels; CAPTURE_KERNELS=name.json makes a file",
    });
  }
  if (data.version !== VERSION) {
    const reason = `it is of version ${data.version}, and this is version ${VERSION}: capture it again`;
    throw new FormatError("read kernels", { file, reason });
  }
  return data.kernels;
}
