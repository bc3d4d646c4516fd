/** The chat page of a server, in headless Chromium. Left out where there is no browser. */
import assert from "node:assert/strict";
import { runDeno } from "../system/subprocess.ts";
import type { ChatSeen } from "./chat.ts";

// in a process of its own: its driver is in no lock file, which would have every run fetch it
const args = ["run", "-A", "--no-lock", "--no-check", "tests/web/chat.ts"];
const { stdout, stderr } = await runDeno(args, { timeoutMs: 300_000 });
if (stdout === "") throw new Error(`the page was not visited: ${stderr}`);
const seen = JSON.parse(stdout.trim().split("\n").at(-1)!) as ChatSeen | string;
if (typeof seen === "string") console.log(`Chromium is left out: ${seen}`);

Deno.test({
  name: "Chromium: a person chats by keyboard, with a key, stops an answer and begins anew",
  ignore: typeof seen === "string",
  fn: () => {
    const s = seen as ChatSeen;
    assert.deepEqual(s.errors, []);
    assert.match(s.refused, /key/);
    assert.equal(s.title, "stories260K");
    assert.deepEqual(s.boxes, [
      ["m user", "Once upon a time"],
      ["m assistant", s.answers[0]],
      ["m user", "Lily went"],
      ["m assistant", s.answers[1]],
    ]);
    assert.match(s.state, /^12 tokens, \d+\.\d a second$/);
    assert.ok(s.stopped > 20 && s.stopped < 1200, `${s.stopped} letters`);
    assert.equal(s.label, "Send");
    assert.match(s.tooLong, /the prompt has \d+ tokens, and the context is 512/);
    assert.deepEqual([s.afterNew, s.focus], [0, "text"]);
    assert.ok(s.width <= 360, `${s.width} pixels wide`);
  },
});
