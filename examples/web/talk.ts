/**
 * The page where a language model talks: stories260K, or a GGUF file of the visitor's, on WebAssembly or WebGPU. Built to
 * talk.js by `deno task web`.
 *
 * @module
 */
/// <reference lib="dom" />
import { type DeviceName, GlobalCounters, init, Tensor } from "../../mod.ts";
import { type ChatMessage, LanguageModel } from "../../src/llm/llm.ts";

function element<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}
const device = element<HTMLSelectElement>("device"), file = element<HTMLInputElement>("file");
const go = element<HTMLButtonElement>("go"), input = element<HTMLInputElement>("text"), log = element("log");
const tell = (text: string): void => void (element("status").textContent = text);
const number = (id: string): number => Number(element<HTMLInputElement>(id).value);

let bytes: Uint8Array<ArrayBuffer>, model: LanguageModel | undefined, writing: AbortController | undefined;
let messages: ChatMessage[] = [];

/** Puts what is said at the end of the page, and gives where more of it goes. */
function say(role: "user" | "assistant", text: string): HTMLElement {
  const item = document.createElement("li");
  item.className = role;
  item.textContent = text;
  log.append(item);
  return item;
}
function anew(): void {
  writing?.abort();
  messages = [];
  log.replaceChildren();
}

/** Reads the model that is chosen onto the device that is chosen. */
async function open(): Promise<void> {
  anew();
  model = undefined;
  go.disabled = true;
  tell("Reading the model …");
  try {
    await init({ devices: [device.value as DeviceName] });
    model = await LanguageModel.load(new Tensor(bytes, { device: device.value }), {
      device: device.value as DeviceName,
    });
    const { layers, dim, architecture } = model.spec;
    tell(`${model.name}: ${architecture}, ${layers} layers of ${dim}, on ${model.decoder.device}.`);
    go.disabled = false;
  } catch (error) {
    tell(`This model cannot be had: ${(error as Error).message}`);
  }
}

/** An answer, or how a text goes on. */
async function write(text: string): Promise<void> {
  const talks = model!.tokenizer.vocabulary.template !== undefined;
  writing = new AbortController();
  const options = { maxTokens: number("most"), temperature: number("temperature"), signal: writing.signal };
  say("user", text);
  messages.push({ role: "user", content: text });
  go.textContent = "Stop";
  const item = say("assistant", talks ? "" : text);
  let answer = "";
  try {
    const pieces = talks ? model!.chat(messages, options) : model!.generate(text, options);
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) {
        const { completionTokens: n, completionMs, finish } = value, rate = (n - 1) / completionMs * 1000;
        const memory = (GlobalCounters.memUsed / 2 ** 20).toFixed(0);
        tell(
          `${n} tokens, ${rate.toFixed(0)} a second on ${model!.decoder.device}, ${memory} MB${
            finish === "abort" ? ": stopped" : ""
          }.`,
        );
        break;
      }
      answer += value.text;
      item.textContent += value.text;
      await new Promise((done) => setTimeout(done)); // the page draws, and listens
    }
    messages.push({ role: "assistant", content: answer });
  } catch (error) {
    messages.pop();
    tell((error as Error).message);
  }
  writing = undefined;
  go.textContent = "Write";
}

element("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (writing !== undefined) writing.abort();
  else if (model !== undefined && input.value !== "") void write(input.value);
});
document.addEventListener("keydown", (event) => event.key === "Escape" && writing?.abort());
element("anew").addEventListener("click", anew);
device.addEventListener("change", () => void open());
file.addEventListener("change", async () => {
  const chosen = file.files?.[0];
  if (chosen === undefined) return;
  bytes = new Uint8Array(await chosen.arrayBuffer());
  await open();
});

async function start(): Promise<void> {
  const found = await fetch("models/stories260K.gguf");
  if (!found.ok) throw new Error(`models/stories260K.gguf: ${found.status}`);
  bytes = new Uint8Array(await found.arrayBuffer());
  const gpu = await navigator.gpu?.requestAdapter().catch(() => null);
  const kinds = [["WASM", "WebAssembly"], ...(gpu ? [["WEBGPU", "WebGPU"]] : [])];
  device.replaceChildren(...kinds.map(([value, text]) => new Option(text, value)));
  await open();
  device.disabled = file.disabled = false;
  await navigator.serviceWorker?.register("offline.js");
}
start().catch((error) => tell(`This page cannot run here: ${error}`));
