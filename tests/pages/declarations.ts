/**
 * What sources declare, as lines of Markdown: classes, functions, interfaces and their members with their arguments, as
 * `deno doc` and the text of the sources say. The pages made of it are docs/reference.md and docs/tensor.md.
 *
 * @module
 */
import { ROOT, runDeno } from "../system/subprocess.ts";

/** Where something is declared. */
export interface Place {
  readonly filename: string;
  readonly byteIndex: number;
}
/** Its comment. */
export interface Doc {
  readonly doc?: string;
  readonly tags?: readonly {
    readonly kind: string;
    readonly doc?: string;
    readonly tsType?: { readonly repr?: string };
  }[];
}
/** A method, a field or a constructor. */
export interface Member {
  readonly name: string;
  readonly kind?: string;
  readonly accessibility?: string;
  readonly isAbstract?: boolean;
  readonly isStatic?: boolean;
  readonly jsDoc?: Doc;
  readonly location: Place;
}
/** What a class or an interface has. */
export interface Definition {
  readonly constructors?: readonly Member[];
  readonly methods?: readonly Member[];
  readonly properties?: readonly Member[];
  /** Of a class, its parent's name. */
  readonly extends?: unknown;
  readonly isAbstract?: boolean;
  readonly target?: Place;
  readonly tsType?: TypeDoc;
}
/** A type: a name, or what is written out, perhaps among the parameters of another. */
export interface TypeDoc {
  readonly kind?: string;
  readonly repr?: string;
  readonly value?: Definition & { readonly typeParams?: readonly TypeDoc[] };
}
/** One declaration of a name. */
export interface Declaration {
  readonly kind: string;
  readonly jsDoc?: Doc;
  readonly location: Place;
  readonly def?: Definition;
}
/** A name, and all that is declared under it. */
export interface Symbol {
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
export function signature(place: Place): string {
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
export function prose(jsDoc: Doc | undefined): string {
  const text = (jsDoc?.doc ?? "").split(/\n*```|@throws|@example/)[0];
  return text.replace(/\{@linkcode ([^}]*)\}/g, "`$1`").replace(/\s+/g, " ").trim();
}

/** The example that a comment gives on one line, after `@example`. */
export function exampleIn(jsDoc: Doc | undefined): string | undefined {
  return jsDoc?.tags?.find((t) => t.kind === "example")?.doc ?? /@example (.+)/.exec(jsDoc?.doc ?? "")?.[1];
}

/** ": " and the text, where there is one. */
export function said(jsDoc: Doc | undefined): string {
  const text = prose(jsDoc);
  return text === "" ? "" : `: ${text}`;
}

/** Whether a member is for users. */
export function isPublic({ accessibility, name }: Member): boolean {
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
  const isError = name.endsWith("Error");
  const title = def.isAbstract ? `abstract class ${prefix}${name}` : `${isError ? "" : "new "}${prefix}${name}`;
  const args = made === undefined || def.isAbstract || isError ? "" : signature(made.location);
  const fields = [...def.properties ?? [], ...(def.methods ?? []).filter((m) => m.kind === "getter")].filter(isPublic);
  const known = fields.filter((f) => prose(f.jsDoc) !== "").map((f) => `- \`${f.name}\`${said(f.jsDoc)}`);
  const text = [prose(d.jsDoc), prose(made?.jsDoc)].filter((x) => x !== "").join(" ");
  const more = parent === undefined ? [] : [`- what \`${parent}\` has`];
  return ["", `### \`${title}${args}\``, "", text, "", ...known, ...methodLines(def), ...more];
}

function fieldLines({ properties = [] }: Definition): string[] {
  return properties.map((p) => {
    const [, text] = /^(?:readonly )?((?:[^;{]|\{[^}]*\})+);/.exec(textAt(p.location)) ?? [];
    return `- \`${(text ?? p.name).replace(/\/\*\*.*?\*\//gs, "").replace(/\s+/g, " ")}\`${said(p.jsDoc)}`;
  });
}

/** An interface with its fields and methods. */
export function interfaceLines({ name }: Symbol, { def = {}, jsDoc, location }: Declaration): string[] {
  const parents = /^export interface \w+ extends ([^{]+) \{/.exec(textAt(location))?.[1];
  const also = parents === undefined ? "" : ` Also those of \`${parents}\`.`;
  const methods = (def.methods ?? []).map((m) => `- \`${m.name}${signature(m.location)}\`${said(m.jsDoc)}`);
  return ["", `#### \`${name}\``, "", prose(jsDoc) + also, "", ...fieldLines(def), ...methods];
}

/** A type alias as it is written. */
export function aliasLines({ name }: Symbol, { jsDoc, location }: Declaration): string[] {
  const written = /^export type (.+?);\n(?![ |&}])/s.exec(textAt(location))?.[1] ?? name;
  const text = written.replace(/\/\*\*.*?\*\//gs, "").replace(/\s+/g, " ");
  return ["", `#### \`${name}\``, "", prose(jsDoc), "", "```ts ignore", `type ${text};`, "```"];
}

/** A constant: what is said of it, and what it has. */
function constantLines(prefix: string, { name }: Symbol, { jsDoc, def = {} }: Declaration, symbols: readonly Symbol[]) {
  const written = def.tsType?.kind === "typeLiteral" ? def.tsType : def.tsType?.value?.typeParams?.[0];
  const named = symbols.find((s) => s.name === def.tsType?.repr)?.declarations.find((d) => d.kind === "interface")?.def;
  const type = named ?? written?.value ?? {};
  const methods = (type.methods ?? []).map((m) => `- \`${m.name}${signature(m.location)}\`${said(m.jsDoc)}`);
  // what has no comment of its own is told elsewhere, and so are the rows of tables
  const isRow = (p: Member): boolean => /^[^\n]*,\n/.test(textAt(p.location));
  const told = { properties: type.properties?.filter((p) => prose(p.jsDoc) !== "" && !isRow(p)) };
  const own = named === undefined ? [] : [`- \`${def.tsType?.repr}\`: its type`];
  return ["", `### \`${prefix}${name}\``, "", prose(jsDoc), "", ...fieldLines(told), ...methods, ...own];
}

/** The lines of a section. @param known all symbols that types may name */
export function sectionLines(
  title: string,
  prefix: string,
  about: string,
  symbols: readonly Symbol[],
  known: readonly Symbol[] = symbols,
): string[] {
  const out = ["", `## ${title}`, "", about], options: string[] = [];
  // told with the constants that have them
  const types = new Set(
    symbols.flatMap((s) => s.declarations.map((d) => d.kind === "variable" && d.def?.tsType?.repr)),
  );
  for (const s of symbols.toSorted((a, b) => a.name < b.name ? -1 : 1)) {
    for (const d of s.declarations) {
      if (d.kind === "class") out.push(...classLines(prefix, s, d, symbols));
      else if (d.kind === "function") {
        out.push("", `### \`${prefix}${s.name}${signature(d.location)}\``, "", prose(d.jsDoc));
      } else if (d.kind === "interface" && !isClass(s) && !types.has(s.name)) {
        options.push(...interfaceLines(s, d));
      } else if (d.kind === "typeAlias") options.push(...aliasLines(s, d));
      else if (d.kind === "variable") out.push(...constantLines(prefix, s, d, known));
      else if (d.kind === "reference") {
        const target = symbols.find((t) => t.declarations.some((x) => samePlace(x.location, d.def?.target)));
        if (target !== undefined) out.push("", `### \`new ${prefix}${s.name}\``, "", `The same as \`${target.name}\`.`);
      }
    }
  }
  return options.length === 0 ? out : [...out, "", "### Options and types", ...options];
}

/** Whether a symbol is a class, whose interface says no more than what it is written in. */
export function isClass({ declarations }: Symbol): boolean {
  return declarations.some((d) => d.kind === "class");
}

function samePlace(a: Place, b: Place | undefined): boolean {
  return b !== undefined && a.filename === b.filename && a.byteIndex === b.byteIndex;
}

/** What modules of the project declare, by module. */
export async function declarationsOf(modules: readonly string[]): Promise<Map<string, readonly Symbol[]>> {
  const { code, stdout, stderr } = await runDeno(["doc", "--json", ...modules]);
  if (code !== 0) throw new Error(`deno doc fails: ${stderr}`);
  const nodes: Record<string, { symbols: Symbol[] }> = JSON.parse(stdout).nodes;
  return new Map(modules.map((m) => [m, nodes[new URL(m, ROOT).href].symbols]));
}

/** The names that a module exports, in order: constants, those in braces, and all types of another module. */
export function exportedNames(module: string): string[] {
  const url = new URL(module, ROOT), text = Deno.readTextFileSync(url);
  const forms = /^export (?:const (\w+)|(?:type )?(?:\{([^}]*)\}|\* from "([^"]+)"))/gm;
  return [...text.matchAll(forms)].flatMap(([, constant, names, from]) =>
    constant !== undefined
      ? [constant]
      : names === undefined
      ? exportedNames(new URL(from, url).pathname.slice(ROOT.pathname.length))
      : names.split(",").map((n) => n.trim().replace(/^type /, "").replace(/^.* as /, "")).filter((n) => n !== "")
  );
}

/** A page as the formatter writes it. */
export async function formatted(lines: readonly string[]): Promise<string> {
  const file = await Deno.makeTempFile({ suffix: ".md" });
  try {
    await Deno.writeTextFile(file, lines.join("\n") + "\n");
    const done = await runDeno(["fmt", "-q", "--line-width", "120", file]);
    if (done.code !== 0) throw new Error(`deno fmt fails: ${done.stderr}`);
    return await Deno.readTextFile(file);
  } finally {
    await Deno.remove(file);
  }
}
