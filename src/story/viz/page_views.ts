/**
 * Views of the page: the program's lines, the schedule, a kernel. In: the data and the selection; out: a frame and its
 * parts, and the graphs that are to be drawn in them. As page_text.ts, these functions are in the page as their own text.
 *
 * @module
 */
import { escapeHtml } from "../../helpers/text.ts";
import { comparedHtml, differencesHtml, launchMs, runsOf } from "./page_compare.ts";
import { below, graphOfNodes, type GraphSpec } from "./page_graph.ts";
import { graphHtml, limitsOf, linkTo, numberOf, type Ui, type View, windowHtml, windowStart } from "./page_parts.ts";
import { countedText, sourceHtml, timeText, treeLines } from "./page_text.ts";

/** A kernel's name with what it took. */
export function kernelText(ui: Ui, k: number): string {
  const { name } = ui.data.kernels[k], { count, ms } = ui.runs[k];
  return `${escapeHtml(name)}${
    count === 0 ? "" : ` <small>${count > 1 ? `${count} × ` : ""}${timeText(ms / count)}</small>`
  }`;
}

/** The program: its lines. */
export function programView(ui: Ui): View {
  const key = linkTo(ui, { view: "kernel", kernel: undefined });
  return { frame: `<div data-part="lines"></div>`, parts: [{ name: "lines", key, html: () => programHtml(ui) }] };
}

/** Kernels as links, equal names once with how many there are. */
export function kernelLinks(ui: Ui, list: readonly number[]): string {
  const byName = new Map<string, number[]>();
  for (const k of list) {
    const { name } = ui.data.kernels[k];
    byName.set(name, [...byName.get(name) ?? [], k]);
  }
  return [...byName].map(([name, of]) => {
    const many = of.length > 1 ? `${of.length} × ` : "";
    return `<a href="${linkTo(ui, { view: "kernel", kernel: String(of[0]) })}">${many}${escapeHtml(name)}</a>`;
  }).join(" ");
}

/** The lines of the program as a tree of calls, each with the kernels that compute it. */
export function programHtml(ui: Ui): string {
  const { kernels, places } = ui.data,
    own: number[][] = places.map(() => []),
    all = places.map(() => new Set<number>());
  const below: number[][] = places.map(() => []), tops: number[] = [], lost: number[] = [];
  places.forEach(({ parent }, i) => (parent === undefined ? tops : below[parent]).push(i));
  kernels.forEach((k, i) => {
    if (k.places.length === 0) lost.push(i);
    for (const p of k.places) {
      own[p].push(i);
      for (let at: number | undefined = p; at !== undefined; at = places[at].parent) all[at].add(i);
    }
  });
  const total = ui.runs.reduce((sum, r) => sum + r.ms, 0) || 1;
  const row = (depth: number, head: string, list: readonly number[], of: Iterable<number>): string => {
    const ms = [...of].reduce((s, k) => s + ui.runs[k].ms, 0);
    return `<tr><td style="padding-left:${8 + 18 * Math.min(depth, 12)}px">${head}${
      list.length === 0 ? "" : `<div class="of">${kernelLinks(ui, list)}</div>`
    }</td><td class="num">${ms > 0 ? timeText(ms) : ""}</td><td><span class="bar" style="width:${
      (100 * ms / total).toFixed(1)
    }px"></span></td></tr>`;
  };
  const lineOf = (line: string): number => Number(/:(\d+)$/.exec(line)?.[1] ?? 0);
  const fileOf = (line: string): string => line.replace(/:\d+$/, "");
  const rows = (list: readonly number[], depth: number): string => {
    const files = [...new Set(list.map((p) => fileOf(places[p].line)))];
    return [...list].sort((a, b) =>
      files.indexOf(fileOf(places[a].line)) - files.indexOf(fileOf(places[b].line)) ||
      lineOf(places[a].line) - lineOf(places[b].line)
    ).map((p) => {
      const { call, line, text } = places[p];
      const head = `<span class="quiet">${call === "" ? "" : `${escapeHtml(call)}, `}${escapeHtml(line)}</span> <code>${
        escapeHtml(text)
      }</code>`;
      return row(depth, head, own[p], all[p]) + rows(below[p], depth + 1);
    }).join("");
  };
  const rest = lost.length === 0 ? "" : row(0, `<span class="quiet">of no line of the program</span>`, lost, lost);
  const html = rows(tops, 0) + rest;
  const note = "A kernel that computes several lines is listed, with its time, at each of them.";
  return html === ""
    ? `<p>No kernel was recorded.</p>`
    : `<table class="wide tree"><thead><tr><th>line, and the kernels that compute it</th><th class="num">time</th><th></th></tr></thead>${html}</table><p class="quiet">${note}</p>`;
}

/** A schedule: its steps in order, buffers as edges, and below where intermediates lie. */
export function scheduleView(ui: Ui): View {
  const { schedules } = ui.data, at = numberOf(ui, "schedule") ?? 0, s = schedules[at];
  if (s === undefined) return { frame: `<p>No schedule was recorded.</p>`, parts: [] };
  const { boxes, rows } = limitsOf(), chosen = Math.min(numberOf(ui, "step") ?? 0, s.steps.length - 1);
  const tabs = (): string =>
    schedules.slice(0, rows).map((o, i) => {
      const text = `${i + 1}: ${o.steps.length} step${o.steps.length === 1 ? "" : "s"}${
        o.uses > 1 ? ` × ${o.uses}` : ""
      }`;
      const to = linkTo(ui, { schedule: String(i), step: undefined });
      return `<a class="tab${i === at ? " on" : ""}" href="${to}">${text}</a>`;
    }).join("");
  const cut = s.steps.length > boxes
    ? `<p class="quiet">${s.steps.length} steps: the ${boxes} around the selected one are drawn.</p>`
    : "";
  const links = `${at} ${linkTo(ui, { step: undefined })}`, from = windowStart(s.steps.length, chosen, rows);
  const list = (): string => windowHtml(s.steps.length, (i) => stepHtml(ui, at, i), from, rows);
  const key = `${from} ${links}`, place = 100 * (chosen + 0.5) / s.steps.length;
  return {
    frame: `<nav class="tabs" data-part="tabs"></nav><div data-part="size"></div>` +
      `<div class="two"><div class="list" data-part="list" data-list></div><div><div data-part="graph"></div>` +
      `<h3 data-part="memory title"></h3><div class="memory" data-part="memory"></div><div class="here" data-part="here"></div></div></div>`,
    parts: [
      { name: "tabs", key: links, html: tabs },
      { name: "size", key: links, html: () => `<p>From a graph of ${s.nodes} nodes.</p>${cut}` },
      { name: "list", key, html: list, on: chosen },
      { name: "graph", key, html: () => graphHtml(ui, stepsGraph(ui, at, from)), on: chosen },
      { name: "memory title", key: String(at), html: () => memoryTitle(ui, at) },
      { name: "memory", key: String(at), html: () => memoryHtml(ui, at) },
      { name: "here", key: `${at} ${place}`, html: () => `<div style="margin-left:${place.toFixed(2)}%"></div>` },
    ],
  };
}

/** What a step is called. */
export function stepLabel(ui: Ui, schedule: number, i: number): string {
  const { steps, buffers: all } = ui.data.schedules[schedule], { kind, kernel, buffers } = steps[i];
  return kernel !== undefined
    ? ui.data.kernels[kernel].name
    : `${kind} ${countedText(all[buffers[0]]?.nbytes ?? 0, "B")}`;
}

/** A row of the list of steps. */
export function stepHtml(ui: Ui, schedule: number, i: number): string {
  const { kernel, buffers, writes, device, lines } = ui.data.schedules[schedule].steps[i];
  const name = kernel === undefined
    ? escapeHtml(stepLabel(ui, schedule, i))
    : `<a href="${linkTo(ui, { view: "kernel", kernel: String(kernel) })}">${kernelText(ui, kernel)}</a>`;
  const moved = buffers.map((b) => `${writes.includes(b) ? "→" : ""}${b}`).join(" ");
  return `<div class="row" data-row="${i}"><a class="num" href="${linkTo(ui, { step: String(i) })}">${i}</a>` +
    `<span>${name}</span><span class="quiet">${escapeHtml(device)} · buffers ${moved}` +
    `${lines.length === 0 ? "" : ` · ${escapeHtml(lines[lines.length - 1])}`}</span></div>`;
}

/** The steps from `from` on that are drawn. */
export function stepsGraph(ui: Ui, schedule: number, from: number): GraphSpec {
  const { steps } = ui.data.schedules[schedule], { boxes: limit } = limitsOf();
  const all = ui.runs.reduce((sum, r) => sum + r.ms, 0),
    writer = new Map<number, number>(),
    edges: [number, number][] = [];
  steps.forEach(({ buffers, writes }, i) => {
    for (const b of new Set(buffers)) {
      const w = writer.get(b);
      if (w !== undefined && w !== i && w >= from && i >= from && i < from + limit) edges.push([w, i]);
    }
    for (const b of writes) writer.set(b, i);
  });
  const boxes = steps.slice(from, from + limit).map(({ kernel }, k) => ({
    id: from + k,
    label: stepLabel(ui, schedule, from + k).slice(0, 42),
    look: kernel !== undefined && ui.runs[kernel].ms > all / 10 ? "hot" : "",
    href: linkTo(ui, { step: String(from + k) }),
  }));
  return { boxes, edges };
}

/** How much memory intermediates take. */
export function memoryTitle(ui: Ui, at: number): string {
  const total = ui.data.schedules[at].blocks.reduce((n, b) => n + b, 0);
  return total === 0 ? "No intermediates" : `Memory of intermediates: ${countedText(total, "B")}`;
}

/** Where the intermediates of a schedule lie: steps to the right, bytes down. */
export function memoryHtml(ui: Ui, at: number): string {
  const { buffers, steps, blocks } = ui.data.schedules[at], total = blocks.reduce((n, b) => n + b, 0);
  if (total === 0) return "";
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
  return `<svg viewBox="0 0 640 ${high}" preserveAspectRatio="none">${shapes}</svg>`;
}

/** A kernel: what it is, its AST, its linear UOps, its source; or how it differs from another. */
export function kernelView(ui: Ui): View {
  const { kernels } = ui.data, { rows } = limitsOf(), at = Math.min(numberOf(ui, "kernel") ?? 0, kernels.length - 1);
  if (kernels.length === 0) return { frame: `<p>No kernel was recorded.</p>`, parts: [] };
  const row = (i: number): string =>
    `<a class="row" data-row="${i}" href="${linkTo(ui, { kernel: String(i), other: undefined })}"><span>${
      kernelText(ui, i)
    }</span>${markOf(ui, i)}</a>`;
  const from = windowStart(kernels.length, at, rows), key = `${from} ${linkTo(ui, { kernel: undefined })}`;
  return {
    frame: `<div data-part="compared"></div><div class="two"><div class="list" data-part="list" data-list></div>` +
      `<div class="detail" data-part="detail"></div></div>`,
    parts: [
      { name: "compared", key: linkTo(ui, { kernel: undefined, other: undefined }), html: () => differencesHtml(ui) },
      { name: "list", key, html: () => windowHtml(kernels.length, row, from, rows), on: at },
      { name: "detail", key: linkTo(ui, {}), html: () => kernelHtml(ui, at) },
    ],
  };
}

/** How a kernel's row says that it is another one than in the other recording. */
export function markOf({ twins }: Ui, i: number): string {
  if (twins === undefined) return "";
  const text = twins.of[i] === undefined ? "here alone" : twins.differ[i].join(", ");
  return text === "" ? "" : `<small class="mark">${text}</small>`;
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
  const lines = k.places.length === 0
    ? ""
    : `<h3>computes</h3>${
      k.places.map((p) => data.places[p]).map(({ line, text }) =>
        `<div><span class="quiet">${escapeHtml(line)}</span> <code>${escapeHtml(text)}</code></div>`
      ).join("")
    }`;
  const why = notes.filter((n) => n.work !== undefined && n.work === k.work);
  const reasons = why.length === 0
    ? ""
    : `<h3>why</h3><ul>${why.map((n) => `<li class="${escapeHtml(n.kind)}">${escapeHtml(n.text)}</li>`).join("")}</ul>`;
  const option = (value: string, text: string): string =>
    `<option value="${value}"${ui.selection.other === value ? " selected" : ""}>${escapeHtml(text)}</option>`;
  const twinAt = ui.twins?.of[at], what = ui.twins?.differ[at] ?? [];
  const beside = other === undefined
    ? ""
    : `<p>In ${escapeHtml(other.title)}: ${
      twinAt === undefined
        ? "no kernel like it"
        : `<a href="${linkTo(ui, { other: `b${twinAt}` })}">${escapeHtml(other.kernels[twinAt].name)}</a>, ${
          what.length === 0 ? "the same" : `another ${what.join(", ")}`
        }`
    }.</p>`;
  const choice = `<label>compare with <select id="other">${option("", "nothing")}${
    data.kernels.map((o, i) => i === at ? "" : option(`a${i}`, o.name)).slice(0, 500).join("")
  }${
    (other?.kernels ?? []).map((o, i) => option(`b${i}`, `${o.name} of ${other!.title}`)).slice(0, 500).join("")
  }</select></label>`;
  const head = `<h2>${escapeHtml(k.name)}</h2><p>${
    facts.join(" · ")
  }${passes}</p>${beside}${lines}${reasons}<p>${choice}</p>`;
  const m = /^([ab])(\d+)$/.exec(ui.selection.other ?? ""), from = m?.[1] === "b" ? other : data;
  const twin = m === null ? undefined : from?.kernels[Number(m[2])];
  if (twin !== undefined) {
    const ms = [launchMs(from === data ? ui.runs : runsOf(from!), Number(m![2])), launchMs(ui.runs, at)];
    return head + comparedHtml(from!, twin, data, k, ms);
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
