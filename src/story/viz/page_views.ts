/**
 * The views of the page but the timeline: the program's lines, the schedule, the passes, a kernel. In: the data and the
 * selection; out: HTML, and the graphs that are to be drawn in it. As page_text.ts, these functions are in the page as
 * their own text.
 *
 * @module
 */
import { escapeHtml } from "../../helpers/text.ts";
import { below, graphOfNodes, type GraphSpec, nearNodes } from "./page_graph.ts";
import { countedText, diffHtml, diffLines, exprOf, sourceHtml, timeText, treeLines } from "./page_text.ts";
import type { KernelData, VizData } from "./viz_data.ts";

/** What was selected, as in the URL behind "#": view, kernel, schedule, pass, step, event, q, other, all. */
export type Selection = Readonly<Record<string, string | undefined>>;

/** The page as it is. */
export interface Ui {
  readonly data: VizData;
  /** Another recording, to compare with. */
  readonly other: VizData | undefined;
  /** Of each kernel, how often it ran and for how long. */
  readonly runs: readonly { readonly count: number; readonly ms: number }[];
  /** Of nodes those that use them; made when a graph first asks for it. */
  users: Map<number, number[]> | undefined;
  selection: Selection;
  /** To be drawn once the HTML stands: by the number that the place has in it. */
  graphs: GraphSpec[];
}

/** How many boxes a picture has at most, and rows a list. */
export function limitsOf(): { readonly boxes: number; readonly rows: number } {
  return { boxes: 400, rows: 400 };
}

/** The selection with changes, as the address of a link. */
export function linkTo(ui: Ui, change: Selection): string {
  const all = { ...ui.selection, ...change };
  const parts = Object.entries(all).filter(([, v]) => v !== undefined && v !== "");
  return `#${parts.map(([k, v]) => `${k}=${encodeURIComponent(v!)}`).join("&")}`;
}

/** A number of the selection; undefined where there is none. */
export function numberOf(ui: Ui, name: string): number | undefined {
  const text = ui.selection[name];
  return text === undefined || !/^\d+$/.test(text) ? undefined : Number(text);
}

/** A place for a graph. */
export function graphHtml(ui: Ui, graph: GraphSpec): string {
  ui.graphs.push(graph);
  return `<div class="graph" data-graph="${
    ui.graphs.length - 1
  }" tabindex="0" aria-label="graph of ${graph.boxes.length} nodes"></div>`;
}

/** A list of `count` rows, of which those around `at` are shown, and made. */
export function windowHtml(count: number, rowOf: (i: number) => string, at: number, limit: number): string {
  const from = Math.max(0, Math.min(at - (limit >> 1), count - limit)), to = Math.min(count, from + limit);
  const more = (n: number, where: string): string => n > 0 ? `<div class="quiet">${n} more ${where}</div>` : "";
  let rows = "";
  for (let i = from; i < to; i++) rows += rowOf(i);
  return more(from, "above") + rows + more(count - to, "below");
}

/** A kernel's name with what it took. */
export function kernelText(ui: Ui, k: number): string {
  const { name } = ui.data.kernels[k], { count, ms } = ui.runs[k];
  return `${escapeHtml(name)}${
    count === 0 ? "" : ` <small>${count > 1 ? `${count} × ` : ""}${timeText(ms / count)}</small>`
  }`;
}

/** The lines of the program, by file, each with the kernels that compute it; equal ones once. */
export function programView(ui: Ui): string {
  const { kernels } = ui.data, files = new Map<string, Map<number, number[]>>();
  kernels.forEach((k, i) => {
    for (const line of k.lines.length === 0 ? ["(no line):0"] : k.lines) {
      const m = /^(.*?):(\d+)(?::\d+)?$/.exec(line), file = m?.[1] ?? line, row = Number(m?.[2] ?? 0);
      const rows = files.get(file) ?? new Map<number, number[]>();
      files.set(file, rows);
      const list = rows.get(row) ?? [];
      if (!list.includes(i)) list.push(i);
      rows.set(row, list);
    }
  });
  const total = ui.runs.reduce((sum, r) => sum + r.ms, 0) || 1;
  const sum = (list: Iterable<number>): number => [...new Set(list)].reduce((s, k) => s + ui.runs[k].ms, 0);
  const bar = (ms: number): string =>
    `<td class="num">${ms > 0 ? timeText(ms) : ""}</td><td><span class="bar" style="width:${
      (100 * ms / total).toFixed(1)
    }px"></span></td>`;
  let html = "";
  for (
    const [file, rows] of [...files].sort((a, b) => sum([...b[1].values()].flat()) - sum([...a[1].values()].flat()))
  ) {
    html += `<tr class="file"><th colspan="2">${escapeHtml(file)}</th>${bar(sum([...rows.values()].flat()))}</tr>`;
    for (const [row, list] of [...rows].sort((a, b) => a[0] - b[0])) {
      // equal names once, with how many there are
      const byName = new Map<string, number[]>();
      for (const k of list) byName.set(kernels[k].name, [...byName.get(kernels[k].name) ?? [], k]);
      const links = [...byName].map(([name, of]) => {
        const many = of.length > 1 ? `${of.length} × ` : "";
        return `<a href="${linkTo(ui, { view: "kernel", kernel: String(of[0]) })}">${many}${escapeHtml(name)}</a>`;
      });
      html += `<tr><td class="num">${row || ""}</td><td>${links.join(" ")}</td>${bar(sum(list))}</tr>`;
    }
  }
  const note = "A kernel that computes several lines is listed, with its time, at each of them.";
  return html === ""
    ? `<p>No kernel was recorded.</p>`
    : `<table class="wide"><thead><tr><th>line</th><th>kernels</th><th>time</th><th></th></tr></thead>${html}</table><p class="quiet">${note}</p>`;
}

/** A schedule: its steps in order, buffers as edges, and below where intermediates lie. */
export function scheduleView(ui: Ui): string {
  const { schedules, kernels } = ui.data, at = numberOf(ui, "schedule") ?? 0, s = schedules[at];
  if (s === undefined) return `<p>No schedule was recorded.</p>`;
  const tabs = schedules.map((o, i) => {
    const text = `${i + 1}: ${o.steps.length} step${o.steps.length === 1 ? "" : "s"}${
      o.uses > 1 ? ` × ${o.uses}` : ""
    }`;
    return `<a class="tab${i === at ? " on" : ""}" href="${
      linkTo(ui, { schedule: String(i), step: undefined })
    }">${text}</a>`;
  });
  const { boxes: limit, rows } = limitsOf(), chosen = Math.min(numberOf(ui, "step") ?? 0, s.steps.length - 1);
  const from = Math.max(0, Math.min(chosen - (limit >> 1), s.steps.length - limit));
  const labelOf = (i: number): string => {
    const { kind, kernel, buffers } = s.steps[i];
    return kernel !== undefined
      ? kernels[kernel].name
      : `${kind} ${countedText(s.buffers[buffers[0]]?.nbytes ?? 0, "B")}`;
  };
  const lookOf = (i: number): string => {
    const { kernel } = s.steps[i], run = kernel === undefined ? undefined : ui.runs[kernel];
    const all = ui.runs.reduce((sum, r) => sum + r.ms, 0);
    return `${i === chosen ? "on " : ""}${run !== undefined && run.ms > all / 10 ? "hot" : ""}`.trim();
  };
  const shown = s.steps.slice(from, from + limit).map((_, i) => from + i), writer = new Map<number, number>();
  const edges: [number, number][] = [];
  s.steps.forEach(({ buffers, writes }, i) => {
    for (const b of new Set(buffers)) {
      const w = writer.get(b);
      if (w !== undefined && w !== i && w >= from && i >= from && i < from + limit) edges.push([w, i]);
    }
    for (const b of writes) writer.set(b, i);
  });
  const graph: GraphSpec = {
    boxes: shown.map((i) => ({
      id: i,
      label: labelOf(i).slice(0, 42),
      look: lookOf(i),
      href: linkTo(ui, { step: String(i) }),
    })),
    edges,
  };
  const list = s.steps.map((step, i) => {
    const { kernel, buffers, writes, device, lines } = step;
    const name = kernel === undefined
      ? escapeHtml(labelOf(i))
      : `<a href="${linkTo(ui, { view: "kernel", kernel: String(kernel) })}">${kernelText(ui, kernel)}</a>`;
    const moved = buffers.map((b) => `${writes.includes(b) ? "→" : ""}${b}`).join(" ");
    return `<div class="row${i === chosen ? " on" : ""}"><a class="num" href="${
      linkTo(ui, { step: String(i) })
    }">${i}</a>` +
      `<span>${name}</span><span class="quiet">${escapeHtml(device)} · buffers ${moved}` +
      `${lines.length === 0 ? "" : ` · ${escapeHtml(lines[lines.length - 1])}`}</span></div>`;
  });
  const cut = s.steps.length > limit
    ? `<p class="quiet">${s.steps.length} steps: the ${limit} around the selected one are drawn.</p>`
    : "";
  return `<nav class="tabs">${tabs.slice(0, rows).join("")}</nav><p>From a graph of ${s.nodes} nodes.</p>${cut}` +
    `<div class="two"><div class="list" data-keep="steps">${
      windowHtml(list.length, (i) => list[i], chosen, rows)
    }</div><div>${graphHtml(ui, graph)}` +
    `${memoryHtml(ui, at, chosen)}</div></div>`;
}

/** Where the intermediates of a schedule lie: steps to the right, bytes down. */
export function memoryHtml(ui: Ui, at: number, chosen: number): string {
  const { buffers, steps, blocks } = ui.data.schedules[at], total = blocks.reduce((n, b) => n + b, 0);
  if (total === 0) return `<p class="quiet">no intermediates</p>`;
  const start: number[] = [];
  let sum = 0;
  for (const b of blocks) {
    start.push(sum);
    sum += b;
  }
  const first = new Map<number, number>(), last = new Map<number, number>();
  steps.forEach((s, i) => {
    for (const b of s.buffers) {
      if (!first.has(b)) first.set(b, i);
      last.set(b, i);
    }
  });
  const wide = 640 / steps.length, high = 160;
  let shapes = "", count = 0;
  buffers.forEach((b, i) => {
    if (b.place === undefined || !first.has(i) || count++ > 2000) return;
    const x = first.get(i)! * wide, w = (last.get(i)! - first.get(i)! + 1) * wide;
    const y = (start[b.place[0]] + b.place[1]) / total * high, h = Math.max(1, b.nbytes / total * high);
    const title = `buffer ${i}: ${b.dtype} × ${b.size}, ${countedText(b.nbytes, "B")}, steps ${first.get(i)} to ${
      last.get(i)
    }`;
    shapes += `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${w.toFixed(1)}" height="${
      h.toFixed(1)
    }"><title>${title}</title></rect>`;
  });
  const here = `<line x1="${(chosen + 0.5) * wide}" x2="${(chosen + 0.5) * wide}" y1="0" y2="${high}"/>`;
  return `<h3>Memory of intermediates: ${countedText(total, "B")}</h3>` +
    `<svg class="memory" viewBox="0 0 640 ${high}" preserveAspectRatio="none">${shapes}${here}</svg>`;
}

/** Which passes the list has: those that changed something, or all, that have the text that is looked for. */
export function passesShown(ui: Ui): number[] {
  const { passes, works, rules } = ui.data, { q = "", all } = ui.selection, kernel = numberOf(ui, "of");
  const text = q.toLowerCase(), out: number[] = [];
  passes.forEach((p, i) => {
    if (all === undefined && p.before === p.after && p.changes.length === 0) return;
    if (kernel !== undefined && p.of !== kernel) return;
    const found = text === "" || p.name.toLowerCase().includes(text) ||
      (p.of !== undefined && works[p.of].name.toLowerCase().includes(text)) ||
      p.changes.some(([rule]) => rules[rule].name.toLowerCase().includes(text));
    if (found) out.push(i);
  });
  return out;
}

/** The name of a schedule or a kernel. */
export function workText(ui: Ui, of: number | undefined): string {
  if (of === undefined) return "elsewhere";
  const { kind, number, name } = ui.data.works[of];
  return kind === "schedule" ? `schedule ${number}` : `${name || "kernel"} (kernel ${number})`;
}

/** The passes: a list, and of the one that is selected its changes, step by step. */
export function passesView(ui: Ui): string {
  const { data, selection } = ui, { passes } = data, shown = passesShown(ui), { rows } = limitsOf();
  const at = numberOf(ui, "pass") ?? shown[0];
  const row = (k: number): string => {
    const i = shown[k], p = passes[i], isSame = k > 0 && passes[shown[k - 1]].of === p.of;
    const head = isSame ? "" : `<div class="head">${escapeHtml(workText(ui, p.of))}</div>`;
    const to = linkTo(ui, { pass: String(i), change: undefined });
    return `${head}<a class="row${i === at ? " on" : ""}" href="${to}" style="padding-left:${
      8 + 12 * Math.min(p.depth, 8)
    }px">` +
      `<span>${escapeHtml(p.name)}</span><span class="num">${
        p.changes.length || (p.before === p.after ? "" : "·")
      }</span>` +
      `<span class="num quiet">${timeText(p.timeMs)}</span></a>`;
  };
  const hidden = passes.length - shown.length;
  const filter =
    `<p class="tools"><input id="search" type="search" placeholder="pass, kernel or rule ( / )" value="${
      escapeHtml(selection.q ?? "")
    }">` +
    ` <a href="${linkTo(ui, { all: selection.all === undefined ? "1" : undefined })}">${
      selection.all === undefined ? "show those that changed nothing" : "hide those that changed nothing"
    }</a>${numberOf(ui, "of") === undefined ? "" : ` <a href="${linkTo(ui, { of: undefined })}">all kernels</a>`}` +
    ` <span class="quiet">${shown.length} shown, ${hidden} hidden</span></p>`;
  const detail = at === undefined || passes[at] === undefined
    ? `<p>Nothing was recorded, or nothing is found.</p>`
    : passHtml(ui, at);
  return `${filter}<div class="two"><div class="list" data-keep="passes">${
    windowHtml(shown.length, row, shown.indexOf(at), rows)
  }</div>` +
    `<div class="detail">${detail}</div></div>`;
}

/** One pass: its changes, and the graph, or what one change made. */
export function passHtml(ui: Ui, at: number): string {
  const { nodes, rules } = ui.data, p = ui.data.passes[at], step = numberOf(ui, "change"), { boxes, rows } = limitsOf();
  const title = `<h2>${escapeHtml(p.name)} <small>${escapeHtml(workText(ui, p.of))}, ${
    timeText(p.timeMs)
  }</small></h2>`;
  const row = (i: number): string => {
    const [rule, from, to] = p.changes[i];
    return `<a class="row${i === step ? " on" : ""}" href="${linkTo(ui, { change: String(i) })}"><span class="num">${
      i + 1
    }</span>` +
      `<span>${escapeHtml(rules[rule].name.slice(0, 80))}</span><code>${
        escapeHtml(exprOf(nodes, from, 2).slice(0, 60))
      } → ` +
      `${escapeHtml(exprOf(nodes, to, 2).slice(0, 60))}</code></a>`;
  };
  const changes = p.changes.length === 0
    ? `<p class="quiet">It rewrote by no rule${p.before === p.after ? ", and changed nothing" : ""}.</p>`
    : `<div class="list short" data-keep="changes">${windowHtml(p.changes.length, row, step ?? 0, rows >> 2)}</div>`;
  const change = step === undefined ? undefined : p.changes[step];
  if (change !== undefined) {
    const [rule, from, to] = change, { name, line } = rules[rule];
    const was = below(nodes, [from], 4000) ?? new Set(), is = below(nodes, [to], 4000) ?? new Set();
    const near = new Set([...nearNodes(nodes, [to], 60), ...nearNodes(nodes, [from], 60)]);
    const look = (n: number): string => is.has(n) ? (was.has(n) ? "" : "new") : "old";
    const texts = [from, to].map((n) => treeLines(nodes, [n], 400).map((l) => l.text));
    return `${title}${changes}<h3>change ${step! + 1} of ${p.changes.length}</h3>` +
      `<p><b>${escapeHtml(name)}</b>${line === undefined ? "" : ` <code>${escapeHtml(line)}</code>`}</p>` +
      `<pre class="diff"><div class="old">- ${escapeHtml(exprOf(nodes, from, 6))}</div><div class="new">+ ${
        escapeHtml(exprOf(nodes, to, 6))
      }</div></pre>${graphHtml(ui, graphOfNodes(nodes, near, look))}${diffHtml(diffLines(texts[0], texts[1]))}`;
  }
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
  return `${title}${changes}${graph}<h3>before and after</h3>${diffHtml(diffLines(texts[0], texts[1]))}`;
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

/** A kernel: what it is, its AST, its linear UOps, its source; or how it differs from another. */
export function kernelView(ui: Ui): string {
  const { kernels } = ui.data, { rows } = limitsOf(), at = Math.min(numberOf(ui, "kernel") ?? 0, kernels.length - 1);
  const k = kernels[at];
  if (k === undefined) return `<p>No kernel was recorded.</p>`;
  const list = kernels.map((_, i) =>
    `<a class="row${i === at ? " on" : ""}" href="${linkTo(ui, { kernel: String(i) })}"><span>${
      kernelText(ui, i)
    }</span></a>`
  );
  return `<div class="two"><div class="list" data-keep="kernels">${
    windowHtml(list.length, (i) => list[i], at, rows)
  }</div>` +
    `<div class="detail">${kernelHtml(ui, at)}</div></div>`;
}

/** What is told of one kernel. */
export function kernelHtml(ui: Ui, at: number): string {
  const { data, other } = ui,
    { nodes, notes } = data,
    k = data.kernels[at],
    { count, ms } = ui.runs[at],
    one = ms / count;
  const facts = [
    `<b>${escapeHtml(k.device)}</b>`,
    `${countedText(k.flops, "FLOP")}, ${countedText(k.bytes, "B")}`,
    count === 0
      ? "not run"
      : `${count} launch${count === 1 ? "" : "es"} of ${timeText(one)}: ${
        countedText(k.flops / one * 1e3, "FLOP/s")
      }, ${countedText(k.bytes / one * 1e3, "B/s")}`,
    `opts <code>${escapeHtml(k.opts || "none")}</code>`,
  ];
  const passes = k.work === undefined
    ? ""
    : ` <a href="${
      linkTo(ui, { view: "passes", of: String(k.work), pass: undefined, change: undefined })
    }">its passes</a>`;
  const lines = k.lines.length === 0
    ? ""
    : `<p>computes ${k.lines.map((l) => `<code>${escapeHtml(l)}</code>`).join(" ")}</p>`;
  const why = notes.filter((n) => n.work !== undefined && n.work === k.work);
  const reasons = why.length === 0
    ? ""
    : `<h3>why</h3><ul>${why.map((n) => `<li class="${escapeHtml(n.kind)}">${escapeHtml(n.text)}</li>`).join("")}</ul>`;
  const option = (value: string, text: string): string =>
    `<option value="${value}"${ui.selection.other === value ? " selected" : ""}>${escapeHtml(text)}</option>`;
  const choice = `<label>compare with <select id="other">${option("", "nothing")}${
    data.kernels.map((o, i) => i === at ? "" : option(`a${i}`, o.name)).slice(0, 500).join("")
  }${
    (other?.kernels ?? []).map((o, i) => option(`b${i}`, `${o.name} of ${other!.title}`)).slice(0, 500).join("")
  }</select></label>`;
  const head = `<h2>${escapeHtml(k.name)}</h2><p>${facts.join(" · ")}${passes}</p>${lines}${reasons}<p>${choice}</p>`;
  const m = /^([ab])(\d+)$/.exec(ui.selection.other ?? ""), from = m?.[1] === "b" ? other : data;
  const twin = m === null ? undefined : from?.kernels[Number(m[2])];
  if (twin !== undefined) {
    const asts = [[data, k], [from!, twin]].map(([d, x]) => {
      const { nodes } = d as VizData, { ast } = x as KernelData;
      return ast === undefined ? [] : treeLines(nodes, [ast], 1500).map((l) => l.text);
    });
    return `${head}<h3>opts</h3>${diffHtml(diffLines(twin.opts.split(" "), k.opts.split(" ")))}<h3>AST</h3>${
      diffHtml(diffLines(asts[1], asts[0]))
    }<h3>source</h3>${diffHtml(diffLines(twin.source.split("\n"), k.source.split("\n")))}`;
  }
  const numbers = new Map(k.uops.map((n, i) => [n, i] as const));
  const uops = k.uops.slice(0, 1500).map((n, i) => {
    const { op, dtype, arg, src } = nodes[n];
    const from = src.map((s) => numbers.get(s) ?? nodes[s].arg ?? "?").join(", ");
    return `<div data-n="${n}">${String(i).padStart(4)} ${op.padEnd(10)} ${dtype.padEnd(9)} ${
      escapeHtml(`(${from}) ${arg ?? ""}`)
    }</div>`;
  });
  const cut = k.uops.length > 1500 ? `<div class="quiet">${k.uops.length - 1500} more</div>` : "";
  const shown = k.ast === undefined ? undefined : below(nodes, [k.ast], limitsOf().boxes);
  const tree = k.ast === undefined ? [] : treeLines(nodes, [k.ast], 1500);
  const ast = `<pre>${tree.map((l) => `<div data-n="${l.node}">${escapeHtml(l.text)}</div>`).join("")}</pre>`;
  const graph = shown === undefined
    ? `<p class="quiet">the AST is not there, or larger than what is drawn</p>`
    : graphHtml(ui, graphOfNodes(nodes, shown, () => ""));
  return `${head}<div class="columns"><section><h3>AST</h3>${graph}${ast}</section><section><h3>linear UOps</h3><pre>${
    uops.join("")
  }${cut}</pre></section><section><h3>source <button data-copy="${at}">copy</button></h3><pre class="source">${
    sourceHtml(k.source.slice(0, 200_000))
  }</pre></section></div>`;
}
