/**
 * Grammars of JSON schemas against npm's `ajv` (MIT), a validator of schemas:
 *
 *     deno run -A --no-check tests/llm/schema_check.ts [SEED] [COUNT]
 *
 * Random schemas: what their grammars write is valid; values that are made for them are read where they are valid, and
 * spoiled ones are not where they are not. Prints how many of each.
 */
import assert from "node:assert/strict";
import { GrammarMachine, type GrammarState } from "../../src/llm/grammar/automaton.ts";
import { jsonGrammar } from "../../src/llm/grammar/json_schema.ts";
import { Random } from "../support/random.ts";

const LIBRARY: string = "npm:ajv@8.17.1/dist/2020.js";
interface Ajv {
  compile(schema: unknown): (value: unknown) => boolean;
}
const { Ajv2020 } = await import(LIBRARY) as { Ajv2020: new (o: Record<string, unknown>) => Ajv };
const ajv = new Ajv2020({ strict: false, validateFormats: false });
const utf8 = new TextEncoder(), random = new Random(Number(Deno.args[0] ?? 1)), count = Number(Deno.args[1] ?? 150);

type Schema = Record<string, unknown>;
const NAMES = ["a", "ab", "b", "é x", "c"];

function randomSchema(depth: number): Schema | boolean {
  const kinds = ["string", "pattern", "integer", "number", "enum", "simple", "any"];
  const kind = random.pick(
    depth < 3 ? [...kinds, "object", "object", "array", "array", "anyOf", "oneOf", "allOf", "ref"] : kinds,
  );
  const some = <T>(make: () => T): T | undefined => random.below(2) === 0 ? make() : undefined;
  const clean = (s: Schema): Schema => Object.fromEntries(Object.entries(s).filter(([, v]) => v !== undefined));
  switch (kind) {
    case "string": {
      const minLength = some(() => random.int(0, 3));
      return clean({ type: "string", minLength, maxLength: some(() => (minLength ?? 0) + random.int(0, 3)) });
    }
    case "pattern":
      return {
        type: "string",
        pattern: random.pick(["^[a-c]{2,4}$", "^(x|yz)+\\d?$", "b\\s*b", '^\\w+@[^@"]+$', "^a|é$", "^.\\.\\n?$"]),
      };
    case "integer":
    case "number": {
      const [most, least, width] = kind === "integer" ? [120, 2, 1500] : [20, 1, 50], low = random.int(-most, most);
      const min = some(() => low), max = some(() => low + random.int(least, width)), open = random.below(3) === 0;
      return clean({
        type: kind,
        [open ? "exclusiveMinimum" : "minimum"]: min,
        [open ? "exclusiveMaximum" : "maximum"]: max,
      });
    }
    case "enum":
      return random.below(2) === 0 ? { enum: [1, 'x"\n', null, { k: [1.5] }] } : { const: random.pick(["é", 7, true]) };
    case "simple":
      return { type: random.pick(["boolean", "null", "string", "object", "array", ["integer", "string"]]) };
    case "object": {
      const properties = Object.fromEntries(NAMES.slice(0, random.int(1, 4)).map((n) => [n, randomSchema(depth + 1)]));
      const required = Object.keys(properties).filter(() => random.below(2) === 0);
      const additionalProperties = some(() => random.below(2) === 0 ? random.below(2) === 0 : randomSchema(depth + 1));
      return clean({ type: some(() => "object"), properties, required: some(() => required), additionalProperties });
    }
    case "array": {
      const minItems = some(() => random.int(0, 3)),
        prefixItems = some(() => [randomSchema(depth + 1), randomSchema(depth + 1)]);
      const maxItems = some(() => (minItems ?? 0) + random.int(0, 3));
      return clean({ type: "array", items: some(() => randomSchema(depth + 1)), minItems, maxItems, prefixItems });
    }
    case "anyOf":
      return {
        anyOf: [randomSchema(depth + 1), randomSchema(depth + 1)].map((s) => s === true ? { type: "null" } : s),
      };
    case "oneOf": {
      const branch = (tag: string) => ({
        type: "object",
        properties: { tag: { const: tag }, v: randomSchema(depth + 1) },
        required: ["tag"],
      });
      return { oneOf: [branch("p"), branch("q"), { type: "integer" }] };
    }
    case "allOf":
      return {
        allOf: [{ type: "object", properties: { a: randomSchema(3) } }, {
          properties: { b: randomSchema(3) },
          required: ["b"],
        }],
      };
    case "ref":
      return { $ref: random.pick(["#/$defs/tree", "#/$defs/list"]) };
    default:
      return random.below(2) === 0 ? {} : true;
  }
}
const DEFS = {
  tree: {
    type: "object",
    properties: { left: { $ref: "#/$defs/tree" }, n: { type: "integer", minimum: 0 } },
    required: ["n"],
  },
  list: { type: "array", items: { anyOf: [{ $ref: "#/$defs/list" }, { type: "boolean" }] }, maxItems: 2 },
};

/** A text of the grammar: bytes at random, and towards an end where it becomes long. */
function write(machine: GrammarMachine): string | undefined {
  const bytes: number[] = [];
  for (let state: GrammarState = machine.start; bytes.length < 1200;) {
    if (state.accepts && (!state.goesOn || bytes.length > 60 || random.below(3) === 0)) {
      return new TextDecoder().decode(Uint8Array.from(bytes));
    }
    const able: [number, GrammarState][] = [];
    for (let b = 0; b < 256; b++) {
      const next = machine.step(state, b);
      if (next !== undefined) able.push([b, next]);
    }
    const closing = bytes.length > 60 ? able.filter(([b]) => `"]}`.includes(String.fromCharCode(b))) : [];
    const ascii = able.filter(([b]) => b < 128 && b > 31),
      from = closing.length > 0 ? closing : ascii.length > 0 && random.below(8) > 0 ? ascii : able;
    const [b, next] = random.pick(from);
    bytes.push(b);
    state = next;
  }
}
/** A value, which is often of the schema. */
function value(schema: unknown, depth = 0): unknown {
  const s = (typeof schema === "object" && schema !== null ? schema : {}) as Schema,
    list = (x: unknown) => x as Schema[];
  if (s.$ref !== undefined) return value(DEFS[(s.$ref as string).slice(8) as keyof typeof DEFS], depth);
  if (s.const !== undefined) return s.const;
  if (s.enum !== undefined) return random.pick(s.enum as unknown[]);
  if (s.anyOf !== undefined) return value(random.pick(list(s.anyOf)), depth);
  if (s.oneOf !== undefined) return value(random.pick(list(s.oneOf)), depth);
  if (s.allOf !== undefined) return Object.assign({}, ...list(s.allOf).map((x) => value(x, depth)));
  const type = Array.isArray(s.type)
    ? random.pick(s.type)
    : s.type ?? (s.properties ? "object" : random.pick(["string", "null", "integer"]));
  if (type === "object") {
    const own = Object.entries((s.properties ?? {}) as Schema),
      required = (s.required ?? []) as string[],
      out: Schema = {};
    for (const [n, v] of own) if (required.includes(n) || random.below(depth + 2) === 0) out[n] = value(v, depth + 1);
    if (s.additionalProperties !== false && (s.additionalProperties || own.length === 0)) {
      out.zz = value(s.additionalProperties, depth + 1);
    }
    return out;
  }
  if (type === "array") {
    const prefix = (s.prefixItems ?? []) as unknown[],
      size = Math.min((s.minItems ?? 0) as number + random.below(3), (s.maxItems ?? 9) as number);
    return Array.from(
      { length: depth > 4 ? 0 : size },
      (_, i) => value(i < prefix.length ? prefix[i] : s.items, depth + 1),
    );
  }
  if (type === "string") {
    return random.pick(["", "a", "ab", "abc", "x7", "yzx", "b b", "w@é", "é", "q.\n", '"\\\u0001', "😀😀"]);
  }
  if (type === "boolean") return random.below(2) === 0;
  if (type === "null") return null;
  const low = Number(s.minimum ?? s.exclusiveMinimum ?? -5),
    x = low + random.below(Number(s.maximum ?? s.exclusiveMaximum ?? low + 9) - low + 2);
  return type === "number" && random.below(2) === 0 ? x + 0.25 : x;
}
const spoil = (v: unknown): unknown => {
  if (Array.isArray(v) && v.length > 0) {
    return random.below(2) === 0 ? [...v, v[0]] : v.map((x, i) => i === 0 ? spoil(x) : x);
  }
  if (typeof v === "object" && v !== null) {
    const keys = Object.keys(v), key = random.pick(keys);
    if (key === undefined || random.below(3) === 0) return { ...v, more: 1 };
    const { [key]: old, ...rest } = v as Schema;
    return random.below(2) === 0 ? rest : { ...v, [key]: spoil(old) };
  }
  return random.pick([null, -1, 1e6, 0.5, "zzzzzzz", true, [], {}]);
};

const seen = { written: 0, read: 0, refused: 0, schemas: 0 };
for (let n = 0; n < count; n++) {
  const schema = { ...(randomSchema(0) as Schema), $defs: DEFS };
  let machine: GrammarMachine;
  try {
    machine = new GrammarMachine(jsonGrammar(schema));
  } catch (error) {
    assert.match(
      String(error),
      /is said twice|nothing is allowed|no type is allowed|could both hold|no list has/,
      `${error} ${JSON.stringify(schema)}`,
    );
    continue;
  }
  const valid = ajv.compile(schema), told = (x: unknown) => `${JSON.stringify(x)} of ${JSON.stringify(schema)}`;
  seen.schemas++;
  for (let k = 0; k < 6; k++) {
    const text = write(machine);
    if (text === undefined) continue;
    const parsed = JSON.parse(text);
    assert.ok(valid(parsed), `written, and not valid: ${told(text)}`);
    seen.written++;
  }
  for (let k = 0; k < 10; k++) {
    const v = k % 2 === 0 ? value(schema) : spoil(value(schema)), text = JSON.stringify(v);
    const taken = machine.run(machine.start, utf8.encode(text))?.accepts ?? false;
    // a grammar may allow less: one order of properties, none that the schema does not name, and objects where it has those
    if (taken) assert.ok(valid(v), `read, and not valid: ${told(v)}`);
    if (!valid(v)) seen.refused++;
    else if (taken) seen.read++;
    else if (k % 2 === 0) {
      const less = /"allOf"|"additionalProperties":(?!false)|\{"properties"/;
      assert.match(JSON.stringify(schema), less, `valid, and not read: ${told(v)}`);
    }
  }
}
console.log(JSON.stringify(seen));
