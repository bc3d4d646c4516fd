/** Random graphs, as a recording has them. @module */
import type { NodeData } from "../../../src/uop/core/recording.ts";
import { Random } from "../../support/random.ts";

/** A graph of `n` nodes with up to three sources each. */
export function graph(n: number, seed: number): NodeData[] {
  const random = new Random(seed);
  return Array.from({ length: n }, (_, i) => ({
    op: i % 7 === 3 ? "CONST" : "ADD",
    dtype: "int32",
    src: i === 0 ? [] : Array.from({ length: 1 + random.below(3) }, () => random.below(i)),
  }));
}
