/**
 * The programs of the snapshot: golden cases, the workloads of the benches, and models; and what a writer makes for one.
 *
 * @module
 */
import { PROGRAMS } from "../../bench/cold_start.ts";
import { type Graph, GRAPHS, hollow } from "../../bench/compile_bench.ts";
import { Gpt2 } from "../../bench/models.ts";
import { WORKLOADS } from "../../bench/workloads.ts";
import { context, Device, nn, state, Tensor } from "../../mod.ts";
import { CONTEXT_VARS, type ContextValues } from "../../src/helpers/env.ts";
import { build, cases as golden } from "../golden/golden.ts";
import { hashOf, type Observed, openObserving, WRITERS } from "./snapshot_writers.ts";

/** A program of the snapshot: runs on the default device. */
type SnapshotProgram = () => unknown;

/** A forward pass of GPT-2 alone. */
function gpt2Forward(): Graph {
  const model = new Gpt2();
  hollow(model);
  return {
    inputs: () => [Tensor.empty([1, 64], { dtype: "int32" }).realize()],
    build: ([tokens]) => [model.call(tokens)],
  };
}

function graph(make: () => Graph): SnapshotProgram {
  return () => {
    const { inputs, build } = make();
    Tensor.realize(build(inputs()));
  };
}

/** A training step of a program of bench/cold_start.ts. */
function trainingStep(name: string): SnapshotProgram {
  return async () => {
    const model = PROGRAMS[name].model(), [x, y] = await PROGRAMS[name].batch();
    hollow(model);
    const optimizer = new nn.optim.Adam(state.getParameters(model), { lr: 1e-3 });
    Tensor.train(() => {
      optimizer.zeroGrad();
      model.call(x).sparseCategoricalCrossentropy(y).backward();
      optimizer.step();
    });
  };
}

/** Runs a workload as it is, and once more to be captured. */
function workload(name: string): SnapshotProgram {
  return () => {
    const { run } = WORKLOADS[name](Device.default);
    run().dispose();
    run().dispose();
  };
}

function goldenCase(c: typeof golden[number]): SnapshotProgram {
  return async () => {
    const { outputs, grads } = await build(c, Device.default);
    Tensor.realize([...outputs, ...grads].filter((t) => t !== undefined));
  };
}

/** All programs by name, those first that take long. */
export const SNAPSHOT_PROGRAMS: ReadonlyMap<string, SnapshotProgram> = new Map<string, SnapshotProgram>([
  ["model/gru step", trainingStep("gru")],
  ["model/gpt2 backward", graph(GRAPHS.gpt2)],
  ["model/gpt2 forward", graph(gpt2Forward)],
  ["model/resnet18 step", trainingStep("resnet18")],
  ["model/resnet50 forward", graph(GRAPHS.resnet50)],
  ["model/mnist step", graph(GRAPHS.mnistStep)],
  ...Object.keys(WORKLOADS).map((name) => [`bench/${name}`, workload(name)] as const),
  ...golden.map((c) => [`golden/${c.name}`, goldenCase(c)] as const),
]);

/** Characters that are kept of the hash of a kernel, which tell which one it was, and of a program's, which tells all. */
const KERNEL_CHARACTERS = 3, WHOLE_CHARACTERS = 6;

/** What a writer made for a program, short enough to be kept. */
export interface Made {
  /** Hash of all: kernels, the order of launches, their buffers and values, bytes, error. */
  readonly whole: string;
  /** Hashes of the kernels, in the order of launches. */
  readonly kernels: readonly string[];
  /** Bytes planned for intermediates. */
  readonly planned: number;
  /** The class of the error that it ended with. */
  readonly error: string;
}

/** {@linkcode Made} of a run of the present code, with what is known of it beside. */
export interface MadeNow extends Made {
  /** Names of the kernels, in the order of launches. */
  readonly names: readonly string[];
}

/** Every context variable as it is by default: what the environment says is no part of the snapshot. */
const DEFAULTS: ContextValues = Object.fromEntries(
  Object.entries(CONTEXT_VARS).filter(([name, v]) => name !== "DEV" && !("early" in v)).map(([n, { value }]) => [
    n,
    value,
  ]),
);

async function observe(writer: string, name: string): Promise<{ seen: Observed; error: string; message: string }> {
  const program = SNAPSHOT_PROGRAMS.get(name);
  if (program === undefined) throw new Error(`no program ${name}`);
  const device = openObserving(writer);
  Device.default = device.name;
  let error = "", message = "";
  try {
    await context({ ...DEFAULTS, ALLOW_TF32: 0, PROGRESS: 0 }, async () => {
      Tensor.manualSeed(0);
      await program();
    });
  } catch (thrown) {
    error = (thrown as Error).constructor.name;
    message = (thrown as Error).message;
  }
  return { seen: device, error, message };
}

/** What a writer makes for a program now. Nothing that ran before in this process changes it. */
export async function make(writer: string, name: string): Promise<MadeNow> {
  const { seen: { kernels, launches, planned }, error } = await observe(writer, name);
  const whole = [...kernels.map((k) => k.hash), ...launches, String(planned), error].join("\n");
  return {
    whole: hashOf(whole, WHOLE_CHARACTERS),
    kernels: kernels.map((k) => k.hash.slice(0, KERNEL_CHARACTERS)),
    names: kernels.map((k) => k.name),
    planned,
    error,
  };
}

/** The same as text: each kernel once, then the launches. */
export async function show(writer: string, name: string): Promise<string> {
  const { seen: { kernels, launches, planned }, error, message } = await observe(writer, name);
  const unique = [...new Map(kernels.map((k) => [k.hash, k])).values()], { text } = WRITERS[writer];
  const parts = unique.map((k, i) => `=== ${k.name}#${i}: ${k.size}\n${text(k.program)}`);
  const end = error === "" ? [] : [`=== ${error}: ${message}`];
  return [...parts, `=== ${launches.length} launches, ${planned} bytes planned`, ...launches, ...end, ""].join("\n");
}

/** What the data says of a program for a writer. */
export function encode({ whole, kernels, planned, error }: Made): string {
  return [whole + kernels.join(""), planned === 0 ? "" : String(planned), error].join(" ").trimEnd();
}

/** {@linkcode encode} read back. */
export function decode(cell: string): Made {
  const [hashes, planned = "", error = ""] = cell.split(" "), kernels: string[] = [];
  for (let i = WHOLE_CHARACTERS; i < hashes.length; i += KERNEL_CHARACTERS) {
    kernels.push(hashes.slice(i, i + KERNEL_CHARACTERS));
  }
  return { whole: hashes.slice(0, WHOLE_CHARACTERS), kernels, planned: Number(planned), error };
}
