/**
 * Two recordings compared: which of their kernels compute the same, and in what such twins differ. In: the data of both;
 * out: pairs, rows for scripts, and HTML. As page_text.ts, these functions are in the page as their own text.
 *
 * @module
 */
import { escapeHtml } from "../../helpers/text.ts";
import type { NodeData } from "../../uop/core/recording.ts";
import { linkTo, type Twins, type Ui } from "./page_parts.ts";
import { diffHtml, diffLines, timeText, treeLines } from "./page_text.ts";
import type { KernelData, VizData } from "./viz_data.ts";

/** How often each kernel ran, and for how long. */
export function runsOf({ kernels, events }: VizData): { count: number; ms: number }[] {
  const runs = kernels.map(() => ({ count: 0, ms: 0 }));
  for (const e of events) {
    if (e.kind !== "launch" || e.kernel === undefined) continue;
    runs[e.kernel].count++;
    runs[e.kernel].ms += e.deviceMs ?? e.timeMs;
  }
  return runs;
}

/** What each kernel computes, as a number: equal graphs have the same one, in whichever recording; "" where it is not known. */
export function graphNumbers(data: VizData, numbers: Map<string, number>): (number | string)[] {
  const { nodes } = data, known = new Map<number, number>();
  return data.kernels.map(({ ast }) => {
    if (ast === undefined) return "";
    const stack = [ast];
    while (stack.length > 0) {
      const n = stack[stack.length - 1], { op, dtype, arg, src }: NodeData = nodes[n];
      const missing = known.has(n) ? [] : src.filter((s) => !known.has(s));
      if (missing.length > 0) {
        stack.push(...missing);
        continue;
      }
      stack.pop();
      if (known.has(n)) continue;
      const key = `${op} ${dtype} ${arg} ${src.map((s) => known.get(s)).join()}`;
      if (!numbers.has(key)) numbers.set(key, numbers.size);
      known.set(n, numbers.get(key)!);
    }
    return known.get(ast)!;
  });
}

/** Kernels of both by what they compute, then by name, each on its device, equal ones in order. */
export function twinsOf(data: VizData, other: VizData): Twins {
  const numbers = new Map<string, number>(), here = graphNumbers(data, numbers), there = graphNumbers(other, numbers);
  const of: (number | undefined)[] = data.kernels.map(() => undefined), taken = new Set<number>();
  const match = (key: (k: KernelData, graph: number | string) => string | undefined): void => {
    const rest = new Map<string, number[]>();
    other.kernels.forEach((k, j) => {
      const name = taken.has(j) ? undefined : key(k, there[j]);
      if (name !== undefined) rest.set(name, [...rest.get(name) ?? [], j]);
    });
    data.kernels.forEach((k, i) => {
      const name = of[i] === undefined ? key(k, here[i]) : undefined;
      const j = name === undefined ? undefined : rest.get(name)?.shift();
      if (j === undefined) return;
      of[i] = j;
      taken.add(j);
    });
  };
  match((k, graph) => graph === "" ? undefined : `${k.device} ${graph} ${k.opts}`);
  match((k, graph) => graph === "" ? undefined : `${k.device} ${graph}`);
  match((k) => `${k.device} ${k.name}`);
  const differ = data.kernels.map((k, i) => {
    const j = of[i], out: string[] = [];
    if (j === undefined) return out;
    const twin = other.kernels[j];
    if (here[i] !== there[j]) out.push("AST");
    if (k.opts !== twin.opts) out.push("opts");
    if (k.source !== twin.source) out.push("source");
    return out;
  });
  return { of, left: other.kernels.map((_, j) => j).filter((j) => !taken.has(j)), differ };
}

/** Milliseconds of a launch; undefined where it did not run. */
export function launchMs(
  runs: readonly { readonly count: number; readonly ms: number }[],
  at: number,
): number | undefined {
  const { count, ms } = runs[at];
  return count === 0 ? undefined : ms / count;
}

/** What each pass of a kernel did, a line each: its name, and how often it used which rule. */
export function passLines({ passes, rules }: VizData, work: number | undefined): string[] {
  if (work === undefined) return [];
  return passes.filter((p) => p.of === work && (p.changes.length > 0 || p.before !== p.after)).map((p) => {
    const counts = new Map<string, number>();
    for (const [rule] of p.changes) counts.set(rules[rule].name, (counts.get(rules[rule].name) ?? 0) + 1);
    return `${p.name}: ${[...counts].map(([name, n]) => `${n} × ${name}`).join(", ") || "rewritten"}`;
  });
}

/** How one kernel differs from another: opts, AST, what their passes did, source; and how long a launch takes. */
export function comparedHtml(
  from: VizData,
  twin: KernelData,
  data: VizData,
  kernel: KernelData,
  ms: readonly (number | undefined)[],
): string {
  const tree = ({ nodes }: VizData, { ast }: KernelData): string[] =>
    ast === undefined ? [] : treeLines(nodes, [ast], 1500).map((l) => l.text);
  const parts: readonly (readonly [title: string, was: string[], is: string[]])[] = [
    ["opts", twin.opts.split(" "), kernel.opts.split(" ")],
    ["AST", tree(from, twin), tree(data, kernel)],
    ["passes", passLines(from, twin.work), passLines(data, kernel.work)],
    ["source", twin.source.split("\n"), kernel.source.split("\n")],
  ];
  const [was, is] = ms.map((t) => t === undefined ? "not run" : timeText(t));
  return `<p>A launch takes ${is}; that of ${escapeHtml(twin.name)} ${was}.</p>` +
    parts.map(([title, a, b]) => `<h3>${title}</h3>${diffHtml(diffLines(a, b))}`).join("");
}

/** What differs between both recordings: how many kernels, and a link to each comparison. */
export function differencesHtml(ui: Ui): string {
  const { data, other, twins } = ui;
  if (other === undefined || twins === undefined) return "";
  const { of, left, differ } = twins, at = data.kernels.map((_, i) => i);
  const changed = at.filter((i) => differ[i].length > 0), news = at.filter((i) => of[i] === undefined);
  const same = at.length - changed.length - news.length, title = escapeHtml(other.title);
  const link = (i: number, text: string, twin: number | undefined): string =>
    `<a href="${linkTo(ui, { kernel: String(i), other: twin === undefined ? undefined : `b${twin}` })}">${
      escapeHtml(data.kernels[i].name)
    }</a> <small>${escapeHtml(text)}</small>`;
  const list = (head: string, items: readonly string[]): string =>
    items.length === 0
      ? ""
      : `<div>${head}: ${items.slice(0, 100).join(" · ")}${items.length > 100 ? " · …" : ""}</div>`;
  return `<div class="compared"><p>Beside ${title}: ${same} kernels are the same, ${changed.length} differ, ${news.length} are here alone, ` +
    `${left.length} there alone.</p>` +
    list("differ", changed.map((i) => link(i, differ[i].join(", "), of[i]))) +
    list("here alone", news.map((i) => link(i, data.kernels[i].device, undefined))) +
    list("there alone", left.map((j) => escapeHtml(other.kernels[j].name))) + `</div>`;
}

/** The same as rows, one a kernel that differs or is in one recording alone. */
export function differenceRows(data: VizData, other: VizData): object[] {
  const { of, left, differ } = twinsOf(data, other), runs = [runsOf(data), runsOf(other)], rows: object[] = [];
  data.kernels.forEach(({ name, device, opts }, i) => {
    const j = of[i], timeMs = launchMs(runs[0], i);
    if (j === undefined) rows.push({ kernel: i, name, device, differ: ["here alone"], opts, timeMs });
    else if (differ[i].length > 0) {
      const twin = other.kernels[j], was = { name: twin.name, opts: twin.opts, timeMs: launchMs(runs[1], j) };
      rows.push({ kernel: i, name, device, differ: differ[i], opts, timeMs, other: j, was });
    }
  });
  for (const j of left) {
    const { name, device, opts } = other.kernels[j];
    rows.push({ other: j, name, device, differ: ["there alone"], opts, timeMs: launchMs(runs[1], j) });
  }
  return rows;
}
