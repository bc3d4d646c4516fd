/**
 * A recording on its way to the page: the same nodes, passes and kernels come in it again and again, so that columns of
 * differences take a third of what JSON of records takes when both are compressed. In: the data; out: what page_data.ts
 * reads, and its bytes.
 *
 * @module
 */
import type { NodeData, PassData } from "../../uop/core/recording.ts";
import type { PackedData, PackedNodes, PackedPasses, PackedTexts } from "./page_data.ts";
import type { VizData } from "./viz_data.ts";

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Integers as text. */
function numberText(list: readonly number[]): string {
  const out: string[] = [];
  for (const n of list) {
    let left = n < 0 ? -2 * n + 1 : 2 * n;
    for (; left >= 32; left = Math.floor(left / 32)) out.push(DIGITS[32 + left % 32]);
    out.push(DIGITS[left]);
  }
  return out.join("");
}

/** Each less the one before. */
function differences(list: readonly number[]): number[] {
  return list.map((n, i) => i === 0 ? n : n - list[i - 1]);
}

function packTexts(rows: readonly (string | undefined)[]): PackedTexts {
  const numbers = new Map<string, number>();
  const at = rows.map((text) => {
    if (text === undefined) return 0;
    if (!numbers.has(text)) numbers.set(text, numbers.size + 1);
    return numbers.get(text)!;
  });
  return { texts: [...numbers.keys()], at: numberText(at) };
}

function packNodes(nodes: readonly NodeData[]): PackedNodes {
  const columns: number[][] = [[], [], [], []], last = new Map<string, readonly number[]>();
  nodes.forEach(({ op, src }, i) => {
    const key = `${op} ${src.length}`, before = last.get(key) ?? [], far = src.map((s) => i - s);
    last.set(key, far);
    far.forEach((n, k) => columns[Math.min(k, columns.length - 1)].push(n - (before[k] ?? 0)));
  });
  return {
    op: packTexts(nodes.map((n) => n.op)),
    dtype: packTexts(nodes.map((n) => n.dtype)),
    arg: packTexts(nodes.map((n) => n.arg)),
    line: packTexts(nodes.map((n) => n.line)),
    counts: numberText(nodes.map((n) => n.src.length)),
    src: columns.map(numberText),
  };
}

function packPasses(passes: readonly PassData[]): PackedPasses {
  const changes = passes.flatMap((p) => p.changes), us = (ms: number): number => Math.round(ms * 1000);
  return {
    name: packTexts(passes.map((p) => p.name)),
    depth: numberText(passes.map((p) => p.depth)),
    of: numberText(passes.map((p) => p.of === undefined ? 0 : p.of + 1)),
    start: numberText(differences(passes.map((p) => us(p.startMs)))),
    time: numberText(passes.map((p) => us(p.timeMs))),
    before: numberText(passes.map((p, i) => p.before - (passes[i - 1]?.after ?? 0))),
    after: numberText(passes.map((p) => p.after - p.before)),
    counts: numberText(passes.map((p) => p.changes.length)),
    rule: numberText(changes.map((c) => c[0])),
    from: numberText(differences(changes.map((c) => c[1]))),
    to: numberText(differences(changes.map((c) => c[2]))),
  };
}

/** Data as the page reads it; times of passes in whole microseconds. */
export function packData(data: VizData): PackedData {
  const { nodes, passes, kernels, ...rest } = data;
  return {
    ...rest,
    nodes: packNodes(nodes),
    passes: packPasses(passes),
    kernels: kernels.map((k) => ({ ...k, uops: numberText(differences(k.uops)) })),
  };
}

/** Data as bytes for the page. */
export async function pack(data: VizData | undefined): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([packedText(data)]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The text of these bytes, before they are compressed. */
export function packedText(data: VizData | undefined): string {
  return JSON.stringify(data === undefined ? null : packData(data));
}
