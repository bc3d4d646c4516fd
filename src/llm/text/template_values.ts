/**
 * Values of chat templates as Python sees them: how they are written, compared and read. The values themselves are those
 * of `@huggingface/jinja`, which writes them as JavaScript does.
 *
 * @module
 */

/** Where a template finds its variables. */
export interface Scope {
  readonly variables: Map<string, Value>;
  setVariable(name: string, value: Value): void;
  lookupVariable(name: string): Value;
}
/** A function: named arguments come last. */
export type Callable = (args: Value[], scope: Scope) => Value;
/** Methods as the package has them. */
type Builtins = ReadonlyMap<unknown, Value>;
/** A value of the package. */
export type Value =
  | { readonly type: "StringValue"; readonly value: string; readonly safe?: boolean; readonly builtins?: Builtins }
  | { readonly type: "IntegerValue" | "FloatValue"; readonly value: number }
  | { readonly type: "BooleanValue"; readonly value: boolean }
  | { readonly type: "NullValue"; readonly value: null | undefined }
  | { readonly type: "UndefinedValue"; readonly value: undefined; readonly why?: string }
  | { readonly type: "ArrayValue"; readonly value: Value[]; readonly tuple?: boolean }
  | { readonly type: "ObjectValue" | "NamespaceValue" | "KeywordArgumentsValue"; readonly value: Map<unknown, Value> }
  | { readonly type: "FunctionValue"; readonly value: Callable };

/** A text that is not escaped where it meets others. */
export class Safe {
  constructor(readonly text: string) {}
}
/** A tuple. */
export class Tuple {
  constructor(readonly items: readonly unknown[]) {}
}

/** How Python calls the type of a value. */
export function typeName(x: Value): string {
  if (x.type === "ArrayValue") return x.tuple ? "tuple" : "list";
  const names: Readonly<Record<string, string>> = { StringValue: "str", IntegerValue: "int", BooleanValue: "bool" };
  return names[x.type] ?? { NullValue: "NoneType", ObjectValue: "dict" }[x.type as string] ??
    x.type.slice(0, -"Value".length).toLowerCase();
}
/** Throws that `x` is not there, if it is not. */
export function defined(x: Value): Exclude<Value, { type: "UndefinedValue" }> {
  if (x.type === "UndefinedValue") throw new Error(x.why ?? "a value is undefined");
  return x;
}
/** The number that `x` is, true and false among them. */
export function numberOf(x: Value): number | undefined {
  return x.type === "IntegerValue" || x.type === "FloatValue" || x.type === "BooleanValue"
    ? Number(x.value)
    : undefined;
}
/** Does `x` count as true? */
export function isTrue(x: Value): boolean {
  if (x.type === "ArrayValue") return x.value.length > 0;
  return x.type === "ObjectValue" || x.type === "KeywordArgumentsValue" ? x.value.size > 0 : Boolean(x.value);
}

/** A float as Python's `repr` writes it. */
function floatText(x: number): string {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
  const [digits, exponent] = x.toExponential().split("e"), e = Number(exponent);
  if (e < -4 || e >= 16) return `${digits}e${e < 0 ? "-" : "+"}${String(Math.abs(e)).padStart(2, "0")}`;
  const text = Object.is(x, -0) ? "-0" : String(x);
  return Number.isInteger(x) ? `${text}.0` : text;
}
/** A text in quotes, as `repr` writes it. */
function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const named: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };
  const escaped = text.replace(/[\p{C}\p{Z}\\'"]/gu, (c) => {
    if (c === " " || c === "'" || c === '"') return c === quote ? `\\${c}` : c;
    const code = c.codePointAt(0)!, [mark, width] = code < 256 ? ["x", 2] : code < 65536 ? ["u", 4] : ["U", 8];
    return named[c] ?? `\\${mark}${code.toString(16).padStart(width as number, "0")}`;
  });
  return quote + escaped + quote;
}
/** `str(x)`, and with `inside` set `repr(x)`. */
export function textOf(x: Value, inside = false): string {
  switch (x.type) {
    case "StringValue":
      return inside ? quoted(x.value) : x.value;
    case "FloatValue":
      return floatText(x.value);
    case "BooleanValue":
      return x.value ? "True" : "False";
    case "NullValue":
      return "None";
    case "UndefinedValue":
      return inside ? "Undefined" : "";
    case "ArrayValue": {
      const items = x.value.map((item) => textOf(item, true)).join(", ");
      return x.tuple ? `(${items}${x.value.length === 1 ? "," : ""})` : `[${items}]`;
    }
    case "ObjectValue":
    case "KeywordArgumentsValue":
    case "NamespaceValue": {
      const items = [...x.value].map(([k, v]) => `${textOf(keyValue(k), true)}: ${textOf(v, true)}`).join(", ");
      return x.type === "NamespaceValue" ? `<Namespace {${items}}>` : `{${items}}`;
    }
    case "FunctionValue":
      return "<function>";
    default:
      return String(x.value);
  }
}
/** A key of a dict as far as texts and comparisons need it. */
function keyValue(key: unknown): Value {
  const type = typeof key === "string" ? "StringValue" : typeof key === "boolean" ? "BooleanValue" : "IntegerValue";
  return (key === null ? { type: "NullValue", value: null } : { type, value: key }) as Value;
}
/** `x` as a key of a dict. */
export function keyOf(x: Value): unknown {
  if (x.type === "ArrayValue" || x.value instanceof Map) throw new Error(`unhashable type: '${typeName(x)}'`);
  return x.value ?? null;
}

/** How `json` writes. */
export interface JsonForm {
  readonly indent?: string;
  readonly ascii: boolean;
  /** What stands between two items, and after a key. */
  readonly item: string;
  readonly key: string;
  readonly sorted: boolean;
}
/** `json.dumps(x)`. */
export function json(x: Value, form: JsonForm, around = "\n"): string {
  const within = around + (form.indent ?? ""),
    text = (s: string) => {
      const plain = JSON.stringify(s);
      return form.ascii
        ? plain.replace(/[\x7f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)
        : plain;
    };
  const all = (open: string, items: readonly string[], close: string) =>
    form.indent === undefined || items.length === 0
      ? open + items.join(form.item) + close
      : open + within + items.join(form.item + within) + around + close;
  if (x.type === "StringValue") return text(x.value);
  if (x.type === "FloatValue") return floatText(x.value).replace("nan", "NaN").replace("inf", "Infinity");
  if (x.type === "IntegerValue" || x.type === "BooleanValue") return String(x.value);
  if (x.type === "NullValue") return "null";
  if (x.type === "ArrayValue") return all("[", x.value.map((item) => json(item, form, within)), "]");
  if (x.type !== "ObjectValue") throw new Error(`Object of type ${typeName(x)} is not JSON serializable`);
  const pairs = [...x.value].sort(form.sorted ? ([a], [b]) => order(keyValue(a), keyValue(b)) : () => 0);
  return all("{", pairs.map(([k, v]) => text(String(k)) + form.key + json(v, form, within)), "}");
}

/** Is `a == b`? */
export function equal(a: Value, b: Value): boolean {
  const x = numberOf(a), y = numberOf(b);
  if (x !== undefined || y !== undefined) return x === y;
  if (a.type === "ArrayValue" && b.type === "ArrayValue") {
    return Boolean(a.tuple) === Boolean(b.tuple) && a.value.length === b.value.length &&
      a.value.every((item, i) => equal(item, b.value[i]));
  }
  if (a.type === "ObjectValue" && b.type === "ObjectValue") {
    return a.value.size === b.value.size &&
      [...a.value].every(([k, item]) => b.value.has(k) && equal(item, b.value.get(k)!));
  }
  return a.type === b.type && (a.value ?? null) === (b.value ?? null);
}
/** Less than 0 if `a < b`, more if `a > b`. Throws where they have no order. */
export function order(a: Value, b: Value): number {
  const x = numberOf(a), y = numberOf(b);
  if (x !== undefined && y !== undefined) return x - y;
  if (a.type === "StringValue" && b.type === "StringValue") return a.value < b.value ? -1 : Number(a.value > b.value);
  if (a.type === "ArrayValue" && b.type === "ArrayValue") {
    for (let i = 0; i < Math.min(a.value.length, b.value.length); i++) {
      if (!equal(a.value[i], b.value[i])) return order(a.value[i], b.value[i]);
    }
    return a.value.length - b.value.length;
  }
  throw new Error(`'<' not supported between instances of '${typeName(defined(a))}' and '${typeName(defined(b))}'`);
}
/** Is `x` a text that is not escaped? */
export function isSafe(x: Value): boolean {
  return x.type === "StringValue" && x.safe === true;
}
/** The text of `x` where it meets one that is safe. */
export function escaped(x: Value): string {
  const names: Readonly<Record<string, string>> = { "&": "amp", "<": "lt", ">": "gt", "'": "#39", '"': "#34" };
  return isSafe(x) ? textOf(x) : textOf(x).replace(/[&<>'"]/g, (c) => `&${names[c]};`);
}
/** What a loop over `x` gives: nothing where `x` is undefined. */
export function itemsOf(x: Value): unknown[] {
  if (x.type === "ArrayValue") return x.value;
  if (x.type === "StringValue") return [...x.value];
  if (x.type === "ObjectValue") return [...x.value.keys()];
  if (x.type === "UndefinedValue") return [];
  throw new Error(`'${typeName(x)}' object is not iterable`);
}
/** Is `x` in `all`? */
export function contains(all: Value, x: Value): boolean {
  if (all.type === "ArrayValue") return all.value.some((item) => equal(item, x));
  if (all.type === "ObjectValue") return all.value.has(keyOf(x));
  if (all.type === "StringValue" && x.type === "StringValue") return all.value.includes(x.value);
  if (all.type === "UndefinedValue") return false;
  throw new Error(`argument of type '${typeName(all)}' does not hold a '${typeName(x)}'`);
}
