/**
 * Writing files so that no half of one is ever seen: to a file of another name beside the target, which is flushed to
 * the disk and then renamed. After an error the target is as it was, and nothing is left beside it.
 *
 * @module
 */
import { fileErrorCode, type HostFiles, hostFiles, NO_FILES } from "../device/host_files.ts";
import { FormatError } from "../helpers/errors.ts";
import { concatBytes } from "../helpers/math.ts";

/**
 * Adds bytes, which then stay as they are, to the end of a file. Small parts are gathered, and give nothing to wait for:
 * who waits for each of many gives a training loop beside it a step each time.
 */
export type Put = (bytes: Uint8Array) => Promise<void> | undefined;

/** Bytes that are written at once. */
const GATHERED = 1 << 20;

/** A file that is written but has not its name yet. */
interface Written {
  readonly temporary: string;
  readonly target: string;
}

function filesFor(file: string): HostFiles {
  const files = hostFiles();
  if (files === undefined) throw new FormatError("save", { file, reason: NO_FILES });
  return files;
}

/** An error of the file system with the file and the cause; others as they are. */
function named(target: string, error: unknown): unknown {
  if (error instanceof FormatError || fileErrorCode(error) === undefined) return error;
  return new FormatError("save", { file: target, reason: (error as Error).message, cause: error });
}

/** A {@linkcode Put} that gathers small parts before it calls `write`, and what writes the rest. */
function gathering(
  write: (bytes: Uint8Array) => Promise<void>,
): { readonly put: Put; readonly end: () => Promise<void> } {
  let parts: Uint8Array[] = [], size = 0;
  const end = async (): Promise<void> => {
    const whole = concatBytes(parts);
    [parts, size] = [[], 0];
    await write(whole);
  };
  const large = async (bytes: Uint8Array): Promise<void> => {
    if (size > 0) await end();
    await write(bytes);
  };
  const put = (bytes: Uint8Array): Promise<void> | undefined => {
    if (bytes.length >= GATHERED) return large(bytes);
    parts.push(bytes);
    size += bytes.length;
    return size >= GATHERED ? end() : undefined;
  };
  return { put, end };
}

async function writeBeside(target: string, write: (put: Put) => Promise<void>): Promise<Written> {
  const files = filesFor(target), temporary = `${target}.${crypto.randomUUID().slice(0, 8)}.part`;
  const file = await files.open(temporary, { write: true, createNew: true }).catch((error) => {
    throw named(target, error);
  });
  try {
    try {
      const { put, end } = gathering(async (bytes) => {
        for (let n = 0; n < bytes.length;) n += await file.write(bytes.subarray(n));
      });
      await write(put);
      await end();
      await file.sync();
    } finally {
      file.close();
    }
  } catch (error) {
    await files.remove(temporary).catch(() => {});
    throw named(target, error);
  }
  return { temporary, target };
}

/** Writes one file, all of it or nothing. @throws {FormatError} naming the file, and why it cannot be written */
export async function writeFile(target: string, write: (put: Put) => Promise<void>): Promise<void> {
  await writeFiles([[target, write]]);
}

/**
 * Writes several files. All are complete before the first gets its name; they get them in order, so that a list of the
 * others belongs last.
 */
export async function writeFiles(
  files: readonly (readonly [target: string, write: (put: Put) => Promise<void>])[],
): Promise<void> {
  const done: Written[] = [];
  try {
    for (const [target, write] of files) done.push(await writeBeside(target, write));
    while (done.length > 0) {
      const { temporary, target } = done[0];
      await filesFor(target).rename(temporary, target).catch((error) => {
        throw named(target, error);
      });
      done.shift();
    }
  } finally {
    for (const { temporary, target } of done) await filesFor(target).remove(temporary).catch(() => {});
  }
}
