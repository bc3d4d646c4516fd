/**
 * Graphs of the page: which part of one is drawn, where its boxes stand, and the picture. In: nodes by number; out: places
 * and SVG. A layered layout: longest path, then two sweeps that order each layer by the middle of its neighbors. As
 * page_text.ts, these functions are in the page as their own text; the layout runs in a worker.
 *
 * @module
 */
import { escapeHtml } from "../../helpers/text.ts";
import type { NodeData } from "../../uop/core/recording.ts";
import { nodeLabel } from "./page_text.ts";

/** A box to be placed. */
export interface GraphBox {
  /** Tells boxes apart; the number of a node, or of a step. */
  readonly id: number;
  /** What stands in it. */
  readonly label: string;
  /** How it is shown: "new", "old", "leaf" or "". */
  readonly look: string;
  /** Where it leads. */
  readonly href?: string;
}

/** Boxes and the edges between them, from users' sources to users. */
export interface GraphSpec {
  readonly boxes: readonly GraphBox[];
  readonly edges: readonly (readonly [from: number, to: number])[];
}

/** Where the boxes stand. */
export interface Placed {
  readonly places: readonly { readonly x: number; readonly y: number; readonly width: number }[];
  readonly width: number;
  readonly height: number;
}

/** Numbers of nodes near `starts`, nearest first: sources, and with `users` also what uses them. At most `limit`. */
export function nearNodes(
  nodes: readonly NodeData[],
  starts: readonly number[],
  limit: number,
  users?: ReadonlyMap<number, readonly number[]>,
): number[] {
  const seen = new Set(starts), order = [...starts];
  for (let i = 0; i < order.length && order.length < limit; i++) {
    for (const next of [...nodes[order[i]].src, ...users?.get(order[i]) ?? []]) {
      if (nodes[next].op === "CONST" || seen.has(next) || order.length >= limit) continue;
      seen.add(next);
      order.push(next);
    }
  }
  return order;
}

/** All nodes below some, constants left out; undefined where there are more than `limit`. */
export function below(nodes: readonly NodeData[], roots: readonly number[], limit: number): Set<number> | undefined {
  const seen = new Set(roots), stack = [...roots];
  while (stack.length > 0) {
    for (const s of nodes[stack.pop()!].src) {
      if (seen.has(s) || nodes[s].op === "CONST") continue;
      if (seen.size >= limit) return undefined;
      seen.add(s);
      stack.push(s);
    }
  }
  return seen;
}

/** A graph of nodes; `look` says how each is shown. */
export function graphOfNodes(
  nodes: readonly NodeData[],
  shown: Iterable<number>,
  look: (n: number) => string,
): GraphSpec {
  const ids = new Set(shown), boxes: GraphBox[] = [], edges: [number, number][] = [];
  for (const id of ids) {
    boxes.push({ id, label: nodeLabel(nodes, id), look: look(id) || (nodes[id].src.length === 0 ? "leaf" : "") });
    for (const s of new Set(nodes[id].src)) if (ids.has(s)) edges.push([s, id]);
  }
  return { boxes, edges };
}

/** Places boxes in layers, each below all that it comes from. */
export function layoutGraph({ boxes, edges }: GraphSpec): Placed {
  const byId = new Map(boxes.map((b, i) => [b.id, i] as const)), n = boxes.length;
  const ins: number[][] = boxes.map(() => []), outs: number[][] = boxes.map(() => []);
  for (const [from, to] of edges) {
    const f = byId.get(from), t = byId.get(to);
    if (f === undefined || t === undefined || f === t) continue;
    ins[t].push(f);
    outs[f].push(t);
  }
  // what stands alone stands below all else, in rows
  const isAlone = (i: number): boolean => ins[i].length === 0 && outs[i].length === 0;
  // longest paths, in the order in which all sources are known
  const layer = new Array<number>(n).fill(0), open = ins.map((list) => list.length);
  const ready = boxes.map((_, i) => i).filter((i) => open[i] === 0);
  for (let k = 0; k < ready.length; k++) {
    for (const t of outs[ready[k]]) {
      layer[t] = Math.max(layer[t], layer[ready[k]] + 1);
      if (--open[t] === 0) ready.push(t);
    }
  }
  const layers: number[][] = [];
  for (let i = 0; i < n; i++) if (!isAlone(i)) (layers[layer[i]] ??= []).push(i);
  const width = boxes.map((b) => 14 + 7 * b.label.length), x = new Array<number>(n).fill(0);
  const place = (list: readonly number[]): void => {
    let right = 0;
    for (const i of list) {
      x[i] = right;
      right += width[i] + 18;
    }
    for (const i of list) x[i] -= right / 2;
  };
  for (const list of layers) place(list ?? []);
  for (let sweep = 0; sweep < 4; sweep++) {
    const down = sweep % 2 === 0;
    for (let k = 0; k < layers.length; k++) {
      const list = layers[down ? k : layers.length - 1 - k] ?? [], of = down ? ins : outs;
      const middle = new Map(list.map((i) => {
        const near = of[i], sum = near.reduce((s, j) => s + x[j] + width[j] / 2, 0);
        return [i, near.length === 0 ? x[i] + width[i] / 2 : sum / near.length] as const;
      }));
      list.sort((a, b) => middle.get(a)! - middle.get(b)!);
      // each as near to its middle as the one before it lets it
      let right = -Infinity;
      const shift: number[] = [];
      for (const i of list) {
        x[i] = Math.max(middle.get(i)! - width[i] / 2, right);
        right = x[i] + width[i] + 18;
        shift.push(x[i] - (middle.get(i)! - width[i] / 2));
      }
      const mean = shift.reduce((s, v) => s + v, 0) / (shift.length || 1);
      for (const i of list) x[i] -= mean;
    }
  }
  let left = Infinity, right = -Infinity;
  for (let i = 0; i < n; i++) {
    if (isAlone(i)) continue;
    left = Math.min(left, x[i]);
    right = Math.max(right, x[i] + width[i]);
  }
  if (!(left < right)) [left, right] = [0, 0];
  const wide = Math.max(right - left, 900);
  let rows = layers.length, at = left;
  for (let i = 0; i < n; i++) {
    if (!isAlone(i)) continue;
    if (at > left && at + width[i] > left + wide) {
      at = left;
      rows++;
    }
    x[i] = at;
    layer[i] = rows;
    at += width[i] + 18;
    right = Math.max(right, x[i] + width[i]);
  }
  if (at > left) rows++;
  const places = boxes.map((_, i) => ({ x: x[i] - left + 8, y: layer[i] * 54 + 8, width: width[i] }));
  return { places, width: n === 0 ? 0 : right - left + 16, height: rows * 54 + 4 };
}

/** The picture. */
export function graphSvg({ boxes, edges }: GraphSpec, { places, width, height }: Placed): string {
  const at = new Map(boxes.map((b, i) => [b.id, i] as const));
  let lines = "", shapes = "";
  for (const [from, to] of edges) {
    const a = places[at.get(from)!], b = places[at.get(to)!];
    const x1 = a.x + a.width / 2, y1 = a.y + 26, x2 = b.x + b.width / 2, y2 = b.y, bend = (y2 - y1) / 2;
    const [p, q, r, s] = [x1, x2, y1 + bend, y2 - bend].map((v) => v.toFixed(1));
    lines += `<path d="M${p} ${y1}C${p} ${r} ${q} ${s} ${q} ${y2}"/>`;
  }
  boxes.forEach(({ id, label, look, href }, i) => {
    const { x, y, width } = places[i], place = `x="${x.toFixed(1)}" y="${y}" width="${width}" height="26" rx="5"`;
    const text = `<text x="${(x + width / 2).toFixed(1)}" y="${y + 17}">${escapeHtml(label)}</text>`;
    const box = `<g class="box ${look}" data-n="${id}"><rect ${place}/>${text}</g>`;
    shapes += href === undefined ? box : `<a href="${escapeHtml(href)}">${box}</a>`;
  });
  const size = `viewBox="0 0 ${width.toFixed(0)} ${height.toFixed(0)}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" class="picture" ${size} data-width="${width.toFixed(0)}">` +
    `<g class="edges">${lines}</g>${shapes}</svg>`;
}
