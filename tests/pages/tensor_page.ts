/**
 * docs/tensor.md: every method of `Tensor` by family: arguments, what the sources say of it, an example and its value. In:
 * what `deno doc` says of mod.ts, and the examples. Out: the page; reference_page.ts writes it.
 *
 * @module
 */
import {
  aliasLines,
  declarationsOf,
  exampleIn,
  exportedNames,
  formatted,
  interfaceLines,
  isClass,
  isPublic,
  type Member,
  prose,
  signature,
  type Symbol,
} from "./declarations.ts";
import { METHOD_EXAMPLES } from "./method_examples.ts";
import { runModules } from "./pages.ts";

/** The page, relative to the project. */
export const TENSOR_PAGE = "docs/tensor.md";

/** The classes that methods are in, in the order of the page. */
export const FAMILIES: readonly (readonly [family: string, title: string])[] = [
  ["Tensor", "Making tensors, and modes"],
  ["TensorBase", "What a tensor is"],
  ["DisplayTensor", "Printing"],
  ["RealizeTensor", "Computing, reading, assigning, devices"],
  ["ShardTensor", "Several devices"],
  ["IndexingTensor", "Indexing"],
  ["MovementTensor", "Shapes and views"],
  ["ArrangeTensor", "Arranging"],
  ["JoinTensor", "Cutting and joining"],
  ["ElementwiseTensor", "Arithmetic, comparisons, bits, casts"],
  ["FunctionTensor", "Functions of one operand"],
  ["SpecialTensor", "Functions of several operands"],
  ["HigherTensor", "Higher functions"],
  ["PolynomialTensor", "Orthogonal polynomials"],
  ["ActivationTensor", "Activations"],
  ["ReduceTensor", "Reductions and normalization"],
  ["NormTensor", "Norms and statistics"],
  ["QuantileTensor", "Order statistics"],
  ["StatisticsTensor", "Counts and places in order"],
  ["HistogramTensor", "Histograms"],
  ["DrawTensor", "Draws"],
  ["SetTensor", "Sets, bins and orders"],
  ["StridedTensor", "Strides"],
  ["DistributionTensor", "Distributions"],
  ["DistinctTensor", "Distinct values"],
  ["ScanTensor", "Scans"],
  ["SortTensor", "Sorting"],
  ["GatherTensor", "Gather, scatter, triangles"],
  ["PlaceTensor", "Reading and writing at places"],
  ["LinalgTensor", "Products"],
  ["ProductTensor", "More products"],
  ["ChainTensor", "Products of many matrices"],
  ["SymmetricTensor", "Symmetric systems"],
  ["LowRankTensor", "Parts of decompositions"],
  ["DecompositionTensor", "Decompositions of matrices"],
  ["SystemTensor", "Systems and eigenvalues"],
  ["NanTensor", "Reductions that pass over NaN, and weighted means"],
  ["FactorTensor", "Products of reflections, and polynomials"],
  ["SampledTensor", "Sequences of samples"],
  ["ConvTensor", "Convolutions and pools"],
  ["PoolTensor", "Adaptive pools"],
  ["RankTensor", "Pools and convolutions of one and three axes"],
  ["UnpoolTensor", "Norms over windows and unpools"],
  ["ResampleTensor", "Resampling"],
  ["LossTensor", "Losses"],
  ["CriterionTensor", "More losses"],
  ["CtcTensor", "The loss of sequences"],
  ["ComplexTensor", "Complex numbers"],
  ["FourierTensor", "Fourier transforms"],
  ["SpectrogramTensor", "Spectra over time"],
  ["BackwardTensor", "Gradients"],
  ["InPlaceTensor", "In place"],
  ["CallTensor", "Functions of tensors"],
  ["CustomTensor", "Kernels of your own"],
];

/** Of devices that are not everywhere: shown, not run. */
const ABSENT: ReadonlySet<string> = new Set(["clang", "webgpu", "cuda"]);

/** What `mod.ts` exports; of `Tensor`, which is a constant there, the class. */
async function symbolsOf(): Promise<readonly Symbol[]> {
  const found = await declarationsOf(["mod.ts", "src/tensor/tensor.ts"]);
  // of what both export, mod.ts has a reference
  const declared = new Map(found.get("src/tensor/tensor.ts")!.map((s) => [s.name, s]));
  return found.get("mod.ts")!.map((s) => declared.get(s.name) ?? s);
}

const isFamily = ({ name }: Symbol): boolean => /Tensor(Base)?$/.test(name);

/** The examples that comments of methods give. */
function saidBy(symbols: readonly Symbol[]): Readonly<Record<string, string>> {
  const said: Record<string, string> = {};
  for (const s of symbols.filter(isFamily)) {
    for (const [name, forms] of declaredBy(s)) {
      const code = forms.map((m) => exampleIn(m.jsDoc)).find((code) => code !== undefined);
      if (code !== undefined) said[name] = code;
    }
  }
  return said;
}

function examplesOf(symbols: readonly Symbol[]): Readonly<Record<string, string>> {
  return { ...saidBy(symbols), ...METHOD_EXAMPLES };
}

/** An example of every method. */
export async function methodExamples(): Promise<Readonly<Record<string, string>>> {
  return examplesOf(await symbolsOf());
}

/** Methods that have no example or two, examples of no method, and families without a title. */
export async function methodNames(): Promise<Record<"without" | "twice" | "unknown" | "untitled", string[]>> {
  const symbols = await symbolsOf(), said = saidBy(symbols);
  const names = new Set(symbols.filter(isFamily).flatMap((s) => [...declaredBy(s).keys()]));
  return {
    without: [...names].filter((n) => !Object.hasOwn(METHOD_EXAMPLES, n) && !Object.hasOwn(said, n)),
    twice: Object.keys(METHOD_EXAMPLES).filter((n) => Object.hasOwn(said, n)),
    unknown: Object.keys(METHOD_EXAMPLES).filter((n) => !names.has(n)),
    untitled: symbols.map((s) => s.name).filter((n) => n.endsWith("Tensor") && !FAMILIES.some(([f]) => f === n)),
  };
}

/** Runs all examples in one process; gives the text of each value. */
async function valuesOf(examples: Readonly<Record<string, string>>): Promise<Record<string, string>> {
  const rows = Object.entries(examples).filter(([name]) => !ABSENT.has(name)).map(([name, code]) => {
    const at = code.lastIndexOf("; ", code.endsWith("; })[0]") ? code.indexOf("=>") : undefined) + 1;
    return `  [${JSON.stringify(name)}]: async () => {${code.slice(0, at)} return ${code.slice(at)}; },`;
  });
  const main = `import { kernel, Tensor, Variable, windows } from "${new URL("../../mod.ts", import.meta.url).href}";
import { Ops } from "${new URL("../../src/ir/ir.ts", import.meta.url).href}";
const rows = {
${rows.join("\n")}
};
const short = (x) => typeof x === "number" ? Number(x.toPrecision(6)) : typeof x === "object" && x !== null
  ? Array.isArray(x) ? x.map(short) : Object.fromEntries(Object.entries(x).map(([k, v]) => [k, short(v)])) : x;
const plain = (x) => Array.isArray(x) ? "[" + x.map(plain).join(", ") + "]"
  : typeof x === "object" && x !== null ? "{ " + Object.entries(x).map(([k, v]) => k + ": " + plain(v)).join(", ") + " }"
  : Deno.inspect(x);
async function show(x) {
  if (x instanceof Tensor) return \`\${x.dtype.name} [\${x.shape.join(", ")}]: \${plain(await x.tolist())}\`;
  if (Array.isArray(x) && x.length > 0 && x[0] instanceof Tensor) return (await Promise.all(x.map(show))).join("; ");
  return ArrayBuffer.isView(x) ? x.constructor.name + " " + plain([...x]) : typeof x === "string" ? x : typeof x === "function" ? "" : x === undefined ? "" : plain(x);
}
const out = {}, wrong = [];
for (const [name, run] of Object.entries(rows)) {
  try { out[name] = await show(await run()); } catch (error) { wrong.push(name + ": " + error); }
}
if (wrong.length > 0) throw new Error(wrong.join("\\n"));
console.log(JSON.stringify(out));
`;
  return JSON.parse(await runModules({ "main.ts": main }, false)) as Record<string, string>;
}

/** All declarations of the methods of a family, by name, in order. */
function membersOf(methods: readonly Member[]): Map<string, Member[]> {
  const found = new Map<string, Member[]>();
  for (const m of methods.filter(isPublic)) {
    const name = m.isStatic ? `Tensor.${m.name}` : m.name;
    found.set(name, [...found.get(name) ?? [], m]);
  }
  // where a method is declared in several forms, that which does the work of all says nothing
  for (const [name, forms] of found) {
    if (forms.length > 1) found.set(name, forms.filter((f) => prose(f.jsDoc) !== ""));
  }
  return found;
}

function declaredBy({ declarations }: Symbol): Map<string, Member[]> {
  return membersOf(declarations.flatMap((d) => d.def?.methods ?? []));
}

/** What a method throws, as sentences. */
function thrown({ jsDoc }: Member): string {
  const tags = (jsDoc?.tags ?? []).filter((t) => t.kind === "throws");
  return tags.map(({ tsType, doc = "" }) => {
    const text = `@throws {${tsType?.repr}} ${doc}`.replace(/\s+/g, " ").replace(/(\S) @throws/g, "$1. @throws");
    return ` ${
      text.replace(/@throws \{(\w+)\}/g, "Throws `$1`").replace(/\{(\w+)\}/g, "`$1`").trim().replace(/\.+$/, "")
    }.`;
  }).join("");
}

function methodLines(
  name: string,
  forms: readonly Member[],
  alias: readonly string[],
  code: string | undefined,
  value: string,
): string[] {
  const signatures = forms.map((m) => m.kind === "getter" ? `\`${name}\`` : `\`${name}${signature(m.location)}\``);
  const text = forms.map((m) => prose(m.jsDoc) + thrown(m)).join(" ");
  const also = alias.length === 0 ? "" : ` Also ${alias.map((a) => `\`${a}\``).join(", ")}.`;
  return [
    "",
    `### ${name}`,
    "",
    `${signatures.join(" or ")}: ${text}${also}`,
    "",
    ...(code === undefined ? [] : ["```ts ignore", code + (value === "" ? "" : ` // ${value}`), "```"]),
  ];
}

/** The page as it should be. */
export async function tensorPage(): Promise<string> {
  const symbols = await symbolsOf(), lines: string[] = [], contents: string[] = [];
  const declared = new Map(symbols.map((s) => [s.name, declaredBy(s)]));
  // a family may name a method of another anew, for its types
  const seen = new Set<string>();
  for (const [family] of FAMILIES) {
    const members = declared.get(family)!;
    for (const name of [...members.keys()]) seen.has(name) ? members.delete(name) : seen.add(name);
  }
  const examples = examplesOf(symbols), values = await valuesOf(examples), alias = new Map<string, string[]>();
  for (const forms of declared.values()) {
    for (const [name, [form]] of forms) {
      const [, of] = /^(?:An? )?[Aa]lias (?:of|for) `?([\w.]+)/.exec(prose(form?.jsDoc)) ?? [];
      if (of !== undefined) alias.set(of, [...alias.get(of) ?? [], name]);
    }
  }
  for (const [family, title] of FAMILIES) {
    const members = [...declared.get(family)!];
    contents.push(`- [${title}](#${anchorOf(title)}): ${members.map(([n]) => `\`${n}\``).join(", ")}`);
    lines.push("", `## ${title}`);
    for (const [name, forms] of members) {
      lines.push(...methodLines(name, forms, alias.get(name) ?? [], examples[name], values[name] ?? ""));
    }
  }
  lines.push("", "## Options and types");
  for (const name of exportedNames("src/tensor/types.ts")) {
    const symbol = symbols.find((s) => s.name === name);
    if (symbol === undefined || FAMILIES.some(([family]) => family === name)) continue;
    if (isClass(symbol)) {
      lines.push(
        "",
        `#### \`${name}\``,
        "",
        prose(symbol.declarations.find((d) => d.kind === "class")?.jsDoc),
      );
    }
    if (isClass(symbol)) continue;
    for (const d of symbol.declarations) {
      if (d.kind === "interface") lines.push(...interfaceLines(symbol, d));
      else if (d.kind === "typeAlias") lines.push(...aliasLines(symbol, d));
    }
  }
  return await formatted([
    "# All methods of Tensor",
    "",
    "By family; each with its arguments, an example, and the dtype, shape and values of what that gives. Nothing runs until",
    "a value is asked for; names are PyTorch's in camelCase; shapes and lists of axes are arrays; what has a name comes",
    "last, in one object. `this` is a tensor. What they are computed on, and with which dtypes, is in",
    "[coverage.md](coverage.md); what dtypes meet at in [numbers.md](numbers.md).",
    "",
    ...contents,
    ...lines,
  ]);
}

/** The anchor of a heading, as GitHub makes it. */
export function anchorOf(heading: string): string {
  return heading.toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, "").replace(/ /g, "-");
}
