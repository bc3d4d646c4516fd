/**
 * Conversations to texts: the template that a model's file has, in Jinja. The one third-party package of the library
 * renders it, `@huggingface/jinja` (MIT, no dependencies of its own), which is loaded when a template is first used;
 * models without a template need nothing. Where it differs from Python's jinja2, `template_interpreter.ts` mends it.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { interpreterOf, type Jinja, parsed, type TemplateNode } from "./template_interpreter.ts";
import type { Scope, Value } from "./template_values.ts";

/** A message of a conversation. */
export interface ChatMessage {
  /** "system", "user" or "assistant", or what else the template knows. */
  readonly role: string;
  /** What was said. */
  readonly content: string;
  /** Calls of tools that the model asked for. */
  readonly tool_calls?: readonly {
    readonly id: string;
    readonly type: "function";
    readonly function: { readonly name: string; readonly arguments: unknown };
  }[];
  /** Which call a message of the role "tool" answers. */
  readonly tool_call_id?: string;
  /** The name of the tool. */
  readonly name?: string;
}

/** A function that a model may call. */
export interface Tool {
  /** Always "function". */
  readonly type: "function";
  /** Its name, what it does, and a JSON schema of its arguments. */
  readonly function: { readonly name: string; readonly description?: string; readonly parameters?: unknown };
}

/** The package. */
export const JINJA: string = "npm:@huggingface/jinja@0.5.11";
/** Its name where packages have no prefix. */
const ELSEWHERE = "@huggingface/jinja";

/** What a template may take: it comes with a model, from anywhere. Real ones take some hundred steps a message. */
const STEPS = 400_000, STEPS_OF_MESSAGE = 10_000, DEPTH = 500, MOST_TEXT = 1 << 26, MOST_ELEMENTS = 1 << 20;

let loaded: Promise<Jinja> | undefined;

function loadJinja(): Promise<Jinja> {
  const name = "Deno" in globalThis ? JINJA : ELSEWHERE;
  loaded ??= (import(name) as Promise<Jinja>).catch((error: unknown) => {
    loaded = undefined;
    throw new ArgumentError("render the model's chat template", {
      reason: `${name} could not be loaded (${
        (error as Error).message
      }); allow the import once, or give texts instead of messages`,
    });
  });
  return loaded;
}

function checkMessages(messages: readonly ChatMessage[]): void {
  const isMessage = (m: unknown) => typeof (m as ChatMessage | null)?.role === "string";
  if (Array.isArray(messages) && messages.every(isMessage)) return;
  throw new ArgumentError("render a conversation", {
    reason: `messages are a list as [{ role: "user", content: "..." }]; give a text alone to generate or complete`,
  });
}

const pad2 = (n: number): string => String(n).padStart(2, "0");

/** The time as `strftime` writes it. */
export function timeText(date: Date, format: string): string {
  const month = (month: "short" | "long") => date.toLocaleString("en-US", { month });
  const weekday = (weekday: "short" | "long") => date.toLocaleString("en-US", { weekday });
  const dayOfYear = () =>
    Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - Date.UTC(date.getFullYear(), 0, 0);
  const parts: Readonly<Record<string, () => string>> = {
    Y: () => String(date.getFullYear()),
    m: () => pad2(date.getMonth() + 1),
    d: () => pad2(date.getDate()),
    H: () => pad2(date.getHours()),
    M: () => pad2(date.getMinutes()),
    S: () => pad2(date.getSeconds()),
    y: () => pad2(date.getFullYear() % 100),
    I: () => pad2(date.getHours() % 12 || 12),
    p: () => date.getHours() < 12 ? "AM" : "PM",
    j: () => String(dayOfYear() / 86400e3).padStart(3, "0"),
    a: () => weekday("short"),
    A: () => weekday("long"),
    b: () => month("short"),
    B: () => month("long"),
    "%": () => "%",
  };
  return format.replace(/%(.)/g, (whole, c: string) => Object.hasOwn(parts, c) ? parts[c]() : whole);
}
function range(from: number, to?: number, step = 1): number[] {
  const [begin, end] = to === undefined ? [0, from] : [from, to], n = Math.ceil((end - begin) / step);
  if (step === 0 || Number.isNaN(n)) throw new Error("range takes numbers, and a step other than 0");
  if (n > MOST_ELEMENTS) throw new Error(`range has ${n} elements, more than ${MOST_ELEMENTS}`);
  return Array.from({ length: Math.max(0, n) }, (_, i) => begin + i * step);
}
const GLOBALS: Readonly<Record<string, unknown>> = {
  ...{ true: true, True: true, false: false, False: false, none: null, None: null, range },
  raise_exception: (text: unknown): never => {
    throw new Error(String(text));
  },
  strftime_now: (format: string): string => timeText(new Date(), format),
};

/** What a template makes of values. It ends: by itself, or by an error after `limit` steps. */
function rendered(jinja: Jinja, template: string, values: Readonly<Record<string, unknown>>, limit: number): string {
  const { Environment } = jinja, environment = new Environment(), Interpreter = interpreterOf(jinja);
  let steps = 0, depth = 0;
  class Counted extends Interpreter {
    override evaluate(node: TemplateNode, scope: Scope): Value {
      if (++steps > limit) throw new Error(`it has not ended after ${limit} steps`);
      if (++depth > DEPTH) throw new Error(`it is nested more than ${DEPTH} deep`);
      let result: Value;
      try {
        result = super.evaluate(node, scope);
      } finally {
        depth--;
      }
      const { value } = result;
      // loops without a body take steps, too
      if (Array.isArray(value)) steps += value.length;
      if (
        typeof value === "string" && value.length > MOST_TEXT || Array.isArray(value) && value.length > MOST_ELEMENTS
      ) {
        throw new Error(`it makes a value of ${value.length} elements`);
      }
      return result;
    }
  }
  for (const [name, value] of Object.entries({ ...GLOBALS, ...values })) environment.set(name, value);
  return String(new Counted(environment).run(parsed(jinja, template)).value);
}

/**
 * The text of a conversation. Without a template the contents stand one after the other. A template comes with a model,
 * from anywhere: one that does not end, or makes too much text, is stopped.
 *
 * @throws {ArgumentError} where the template refuses the messages, or cannot be rendered
 */
export async function renderChat(
  messages: readonly ChatMessage[],
  template: string | undefined,
  values: Readonly<Record<string, unknown>>,
): Promise<string> {
  checkMessages(messages);
  if (template === undefined) return messages.map((m) => m.content).join("\n");
  const jinja = await loadJinja(), limit = STEPS + STEPS_OF_MESSAGE * messages.length;
  try {
    return rendered(jinja, template, { messages, add_generation_prompt: true, ...values }, limit);
  } catch (error) {
    throw new ArgumentError("render the model's chat template", { reason: (error as Error).message });
  }
}
