/**
 * Writes docs/env.md from the table of context variables: `deno run -A bench/env_docs.ts`. A test compares the two.
 *
 * @module
 */
import { CONTEXT_VARS } from "../mod.ts";

const LEVELS: readonly (readonly [string, string])[] = [
  [
    "1",
    "each device as it opens; what each schedule came to, from how many nodes, and its memory; compiling; captures",
  ],
  [
    "2",
    "a line for each kernel, copy and fill as it ends: device, number, name, arguments, memory in use, its time / the time so far, GFLOP/s, GB/s, its share of the device's roofline, and the line of your program. Replays of `jit` run kernel by kernel, too. After compiling: which part of the time of code generation each pass took",
  ],
  ["3", "the opts applied to each kernel, and its buffers"],
  ["4", "each kernel once: its AST as a tree, and the source generated for it"],
  ["5", "its linear UOps"],
  ["6", "every rewrite: pass, rule, from, to"],
];

const TABLE = new URL("../src/helpers/env.ts", import.meta.url);
let source: string | undefined;

/** What stands above a variable in the table, as the end of a sentence. @throws {Error} where nothing does */
export function meaningOf(name: string): string {
  source ??= Deno.readTextFileSync(TABLE);
  const m = new RegExp(`\\/\\*\\*((?:(?!\\*\\/)[^])*)\\.\\s*\\*\\/\\s+${name}: \\{`).exec(source);
  if (m === null) throw new Error(`${name} has no comment in src/helpers/env.ts that ends with a full stop`);
  const text = m[1].replace(/\s*\n\s*\* ?/g, " ").trim();
  return text[0].toLowerCase() + text.slice(1);
}

/** The text of docs/env.md, before `deno fmt` wraps its lines. */
export function envDocs(): string {
  const rows = Object.entries(CONTEXT_VARS).map(([name, v]) => {
    const value = v.value === "" ? "" : ` (\`${v.value}\`)`;
    return `- **\`${name}\`**${value}: ${meaningOf(name)}${"early" in v ? "; read when a device opens" : ""}.`;
  });
  return `# Context variables

<!-- Generated from src/helpers/env.ts by \`deno run -A bench/env_docs.ts\`. -->

Set them in the environment (\`DEBUG=2 deno run -A program.ts\`), or for a part of a program:

\`\`\`ts
import { context, Tensor } from "../mod.ts";

context({ NOOPT: 1, DEBUG: 0 }, () => Tensor.ones([4]).mul(2).realize());
\`\`\`

\`context\` sets them for the function and all that it awaits, and for nothing that runs beside it (an async function needs
Deno, Node or Bun; browsers cannot tell it from others). The environment is read
where that is permitted already (\`--allow-env\`), never with a prompt; a variable that cannot be read has its default.

With its default in parentheses, what each is for:

${rows.join("\n")}

## DEBUG

Everything goes to standard error. Each level prints what those before it print, and:

${LEVELS.map(([level, text]) => `${level}. ${text}.`).join("\n")}

The roofline is what the device reached in a matrix product and in one pass over memory beyond its caches, measured when
the first kernel is printed. A kernel whose data stays in caches can pass 100 %.
`;
}

const PAGE = new URL("../docs/env.md", import.meta.url);

if (import.meta.main) {
  await Deno.writeTextFile(PAGE, envDocs());
  const { code } = await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", PAGE.pathname] }).output();
  Deno.exit(code);
}
