/**
 * Text for other readers: as HTML, bytes as base64, and objects as consoles print them.
 *
 * @module
 */

/** Text as HTML or XML, also between quotes. What XML 1.0 has no characters for, like most control codes, is U+FFFD. */
export function escapeHtml(text: string): string {
  const whole = text.replace(/(?![\t\n\r])[\p{Cc}\p{Cs}\ufffe\uffff]/gu, "\ufffd");
  return whole.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/** Bytes as base64. */
export function base64(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
}

/** Makes Deno and Node.js print an object, or all that have it as their prototype, as `text` says. */
export function showAs<T extends object>(shown: T, text: (x: T) => string): void {
  for (const key of ["Deno.customInspect", "nodejs.util.inspect.custom"]) {
    const value = function (this: T): string {
      return text(this);
    };
    Object.defineProperty(shown, Symbol.for(key), { value, configurable: true, writable: true });
  }
}
