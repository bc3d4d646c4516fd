/**
 * The worker that runs an example of the site: takes the types off, gives it the library, sends what it prints and what it
 * throws. Built to runner.js, beside dinograd.js and sucrase.js.
 *
 * @module
 */
/// <reference lib="webworker" />

/** Takes the types off: sucrase's, which is built to sucrase.js. */
export type Transform = (
  code: string,
  options: { transforms: string[]; disableESTransforms: boolean },
) => { readonly code: string };

/** What the page sends: the code, and the device to run on. */
interface Task {
  readonly code: string;
  readonly device: string;
}
interface Library {
  readonly init: (options: { devices: readonly string[] }) => Promise<unknown>;
  readonly Device: { default: string };
  readonly Tensor: new (...args: never[]) => { tolist(): Promise<unknown>; shape: readonly number[]; dtype: object };
}

/** A value as one reads it. */
export function textOf(value: unknown, inner = false): string {
  if (typeof value === "string") return inner ? JSON.stringify(value) : value;
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "number") return Object.is(value, -0) ? "-0" : String(value);
  if (typeof value === "function") return `[Function ${value.name}]`;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (Array.isArray(value)) return `[${value.map((v) => textOf(v, true)).join(", ")}]`;
  if (ArrayBuffer.isView(value)) {
    return `${value.constructor.name} [${
      Array.from(value as unknown as ArrayLike<unknown>, (v) => textOf(v, true)).join(", ")
    }]`;
  }
  if (typeof value === "object" && value !== null) {
    if (value.toString !== Object.prototype.toString) return String(value);
    return `{ ${Object.entries(value).map(([k, v]) => `${k}: ${textOf(v, true)}`).join(", ")} }`;
  }
  return String(value);
}

/** TypeScript with imports of the library as the body of a function that has it as `lib`; the last expression is its value. */
export function bodyOf(code: string, transform: Transform): string {
  const imports: string[] = [];
  const rest = code.replace(/^import (?:type )?\{([^}]*)\} from "[^"]*";?$/gm, (_, names: string) => {
    const list = names.split(",").map((n) => n.trim()).filter((n) => n !== "" && !n.startsWith("type "));
    imports.push(...list.map((n) => n.replace(/^(\w+) as (\w+)$/, "$1: $2")));
    return "";
  });
  const { code: plain } = transform(rest, { transforms: ["typescript"], disableESTransforms: true });
  const head = imports.length === 0 ? "" : `const { ${imports.join(", ")} } = lib;`;
  // statements of one line each: the last is what the example is about, if it is an expression
  const lines = plain.trimEnd().split("\n"), last = lines.at(-1)!;
  const isValue =
    /^(?!(?:const|let|var|for|if|while|return|throw|try|function|class|import|export|using|console)\b)[^\s})\]/]/
      .test(last);
  if (isValue) lines[lines.length - 1] = `return (${last.replace(/;?\s*(?:\/\/ .*)?$/, "")});`;
  return `{\n${head}\n${lines.join("\n")}\n}`;
}

async function run({ code, device }: Task): Promise<void> {
  // paths of the site, which no checker of this module knows
  const from = (path: string): Promise<unknown> => import(path), lib = await from("./dinograd.js") as Library;
  const { transform } = await from("./sucrase.js") as { transform: Transform };
  if (device === "WEBGPU") await lib.init({ devices: ["WEBGPU"] });
  lib.Device.default = device;
  const say = (...values: unknown[]) => postMessage({ printed: values.map((v) => textOf(v)).join(" ") });
  console.log =
    console.info =
    console.warn =
    console.error =
      say;
  const names = Object.keys(lib), values = names.map((n) => (lib as unknown as Record<string, unknown>)[n]);
  const Made = (async () => {}).constructor as new (...args: string[]) => (...args: unknown[]) => Promise<unknown>;
  const shown = async (value: unknown): Promise<unknown> => {
    if (!(value instanceof lib.Tensor)) return value;
    return `${value.dtype} [${value.shape}]: ${textOf(await value.tolist(), true)}`;
  };
  const value = await new Made(...names, "lib", bodyOf(code, transform))(...values, lib);
  if (value === undefined) return;
  const isList = Array.isArray(value) && value.length > 0 && value.every((v) => v instanceof lib.Tensor);
  for (const v of isList ? value as unknown[] : [value]) say(await shown(v));
}

if (typeof WorkerGlobalScope !== "undefined" && typeof Deno === "undefined") {
  globalThis.onmessage = async ({ data }: MessageEvent<Task>) => {
    try {
      await run(data);
      postMessage({});
    } catch (error) {
      postMessage({ error: textOf(error) });
    }
  };
}
