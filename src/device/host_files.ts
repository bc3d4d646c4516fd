/**
 * Files of the host, in the form that Deno gives them: under Deno they are its own, under Node.js and Bun node:fs is
 * put in that form. What goes wrong is told by the error of the runtime, which has a `code`, as "ENOENT".
 *
 * @module
 */
import { envText, readEnv } from "../helpers/env.ts";
import { nodeModule, nodeProcess } from "../helpers/node.ts";

/** What is known of a file. */
export interface HostFileInfo {
  readonly isFile: boolean;
  readonly size: number;
  readonly mtime: Date | null;
  readonly ino: number | null;
  readonly dev: number;
}

/** An open file; reads go on from where it stands. */
export interface HostFile {
  statSync(): HostFileInfo;
  /** Moves to `offset` from the start. */
  seekSync(offset: number, whence: 0): number;
  /** How many bytes there were; null at the end. */
  readSync(into: Uint8Array): number | null;
  /** How many bytes were written. */
  write(bytes: Uint8Array): Promise<number>;
  /** Waits until the disk has what was written. */
  sync(): Promise<void>;
  close(): void;
}

/** What is used of the file functions of a runtime. */
export interface HostFiles {
  cwd(): string;
  statSync(path: string): HostFileInfo;
  openSync(path: string, options: { readonly read: true }): HostFile;
  readTextFileSync(path: string): string;
  writeTextFileSync(path: string, text: string, options: { readonly append: true }): void;
  mkdirSync(path: string, options: { readonly recursive: true }): void;
  readDirSync(path: string): Iterable<{ readonly name: string }>;
  removeSync(path: string, options: { readonly recursive: true }): void;
  /** Times in seconds. */
  utimeSync(path: string, atime: number, mtime: number): void;
  /** A file that must not be there yet, or one that is written on at its end. */
  open(
    path: string,
    options: { readonly write: true; readonly createNew: true } | { readonly append: true; readonly create: true },
  ): Promise<HostFile>;
  readFile(path: string): Promise<Uint8Array<ArrayBuffer>>;
  writeFile(path: string, bytes: Uint8Array, options: { readonly createNew: true }): Promise<void>;
  mkdir(path: string, options: { readonly recursive: true }): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
}

/** What is used of node:fs. */
interface NodeStats {
  isFile(): boolean;
  readonly size: number;
  readonly mtime: Date;
  readonly ino: number;
  readonly dev: number;
}
interface NodeFs {
  statSync(path: string): NodeStats;
  fstatSync(fd: number): NodeStats;
  openSync(path: string, flags: string): number;
  closeSync(fd: number): void;
  readSync(fd: number, into: Uint8Array, offset: number, length: number, position: number): number;
  readFileSync(path: string, encoding: "utf8"): string;
  appendFileSync(path: string, text: string): void;
  mkdirSync(path: string, options: { readonly recursive: true }): void;
  readdirSync(path: string): string[];
  rmSync(path: string, options: { readonly recursive: true }): void;
  utimesSync(path: string, atime: number, mtime: number): void;
  write(fd: number, bytes: Uint8Array, done: (error: Error | null, written: number) => void): void;
  fsync(fd: number, done: (error: Error | null) => void): void;
  readonly promises: {
    readFile(path: string): Promise<Uint8Array<ArrayBuffer>>;
    writeFile(path: string, bytes: Uint8Array, options: { readonly flag: string }): Promise<void>;
    mkdir(path: string, options: { readonly recursive: true }): Promise<unknown>;
    rename(from: string, to: string): Promise<void>;
    rm(path: string): Promise<void>;
  };
}

/** The flags of a file that must not be there yet, and is written. */
const CREATE_NEW = "wx";

function infoOf(stats: NodeStats): HostFileInfo {
  return { isFile: stats.isFile(), size: stats.size, mtime: stats.mtime, ino: stats.ino, dev: stats.dev };
}

/** A file of node:fs. */
class NodeFile implements HostFile {
  private position = 0;
  constructor(private readonly fs: NodeFs, private readonly fd: number) {}
  statSync(): HostFileInfo {
    return infoOf(this.fs.fstatSync(this.fd));
  }
  seekSync(offset: number): number {
    return this.position = offset;
  }
  readSync(into: Uint8Array): number | null {
    const got = this.fs.readSync(this.fd, into, 0, into.length, this.position);
    this.position += got;
    return got === 0 && into.length > 0 ? null : got;
  }
  write(bytes: Uint8Array): Promise<number> {
    return new Promise((resolve, reject) => {
      this.fs.write(this.fd, bytes, (error, written) => error ? reject(error) : resolve(written));
    });
  }
  sync(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.fs.fsync(this.fd, (error) => error ? reject(error) : resolve());
    });
  }
  close(): void {
    this.fs.closeSync(this.fd);
  }
}

/** Files as node:fs has them. */
class NodeFiles implements HostFiles {
  constructor(private readonly fs: NodeFs, readonly cwd: () => string) {}
  statSync(path: string): HostFileInfo {
    return infoOf(this.fs.statSync(path));
  }
  openSync(path: string): HostFile {
    return new NodeFile(this.fs, this.fs.openSync(path, "r"));
  }
  readTextFileSync(path: string): string {
    return this.fs.readFileSync(path, "utf8");
  }
  writeTextFileSync(path: string, text: string): void {
    this.fs.appendFileSync(path, text);
  }
  mkdirSync(path: string, options: { readonly recursive: true }): void {
    this.fs.mkdirSync(path, options);
  }
  readDirSync(path: string): Iterable<{ readonly name: string }> {
    return this.fs.readdirSync(path).map((name) => ({ name }));
  }
  removeSync(path: string, options: { readonly recursive: true }): void {
    this.fs.rmSync(path, options);
  }
  utimeSync(path: string, atime: number, mtime: number): void {
    this.fs.utimesSync(path, atime, mtime);
  }
  // deno-lint-ignore require-await -- what openSync throws is what it is rejected with
  async open(path: string, options: object): Promise<HostFile> {
    return new NodeFile(this.fs, this.fs.openSync(path, "append" in options ? "a" : CREATE_NEW));
  }
  async readFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
    const { buffer, byteOffset, byteLength } = await this.fs.promises.readFile(path);
    return new Uint8Array(buffer, byteOffset, byteLength); // no Buffer, whose slice() is a view
  }
  async writeFile(path: string, bytes: Uint8Array): Promise<void> {
    await this.fs.promises.writeFile(path, bytes, { flag: CREATE_NEW });
  }
  async mkdir(path: string, options: { readonly recursive: true }): Promise<void> {
    await this.fs.promises.mkdir(path, options);
  }
  async rename(from: string, to: string): Promise<void> {
    await this.fs.promises.rename(from, to);
  }
  async remove(path: string): Promise<void> {
    await this.fs.promises.rm(path);
  }
}

let ofNode: HostFiles | undefined;

/** The files of this runtime; undefined where it has none. */
export function hostFiles(): HostFiles | undefined {
  const { Deno: deno } = globalThis as { Deno?: typeof Deno };
  if (deno !== undefined) return typeof deno.statSync === "function" ? deno : undefined;
  if (ofNode === undefined) {
    const fs = nodeModule("node:fs") as NodeFs | undefined;
    if (fs?.openSync !== undefined) ofNode = new NodeFiles(fs, () => nodeProcess()!.cwd());
  }
  return ofNode;
}

/** The reason of errors where {@linkcode hostFiles} are missing. */
export const NO_FILES = "this runtime has no files";

/**
 * The code of a runtime's error, as "ENOENT"; "EACCES" where Deno was not permitted; "os error 27" where Deno has no name for
 * the system's number; undefined for other errors.
 */
export function fileErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code } = error as { code?: unknown };
  if (typeof code === "string") return code;
  return error.name === "NotCapable" ? "EACCES" : /os error \d+/.exec(error.message)?.[0];
}

/** Whether files of a folder may be read and written, without asking. */
export function mayUseFolder(folder: string): boolean {
  return may(["read", "write"], folder);
}

/** Whether files of a folder may be read, without asking. */
export function mayReadFolder(folder: string): boolean {
  return may(["read"], folder);
}

function may(names: readonly ("read" | "write")[], folder: string): boolean {
  const { Deno: deno } = globalThis as { Deno?: typeof Deno };
  if (deno === undefined) return hostFiles() !== undefined;
  return names.every((name) => deno.permissions?.querySync?.({ name, path: folder }).state === "granted");
}

/**
 * Where the project keeps what it need not make again: CACHEDIR, or a folder in the user's cache folder, absolute where
 * that is permitted; undefined without either.
 */
export function cacheRoot(): string | undefined {
  const xdg = readEnv("XDG_CACHE_HOME"), home = readEnv("HOME");
  const wanted = envText("CACHEDIR") || (xdg ? `${xdg}/dinograd` : home ? `${home}/.cache/dinograd` : "");
  if (wanted === "") return undefined;
  return /^([A-Za-z]:)?[/\\]/.test(wanted) ? wanted : `${hostFiles()?.cwd() ?? "."}/${wanted}`;
}
