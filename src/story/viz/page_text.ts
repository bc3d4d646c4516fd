/**
 * Text of the page: nodes as expressions and trees, lines compared, source in colors, numbers with units. In: plain data;
 * out: text, or HTML where the name says so. The page has these functions as their own text (page.ts), so that each refers
 * to nothing but the others and what every browser has.
 *
 * @module
 */
import { escapeHtml } from "../../helpers/text.ts";
import type { NodeData } from "../../uop/core/recording.ts";

/** Milliseconds in the unit that suits them. */
export function timeText(ms: number): string {
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms >= 1) return `${ms.toFixed(ms >= 100 ? 0 : 2)} ms`;
  return `${(ms * 1000).toFixed(ms >= 0.01 ? 0 : 1)} µs`;
}

/** A count in the unit that suits it: 1.5 MB, 3.2 GFLOP. */
export function countedText(n: number, unit: string): string {
  const scale = ["", "k", "M", "G", "T"], at = n <= 0 ? 0 : Math.min(4, Math.max(0, Math.floor(Math.log10(n) / 3)));
  const x = n / 1000 ** at;
  return `${at === 0 ? String(n) : x.toFixed(x >= 100 ? 0 : x >= 10 ? 1 : 2)} ${scale[at]}${unit}`;
}

/** What stands in a node's box: the op, its argument, and the sources that are constants. */
export function nodeLabel(nodes: readonly NodeData[], n: number): string {
  const { op, arg, src } = nodes[n];
  const constants = src.filter((s) => nodes[s].op === "CONST").map((s) => nodes[s].arg ?? "0");
  const text = [op, arg, ...constants].filter((x) => x !== undefined && x !== "").join(" ");
  return text.length > 42 ? `${text.slice(0, 41)}…` : text;
}

/** A node as one line: infix for arithmetic, calls for the rest; deeper ones as "…". */
export function exprOf(nodes: readonly NodeData[], n: number, depth: number): string {
  const { op, arg, src, dtype } = nodes[n];
  if (op === "CONST") return arg ?? "0";
  if (op === "RANGE" || op === "VARIABLE" || op === "SPECIAL" || op === "PARAM") return arg ?? op;
  if (depth <= 0) return "…";
  const of = src.slice(0, 8).map((s) => exprOf(nodes, s, depth - 1));
  if (src.length > 8) of.push(`${src.length - 8} more`);
  const infix = ({
    ADD: "+",
    SUB: "-",
    MUL: "*",
    FDIV: "/",
    FLOORDIV: "//",
    FLOORMOD: "%",
    CMPLT: "<",
    CMPNE: "!=",
    CMPEQ: "==",
    AND: "&",
    OR: "|",
    XOR: "^",
    SHL: "<<",
    SHR: ">>",
  } as Record<string, string | undefined>)[op];
  if (infix !== undefined && of.length === 2) return `(${of[0]} ${infix} ${of[1]})`;
  if (op === "WHERE") return `(${of[0]} ? ${of[1]} : ${of[2]})`;
  if (op === "CAST" || op === "BITCAST") of.push(dtype);
  else if (arg !== undefined) of.push(arg);
  return `${op.toLowerCase()}(${of.join(", ")})`;
}

/** The graph below a node as an indented tree; what was there before is named by its number. At most `limit` lines. */
export function treeLines(
  nodes: readonly NodeData[],
  roots: readonly number[],
  limit: number,
): { readonly node: number; readonly text: string }[] {
  const out: { node: number; text: string }[] = [], seen = new Set<number>();
  const stack = roots.map((node) => ({ node, depth: 0 })).reverse();
  while (stack.length > 0 && out.length < limit) {
    const { node, depth } = stack.pop()!, { op, dtype, arg, src } = nodes[node];
    const indent = "  ".repeat(Math.min(depth, 40)), again = seen.has(node) && src.length > 0;
    const text = `${indent}${op}${arg === undefined ? "" : ` ${arg}`} ${dtype}${again ? " …as above" : ""}`;
    out.push({ node, text });
    if (again) continue;
    seen.add(node);
    for (let i = src.length - 1; i >= 0; i--) stack.push({ node: src[i], depth: depth + 1 });
  }
  if (stack.length > 0) out.push({ node: -1, text: `… more than ${limit} lines` });
  return out;
}

/** Two texts by lines: what both have (" "), what only the first has ("-"), and only the second ("+"). */
export function diffLines(
  a: readonly string[],
  b: readonly string[],
): { readonly sign: string; readonly text: string }[] {
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail), w = y.length + 1;
  const out = a.slice(0, head).map((text) => ({ sign: " ", text }));
  if (x.length * y.length > 4e6) {
    // too long to compare line by line
    out.push(...x.map((text) => ({ sign: "-", text })), ...y.map((text) => ({ sign: "+", text })));
  } else {
    // lengths of longest common subsequences of the rests
    const common = new Uint32Array((x.length + 1) * w);
    for (let i = x.length - 1; i >= 0; i--) {
      for (let j = y.length - 1; j >= 0; j--) {
        common[i * w + j] = x[i] === y[j]
          ? common[(i + 1) * w + j + 1] + 1
          : Math.max(common[(i + 1) * w + j], common[i * w + j + 1]);
      }
    }
    let i = 0, j = 0;
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) {
        out.push({ sign: " ", text: x[i] });
        i++;
        j++;
      } else if (j >= y.length || (i < x.length && common[(i + 1) * w + j] >= common[i * w + j + 1])) {
        out.push({ sign: "-", text: x[i++] });
      } else out.push({ sign: "+", text: y[j++] });
    }
  }
  return [...out, ...a.slice(a.length - tail).map((text) => ({ sign: " ", text }))];
}

/** A comparison as HTML; what both have only near what differs. */
export function diffHtml(lines: readonly { readonly sign: string; readonly text: string }[]): string {
  const near = new Set<number>();
  lines.forEach((l, i) => {
    if (l.sign !== " ") { for (let k = -3; k <= 3; k++) near.add(i + k); }
  });
  if (near.size === 0) return `<p class="quiet">no difference</p>`;
  let html = "", kind: string | undefined;
  lines.forEach(({ sign, text }, i) => {
    // lines that look alike are one element: a browser makes few of them much faster than many
    const now = !near.has(i) ? "quiet" : sign === "+" ? "new" : sign === "-" ? "old" : "";
    if (now === kind) {
      if (now !== "quiet") html += `\n${sign} ${escapeHtml(text)}`;
      return;
    }
    html += `${kind === undefined ? "" : "</div>"}<div class="${now}">${
      now === "quiet" ? "  ⋯" : `${sign} ${escapeHtml(text)}`
    }`;
    kind = now;
  });
  return `<pre class="diff">${html}</div></pre>`;
}

/** Source of C, WGSL, PTX, WebAssembly text or JavaScript in colors, as HTML: these share comments, texts, numbers and words. */
export function sourceHtml(text: string): string {
  const token =
    /(\/\*[\s\S]*?\*\/|\/\/[^\n]*|;;[^\n]*)|("(?:[^"\\\n]|\\.)*")|(\b\d[\w.]*(?:[+-]\d+)?)|(@\w+|#\w+|\.\w+|\b(?:void|float|double|int|unsigned|long|char|short|const|static|if|else|for|while|return|let|var|fn|struct|inline|restrict|half|bool|func|param|local|global|i32|i64|f32|f64|u32|f16|v128|__global__|__shared__|__device__|extern)\b)/g;
  let html = "", at = 0;
  for (const m of text.matchAll(token)) {
    html += escapeHtml(text.slice(at, m.index));
    const kind = m[1] !== undefined ? "comment" : m[2] !== undefined ? "text" : m[3] !== undefined ? "number" : "word";
    html += `<i class="${kind}">${escapeHtml(m[0])}</i>`;
    at = m.index + m[0].length;
  }
  return html + escapeHtml(text.slice(at));
}
