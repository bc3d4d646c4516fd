/**
 * `deno task docs`: the documentation as a static site in dist/docs, of docs/*.md, README.md and bench/README.md. In: the
 * pages. Out: HTML with a search in the page and examples that run there; nothing is fetched from elsewhere. `--check`
 * writes nothing and tells of broken links, anchors and examples; `--serve` shows the site at a port of this machine;
 * `--out FOLDER` writes elsewhere.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { escapeHtml } from "../../src/helpers/text.ts";
import { anchorOf } from "../pages/tensor_page.ts";
import { ROOT, runDeno } from "../system/subprocess.ts";
import type { Entry } from "./client.ts";
import { bodyOf, type Transform } from "./runner.ts";

/** What the site is made with, fetched only for that: it reads Markdown, and takes types off in the page. */
const MARKDOWN = "npm:marked@16.3.0", TYPES_OFF = "npm:sucrase@3.35.0";

/** The pages by group, in the order of the menu: file and title. What is not here comes last. */
const GROUPS: readonly (readonly [group: string, pages: readonly string[]])[] = [
  ["Start", ["index", "quickstart", "coming", "running", "npm", "devices"]],
  ["Guides", [
    "numbers",
    "complex",
    "transforms",
    "jit",
    "memory",
    "nn",
    "training",
    "state",
    "servers",
    "tuning",
    "watching",
  ]],
  ["Reference", ["tensor", "reference", "env", "coverage"]],
  ["Inside", ["design", "pipeline", "inside", "extending", "contributing", "bench"]],
];

/** A page: its name in the site, its file in the project, and its text. */
interface Page {
  readonly name: string;
  readonly file: string;
  readonly title: string;
  readonly text: string;
}

/** A token of the Markdown library, as far as it is used. */
interface Token {
  readonly type: string;
  readonly text: string;
  readonly depth?: number;
  readonly lang?: string;
  readonly href?: string;
  readonly tokens?: Token[];
}
interface Renderer {
  readonly parser: { parseInline(tokens: Token[]): string };
}
interface Marked {
  use(extension: { renderer: Record<string, (this: Renderer, token: Token) => string | false> }): void;
  parse(text: string): string;
  lexer(text: string): Token[];
}

/** All pages of the project. */
export function pagesOf(): Page[] {
  const found: [name: string, file: string][] = [["index", "README.md"], ["bench", "bench/README.md"]];
  for (const { name } of Deno.readDirSync(new URL("docs/", ROOT))) {
    if (name.endsWith(".md") && name !== "README.md") found.push([name.slice(0, -3), `docs/${name}`]);
  }
  const order = GROUPS.flatMap(([, pages]) => pages);
  const place = (name: string) => order.indexOf(name) + 1 || Infinity;
  return found.sort(([a], [b]) => place(a) - place(b) || (a < b ? -1 : 1)).map(([name, file]) => {
    const text = Deno.readTextFileSync(new URL(file, ROOT));
    return { name, file, title: /^# (.*)$/m.exec(text)![1], text };
  });
}

/** Code with spans for comments, strings and words of the language. */
function colored(code: string): string {
  const token =
    /(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|\b(import|from|export|const|let|for|of|if|else|return|async|await|new|function|class|extends|type|interface|using|throw|try|catch|readonly|void)\b/g;
  let out = "", at = 0;
  for (const m of code.matchAll(token)) {
    out += escapeHtml(code.slice(at, m.index)) +
      `<span class="${m[1] ? "c" : m[2] ? "s" : "k"}">${escapeHtml(m[0])}</span>`;
    at = m.index + m[0].length;
  }
  return out + escapeHtml(code.slice(at));
}

/** Whether an example runs in a page: it is whole, needs the library alone, and no Deno. */
export function isRunnable(page: string, lang: string, code: string): boolean {
  if (
    /\bDeno\.|\.\.\/ir\.ts|^\s*\/\/ Deno|\.(?:clang|cuda|webgpu)\(\)|safeSave\(|safeLoad\(|from "https:/m.test(code)
  ) return false;
  if (page === "tensor") return lang === "ts ignore";
  return lang === "ts" && page !== "pipeline" && !/from "\.\.?\/(?!mod\.ts|\.\.\/mod\.ts)/.test(code);
}

/** Where a link leads: a page of the site with an anchor, elsewhere, or undefined for what the site does not have. */
function linkOf(
  from: Page,
  href: string,
  pages: readonly Page[],
): { page?: Page; anchor: string; href: string } | undefined {
  if (/^https?:/.test(href)) return { anchor: "", href };
  const [path, anchor = ""] = href.split("#");
  const file = path === "" ? from.file : new URL(path, new URL(from.file, ROOT)).href.slice(ROOT.href.length);
  const page = pages.find((p) => p.file === file || file === "docs/README.md" && p.name === "index");
  return page && { page, anchor, href: `${page.name}.html${anchor === "" ? "" : `#${anchor}`}` };
}

/** Anchors of a page in order of its headings: the second of a name has a number. */
function anchorsOf(titles: readonly string[]): string[] {
  const seen = new Map<string, number>();
  return titles.map((title) => {
    const anchor = anchorOf(title), count = seen.get(anchor) ?? 0;
    seen.set(anchor, count + 1);
    return count === 0 ? anchor : `${anchor}-${count}`;
  });
}

function headings(tokens: readonly Token[]): Token[] {
  return tokens.filter((t) => t.type === "heading");
}
const bare = (text: string): string => text.replace(/[`*]/g, "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");

function menuOf(current: Page, pages: readonly Page[]): string {
  const listed = new Set(GROUPS.flatMap(([, names]) => names));
  const groups = [...GROUPS, ["More", pages.map((p) => p.name).filter((n) => !listed.has(n))] as const];
  return groups.map(([group, names]) => {
    const items = names.flatMap((n) => pages.filter((p) => p.name === n)).map((p) =>
      `<li><a href="${p.name}.html"${p === current ? ' aria-current="page"' : ""}>${escapeHtml(p.title)}</a></li>`
    );
    return items.length === 0 ? "" : `<h2>${group}</h2><ul>${items.join("")}</ul>`;
  }).join("");
}

/** The site: files by name, but for the bundles; and what is wrong with it. */
export interface Site {
  readonly files: Readonly<Record<string, string>>;
  readonly wrong: readonly string[];
  /** How many examples run in it. */
  readonly examples: number;
}

/** Makes all pages. @throws where the Markdown library cannot be fetched */
export async function makeSite(pages: readonly Page[] = pagesOf()): Promise<Site> {
  const { Marked } = await import(MARKDOWN) as { Marked: new () => Marked };
  const { transform } = await import(TYPES_OFF) as { transform: Transform };
  const lexer = new Marked(), wrong: string[] = [], files: Record<string, string> = {}, entries: Entry[] = [];
  const anchors = new Map(pages.map((p) => [p, anchorsOf(headings(lexer.lexer(p.text)).map((t) => bare(t.text)))]));
  let examples = 0;
  for (const page of pages) {
    const marked = new Marked(), own = [...anchors.get(page)!];
    marked.use({
      renderer: {
        heading({ tokens = [], depth = 1 }) {
          const anchor = own.shift()!, text = this.parser.parseInline(tokens);
          return `<h${depth} id="${anchor}"><a href="#${anchor}">${text}</a></h${depth}>\n`;
        },
        code({ text, lang = "" }) {
          const shown = lang.startsWith("ts") || lang.startsWith("js") ? colored(text) : escapeHtml(text);
          if (!isRunnable(page.name, lang, text)) return `<pre><code>${shown}</code></pre>\n`;
          examples++;
          try {
            new Function(`return async () => {${bodyOf(text, transform)}}`);
          } catch (error) {
            wrong.push(`${page.file}: an example cannot be read: ${(error as Error).message}\n${text}`);
          }
          return `<div class="snippet"><pre><code>${shown}</code></pre></div>\n`;
        },
        image({ href = "", text }) {
          const name = href.split("/").at(-1)!;
          if (!exists(new URL(href, new URL(page.file, ROOT)))) {
            wrong.push(`${page.file} shows ${href}, which is not there`);
          }
          if (name.endsWith(".svg")) {
            try {
              files[name] = Deno.readTextFileSync(new URL(href, new URL(page.file, ROOT)));
            } catch { /* told of with all links that lead nowhere */ }
          }
          return `<img src="${escapeHtml(name.endsWith(".svg") ? name : href)}" alt="${escapeHtml(text)}">`;
        },
        link({ href = "", tokens = [] }) {
          const found = linkOf(page, href, pages), written = this.parser.parseInline(tokens);
          if (found === undefined) return written;
          const text = found.page && /^[\w./]+\.md$/.test(written) ? escapeHtml(found.page.title) : written;
          if (found.anchor !== "" && found.page && !anchors.get(found.page)!.includes(found.anchor)) {
            wrong.push(`${page.file} links to ${href}: ${found.page.file} has no heading of that name`);
          }
          return `<a href="${escapeHtml(found.href)}">${text}</a>`;
        },
      },
    });
    const body = marked.parse(page.text).replace(/<table>/g, '<div class="table"><table>').replace(
      /<\/table>/g,
      "</table></div>",
    );
    files[`${page.name}.html`] = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(page.title === "dinograd" ? "dinograd" : `${page.title} · dinograd`)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="site.css">
<header><a href="index.html">dinograd</a><input id="search" type="search" placeholder="Search  /" aria-label="search">
<button id="theme" title="light or dark">◐</button></header>
<div id="found" hidden></div>
<div class="columns"><nav><details open><summary>☰ Pages</summary>${menuOf(page, pages)}</details></nav>
<main>
${body}</main></div>
<script type="module" src="site.js"></script>
</html>
`;
    entries.push(...entriesOf(page, lexer.lexer(page.text), anchors.get(page)!));
    for (const [, target] of page.text.replace(/^```.*?^```$/gms, "").matchAll(/\]\((?!https?:|#)([^)#]+)[^)]*\)/g)) {
      try {
        Deno.statSync(new URL(target, new URL(page.file, ROOT)));
      } catch {
        wrong.push(`${page.file} links to ${target}, which is not there`);
      }
    }
  }
  files["search.json"] = JSON.stringify(entries);
  for (const [name, text] of Object.entries(files)) {
    if (/(?:src|srcset)="(?:https?:)?\/\/|<link[^>]+href="(?:https?:)?\/\//.test(text)) {
      wrong.push(`${name} fetches from elsewhere`);
    }
  }
  return { files, wrong, examples };
}

/** What can be found on a page: its headings with the beginning of what stands below them. */
function entriesOf(page: Page, tokens: readonly Token[], anchors: readonly string[]): Entry[] {
  const out: { page: string; anchor: string; title: string; text: string }[] = [];
  let at = 0;
  for (const { type, text, depth } of tokens) {
    if (type === "heading") {
      out.push({ page: page.name, anchor: depth === 1 ? "" : anchors[at], title: bare(text), text: "" });
    }
    if (type === "heading") at++;
    else if (/^(?:paragraph|text|list|table)$/.test(type) && out.length > 0 && text !== undefined) {
      const entry = out.at(-1)!;
      if (entry.text.length < 300) entry.text = `${entry.text} ${bare(text)}`.trim().slice(0, 300);
    }
  }
  return out;
}

function exists(file: URL): boolean {
  try {
    return Deno.statSync(file).isFile;
  } catch {
    return false;
  }
}

async function bundle(entry: string, to: string): Promise<void> {
  const args = ["bundle", "--quiet", "--no-lock", "--minify", "--platform", "browser", "-o", to, entry];
  const { code, stderr } = await runDeno(args, { timeoutMs: 200_000 });
  if (code !== 0) throw new Error(`deno bundle of ${entry} fails: ${stderr}`);
}

/** Writes the site to a folder. */
export async function writeSite(folder: string, { files }: Site): Promise<void> {
  await Deno.mkdir(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${folder}/${name}`, text);
  await Deno.copyFile(new URL("site.css", import.meta.url), `${folder}/site.css`);
  const pictures = new URL("docs/pictures/", ROOT);
  await Deno.mkdir(`${folder}/pictures`, { recursive: true });
  for (const { name } of Deno.readDirSync(pictures)) {
    await Deno.copyFile(new URL(name, pictures), `${folder}/pictures/${name}`);
  }
  await bundle("mod.ts", `${folder}/dinograd.js`);
  await bundle("tests/site/client.ts", `${folder}/site.js`);
  await bundle("tests/site/runner.ts", `${folder}/runner.js`);
  const entry = `${folder}/sucrase_entry.js`;
  await Deno.writeTextFile(entry, `export { transform } from "${TYPES_OFF}";\n`);
  await bundle(entry, `${folder}/sucrase.js`);
  await Deno.remove(entry);
}

if (import.meta.main) {
  const args = parseArgs(Deno.args, { boolean: ["check", "serve"], string: ["out"] });
  const folder = args.out ?? new URL("dist/docs", ROOT).pathname;
  const site = await makeSite().catch((error: Error) => {
    console.log(`nothing was made: what the site is made with cannot be fetched: ${error.message.split("\n")[0]}`);
    Deno.exit(args.check ? 0 : 1);
  });
  const pages = Object.keys(site.files).length - 1;
  for (const line of site.wrong) console.error(line);
  if (!args.check) await writeSite(folder, site);
  console.log(
    `${pages} pages, ${site.examples} examples that run, ${site.wrong.length} broken${args.check ? "" : `: ${folder}`}`,
  );
  if (args.serve) {
    const types: Record<string, string> = {
      html: "text/html",
      css: "text/css",
      js: "text/javascript",
      json: "application/json",
    };
    Deno.serve({ hostname: "127.0.0.1", port: 8000 }, async (request) => {
      const { pathname } = new URL(request.url), name = /^\/([\w.]*)$/.exec(pathname)?.[1] || "index.html";
      const body = await Deno.readFile(`${folder}/${name}`).catch(() => undefined);
      return new Response(body ?? "not here", {
        status: body === undefined ? 404 : 200,
        headers: { "content-type": types[name.split(".").at(-1)!] ?? "text/plain" },
      });
    });
  } else if (site.wrong.length > 0) Deno.exit(1);
}
