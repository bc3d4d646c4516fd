/**
 * The passes in the page: the list of those that changed something, of one of them its changes, and what one change or all
 * of the pass made. In: the data and the selection; out: parts of the view. As page_text.ts, these functions are in the
 * page as their own text.
 *
 * @module
 */
import { escapeHtml } from "../../helpers/text.ts";
import { below, graphOfNodes, nearNodes } from "./page_graph.ts";
import {
  graphHtml,
  limitsOf,
  linkTo,
  numberOf,
  type Part,
  type Ui,
  type View,
  windowHtml,
  windowStart,
} from "./page_parts.ts";
import { diffHtml, diffLines, exprOf, timeText, treeLines } from "./page_text.ts";

/** Which passes the list has: those that changed something, or all, that have the text that is looked for. */
export function passesShown(ui: Ui): readonly number[] {
  const { passes, works, rules } = ui.data, { q = "", all } = ui.selection, kernel = numberOf(ui, "of");
  const key = JSON.stringify([q, all, kernel]);
  if (ui.shown?.key === key) return ui.shown.passes;
  const text = q.toLowerCase(), out: number[] = [], has = (name: string): boolean => name.toLowerCase().includes(text);
  passes.forEach((p, i) => {
    if (all === undefined && p.before === p.after && p.changes.length === 0) return;
    if (kernel !== undefined && p.of !== kernel) return;
    const found = text === "" || has(p.name) || (p.of !== undefined && has(works[p.of].name)) ||
      p.changes.some(([rule]) => has(rules[rule].name));
    if (found) out.push(i);
  });
  ui.shown = { key, passes: out };
  return out;
}

/** The name of a schedule or a kernel. */
export function workText(ui: Ui, of: number | undefined): string {
  if (of === undefined) return "elsewhere";
  const { kind, number, name } = ui.data.works[of];
  return kind === "schedule" ? `schedule ${number}` : `${name || "kernel"} (kernel ${number})`;
}

/** The passes: a list, and of the one that is selected its changes, step by step. */
export function passesView(ui: Ui): View {
  const { data: { passes }, selection } = ui, shown = passesShown(ui), { rows } = limitsOf();
  const at = numberOf(ui, "pass") ?? shown[0], isThere = at !== undefined && passes[at] !== undefined;
  const links = linkTo(ui, { pass: undefined, change: undefined }),
    from = windowStart(shown.length, shown.indexOf(at), rows);
  const row = (k: number): string => {
    const i = shown[k], p = passes[i], isSame = k > from && passes[shown[k - 1]].of === p.of;
    const head = isSame ? "" : `<div class="head">${escapeHtml(workText(ui, p.of))}</div>`;
    const to = linkTo(ui, { pass: String(i), change: undefined });
    return `${head}<a class="row" data-row="${i}" href="${to}" style="padding-left:${
      8 + 12 * Math.min(p.depth, 8)
    }px">` +
      `<span>${escapeHtml(p.name)}</span><span class="num">${
        p.changes.length || (p.before === p.after ? "" : "·")
      }</span>` +
      `<span class="num quiet">${timeText(p.timeMs)}</span></a>`;
  };
  const tools = (): string =>
    `<a href="${linkTo(ui, { all: selection.all === undefined ? "1" : undefined })}">${
      selection.all === undefined ? "show those that changed nothing" : "hide those that changed nothing"
    }</a>${numberOf(ui, "of") === undefined ? "" : ` <a href="${linkTo(ui, { of: undefined })}">all kernels</a>`}` +
    ` <span class="quiet">${shown.length} shown, ${passes.length - shown.length} hidden</span>`;
  return {
    frame: `<p class="tools"><input id="search" type="search" placeholder="pass, kernel or rule ( / )"> ` +
      `<span data-part="tools"></span></p>` +
      `<div class="two"><div class="list" data-part="list" data-list></div><div class="detail"><div data-part="title"></div>` +
      `<div class="list short" data-part="changes" data-list></div><div data-part="what"></div></div></div>`,
    parts: [
      { name: "tools", key: linkTo(ui, {}), html: tools },
      { name: "list", key: `${from} ${links}`, html: () => windowHtml(shown.length, row, from, rows), on: at },
      ...(isThere ? passParts(ui, at, links) : nothingParts()),
    ],
  };
}

/** What stands where there is no pass. */
export function nothingParts(): Part[] {
  const empty = (name: string, html = ""): Part => ({ name, key: "nothing", html: () => html });
  return [empty("title", `<p>Nothing was recorded, or nothing is found.</p>`), empty("changes"), empty("what")];
}

/** One pass: its title, its changes, and the graph, or what one change made. */
export function passParts(ui: Ui, at: number, links: string): Part[] {
  const { nodes, rules } = ui.data, p = ui.data.passes[at], rows = limitsOf().rows >> 2;
  const wanted = numberOf(ui, "change"), step = wanted !== undefined && wanted < p.changes.length ? wanted : undefined;
  const title = (): string => {
    const none = p.changes.length > 0
      ? ""
      : `<p class="quiet">It rewrote by no rule${p.before === p.after ? ", and changed nothing" : ""}.</p>`;
    return `<h2>${escapeHtml(p.name)} <small>${escapeHtml(workText(ui, p.of))}, ${
      timeText(p.timeMs)
    }</small></h2>${none}`;
  };
  const short = (n: number): string => escapeHtml(exprOf(nodes, n, 2).slice(0, 60));
  const row = (i: number): string => {
    const [rule, from, to] = p.changes[i];
    return `<a class="row" data-row="${i}" href="${
      linkTo(ui, { pass: String(at), change: String(i) })
    }"><span class="num">${i + 1}</span>` +
      `<span>${escapeHtml(rules[rule].name.slice(0, 80))}</span><code>${short(from)} → ${short(to)}</code></a>`;
  };
  const from = windowStart(p.changes.length, step ?? 0, rows);
  return [
    { name: "title", key: String(at), html: title },
    {
      name: "changes",
      key: `${at} ${from} ${links}`,
      html: () => windowHtml(p.changes.length, row, from, rows),
      on: step,
    },
    {
      name: "what",
      key: `${at} ${step}`,
      html: () => step === undefined ? passHtml(ui, at) : changeHtml(ui, at, step),
    },
  ];
}

/** What one change made: its rule, both expressions, the graph near them, both trees compared. */
export function changeHtml(ui: Ui, at: number, step: number): string {
  const { nodes, rules } = ui.data, { changes } = ui.data.passes[at], [rule, from, to] = changes[step];
  const { name, line } = rules[rule];
  const was = below(nodes, [from], 4000) ?? new Set(), is = below(nodes, [to], 4000) ?? new Set();
  const near = new Set([...nearNodes(nodes, [to], 60), ...nearNodes(nodes, [from], 60)]);
  const look = (n: number): string => is.has(n) ? (was.has(n) ? "" : "new") : "old";
  const texts = [from, to].map((n) => treeLines(nodes, [n], 400).map((l) => l.text));
  return `<h3>change ${step + 1} of ${changes.length}</h3>` +
    `<p><b>${escapeHtml(name)}</b>${line === undefined ? "" : ` <code>${escapeHtml(line)}</code>`}</p>` +
    `<pre class="diff"><div class="old">- ${escapeHtml(exprOf(nodes, from, 6))}</div><div class="new">+ ${
      escapeHtml(exprOf(nodes, to, 6))
    }</div></pre>${graphHtml(ui, graphOfNodes(nodes, near, look))}${diffHtml(diffLines(texts[0], texts[1]))}`;
}

/** What a pass made: the graph after it, and both trees compared. */
export function passHtml(ui: Ui, at: number): string {
  const { nodes } = ui.data, p = ui.data.passes[at], { boxes } = limitsOf();
  const after = below(nodes, [p.after], boxes), was = below(nodes, [p.before], 100_000) ?? new Set<number>();
  const fresh = (n: number): string => was.has(n) ? "" : "new";
  let graph: string;
  if (after !== undefined) graph = graphHtml(ui, graphOfNodes(nodes, after, fresh));
  else {
    const all = below(nodes, [p.after], 1_000_000) ?? new Set<number>(), news = [...all].filter((n) => !was.has(n));
    const near = nearNodes(nodes, news.slice(0, 40), boxes >> 1, usersOf(ui, all));
    graph = `<p class="quiet">${all.size} nodes, more than the ${boxes} that are drawn: ${
      news.length === 0 ? "nothing is new" : "what is new and what is near it"
    }; the text below has more.</p>${news.length === 0 ? "" : graphHtml(ui, graphOfNodes(nodes, near, fresh))}`;
  }
  const texts = [p.before, p.after].map((n) => treeLines(nodes, [n], 1500).map((l) => l.text));
  return `${graph}<h3>before and after</h3>${diffHtml(diffLines(texts[0], texts[1]))}`;
}

/** Which nodes of a graph use each. */
export function usersOf(ui: Ui, graph: ReadonlySet<number>): Map<number, number[]> {
  const users = new Map<number, number[]>();
  for (const n of graph) {
    for (const s of ui.data.nodes[n].src) {
      const list = users.get(s);
      if (list === undefined) users.set(s, [n]);
      else list.push(n);
    }
  }
  return users;
}
