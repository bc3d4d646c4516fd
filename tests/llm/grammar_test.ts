/**
 * Grammars: random ones against a plain recursive matcher, what is wrong with them by line and column, and masks of tokens
 * against a check of each token.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { GrammarMachine } from "../../src/llm/grammar/automaton.ts";
import { type Grammar, LAST_CODE, readGbnf, type Rule } from "../../src/llm/grammar/grammar.ts";
import { jsonGrammar } from "../../src/llm/grammar/json_schema.ts";
import { TokenTree } from "../../src/llm/grammar/token_masks.ts";
import { LanguageModel } from "../../src/llm/llm.ts";
import { Random } from "../support/random.ts";
import { runWithNpm } from "../system/subprocess.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests

/** The letters of random texts: of one to four bytes. */
const LETTERS = ["a", "b", "c", "é", "€", "😀"];

/** GBNF of a few rules that call later ones, or themselves behind a letter. */
function randomGbnf(random: Random): string {
  const count = random.int(1, 4), name = (i: number) => i === 0 ? "root" : `rule-${i}`;
  const item = (at: number, depth: number): string => {
    const kind = random.below(depth > 2 ? 3 : 8), letter = () => random.pick(LETTERS);
    switch (kind) {
      case 0:
        return `"${letter()}${random.below(2) === 0 ? letter() : ""}"`;
      case 1:
        return random.pick(["[a-c]", "[^a]", "[é-€]", "[a😀]", "[^a-é]", "."]);
      case 2:
        return at + 1 < count ? name(random.int(at + 1, count - 1)) : `"${letter()}"`;
      case 3:
        return `(${letter() === "a" ? "" : item(at, depth + 1)} | ${item(at, depth + 1)} ${item(at, depth + 1)})`;
      case 4:
        return `("${letter()}" ${name(at)} | "")`;
      default:
        return item(at, depth + 1) + random.pick(["*", "+", "?", "{2}", "{0,2}", "{1,}"]);
    }
  };
  return Array.from({ length: count }, (_, i) => `${name(i)} ::= ${item(i, 0)} ${item(i, 0)} | ${item(i, 0)} # x`).join(
    "\n",
  );
}

/** Where matches of a rule from `at` end, and whether more text could matter. */
function matcher(grammar: Grammar, text: readonly string[]): { ends: Set<number>; open: boolean } {
  let open = false;
  const run = (rule: Rule, from: ReadonlySet<number>): Set<number> => {
    const out = new Set<number>();
    switch (rule.kind) {
      case "chars":
      case "text": {
        const wanted = rule.kind === "text" ? [...rule.text] : [undefined];
        for (let at of from) {
          let fits = true;
          for (const w of wanted) {
            if (at >= text.length) [open, fits] = [true, false];
            if (!fits) break;
            const c = text[at].codePointAt(0)!;
            fits = rule.kind === "text" ? text[at] === w : rule.ranges.some(([a, b]) => a <= c && c <= b);
            if (fits) at++;
          }
          if (fits) out.add(at);
        }
        return out;
      }
      case "sequence":
        return rule.items.reduce((at, item) => run(item, at), new Set(from));
      case "choice":
        for (const item of rule.items) for (const end of run(item, from)) out.add(end);
        return out;
      case "repeat": {
        let at = new Set(from);
        for (let n = 0; n <= Math.min(rule.max, rule.min + text.length + 1) && at.size > 0; n++) {
          if (n >= rule.min) at.forEach((x) => out.add(x));
          at = n < rule.max ? run(rule.item, at) : new Set();
        }
        return out;
      }
      case "name":
        return from.size === 0 ? out : run(grammar.get(rule.name)!, from);
    }
  };
  const ends = run(named("root"), new Set([0]));
  return { ends, open };
}
const named = (name: string): Rule => ({ kind: "name", name });
const utf8 = new TextEncoder();

Deno.test("grammar: random ones take the texts of a recursive matcher, and no byte more", () => {
  const random = new Random(21), seen = { taken: 0, open: 0, refused: 0 };
  for (let n = 0; n < 120; n++) {
    const source = randomGbnf(random), grammar = readGbnf(source);
    let machine: GrammarMachine;
    try {
      machine = new GrammarMachine(grammar);
    } catch (error) {
      assert.match(String(error), /begins with itself/);
      continue;
    }
    for (let k = 0; k < 12; k++) {
      // half of the texts follow the grammar for a while
      const text: string[] = [];
      const size = random.int(0, 7);
      while (text.length < size) {
        const next = random.pick(LETTERS), able = machine.run(machine.start, utf8.encode([...text, next].join("")));
        if (able === undefined && random.below(4) > 0 && k % 2 === 0) {
          if (!LETTERS.some((c) => machine.run(machine.start, utf8.encode([...text, c].join(""))))) break;
          continue;
        }
        text.push(next);
      }
      const { ends, open } = matcher(grammar, text), state = machine.run(machine.start, utf8.encode(text.join("")));
      const whole = ends.has(text.length);
      assert.equal(state?.accepts ?? false, whole, `${JSON.stringify(text.join(""))} of\n${source}`);
      assert.equal(state !== undefined, whole || open, `the beginning ${JSON.stringify(text.join(""))} of\n${source}`);
      assert.equal(state?.goesOn ?? false, open, `more behind ${JSON.stringify(text.join(""))} of\n${source}`);
      seen[whole ? "taken" : open ? "open" : "refused"]++;
    }
  }
  assert.ok(Math.min(seen.taken, seen.open, seen.refused) > 120, JSON.stringify(seen));
});

Deno.test("grammar: ranges of characters are ranges of bytes", () => {
  const random = new Random(3), codes = [0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, LAST_CODE];
  const code = (): number => {
    const near = random.pick(codes) + random.int(-70, 70), c = random.below(2) === 0 ? near : random.below(LAST_CODE);
    return c < 0 || c > LAST_CODE || c >= 0xd800 && c < 0xe000 ? 0x41 : c;
  };
  for (let n = 0; n < 300; n++) {
    const [low, high] = [code(), code()].sort((a, b) => a - b);
    const machine = new GrammarMachine(new Map([["root", { kind: "chars", ranges: [[low, high]] }]]));
    for (const c of [low, high, low - 1, high + 1, ...Array.from({ length: 20 }, code)]) {
      if (c < 0 || c > LAST_CODE || c >= 0xd800 && c < 0xe000) continue;
      const state = machine.run(machine.start, utf8.encode(String.fromCodePoint(c)));
      assert.equal(state?.accepts ?? false, low <= c && c <= high, `${c} in ${low}..${high}`);
    }
  }
});

const WRONG: readonly (readonly [string, RegExp])[] = [
  ["", /it has no rule "root"/],
  ['a ::= "x"', /it has no rule "root"/],
  ["root ::= b", /there is no rule "b"/],
  ['root ::= "a', /line 1, column 12: the line ends in a text/],
  ["root = 1", /line 1, column 6: "::=" is missing behind "root"/],
  ["root ::= [b-a]", /a range ends before it begins/],
  ["root ::= []", /a class of no characters/],
  ['root ::= ("a"', /"\)" is missing/],
  ['root ::= "a"{2', /"\{" wants/],
  ['root ::= "a"{3,2}', /\{3,2\} ends before it begins/],
  ['root ::= "\\q"', /"\\q" means nothing/],
  ['root ::= "\\x4"', /is no character/],
  ['root ::= "a" )', /a line should end here/],
  ['root ::= "a"\nroot ::= "b"', /rule "root" is there twice/],
  ['root ::= root "a" | "b"', /rule "root" begins with itself/],
  ['root ::= ("x"? b) | "y"\nb ::= "z"* root', /begins with itself/],
  ['root ::= "x" root', /rule "root" never ends/],
  ['root ::= "a"{999999999}', /more than 200000 states/],
  [`root ::= ${"(".repeat(5000)}`, /more than 200 groups/],
];
Deno.test("grammar: what is wrong is told", () => {
  for (const [source, why] of WRONG) assert.throws(() => new GrammarMachine(readGbnf(source)), why, source);
});

Deno.test("grammar: rules that end with themselves need no deeper stack", () => {
  const machine = new GrammarMachine(readGbnf('root ::= item | item "," root\nitem ::= [0-9]+'));
  let state = machine.run(machine.start, utf8.encode("1,2,"))!;
  const after = machine.run(state, utf8.encode("3,4,"));
  assert.equal(state, after);
  state = machine.run(state, utf8.encode("56"))!;
  assert.deepEqual([state.accepts, state.goesOn, machine.step(state, 97)], [true, true, undefined]);
});

const LOOSE = 'root ::= " "? [a-z]+ ("é" | " the" | rest)\nrest ::= [^a]{1,5}';

Deno.test("grammar: masks of tokens are those of each token alone, and texts of a model are of its grammar", async () => {
  using model = await LanguageModel.load(new URL("../../examples/models/stories260K.gguf", import.meta.url), {
    device: "WASM",
    context: 128,
  });
  const { tokenizer } = model, tree = new TokenTree(tokenizer, model.decoder.vocabulary), random = new Random(5);
  for (let n = 0; n < 30; n++) {
    const machine = new GrammarMachine(readGbnf(n % 2 === 0 ? randomGbnf(random) : LOOSE));
    let state = machine.start;
    for (let k = 0; k < 4; k++) {
      const mask = tree.mask(machine, state), able: number[] = [];
      for (let id = 0; id < tokenizer.size; id++) {
        const bytes = tokenizer.bytesOf(id), next = bytes.length > 0 ? machine.run(state, bytes) : undefined;
        const may = tokenizer.isEnd(id) ? state.accepts : next !== undefined;
        assert.equal((mask[id >> 5] >>> (id & 31) & 1) === 1, may, `token ${id}`);
        if (next !== undefined) able.push(id);
      }
      if (able.length === 0) break;
      state = machine.run(state, tokenizer.bytesOf(random.pick(able)))!;
    }
  }
  for (const temperature of [0, 1.5]) {
    const options = { temperature, seed: 3, maxTokens: 60 };
    const { text, finish } = await model.complete("Once", {
      ...options,
      grammar: 'root ::= " " ("dog" | "cat")+ "s."',
    });
    assert.match(text, finish === "stop" ? /^ (dog|cat)+s\.$/ : /^ (dog|cat|d|do|c|ca)+/);
    const schema = {
      properties: { age: { type: "integer", minimum: 3, maximum: 12 }, ok: { type: "boolean" } },
      required: ["age", "ok"],
    };
    const json = await model.complete("Lily", { ...options, schema });
    const value = JSON.parse(json.text) as { age: number; ok: boolean };
    assert.ok(value.age >= 3 && value.age <= 12 && typeof value.ok === "boolean" && json.finish === "stop", json.text);
  }
  assert.equal(
    (await model.complete("Once", { grammar: 'root ::= "é" | "b"', temperature: 2, seed: 9 })).text.length,
    1,
  );
  const refuse = (options: object, why: RegExp) => assert.rejects(() => model.complete("Once", options), why);
  await refuse({ grammar: "root ::= x" }, /there is no rule "x"/);
  await refuse({ grammar: 'root ::= "a"', schema: true }, /both given/);
  await refuse({ schema: { type: "cat" } }, /#: "type" is "cat"; types are object/);
});

const NO_SCHEMA: readonly (readonly [unknown, RegExp])[] = [
  [5, /#: a schema is an object, true or false/],
  [false, /#: nothing is allowed/],
  [{ not: {} }, /"not" cannot be kept to/],
  [{ properties: { a: { multipleOf: 2 } } }, /#\/properties\/a: "multipleOf" cannot be kept to/],
  [{ $ref: "http://x" }, /only those that begin with "#\/"/],
  [{ $ref: "#/a" }, /there is no "#\/a"/],
  [{ $ref: "#" }, /begins with itself|never ends/],
  [{ enum: [] }, /"enum" is a list that is not empty/],
  [{ type: "string", enum: [1] }, /no value is allowed/],
  [{ type: "string", minLength: 3, maxLength: 2 }, /no text has at least 3/],
  [{ type: "integer", minimum: 3.1, maximum: 3.9 }, /no integer lies from 3.1 to 3.9/],
  [{ type: "number", minimum: 0.5 }, /bounds of numbers that are not whole/],
  [{ type: "array", maxItems: -1 }, /"maxItems" is no count/],
  [{ required: ["a"], additionalProperties: false }, /"a" is required, and not allowed/],
  [{ type: "string", pattern: "a(?=b)" }, /has "\?=b\)" at 2, which cannot be kept to/],
  [{ type: "string", pattern: "(a" }, /cannot be kept to/],
  [{ oneOf: [{ type: "number" }, { type: "integer" }] }, /branches that could both hold/],
  [{ allOf: [{ minimum: 1 }, { minimum: 2 }] }, /"minimum" is said twice/],
  [{ type: "array", minItems: 1e9, items: {} }, /more than 200000 states/],
];
Deno.test("grammar: schemas that cannot be kept to are refused by path", () => {
  for (const [schema, why] of NO_SCHEMA) {
    assert.throws(() => new GrammarMachine(jsonGrammar(schema)), why, JSON.stringify(schema));
  }
  let deep: unknown = true;
  for (let i = 0; i < 500; i++) deep = { properties: { a: deep } };
  assert.throws(() => jsonGrammar(deep), /more than 100 deep/);
});

Deno.test("grammar: schemas write what npm's ajv finds valid, where it can be fetched", async () => {
  const outcome = await runWithNpm("ajv", "tests/llm/schema_check.ts", "7", "40");
  if (outcome === undefined) return;
  const { code, stdout, stderr } = outcome;
  assert.equal(code, 0, stderr);
  const { written, read, refused } = JSON.parse(stdout) as Record<string, number>;
  assert.ok(Math.min(written, read, refused) > 100, stdout);
});
