/**
 * A file that grows at its end, record by record. In: bytes; out: whole records in the file, or an error that names it. A
 * record of which only a part could be written, as on a full disk, is taken back.
 *
 * @module
 */
import { fileErrorCode, NO_FILES } from "../device/host_files.ts";
import { FormatError } from "../helpers/errors.ts";
import { nodeModule } from "../helpers/node.ts";

/** What is used of node:fs, which Deno has too. */
interface Fs {
  openSync(path: string, flags: string): number;
  writeSync(fd: number, bytes: Uint8Array, offset: number, length: number): number;
  ftruncateSync(fd: number, length: number): void;
  fstatSync(fd: number): { readonly size: number };
  closeSync(fd: number): void;
  mkdirSync(path: string, options: { readonly recursive: true }): void;
}

/** The path that a user gave. @throws {FormatError} where the runtime has no files */
export function logPath(path: string | URL): string {
  return path instanceof URL ? decodeURIComponent(path.pathname) : path;
}

/** A file to append to. */
export class LogFile {
  private readonly fs: Fs;
  private fd: number | undefined;
  private size: number;

  /** Opens it, or makes it, with its folder. @throws {FormatError} naming the file and why it cannot be written */
  constructor(readonly path: string, isNew = false) {
    const fs = nodeModule("node:fs") as Fs | undefined;
    if (fs?.openSync === undefined) throw new FormatError("log", { file: path, reason: NO_FILES });
    this.fs = fs;
    const folder = /^(.*)[/\\][^/\\]+$/.exec(path)?.[1];
    [this.fd, this.size] = this.named(() => {
      if (folder) fs.mkdirSync(folder, { recursive: true });
      const fd = fs.openSync(path, isNew ? "w" : "a");
      return [fd, fs.fstatSync(fd).size];
    });
  }

  private named<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (fileErrorCode(error) === undefined) throw error;
      throw new FormatError("log", { file: this.path, reason: (error as Error).message, cause: error });
    }
  }

  /** Adds bytes, all of them or none. @throws {FormatError} */
  append(bytes: Uint8Array): void {
    const { fd, fs } = this;
    if (fd === undefined) throw new FormatError("log", { file: this.path, reason: "it is closed" });
    this.named(() => {
      try {
        for (let n = 0; n < bytes.length;) n += fs.writeSync(fd, bytes, n, bytes.length - n);
      } catch (error) {
        try {
          fs.ftruncateSync(fd, this.size);
        } catch {
          // what failed first is told
        }
        throw error;
      }
    });
    this.size += bytes.length;
  }

  /** Closes it; closing again does nothing. */
  close(): void {
    if (this.fd === undefined) return;
    const fd = this.fd;
    this.fd = undefined;
    this.named(() => this.fs.closeSync(fd));
  }
}
