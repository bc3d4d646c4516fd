/**
 * The JS device: runs linear programs in plain JavaScript, lane by lane. It is the oracle of the other devices (exact
 * dtypes, checked accesses, counted bytes and flops) and the host, where data given by the user lives.
 *
 * @module
 */
import type { Buffer } from "../../src/device/buffer.ts";
import type { Backend, Device } from "../../src/device/device.ts";
import { type Compiler, groupsOf, type Launch, LaunchGraph, type Program } from "../../src/device/program.ts";
import { CompileError, SpecError } from "../../src/helpers/errors.ts";
import { type Capabilities, type LinearProgram, type Renderer, SCALAR_CAPS } from "../../src/renderer/renderer.ts";
import type { TensorCore } from "../../src/renderer/tensor_core_table.ts";
import { argOf } from "../../src/uop/core/args.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { coresOf, localsOf, renderJs } from "./codegen.ts";
import { hostBackend, HostDevice, type HostPrograms, JsBlock } from "./js_host.ts";
import { type Meeting, runGroups, SharedWatch, type ThreadContext, worksTogether } from "./grid.ts";
import { interpretJs } from "./interpret.ts";
import { valueOf } from "./js_lanes.ts";
import * as RUNTIME from "./js_runtime.ts";
import type { Elements, Kernel } from "./js_runtime.ts";

/** What programs of the JS device have done since {@linkcode JsCounters.reset}. */
class JsCounters {
  /** Bytes loaded from and stored to buffers, once an access: gates that are false and kernel-local memory count nothing. */
  read = 0;
  written = 0;
  /** Floating-point operations: arithmetic, not comparisons, selects or casts. */
  flops = 0;
  launches = 0;

  reset(): void {
    this.read =
      this.written =
      this.flops =
      this.launches =
        0;
  }
}

/** Counters of all JS devices together. */
export const jsCounters: JsCounters = new JsCounters();

/** A program of the JS device. */
class JsProgram implements Program {
  /** @param run the compiled function; `locals` are kept between launches, with what they hold */
  constructor(
    readonly linear: LinearProgram,
    readonly source: string,
    readonly run: Kernel,
    readonly locals: readonly Elements[],
  ) {}
}

class JsRenderer implements Renderer {
  readonly name: string = "JS";
  constructor(readonly caps: Capabilities) {}
  render(program: LinearProgram): string {
    return renderJs(program);
  }
}

class JsCompiler implements Compiler {
  readonly isPortable: boolean = true;
  private readonly kernels = new Map<string, Kernel>();
  constructor(private readonly warp: number) {}
  compile(programs: readonly LinearProgram[]): Program[] {
    return programs.map((program) => {
      const source = renderJs(program);
      const key = worksTogether(program) ? `${source}\n${gridKey(program)}` : source;
      let kernel = this.kernels.get(key);
      if (kernel === undefined) {
        kernel = worksTogether(program) ? makeGroups(program, source, this.warp) : make(program, source);
        this.kernels.set(key, kernel);
      }
      const locals: Elements[] = [];
      for (const u of localsOf(program)) {
        const { id, size } = argOf(u, Ops.LOCAL), { dtype } = u;
        locals[id] = new JsBlock(size * dtype.itemsize).view(dtype, 0, size * dtype.count);
      }
      return new JsProgram(program, source, kernel, locals);
    });
  }
}

/** Whether code can be made of text: not in a page whose policy lacks 'unsafe-eval', until a kernel finds out. */
let canGenerate = true;

/** The function with this head and the body `source`. */
function compileText<T>({ name }: LinearProgram, head: string, source: string): T {
  const unpack = `const { ${Object.keys(RUNTIME).join(", ")} } = rt;`;
  try {
    return (new Function("rt", `${unpack}\nreturn ${head} {\n${source}\n};`) as (rt: typeof RUNTIME) => T)(RUNTIME);
  } catch (error) {
    if (error instanceof EvalError) canGenerate = false;
    throw new CompileError(`compile kernel ${name} for JS`, { reason: String(error), source });
  }
}

/** The function of a kernel: compiled, or interpreted where the page forbids code from text. */
function make(program: LinearProgram, source: string): Kernel {
  if (!canGenerate) return interpretJs(program);
  try {
    return compileText(program, "(bufs, vars, begin, end, locals, count) =>", source);
  } catch (error) {
    if (canGenerate) throw error;
    return interpretJs(program);
  }
}

/** What the function of a program with groups closes over besides its source. */
function gridKey(program: LinearProgram): string {
  const { grid } = program, shared = localsOf(program).map((u) => String(u.arg));
  return `${grid?.size} ${grid?.groups.map((g) => g.op === Ops.CONST ? g.value : "?")} ${shared.join()}`;
}

type Thread = (
  bufs: readonly Elements[],
  vars: readonly (number | bigint)[],
  locals: readonly Elements[],
  count: { read: number; written: number; flops: number },
  watches: readonly SharedWatch[],
  cores: readonly TensorCore[],
  group: readonly number[],
  thread: readonly number[],
  me: ThreadContext,
) => Generator<Meeting, void, void>;

/** A kernel whose threads work together, group by group. */
function makeGroups(program: LinearProgram, source: string, warp: number): Kernel {
  const head = "function* (bufs, vars, locals, count, watches, cores, group, thread, me)";
  const thread = compileText<Thread>(program, head, source);
  const cores = coresOf(program);
  const watches: SharedWatch[] = [];
  for (const u of localsOf(program)) {
    const { id, size, scope } = argOf(u, Ops.LOCAL);
    if (scope === "shared") watches[id] = new SharedWatch(`local${id}`, size * u.dtype.count);
  }
  return (bufs, vars, _begin, _end, locals, count) => {
    runGroups(
      program,
      warp,
      groupsOf(program, vars),
      (group, lidx, me) => thread(bufs, vars, locals, count, watches, cores, group, lidx, me),
      () => watches.forEach((w) => w.reset()),
    );
  };
}

function launch({ program, buffers, vars }: Launch): void {
  const { linear, run, locals } = program as JsProgram;
  const writeBack: [Elements, Buffer][] = [];
  const views: Elements[] = [];
  for (const p of linear.params) {
    if (p === undefined) continue;
    const buffer = buffers[p.slot], view = (buffer.memory as JsBlock).view(p.dtype, buffer.offset, p.size);
    views[p.slot] = view;
    if (p.writes && buffer.offset % p.dtype.itemsize !== 0) writeBack.push([view, buffer]);
  }
  const values = vars.map((v, i) => valueOf(linear.vars[i].dtype, v));
  const count = { read: 0, written: 0, flops: 0 };
  try {
    run(views, values, 0, linear.threads, locals, count);
  } catch (error) {
    if (!(error instanceof SpecError)) throw error;
    throw new SpecError(`Kernel ${linear.name} is wrong`, error.message);
  }
  for (const [view, buffer] of writeBack) {
    buffer.copyIn(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
  }
  jsCounters.read += count.read;
  jsCounters.written += count.written;
  jsCounters.flops += count.flops;
  jsCounters.launches++;
}

class JsGraph extends LaunchGraph {
  run(): void {
    this.launches.forEach(launch);
  }
}

/** What runs programs of the host. */
export const jsPrograms: HostPrograms = {
  caps: SCALAR_CAPS,
  renderer: (caps) => new JsRenderer(caps),
  compiler: (warp) => new JsCompiler(warp),
  run: (launches) => launches.forEach(launch),
  graph: (launches) => new JsGraph(launches),
};

/** A JS device with other capabilities than a scalar machine's: to run what codegen makes for vectors or grids. */
export function makeJsDevice(caps: Partial<Capabilities> = {}, name = "JS"): Device {
  return new HostDevice(name, caps, () => jsPrograms);
}

/** The JS backend: always there, never the default. */
export const jsBackend: Backend = hostBackend(() => jsPrograms);
