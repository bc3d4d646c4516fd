/**
 * A decoder with its weights, and sequences that it goes on: each has a cache of keys and values on the device. A call
 * takes some tokens at a position, writes their keys and values, and gives the logits behind the last one.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError, byteText, FormatError } from "../../helpers/errors.ts";
import { showAs } from "../../helpers/text.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { checkGguf, checkTokens } from "../files/given_arguments.ts";
import type { Gguf } from "../files/gguf.ts";
import { type CacheKind, emptyCache, type LayerCache, memoryOf } from "./cache_memory.ts";
import { neededNorm, type Place, type SequenceRows } from "./linear_layers.ts";
import { decoderLayer } from "./llm_blocks.ts";
import { hasWindow, isRecurrent, type ModelSpec, modelSpec } from "./model_spec.ts";
import { stateShapes } from "./recurrent_layers.ts";
import { type RopeTable, ropeTable } from "./rope_tables.ts";
import { type Weight, WeightStore } from "./weight_store.ts";

/** A decoder: its description and what it computes. */
export class Decoder {
  static {
    showAs(Decoder.prototype, (d) => `Decoder: ${summaryOf(d)}`);
  }
  /** What it is made of. */
  readonly spec: ModelSpec;
  /** Where it computes. */
  readonly device: string;
  /** How many positions there are tables for. */
  readonly context: number;
  /** Bytes of weights on the device. */
  readonly nbytes: number;
  /** Bytes of weights that a token needs: of the experts those that are used, of an embedding of its own one row. */
  readonly nbytesRead: number;
  /** How many numbers the weights are. */
  readonly parameters: number;
  /** How many tokens there are. */
  readonly vocabulary: number;
  private readonly source: Gguf;
  private readonly store: WeightStore;
  private readonly embedding: Weight;
  private readonly output: Weight;
  private readonly outputBias: Weight | undefined;
  private readonly layers: readonly ReturnType<typeof decoderLayer>[];
  private readonly finalNorm: (x: Tensor) => Tensor;
  private readonly angles: RopeTable;
  private readonly windowAngles: RopeTable;

  /**
   * Reads the weights of a file onto `device`; before that, when all of them are there in their shapes, it calls `fits`.
   *
   * @throws {FormatError} for an architecture that is not known, a weight that is missing or of another shape
   */
  constructor(file: Gguf, name: string, device: string, context?: number, fits?: () => void) {
    checkGguf("make a decoder", file);
    const spec = this.spec = modelSpec(file.metadata, name),
      store = this.store = new WeightStore(file.tensors, device, name);
    if (spec.layers > file.tensors.size) {
      const reason = `it is said to have ${spec.layers} layers, and it has ${file.tensors.size} tensors`;
      throw new FormatError("load", { file: name, reason });
    }
    this.source = file;
    this.device = device;
    this.context = Math.min(context ?? spec.context, spec.context);
    this.embedding = store.get("token_embd.weight");
    this.vocabulary = this.embedding.shape[0];
    store.get("token_embd.weight", [this.vocabulary, spec.dim]);
    this.output = store.maybe("output.weight", [this.vocabulary, spec.dim]) ?? this.embedding;
    this.outputBias = store.maybe("output.bias", [this.vocabulary]);
    this.finalNorm = neededNorm(spec, store, "output_norm");
    this.layers = Array.from({ length: spec.layers }, (_, i) => decoderLayer(spec, store, i));
    const long = this.context > spec.rope.originalContext;
    const factors = store.maybe("rope_freqs.weight") ?? store.maybe(`rope_factors_${long ? "long" : "short"}.weight`);
    fits?.();
    store.realize();
    const divisors = factors === undefined ? undefined : new Tensor(factors.memory.uop).dataSync() as Float32Array;
    const table = (window: boolean) => ropeTable(spec.rope, this.context, window, divisors, device);
    this.angles = table(false);
    const windows = Array.from({ length: spec.layers }, (_, i) => i).some((i) => hasWindow(spec, i));
    this.windowAngles = windows ? table(true) : this.angles;
    this.nbytes = store.nbytes();
    const used = spec.experts === undefined ? 1 : spec.experts.used / spec.experts.count;
    const rows = this.output === this.embedding ? 1 : 1 / this.vocabulary;
    this.nbytesRead = store.nbytes((name) => name.includes("_exps.") ? used : name.startsWith("token_embd") ? rows : 1);
    this.parameters = store.parameters;
  }

  /** Memory for the keys and values of one sequence, or of `count`: then their number is the first axis. */
  makeCache(kind: CacheKind = dtypes.float32, count?: number): LayerCache[] {
    const { spec, device, context } = this, { layers, kvHeads, headDim, valueDim, recurrent } = spec;
    if (recurrent !== undefined && count !== undefined) {
      throw oneTextOnly(spec.architecture);
    }
    const shape = [...count === undefined ? [] : [count], kvHeads, context];
    const state = (shape: readonly number[]) => Tensor.zeros(shape, { dtype: dtypes.float32, device }).contiguous();
    const caches = Array.from({ length: layers }, (_, i): LayerCache => {
      if (!isRecurrent(spec, i)) return emptyCache(kind, shape, headDim, valueDim, device);
      const [keys, values] = stateShapes(recurrent!).map(state);
      return { keys, values };
    });
    Tensor.realize(caches.flatMap(memoryOf));
    return caches;
  }

  /**
   * The logits, float32 `[vocabulary]`, behind token number `last` of int32 `[T]` tokens, of which the first is at
   * position `start`, a bound variable or a number, for each of which kernels are made. Writes to the cache. Lazy.
   */
  logits(tokens: Tensor, start: Tensor | number, last: Tensor | number, cache: readonly LayerCache[]): Tensor {
    checkTokens("compute logits", tokens);
    const [t] = tokens.shape, count = t === 1 ? 1 : behind(last, 1);
    const x = this.hidden(tokens, { start, end: behind(start, t), count }, cache);
    return this.scores(t === 1 ? x : x.at(last).reshape([1, this.spec.dim])).reshape([this.vocabulary]);
  }

  /** The logits, float32 `[T, vocabulary]`, behind each token, as {@linkcode Decoder.logits} behind one. */
  logitsOfAll(tokens: Tensor, start: Tensor | number, cache: readonly LayerCache[]): Tensor {
    return this.scores(this.whole(tokens, start, cache));
  }

  /** What stands behind the last norm of each token: float32 `[T, dim]`. Writes to the cache. Lazy. */
  states(tokens: Tensor, start: Tensor | number, cache: readonly LayerCache[]): Tensor {
    return this.finalNorm(this.whole(tokens, start, cache));
  }
  /** What stands before the last norm, of tokens that all are text. */
  private whole(tokens: Tensor, start: Tensor | number, cache: readonly LayerCache[]): Tensor {
    checkTokens("compute logits", tokens);
    const [t] = tokens.shape;
    return this.hidden(tokens, { start, end: behind(start, t), count: t }, cache);
  }

  /**
   * The logits, float32 `[B, vocabulary]`, behind int32 `[B]` tokens, each of a sequence of its own; `end`, a bound
   * variable, is behind all their positions. The cache is one of several sequences, to which it is written. Lazy.
   */
  logitsOfRows(tokens: Tensor, rows: SequenceRows, end: Tensor, cache: readonly LayerCache[]): Tensor {
    return this.scores(this.hidden(tokens, { start: 0, end, rows, count: tokens.shape[0] }, cache));
  }

  /**
   * The logits, float32 `[T, vocabulary]`, behind each of int32 `[T]` tokens, the first of which is at position 0. Needs no
   * cache, and has gradients: what models are trained by, with `vmap` in batches. Lazy.
   */
  forward(tokens: Tensor): Tensor {
    checkTokens("compute logits", tokens);
    return this.scores(this.hidden(tokens, { start: 0, end: tokens.shape[0], count: tokens.shape[0] }));
  }

  /** The model as a file, with the weights as they are now; what the decoder does not use is as it was. */
  file(): Gguf {
    const tensors = new Map(
      [...this.source.tensors].map(([name, t]) => [name, this.store.all.get(name)?.tensor() ?? t]),
    );
    return { ...this.source, tensors };
  }

  /** Weights by name. */
  get weights(): ReadonlyMap<string, Weight> {
    return this.store.all;
  }

  /** What of the weights is on the device, by name. */
  get memory(): ReadonlyMap<string, Tensor> {
    return this.store.memory;
  }

  /** What stands before the last norm: `[T, dim]`. */
  private hidden(
    tokens: Tensor,
    { start, end, rows, count }: Omit<Place, "angles" | "windowAngles">,
    cache?: readonly LayerCache[],
  ): Tensor {
    const [t] = tokens.shape, part = (x: Tensor) => rows ? x.at(rows.positions) : x.at([start, end]).reshape([t, -1]);
    const slice = ({ cos, sin }: RopeTable): RopeTable => ({ cos: part(cos), sin: part(sin) });
    const angles = slice(this.angles),
      windowAngles = this.windowAngles === this.angles ? angles : slice(this.windowAngles);
    const place: Place = { start, end, count, angles, windowAngles, ...rows === undefined ? {} : { rows } };
    let x = this.embedding.rows(tokens);
    if (this.spec.embeddingScale !== 1) x = x.mul(this.spec.embeddingScale);
    this.layers.forEach((layer, i) => x = layer(x, place, cache?.[i]));
    return x;
  }
  /** Logits `[T, vocabulary]` of {@linkcode hidden}. */
  private scores(x: Tensor): Tensor {
    const { logitScale, logitCap } = this.spec;
    let y = this.output.product(this.finalNorm(x));
    if (this.outputBias !== undefined) y = y.add(this.outputBias.values());
    if (logitScale !== 1) y = y.mul(logitScale);
    return logitCap > 0 ? y.div(logitCap).tanh().mul(logitCap) : y;
  }
}

/** The position `n` behind another one. */
function behind(at: Tensor | number, n: number): Tensor | number {
  return typeof at === "number" ? at + n : at.add(n);
}

/** What it is, in a line: "llama, 0.260 M parameters in 1.04 MB on WASM, context 512". */
export function summaryOf({ spec, parameters, nbytes, device, context }: Decoder): string {
  const millions = (parameters / 1e6).toPrecision(3);
  return `${spec.architecture}, ${millions} M parameters in ${byteText(nbytes)} on ${device}, context ${context}`;
}

/** What is said where several texts are asked of a model that keeps a state. */
export function oneTextOnly(architecture: string): ArgumentError {
  return new ArgumentError("write several texts at once", {
    reason: `layers of ${architecture} keep a state, which is that of one text; load it with one sequence`,
  });
}

/** Throws unless a sequence of `count` tokens fits. */
export function checkRoom(count: number, context: number): void {
  if (count <= context) return;
  throw new ArgumentError("go on with a text", { reason: `it has ${count} tokens, and the context is ${context}` });
}
