/**
 * The content-addressed cache of compiled objects. A directory holds objects under names that are never used twice, and
 * an index to which a line is appended when an object is complete: key, object, symbol, size and digest of the object.
 * Lines that are torn or name a missing or damaged object are as good as absent; the last good line of a key counts.
 *
 * @module
 */
import { envText, readEnv } from "../../src/helpers/env.ts";

/** A 128-bit digest in hexadecimal: for content addressing, not for secrecy. */
export function digest(data: string | Uint8Array): string {
  let a = 0x3c6ef372 | 0, b = 0xa54ff53a | 0, c = 0x510e527f | 0, d = 0x9b05688c | 0;
  const text = typeof data === "string";
  for (let i = 0; i < data.length; i++) {
    const k = text ? (data as string).charCodeAt(i) : (data as Uint8Array)[i];
    a = b ^ Math.imul(a ^ k, 0x238c8c3d);
    b = c ^ Math.imul(b ^ k, 0xab3ed6ed);
    c = d ^ Math.imul(c ^ k, 0x38495ab5);
    d = a ^ Math.imul(d ^ k, 0xa1e38b93);
  }
  const h = [a, b, c, d, data.length];
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 4; i++) {
      let x = h[i] ^ h[(i + 1) & 3] ^ h[4];
      x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
      x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
      h[i] = x ^ (x >>> 16);
    }
  }
  return h.slice(0, 4).map((x) => (x >>> 0).toString(16).padStart(8, "0")).join("");
}

let temporary: string | undefined;

/** Where compiled kernels are kept: CACHEDIR, the user's cache folder, else a folder that this process removes. */
export function cacheDirectory(): string {
  const xdg = readEnv("XDG_CACHE_HOME"), home = readEnv("HOME");
  const wanted = envText("CACHEDIR") || (xdg ? `${xdg}/dinograd` : home ? `${home}/.cache/dinograd` : "");
  if (wanted !== "") {
    try {
      Deno.mkdirSync(`${wanted}/clang`, { recursive: true, mode: 0o700 });
      return wanted;
    } catch { /* a home that cannot be written */ }
  }
  if (temporary === undefined) {
    const made = temporary = Deno.makeTempDirSync({ prefix: "dinograd-" });
    globalThis.addEventListener("unload", () => {
      try {
        Deno.removeSync(made, { recursive: true });
      } catch { /* the system's cleaner will */ }
    });
  }
  return temporary;
}

/** A compiled function: the object that holds it, and its symbol there. */
export interface CacheEntry {
  readonly object: string;
  readonly symbol: string;
}

interface Line extends CacheEntry {
  readonly size: number;
  readonly digest: string;
}

const LINE = /^([0-9a-f]{32}) (\S+) (\S+) (\d+) ([0-9a-f]{32})$/;
let serial = 0;

/** One directory of objects with its index. Processes share it. */
export class ObjectCache {
  private readonly lines = new Map<string, Line>();
  private readonly checked = new Map<string, boolean>();
  private read = 0;

  constructor(readonly directory: string) {
    Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
  }

  private get index(): string {
    return `${this.directory}/index`;
  }

  /** Reads what this or another process has appended. */
  refresh(): void {
    try {
      if (Deno.statSync(this.index).size === this.read) return;
      const text = Deno.readTextFileSync(this.index);
      this.read = new TextEncoder().encode(text).byteLength;
      for (const line of text.split("\n")) {
        const m = LINE.exec(line);
        if (m !== null) this.lines.set(m[1], { object: m[2], symbol: m[3], size: Number(m[4]), digest: m[5] });
      }
    } catch { /* no index yet */ }
  }

  /** The path of an object that is complete and undamaged. Each object is read once a process. */
  private sound(line: Line): boolean {
    const key = `${line.object} ${line.size} ${line.digest}`;
    let good = this.checked.get(key);
    if (good === undefined) {
      try {
        const bytes = Deno.readFileSync(this.path(line));
        good = bytes.byteLength === line.size && digest(bytes) === line.digest;
      } catch {
        good = false;
      }
      this.checked.set(key, good);
    }
    return good;
  }

  /** The full path of an entry's object. */
  path(entry: CacheEntry): string {
    return `${this.directory}/${entry.object}`;
  }

  /** The entry of a key, if its object is there and undamaged. Call {@linkcode ObjectCache.refresh} before. */
  get(key: string): CacheEntry | undefined {
    const line = this.lines.get(key);
    return line !== undefined && this.sound(line) ? line : undefined;
  }

  /** Forgets a key whose object turned out to be unusable. */
  drop(key: string): void {
    this.lines.delete(key);
  }

  /** A name that nobody uses. */
  newName(suffix: string): string {
    const random = crypto.getRandomValues(new Uint32Array(2));
    return `${Date.now().toString(36)}${random[0].toString(36)}${random[1].toString(36)}${serial++}${suffix}`;
  }

  /** Announces symbols of a complete object. One append: other processes see all of it or none. */
  add(object: string, symbols: readonly (readonly [key: string, symbol: string])[]): void {
    const bytes = Deno.readFileSync(`${this.directory}/${object}`);
    const line: Omit<Line, "symbol"> = { object, size: bytes.byteLength, digest: digest(bytes) };
    let text = "";
    for (const [key, symbol] of symbols) {
      this.lines.set(key, { ...line, symbol });
      text += `${key} ${object} ${symbol} ${line.size} ${line.digest}\n`;
    }
    this.checked.set(`${object} ${line.size} ${line.digest}`, true);
    Deno.writeTextFileSync(this.index, `\n${text}`, { append: true });
  }
}
