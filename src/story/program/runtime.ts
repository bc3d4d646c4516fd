/**
 * A program as those see it who watch it: what it is called, when it ends and how, what may be written and where messages
 * go. In: the runtime; out: callbacks.
 *
 * @module
 */
import { lineText } from "../../helpers/stack.ts";

interface DenoLike {
  readonly mainModule?: string;
  exitCode?: number;
  readonly stderr?: { isTerminal(): boolean };
  readonly permissions: { querySync(d: { name: string; host?: string; path?: string }): { state: string } };
  writeTextFileSync(path: string, text: string): void;
  writeFileSync(path: string, bytes: Uint8Array): void;
  mkdirSync(path: string, options: { recursive: boolean }): void;
}

function denoHere(): DenoLike | undefined {
  return (globalThis as unknown as { Deno?: DenoLike }).Deno;
}

/** What is known of the program. */
export interface Runtime {
  /** The name of its file. */
  readonly title: string;
  /** Whether somebody reads standard error. */
  readonly isTerminal: boolean;
  /** Whether a port of this machine may be listened to, without a question. */
  mayListen(port: number): boolean;
}

/** The program that runs. */
export function runtimeHere(): Runtime {
  const deno = denoHere();
  let title = "a program";
  try {
    title = lineText((deno?.mainModule ?? title).replace(/^file:\/\//, ""));
  } catch { /* it is not told without a permission */ }
  return {
    title,
    isTerminal: deno?.stderr?.isTerminal() === true,
    mayListen: (port) => deno?.permissions.querySync({ name: "net", host: `127.0.0.1:${port}` }).state === "granted",
  };
}

/** A message to who runs the program. */
export function tell(text: string): void {
  console.error(text);
}

/** Writes a file, and says so; says why, where that fails. `variable` asked for it. */
export function writeFile(variable: string, path: string, content: string | Uint8Array): boolean {
  const deno = denoHere();
  try {
    if (deno === undefined) throw new Error("only Deno writes files");
    if (deno.permissions.querySync({ name: "write", path }).state !== "granted") {
      throw new Error("it needs --allow-write");
    }
    if (/[\/]/.test(path)) deno.mkdirSync(path.slice(0, path.lastIndexOf("/")) || "/", { recursive: true });
    if (typeof content === "string") deno.writeTextFileSync(path, content);
    else deno.writeFileSync(path, content);
    tell(`${variable}: ${path}`);
    return true;
  } catch (error) {
    tell(`${variable} cannot write ${path}: ${(error as Error).message}`);
    return false;
  }
}

/** An event that ends a program. */
interface EndEvent {
  readonly reason?: unknown;
  readonly error?: unknown;
  preventDefault(): void;
}

/**
 * Calls `ended` when the program ends, with what it threw if it did. `stay`, where it is given, is called before: it
 * may begin something that keeps the process alive, and after an error decides that it goes on.
 */
export function atEnd(ended: (error: unknown) => void, stay?: (error: unknown) => void): void {
  const { addEventListener } = globalThis as unknown as {
    addEventListener?: (kind: string, heard: (e: EndEvent) => void) => void;
  };
  if (addEventListener === undefined) return;
  let stayed = false;
  // a program that goes on after an error ends again
  const failed = (e: EndEvent): void => {
    const error = e.error ?? e.reason ?? new Error("unknown");
    ended(error);
    if (stay === undefined || stayed) return;
    stayed = true;
    e.preventDefault();
    const deno = denoHere();
    if (deno !== undefined) deno.exitCode = 1;
    stay(error);
  };
  addEventListener.call(globalThis, "unhandledrejection", failed);
  addEventListener.call(globalThis, "error", failed);
  addEventListener.call(globalThis, "beforeunload", () => {
    if (stay === undefined || stayed) return;
    stayed = true;
    stay(undefined);
  });
  addEventListener.call(globalThis, "unload", () => stayed || ended(undefined));
}
