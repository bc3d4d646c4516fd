/** The strict JSON reader. @module */
import assert from "node:assert/strict";
import { type Json, parseJson } from "../../src/state/json.ts";

function plain(x: Json): unknown {
  if (x instanceof Map) return Object.fromEntries([...x].map(([k, v]) => [k, plain(v)]));
  return Array.isArray(x) ? x.map(plain) : x;
}

for (
  const text of [
    "{}",
    "[]",
    ' { "a" : [1, -2.5e3, 0] , "b\\n\\u0041": {"c": null, "d": true} } ',
    '"text"',
    "-0.5",
    '{"a":{"b":{"c":[[[]]]}}}',
  ]
) Deno.test(`json: ${text} as JSON.parse`, () => assert.deepEqual(plain(parseJson(text)), JSON.parse(text)));

for (
  const [text, why] of [
    ['{"a":1,"a":2}', /duplicate key "a"/],
    ['{"a":1,"\\u0061":2}', /duplicate key/],
    ["{", /no string/],
    ['{"a"}', /no colon/],
    ['{"a":1', /no closing brace/],
    ["[1", /no closing bracket/],
    ["[1,]", /no value/],
    ["01", /text after/],
    ['"\n"', /no value|no string/],
    ["nul", /no value/],
    ["{} x", /text after/],
    ["[".repeat(99), /too deeply/],
  ] as const
) Deno.test(`json: rejects ${text.slice(0, 20)}`, () => assert.throws(() => parseJson(text), why));

Deno.test("json: no key is special", () => {
  const map = parseJson('{"__proto__": 1}') as ReadonlyMap<string, Json>;
  assert.equal(map.get("__proto__"), 1);
});
