/**
 * The renderer: what WebAssembly can do here, and the function of one linear program.
 *
 * @module
 */
import {
  type Capabilities,
  COMMON_DTYPES,
  type LinearProgram,
  type Renderer,
  SCALAR_CAPS,
} from "../../src/renderer/renderer.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { emit, type Emitted } from "./emit.ts";
import { encodeModule, type FuncBody, I32, type ImportItem } from "./encoder.ts";
import { type Features, features } from "./features.ts";
import { Node } from "./wasm_ir.ts";
import { lower } from "./lower.ts";
import { KERNEL_TYPE } from "./wasm_runtime.ts";

/** A rendered kernel, not yet in a module. */
export interface RenderedKernel extends Emitted {
  readonly iterations: number;
  readonly parallel: boolean;
  readonly setup: boolean;
  readonly scratch: number;
}

/** Renders linear programs for this engine. `memoryMaximum` in pages, as the memory that modules will import. */
export class WasmRenderer implements Renderer {
  readonly name = "WASM";
  readonly caps: Capabilities;

  constructor(
    threads: number,
    readonly engine: Features = features(),
    readonly memoryMaximum: number = 65536,
    isShort: boolean = false,
  ) {
    const { simd, relaxed } = engine;
    this.caps = {
      ...SCALAR_CAPS,
      vectorBytes: simd ? 16 : 0,
      registers: 16,
      threads,
      l1: 32768,
      l2: 1 << 20,
      maxBuffers: 4096,
      hasMulAcc: relaxed,
      hasDots: simd,
      hasGrid: false,
      selectWork: 5, // test, move, and three moves between registers of floats and others
      nativeOps: [Ops.SQRT, Ops.TRUNC],
      computeDTypes: COMMON_DTYPES,
      storageDTypes: COMMON_DTYPES,
      vectorLanes: (d) => simd && (d.bits === 32 || d.isBool) ? 4 : 1,
      ...isShort ? { isShort } : {},
    };
  }

  /** The function of one kernel; with `listing`, also as text. @throws {CompileError} */
  kernel(program: LinearProgram, listing = false): RenderedKernel {
    const lowered = lower(program, this.engine, (b) => {
      return b.shared("record", 0, () => new Node("instr", "global.get", I32, [], 0, 0));
    });
    const { iterations, parallel, setup, scratch } = lowered;
    const emitted = emit(lowered, listing);
    const head = `(func $${program.name} (param $bufs i32) (param $vars i32) (param $begin i32) (param $end i32)`;
    return { ...emitted, text: listing ? `${head}\n${emitted.text}\n)` : "", iterations, parallel, setup, scratch };
  }

  /** One module of these kernels, which fills the table from `tableBase`. */
  module(kernels: readonly Emitted[], tableBase: number): Uint8Array {
    const imports: ImportItem[] = [
      { kind: "memory", name: "m", maximum: this.memoryMaximum, shared: this.engine.threads },
      { kind: "table", name: "t" },
      { kind: "global", name: "r", type: I32 },
    ];
    const funcs: FuncBody[] = kernels.map(({ locals, code }) => ({ type: 0, locals, code }));
    return encodeModule({ types: [KERNEL_TYPE], imports, funcs, exports: [], tableBase });
  }

  /** A module of one kernel. */
  render(program: LinearProgram): Uint8Array {
    return this.module([this.kernel(program)], 0);
  }
}
