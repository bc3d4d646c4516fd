/**
 * Arguments, results and sizes may be called as anything: of each target, the words that an export writes become the names of
 * what the next export is given and gives, and that is built and run. What fits no language is another name.
 */
import assert from "node:assert/strict";
import { Device, nn, Tensor, Variable } from "../../mod.ts";
import { type Exported, exportModel, type ExportOptions } from "../../src/export/export.ts";
import { type CCompiler, compilersHere, run } from "./build.ts";
import { wave } from "./programs.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const folder = Deno.makeTempDirSync({ prefix: "dinograd-export-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const [compiler] = compilersHere();

/** What is exported: layers, state, random numbers and a size, beside arguments. */
function makeBody(): (xs: readonly Tensor[], n: Tensor) => Tensor {
  const net = new nn.Linear(6, 5), memory = wave([6]);
  Tensor.realize([net.weight, net.bias!]);
  return (xs, n) => {
    let sum = net.call(memory.add(Tensor.rand([6]))).exp().sum();
    for (const x of xs) sum = sum.add(x.tanh().sum());
    memory.assign(memory.mul(0.5));
    return sum.add(wave([5]).shrink([[0, n]]).sum());
  };
}

/** Letters, and the words of an export's sources. */
function wordsOf(made: Exported): string[] {
  const words = new Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
  for (const file of made.files.keys()) {
    if (!/\.(c|h|cu|js|ts)$/.test(file)) continue;
    const code = made.text(file).replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, "");
    for (const [word] of code.matchAll(/[A-Za-z]\w*/g)) words.add(word);
  }
  return [...words].filter((w) => w.length < 40);
}
/** Whether JavaScript takes a parameter of that name; `n` is the size. */
function isParameter(word: string): boolean {
  try {
    new Function(word, "");
    return !["n", "arguments", "eval", "async", "await"].includes(word);
  } catch {
    return false;
  }
}

const SIZE = new Variable("n", 1, 5);
/** Exports a function whose arguments, or results, are called so. */
async function named(form: Partial<ExportOptions>, name: string, words: readonly string[], by: "in" | "out") {
  const body = makeBody(), n = SIZE.bind(2), all = words.map((_, i) => wave([3], 1 + i));
  if (by === "in") {
    const list = words.join(", ");
    const f = new Function("body", `return (${list}${list && ", "}n) => body([${list}], n);`)(body);
    return await exportModel(f, [...all, n], { target: "c", name, ...form });
  }
  const given = Object.fromEntries(words.map((w, i) => [w, all[i]]));
  const f = (given: Record<string, Tensor>, n: Tensor): Record<string, Tensor> => ({
    ...Object.fromEntries(Object.entries(given).map(([w, x]) => [w, x.sin()])),
    sum: body(Object.values(given), n),
  });
  return await exportModel(f, [given, n], { target: "c", name, ...form });
}

/** Builds an export, and runs its test. */
type Build = (made: Exported, name: string) => Promise<void>;
const inC = ({ path }: CCompiler): Build => async (made, name) => {
  const at = `${folder}/${name}`, upper = name.toUpperCase();
  await made.write(at);
  const flags = ["-std=c11", "-O0", "-Wall", "-Wextra", "-Werror", "-pedantic", `-D${upper}_EMBED`];
  await run(path, [...flags, "-o", "test", `${name}_test.c`, `${name}.c`, "-lm"], at);
  assert.match(await run(`${at}/test`, [], at), /largest difference/);
};
const inJavaScript: Build = async (made, name) => {
  await made.write(`${folder}/${name}`);
  await import(`file://${folder}/${name}/${name}_test.js`); // it compares, and throws
};
/** Of a page: its module is read by the engine, which tells of names that are declared twice. */
const asPage: Build = async (made, name) => {
  await made.write(`${folder}/${name}`);
  assert.equal(typeof (await import(`file://${folder}/${name}/${name}_web.js`)).load, "function");
};

const FORMS: readonly (readonly [string, Partial<ExportOptions>, Build | undefined])[] = [
  ["plain C", { style: "plain" }, compiler && inC(compiler)],
  ["fast C", { style: "fast" }, compiler && inC(compiler)],
  ["WASM", { target: "wasm" }, inJavaScript],
  ["page", { target: "web" }, asPage],
];
for (const [what, form, build] of FORMS) {
  Deno.test({
    name: `export, ${what}: arguments and results are called as words of the export itself`,
    ignore: build === undefined,
    async fn() {
      const prefix = what.replace(/\W/g, "").toLowerCase(), say = console.log;
      console.log = () => {}; // tests of exports print what they compute
      try {
        const words = wordsOf(await named(form, `${prefix}_first`, ["a", "b"], "out"));
        for (const by of ["in", "out"] as const) {
          const all = by === "in" ? words.filter(isParameter) : words;
          for (let at = 0; at < all.length; at += 80) {
            const some = all.slice(at, at + 80), name = `${prefix}_${by}${at}`;
            await build!(await named(form, name, some, by), name);
          }
        }
      } finally {
        console.log = say;
      }
    },
  });
}

Deno.test("export: a size and a result of one name are two, and a function's own variables give way", async () => {
  const made = await named({ style: "plain" }, "letters", ["t", "w"], "in");
  assert.match(
    made.text("letters.h"),
    /int letters_run\(letters_context \*context, int n, const float t\[3\], const float w\[3\]/,
  );
  assert.match(made.text("letters.c"), /const unsigned char \*const w_ = context->weights;/);
  const both = await named({ style: "plain" }, "both", ["n"], "out");
  assert.match(both.text("both.h"), /int n, const float given_n\[3\], float n_2\[3\]/);
  const cuda = await named({ target: "cuda" }, "card", ["m", "on", "stream", "error"], "in");
  assert.match(cuda.text("card.cu"), /const float \*stream, const float \*error, float \*y, void \*stream_\)/);
  assert.match(cuda.text("card.cu"), /unsigned char \*const m_ = context->memory;/);
});
