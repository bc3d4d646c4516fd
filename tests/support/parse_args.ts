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
  /** Whether names that are not listed are errors. */
  readonly strict?: boolean;
}

/** What is given, by name: text under names whose values stay text, true or false under flags; whatever else was given. */
export type ParsedArgs<O extends ParseOptions> =
  & Record<string, unknown>
  & { readonly [K in NonNullable<O["string"]>[number]]?: string }
  & { readonly [K in NonNullable<O["boolean"]>[number]]: boolean }
  & { readonly _: readonly string[] };

function checkName(name: string, { string = [], boolean = [] }: ParseOptions): void {
  if (string.includes(name) || boolean.includes(name.replace(/^no-/, ""))) return;
  const known = [...string, ...boolean].map((n) => `--${n}`).join(" ");
  throw new Error(`There is no option --${name}: known are ${known}`);
}

/** `--name value`, `--name=value`, `--flag` and `--no-flag` by name; others, and what follows `--`, in `_`. */
export function parseArgs<const O extends ParseOptions>(args: readonly string[], options: O = {} as O): ParsedArgs<O> {
  const rest: string[] = [], out: Record<string, unknown> = { _: rest };
  for (const name of options.boolean ?? []) out[name] = false;
  Object.assign(out, options.default);
  const value = (name: string, text: string): unknown =>
    options.string?.includes(name) || text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
  for (let i = 0; i < args.length; i++) {
    if (args[i] === "--") {
      rest.push(...args.slice(i + 1));
      break;
    }
    const [, name, , text] = /^--([^=]+)(=(.*))?$/s.exec(args[i]) ?? [];
    if (name !== undefined && options.strict) checkName(name, options);
    if (name === undefined) rest.push(args[i]);
    else if (text !== undefined) out[name] = options.boolean?.includes(name) ? text !== "false" : value(name, text);
    else if (options.boolean?.includes(name)) out[name] = true;
    else if (name.startsWith("no-")) {
      if (options.string?.includes(name.slice(3))) delete out[name.slice(3)];
      else out[name.slice(3)] = false;
    } else if (i + 1 < args.length && !args[i + 1].startsWith("--")) out[name] = value(name, args[++i]);
    else out[name] = options.string?.includes(name) ? "" : true;
  }
  return out as ParsedArgs<O>;
}
