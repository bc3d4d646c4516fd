/**
 * The part of the page that runs trained networks: sounds, photos and the camera go in, texts, pictures and boxes come out.
 * A network is loaded when it is first asked for; what the page was built without says so.
 *
 * @module
 */
/// <reference lib="dom" />
import { type DeviceName, GlobalCounters } from "../../mod.ts";
import type { ModelIndex } from "./models.ts";
import { type Box, FaceFinder, type Files, type Picture, TextReader, Transcriber, Upscaler } from "./nets.ts";

/** What the page gives to its demos. */
export interface Page {
  /** The device that is chosen. */
  device(): DeviceName;
  /** One thing after the other. */
  inTurn<T>(f: () => Promise<T>): Promise<T>;
}
function element<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}
const tell = (id: string, text: string): void => void (element(id).textContent = text);
const files: Files = async (path) => {
  const found = await fetch(`models/${path}`);
  if (!found.ok) throw new Error(`models/${path}: ${found.status}`);
  return new Uint8Array(await found.arrayBuffer());
};

const DEMOS = ["speech", "read", "upscale", "faces"] as const;
type Demo = typeof DEMOS[number];
const LOADERS = { speech: Transcriber, read: TextReader, upscale: Upscaler, faces: FaceFinder };
type Net<D extends Demo> = Awaited<ReturnType<typeof LOADERS[D]["load"]>>;

/** Why a camera, a microphone or a file cannot be had. */
function reasonOf(error: unknown, what: string): string {
  const { name, message } = error as Error;
  if (name === "NotAllowedError") return `The ${what} is denied: allow it for this page in the browser, and try again.`;
  if (name === "NotFoundError") return `There is no ${what} here; a file does as well.`;
  if (name === "EncodingError" || name === "InvalidStateError") return `This file cannot be read as ${what}.`;
  return `${what}: ${message}`;
}

/** All demos of the page. */
export async function startDemos(page: Page): Promise<void> {
  const answer = await fetch("models/index.json").catch(() => undefined);
  const index = (answer?.ok ? await answer.json() : {}) as ModelIndex;
  const loaded = new Map<string, Promise<unknown>>();
  for (const demo of DEMOS) {
    const entry = index[demo], section = element(`${demo}-section`);
    for (const control of section.querySelectorAll<HTMLButtonElement | HTMLInputElement>("button, input")) {
      control.disabled = entry === undefined || control.dataset.sample !== undefined && entry.sample === undefined;
    }
    tell(
      `${demo}-status`,
      entry === undefined
        ? `This page was built without this network: deno task web --${demo === "faces" ? "faces FILE" : "models"}`
        : `${entry.credit}. It is loaded when it is first asked for.`,
    );
  }

  const net = <D extends Demo>(demo: D): Promise<Net<D>> => {
    const device = page.device(), key = `${demo} ${device}`;
    if (!loaded.has(key)) {
      tell(`${demo}-status`, "Loading the network …");
      const made = LOADERS[demo].load(device, files);
      loaded.set(key, made);
      made.catch(() => loaded.delete(key));
    }
    return loaded.get(key) as Promise<Net<D>>;
  };
  /** Runs a demo, says how it went; its controls wait. */
  const run = async (demo: Demo, what: string, f: () => Promise<string>): Promise<void> => {
    const section = element(`${demo}-section`);
    const controls = [...section.querySelectorAll<HTMLButtonElement>("button, input")].filter((c) =>
      !c.disabled && c.dataset.stop === undefined
    );
    for (const c of controls) c.disabled = true;
    section.setAttribute("aria-busy", "true");
    try {
      const start = performance.now(), told = await page.inTurn(f), seconds = (performance.now() - start) / 1000;
      const memory = (GlobalCounters.memUsed / 2 ** 20).toFixed(0);
      tell(`${demo}-status`, `${told} ${seconds.toFixed(2)} s on ${page.device()}, ${memory} MB.`);
    } catch (error) {
      tell(`${demo}-status`, reasonOf(error, what));
    }
    section.setAttribute("aria-busy", "false");
    for (const c of controls) c.disabled = false;
  };
  const given = (id: string, f: (file: File) => void): void => {
    const input = element<HTMLInputElement>(id);
    input.addEventListener("change", () => {
      const file = input.files?.[0];
      if (file !== undefined) f(file);
      input.value = "";
    });
  };

  speech(run, net, given, index);
  reading(run, net, given);
  upscaling(run, net, given, index);
  faces(run, net, given);
}

type Run = (demo: Demo, what: string, f: () => Promise<string>) => Promise<void>;
type Nets = <D extends Demo>(demo: D) => Promise<Net<D>>;
type Given = (id: string, f: (file: File) => void) => void;

// ---- what is said

/** A sound file as samples at the rate of the network, of all channels. */
async function samplesOf(bytes: ArrayBuffer): Promise<Float32Array> {
  const offline = new OfflineAudioContext(1, 1, Transcriber.RATE), sound = await offline.decodeAudioData(bytes);
  const out = new Float32Array(sound.length);
  for (let c = 0; c < sound.numberOfChannels; c++) {
    sound.getChannelData(c).forEach((x, i) => out[i] += x / sound.numberOfChannels);
  }
  return out;
}

function speech(run: Run, net: Nets, given: Given, index: ModelIndex): void {
  const listen = (bytes: () => Promise<ArrayBuffer>): Promise<void> =>
    run("speech", "sound", async () => {
      const samples = await samplesOf(await bytes()), transcriber = await net("speech");
      tell("speech-status", "Listening …");
      tell("speech-text", await transcriber.call(samples, (text) => tell("speech-text", text)) || "(nothing was said)");
      return `${(samples.length / Transcriber.RATE).toFixed(1)} s of sound.`;
    });
  element("speech-sample").addEventListener("click", () => {
    void listen(async () => await (await fetch(`models/speech/${index.speech.sample}`)).arrayBuffer());
  });
  given("speech-file", (file) => void listen(() => file.arrayBuffer()));
  const button = element<HTMLButtonElement>("speech-record");
  let recorder: MediaRecorder | undefined;
  button.addEventListener("click", async () => {
    if (recorder !== undefined) return recorder.stop();
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true }), parts: Blob[] = [];
      recorder = new MediaRecorder(stream);
      recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
      recorder.addEventListener("stop", () => {
        for (const track of stream.getTracks()) track.stop();
        recorder = undefined;
        button.textContent = "Record";
        void listen(() => new Blob(parts).arrayBuffer());
      });
      recorder.start();
      button.textContent = "Stop and write down";
      tell("speech-status", "Recording; it stops by itself after half a minute.");
      const own = recorder;
      setTimeout(() => own === recorder && own.stop(), Transcriber.MOST * 1000);
    } catch (error) {
      tell("speech-status", reasonOf(error, "microphone"));
    }
  });
}

// ---- pictures

/** A picture of at most `most` pixels on the longer side. */
async function pictureOf(from: Blob, most: number): Promise<Picture> {
  const image = await createImageBitmap(from), scale = Math.min(1, most / Math.max(image.width, image.height));
  return pixelsOf(image, Math.max(1, Math.round(image.width * scale)), Math.max(1, Math.round(image.height * scale)));
}
function pixelsOf(image: CanvasImageSource, width: number, height: number): Picture {
  const canvas = new OffscreenCanvas(width, height), g = canvas.getContext("2d", { willReadFrequently: true })!;
  g.fillStyle = "#fff"; // what is transparent is white, as a page has it
  g.fillRect(0, 0, width, height);
  g.drawImage(image, 0, 0, width, height);
  return { width, height, data: new Uint8ClampedArray(g.getImageData(0, 0, width, height).data) };
}
/** Shows a picture, with boxes. */
function show(id: string, { width, height, data }: Picture, boxes: readonly Box[] = []): void {
  const canvas = element<HTMLCanvasElement>(id), g = canvas.getContext("2d")!;
  canvas.width = width;
  canvas.height = height;
  g.putImageData(new ImageData(data, width, height), 0, 0);
  g.strokeStyle = "#e0245e";
  g.lineWidth = Math.max(2, width / 200);
  for (const b of boxes) g.strokeRect(b.x, b.y, b.width, b.height);
}

function reading(run: Run, net: Nets, given: Given): void {
  const read = (picture: () => Promise<Picture>): Promise<void> =>
    run("read", "picture", async () => {
      const p = await picture(), reader = await net("read");
      show("read-canvas", p);
      tell("read-status", "Reading …");
      const lines = await reader.call(p, (share) => tell("read-status", `Reading: ${(100 * share).toFixed(0)} %`));
      show("read-canvas", p, lines);
      element("read-text").replaceChildren(...lines.map(({ text }) => {
        const item = document.createElement("li");
        item.textContent = text;
        return item;
      }));
      return `${lines.length} ${lines.length === 1 ? "line" : "lines"}.`;
    });
  element("read-sample").addEventListener("click", () =>
    void read(() => {
      const canvas = new OffscreenCanvas(480, 200), g = canvas.getContext("2d")!;
      g.fillStyle = "#fff";
      g.fillRect(0, 0, 480, 200);
      g.fillStyle = "#222";
      g.font = "40px sans-serif";
      g.fillText("Written on a page", 40, 80);
      g.fillText("read in 2026", 40, 150);
      return Promise.resolve(pixelsOf(canvas, 480, 200));
    }));
  given("read-file", (file) => void read(() => pictureOf(file, 1600)));
}

function upscaling(run: Run, net: Nets, given: Given, index: ModelIndex): void {
  const upscale = (picture: () => Promise<Picture>): Promise<void> =>
    run("upscale", "picture", async () => {
      const p = await picture(), upscaler = await net("upscale");
      show("upscale-before", p);
      const twice = await upscaler.call(p, (share) => tell("upscale-status", `${(100 * share).toFixed(0)} %`));
      show("upscale-after", twice);
      element("upscale-after").setAttribute("aria-label", `The picture at ${twice.width} by ${twice.height} pixels`);
      return `${p.width} by ${p.height} became ${twice.width} by ${twice.height}.`;
    });
  element("upscale-sample").addEventListener("click", () => {
    void upscale(async () =>
      await pictureOf(await (await fetch(`models/upscale/${index.upscale.sample}`)).blob(), 320)
    );
  });
  given("upscale-file", (file) => void upscale(() => pictureOf(file, 320)));
}

function faces(run: Run, net: Nets, given: Given): void {
  const find = async (p: Picture): Promise<string> => {
    const boxes = await (await net("faces")).call(p);
    show("faces-canvas", p, boxes);
    return `${boxes.length} ${boxes.length === 1 ? "face" : "faces"}.`;
  };
  given("faces-file", (file) => void run("faces", "picture", async () => await find(await pictureOf(file, 960))));
  const button = element<HTMLButtonElement>("faces-camera");
  let camera: MediaStream | undefined;
  const stop = (): void => {
    for (const track of camera?.getTracks() ?? []) track.stop();
    camera = undefined;
    button.textContent = "Start the camera";
  };
  button.addEventListener("click", async () => {
    if (camera !== undefined) return stop();
    try {
      camera = await navigator.mediaDevices.getUserMedia({ video: { width: 640, height: 480 } });
      const video = document.createElement("video"), own = camera;
      video.srcObject = own;
      video.muted = true;
      video.playsInline = true;
      await video.play();
      button.textContent = "Stop the camera";
      while (camera === own) {
        await run("faces", "camera", () => find(pixelsOf(video, video.videoWidth || 640, video.videoHeight || 480)));
        await new Promise((done) => requestAnimationFrame(done));
      }
    } catch (error) {
      stop();
      tell("faces-status", reasonOf(error, "camera"));
    }
  });
}
