/**
 * docs/reference.md: every class and function of `nn`, `nn.optim`, `nn.datasets` and `state`, with its arguments. In: what
 * `deno doc` says of their modules, and the sources. Out: the page. `deno run -A tests/pages/reference_page.ts` writes
 * it anew.
 *
 * @module
 */
import { ROOT, runDeno } from "../system/subprocess.ts";

/** The page, relative to the project. */
export const REFERENCE_PAGE = "docs/reference.md";

/** What is on the page: how it is reached, its module, what is said of it. */
const SECTIONS: readonly (readonly [title: string, prefix: string, module: string, about: string])[] = [
  ["Layers", "nn.", "src/nn/nn.ts", "Each is called by `.call(x, ...)`."],
  ["Losses", "t.", "src/tensor/math/loss.ts", "Methods of a tensor: predictions first, labels as the argument."],
  ["Optimizers and schedules", "nn.optim.", "src/nn/optim.ts", ""],
  ["Data sets", "nn.datasets.", "src/nn/datasets/datasets.ts", ""],
  ["Weights and files", "state.", "src/state/state.ts", ""],
];

interface Place {
  readonly filename: string;
  readonly byteIndex: number;
}
interface Doc {
  readonly doc?: string;
}
interface Member {
  readonly name: string;
  readonly kind?: string;
  readonly accessibility?: string;
  readonly isAbstract?: boolean;
  readonly isStatic?: boolean;
  readonly jsDoc?: Doc;
  readonly location: Place;
}
interface Definition {
  readonly constructors?: readonly Member[];
  readonly methods?: readonly Member[];
  readonly properties?: readonly Member[];
  /** Of a class, its parent's name. */
  readonly extends?: unknown;
  readonly isAbstract?: boolean;
  readonly target?: Place;
}
interface Declaration {
  readonly kind: string;
  readonly jsDoc?: Doc;
  readonly location: Place;
  readonly def?: Definition;
}
interface Symbol {
  readonly name: string;
  readonly declarations: readonly Declaration[];
}

const sources = new Map<string, Uint8Array>();

/** The source from a place on. */
function textAt({ filename, byteIndex }: Place): string {
  let bytes = sources.get(filename);
  if (bytes === undefined) sources.set(filename, bytes = Deno.readFileSync(new URL(filename)));
  return new TextDecoder().decode(bytes.subarray(byteIndex, byteIndex + 4000));
}

/** The parameters in a declaration, and what it gives, as they are written, on one line. */
function signature(place: Place): string {
  const text = textAt(place), start = text.indexOf("(");
  let depth = 0, end = start;
  do {
    if ("([{".includes(text[end])) depth++;
    else if (")]}".includes(text[end])) depth--;
    end++;
  } while (depth > 0);
  const gives = /^: ([^{;]+)/.exec(text.slice(end))?.[1].trim();
  const params = text.slice(start, end).replace(/\/\*\*.*?\*\//gs, "").replace(/\s+/g, " ")
    .replace(/\( /g, "(").replace(/,? \)/g, ")").replace(/\b(private|readonly) (?=\w+\??:)/g, "")
    .replace(/\b(\w*options|masks|memoryMasks): (.*?) = \{\}/gi, "$1?: $2");
  return gives === undefined ? params : `${params}: ${gives}`;
}

/** The text of a comment up to its first example, on one line. */
function prose(jsDoc: Doc | undefined): string {
  const text = (jsDoc?.doc ?? "").split(/\n*```|@throws/)[0];
  return text.replace(/\{@linkcode ([^}]*)\}/g, "`$1`").replace(/\s+/g, " ").trim();
}

/** ": " and the text, where there is one. */
function said(jsDoc: Doc | undefined): string {
  const text = prose(jsDoc);
  return text === "" ? "" : `: ${text}`;
}

function isPublic({ accessibility, name }: Member): boolean {
  return accessibility === undefined && !name.startsWith("#") && !name.startsWith("[");
}

function methodLines({ methods = [] }: Definition): string[] {
  return methods.filter((m) => isPublic(m) && m.kind === "method").map((m) =>
    `- \`${m.isStatic ? "static " : ""}${m.name}${signature(m.location)}\`${said(m.jsDoc)}`
  );
}

/** The nearest class on the page that a class extends, through others of its file. */
function knownParent(name: unknown, { filename }: Place, symbols: readonly Symbol[]): string | undefined {
  if (typeof name !== "string" || symbols.some((s) => s.name === name)) return name as string | undefined;
  const [, next] = new RegExp(`class ${name} extends (\\w+)`).exec(Deno.readTextFileSync(new URL(filename))) ?? [];
  return next === undefined ? undefined : knownParent(next, { filename, byteIndex: 0 }, symbols);
}

/** The constructor of the class that a class without one extends. */
function inherited({ extends: parent }: Definition, symbols: readonly Symbol[]): Member | undefined {
  const found = symbols.find((s) => s.name === parent)?.declarations.find((d) => d.kind === "class")?.def;
  return found && (found.constructors?.find(isPublic) ?? inherited(found, symbols));
}

function classLines(prefix: string, { name }: Symbol, d: Declaration, symbols: readonly Symbol[]): string[] {
  const def = d.def ?? {}, made = def.constructors?.find(isPublic) ?? inherited(def, symbols);
  const parent = knownParent(def.extends, d.location, symbols);
  const title = def.isAbstract ? `abstract class ${prefix}${name}` : `new ${prefix}${name}`;
  const args = made === undefined || def.isAbstract ? "" : signature(made.location);
  const fields = [...def.properties ?? [], ...(def.methods ?? []).filter((m) => m.kind === "getter")].filter(isPublic);
  const known = fields.filter((f) => prose(f.jsDoc) !== "").map((f) => `- \`${f.name}\`${said(f.jsDoc)}`);
  const text = [prose(d.jsDoc), prose(made?.jsDoc)].filter((x) => x !== "").join(" ");
  const more = parent === undefined ? [] : [`- what \`${parent}\` has`];
  return ["", `### \`${title}${args}\``, "", text, "", ...known, ...methodLines(def), ...more];
}

function interfaceLines({ name }: Symbol, { def = {}, jsDoc, location }: Declaration): string[] {
  const parents = /^export interface \w+ extends ([^{]+) \{/.exec(textAt(location))?.[1];
  const also = parents === undefined ? "" : ` Also those of \`${parents}\`.`;
  const lines = (def.properties ?? []).map((p) => {
    const [, text] = /^readonly ([^;]+)|/.exec(textAt(p.location))!;
    return `- \`${(text ?? p.name).replace(/\s+/g, " ")}\`${said(p.jsDoc)}`;
  });
  return ["", `#### \`${name}\``, "", prose(jsDoc) + also, "", ...lines];
}

/** The lines of a section. */
function sectionLines(title: string, prefix: string, about: string, symbols: readonly Symbol[]): string[] {
  const out = ["", `## ${title}`, "", about], options: string[] = [];
  if (prefix === "t.") {
    for (const s of symbols) {
      for (const d of s.declarations) {
        if (d.kind === "class") out.push(...methodLines(d.def ?? {}));
        else if (d.kind === "interface" && !isClass(s)) options.push(...interfaceLines(s, d));
      }
    }
    return [...out, ...options];
  }
  for (const s of symbols.toSorted((a, b) => a.name < b.name ? -1 : 1)) {
    for (const d of s.declarations) {
      if (d.kind === "class") out.push(...classLines(prefix, s, d, symbols));
      else if (d.kind === "function") {
        out.push("", `### \`${prefix}${s.name}${signature(d.location)}\``, "", prose(d.jsDoc));
      } else if (d.kind === "interface" && !isClass(s)) options.push(...interfaceLines(s, d));
      else if (d.kind === "reference") {
        const target = symbols.find((t) => t.declarations.some((x) => samePlace(x.location, d.def?.target)));
        if (target !== undefined) out.push("", `### \`new ${prefix}${s.name}\``, "", `The same as \`${target.name}\`.`);
      }
    }
  }
  return options.length === 0 ? out : [...out, "", "### Options", ...options];
}

/** Whether a symbol is a class, whose interface says no more than what it is written in. */
function isClass({ declarations }: Symbol): boolean {
  return declarations.some((d) => d.kind === "class");
}

function samePlace(a: Place, b: Place | undefined): boolean {
  return b !== undefined && a.filename === b.filename && a.byteIndex === b.byteIndex;
}

/** The page as it should be. */
export async function referencePage(): Promise<string> {
  const { code, stdout, stderr } = await runDeno(["doc", "--json", ...SECTIONS.map(([, , module]) => module)]);
  if (code !== 0) throw new Error(`deno doc fails: ${stderr}`);
  const nodes: Record<string, { symbols: Symbol[] }> = JSON.parse(stdout).nodes;
  const lines = SECTIONS.flatMap(([title, prefix, module, about]) =>
    sectionLines(title, prefix, about, nodes[new URL(module, ROOT).href].symbols)
  );
  const head = [
    "# Reference: layers, losses, optimizers, schedules, files",
    "",
    "Every class and function of the namespaces `nn`, `nn.optim`, `nn.datasets` and `state`, and the losses, with their",
    "arguments and options, as the sources declare them. The methods of `Tensor` are in [coverage.md](coverage.md).",
  ];
  const file = await Deno.makeTempFile({ suffix: ".md" });
  try {
    await Deno.writeTextFile(file, [...head, ...lines].join("\n") + "\n");
    const done = await runDeno(["fmt", "-q", "--line-width", "120", file]);
    if (done.code !== 0) throw new Error(`deno fmt fails: ${done.stderr}`);
    return await Deno.readTextFile(file);
  } finally {
    await Deno.remove(file);
  }
}

if (import.meta.main) await Deno.writeTextFile(new URL(REFERENCE_PAGE, ROOT), await referencePage());
