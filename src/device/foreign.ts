/**
 * What backends that call foreign code share: what Deno permits without asking, and text as C has it.
 *
 * @module
 */

/** Whether Deno grants something without asking. */
export function isGranted(permission: Deno.PermissionDescriptor): boolean {
  return Deno.permissions.querySync(permission).state === "granted";
}

/** Why foreign code cannot be called here at all, whatever is permitted; undefined where it can. */
export function whyNoForeignCode(): string | undefined {
  const deno = (globalThis as { Deno?: typeof Deno }).Deno;
  return deno?.permissions?.querySync === undefined || deno.dlopen === undefined ? "it needs Deno" : undefined;
}

/** Text as C has it. */
export function cString(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}

/** The text of a C string at the start of `bytes`. */
export function textOf(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end));
}
