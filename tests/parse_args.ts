/**
 * Arguments of the command line, under the name that Deno's users know: `@std/cli/parse-args` of the import map.
 *
 * @module
 */

/** What is expected: names whose values stay text, names that are flags, values of those that are not given. */
export interface ParseOptions {
  readonly string?: readonly string[];
  readonly boolean?: readonly string[];
  readonly default?: Readonly<Record<string, unknown>>;
}

/** `--name value`, `--name=value`, `--flag` and `--no-flag` by name; others, and what follows `--`, in `_`. */
// deno-lint-ignore no-explicit-any
export function parseArgs(args: readonly string[], options: ParseOptions = {}): Record<string, any> & { _: string[] } {
  // deno-lint-ignore no-explicit-any
  const out: Record<string, any> & { _: string[] } = { _: [] };
  for (const name of options.boolean ?? []) out[name] = false;
  Object.assign(out, options.default);
  const value = (name: string, text: string): unknown =>
    options.string?.includes(name) || text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
  for (let i = 0; i < args.length; i++) {
    if (args[i] === "--") {
      out._.push(...args.slice(i + 1));
      break;
    }
    const [, name, , text] = /^--([^=]+)(=(.*))?$/s.exec(args[i]) ?? [];
    if (name === undefined) out._.push(args[i]);
    else if (text !== undefined) out[name] = options.boolean?.includes(name) ? text !== "false" : value(name, text);
    else if (options.boolean?.includes(name)) out[name] = true;
    else if (name.startsWith("no-")) out[name.slice(3)] = false;
    else if (i + 1 < args.length && !args[i + 1].startsWith("--")) out[name] = value(name, args[++i]);
    else out[name] = options.string?.includes(name) ? "" : true;
  }
  return out;
}
