/**
 * Programs of the WEBGPU device: pipelines, one for each source, and the layouts of their bindings. A rejected shader is
 * told by what reads its results.
 *
 * @module
 */
import type { Compiler, Program } from "../../src/device/program.ts";
import { CompileError } from "../../src/helpers/errors.ts";
import { inWindows, type Windows } from "../../src/renderer/binding_windows.ts";
import { uniformWords } from "../../src/renderer/c/wgsl.ts";
import type { LinearProgram, Renderer } from "../../src/renderer/renderer.ts";
import type { GpuContext, ScopeError } from "./webgpu_context.ts";
import { BINDING_ALIGN } from "./webgpu_memory.ts";

const COMPUTE = 0x4;

/** A compiled source. */
class Pipeline {
  /** Why it cannot run, once that is known. */
  error: Error | undefined;
  constructor(readonly pipeline: GPUComputePipeline, readonly layout: GPUBindGroupLayout) {}
}

/** A program: its source, and where its scalar arguments lie in the uniform buffer. */
export class WebGpuProgram implements Program {
  readonly uniforms: { readonly at: readonly number[]; readonly words: number };
  /** @param windows where its buffers are larger than a binding: what is rendered and bound in place of `linear` */
  constructor(
    readonly linear: LinearProgram,
    readonly windows: Windows | undefined,
    readonly source: string,
    public pipeline: Pipeline,
    public owner: WebGpuCompiler,
  ) {
    this.uniforms = uniformWords(this.bound);
  }
  /** What is bound: the program, or it in windows. */
  get bound(): LinearProgram {
    return this.windows?.program ?? this.linear;
  }
}

/** Makes pipelines; keeps them by source. */
export class WebGpuCompiler implements Compiler {
  private readonly pipelines = new Map<string, Pipeline>();
  private readonly layouts = new Map<string, GPUBindGroupLayout>();
  /** @param maxBinding bytes that one binding holds */
  constructor(
    private readonly context: GpuContext,
    private readonly renderer: Renderer,
    private readonly maxBinding: number,
  ) {}

  /** All sources compiled so far. */
  get sources(): string[] {
    return [...this.pipelines.keys()];
  }

  compile(programs: readonly LinearProgram[]): Program[] {
    const { maxBinding, renderer, context: { name } } = this;
    const limits = { device: name, maxBytes: maxBinding, align: BINDING_ALIGN, maxBuffers: renderer.caps.maxBuffers };
    return programs.map((linear) => {
      const windows = inWindows(linear, limits);
      const bound = windows?.program ?? linear;
      const source = renderer.render(bound) as string;
      return new WebGpuProgram(linear, windows, source, this.pipelineOf(bound, source), this);
    });
  }

  /** The pipeline of a program, made again where another device compiled it: that was lost. */
  adopt(program: WebGpuProgram): Pipeline {
    if (program.owner !== this) {
      program.pipeline = this.pipelineOf(program.bound, program.source);
      program.owner = this;
    }
    return program.pipeline;
  }

  private pipelineOf(linear: LinearProgram, source: string): Pipeline {
    const known = this.pipelines.get(source);
    if (known !== undefined) return known;
    const { context } = this, { gpu } = context;
    context.check(`compile kernel ${linear.name}`);
    let module: GPUShaderModule | undefined;
    const made: Pipeline = context.scoped(() => {
      const layout = this.layoutOf(linear);
      module = gpu.createShaderModule({ code: source, label: linear.name });
      const pipeline = gpu.createComputePipeline({
        label: linear.name,
        layout: gpu.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module, entryPoint: linear.text === undefined ? "main" : linear.name },
      });
      return new Pipeline(pipeline, layout);
    }, async (error) => {
      if (error === undefined) return;
      made.error = context.isLost
        ? context.lostError(`compile kernel ${linear.name}`)
        : await rejected(linear, source, module, error);
      context.fail(made.error);
    });
    this.pipelines.set(source, made);
    return made;
  }

  /** The layout of a program's bindings: buffers by slot, then its scalar arguments. */
  private layoutOf(linear: LinearProgram): GPUBindGroupLayout {
    const { words } = uniformWords(linear);
    // a slot that the kernel does not use is a hole in `params`, which `map` would skip
    const key = Array.from(linear.params, (p) => p === undefined ? "-" : p.writes ? "w" : "r").join("") +
      (words > 0 ? "u" : "");
    let layout = this.layouts.get(key);
    if (layout === undefined) {
      const entries: GPUBindGroupLayoutEntry[] = [];
      for (const p of linear.params) {
        if (p === undefined) continue;
        const type = p.writes ? "storage" as const : "read-only-storage" as const;
        entries.push({ binding: p.slot, visibility: COMPUTE, buffer: { type } });
      }
      if (words > 0) entries.push({ binding: linear.params.length, visibility: COMPUTE, buffer: { type: "uniform" } });
      this.layouts.set(key, layout = this.context.gpu.createBindGroupLayout({ entries }));
    }
    return layout;
  }
}

/** The error of a source that was rejected: the compiler's first complaint, with its line. */
async function rejected(
  linear: LinearProgram,
  source: string,
  module: GPUShaderModule | undefined,
  { message }: ScopeError,
): Promise<CompileError> {
  let first = "";
  try {
    const { messages } = await module!.getCompilationInfo();
    const m = messages.find((x) => x.type === "error");
    if (m !== undefined) first = `line ${m.lineNum}: ${m.message.trim().split("\n")[0]}`;
  } catch { /* an engine that has none; the message must do */ }
  const reason = first || message.trim().split("\n").slice(0, 3).join(" ");
  return new CompileError(`compile kernel ${linear.name} for WEBGPU`, { reason, source, log: message });
}
