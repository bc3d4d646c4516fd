/**
 * A JSON schema (https://json-schema.org/draft/2020-12) as a grammar: each text of the grammar is a value that the schema
 * allows. What cannot be kept to is refused, not ignored; objects with properties have no others unless
 * `additionalProperties` says so.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { choice, type Grammar, maybe, named, type Rule, sequence, text } from "./grammar.ts";
import { FORMATS, jsonRules, listOf, numberRange, sizedText, textBut, wholeRange } from "./json_rules.ts";
import { patternText } from "./regex_rule.ts";

type Schema = Readonly<Record<string, unknown>>;

const REFUSED = ["not", "if", "then", "else", "patternProperties", "propertyNames", "dependentRequired"].concat(
  ["dependentSchemas", "dependencies", "contains", "minContains", "maxContains", "minProperties", "maxProperties"],
  ["multipleOf", "unevaluatedItems", "unevaluatedProperties", "additionalItems", "$dynamicRef", "$recursiveRef"],
);
/** What says which kind of value is meant, where `type` does not. */
const KIND_OF: Readonly<Record<string, string>> = {
  properties: "object",
  required: "object",
  additionalProperties: "object",
  items: "array",
  prefixItems: "array",
  minItems: "array",
  maxItems: "array",
  minLength: "string",
  maxLength: "string",
  pattern: "string",
  minimum: "number",
  maximum: "number",
  exclusiveMinimum: "number",
  exclusiveMaximum: "number",
};
/** Keywords that constrain. */
const KEYWORDS = ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "format", ...Object.keys(KIND_OF)];
/** Schemas within schemas, and of all of them together. */
const MAX_DEPTH = 100, MAX_PARTS = 20_000;
const TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"];

function isSchema(x: unknown): x is Schema {
  return typeof x === "object" && x !== null && !Array.isArray(x);
}
function refuse(path: string, reason: string): never {
  throw new ArgumentError("use a JSON schema", { reason: `${path}: ${reason}` });
}

class SchemaReader {
  private readonly rules: Map<string, Rule> = new Map(jsonRules());
  private parts = 0;
  constructor(private readonly whole: unknown) {}

  read(): Grammar {
    this.rules.set("root", this.rule(this.whole, "#", 0));
    return this.rules;
  }

  private rule(schema: unknown, path: string, depth: number): Rule {
    if (depth > MAX_DEPTH) refuse(path, `schemas stand in each other more than ${MAX_DEPTH} deep`);
    if (++this.parts > MAX_PARTS) refuse(path, `the schema has more than ${MAX_PARTS} parts`);
    if (schema === true) return named("value");
    if (schema === false) refuse(path, "nothing is allowed");
    if (!isSchema(schema)) refuse(path, "a schema is an object, true or false");
    const bad = REFUSED.find((k) => Object.hasOwn(schema, k)) ??
      (schema.uniqueItems === true ? "uniqueItems" : undefined);
    if (bad !== undefined) refuse(path, `"${bad}" cannot be kept to`);
    if (schema.$ref !== undefined) return this.reference(schema, path, depth);
    if (schema.allOf !== undefined) {
      const { allOf, ...rest } = schema;
      return this.rule(
        this.lists(allOf, path, "allOf").reduce<Schema>((a, b) => this.merge(a, b, path), rest),
        path,
        depth + 1,
      );
    }
    for (const key of ["anyOf", "oneOf"]) {
      if (schema[key] === undefined) continue;
      const { [key]: branches, ...rest } = schema, list = this.lists(branches, path, key);
      const all = constrains(rest) ? list.map((b) => this.merge(rest, b, path)) : list;
      if (key === "oneOf") this.checkApart(all, path);
      return choice(...all.map((b, i) => this.rule(b, `${path}/${key}/${i}`, depth + 1)));
    }
    if (schema.const !== undefined) return this.values([schema.const], schema, path);
    if (schema.enum !== undefined) {
      if (!Array.isArray(schema.enum) || schema.enum.length === 0) refuse(path, '"enum" is a list that is not empty');
      return this.values(schema.enum, schema, path);
    }
    const types = typesOf(schema, path);
    return types === undefined ? named("value") : choice(...types.map((t) => this.typed(schema, t, path, depth)));
  }
  private lists(x: unknown, path: string, key: string): readonly Schema[] {
    if (!Array.isArray(x) || x.length === 0) refuse(path, `"${key}" is a list that is not empty`);
    return x.map((s) => isSchema(s) ? s : s === true ? {} : refuse(path, `"${key}" is a list of schemas`));
  }
  /** Fixed values; they must be of the types that are allowed beside. */
  private values(list: readonly unknown[], schema: Schema, path: string): Rule {
    const types = typesOf(schema, path),
      fits = list.filter((v) => types === undefined || types.some((t) => isOf(v, t)));
    if (fits.length === 0) refuse(path, "no value is allowed");
    return choice(...fits.map((v) => text(JSON.stringify(v))));
  }
  private target(pointer: unknown, path: string): unknown {
    if (typeof pointer !== "string" || !/^#(\/|$)/.test(pointer)) {
      refuse(path, `"$ref" is ${JSON.stringify(pointer)}; only those that begin with "#/" are known`);
    }
    let at = this.whole;
    for (const key of pointer.split("/").slice(1)) {
      const name = decodeURIComponent(key).replaceAll("~1", "/").replaceAll("~0", "~");
      if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) refuse(path, `there is no "${pointer}"`);
      at = (at as Schema)[name];
    }
    return at;
  }
  private reference(schema: Schema, path: string, depth: number): Rule {
    const { $ref, ...rest } = schema, target = this.target($ref, path);
    if (constrains(rest)) {
      return this.rule(this.merge(rest, isSchema(target) ? target : {}, path), path, depth + 1);
    }
    const name = `ref ${$ref}`;
    if (!this.rules.has(name)) {
      this.rules.set(name, text(""));
      this.rules.set(name, this.rule(target, $ref as string, depth + 1));
    }
    return named(name);
  }

  /** A schema that says what both say. */
  private merge(a: Schema, b: Schema, path: string, depth = 0): Schema {
    if (depth > MAX_DEPTH) refuse(path, "its references never end");
    if (b.$ref !== undefined) {
      const { $ref, ...rest } = b, target = this.target($ref, path);
      return this.merge(this.merge(a, rest, path, depth + 1), isSchema(target) ? target : {}, path, depth + 1);
    }
    const out: Record<string, unknown> = { ...a };
    for (const [key, value] of Object.entries(b)) {
      const mine = out[key];
      if (mine === undefined || JSON.stringify(mine) === JSON.stringify(value)) out[key] = value;
      else if (key === "required" && Array.isArray(mine) && Array.isArray(value)) {
        out[key] = [...new Set([...mine, ...value])];
      } else if (key === "properties" && isSchema(mine) && isSchema(value)) {
        out[key] = { ...mine };
        for (const [name, s] of Object.entries(value)) {
          const both = Object.hasOwn(mine, name) ? { allOf: [mine[name], s] } : s;
          (out[key] as Record<string, unknown>)[name] = both;
        }
      } else if (key === "allOf" && Array.isArray(mine) && Array.isArray(value)) out[key] = [...mine, ...value];
      else if (key === "type") out[key] = bothTypes(mine, value) ?? refuse(path, "no type is allowed");
      else if (KEYWORDS.includes(key)) refuse(path, `"${key}" is said twice`);
    }
    return out;
  }
  /** Of "oneOf" exactly one may hold: branches must differ in their types, or in a fixed value. */
  private checkApart(branches: readonly Schema[], path: string): void {
    branches.forEach((a, i) =>
      branches.slice(0, i).forEach((b) => {
        if (!this.apart(a, b, path, 0)) refuse(path, '"oneOf" with branches that could both hold; write "anyOf"');
      })
    );
  }
  private apart(x: unknown, y: unknown, path: string, depth: number): boolean {
    if (!isSchema(x) || !isSchema(y) || depth > 5) return false;
    const [a, b] = [x, y].map((s) => s.$ref === undefined ? s : this.target(s.$ref, path));
    if (!isSchema(a) || !isSchema(b)) return false;
    const fixed = (s: Schema) => s.const !== undefined ? [s.const] : Array.isArray(s.enum) ? s.enum : undefined;
    const [p, q] = [fixed(a), fixed(b)];
    if (p !== undefined && q !== undefined) {
      return !p.some((v) => q.some((w) => JSON.stringify(v) === JSON.stringify(w)));
    }
    const [s, t] = [typesOf(a, path), typesOf(b, path)];
    if (s !== undefined && t !== undefined && !s.some((u) => t.some((v) => bothTypes(u, v) !== undefined))) return true;
    const shared = listed(a.required).filter((name) => listed(b.required).includes(name));
    return shared.some((name) => this.apart(propertyOf(a, name), propertyOf(b, name), path, depth + 1));
  }

  private typed(schema: Schema, type: string, path: string, depth: number): Rule {
    switch (type) {
      case "object":
        return this.object(schema, path, depth);
      case "array":
        return this.array(schema, path, depth);
      case "string":
        return this.string(schema, path);
      case "number":
      case "integer":
        return this.number(schema, type, path);
      default:
        return named(type);
    }
  }
  private count(schema: Schema, key: string, fallback: number, path: string): number {
    const x = schema[key] ?? fallback;
    if (x !== Infinity && (!Number.isSafeInteger(x) || (x as number) < 0)) refuse(path, `"${key}" is no count`);
    return x as number;
  }
  private string(schema: Schema, path: string): Rule {
    const { pattern, format } = schema, sized = schema.minLength !== undefined || schema.maxLength !== undefined;
    if (pattern !== undefined) {
      if (typeof pattern !== "string") refuse(path, '"pattern" is a text');
      if (sized) refuse(path, '"pattern" and a length cannot both be kept to');
      return patternText(pattern);
    }
    if (typeof format === "string" && FORMATS.has(format)) return sequence(text('"'), named(format), text('"'));
    if (!sized) return named("string");
    const min = this.count(schema, "minLength", 0, path), max = this.count(schema, "maxLength", Infinity, path);
    if (max < min) refuse(path, `no text has at least ${min} and at most ${max} characters`);
    return sizedText(min, max);
  }
  private number(schema: Schema, type: string, path: string): Rule {
    const bound = (key: string, fallback: number): number => {
      const x = schema[key] ?? fallback;
      if (typeof x !== "number") refuse(path, `"${key}" is a number`);
      return x;
    };
    const [min, max] = [bound("minimum", -Infinity), bound("maximum", Infinity)];
    const [above, below] = [bound("exclusiveMinimum", -Infinity), bound("exclusiveMaximum", Infinity)];
    const [low, high] = [Math.max(min, above), Math.min(max, below)],
      [openLow, openHigh] = [above >= min, below <= max];
    if (low === -Infinity && high === Infinity) return named(type);
    const cannot = `no ${type} lies from ${low} to ${high}`;
    if (type === "integer") {
      const first = openLow && Number.isInteger(low) ? low + 1 : low,
        last = openHigh && Number.isInteger(high) ? high - 1 : high;
      return wholeRange(first, last) ?? refuse(path, cannot);
    }
    if ([low, high].some((x) => Number.isFinite(x) && !Number.isInteger(x))) {
      refuse(path, "bounds of numbers that are not whole cannot be kept to");
    }
    return numberRange(low, high, openLow, openHigh) ?? refuse(path, cannot);
  }
  private array(schema: Schema, path: string, depth: number): Rule {
    const prefix = schema.prefixItems ?? (Array.isArray(schema.items) ? schema.items : []);
    if (!Array.isArray(prefix)) refuse(path, '"prefixItems" is a list');
    const rest = Array.isArray(schema.items) ? true : schema.items ?? true, none = rest === false;
    const min = this.count(schema, "minItems", 0, path), most = this.count(schema, "maxItems", Infinity, path);
    const max = none ? Math.min(most, prefix.length) : most;
    if (max < min) refuse(path, `no list has at least ${min} and at most ${max} items`);
    const item = (s: unknown, at: string) =>
      this.put(`item ${this.rules.size} ${path}/${at}`, this.spaced(this.rule(s, `${path}/${at}`, depth + 1)));
    const firsts = prefix.slice(0, max).map((s, i) => item(s, `prefixItems/${i}`)), n = firsts.length;
    const other = none || max === n ? undefined : item(rest, "items");
    if (n === 0) return this.bracket("[", other === undefined ? text("") : listOf(other, min, max), "]");
    // the rest of the list behind each item, from the last on
    const comma = sequence(text(","), named("space"));
    let more = other === undefined ? text("") : behind(comma, listOf(other, Math.max(0, min - n), max - n), min <= n);
    for (let i = n - 1; i > 0; i--) {
      const next = sequence(comma, firsts[i], more);
      more = min > i ? next : maybe(next);
    }
    const all = sequence(firsts[0], more);
    return this.bracket("[", min > 0 ? all : maybe(all), "]");
  }
  /** A rule of its own, so that it stands once. */
  private put(name: string, rule: Rule): Rule {
    this.rules.set(name, rule);
    return named(name);
  }
  private spaced(rule: Rule): Rule {
    return sequence(rule, named("space"));
  }
  private bracket(open: string, inner: Rule, close: string): Rule {
    return sequence(text(open), named("space"), inner, text(close));
  }
  /** Properties in the order of the schema; each is a rule of what is left, at the begin or behind another. */
  private object(schema: Schema, path: string, depth: number): Rule {
    const properties = schema.properties ?? {}, more = schema.additionalProperties;
    if (!isSchema(properties)) refuse(path, '"properties" is an object');
    const required = listed(schema.required), names = [...new Set([...Object.keys(properties), ...required])];
    const open = more !== undefined ? more !== false : names.length === 0;
    const missing = names.filter((n) => !Object.hasOwn(properties, n));
    if (missing.length > 0 && more === false) refuse(path, `"${missing[0]}" is required, and not allowed`);
    const at = `object ${this.rules.size} ${path}`, comma = sequence(text(","), named("space"));
    const pair = (key: Rule, value: Rule) =>
      sequence(key, named("space"), text(":"), named("space"), this.spaced(value));
    const pairs = names.map((name) => {
      const s = Object.hasOwn(properties, name) ? properties[name] : more ?? true;
      return pair(text(JSON.stringify(name)), this.rule(s, `${path}/properties/${name}`, depth + 1));
    });
    const others = open ? this.rule(more ?? true, `${path}/additionalProperties`, depth + 1) : undefined;
    const other = others && this.put(`${at} others`, pair(textBut(names), others));
    let begin = other === undefined ? text("") : listOf(other, 0, Infinity);
    let rest = other === undefined ? text("") : behind(comma, listOf(other, 0, Infinity), true);
    for (let i = names.length - 1; i >= 0; i--) {
      const with0 = sequence(pairs[i], rest), with1 = sequence(comma, with0), needed = required.includes(names[i]);
      begin = this.put(`${at} begin ${i}`, needed ? with0 : choice(with0, begin));
      rest = this.put(`${at} rest ${i}`, needed ? with1 : choice(with1, rest));
    }
    return this.bracket("{", begin, "}");
  }
}

/** A comma and items, or nothing where there may be none. */
function behind(comma: Rule, items: Rule, optional: boolean): Rule {
  const full = items.kind === "repeat" && items.min === 0 ? items.item : items, row = sequence(comma, full);
  return optional ? maybe(row) : row;
}
function listed(x: unknown): readonly string[] {
  return Array.isArray(x) ? x.filter((s) => typeof s === "string") : [];
}
function propertyOf(schema: Schema, name: string): unknown {
  return isSchema(schema.properties) && Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
}
function constrains(schema: Schema): boolean {
  return Object.keys(schema).some((k) => KEYWORDS.includes(k));
}
function isOf(value: unknown, type: string): boolean {
  if (type === "integer") return Number.isInteger(value);
  return type === (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);
}
/** The types that both allow. */
function bothTypes(a: unknown, b: unknown): string[] | undefined {
  const list = (x: unknown) => Array.isArray(x) ? x : [x],
    wide = (x: unknown[], t: unknown) => t === "integer" && x.includes("number");
  const x = list(a),
    y = list(b),
    both = [...x.filter((t) => y.includes(t) || wide(y, t)), ...y.filter((t) => wide(x, t))];
  return both.length === 0 ? undefined : [...new Set(both)] as string[];
}
/** The types that a schema names or means; undefined for all. */
function typesOf(schema: Schema, path: string): readonly string[] | undefined {
  const { type } = schema;
  if (type === undefined) {
    const key = Object.keys(schema).find((k) => Object.hasOwn(KIND_OF, k));
    return key === undefined ? undefined : [KIND_OF[key]];
  }
  const list = Array.isArray(type) ? type : [type];
  const bad = list.find((t) => !TYPES.includes(t));
  if (bad !== undefined || list.length === 0) {
    refuse(path, `"type" is ${JSON.stringify(type)}; types are ${TYPES.join(", ")}`);
  }
  return list.includes("number") ? list.filter((t) => t !== "integer") : list;
}

/**
 * The grammar of the values that a schema allows, as JSON with little space.
 *
 * @throws {ArgumentError} with the path of what is no schema or cannot be kept to
 */
export function jsonGrammar(schema: unknown): Grammar {
  return new SchemaReader(schema).read();
}
