/** The page of the language model, in headless Chromium. Left out where there is no browser. */
import assert from "node:assert/strict";
import { runDeno } from "../system/subprocess.ts";
import type { TalkSeen } from "./talk.ts";

// in a process of its own, as its driver is in no lock file
const { stdout, stderr } = await runDeno(["run", "-A", "--no-lock", "--no-check", "tests/web/talk.ts"], {
  timeoutMs: 300_000,
});
if (stdout === "") throw new Error(`the page was not visited: ${stderr}`);
const seen = JSON.parse(stdout.trim().split("\n").at(-1)!) as TalkSeen | string;
if (typeof seen === "string") console.log(`Chromium is left out: ${seen}`);

Deno.test({
  name: "Chromium: a language model tells stories in a page, answers from a visitor's file, is stopped, works offline",
  ignore: typeof seen === "string",
  fn: () => {
    const s = seen as TalkSeen;
    assert.deepEqual(s.errors, []);
    assert.equal(s.devices[0], "WebAssembly");
    assert.equal(s.ready, "stories260K: llama, 5 layers of 64, on WASM.");
    // as llama.cpp has it
    assert.equal(s.story, "Once upon a time, there was a little girl named Lily. She loved to play outside in the p");
    assert.match(s.rate, /^24 tokens, \d+ a second on WASM, \d+ MB\.$/);
    assert.ok(s.stopped > 30 && s.stopped < 1000, `${s.stopped}`);
    assert.match(s.stopRate, /: stopped\.$/);
    assert.deepEqual(s.answers, s.wanted);
    assert.match(s.broken, /^This model cannot be had: .*it is truncated/);
    assert.equal(s.width, 360);
    assert.equal(s.offline, s.ready);
  },
});
