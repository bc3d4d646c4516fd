/**
 * A chat with a language model in the terminal; without a model the one of the examples tells children's stories.
 *
 *     deno task chat
 *     deno task chat model.gguf --device CLANG --temperature 0.7
 *     deno task chat --prompt "Once upon a time" --seed 1
 *     deno task chat https://example.org/model.gguf --sha256 0123...
 *
 * Options: --prompt TEXT goes on with a text and ends, --system TEXT, --device D, --context N, --max-tokens N (256),
 * --temperature T (0), --top-k N, --top-p P, --min-p P, --repetition-penalty X, --seed N, --stats tells tokens a second,
 * --sha256 HEX is what a file from a server must have. Such a file is kept in the cache folder.
 * In the chat: /reset forgets the conversation, /quit ends, Ctrl-C stops an answer.
 */
import { parseArgs } from "@std/cli/parse-args";
import { Device } from "../mod.ts";
import { type ChatMessage, type GenerateOptions, LanguageModel, type Piece, type Usage } from "../src/llm/llm.ts";
import { told } from "./loading_support.ts";

const TEXTS = [
  "prompt",
  "system",
  "device",
  "context",
  "max-tokens",
  "temperature",
  "top-k",
  "top-p",
  "min-p",
  "repetition-penalty",
  "seed",
  "sha256",
];
const args = parseArgs(Deno.args, { string: TEXTS, boolean: ["stats"], strict: true }) as
  & Record<string, string | undefined>
  & {
    _: string[];
    stats: boolean;
  };
const number = (name: string): number | undefined => args[name] === undefined ? undefined : Number(args[name]);
const path = args._[0] === undefined ? new URL("models/stories260K.gguf", import.meta.url) : String(args._[0]);
const encoder = new TextEncoder();

function write(text: string): void {
  const bytes = encoder.encode(text);
  for (let n = 0; n < bytes.length;) n += Deno.stdout.writeSync(bytes.subarray(n));
}

/** Only what was given. */
function options(signal: AbortSignal): GenerateOptions {
  const all = {
    maxTokens: number("max-tokens") ?? 256,
    temperature: number("temperature"),
    topK: number("top-k"),
    topP: number("top-p"),
    minP: number("min-p"),
    repetitionPenalty: number("repetition-penalty"),
    seed: number("seed"),
    signal,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** Writes pieces as they come; Ctrl-C stops them. Gives the text. */
async function show(make: (signal: AbortSignal) => AsyncGenerator<Piece, Usage>): Promise<string> {
  const stop = new AbortController(), abort = () => stop.abort();
  Deno.addSignalListener("SIGINT", abort);
  let text = "";
  try {
    const pieces = make(stop.signal);
    for (;;) {
      const { done, value } = await pieces.next();
      if (!done) {
        write(value.text);
        text += value.text;
        continue;
      }
      write("\n");
      const { promptTokens, cachedTokens, completionTokens, promptMs, completionMs } = value;
      const rate = (n: number, ms: number) => ms > 0 ? `${(n / ms * 1000).toFixed(1)} tokens/s` : "";
      if (args.stats) {
        console.error(
          `read ${promptTokens - cachedTokens} of ${promptTokens} tokens, ${
            rate(promptTokens - cachedTokens, promptMs)
          }; ` +
            `wrote ${completionTokens}, ${rate(Math.max(0, completionTokens - 1), completionMs)}`,
        );
      }
      return text;
    }
  } finally {
    Deno.removeSignalListener("SIGINT", abort);
  }
}

if (args.device !== undefined) Device.default = args.device;
const context = number("context"), asked = { ...told(args.sha256), ...context === undefined ? {} : { context } };
const model = await LanguageModel.load(path, asked);
if (args.prompt !== undefined) {
  write(args.prompt);
  await show((signal) => model.generate(args.prompt!, options(signal)));
  Deno.exit(0);
}
const { layers, dim, architecture } = model.spec;
console.log(
  `${model.name}: ${architecture}, ${layers} layers of ${dim}, on ${model.decoder.device}. /reset, /quit, Ctrl-C stops an answer.`,
);
const system: ChatMessage[] = args.system === undefined ? [] : [{ role: "system", content: args.system }];
let history = [...system];
for (;;) {
  const line = prompt(">");
  if (line === null || line.trim() === "/quit") break;
  if (line.trim() === "/reset") {
    history = [...system];
    continue;
  }
  if (line.trim() === "") continue;
  history.push({ role: "user", content: line });
  try {
    history.push({ role: "assistant", content: await show((signal) => model.chat(history, options(signal))) });
  } catch (error) {
    history.pop();
    console.error((error as Error).message);
  }
}
