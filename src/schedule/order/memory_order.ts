/**
 * Order of kernels for little memory: of the orders that the dependencies allow, one that keeps less alive at a time than
 * the order of the graph. Found from the end: what was placed last needs its inputs alive, so the next one placed (the one
 * before, in time) is that which adds least to them. So a gradient of a weight runs as soon as it can free the activation
 * it reads, and what a checkpoint computes again runs when it is needed and not before.
 *
 * @module
 */
import { byteText } from "../../helpers/errors.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import { note } from "../../uop/rewrite/record.ts";
import { entryOfKey, type Node, ordered, predecessors, versionKey } from "./kernel_graph.ts";

/** Kernels beyond which the order is left: the search looks at all that are ready, each time. */
const MOST = 4096;
/** A new order must save this share of the peak. */
const LEAST_GAIN = 0.02;

/** What each node makes and reads of intermediates. */
interface Uses {
  readonly made: number[];
  readonly used: number[];
}

function usesOf(nodes: readonly Node[], bytesOf: (entry: number) => number): Uses[] {
  return nodes.map((n) => {
    const made: number[] = [], used: number[] = [];
    const use = (e: number): void => {
      if (!used.includes(e)) used.push(e);
    };
    for (let k = 0; k < n.writes.length; k++) {
      const w = n.writes[k], e = entryOfKey(w);
      if (bytesOf(e) === 0) continue;
      use(e);
      if (w === versionKey(e, 1)) made.push(e);
    }
    n.reads.forEach((r) => bytesOf(entryOfKey(r)) > 0 && use(entryOfKey(r)));
    return { made, used };
  });
}

/** Numbers of entries are less than this. */
function entriesOf(uses: readonly Uses[]): number {
  return 1 + uses.reduce((n, { used }) => Math.max(n, ...used), 0);
}

/** The most bytes of intermediates that are alive at a time when nodes run in this order. */
function peakOf(order: readonly number[], uses: readonly Uses[], bytesOf: (entry: number) => number): number {
  const last = new Int32Array(entriesOf(uses));
  for (let at = 0; at < order.length; at++) {
    const { used } = uses[order[at]];
    for (let k = 0; k < used.length; k++) last[used[k]] = at;
  }
  let live = 0, peak = 0;
  for (let at = 0; at < order.length; at++) {
    const { made, used } = uses[order[at]];
    for (let k = 0; k < made.length; k++) live += bytesOf(made[k]);
    peak = Math.max(peak, live);
    for (let k = 0; k < used.length; k++) if (last[used[k]] === at) live -= bytesOf(used[k]);
  }
  return peak;
}

/**
 * `nodes`, which are in a legal order, in one that needs less memory where one is found. `bytesOf` an entry: 0 where it
 * lives on anyway. Deterministic.
 */
export function orderForMemory(nodes: readonly Node[], bytesOf: (entry: number) => number): readonly Node[] {
  if (nodes.length < 3 || nodes.length > MOST) return nodes;
  const uses = usesOf(nodes, bytesOf), before = predecessors(nodes);
  const plain = nodes.map((_, i) => i);
  const most = peakOf(plain, uses, bytesOf);
  if (most === 0) return nodes;
  const isLive = new Uint8Array(entriesOf(uses));
  const cost = (i: number): number => {
    const { used, made } = uses[i];
    let c = 0;
    for (let k = 0; k < used.length; k++) if (isLive[used[k]] === 0) c += bytesOf(used[k]);
    for (let k = 0; k < made.length; k++) c -= bytesOf(made[k]);
    return c;
  };
  const reversed = ordered(before, (ready) => {
    let best = 0, least = Infinity;
    for (let k = 0; k < ready.length; k++) {
      const c = cost(ready[k]);
      if (c < least || (c === least && ready[k] > ready[best])) {
        best = k;
        least = c;
      }
    }
    const { used, made } = uses[ready[best]];
    for (let k = 0; k < used.length; k++) isLive[used[k]] = 1;
    for (let k = 0; k < made.length; k++) isLive[made[k]] = 0;
    return best;
  });
  const order = reversed.reverse();
  const least = peakOf(order, uses, bytesOf);
  if (least > most * (1 - LEAST_GAIN)) return nodes;
  const root = wantsNotes() ? nodes.find((n) => n.roots.length > 0)?.roots[0] : undefined;
  if (root !== undefined) {
    const text = `kernels run in another order, for ${byteText(least)} of intermediates at once, not ${byteText(most)}`;
    note("passed", root, text, { least, most });
  }
  return order.map((i) => nodes[i]);
}
