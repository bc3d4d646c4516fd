/**
 * The page of the gallery: the network learns while its loss is drawn, and reads what is drawn on the pad. Built to
 * gallery.js by `deno task web`.
 *
 * @module
 */
/// <reference lib="dom" />
import { type DeviceName, init } from "../../mod.ts";
import { startDemos } from "./demos.ts";
import { DigitsTrainer, STEPS } from "./digits_trainer.ts";
import { DOTS, pictureOf } from "./strokes.ts";

/** Epochs of one training. */
const EPOCHS = 6;
/** How far the pen's ink goes, in dots. */
const PEN = 1.6;

function element<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}
const chart = element<HTMLCanvasElement>("chart"), pad = element<HTMLCanvasElement>("pad");
const device = element<HTMLSelectElement>("device"), train = element<HTMLButtonElement>("train");
const guess = element("guess"), scores = element("scores");
const tell = (id: string, text: string): void => void (element(id).textContent = text);

let trainer: DigitsTrainer | undefined, isTraining = false, wantsStop = false;
/** One thing after the other: a device that is asked for something waits for what was asked before. */
let last: Promise<unknown> = Promise.resolve();
function inTurn<T>(f: () => Promise<T>): Promise<T> {
  const next = last.then(f);
  last = next.catch(() => {}); // who asked is told
  return next;
}
const told = (what: Promise<unknown>): void => void what.catch((error) => tell("status", String(error)));

// ---- learning

const losses: number[] = [];

function drawChart(): void {
  const g = chart.getContext("2d")!, { width, height } = chart, top = Math.max(2.5, ...losses);
  const x = (i: number) => 8 + (i / Math.max(1, EPOCHS * STEPS - 1)) * (width - 16);
  const y = (loss: number) => 8 + (1 - loss / top) * (height - 16);
  g.clearRect(0, 0, width, height);
  g.strokeStyle = getComputedStyle(chart).color;
  g.lineWidth = 2;
  g.beginPath();
  losses.forEach((loss, i) => i === 0 ? g.moveTo(x(i), y(loss)) : g.lineTo(x(i), y(loss)));
  g.stroke();
  const text = losses.length === 0
    ? "not trained yet"
    : `${losses.length} steps, ${losses[0].toFixed(2)} to ${losses.at(-1)!.toFixed(2)}`;
  chart.setAttribute("aria-label", `Loss by step: ${text}`);
}

async function learnAll(): Promise<void> {
  isTraining = true;
  wantsStop = false;
  train.textContent = "Stop";
  device.disabled = true;
  losses.length = 0;
  await open(device.value as DeviceName);
  for (let epoch = 1; epoch <= EPOCHS && !wantsStop; epoch++) {
    for (let k = 0; k < STEPS && !wantsStop; k++) {
      const start = performance.now(), loss = await inTurn(() => trainer!.learn(k));
      losses.push(loss);
      tell("loss", loss.toFixed(3));
      tell("epoch", `${epoch} of ${EPOCHS}`);
      tell("time", `${(performance.now() - start).toFixed(1)} ms`);
      tell("memory", `${(trainer!.nbytes / 2 ** 20).toFixed(1)} MB`);
      drawChart();
      await new Promise((done) => setTimeout(done)); // the page draws, and listens
    }
    tell("accuracy", `${(100 * await inTurn(() => trainer!.accuracy())).toFixed(1)} %`);
    await read();
  }
  tell("status", wantsStop ? "Stopped." : `Trained on ${trainer!.device}. Draw a digit.`);
  train.textContent = "Train again";
  device.disabled = false;
  isTraining = false;
}

async function open(name: DeviceName): Promise<void> {
  tell("status", `Preparing ${name} …`);
  trainer = await inTurn(() => DigitsTrainer.on(name));
  tell("credit", trainer.attribution);
  tell("status", `Ready on ${trainer.device}.`);
}

// ---- drawing

const bitmap = new Uint8Array(DOTS * DOTS), cell = pad.width / DOTS;
let pen: readonly [number, number] | undefined, cursor: [number, number] = [DOTS / 2, DOTS / 2], isLowered = false;

function drawPad(): void {
  const g = pad.getContext("2d")!;
  g.clearRect(0, 0, pad.width, pad.height);
  g.fillStyle = "#111";
  bitmap.forEach((ink, i) => ink && g.fillRect((i % DOTS) * cell, Math.floor(i / DOTS) * cell, cell, cell));
  if (document.activeElement !== pad) return;
  g.strokeStyle = isLowered ? "#c22" : "#0b63c5";
  g.lineWidth = 2;
  g.strokeRect(cursor[0] * cell - cell, cursor[1] * cell - cell, 2 * cell, 2 * cell);
}
/** Ink along a line, in dots. */
function ink(from: readonly [number, number], to: readonly [number, number]): void {
  const steps = Math.max(1, Math.ceil(2 * Math.hypot(to[0] - from[0], to[1] - from[1])));
  for (let s = 0; s <= steps; s++) {
    const [x, y] = [0, 1].map((a) => from[a] + (to[a] - from[a]) * s / steps);
    for (let i = 0; i < bitmap.length; i++) {
      if (Math.hypot(i % DOTS + 0.5 - x, Math.floor(i / DOTS) + 0.5 - y) <= PEN) bitmap[i] = 1;
    }
  }
  drawPad();
}
function placeOf(event: PointerEvent): [number, number] {
  const box = pad.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width * DOTS, (event.clientY - box.top) / box.height * DOTS];
}
function clear(): void {
  bitmap.fill(0);
  drawPad();
  scores.replaceChildren();
  guess.textContent = "Draw something";
}

/** Reads what is on the pad. */
async function read(): Promise<void> {
  const picture = pictureOf(bitmap);
  if (picture === undefined || trainer === undefined) return;
  const all = await inTurn(() => trainer!.scores(picture)), best = all.indexOf(Math.max(...all));
  guess.textContent = `It reads ${best} (${(100 * all[best]).toFixed(0)} %)`;
  scores.replaceChildren(...all.map((share, digit) => {
    const item = document.createElement("li");
    item.textContent = `${digit}: ${(100 * share).toFixed(0)}%`;
    item.style.setProperty("--share", `${100 * share}%`);
    return item;
  }));
}

pad.addEventListener("pointerdown", (event) => {
  pad.setPointerCapture(event.pointerId);
  ink(pen = placeOf(event), pen);
});
pad.addEventListener("pointermove", (event) => {
  if (pen === undefined) return;
  const to = placeOf(event);
  ink(pen, to);
  pen = to;
});
for (const name of ["pointerup", "pointercancel"] as const) {
  pad.addEventListener(name, () => {
    pen = undefined;
    told(read());
  });
}
const MOVES: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};
pad.addEventListener("keydown", (event) => {
  const move = MOVES[event.key];
  if (move !== undefined) {
    const to = cursor.map((c, a) => Math.min(DOTS - 2, Math.max(2, c + 2 * move[a]))) as [number, number];
    if (isLowered) ink(cursor, to);
    cursor = to;
  } else if (event.key === " ") {
    isLowered = !isLowered;
    if (isLowered) ink(cursor, cursor);
    else told(read());
  } else if (event.key === "Delete" || event.key === "Backspace") clear();
  else return;
  event.preventDefault();
  drawPad();
});
for (const name of ["focus", "blur"]) pad.addEventListener(name, drawPad);
element("clear").addEventListener("click", clear);
train.addEventListener("click", () => {
  if (isTraining) wantsStop = true;
  else learnAll().catch((error) => tell("status", String(error)));
});
device.addEventListener("change", () => told(open(device.value as DeviceName)));

// ---- loading

async function start(): Promise<void> {
  await init({ devices: ["WASM"] });
  const gpu = await navigator.gpu?.requestAdapter().catch(() => null);
  device.replaceChildren(
    ...[["WASM", "WebAssembly"], ...(gpu ? [["WEBGPU", "WebGPU"]] : [])].map(([value, text]) =>
      new Option(text, value)
    ),
  );
  await open("WASM");
  drawChart();
  drawPad();
  train.disabled = device.disabled = false;
  await startDemos({ device: () => device.value as DeviceName, inTurn });
  await navigator.serviceWorker?.register("offline.js");
}
start().catch((error) => tell("status", `This page cannot run here: ${error}`));
