/**
 * Texts to vectors: files of encoders to embeddings in a few lines.
 *
 * @module
 */
import type { DeviceName } from "../../device/device.ts";
import { FILES } from "../../device/files.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { showAs } from "../../helpers/text.ts";
import { checkOptions } from "../../helpers/options.ts";
import { placeOf } from "../../state/source.ts";
import { jit } from "../../tensor/jit/jit.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { checkGguf } from "../files/given_arguments.ts";
import { type Gguf, readGguf } from "../files/gguf.ts";
import { findModel, type ModelSource } from "../files/model_source.ts";
import { ENCODERS, modelSpec } from "../model/model_spec.ts";
import { Encoder } from "../model/text_encoder.ts";
import { Tokenizer } from "../text/tokenizer.ts";
import { Metadata, vocabularyOf } from "../text/vocabulary.ts";
import { withinMemory } from "./model_memory.ts";

/** Lengths to which texts are filled: a step is captured for each. */
const BUCKET = 16;
/** Rows of a call, at most. */
const BATCH = 8;
const ACTION = "embed texts";

/** An encoder that was loaded. */
export class EmbeddingModel {
  static {
    showAs(EmbeddingModel.prototype, ({ name, encoder: { spec } }) => {
      return `EmbeddingModel ${name}: ${spec.architecture}, vectors of ${spec.dim}, context ${spec.context}`;
    });
  }
  /** "all-MiniLM-L6-v2": of the metadata, or the file. */
  readonly name: string;
  /** Texts to ids. */
  readonly tokenizer: Tokenizer;
  /** Ids to vectors. */
  readonly encoder: Encoder;
  private readonly step: (tokens: Tensor, count: Tensor) => Tensor;

  /** Of what was read; {@linkcode EmbeddingModel.load} reads it. */
  constructor(file: Gguf, name: string, options: { readonly device?: DeviceName } = {}) {
    checkGguf("load a model", file);
    checkOptions("load a model", options, ["device"]);
    const device = placeOf(options), meta = new Metadata(file.metadata, name);
    this.name = meta.text("general.name", name.split(/[/\\]/).at(-1)!.replace(/\.gguf$/, ""));
    const as = { name: this.name, device, context: BUCKET, sequences: 1, cache: undefined };
    const spec = modelSpec(file.metadata, name, ENCODERS);
    const encoder = this.encoder = withinMemory(file, spec, as, (fits) => new Encoder(file, name, device, fits));
    this.tokenizer = new Tokenizer(vocabularyOf(meta), name);
    this.step = jit((tokens: Tensor, count: Tensor) => encoder.embed(tokens, count).realize());
  }

  /**
   * Loads a GGUF file, from a path, a URL or bytes. Needs read permission.
   *
   * ```ts ignore files
   * import { EmbeddingModel } from "../llm.ts";
   * const model = await EmbeddingModel.load("all-MiniLM-L6-v2-Q8_0.gguf");
   * const [a, b] = await model.embed(["a cat sat on a mat", "there is a cat on the mat"]);
   * const alike = a.reduce((s, x, i) => s + x * b[i], 0); // up to 1
   * ```
   *
   * @throws {FormatError} for a file that is damaged, or no encoder that is known
   * @throws {OutOfMemoryError} where memory does not suffice, saying what the model takes
   */
  static async load<N extends string = string>(
    from: ModelSource,
    options: { readonly device?: DeviceName<N> } = {},
  ): Promise<EmbeddingModel> {
    const { from: found, name } = await findModel(from);
    const file = await (found instanceof Tensor ? readGguf(found) : readGguf(found, { device: FILES }));
    return new EmbeddingModel(file, name, options);
  }

  /**
   * The vectors of texts, of length 1 unless `normalize` is false, in the order of the texts.
   *
   * @throws {ArgumentError} for a text that is longer than the context
   */
  async embed(texts: readonly string[], options: { readonly normalize?: boolean } = {}): Promise<Float32Array[]> {
    checkOptions(ACTION, options, ["normalize"]);
    const { context, dim } = this.encoder.spec, ids = texts.map((text) => this.tokenizer.encode(text));
    const long = ids.findIndex((x) => x.length > context);
    if (long >= 0) {
      throw new ArgumentError(ACTION, {
        reason: `text ${long} has ${ids[long].length} tokens, and the context is ${context}`,
      });
    }
    const sizeOf = (i: number) => Math.min(context, Math.ceil(Math.max(1, ids[i].length) / BUCKET) * BUCKET);
    const order = [...ids.keys()].sort((a, b) => sizeOf(a) - sizeOf(b)), out: Float32Array[] = Array(ids.length);
    for (let at = 0; at < order.length;) {
      const t = sizeOf(order[at]), part = order.slice(at, at + BATCH).filter((i) => sizeOf(i) === t);
      // a batch that is not full goes text by text: no other step is captured for its size
      const rows = part.length === BATCH ? part : part.slice(0, 1), { device } = this.encoder;
      const filled = Int32Array.from({ length: rows.length * t }, (_, k) => ids[rows[Math.floor(k / t)]][k % t] ?? 0);
      const counts = new Tensor(Int32Array.from(rows, (i) => ids[i].length), { device });
      const vectors = this.step(new Tensor(filled, { device }).reshape([rows.length, t]), counts);
      const values = await vectors.data() as Float32Array;
      rows.forEach((i, k) => out[i] = values.slice(k * dim, (k + 1) * dim));
      at += rows.length;
    }
    if (options.normalize !== false) {
      for (const x of out) {
        const length = Math.sqrt(x.reduce((s, v) => s + v * v, 0)) || 1;
        x.forEach((v, i) => x[i] = v / length);
      }
    }
    return out;
  }
}
