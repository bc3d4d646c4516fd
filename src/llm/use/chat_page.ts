/**
 * The page at `/` of a server: a chat that streams, by plain HTML and script, with nothing from elsewhere.
 *
 * @module
 */

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d5d5d5, #444); --mine: light-dark(#e8f0fe, #26344d) }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 52rem; height: 100dvh; display: flex; flex-direction: column; padding: 0 1rem;
  font: 1rem/1.5 system-ui, sans-serif; background: light-dark(#fff, #181818); color: light-dark(#1b1b1b, #e6e6e6) }
header { display: flex; gap: 1rem; align-items: center; padding: .6rem 0; border-bottom: 1px solid var(--line) }
h1 { font-size: 1.05rem; margin: 0; flex: 1; overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
main { flex: 1; overflow-y: auto; padding: 1rem 0 }
.m { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0 0 1rem; padding: .5rem .8rem; border-radius: .6rem }
.user { background: var(--mine); margin-left: 15% }
.error { border: 1px solid #c33 }
details { border-bottom: 1px solid var(--line); padding: .3rem 0 } details label { margin-right: 1rem }
details input { width: 6rem } #system { width: 100% }
form { display: flex; gap: .5rem; padding: .8rem 0 } textarea { flex: 1; resize: vertical; min-height: 3rem }
textarea, input, button { font: inherit; padding: .4rem .6rem; border: 1px solid var(--line); border-radius: .4rem;
  background: light-dark(#fff, #222); color: inherit }
:focus-visible { outline: 2px solid light-dark(#1a56db, #8ab4f8) }
#state { font-size: .85rem; opacity: .75 }`;

const BODY = `
<header><h1 id="name">dinograd</h1><span id="state" role="status"></span><button id="new" title="Alt+N">New chat</button></header>
<details><summary>Settings</summary>
<label>Temperature <input id="temperature" type="number" min="0" max="2" step="0.1" value="0.7"></label>
<label>Tokens <input id="tokens" type="number" min="1" value="512"></label>
<label>Key <input id="key" type="password" autocomplete="off"></label>
<p><label for="system">System message</label><br><input id="system"></p></details>
<main id="log" aria-live="polite" tabindex="0"></main>
<form id="form"><textarea id="text" aria-label="Message" autofocus
placeholder="Message. Enter sends, Shift+Enter breaks the line, Escape stops."></textarea><button id="send">Send</button></form>`;

const SCRIPT = `
const $ = (id) => document.getElementById(id), log = $("log");
let messages = [], stop;
$("key").value = localStorage.getItem("key") ?? "";
$("key").onchange = () => localStorage.setItem("key", $("key").value);
const headers = () => ({ "content-type": "application/json", ...$("key").value ? { authorization: "Bearer " + $("key").value } : {} });
function show(role, text) {
  const box = document.createElement("div");
  box.className = "m " + role;
  box.textContent = text;
  log.append(box);
  log.scrollTop = log.scrollHeight;
  return box;
}
async function name() {
  const r = await fetch("v1/models", { headers: headers() });
  if (r.ok) $("name").textContent = document.title = (await r.json()).data[0].id;
}
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = "";;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\\n\\n");
    text = parts.pop();
    for (const p of parts) {
      const data = p.slice(p.indexOf("data: ") + 6);
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}
async function ask(text) {
  messages.push({ role: "user", content: text });
  show("user", text);
  const box = show("assistant", ""), began = performance.now();
  let said = "", tokens = 0;
  stop = new AbortController();
  $("send").textContent = "Stop";
  try {
    const system = $("system").value, all = system ? [{ role: "system", content: system }, ...messages] : messages;
    const r = await fetch("v1/chat/completions", { method: "POST", headers: headers(), signal: stop.signal, body: JSON.stringify({
      messages: all, stream: true, temperature: Number($("temperature").value), max_tokens: Number($("tokens").value),
      stream_options: { include_usage: true } }) });
    if (!r.ok) throw new Error((await r.json()).error.message);
    for await (const e of events(r.body)) {
      if (e.error) throw new Error(e.error.message);
      const down = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      box.textContent = said += e.choices[0]?.delta.content ?? "";
      tokens = e.usage?.completion_tokens ?? tokens;
      if (down) log.scrollTop = log.scrollHeight;
    }
    const s = (performance.now() - began) / 1000;
    $("state").textContent = tokens + " tokens, " + (tokens / s).toFixed(1) + " a second";
  } catch (error) {
    if (error.name !== "AbortError") show("error", error.message);
  }
  messages.push({ role: "assistant", content: said });
  stop = undefined;
  $("send").textContent = "Send";
}
$("form").onsubmit = (e) => {
  e.preventDefault();
  if (stop) return stop.abort();
  const text = $("text").value.trim();
  if (text === "") return;
  $("text").value = "";
  ask(text);
};
$("text").onkeydown = (e) => {
  if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
  e.preventDefault();
  if (!stop) $("form").requestSubmit();
};
const fresh = () => { stop?.abort(); messages = []; log.replaceChildren(); $("text").focus(); };
$("new").onclick = fresh;
document.onkeydown = (e) => {
  if (e.key === "Escape") stop?.abort();
  if (e.altKey && e.key === "n") fresh();
};
name();`;

/** HTML. */
export const CHAT_PAGE: string = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><title>dinograd</title><style>${STYLE}</style></head>
<body>${BODY}<script type="module">${SCRIPT}</script></body></html>
`;
