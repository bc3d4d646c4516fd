/**
 * What a user is told: class, fields and text of every kind of mistake, at the call that made it where that is known.
 * The texts read action, offending values, colon, reason, without a period at the end. The mistakes are in tables under
 * fixtures; here are those that need a compiler or a process of their own.
 */
import assert from "node:assert/strict";
import {
  ArgumentError,
  CompileError,
  context,
  Device,
  DTypeError,
  IndexError,
  OutOfMemoryError,
  ShapeError,
  Tensor,
} from "../mod.ts";
import { clangBackend } from "../backends/clang/clang.ts";
import { dtypes } from "../src/dtype/dtype.ts";
import * as classes from "../src/helpers/errors.ts";
import { programOf } from "../src/renderer/renderer.ts";
import { ACTIVATIONS, PARAMETRIC } from "../src/tensor/ops/activation.ts";
import { CASTS, UNARY } from "../src/tensor/ops/elementwise.ts";
import { FUNCTIONS } from "../src/tensor/ops/functions.ts";
import { HIGHER_FUNCTIONS } from "../src/tensor/ops/higher_functions.ts";
import { Ops } from "../src/uop/core/ops.ts";
import { uop } from "../src/uop/core/uop.ts";
import { loose } from "./fixtures/errors/errors_common.ts";
import { MORE_ERRORS } from "./fixtures/errors/errors_more.ts";
import { OP_ERRORS } from "./fixtures/errors/errors_ops.ts";
import { MORE_OP_ERRORS } from "./fixtures/errors/errors_ops_more.ts";
import { SYSTEM_ERRORS } from "./fixtures/errors/errors_system.ts";
import { TENSOR_ERRORS } from "./fixtures/errors/errors_tensor.ts";
import { addKernel } from "./fixtures/kernels.ts";
import { PARITY } from "./pages/parity.ts";
import { runDeno } from "./system/subprocess.ts";

const GROUPS = { ...TENSOR_ERRORS, ...OP_ERRORS, ...MORE_OP_ERRORS, ...MORE_ERRORS, ...SYSTEM_ERRORS };
/** Opened here, so that no test seems to leak it. */
const clang = clangBackend.unavailable() === undefined ? Device.get("CLANG") : undefined;

/** The error that `act` ends in. */
async function caught(act: () => unknown): Promise<Error> {
  try {
    await act();
  } catch (error) {
    return error as Error;
  }
  throw new assert.AssertionError({ message: "no error" });
}

const BUILTINS = new Map<unknown, typeof RangeError | typeof TypeError>([
  [ShapeError, RangeError],
  [IndexError, RangeError],
  [OutOfMemoryError, RangeError],
  [DTypeError, TypeError],
  [ArgumentError, TypeError],
]);

for (const [group, rows] of Object.entries(GROUPS)) {
  for (const [name, [act, text, fields]] of Object.entries(rows)) {
    Deno.test(`errors: ${group.toLowerCase()}: ${name}`, async () => {
      const error = await caught(act);
      const told = `${error.name}: ${error.message}`,
        type: unknown = { ...classes, ...Deno.errors }[error.name as "ShapeError"];
      if (typeof text === "string") assert.equal(told, text, error.stack);
      else assert.match(told, text, error.stack);
      assert.equal(error.constructor, type, error.stack);
      assert.ok(error instanceof (BUILTINS.get(type) ?? Error));
      assert.ok(!error.message.endsWith("."), "no period at the end");
      for (const [field, want] of Object.entries(fields ?? {})) {
        const got: unknown = (error as unknown as Record<string, unknown>)[field];
        if (want instanceof RegExp) assert.match(String(got), want, field);
        else assert.deepEqual(got, want, field);
      }
    });
  }
}

Deno.test("errors: the tables are as long as they should be", () => {
  const count = Object.values(GROUPS).reduce((n, rows) => n + Object.keys(rows).length, 0);
  assert.ok(count >= 420, String(count));
});

/** Members that nothing can be done wrong with: they take nothing, and every tensor. */
const HARMLESS = new Set(
  ("round isnan isfinite relu relu6 contiguous contiguousBackward detach numel nbytes elementSize isFloatingPoint toString " +
    "requiresGrad manualSeed getStateDict getParameters").split(" ")
    .concat(Object.keys({ ...FUNCTIONS, ...HIGHER_FUNCTIONS, ...ACTIVATIONS, ...CASTS, ...UNARY })),
);
/** What takes one number that may be any, and a class that only others extend. */
const LENIENT = new Set([...Object.keys(PARAMETRIC), "schedule", "Optimizer"]);

/** Whether an object or one that it inherits from has such a method. */
function isMethod(owner: object | null, name: string): boolean {
  if (owner === null || owner === Object.prototype || owner === Function.prototype) return false;
  const own: unknown = Object.getOwnPropertyDescriptor(owner, name)?.value;
  return typeof own === "function" || isMethod(Object.getPrototypeOf(owner), name);
}

Deno.test("errors: every op that takes anything has a row", () => {
  const acts = Object.values(GROUPS).flatMap((rows) => Object.values(rows).map(([act]) => act.toString())).join("\n");
  const without: string[] = [];
  for (const { number, rows } of PARITY) {
    if (!/^(1\.([1-9]|1[0-5])|2\.[123])$/.test(number)) continue;
    for (const [full, , note = ""] of rows) {
      const name = full.split(".").at(-1)!;
      if (!/^\w+$/.test(name) || note !== "" || HARMLESS.has(name) || LENIENT.has(name)) continue;
      const isMember = /^(nn|state)\./.test(full) || isMethod(Tensor, name) || isMethod(Tensor.prototype, name);
      if (isMember && !new RegExp(`\\b${name}\\(`).test(acts)) without.push(full);
    }
  }
  assert.deepEqual(without, []);
});

Deno.test("errors: a context variable that is refused leaves the others as they were", () => {
  const before = context({}, () => Device.default);
  assert.throws(() => context(loose({ DEV: "WASM", NOPE: 1 }), () => 1), ArgumentError);
  assert.equal(Device.default, before);
  assert.equal(context({ DEBUG: undefined }, () => 7), 7);
});

Deno.test({
  name: "errors: a compiler error on CLANG has the line at fault, the source and the log",
  ignore: clang === undefined,
  fn() {
    const k = addKernel(9), loop = k.linear!.find((u) => u.op === Ops.RANGE)!;
    const broken = [...k.linear!, uop(Ops.END, dtypes.void, [loop])]; // ends the function early
    assert.throws(() => clang!.compiler.compile([programOf("broken", broken)]), (error: unknown) => {
      assert.ok(error instanceof CompileError);
      assert.match(error.message, /^Cannot compile kernel broken_\w+ for CLANG: \S+ says at line \d+: .*[^.]$/);
      assert.match(error.source, /void broken_\w+\(/);
      assert.match(error.log, /error:/);
      return true;
    });
  },
});

/** The error that a program ends in, under some permissions. */
async function uncaught(flags: readonly string[], program: string, env: Record<string, string> = {}): Promise<string> {
  const mod = JSON.stringify(new URL("../mod.ts", import.meta.url).href);
  const url = `data:application/typescript,${
    encodeURIComponent(`import { nn, state, Tensor } from ${mod};\n${program}`)
  }`;
  const { code, stderr } = await runDeno(["run", "--no-prompt", "--no-check", ...flags, url], { env });
  assert.equal(code, 1, stderr);
  return /(?:error: Uncaught )?\(in promise\) (.*)$/m.exec(stderr)?.[1] ?? stderr;
}

const PERMISSIONS: [name: string, flags: string[], program: string, text: RegExp][] = [
  [
    "a device without any",
    ["--allow-env"],
    "new Tensor([1]).realize()",
    /^DeviceError: Cannot open device CLANG: it needs --allow-ffi --allow-run --allow-read --allow-write; available here: WASM$/,
  ],
  [
    "a device without one",
    ["--allow-env", "--allow-run", "--allow-read", "--allow-write"],
    "new Tensor([1]).realize()",
    /^DeviceError: Cannot open device CLANG: it needs --allow-ffi; available here: WASM$/,
  ],
  [
    "loading without read",
    [],
    'await state.safeLoad("/tmp/x.safetensors")',
    /^NotCapable: Requires read access to "\/tmp\/x\.safetensors", run again with the --allow-read flag$/,
  ],
  [
    "saving without write",
    [],
    'await state.safeSave({ x: new Tensor([1]) }, "/tmp/x.safetensors")',
    /^FormatError: Cannot save \/tmp\/x\.safetensors: Requires write access to "\/tmp\/x\.safetensors\.\w+\.part", run again with the --allow-write flag$/,
  ],
  [
    "a data set without net",
    [],
    'await nn.datasets.mnist("http://127.0.0.1:12345/")',
    /^NotCapable: Requires net access to "127\.0\.0\.1:12345", run again with the --allow-net flag$/,
  ],
];
for (const [name, flags, program, text] of PERMISSIONS) {
  Deno.test(`errors: permissions: ${name}`, async () => {
    assert.match(await uncaught(flags, program, flags.length > 0 ? { DEV: "CLANG" } : {}), text);
  });
}
