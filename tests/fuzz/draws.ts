/**
 * Random programs that draw random numbers, under `explain`: every draw must be told as one (a loop over the rounds of
 * threefry, no rotation in a kernel's own lines), whatever stands around it, and the scripts must come to what was recorded,
 * at both levels. Bits are held to threefry2x32 as Random123 defines it, computed here. A failure is printed as the program.
 *
 * Run: `deno run -A tests/fuzz/draws.ts --count 500 --seed 1`. Other options: `--device CLANG`, `--case 17` (only that one),
 * `--failures 5`, `--seconds 60`, `--show` (prints the scripts).
 */
import { jit, Tensor } from "../../mod.ts";
import { explain } from "../../src/story/story.ts";
import { realizedMemory } from "../../src/tensor/realize.ts";
import { onDevice } from "../support/on_device.ts";
import { Random } from "../support/random.ts";
import { runScript } from "./explained.ts";
import { type CaseOptions, caseOptions, runCases } from "./parts/command.ts";

/** A program: where draws begin, and lines that make `outs`, a list of tensors. */
export interface DrawProgram {
  readonly seed: string;
  readonly counter: number;
  readonly lines: readonly string[];
}

/** Makes one draw of a shape, as text. */
const DRAWS: readonly ((r: Random, shape: string, n: number) => string)[] = [
  (_, s) => `Tensor.rand(${s})`,
  (_, s) => `Tensor.rand(${s}, { dtype: "float64" })`,
  (_, s) => `Tensor.rand(${s}, { dtype: "float16" }).float()`,
  (_, s) => `Tensor.randn(${s})`,
  (r, s) => `Tensor.randint(${s}, { low: ${r.int(-9, 0)}, high: ${r.int(1, 4000)} })`,
  (r, s) => `Tensor.uniform(${s}, { low: ${r.int(-5, 0)}, high: ${r.int(1, 5)} })`,
  (r, s) => `Tensor.normal(${s}, { mean: ${r.int(-3, 3)}, std: ${r.int(1, 4)} })`,
  (r, s) => `Tensor.full(${s}, ${r.int(1, 9) / 10}).bernoulli()`,
  (r, s) => `Tensor.train(() => Tensor.ones(${s}).dropout(${r.int(1, 8) / 10}))`,
  (_, s, n) => `Tensor.randperm(${n}).reshape(${s})`,
  (r, s) => `Tensor.rand(${s}).lt(${r.int(1, 9) / 10}).where(1, Tensor.rand(${s}))`,
  (_, s) => `Tensor.zeros(${s}).randLike()`,
  (_, s) => `Tensor.zeros(${s}).exponential()`,
];
/** What may stand between a draw and what is read. */
const MOVES: readonly ((r: Random, shape: readonly number[]) => string)[] = [
  (_, s) => `.permute([${s.map((_, i) => s.length - 1 - i)}]).contiguous()`,
  (_, s) => `.shrink([[0, ${Math.max(1, s[0] - 1)}]${", null".repeat(s.length - 1)}])`,
  (r, s) => `.pad([[${r.int(0, 2)}, 1]${", [0, 0]".repeat(s.length - 1)}])`,
  () => ".flip([0])",
  () => ".flatten()",
  () => ".unsqueeze(0).expand([2" + ", -1".repeat(1) + "])",
  () => ".sum(0)",
  () => ".cumsum(0)",
  () => ".mul(0.5).add(1)",
  () => ".cat([Tensor.rand([2])])",
  () => ".sort(0)[0]",
];

/** The program of a case. */
export function drawProgram(seed: number, at: number): DrawProgram {
  const r = new Random(Math.imul(seed, 7919) + at), lines = ["const outs = [];"];
  const shapes = [[5], [7, 3], [2, 3, 4], [1], [33], [4, 1, 2]], names: string[] = [];
  for (let i = r.int(1, 4); i > 0; i--) {
    const shape = r.pick(shapes), n = shape.reduce((a, b) => a * b, 1), text = `[${shape.join(", ")}]`;
    let x = r.pick(DRAWS)(r, text, n);
    if (r.below(3) > 0) {
      const move = r.pick(MOVES), flat = move(r, shape);
      x += /^\.(unsqueeze|cat)/.test(flat) ? `.flatten()${flat.startsWith(".cat") ? ".float()" : ""}${flat}` : flat;
    }
    const name = `d${names.length}`, other = names.length > 0 && r.below(3) === 0 ? r.pick(names) : undefined;
    lines.push(`const ${name} = ${x}${other === undefined ? "" : `.float().sum().add(${other}.float())`};`);
    names.push(name);
    lines.push(r.below(4) === 0 ? `outs.push(${name}.realize());` : `outs.push(${name});`);
  }
  switch (r.below(4)) {
    case 0:
      lines.push(`for (let i = 0; i < ${r.int(2, 6)}; i++) outs.push(Tensor.rand([6]).add(i).contiguous().realize());`);
      break;
    case 1:
      lines.push(
        `const step = jit((x) => x.add(Tensor.${r.pick(["rand", "randn"])}([6])).mul(2));`,
        `for (let i = 0; i < ${r.int(3, 5)}; i++) outs.push(step(Tensor.full([6], i).contiguous().realize()));`,
      );
      break;
    case 2:
      lines.push(
        `const kept = Tensor.zeros([8]).contiguous().realize();`,
        `for (let i = 0; i < 3; i++) kept.assign(kept.mul(0.5).add(Tensor.randn([8]))).realize();`,
        `outs.push(kept);`,
      );
  }
  // counters that run over 32 bits within a draw, and seeds of 64
  const counter = r.pick([0, 1, 2 ** 32 - 3, 2 ** 32, 2 ** 40 + 5, 12345]);
  const text = r.pick([
    "1",
    "42",
    "18446744073709551615",
    "9223372036854775808",
    "4294967296",
    String(r.below(2 ** 31)),
  ]);
  return { seed: text, counter, lines };
}

/** The program as one that can be run by itself. */
export function drawScript({ seed, counter, lines }: DrawProgram): string {
  return [
    'import { jit, Tensor } from "../../mod.ts";',
    `Tensor.setRngState({ seed: "${seed}", counter: ${counter} });`,
    ...lines,
  ].join("\n");
}

const build = Function as unknown as new (...args: string[]) => (...args: unknown[]) => Tensor[];

/** What is wrong with the scripts of a program; undefined where nothing is. */
export function wrongDraws(program: DrawProgram, device: string, show = false): string | undefined {
  const { seed, counter, lines } = program, make = new build("Tensor", "jit", `${lines.join("\n")}\nreturn outs;`);
  for (const level of ["kernel", "tensor"] as const) {
    let text = "";
    try {
      const e = onDevice(device, () =>
        explain(() => {
          Tensor.setRngState({ seed, counter });
          const outs = make(Tensor, jit);
          Tensor.realize(outs);
          return outs;
        }, { level, times: false }));
      if (e.error !== undefined) throw e.error;
      text = e.script;
      if (show) console.log(text);
      const { arrays: all } = e.toJSON() as unknown as { arrays: readonly { name: string }[] };
      const outs = e.result as Tensor[],
        found = outs.map((t) => {
          const buffer = realizedMemory(t.uop);
          return e.trace.buffers.findIndex((b) => b.buffer === buffer && b.size === t.numel());
        });
      const live = outs.map((_, i) => i).filter((i) =>
        found[i] >= 0 && new RegExp(`^const ${all[found[i]].name.replaceAll("$", "\\$")} = `, "m").test(text)
      );
      const { isFar } = runScript(e, live.map((i) => all[found[i]].name));
      if (isFar) return `${level}: its result is far from the recorded one\n${text}`;
      if (!/32 random bits, threefry2x32 of the counter and the key/.test(text)) {
        return `${level}: no draw is told\n${text}`;
      }
      // the loop over the rounds of a draw has its rotations in a table
      if (/>>> 19/.test(text)) {
        return `${level}: a rotation stands outside of a draw\n${text}`;
      }
    } catch (error) {
      return `${level}: ${(error as Error).stack?.split("\n").slice(0, 6).join("\n")}\n${text}`;
    }
  }
}

/** Threefry2x32 of 20 rounds, as Random123 defines it. */
export function threefry2x32(key: readonly [number, number], counter: readonly [number, number]): [number, number] {
  const keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1bd11bda], turns = [[13, 15, 26, 6], [17, 29, 16, 24]];
  let a = counter[0] + keys[0] >>> 0, b = counter[1] + keys[1] >>> 0;
  for (let round = 0; round < 20; round++) {
    const turn = turns[(round >> 2) & 1][round & 3];
    a = a + b >>> 0;
    b = ((b << turn | b >>> (32 - turn)) ^ a) >>> 0;
    if (round % 4 !== 3) continue;
    const k = (round + 1) / 4;
    a = a + keys[k % 3] >>> 0;
    b = b + keys[(k + 1) % 3] + k >>> 0;
  }
  return [a, b];
}

/** Runs programs until the time is up. */
export async function fuzzDraws(
  { device, show = false, ...options }: CaseOptions & { readonly show?: boolean },
): Promise<{ programs: number; failures: string[] }> {
  return await runCases(options, (at) => {
    const program = drawProgram(options.seed, at), why = wrongDraws(program, device, show);
    return why === undefined ? undefined : `${why}\n\n${drawScript(program)}\n`;
  });
}

if (import.meta.main) {
  const options = await caseOptions({ seed: Math.floor(Math.random() * 1e6), count: 200 });
  const { programs, failures } = await fuzzDraws(options);
  const found = failures.length === 0 ? "all draws are told, and come to the same" : `${failures.length} fail`;
  console.log(`${programs} programs, seed ${options.seed}: ${found}`);
  Deno.exit(failures.length === 0 ? 0 : 1);
}
