/**
 * What `renderChat` makes of small templates and of those in llama.cpp's tree, beside Python's jinja2:
 * `deno run -A tests/llm/chat_renderings.ts` renders all by both, where python3 has jinja2; `--write` also writes what
 * the suite reads, fixtures/renderings.json.
 *
 * @module
 */
import { packageFolder } from "../../examples/web/npm_package.ts";
import { renderChat, timeText } from "../../src/llm/text/chat_template.ts";
import { type ChatValues, conversation, CONVERSATIONS } from "./conversations.ts";
import { CASE_VALUES, CASES } from "./template_cases.ts";

const FIXTURE = new URL("fixtures/renderings.json", import.meta.url);

/** What templates make: of each small one its text, of each of a model a word for each conversation. */
export interface Renderings {
  readonly cases: readonly (string | null)[];
  readonly models: Readonly<Record<string, readonly string[]>>;
}

/** What the suite compares with. */
export async function wanted(): Promise<Renderings> {
  return JSON.parse(await Deno.readTextFile(FIXTURE));
}

/** The templates of llama.cpp's tree, which npm's `node-llama-cpp` (MIT) holds. Throws where it cannot be had. */
export async function modelTemplates(): Promise<Map<string, string>> {
  const folder = await packageFolder("node-llama-cpp@3.22.1"), out = `${folder}/templates`;
  if (!(await Deno.stat(`${out}/models/templates`).then(() => true, () => false))) {
    const script = `git clone -q --bare llama/gitRelease.bundle llama.git && mkdir -p templates &&
      git --git-dir llama.git archive HEAD models/templates | tar x -C templates && rm -rf llama.git`;
    const { success, stderr } = await new Deno.Command("sh", { args: ["-ec", script], cwd: folder }).output();
    if (!success) throw new Error(`the templates were not unpacked: ${new TextDecoder().decode(stderr)}`);
  }
  const names = [...Deno.readDirSync(`${out}/models/templates`)].map((f) => f.name).filter((n) => n.endsWith(".jinja"));
  return new Map(names.sort().map((name) => [name, Deno.readTextFileSync(`${out}/models/templates/${name}`)]));
}

/** A short name for a text, FNV-1a of its characters; "refused" where there is none. */
export function wordOf(text: string | null): string {
  if (text === null) return "refused";
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return (h >>> 0).toString(36);
}

/** What we render; null where the template refuses it. The time stands still. */
export async function rendered(template: string, values: ChatValues): Promise<string | null> {
  const { messages, ...rest } = values, strftime_now = (form: string) => timeText(new Date(2024, 6, 6, 15, 4, 5), form);
  const text = renderChat(messages as Parameters<typeof renderChat>[0], template, { ...rest, strftime_now });
  return await text.catch((error: Error) => {
    if (/could not be loaded/.test(error.message)) throw error;
    return null;
  });
}

/** All questions: a template, and what it is given. */
export function questions(models: ReadonlyMap<string, string>): [string, ChatValues][] {
  const chats = Array.from({ length: CONVERSATIONS }, (_, i) => conversation(i));
  return [
    ...CASES.map((template): [string, ChatValues] => [template, { ...CASE_VALUES, messages: [] }]),
    ...[...models.values()].flatMap((template) => chats.map((chat): [string, ChatValues] => [template, chat])),
  ];
}

/** What jinja2 renders. */
async function oracle(asked: readonly (readonly [string, ChatValues])[]): Promise<readonly [string | null, string?][]> {
  const args = [new URL("chat_oracle.py", import.meta.url).pathname];
  const python = new Deno.Command("python3", { args, stdin: "piped", stdout: "piped" }).spawn();
  const writer = python.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(asked)));
  await writer.close();
  return JSON.parse(new TextDecoder().decode((await python.output()).stdout));
}

async function main(): Promise<void> {
  const models = await modelTemplates(), asked = questions(models), answers = await oracle(asked);
  let differ = 0;
  for (const [i, [template, values]] of asked.entries()) {
    const got = await rendered(template, values), [want, why] = answers[i];
    if (got === want) continue;
    differ++;
    console.log(
      `${JSON.stringify(template.slice(0, 200))}\n  ${JSON.stringify(got)}\n  ${JSON.stringify(want)} ${why ?? ""}`,
    );
  }
  console.log(`${asked.length} renderings, ${differ} differ`);
  if (!Deno.args.includes("--write")) return;
  const words = answers.slice(CASES.length).map(([text]) => wordOf(text));
  const lines = [...models.keys()].map((name, i) =>
    `${JSON.stringify(name)}:${JSON.stringify(words.slice(i * CONVERSATIONS, (i + 1) * CONVERSATIONS))}`
  );
  const cases = JSON.stringify(answers.slice(0, CASES.length).map(([text]) => text));
  await Deno.writeTextFile(FIXTURE, `{"cases":${cases},"models":{\n${lines.join(",\n")}\n}}\n`);
}

if (import.meta.main) await main();
