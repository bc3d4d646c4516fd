/**
 * Filters, tests and methods of chat templates that `@huggingface/jinja` lacks or understands otherwise than Python's
 * jinja2, each to plain JavaScript values. Lists and dicts may be changed, as llama.cpp allows and transformers does not.
 *
 * @module
 */
import {
  contains,
  equal,
  escaped,
  isTrue,
  itemsOf,
  json,
  keyOf,
  numberOf,
  order,
  Safe,
  textOf,
  Tuple,
  typeName,
  type Value,
} from "./template_values.ts";

/** What filters need of the interpreter that calls them. */
export interface Tools {
  /** A value of what a filter gave. */
  of(plain: unknown): Value;
  /** What `x.key` or `x[key]` is. */
  member(x: Value, key: Value): Value;
  /** `x` after the filter `name`. */
  filter(name: string, x: Value, args: Arguments): Value;
  /** Is `x` what the test `name` asks? */
  test(name: string, x: Value, args: readonly Value[]): boolean;
}
/** Arguments of a call, by position or by name. */
export class Arguments {
  constructor(readonly positional: readonly Value[], readonly named: ReadonlyMap<unknown, Value> = new Map()) {}
  get(index: number, name: string): Value | undefined {
    const x = this.positional[index] ?? this.named.get(name);
    return x?.type === "NullValue" ? undefined : x;
  }
  text(index: number, name: string): string | undefined {
    const x = this.get(index, name);
    return x && textOf(x);
  }
  integer(index: number, name: string, otherwise: number): number {
    const x = this.get(index, name);
    return x && numberOf(x) || otherwise;
  }
  flag(index: number, name: string): boolean {
    const x = this.get(index, name);
    return x !== undefined && isTrue(x);
  }
}

function strip(text: string, characters: string | undefined, left: boolean, right: boolean): string {
  const set = characters?.replace(/[\\\]^-]/g, "\\$&") ?? "\\s\\x1c-\\x1f\\x85";
  if (set === "") return text;
  const start = left ? text.replace(new RegExp(`^[${set}]+`, "u"), "") : text;
  return right ? start.replace(new RegExp(`[${set}]+$`, "u"), "") : start;
}
function lines(text: string): string[] {
  const all = text.split(/\r\n|[\n\r\v\f\u2028\u2029]/);
  return all.at(-1) === "" ? all.slice(0, -1) : all;
}
function capitalized(text: string): string {
  const [first = "", ...rest] = text;
  return first.toUpperCase() + rest.join("").toLowerCase();
}
/** `text.format(...)`, without widths and digits. */
function format(text: string, args: Arguments): string {
  let next = 0;
  return text.replace(/\{\{|\}\}|\{([^{}]*)\}/g, (whole, name?: string) => {
    if (name === undefined) return whole[0];
    const x = name === "" ? args.positional[next++] : args.positional[Number(name)] ?? args.named.get(name);
    if (x === undefined) throw new Error(`format has no argument for '{${name}}'`);
    return textOf(x);
  });
}
function rightSplit(text: string, by: string, most: number): string[] {
  const parts = text.split(by), kept = most < 0 ? 0 : Math.max(0, parts.length - most);
  return kept === 0 ? parts : [parts.slice(0, kept).join(by), ...parts.slice(kept)];
}

type Method<T> = (x: T, args: Arguments, tools: Tools) => unknown;
const TEXTS: Readonly<Record<string, Method<string>>> = {
  strip: (s, a) => strip(s, a.text(0, "chars"), true, true),
  lstrip: (s, a) => strip(s, a.text(0, "chars"), true, false),
  rstrip: (s, a) => strip(s, a.text(0, "chars"), false, true),
  title: (s) => s.replace(/\p{L}+/gu, capitalized),
  capitalize: capitalized,
  rsplit: (s, a) => rightSplit(s, a.text(0, "sep") ?? " ", a.integer(1, "maxsplit", -1)),
  splitlines: lines,
  find: (s, a) => s.indexOf(textOf(a.positional[0])),
  count: (s, a) => s.split(textOf(a.positional[0])).length - 1,
  join: (s, a, { of }) => itemsOf(a.positional[0]).map((x) => textOf(of(x))).join(s),
  format,
  removeprefix: (s, a) => s.startsWith(textOf(a.positional[0])) ? s.slice(textOf(a.positional[0]).length) : s,
  isdigit: (s) => /^\p{Nd}+$/u.test(s),
  isalpha: (s) => /^\p{L}+$/u.test(s),
  isspace: (s) => s !== "" && strip(s, undefined, true, false) === "",
};
const LISTS: Readonly<Record<string, Method<Value[]>>> = {
  append: (l, a) => (l.push(a.positional[0]), null),
  extend: (l, a, { of }) => (l.push(...itemsOf(a.positional[0]).map(of)), null),
  insert: (l, a) => (l.splice(a.integer(0, "index", 0), 0, a.positional[1]), null),
  pop: (l, a) => {
    if (l.length === 0) throw new Error("pop from empty list");
    return l.splice(a.positional.length > 0 ? a.integer(0, "index", 0) : -1, 1)[0];
  },
  index: (l, a) => l.findIndex((x) => equal(x, a.positional[0])),
  count: (l, a) => l.filter((x) => equal(x, a.positional[0])).length,
};
type Dict = Map<unknown, Value>;
const pairs = (d: Dict): Tuple[] => [...d].map((pair) => new Tuple(pair));
const DICTS: Readonly<Record<string, Method<Dict>>> = {
  get: (d, a) => d.get(keyOf(a.positional[0])) ?? a.get(1, "default") ?? null,
  items: pairs,
  keys: (d) => [...d.keys()],
  values: (d) => [...d.values()],
  copy: (d) => new Map(d),
  pop: (d, a) => {
    const key = keyOf(a.positional[0]), x = d.get(key) ?? a.positional[1];
    if (x === undefined) throw new Error(`dict has no key ${textOf(a.positional[0], true)}`);
    d.delete(key);
    return x;
  },
  update: (d, a) => {
    for (const [key, x] of [...(a.positional[0]?.value as Dict | undefined) ?? [], ...a.named]) d.set(key, x);
    return null;
  },
};
/** The method `name` of `x`; undefined where it has none that is known here. */
export function methodOf(x: Value, name: unknown): ((args: Arguments, tools: Tools) => unknown) | undefined {
  const all = { StringValue: TEXTS, ArrayValue: LISTS, ObjectValue: DICTS }[x.type as string] ?? {};
  if (typeof name !== "string" || !Object.hasOwn(all, name)) return undefined;
  return (args, tools) => (all as Record<string, Method<unknown>>)[name](x.value, args, tools);
}

const iterable = (x: Value): boolean => /^(Array|String|Object|Undefined)/.test(x.type);
/** Tests that are not the package's. */
export const TESTS: Readonly<Record<string, (x: Value, y: Value) => boolean>> = {
  ...{ iterable, sequence: iterable, eq: equal, equalto: equal, "==": equal, in: (x, y) => contains(y, x) },
  ...{ ne: (x, y) => !equal(x, y), lt: (x, y) => order(x, y) < 0, le: (x, y) => order(x, y) <= 0 },
  ...{ gt: (x, y) => order(x, y) > 0, ge: (x, y) => order(x, y) >= 0 },
  divisibleby: (x, y) => numberOf(x)! % numberOf(y)! === 0,
  float: (x) => x.type === "FloatValue",
  mapping: (x) => x.type === "ObjectValue",
  number: (x) => numberOf(x) !== undefined,
  sameas: (x, y) => x.type === y.type && (x.value ?? null) === (y.value ?? null),
};

type Filter = (x: Value, args: Arguments, tools: Tools) => unknown;
function attributeOf(x: Value, path: Value | undefined, { member, of }: Tools): Value {
  const parts = path === undefined ? [] : textOf(path).split(".");
  return parts.map((part) => of(/^\d+$/.test(part) ? Number(part) : part)).reduce(member, x);
}
function select(wanted: boolean, byAttribute: boolean): Filter {
  return (x, { positional }, tools) => {
    const [name, ...rest] = positional.slice(byAttribute ? 1 : 0);
    return isTrue(x) && itemsOf(x).map(tools.of).filter((item) => {
          const on = byAttribute ? attributeOf(item, positional[0], tools) : item;
          return (name === undefined ? isTrue(on) : tools.test(textOf(name), on, rest)) === wanted;
        }) || [];
  };
}
const folded = (x: Value): Value => x.type === "StringValue" ? { type: x.type, value: x.value.toLowerCase() } : x;
function least(sign: number): Filter {
  return (x, _, { of }) =>
    itemsOf(x).map(of).reduce<Value | undefined>(
      (a, b) => a && sign * order(folded(a), folded(b)) <= 0 ? a : b,
      undefined,
    );
}
const otherwise: Filter = (x, a) =>
  x.type === "UndefinedValue" || a.flag(1, "boolean") && !isTrue(x) ? a.positional[0] ?? "" : x;
const escape: Filter = (x) => new Safe(escaped(x)), length: Filter = (x) => itemsOf(x).length;
/** Filters that are not the package's. */
export const FILTERS: Readonly<Record<string, Filter>> = {
  ...{ default: otherwise, d: otherwise, escape, e: escape, length, count: length },
  capitalize: (x) => capitalized(textOf(x)),
  dictsort: (x, a, { of }) => {
    if (x.type !== "ObjectValue") throw new Error(`dictsort takes a dict, not a ${typeName(x)}`);
    const at = a.text(1, "by") === "value" ? 1 : 0, fold = a.flag(0, "case_sensitive") ? (v: Value) => v : folded;
    const all = pairs(x.value).map((p) => [fold(of(p.items[at])), p] as const), sign = a.flag(2, "reverse") ? -1 : 1;
    return all.sort(([p], [q]) => sign * order(p, q)).map(([_, pair]) => pair);
  },
  first: (x, _, { of }) => itemsOf(x).map(of)[0],
  from_json: (x) => JSON.parse(textOf(x)),
  indent: (x, a) => {
    const width = a.text(0, "width") ?? "4", space = /^\d+$/.test(width) ? " ".repeat(Number(width)) : width;
    const first = a.flag(1, "first"), blank = a.flag(2, "blank");
    const put = (line: string, i: number) => (i === 0 ? first : blank || line !== "") ? space + line : line;
    return lines(`${textOf(x)}\n`).map(put).join("\n");
  },
  int: (x, a) => {
    const n = numberOf(x) ?? (/^\s*[+-]?[\d.]+(e[+-]?\d+)?\s*$/i.test(textOf(x)) ? Number(textOf(x)) : NaN);
    return Number.isNaN(n) ? a.integer(0, "default", 0) : Math.trunc(n);
  },
  items: (x) => {
    if (x.type === "ObjectValue") return pairs(x.value);
    if (x.type !== "UndefinedValue") throw new Error("Can only get item pairs from a mapping");
    return [];
  },
  join: (x, a, t) => {
    const all = itemsOf(x).map((item) => textOf(attributeOf(t.of(item), a.get(1, "attribute"), t)));
    return all.join(a.text(0, "d") ?? "");
  },
  last: (x, _, { of }) => itemsOf(x).map(of).at(-1),
  list: (x) => itemsOf(x),
  lower: (x) => textOf(x).toLowerCase(),
  map: (x, a, t) => {
    const attribute = a.named.get("attribute"), [name, ...rest] = a.positional;
    return itemsOf(x).map(t.of).map((item) => {
      if (attribute === undefined) return t.filter(textOf(name), item, new Arguments(rest, a.named));
      const on = attributeOf(item, attribute, t);
      return on.type === "UndefinedValue" ? a.named.get("default") ?? on : on;
    });
  },
  max: least(-1),
  min: least(1),
  reject: select(false, false),
  rejectattr: select(false, true),
  reverse: (x, _, { of }) => x.type === "StringValue" ? [...x.value].reverse().join("") : itemsOf(x).map(of).reverse(),
  safe: (x) => new Safe(textOf(x)),
  select: select(true, false),
  selectattr: select(true, true),
  string: (x) => x.type === "StringValue" ? x : textOf(x),
  title: (x) => textOf(x).replace(/[^-\s({[<]+/g, capitalized),
  tojson: (x, a) => {
    const indent = a.get(1, "indent"), by = a.get(2, "separators")?.value as Value[] | undefined;
    const space = indent && (indent.type === "StringValue" ? indent.value : " ".repeat(numberOf(indent)!));
    const [item, key] = by?.map((s) => textOf(s)) ?? [indent ? "," : ", ", ": "];
    return json(x, { indent: space, ascii: a.flag(0, "ensure_ascii"), item, key, sorted: a.flag(3, "sort_keys") });
  },
  trim: (x, a) => strip(textOf(x), a.text(0, "chars"), true, true),
  unique: (x, a, t) => {
    const key = (item: Value) => folded(attributeOf(item, a.get(1, "attribute"), t)), seen: Value[] = [];
    return itemsOf(x).map(t.of).filter((item) => !seen.some((k) => equal(k, key(item))) && seen.push(key(item)));
  },
  upper: (x) => textOf(x).toUpperCase(),
};
