/**
 * Files mapped into memory through the C library: Deno has no mmap. The library is opened for each call and closed after
 * it, so that nothing is left open that a test or a server would have to close; the mapping stays without it.
 *
 * @module
 */

import { cString, isGranted, whyNoForeignCode } from "../../src/device/foreign.ts";

/** Symbols of the C library, for `Deno.dlopen`. */
const SYMBOLS = {
  open: { parameters: ["buffer", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  lseek: { parameters: ["i32", "i64", "i32"], result: "i64" },
  mmap: { parameters: ["pointer", "usize", "i32", "i32", "i32", "i64"], result: "pointer" },
  munmap: { parameters: ["pointer", "usize"], result: "i32" },
} as const;

type Libc = Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];

const LIBRARIES: Readonly<Record<string, string>> = { linux: "libc.so.6", darwin: "libSystem.B.dylib" };
const READ = 1, PRIVATE = 2, END = 2;
/** O_RDONLY | O_CLOEXEC. */
const FLAGS: Readonly<Record<string, number>> = { linux: 0o2000000, darwin: 0x1000000 };

/** Calls `use` with the C library; undefined where there is none. */
function withLibc<T>(use: (libc: Libc) => T): T | undefined {
  let library: Deno.DynamicLibrary<typeof SYMBOLS>;
  try {
    library = Deno.dlopen(LIBRARIES[Deno.build.os], SYMBOLS);
  } catch {
    return undefined;
  }
  try {
    return use(library.symbols);
  } finally {
    library.close();
  }
}

/** Whether mapping is permitted here, without a prompt. */
export function canMap(): boolean {
  return whyNoForeignCode() === undefined && Deno.build.os in LIBRARIES && isGranted({ name: "ffi" });
}

/** A file in memory, read as it is touched. It stays the same file whatever happens to its name. */
export class MappedFile {
  private constructor(
    private readonly pointer: NonNullable<Deno.PointerValue>,
    private readonly fd: number,
    /** Bytes. */
    readonly size: number,
  ) {}

  /** Maps a file of `size` bytes; undefined where the system refuses, or the file has another size by now. */
  static open(path: string, size: number): MappedFile | undefined {
    const name = cString(path);
    return withLibc((libc) => {
      const fd = libc.open(name, FLAGS[Deno.build.os]);
      if (fd < 0) return undefined;
      const pointer = Number(libc.lseek(fd, 0n, END)) === size
        ? libc.mmap(null, BigInt(size), READ, PRIVATE, fd, 0n)
        : null;
      if (pointer === null || BigInt.asIntN(64, BigInt(Deno.UnsafePointer.value(pointer))) === -1n) {
        libc.close(fd);
        return undefined;
      }
      return new MappedFile(pointer, fd, size);
    });
  }

  /**
   * Copies bytes from `offset` on; false where the file was cut short since: touching what is gone would end the process.
   */
  read(into: Uint8Array, offset: number): boolean {
    const size = withLibc((libc) => Number(libc.lseek(this.fd, 0n, END))) ?? 0;
    if (size < offset + into.length) return false;
    Deno.UnsafePointerView.copyInto(this.pointer, into as Uint8Array<ArrayBuffer>, offset);
    return true;
  }

  /** Unmaps it. */
  close(): void {
    withLibc((libc) => {
      libc.munmap(this.pointer, BigInt(this.size));
      libc.close(this.fd);
    });
  }
}
