/** Chat templates: texts are those that Python's jinja2 makes, to the character. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { type ChatMessage, renderChat } from "../../src/llm/llm.ts";
import { modelTemplates, questions, rendered, wanted, wordOf } from "./chat_renderings.ts";
import { CONVERSATIONS } from "./conversations.ts";
import { CASES } from "./template_cases.ts";

const isLoaded = await renderChat([], "", {}).then(() => true, (e) => !/could not be loaded/.test(e.message));
const models = await modelTemplates().catch(() => undefined), want = await wanted();

Deno.test({
  name: "chat templates: what small ones write and refuse is what jinja2 does",
  ignore: !isLoaded,
  fn: async () => {
    assertEquals(want.cases.length, CASES.length, "run `deno run -A tests/llm/chat_renderings.ts --write`");
    for (const [i, [template, values]] of questions(new Map()).entries()) {
      assertEquals(await rendered(template, values), want.cases[i], template);
    }
  },
});

Deno.test({
  name: "chat templates: the 70 of llama.cpp's tree write what jinja2 does, of 20 conversations each",
  ignore: !isLoaded || models === undefined,
  fn: async () => {
    assertEquals([...models!.keys()], Object.keys(want.models));
    const asked = questions(models!).slice(CASES.length), differ: string[] = [];
    for (const [i, name] of [...models!.keys()].entries()) {
      for (let chat = 0; chat < CONVERSATIONS; chat++) {
        const word = wordOf(await rendered(...asked[i * CONVERSATIONS + chat]));
        if (word !== want.models[name][chat]) differ.push(`${name}, conversation ${chat}`);
      }
    }
    assertEquals(differ, []);
  },
});

Deno.test({
  name: "chat templates: what is refused says what is missing, and values stay as they were",
  ignore: !isLoaded,
  fn: async () => {
    for (
      const [template, says] of [
        ["{{ messages[0].nme.x }}", "'dict object' has no attribute 'nme'"],
        ["{{ functions.x }}", "'functions' is undefined"],
        ["{{ raise_exception('Roles must alternate') }}", "Roles must alternate"],
        ["{{ 'a' + messages }}", "cannot concatenate str and list"],
        ["{% for a in 5 %}{% endfor %}", "'int' object is not iterable"],
        ["{{ 5 is nosuch }}", "No test named 'nosuch'"],
      ]
    ) {
      const error = await assertRejects(() => renderChat([{ role: "user", content: "a" }], template, {}));
      assertStringIncludes((error as Error).message, says);
    }
    const messages: ChatMessage[] = [{ role: "user", content: "a" }];
    assertEquals(await renderChat(messages, "{% set _ = messages.append(1) %}{{ messages|length }}", {}), "2");
    assert(messages.length === 1);
    // turns that are cut short do not count as nested
    const turns = "{% for a in range(3000) %}{% if a != 2999 %}{% continue %}{% endif %}{{ a }}{% endfor %}";
    assertEquals(await renderChat([], turns, {}), "2999");
  },
});
