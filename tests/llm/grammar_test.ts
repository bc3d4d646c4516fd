/**
 * Grammars: random ones against a plain recursive matcher, what is wrong with them by line and column, and masks of tokens
 * against a check of each token.
 */
import assert from "node:assert/strict";
import { GrammarMachine } from "../../src/llm/grammar/automaton.ts";
import { type Grammar, LAST_CODE, readGbnf, type Rule } from "../../src/llm/grammar/grammar.ts";
import { Random } from "../support/random.ts";

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
  return Array.from({ length: count }, (_, i) => `${name(i)} ::= ${item(i, 0)} ${item(i, 0)} | ${item(i, 0)} # x`).join("\n");
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
  for (let n = 0; n < 400; n++) {
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
      for (let size = random.int(0, 7); text.length < size;) {
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
  assert.ok(Math.min(seen.taken, seen.open, seen.refused) > 400, JSON.stringify(seen));
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
