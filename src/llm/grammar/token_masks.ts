/**
 * Which tokens a grammar lets come next. The bytes of all tokens stand in a tree, so that what tokens have in common is
 * read once; the masks of a state are kept with it.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import type { TokenConstraint } from "../model/sequence.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import type { GrammarMachine, GrammarState } from "./automaton.ts";

/** Masks that are kept: of 128 K tokens, 16 KB each. */
const MAX_MASKS = 1000;

/** The tokens of a vocabulary by their bytes: nodes in preorder. */
export class TokenTree {
  /** Of each node: its last byte, how many bytes it has, where the nodes below it end, and its first token. */
  private readonly byte: Uint8Array;
  private readonly depth: Uint32Array;
  private readonly end: Uint32Array;
  private readonly first: Uint32Array;
  private readonly tokens: readonly number[];
  private masks: WeakMap<GrammarState, Uint32Array<ArrayBuffer>> = new WeakMap();
  private kept = 0;
  /** Tokens that end a text. */
  readonly ends: readonly number[];

  /** `size` is how many logits there are. */
  constructor(readonly tokenizer: Tokenizer, readonly size: number) {
    const count = Math.min(tokenizer.size, size), bytes = Array.from({ length: count }, (_, i) => tokenizer.bytesOf(i));
    this.ends = bytes.flatMap((_, i) => tokenizer.isEnd(i) ? [i] : []);
    this.tokens = bytes.flatMap((b, i) => b.length > 0 && !tokenizer.isEnd(i) ? [i] : [])
      .sort((a, b) => compareBytes(bytes[a], bytes[b]));
    const byte: number[] = [], depth: number[] = [], first: number[] = [], open: number[] = [], end: number[] = [];
    let before: Uint8Array = new Uint8Array(0);
    this.tokens.forEach((id, at) => {
      const b = bytes[id];
      let same = 0;
      while (same < before.length && before[same] === b[same]) same++;
      while (open.length > same) end[open.pop()!] = byte.length;
      for (let i = same; i < b.length; i++) {
        open.push(byte.length);
        byte.push(b[i]);
        depth.push(i);
        first.push(at);
      }
      before = b;
    });
    while (open.length > 0) end[open.pop()!] = byte.length;
    this.byte = Uint8Array.from(byte);
    this.depth = Uint32Array.from(depth);
    this.end = Uint32Array.from(end);
    // tokens of a node come before those of nodes below it: they end where those of the next one begin
    this.first = Uint32Array.from([...first, this.tokens.length]);
  }

  /** A bit for each token that may come in a state, the lowest first; tokens that end a text where it may end. */
  mask(machine: GrammarMachine, state: GrammarState): Uint32Array<ArrayBuffer> {
    const known = this.masks.get(state);
    if (known !== undefined) return known;
    const mask = new Uint32Array(Math.ceil(this.size / 32)), { byte, depth, end, first, tokens } = this;
    const allow = (id: number) => mask[id >> 5] |= 1 << (id & 31);
    if (state.accepts) this.ends.forEach(allow);
    const states: GrammarState[] = [state];
    for (let n = 0; n < byte.length;) {
      const next = machine.step(states[depth[n]], byte[n]);
      if (next === undefined) {
        n = end[n];
        continue;
      }
      states[depth[n] + 1] = next;
      for (let t = first[n]; t < first[n + 1]; t++) allow(tokens[t]);
      n++;
    }
    if (this.kept++ >= MAX_MASKS) [this.masks, this.kept] = [new WeakMap(), 1];
    this.masks.set(state, mask);
    return mask;
  }
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}

/** A text that a grammar rules. */
export class GrammarConstraint implements TokenConstraint {
  private state: GrammarState;

  /** It stands at the begin of the text. */
  constructor(private readonly machine: GrammarMachine, private readonly tree: TokenTree) {
    this.state = machine.start;
  }
  /** Whether nothing more may come. */
  get complete(): boolean {
    return this.state.accepts && !this.state.goesOn;
  }
  /** See {@linkcode TokenConstraint}. */
  mask(): Uint32Array<ArrayBuffer> {
    return this.tree.mask(this.machine, this.state);
  }
  /** See {@linkcode TokenConstraint}. */
  accept(id: number): void {
    const { tokenizer } = this.tree;
    if (tokenizer.isEnd(id) && this.state.accepts) return;
    const bytes = tokenizer.bytesOf(id), next = bytes.length === 0 ? undefined : this.machine.run(this.state, bytes);
    if (next === undefined) {
      throw new ArgumentError("go on with a text", { reason: "no token of the model is what its grammar allows next" });
    }
    this.state = next;
  }
}
