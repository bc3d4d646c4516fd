/**
 * The content-addressed cache of compiled objects on disk, for the devices that have one. A directory holds objects under
 * names that are never used twice, and an index to which a line is appended when an object is complete: key, object,
 * symbol, size and digest of the object. Lines that are torn or name a missing or damaged object are as good as absent;
 * the last good line of a key counts, and of damage the user is told once. A directory that cannot be written is still
 * read; new objects then go to a temporary one of this process. Of a directory that has grown beyond CACHE_SIZE the objects
 * not used for longest are removed: for processes that know them they are missing, and compiled again.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { DeviceError } from "../helpers/errors.ts";
import { cacheRoot, fileErrorCode, hostFiles } from "./host_files.ts";

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

/** The folder of this process that is in use, and all that there were. */
let temporary: string | undefined;
const temporaries = new Set<string>();
/** How the names of temporary folders start. */
const TEMPORARY = "dinograd-cache-";

/** Folders of compilers that are older than this were left by a process that was killed; so were unknown objects. */
const STALE_FOLDER_MS = 3600e3, STALE_OBJECT_MS = 86400e3;
/** The time of a file is set when it is used, if it is older than this. */
const USED_MS = 3600e3;
/** How full a folder is left that was too large. */
const LEFT_FULL = 0.75;

/** How many bytes a folder may take: CACHE_SIZE, infinite where that is 0. */
export function cacheLimit(): number {
  return envNumber("CACHE_SIZE") * 2 ** 20 || Infinity;
}

/**
 * Names of files that go where all that `counts` take more than `most` bytes: those not used for longest, as many as leave
 * the folder three quarters full. @throws what the runtime says of a folder that cannot be read
 */
export function leastUsed(folder: string, most: number, counts: (name: string) => boolean): Set<string> {
  const files: { name: string; size: number; time: number }[] = [], gone = new Set<string>();
  let total = 0;
  if (most === Infinity) return gone;
  for (const { name } of hostFiles()!.readDirSync(folder)) {
    if (!counts(name)) continue;
    const { isFile, size, mtime } = hostFiles()!.statSync(`${folder}/${name}`);
    if (!isFile) continue;
    files.push({ name, size, time: mtime?.getTime() ?? 0 });
    total += size;
  }
  if (total <= most) return gone;
  for (const { name, size } of files.sort((a, b) => a.time - b.time)) {
    if (total <= most * LEFT_FULL) break;
    gone.add(name);
    total -= size;
  }
  return gone;
}

/** Sets the time of a file that is used, by which the oldest are found. */
export function markUsed(path: string): void {
  try {
    const now = Date.now(), files = hostFiles()!;
    if (now - (files.statSync(path).mtime?.getTime() ?? now) > USED_MS) files.utimeSync(path, now / 1e3, now / 1e3);
  } catch { /* it is another user's */ }
}

/** Removes what is older than `limit` of its name says, in milliseconds. What cannot be removed stays. */
function removeStale(folder: string, limit: (name: string) => number): void {
  try {
    const now = Date.now();
    for (const { name } of Deno.readDirSync(folder)) {
      const most = limit(name);
      if (most === Infinity) continue;
      try {
        const path = `${folder}/${name}`;
        if (now - (Deno.statSync(path).mtime?.getTime() ?? now) > most) Deno.removeSync(path, { recursive: true });
      } catch { /* another process did, or owns it */ }
    }
  } catch { /* a folder that cannot be listed */ }
}

/**
 * The root of caches: {@linkcode cacheRoot}, else a folder that this process removes. Always absolute: the system's loader
 * and a later change of the working directory must not matter.
 */
export function cacheDirectory(): string {
  return cacheRoot() ?? temporaryDirectory();
}

/** Where temporary folders may be, first the system's: what is full or read-only is passed over. */
const TEMPORARY_ROOTS: readonly (string | undefined)[] = [undefined, "/dev/shm", "/tmp", "/var/tmp"];
let temporaryRoot = 0;

/** A folder of this process: removed as soon as what it holds is loaded, at the latest when the process ends. */
function temporaryDirectory(): string {
  if (temporary !== undefined) return temporary;
  let made: string | undefined, why: unknown;
  for (; made === undefined && temporaryRoot < TEMPORARY_ROOTS.length; temporaryRoot++) {
    try {
      made = Deno.makeTempDirSync({ prefix: TEMPORARY, dir: TEMPORARY_ROOTS[temporaryRoot] });
      break;
    } catch (error) {
      why = error;
    }
  }
  if (made === undefined) {
    temporaryRoot = 0;
    throw why ?? new Error("no folder for temporary files can be written");
  }
  temporary = made;
  if (temporaries.size === 0) {
    globalThis.addEventListener("unload", () => {
      for (const folder of temporaries) removeFolder(folder);
    });
  }
  temporaries.add(made);
  removeStale(
    made.slice(0, made.lastIndexOf("/")),
    (name) => name.startsWith(TEMPORARY) ? STALE_OBJECT_MS : Infinity,
  );
  return made;
}

function removeFolder(folder: string): void {
  try {
    Deno.removeSync(folder, { recursive: true });
  } catch { /* it is gone, or the system's cleaner will */ }
}

/**
 * Removes what is in temporary folders: for those who have loaded it, so that nothing is left of a process that ends by a
 * signal or an error.
 */
export function emptyTemporary(): void {
  for (const folder of temporaries) removeFolder(folder);
}

/** The folder of this process that a path is in; undefined for others. */
export function temporaryOf(path: string): string | undefined {
  return [...temporaries].find((folder) => path.startsWith(`${folder}/`));
}

/** A compiled function: the folder and name of the object that holds it, and its symbol there. */
export interface CacheEntry {
  readonly folder: string;
  readonly object: string;
  readonly symbol: string;
}

interface Line extends CacheEntry {
  readonly size: number;
  readonly digest: string;
}

/** True for errors of the file system, as opposed to ours. */
function isFileError(error: unknown): error is Error {
  return fileErrorCode(error) !== undefined;
}

const KEY_LENGTH = 32, LINE = /^([0-9a-f]{32}) (\S+) (\S+) (\d+) ([0-9a-f]{32})$/;
let serial = 0;

function objectKey({ object, size, digest }: Omit<Line, "symbol">): string {
  return `${object} ${size} ${digest}`;
}

/** One directory of objects with its index. Processes share it. */
export class ObjectCache {
  /** What the index says of each key: as it stands there, until somebody asks. */
  private readonly lines = new Map<string, Line | string>();
  private readonly checked = new Map<string, boolean>();
  private read = 0;
  private swept = false;
  private told = false;
  /** The directory that is shared, which may be impossible to write. */
  readonly directory: string;
  private target: string;

  /**
   * @param root as {@linkcode cacheDirectory} gives it
   * @param name of the directory below it
   * @param device as errors name it
   * @param suffix of the names of objects
   */
  constructor(root: string, private readonly name: string, readonly device: string, private readonly suffix: string) {
    this.target = this.directory = `${root}/${name}`;
  }

  private get index(): string {
    return `${this.directory}/index`;
  }
  /** Where new objects go: the directory, or a temporary one where that cannot be used. */
  get folder(): string {
    return this.target;
  }

  /**
   * From now on new objects go to a folder of this process, or to the next such. False if there is none; then the first
   * place is tried anew.
   */
  moveToTemporary(why: string): boolean {
    const was = this.target;
    if (temporary !== undefined && temporaryOf(was) === temporary) {
      temporary = undefined;
      temporaryRoot++;
    }
    try {
      this.target = `${temporaryDirectory()}/${this.name}`;
    } catch {
      temporaryRoot = 0;
      this.target = this.directory;
      return false;
    }
    if (this.target === was) return false;
    if (envNumber("DEBUG") >= 1) {
      console.error(
        `${this.device}: ${was} cannot be used (${why}); kernels go to ${this.target} until this process ends`,
      );
    }
    return true;
  }

  /**
   * Runs `work` with an empty folder beside the objects, which is removed afterwards; once more in a temporary folder
   * if a file operation fails.
   *
   * @throws {DeviceError} if nothing can be written there either
   */
  inFolder<T>(work: (folder: string) => T): T {
    for (;;) {
      const folder = `${this.target}/${this.newName(".tmp")}`;
      try {
        Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
        this.sweep();
        return work(folder);
      } catch (error) {
        if (!isFileError(error)) throw error;
        if (this.moveToTemporary(error.message)) continue;
        throw new DeviceError(`compile kernels for ${this.device}`, {
          device: this.device,
          reason: `neither ${this.directory} nor ${this.target} can be written: ${error.message}`,
          cause: error,
        });
      } finally {
        try {
          Deno.removeSync(folder, { recursive: true });
        } catch { /* it was never made */ }
      }
    }
  }

  /** Removes what killed processes left, once. */
  private sweep(): void {
    if (this.swept || this.target !== this.directory) return;
    this.swept = true;
    this.refresh();
    const known = new Set([...this.all()].map(([, l]) => l.object));
    removeStale(this.directory, (name) => {
      if (name.endsWith(".tmp")) return STALE_FOLDER_MS;
      return name.endsWith(this.suffix) && !known.has(name) ? STALE_OBJECT_MS : Infinity;
    });
    this.limit(cacheLimit());
  }

  /** Removes the objects not used for longest where all take more than `most` bytes, and what the index says of them. */
  limit(most: number): void {
    try {
      const gone = leastUsed(this.directory, most, (name) => name.endsWith(this.suffix));
      if (gone.size === 0) return;
      // first the index: an object that it does not name is never opened
      const all = [...this.all()], kept = all.filter(([, l]) => l.folder === this.directory && !gone.has(l.object));
      const fresh = `${this.directory}/${this.newName(".tmp")}`;
      const text = kept.map(([key, l]) => `${key} ${l.object} ${l.symbol} ${l.size} ${l.digest}\n`).join("");
      Deno.writeTextFileSync(fresh, text);
      Deno.renameSync(fresh, this.index);
      this.read = text.length;
      for (const [key, l] of all) if (gone.has(l.object)) this.lines.delete(key);
      for (const name of gone) Deno.removeSync(`${this.directory}/${name}`);
    } catch { /* another process does the same, or the directory cannot be written */ }
  }

  /** Tells once that something here was damaged. */
  private tell(object: string): void {
    if (this.told) return;
    this.told = true;
    console.error(`${this.device}: ${this.directory}/${object} is damaged; its kernels are compiled again`);
  }

  /** Reads what this or another process has appended. */
  refresh(): void {
    try {
      if (Deno.statSync(this.index).size === this.read) return;
      const bytes = Deno.readFileSync(this.index);
      this.read = bytes.byteLength;
      for (const line of new TextDecoder().decode(bytes).split("\n")) {
        const key = line.slice(0, KEY_LENGTH);
        // of two lines of a key the last good one counts
        if (line.length > KEY_LENGTH && (!this.lines.has(key) || LINE.test(line))) this.lines.set(key, line);
      }
    } catch { /* no index yet */ }
  }

  /** What is known of a key. */
  private lineOf(key: string): Line | undefined {
    const line = this.lines.get(key);
    if (typeof line !== "string") return line;
    const [, , object, symbol, size, digest] = LINE.exec(line) ?? [];
    if (object === undefined) this.lines.delete(key);
    else this.lines.set(key, { folder: this.directory, object, symbol, size: Number(size), digest });
    return this.lineOf(key);
  }

  /** What is known of all keys. */
  private *all(): Iterable<[key: string, line: Line]> {
    for (const key of [...this.lines.keys()]) {
      const line = this.lineOf(key);
      if (line !== undefined) yield [key, line];
    }
  }

  /** The path of an object that is complete and undamaged. Each object is read once a process. */
  private sound(line: Line): boolean {
    const key = objectKey(line);
    let good = this.checked.get(key);
    if (good === undefined) {
      try {
        const path = this.path(line), bytes = Deno.readFileSync(path);
        good = bytes.byteLength === line.size && digest(bytes) === line.digest;
        if (good) markUsed(path);
        else this.tell(line.object);
      } catch {
        good = false;
      }
      this.checked.set(key, good);
    }
    return good;
  }

  /** The full path of an entry's object. */
  path(entry: CacheEntry): string {
    return `${entry.folder}/${entry.object}`;
  }

  /** The entry of a key, if its object is there and undamaged. Call {@linkcode ObjectCache.refresh} before. */
  get(key: string): CacheEntry | undefined {
    const line = this.lineOf(key);
    return line !== undefined && this.sound(line) ? line : undefined;
  }

  /** Forgets a key whose object turned out to be unusable. */
  drop(key: string): void {
    const line = this.lineOf(key);
    if (line !== undefined) this.checked.set(objectKey(line), false);
    this.lines.delete(key);
  }

  /** Whether a file of a megabyte can be written beside the objects. */
  hasRoom(): boolean {
    const file = `${this.target}/${this.newName(".tmp")}`;
    try {
      Deno.writeFileSync(file, new Uint8Array(2 ** 20));
      return true;
    } catch {
      return false;
    } finally {
      try {
        Deno.removeSync(file);
      } catch { /* it was never made */ }
    }
  }

  /** A name that nobody uses. */
  newName(suffix: string): string {
    const random = crypto.getRandomValues(new Uint32Array(2));
    return `${Date.now().toString(36)}${random[0].toString(36)}${random[1].toString(36)}${serial++}${suffix}`;
  }

  /**
   * Announces symbols of a complete object in {@linkcode folder}. One append: other processes see all of it or none.
   *
   * @throws if the object cannot be read
   */
  add(object: string, symbols: readonly (readonly [key: string, symbol: string])[]): void {
    const folder = this.target, bytes = Deno.readFileSync(`${folder}/${object}`);
    const line: Omit<Line, "symbol"> = { folder, object, size: bytes.byteLength, digest: digest(bytes) };
    let text = "";
    for (const [key, symbol] of symbols) {
      this.lines.set(key, { ...line, symbol });
      text += `${key} ${object} ${symbol} ${line.size} ${line.digest}\n`;
    }
    this.checked.set(objectKey(line), true);
    if (folder !== this.directory) return;
    try {
      Deno.writeTextFileSync(this.index, `\n${text}`, { append: true });
    } catch { /* the object serves this process; others will compile it again */ }
  }
}
