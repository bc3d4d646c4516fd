/**
 * Chats by the page of a server in headless Chromium, as a person does: by keyboard, with a key, stopped and begun anew.
 * Prints what was seen as JSON, or text where there is no browser.
 *
 * @module
 */
import "../../mod.ts";
import { LanguageModel, serve } from "../../src/llm/llm.ts";
import { findLaunch } from "./browser.ts";

/** What was seen. */
export interface ChatSeen {
  readonly title: string;
  /** What the page says to who has no key. */
  readonly refused: string;
  /** Roles and texts on the page after two questions, and the answers that the model gives. */
  readonly boxes: readonly (readonly [role: string, text: string])[];
  readonly answers: readonly string[];
  /** How fast it was, as the page says. */
  readonly state: string;
  /** Letters of an answer that Escape stopped; the label of the button then. */
  readonly stopped: number;
  readonly label: string;
  /** What the page says of a question that is too long. */
  readonly tooLong: string;
  /** Boxes after Alt+N, and where the keyboard is. */
  readonly afterNew: number;
  readonly focus: string;
  /** Width of the page on a screen of 360 pixels. */
  readonly width: number;
  /** Errors that were thrown, and requests to other hosts. */
  readonly errors: readonly string[];
}

/** What is used of playwright-core. */
interface Page {
  readonly keyboard: { press(key: string): Promise<void>; type(text: string): Promise<void> };
  setDefaultTimeout(ms: number): void;
  on(event: string, listener: (x: { url(): string; message: string }) => void): void;
  goto(url: string): Promise<unknown>;
  setViewportSize(size: { width: number; height: number }): Promise<void>;
  evaluate<T>(code: string): Promise<T>;
}

const FILE = new URL("../../examples/models/stories260K.gguf", import.meta.url), KEY = "open sesame";
const QUESTIONS = ["Once upon a time", "Lily went"] as const;

/** Chats on a page of `model`'s server. */
async function chat(page: Page, model: LanguageModel, url: string): Promise<ChatSeen> {
  const errors: string[] = [];
  page.on("pageerror", ({ message }) => errors.push(message));
  page.on("request", (r) => r.url().startsWith(url) || r.url().startsWith("data:") || errors.push(r.url()));
  page.setDefaultTimeout(60_000);
  const set = (id: string, value: string | number) =>
    page.evaluate(
      `{ const x = document.getElementById("${id}"); x.value = ${JSON.stringify(value)}; x.onchange?.(); }`,
    );
  const text = (selector: string) => page.evaluate<string>(`document.querySelector("${selector}").textContent`);
  const ask = async (question: string): Promise<void> => {
    await page.evaluate(`document.getElementById("text").focus()`);
    await page.keyboard.type(question);
    await page.keyboard.press("Enter");
  };
  // the page's policy forbids code from text, which a driver would wait by
  const until = async (code: string): Promise<void> => {
    while (!await page.evaluate<boolean>(code)) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  const done = () => until(`document.getElementById("send").textContent === "Send"`);
  await page.goto(`${url}/`);
  await set("temperature", 0);
  await set("tokens", 12);
  await ask("Hello");
  await done();
  const refused = await text(".error");
  await set("key", KEY);
  await page.goto(`${url}/`); // the key is remembered
  await until(`document.title !== "dinograd"`);
  const title = await page.evaluate<string>("document.title");
  await set("temperature", 0);
  await set("tokens", 12);
  for (const q of QUESTIONS) {
    await ask(q);
    await done();
  }
  const boxes = await page.evaluate<ChatSeen["boxes"]>(
    `[...document.querySelectorAll(".m")].map((x) => [x.className, x.textContent])`,
  );
  const state = await text("#state"), answers: string[] = [], messages: { role: string; content: string }[] = [];
  for (const content of QUESTIONS) {
    messages.push({ role: "user", content });
    const { text } = await model.complete(await model.chatIds(messages), { maxTokens: 12 });
    answers.push(text);
    messages.push({ role: "assistant", content: text });
  }
  await set("tokens", 400);
  await ask("Tell me more");
  await until(`[...document.querySelectorAll(".assistant")].at(-1).textContent.length > 20`);
  await page.keyboard.press("Escape");
  await done();
  const stopped =
    (await page.evaluate<string>(`[...document.querySelectorAll(".assistant")].at(-1).textContent`)).length;
  const label = await text("#send");
  await page.evaluate(`document.getElementById("text").value = "dog ".repeat(900)`);
  await page.evaluate(`document.getElementById("form").requestSubmit()`);
  await done();
  const tooLong = await text(".error");
  await page.setViewportSize({ width: 360, height: 640 });
  const width = await page.evaluate<number>("document.documentElement.scrollWidth");
  await page.keyboard.press("Alt+n");
  const afterNew = await page.evaluate<number>(`document.querySelectorAll(".m").length`);
  const focus = await page.evaluate<string>("document.activeElement.id");
  return { title, refused, boxes, answers, state, stopped, label, tooLong, afterNew, focus, width, errors };
}

async function main(): Promise<ChatSeen | string> {
  const launch = await findLaunch<Page>();
  if (typeof launch === "string") return launch;
  using model = await LanguageModel.load(FILE, { device: "WASM", sequences: 2 });
  const server = serve(model, { port: 0, key: KEY });
  const browser = await launch();
  try {
    return await chat(await browser.newPage(), model, server.url);
  } finally {
    await browser.close();
    await server.stop();
  }
}

if (import.meta.main) console.log(JSON.stringify(await main()));
