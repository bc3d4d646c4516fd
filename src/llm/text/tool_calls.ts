/**
 * Calls of tools in a model's answer. How a model writes them is seen in its template: a conversation with a call is
 * rendered, and what stands around the call is the form. Models whose template knows no tools are told of them in a
 * message, and write calls as many do: <tool_call>{"name": ..., "arguments": ...}</tool_call>.
 *
 * @module
 */
import { type ChatMessage, renderChat, type Tool } from "./chat_template.ts";

/** How calls are written. */
export interface ToolForm {
  /** What stands before the object of a call, and behind it. */
  readonly prefix: string;
  readonly suffix: string;
  /** The keys of the name and the arguments. */
  readonly nameKey: string;
  readonly argumentsKey: string;
  /** Whether the template tells the model of the tools. */
  readonly inTemplate: boolean;
}

/** A call that a model wrote. */
export interface ToolCall {
  readonly name: string;
  /** JSON; where the answer was cut off in it, its beginning. */
  readonly arguments: string;
  /** Present where the answer was cut off in it. */
  readonly cut?: true;
}

const DEFAULT: ToolForm = {
  prefix: "<tool_call>\n",
  suffix: "\n</tool_call>",
  nameKey: "name",
  argumentsKey: "arguments",
  inTemplate: false,
};
const NAME = "probe_name", KEY = "probe_key", VALUE = "probe_value";
const PROBE: Tool = {
  type: "function",
  function: { name: NAME, description: "", parameters: { type: "object", properties: { [KEY]: { type: "string" } } } },
};

/** Where a JSON object ends, of a text that grows: each letter is looked at once. */
class ObjectEnd {
  private at: number;
  private depth = 0;
  private quoted = false;
  constructor(readonly start: number) {
    this.at = start;
  }
  /** The end in the text so far; undefined where the object is not complete. */
  in(text: string): number | undefined {
    for (; this.at < text.length; this.at++) {
      const c = text[this.at];
      if (this.quoted) {
        if (c === "\\") this.at++;
        else if (c === '"') this.quoted = false;
      } else if (c === '"') this.quoted = true;
      else if (c === "{") this.depth++;
      else if (c === "}" && --this.depth === 0) return this.at + 1;
    }
    return undefined;
  }
}
/** The end of the JSON object that begins at `at`; undefined where it is not complete. */
function endOfObject(text: string, at: number): number | undefined {
  return new ObjectEnd(at).in(text);
}
/** A text as part of a regular expression. */
function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

/** The form that stands in a text with the probe's call behind `from`. */
function formIn(text: string, from: number): Omit<ToolForm, "inTemplate"> | undefined {
  for (let at = text.indexOf("{", from); at >= 0; at = text.indexOf("{", at + 1)) {
    const end = endOfObject(text, at), found = end === undefined ? undefined : parse(text.slice(at, end));
    const nameKey = Object.keys(found ?? {}).find((k) => found![k] === NAME);
    const argumentsKey = Object.keys(found ?? {}).find((k) => JSON.stringify(found![k]).includes(VALUE));
    if (nameKey === undefined || argumentsKey === undefined) continue;
    const prefix = text.slice(from, at), [suffix] = text.slice(end).split(/<\|?(?!\/?tool)[^<>]*\|?>|\n\n/, 1);
    return { prefix: prefix.trimStart(), suffix: suffix.trimEnd(), nameKey, argumentsKey };
  }
  return undefined;
}
function parse(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

/** The form of a template. */
export async function toolFormOf(
  template: string | undefined,
  values: Readonly<Record<string, unknown>>,
): Promise<ToolForm> {
  if (template === undefined) return DEFAULT;
  const user: ChatMessage = { role: "user", content: "question" };
  const call: ChatMessage = {
    role: "assistant",
    content: "",
    tool_calls: [{ id: "call00000", type: "function", function: { name: NAME, arguments: { [KEY]: VALUE } } }],
  };
  try {
    const asked = await renderChat([user], template, { ...values, tools: [PROBE] });
    const inTemplate = asked.includes(NAME);
    if (!inTemplate) return DEFAULT;
    const told = await renderChat([user, call], template, { ...values, tools: [PROBE], add_generation_prompt: false });
    // templates may write the tools at the last question: what is common ends where the answers begin
    let same = 0;
    while (same < asked.length && asked[same] === told[same]) same++;
    const form = formIn(told, same);
    return form === undefined ? { ...DEFAULT, inTemplate } : { ...form, inTemplate };
  } catch {
    return DEFAULT;
  }
}

/** What a model is told of tools that its template does not know. */
export function toolsMessage(tools: readonly Tool[], form: ToolForm): string {
  const lines = tools.map((t) => JSON.stringify(t.function)).join("\n");
  const call = `{"${form.nameKey}": NAME, "${form.argumentsKey}": ARGUMENTS}`;
  return `You may call these functions, each with arguments as its JSON schema says:\n${lines}\n` +
    `To call one, write:\n${form.prefix}${call}${form.suffix}`;
}

/** A schema whose references begin at `pointer`. */
function rebased(schema: unknown, pointer: string): unknown {
  if (Array.isArray(schema)) return schema.map((s) => rebased(s, pointer));
  if (typeof schema !== "object" || schema === null) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [
      key,
      key === "$ref" && typeof value === "string" ? value.replace(/^#/, pointer) : rebased(value, pointer),
    ]),
  );
}
/** The schema of a call of one of the tools. */
export function callSchema(tools: readonly Tool[], { nameKey, argumentsKey }: ToolForm): Record<string, unknown> {
  const anyOf = tools.map(({ function: f }, i) => ({
    type: "object",
    properties: {
      [nameKey]: { const: f.name },
      [argumentsKey]: rebased(f.parameters ?? { type: "object" }, `#/anyOf/${i}/properties/${argumentsKey}`),
    },
    required: [nameKey, argumentsKey],
  }));
  return { anyOf };
}

/** What {@linkcode ToolCallReader} found. */
export interface ToolPieces {
  /** Text that is no call. */
  readonly text: string;
  /** Calls that became complete. */
  readonly calls: readonly ToolCall[];
}

/** Tells text and calls apart as they come. What begins as a call and is none is text. */
export class ToolCallReader {
  private pending = "";
  private state: "text" | "call" | "behind";
  /** Whether anything but space was said. */
  private said = false;
  /** Space behind calls is not shown. */
  private trims = false;
  private readonly mark: string;
  private readonly close: string;
  /** The object of the call that is read. */
  private object: ObjectEnd | undefined = undefined;

  /** `known` are the names of tools. `opened` says that the prefix stood in the prompt. */
  constructor(private readonly form: ToolForm, private readonly known: ReadonlySet<string>, opened = false) {
    this.mark = form.prefix.trim();
    this.close = form.suffix.trim();
    this.state = opened ? "call" : "text";
  }

  /** What is known with some more text. */
  push(text: string): ToolPieces {
    this.pending += text;
    return this.take(false, false);
  }
  /** What is left. Where the answer was `cut` off in a call, its beginning is a call, as far as its tool is known. */
  end(cut = false): ToolPieces {
    return this.take(true, cut);
  }

  private take(last: boolean, cut: boolean): ToolPieces {
    const calls: ToolCall[] = [];
    let text = "";
    for (let going = true; going;) {
      const [shown, call, more] = this.state === "text"
        ? this.takeText(last)
        : this.state === "call"
        ? this.takeCall(last, cut)
        : this.takeBehind(last);
      text += shown;
      if (shown.trim() !== "") this.said = true;
      if (call !== undefined) calls.push(call);
      going = more;
    }
    return { text, calls };
  }
  /** Text up to where a call begins. */
  private takeText(last: boolean): Step {
    if (this.trims) this.pending = this.pending.trimStart();
    const { mark, pending } = this;
    this.trims &&= pending === "";
    let at = pending.indexOf(mark);
    if (mark === "") {
      // a call is the whole answer: it begins with its object
      const first = pending.search(/\S/);
      if (!this.said && first < 0 && !last) return WAIT;
      at = !this.said && pending[first] === "{" ? first : -1;
    }
    if (at >= 0) {
      this.state = "call";
      return [this.cut(at), undefined, true];
    }
    let kept = 0;
    for (let n = 1; n < mark.length && !last; n++) if (pending.endsWith(mark.slice(0, n))) kept = n;
    return [this.cut(pending.length - kept), undefined, false];
  }
  /** A call, where it is complete. */
  private takeCall(last: boolean, cut: boolean): Step {
    const { mark, pending } = this, from = mark !== "" && pending.startsWith(mark) ? mark.length : 0;
    if (this.object === undefined) {
      const space = pending.slice(from).search(/\S/);
      if (space < 0 && !last) return WAIT;
      if (pending[from + space] === "{") this.object = new ObjectEnd(from + space);
    }
    const { object } = this, end = object?.in(pending);
    if (end === undefined && object !== undefined && !last) return WAIT;
    this.object = undefined;
    const part = end === undefined && object !== undefined && cut
      ? this.partIn(pending.slice(object.start))
      : undefined;
    if (part !== undefined) {
      this.cut(pending.length);
      return ["", part, false];
    }
    const call = end === undefined ? undefined : this.callIn(pending.slice(object!.start, end));
    this.state = call === undefined ? "text" : "behind";
    if (call === undefined) {
      // what begins as a call and is none
      const size = end ?? (last ? pending.length : Math.max(from, 1));
      this.said = true;
      return [this.cut(size), undefined, this.pending !== ""];
    }
    this.cut(end!);
    return ["", call, true];
  }
  /** What ends a call; or another one of a list. */
  private takeBehind(last: boolean): Step {
    const rest = this.pending.trimStart(), { close } = this;
    if (!last && (rest === "" || rest === "," || close.startsWith(rest) && rest !== close)) return WAIT;
    const list = /^,\s*(?=\{)/.exec(rest);
    if (list === null && !last && /^,\s*$/.test(rest)) return WAIT;
    this.state = list === null ? "text" : "call";
    this.said = this.trims = true;
    this.pending = list !== null
      ? rest.slice(list[0].length)
      : close !== "" && rest.startsWith(close)
      ? rest.slice(close.length)
      : rest;
    return ["", undefined, this.pending !== ""];
  }
  private cut(size: number): string {
    const out = this.pending.slice(0, size);
    this.pending = this.pending.slice(size);
    return out;
  }
  /** The call of an object's text, of a tool that is known. */
  private callIn(text: string): ToolCall | undefined {
    const { nameKey, argumentsKey } = this.form, found = parse(text), name = found?.[nameKey];
    if (typeof name !== "string" || !this.known.has(name)) return undefined;
    const given = found?.[argumentsKey];
    return { name, arguments: typeof given === "string" ? given : JSON.stringify(given ?? {}) };
  }
  /** The beginning of a call, of which at least the name came. */
  private partIn(text: string): ToolCall | undefined {
    const [name, given] = [this.form.nameKey, this.form.argumentsKey].map((k) => escaped(JSON.stringify(k)));
    const found = new RegExp(`^\\{\\s*${name}\\s*:\\s*("(?:[^"\\\\]|\\\\.)*")(?:\\s*,\\s*${given}\\s*:\\s*([^]*))?`)
      .exec(text);
    const known = found === null ? undefined : (parse(`{"name":${found[1]}}`)?.name as string | undefined);
    if (known === undefined || !this.known.has(known)) return undefined;
    return { name: known, arguments: found![2] ?? "", cut: true };
  }
}
/** Text that is shown, a call, and whether more can be told. */
type Step = readonly [shown: string, call: ToolCall | undefined, more: boolean];
const WAIT: Step = ["", undefined, false];
