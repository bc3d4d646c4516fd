/**
 * Visits the page of the language model (examples/web/talk.html) in headless Chromium: a story, a model with a chat template
 * from a file, one that is broken, WebGPU where there is an adapter. Prints what was seen as JSON; `--gpu` writes there, too.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { Tensor } from "../../mod.ts";
import { encodeGguf, LanguageModel, readGguf, typed } from "../../src/llm/llm.ts";
import { errorsOf, type Told } from "./browser.ts";
import { visitBuilt } from "./visit_built.ts";

/** What was seen. */
export interface TalkSeen {
  readonly devices: readonly string[];
  readonly ready: string;
  /** The story, and what the page says of it. */
  readonly story: string;
  readonly rate: string;
  /** Letters when Escape stopped it, and what the page says then. */
  readonly stopped: number;
  readonly stopRate: string;
  /** Answers of a model with a template, and those that it gives here. */
  readonly answers: readonly string[];
  readonly wanted: readonly string[];
  /** What the page says of a file that is no model. */
  readonly broken: string;
  /** The story on WebGPU; undefined without an adapter, or if it was not asked for. */
  readonly gpu: string | undefined;
  /** Width of the page on a screen of 360 pixels. */
  readonly width: number;
  /** The status when it was loaded again without a network. */
  readonly offline: string;
  readonly errors: readonly string[];
}

interface Locator {
  click(): Promise<void>;
  fill(text: string): Promise<void>;
  innerText(): Promise<string>;
  allInnerTexts(): Promise<string[]>;
  setInputFiles(file: { name: string; mimeType: string; buffer: Buffer }): Promise<void>;
  selectOption(value: string): Promise<unknown>;
}
interface Page {
  readonly keyboard: { press(key: string): Promise<void> };
  setDefaultTimeout(ms: number): void;
  on(event: string, listener: (x: Told) => void): void;
  goto(url: string): Promise<unknown>;
  reload(): Promise<unknown>;
  locator(selector: string): Locator;
  setViewportSize(size: { width: number; height: number }): Promise<void>;
  waitForFunction(code: string): Promise<unknown>;
  evaluate<T>(code: string): Promise<T>;
  context(): { setOffline(offline: boolean): Promise<void> };
}

const FILE = new URL("../../examples/models/stories260K.gguf", import.meta.url), TOKENS = 24;
const TEMPLATE = "{% for m in messages %}{{ m.content.strip('\n') + ' ' }}{% endfor %}";
const QUESTIONS = ["Once upon a time", "Lily went"] as const;

async function visit(page: Page, url: string): Promise<TalkSeen> {
  const errors = errorsOf(page, url), says = `document.getElementById("status").textContent`;
  const status = (): Promise<string> => page.locator("#status").innerText();
  const written = () =>
    page.waitForFunction(`document.getElementById("go").textContent === "Write" && /tokens,/.test(${says})`);
  const tell = async (text: string): Promise<string> => {
    await page.evaluate(`document.getElementById("status").textContent = ""`);
    await page.locator("#text").fill(text);
    await page.keyboard.press("Enter");
    await written();
    return (await page.locator("#log .assistant").allInnerTexts()).at(-1)!;
  };
  page.setDefaultTimeout(90_000);
  await page.goto(`${url}talk.html`);
  await page.waitForFunction(`!document.getElementById("file").disabled`);
  const devices = await page.locator("#device option").allInnerTexts(), ready = await status();
  await page.locator("#most").fill(String(TOKENS));
  const story = await tell(QUESTIONS[0]), rate = await status();
  await page.locator("#most").fill("450");
  await page.locator("#text").fill("One day");
  await page.keyboard.press("Enter");
  await page.waitForFunction(`[...document.querySelectorAll("#log .assistant")].at(-1).textContent.length > 30`);
  await page.keyboard.press("Escape");
  await written();
  const stopped = (await page.locator("#log .assistant").allInnerTexts()).at(-1)!.length, stopRate = await status();
  // a model with a template
  const read = await readGguf(FILE),
    metadata = new Map(read.metadata).set("tokenizer.chat_template", typed("string", TEMPLATE));
  const bytes = await encodeGguf({
    metadata: metadata.set("general.name", typed("string", "talker")),
    tensors: read.tensors,
  });
  const give = async (buffer: Uint8Array, says: string): Promise<void> => {
    await page.locator("#file").setInputFiles({ name: "m.gguf", mimeType: "", buffer: Buffer.from(buffer) });
    await page.waitForFunction(says);
  };
  await give(bytes, `/^talker/.test(${says})`);
  await page.locator("#most").fill("12");
  const answers: string[] = [], wanted: string[] = [];
  for (const q of QUESTIONS) answers.push(await tell(q));
  using model = await LanguageModel.load(new Tensor(bytes), { device: "WASM" });
  const messages: { role: string; content: string }[] = [];
  for (const content of QUESTIONS) {
    messages.push({ role: "user", content });
    const { text } = await model.complete(await model.chatIds(messages), { maxTokens: 12 });
    wanted.push(text);
    messages.push({ role: "assistant", content: text });
  }
  await give(bytes.subarray(0, 5000), `/cannot be had/.test(${says})`);
  const broken = await status();
  await page.setViewportSize({ width: 360, height: 780 });
  const width = await page.evaluate<number>("document.documentElement.scrollWidth");
  await page.waitForFunction("navigator.serviceWorker.controller !== null");
  await page.context().setOffline(true);
  await page.reload();
  await page.waitForFunction(`!document.getElementById("file").disabled`);
  const offline = await status();
  let gpu: string | undefined;
  if (Deno.args.includes("--gpu") && devices.includes("WebGPU")) {
    await page.locator("#most").fill(String(TOKENS));
    await page.locator("#device").selectOption("WEBGPU");
    await page.waitForFunction(`/on WEBGPU/.test(${says})`);
    gpu = await tell(QUESTIONS[0]);
  }
  return {
    ...{ devices, ready, story, rate, stopped, stopRate, answers, wanted, broken, gpu, width, offline, errors },
  };
}

if (import.meta.main) {
  console.log(JSON.stringify(await visitBuilt(visit)));
  Deno.exit();
}
