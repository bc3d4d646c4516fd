/** A folder for the time of a function. @module */

/** Runs a function with an empty folder of its own, which is removed at the end, whatever it left there. */
export async function inFolder<T>(fn: (folder: string) => T | Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "dinograd-test-" });
  try {
    return await fn(folder);
  } finally {
    await Deno.chmod(folder, 0o700).catch(() => {});
    await Deno.remove(folder, { recursive: true });
  }
}
