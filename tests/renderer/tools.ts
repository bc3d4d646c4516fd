/** Whether programs outside are there. */

/** True where `command` starts and ends well. */
export function isAvailable(command: string, ...args: string[]): boolean {
  try {
    return new Deno.Command(command, { args, stdout: "null", stderr: "null" }).outputSync().success;
  } catch {
    return false;
  }
}
