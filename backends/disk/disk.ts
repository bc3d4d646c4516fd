/**
 * The DISK device: files as memory. A file is opened as one buffer of bytes; tensors are views of it, and a view reads
 * exactly its own bytes when it is copied to another device. Nothing computes here, and nothing is written: saving is
 * `state.safeSave` and its like.
 *
 * A small file is read as it is opened. A large one is mapped through the C library where FFI is permitted; elsewhere
 * each read opens the file, checks that it is still the same, and reads at a position.
 *
 * @module
 */
import { type Allocator, type Block, LruAllocator } from "../../src/device/allocator.ts";
import { Buffer } from "../../src/device/buffer.ts";
import type { Backend } from "../../src/device/device.ts";
import type { FileDevice } from "../../src/device/files.ts";
import { fileErrorCode, type HostFile, type HostFileInfo, hostFiles } from "../../src/device/host_files.ts";
import type { Compiler, Graph, Program } from "../../src/device/program.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { DeviceError, FormatError, type MemoryHolder } from "../../src/helpers/errors.ts";
import { C_LANGUAGE } from "../../src/renderer/c/c.ts";
import { CStyleRenderer } from "../../src/renderer/c/cstyle.ts";
import { type Renderer, SCALAR_CAPS } from "../../src/renderer/renderer.ts";
import { canMap, MappedFile } from "./mmap.ts";

/** Files up to this size are read when they are opened. */
const SMALL = 1 << 20;

/** An open file: a block of this device. */
interface FileBlock {
  /** Copies bytes from `offset` on. @throws {FormatError} where the file is no longer what it was */
  read(into: Uint8Array, offset: number): void;
  close(): void;
}

function changed(path: string): FormatError {
  return new FormatError("read", { file: path, reason: "it was changed or removed after it was loaded" });
}

/** A file opened for each read. */
class PositionedFile implements FileBlock {
  constructor(private readonly path: string, private readonly info: HostFileInfo) {}

  read(into: Uint8Array, offset: number): void {
    let file: HostFile;
    try {
      file = hostFiles()!.openSync(this.path, { read: true });
    } catch (error) {
      if (fileErrorCode(error) === "ENOENT") throw changed(this.path);
      throw error;
    }
    try {
      const { size, mtime, ino, dev } = file.statSync(), { info } = this;
      const same = size === info.size && ino === info.ino && dev === info.dev && Number(mtime) === Number(info.mtime);
      if (!same) throw changed(this.path);
      file.seekSync(offset, 0);
      for (let n = 0; n < into.length;) {
        const got = file.readSync(into.subarray(n));
        if (got === null || got === 0) throw changed(this.path);
        n += got;
      }
    } finally {
      file.close();
    }
  }
  close(): void {}
}

/** Bytes that were read already. */
class ReadFile implements FileBlock {
  constructor(private readonly bytes: Uint8Array) {}
  read(into: Uint8Array, offset: number): void {
    into.set(this.bytes.subarray(offset, offset + into.length));
  }
  close(): void {}
}

/** A mapping, whose failures are told as those of the other kinds. */
class SharedFile implements FileBlock {
  constructor(private readonly path: string, private readonly map: MappedFile) {}
  read(into: Uint8Array, offset: number): void {
    if (!this.map.read(into, offset)) throw changed(this.path);
  }
  close(): void {
    this.map.close();
  }
}

function refuse(what: string): never {
  throw new DeviceError(what, {
    device: "DISK",
    reason: 'files are only read; move tensors to another device with .to("WASM"), and save with state.safeSave',
  });
}

/** Memory that is files. Nothing is allocated: {@linkcode FileAllocator.mount} says which file a buffer is. */
class FileAllocator extends LruAllocator {
  /** Bytes read so far. */
  bytesRead = 0;
  private readonly mounted = new WeakMap<MemoryHolder, FileBlock>();

  constructor() {
    const inner: Allocator = {
      layout: { viewAlign: 1, arenas: false },
      alloc: () => refuse("make room on DISK"),
      free: (block) => (block as FileBlock).close(),
      copyIn: () => refuse("write to DISK"),
      copyOut: (dst, block, offset) => this.readBlock(dst, block, offset),
    };
    super("DISK", inner, 0);
  }

  private readBlock(dst: Uint8Array, block: Block, offset: number): void {
    (block as FileBlock).read(dst, offset);
    this.bytesRead += dst.length;
  }

  /** Makes `file` the memory of `holder`. */
  mount(holder: MemoryHolder, file: FileBlock): void {
    this.mounted.set(holder, file);
  }
  override alloc(nbytes: number, holder?: MemoryHolder): Block {
    const file = holder && this.mounted.get(holder);
    if (file === undefined) return super.alloc(nbytes, holder);
    this.count++;
    return file;
  }
  /** A file holds no memory of the process: it is counted, not weighed. */
  override free(block: Block): void {
    this.count--;
    (block as FileBlock).close();
  }
}

/** The device of files. */
class DiskDevice implements FileDevice {
  readonly name = "DISK";
  readonly renderer: Renderer = new CStyleRenderer(C_LANGUAGE, SCALAR_CAPS);
  readonly allocator: FileAllocator = new FileAllocator();
  readonly compiler: Compiler = { compile: (): Program[] => refuse("compute on DISK") };

  openFile(path: string): Buffer {
    const info = hostFiles()!.statSync(path);
    if (!info.isFile) throw new FormatError("read", { file: path, reason: "it is no file" });
    const buffer = new Buffer(this, dtypes.uint8, info.size);
    this.allocator.mount(buffer, this.blockOf(path, info));
    buffer.use = `file ${path}`;
    void buffer.memory; // from now on it is open
    return buffer;
  }
  private blockOf(path: string, info: HostFileInfo): FileBlock {
    const file = new PositionedFile(path, info);
    if (info.size <= SMALL) {
      const bytes = new Uint8Array(info.size);
      if (info.size > 0) file.read(bytes, 0);
      this.allocator.bytesRead += info.size;
      return new ReadFile(bytes);
    }
    const map = canMap() ? MappedFile.open(path, info.size) : undefined;
    return map === undefined ? file : new SharedFile(path, map);
  }

  run(): void {
    refuse("compute on DISK");
  }
  graph(): Graph {
    return refuse("compute on DISK");
  }
  synchronize(): Promise<void> {
    return Promise.resolve();
  }
  info(): Record<string, string | number | boolean> {
    return { mapped: canMap(), files: this.allocator.count, bytesRead: this.allocator.bytesRead };
  }
  close(): void {}
}

/** The DISK backend: for loading, never the default. */
export const diskBackend: Backend = {
  name: "DISK",
  description: "files as memory, read when they are copied to another device",
  permissions: [], // to open it; each file needs read permission
  unavailable: () => hostFiles() === undefined ? "it needs files, which Deno, Node.js and Bun have" : undefined,
  open: (ordinal): FileDevice => {
    if (ordinal !== 0) throw new DeviceError(`open device DISK:${ordinal}`, { device: "DISK", reason: "there is one" });
    return new DiskDevice();
  },
};
