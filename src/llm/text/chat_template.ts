/**
 * Conversations to texts: the template that a model's file has, in Jinja. The one third-party package of the library
 * renders it, `@huggingface/jinja` (MIT, no dependencies of its own), which is loaded when a template is first used;
 * models without a template need nothing.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";

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

/** The package, and its name where packages have no prefix. */
const JINJA: string = "npm:@huggingface/jinja@0.5.11", ELSEWHERE: string = "@huggingface/jinja";

/** What is used of the package. */
interface Jinja {
  readonly Template: new (text: string) => { render(values: Readonly<Record<string, unknown>>): string };
}

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

/**
 * The text of a conversation. Without a template the contents stand one after the other.
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
  const { Template } = await loadJinja();
  try {
    return new Template(template).render({
      messages,
      add_generation_prompt: true,
      ...values,
    });
  } catch (error) {
    throw new ArgumentError("render the model's chat template", { reason: (error as Error).message });
  }
}
