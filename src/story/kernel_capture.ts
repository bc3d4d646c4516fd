/**
 * Kernels of a program kept in a file, CAPTURE_KERNELS=1, to be compiled again by another version of the compiler and
 * compared. In: what is lowered and compiled while the program runs; out: for each kernel its device with what that can do,
 * settings, AST, opts and source. The ASTs are one graph, in which what they share is there once.
 *
 * @module
 */
import { getDevice } from "../device/device.ts";
import type { Program } from "../device/program.ts";
import { DType } from "../dtype/dtype.ts";
import { kernelGraph, kernelsOfGraph } from "../engine/lowered/kernel_data.ts";
import { envNumber } from "../helpers/env.ts";
import { FormatError } from "../helpers/errors.ts";
import { listen } from "../helpers/spans.ts";
import { COMMON_DTYPES, type LinearProgram, type Renderer } from "../renderer/renderer.ts";
import { TensorCore } from "../renderer/tensor_core_table.ts";
import { opName } from "../uop/core/ops.ts";
import { printUOp } from "../uop/core/print.ts";
import type { Work } from "../uop/core/recording.ts";
import type { UOp } from "../uop/core/uop.ts";
import type { GraphData } from "../uop/graph/graph_data.ts";

/** Context variables that change what code generation makes of an AST. */
const SETTINGS = ["NOOPT", "ALLOW_TF32"] as const;

/** Those of {@linkcode SETTINGS} that were not 0. */
export type KernelSettings = Readonly<Partial<Record<(typeof SETTINGS)[number], number>>>;

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
  /** The AST itself; absent where it could not be kept, as with a carrier of the program's own. */
  readonly root?: UOp;
  /** What was set while it was lowered; nothing where absent. */
  readonly settings?: KernelSettings;
}

/** What kernels of a device are made by. */
export interface CapturedDevice {
  /** The name of its renderer. */
  readonly language: string;
  /** What it can do ({@linkcode capsData}). */
  readonly caps: Readonly<Record<string, unknown>>;
}

/** What a file of captured kernels has. */
export interface KernelCapture {
  /** By name. */
  readonly devices: Readonly<Record<string, CapturedDevice>>;
  /** In the order in which they were compiled; equal ones are one. */
  readonly kernels: readonly CapturedKernel[];
}

/** What the format is called, and its version: files of another are refused. */
const FORMAT = "dinograd kernels", VERSION = 2;

/** What a device can do as plain data: equal where the same AST gives the same kernel. */
export function capsData({ caps }: Renderer): Record<string, unknown> {
  const plain = (key: string, value: unknown): unknown => {
    if (key === "nativeOps" || key === "roundedOps") return (value as readonly number[]).map((op) => opName[op]);
    if (value instanceof DType || value instanceof TensorCore) return value.toString();
    return typeof value === "function" ? COMMON_DTYPES.map((d) => [d.name, caps.vectorLanes(d)]) : value;
  };
  return JSON.parse(JSON.stringify(caps, plain));
}

/** A kernel while it is captured. */
interface Captured extends Omit<CapturedKernel, "ast"> {
  readonly settings: KernelSettings;
}

/** Keeps each kernel from now on; equal ones once. What is returned gives them as the text of a file. */
export function captureKernels(): () => string {
  const asts = new WeakMap<LinearProgram, UOp>(), kernels = new Map<string, Captured>();
  const devices: Record<string, CapturedDevice> = {};
  listen(({ kind, device = "", subject }) => {
    if (kind === "lower") {
      const { made, ast } = subject as Work;
      if (made !== undefined && ast !== undefined) asts.set(made as LinearProgram, ast);
    } else if (kind === "compile") {
      const settings: KernelSettings = Object.fromEntries(
        SETTINGS.map((s) => [s, envNumber(s)]).filter(([, value]) => value !== 0),
      );
      for (const { linear, source } of subject as readonly Program[]) {
        const { name, opts = "" } = linear, root = asts.get(linear);
        const ast = root === undefined ? "" : printUOp(root, Infinity);
        kernels.set(`${device}\n${ast}\n${opts}`, { device, name, opts, source, root, settings });
      }
      const { renderer } = getDevice(device);
      devices[device] ??= { language: renderer.name, caps: capsData(renderer) };
    }
  });
  return () => formatKernels(devices, [...kernels.values()]);
}

/** The text of a file: ASTs that are no data stand as text. */
function formatKernels(devices: KernelCapture["devices"], kernels: readonly Captured[]): string {
  const roots: UOp[] = [];
  const rows = kernels.map(({ root, ...kernel }) => {
    if (root === undefined) return { ...kernel, ast: "" };
    return isData(root) ? { ...kernel, root: roots.push(root) - 1 } : { ...kernel, ast: printUOp(root, Infinity) };
  });
  const lines = (list: readonly unknown[]): string => list.map((x) => `  ${JSON.stringify(x)}`).join(",\n");
  const head = JSON.stringify({ format: FORMAT, version: VERSION, devices }).slice(0, -1);
  return `${head},\n "graph": ${JSON.stringify(kernelGraph(roots))},\n "kernels": [\n${lines(rows)}\n]}\n`;
}

function isData(root: UOp): boolean {
  try {
    kernelGraph([root]);
    return true;
  } catch (error) {
    if (error instanceof FormatError) return false;
    throw error;
  }
}

/** A kernel as the file has it: its AST as the number of a root, or as text. */
type KernelRow = Omit<CapturedKernel, "root" | "ast"> & { readonly root?: number; readonly ast?: string };

/** What a file has. @throws {FormatError} where it is no capture, or one of another version */
export function parseKernels(text: string, file: string): KernelCapture {
  const refuse = (reason: string): never => {
    throw new FormatError("read kernels", { file, reason });
  };
  let data: {
    readonly format?: unknown;
    readonly version?: unknown;
    readonly devices?: KernelCapture["devices"];
    readonly graph?: GraphData;
    readonly kernels?: readonly KernelRow[];
  } | null;
  try {
    data = JSON.parse(text);
  } catch (error) {
    return refuse(`it is no JSON: ${(error as Error).message}`);
  }
  if (data?.format !== FORMAT || !Array.isArray(data.kernels)) {
    return refuse("it has no kernels; CAPTURE_KERNELS=name.json makes a file");
  }
  if (data.version !== VERSION) {
    return refuse(`it is of version ${data.version}, and this is version ${VERSION}: capture it again`);
  }
  const roots = kernelsOfGraph(data.graph!), { devices = {}, kernels } = data;
  return {
    devices,
    kernels: kernels.map(({ root, ast = "", ...kernel }: KernelRow) => (
      root === undefined ? { ...kernel, ast } : { ...kernel, root: roots[root], ast: printUOp(roots[root], Infinity) }
    )),
  };
}
