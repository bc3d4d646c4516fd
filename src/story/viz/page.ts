/**
 * The page of VIZ as one HTML file: style, the functions of page_*.ts as their own text, and the data, packed, in it or
 * beside it. In: what VIZ shows; out: text that needs nothing else, and asks nobody but the server that it came from.
 *
 * @module
 */
import { base64, escapeHtml } from "../../helpers/text.ts";
import { pack } from "./pack.ts";
import * as compare from "./page_compare.ts";
import * as packed from "./page_data.ts";
import * as graph from "./page_graph.ts";
import * as main from "./page_main.ts";
import * as parts from "./page_parts.ts";
import * as passes from "./page_passes.ts";
import * as show from "./page_show.ts";
import * as text from "./page_text.ts";
import * as timeline from "./page_timeline.ts";
import * as views from "./page_views.ts";
import type { VizData } from "./viz_data.ts";

const STYLE = `
:root { color-scheme: light dark; --page: #fff; --text: #1b1f24; --quiet: #667079; --line: #d8dee4; --panel: #f6f8fa;
  --on: #ffd866; --new: #d6f5dd; --old: #ffe0de; --link: #0550ae; --hot: #c2410c; --bartext: #10151a;
  --schedule: #9ecbff; --pass: #c8e1ff; --lower: #b5e3d8; --compile: #84cfc0; --run: #e4d4f4; --replay: #e4d4f4;
  --trace: #f3d9b1; --read: #d5d8dc; --launch: #8fd19e; --copy: #f0b37e; --collective: #d7a8e0; }
@media (prefers-color-scheme: dark) { :root { --page: #14181d; --text: #dfe5ea; --quiet: #8b959e; --line: #333b44;
  --panel: #1c2228; --on: #8a6d1a; --new: #1d4428; --old: #5a2624; --link: #79b8ff; --hot: #fb923c; --bartext: #eef2f5;
  --schedule: #2b5686; --pass: #25476b; --lower: #1f5b4f; --compile: #2c7566; --run: #54407a; --replay: #54407a;
  --trace: #6d5426; --read: #434b54; --launch: #2f7040; --copy: #8a5420; --collective: #6e3c7a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 14px/1.45 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: 4px 20px; align-items: center; padding: 8px 14px; border-bottom: 1px solid var(--line); }
h1 { font-size: 15px; margin: 0; } h2 { font-size: 16px; margin: 8px 0; } h3 { font-size: 13px; margin: 14px 0 4px; } h2, h3, h4, p, li, code { overflow-wrap: anywhere; }
main { padding: 8px 14px; } a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
small, .quiet { color: var(--quiet); font-weight: normal; } .error { color: var(--hot); padding: 0 14px; white-space: pre-wrap; }
kbd { font: 11px monospace; border: 1px solid var(--line); border-radius: 3px; padding: 0 3px; color: var(--quiet); }
.tabs { display: flex; flex-wrap: wrap; gap: 4px; } .tab { padding: 2px 9px; border-radius: 5px; color: inherit; }
.tab.on, .row.on { background: var(--on); }
.two { display: grid; grid-template-columns: minmax(240px, 30%) minmax(0, 1fr); gap: 14px; align-items: start; }
.list { contain: content; overflow: auto; max-height: calc(100vh - 120px); border: 1px solid var(--line); border-radius: 5px; }
.list.short { max-height: 210px; } .list:empty { display: none; }
.row { display: flex; gap: 8px; align-items: baseline; padding: 1px 8px; color: inherit; white-space: nowrap; }
.row span:first-child { flex-shrink: 0; } .row > span:nth-child(2) { flex: 1; }
.passes .two > .list .row > span:first-child { flex: 1; } .passes .two > .list .row > span:nth-child(2) { flex: 0; }
.head { padding: 3px 8px; background: var(--panel); font-weight: 600; position: sticky; top: 0; }
.num { font-variant-numeric: tabular-nums; text-align: right; }
.graph { contain: content; border: 1px solid var(--line); border-radius: 5px; min-height: 60px; margin: 6px 0; overflow: hidden; cursor: grab; }
svg.picture { display: block; width: 100%; } .edges path { fill: none; stroke: var(--quiet); stroke-opacity: .6; }
.box rect { fill: var(--panel); stroke: var(--line); } .box text { font: 12px monospace; text-anchor: middle; fill: var(--text); }
.box.leaf rect { stroke-dasharray: 3 2; } .box.new rect { fill: var(--new); } .box.old rect { fill: var(--old); }
.box.on rect { fill: var(--on); } .box.hot rect { stroke: var(--hot); stroke-width: 2; } .box.same rect { stroke: var(--link); stroke-width: 2; }
pre { margin: 4px 0; padding: 6px; background: var(--panel); border-radius: 5px; overflow: auto; font: 12px/1.4 ui-monospace, monospace; max-height: 60vh; }
code { font: 12px ui-monospace, monospace; } pre .same { background: var(--on); }
.diff .new { background: var(--new); } .diff .old { background: var(--old); }
i.comment { color: var(--quiet); } i.word { color: var(--link); font-style: normal; } i.number, i.text { font-style: normal; color: var(--hot); }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(280px, 1fr)); gap: 14px; } .columns section { min-width: 0; }
table { border-collapse: collapse; } th, td { text-align: left; padding: 1px 8px; vertical-align: top; } th.num { text-align: right; } .tree td { padding-top: 3px; } .tree .of { font-size: 12px; padding-left: 18px; }
.wide { width: 100%; } td.num { white-space: nowrap; } .bar { display: inline-block; height: 9px; background: var(--launch); }
.memory svg { display: block; width: 100%; height: 160px; background: var(--panel); } .memory rect { fill: var(--launch); stroke: var(--page); stroke-width: .5; }
.here { height: 160px; margin-top: -160px; pointer-events: none; } .here div { width: 2px; height: 100%; background: var(--hot); } .memory:empty + .here { display: none; } canvas { width: 100%; display: block; cursor: crosshair; }
.key { display: inline-block; width: 10px; height: 10px; margin: 0 3px 0 8px; }
${
  ["schedule", "pass", "lower", "compile", "run", "replay", "trace", "read", "launch", "copy", "collective"].map((k) =>
    `.key.${k} { background: var(--${k}); }`
  ).join(" ")
}
.mark { color: var(--hot); } .compared { border-bottom: 1px solid var(--line); margin-bottom: 8px; padding-bottom: 6px; } .compared p { margin: 2px 0; }
select { max-width: 260px; } :focus-visible { outline: 2px solid var(--link); }
@media (max-width: 760px) { .two { grid-template-columns: minmax(0, 1fr); } .two > .list { max-height: 240px; } main { padding: 6px; } .wide { display: block; overflow-x: auto; } }
`;

/** Who may do what: nothing from elsewhere is loaded, and nothing goes elsewhere. */
const POLICY = "default-src 'none'; script-src 'unsafe-inline' blob:; worker-src blob:; style-src 'unsafe-inline'; " +
  "connect-src 'self'; img-src data:";

/** The functions of a module as text. */
function functionsOf(module: Readonly<Record<string, unknown>>): string {
  return Object.values(module).filter((f) => typeof f === "function").map(String).join("\n");
}

/** The script of the page. */
export function pageScript(): string {
  const all = [{ escapeHtml }, packed, text, graph, parts, passes, compare, views, timeline, show, main].map(
    functionsOf,
  )
    .join(
      "\n",
    );
  const worker =
    `${graph.layoutGraph}\nonmessage = ({ data: { id, graph } }) => postMessage({ id, placed: layoutGraph(graph) });`;
  return `${all}\nstartPage(globalThis, ${JSON.stringify(worker)});`.replaceAll("</script", "<\\/script");
}

/** The page. @param held data and what it is compared with, as {@linkcode pack} gives them, in base64; without, it asks the server */
export function pageHtml(title: string, held?: { readonly data: string; readonly other: string }): string {
  const island = (id: string, packed: string): string => `<script type="text/plain" id="${id}">${packed}</script>`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="content-security-policy" content="${POLICY}">
<title>viz: loading</title>
<style>${STYLE}</style>
<body tabindex="-1">
<div id="root"><p>Loading ${escapeHtml(title)} …</p></div>
${held === undefined ? "" : island("data", held.data) + island("other", held.other)}
<script>${pageScript()}</script>
</body>
</html>
`;
}

/** The page with its data, to be kept or sent: it opens without a server. @param other another recording, to compare with */
export async function vizPage(data: VizData, other?: VizData): Promise<string> {
  const [one, two] = await Promise.all([pack(data), pack(other)]);
  return pageHtml(data.title, { data: base64(one), other: base64(two) });
}
