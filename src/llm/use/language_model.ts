/**
 * A language model: files to texts in a few lines.
 *
 * @module
 */
import type { Checked, DeviceName } from "../../device/device.ts";
import { FILES } from "../../device/files.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { checkInteger, checkOptions } from "../../helpers/options.ts";
import { showAs } from "../../helpers/text.ts";
import { placeOf } from "../../state/source.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { checkGguf } from "../files/given_arguments.ts";
import type { DownloadOptions } from "../files/model_download.ts";
import { type Gguf, readGguf } from "../files/gguf.ts";
import { readHfFolder } from "../files/hf_folder.ts";
import { findModel, type ModelSource } from "../files/model_source.ts";
import { type CacheKind, checkCacheKind } from "../model/cache_memory.ts";
import { Decoder, oneTextOnly, summaryOf } from "../model/decoder.ts";
import { type ModelSpec, modelSpec, type Pooling, POOLINGS } from "../model/model_spec.ts";
import { samplingOf } from "../model/sampler.ts";
import { guessByRepetition, type Speculation } from "../model/sequence.ts";
import { SequenceBatch } from "../model/sequence_batch.ts";
import { type ChatMessage, renderChat } from "../text/chat_template.ts";
import { type ToolForm, toolFormOf } from "../text/tool_calls.ts";
import { Tokenizer } from "../text/tokenizer.ts";
import { Metadata, vocabularyOf } from "../text/vocabulary.ts";
import { Constraints } from "./constraints.ts";
import { loadedAs, withinMemory } from "./model_memory.ts";
import {
  type Completion,
  type CompletionToken,
  type FinishReason,
  GENERATE_OPTIONS,
  type GenerateOptions,
  limitOf,
  type Piece,
  StopFilter,
  stopTexts,
  type Usage,
} from "./generation.ts";

/** Options of {@linkcode LanguageModel.load}. */
export interface LoadModelOptions {
  /** Where it computes; the default device unless given. */
  readonly device?: DeviceName;
  /** How many tokens a text may have: at most those of the model, and those unless given. */
  readonly context?: number;
  /** How keys and values are kept: a dtype of floats, float32 unless given, or "q8_0", which takes about a quarter of that. */
  readonly cache?: CacheKind;
  /**
   * How many texts may be generated at once; each has a cache of its own. 1 unless given. "auto" is 4, and 1 for models
   * whose layers keep a state.
   */
  readonly sequences?: number | "auto";
  /** How a model of a server is fetched: its SHA-256, what stops it, and what is told as bytes arrive. */
  readonly download?: DownloadOptions;
}

const LOAD_OPTIONS: readonly (keyof LoadModelOptions)[] = ["device", "context", "cache", "sequences", "download"];

/** A text, or the ids of its tokens. */
export type Prompt = string | readonly number[] | Int32Array;

/** How many texts a model writes at once. @throws {ArgumentError} for several of one that keeps a state */
function sequencesOf(asked: LoadModelOptions["sequences"], { recurrent, architecture }: ModelSpec): number {
  if (asked === "auto") return recurrent === undefined ? 4 : 1;
  const count = asked === undefined ? 1 : checkInteger("load a model", "sequences", asked, 1);
  if (count > 1 && recurrent !== undefined) throw oneTextOnly(architecture);
  return count;
}

/** A model that was loaded. What a call has in common with earlier ones is not computed again. */
export class LanguageModel {
  static {
    showAs(LanguageModel.prototype, ({ name, decoder, sequences }) => {
      return `LanguageModel ${name}: ${summaryOf(decoder)}${sequences > 1 ? `, ${sequences} texts at once` : ""}`;
    });
  }
  /** "stories260K": of the metadata, or the file. */
  readonly name: string;
  /** Texts to ids and back. */
  readonly tokenizer: Tokenizer;
  /** Ids to logits. */
  readonly decoder: Decoder;
  private readonly batch: SequenceBatch;
  private readonly constraints: Constraints;
  private readonly pooling: Pooling;
  private form: Promise<ToolForm> | undefined;
  private isDisposed = false;

  /** Of what was read; {@linkcode LanguageModel.load} reads it. */
  constructor(file: Gguf, name: string, options: LoadModelOptions = {}) {
    checkGguf("load a model", file);
    checkOptions("load a model", options, LOAD_OPTIONS);
    if (options.context !== undefined) checkInteger("load a model", "context", options.context, 8);
    const device = placeOf(options), meta = new Metadata(file.metadata, name);
    this.name = meta.text("general.name", name.split(/[/\\]/).at(-1)!.replace(/\.gguf$/, ""));
    const cache = options.cache === undefined ? undefined : checkCacheKind("load a model", options.cache);
    const spec = modelSpec(file.metadata, name), { context } = options;
    const sequences = sequencesOf(options.sequences, spec); // before weights are read
    const as = loadedAs(spec, { name: this.name, device, context, sequences, cache });
    [this.decoder, this.tokenizer, this.batch] = withinMemory(file, spec, as, (fits) => {
      const decoder = new Decoder(file, name, device, context, fits);
      const tokenizer = new Tokenizer(vocabularyOf(meta), name);
      return [decoder, tokenizer, new SequenceBatch(decoder, cache, sequences)];
    });
    this.pooling = POOLINGS[meta.number(`${this.spec.architecture}.pooling_type`, 1)] ?? "mean";
    this.constraints = new Constraints(this.tokenizer, this.decoder.vocabulary);
  }

  /**
   * Loads a GGUF file, the first of several parts, or a folder of Hugging Face's (config.json, safetensors,
   * tokenizer.json), from a path, a URL or bytes. Needs read permission; what a server has is kept in the user's cache
   * folder where that may be written, and a fetch that ended goes on. {@linkcode readLlama2c} reads another kind, for the
   * constructor.
   *
   * ```ts ignore files
   * import { LanguageModel } from "../llm.ts";
   * const model = await LanguageModel.load("examples/models/stories260K.gguf");
   * for await (const { text } of model.generate("Once upon a time", { maxTokens: 50 })) console.log(text);
   * ```
   *
   * @throws {FormatError} for a file that is damaged, or a model that is not known
   * @throws {OutOfMemoryError} where memory does not suffice, saying what the model takes, and what would fit
   */
  static async load<N extends string = string>(
    from: ModelSource,
    options: Checked<LoadModelOptions, N> = {},
  ): Promise<LanguageModel> {
    checkOptions("load a model", options, LOAD_OPTIONS);
    const { from: found, name, isFolder } = await findModel(from, (options as LoadModelOptions).download);
    const read = found instanceof Tensor
      ? readGguf(found)
      : isFolder
      ? readHfFolder(found, { device: FILES })
      : readGguf(found, { device: FILES });
    return new LanguageModel(await read, name, options);
  }

  /** How many texts may be generated at once. */
  get sequences(): number {
    return this.batch.size;
  }
  /** What it is made of. */
  get spec(): ModelSpec {
    return this.decoder.spec;
  }

  /** The ids of a prompt: text is encoded with the token that sequences begin with. */
  promptIds(prompt: Prompt): readonly number[] {
    return this.idsOf("generate a text", prompt, false);
  }
  private idsOf(action: string, prompt: Prompt, computes = true): readonly number[] {
    if (computes && this.isDisposed) {
      throw new ArgumentError(action, { reason: "the model was disposed; load it again" });
    }
    if (typeof prompt === "string") return this.tokenizer.encode(prompt);
    const n = this.decoder.vocabulary, ids = prompt instanceof Int32Array ? [...prompt] : prompt;
    if (!Array.isArray(ids) || !ids.every((id) => Number.isInteger(id) && id >= 0 && id < n)) {
      throw new ArgumentError(action, {
        reason: `the prompt is no text, and no list of tokens from 0 to ${n - 1}`,
      });
    }
    return ids as readonly number[];
  }

  /** What templates are told of the vocabulary. */
  private templateValues(): { readonly bos_token: string; readonly eos_token: string } {
    const { begin, end, tokens } = this.tokenizer.vocabulary,
      text = (id?: number) => id === undefined ? "" : tokens[id];
    return { bos_token: text(begin), eos_token: text(end) };
  }
  /**
   * The ids of a conversation, as the model's template writes it, and of what the answer begins with.
   *
   * @throws {ArgumentError} where the template refuses it
   */
  async chatIds(
    messages: readonly ChatMessage[],
    values: Readonly<Record<string, unknown>> = {},
    answer = "",
  ): Promise<readonly number[]> {
    const { template, begin } = this.tokenizer.vocabulary, known = this.templateValues();
    const written = await renderChat(messages, template, { ...known, ...values }) + answer;
    if (template === undefined) return this.tokenizer.encode(written);
    // the template writes the begin token itself, where the model wants one
    const starts = begin !== undefined && written.startsWith(known.bos_token);
    return this.tokenizer.encode(written, { special: true, add: !starts });
  }

  /** How the model writes calls of tools: as its template shows. */
  toolForm(): Promise<ToolForm> {
    return this.form ??= toolFormOf(this.tokenizer.vocabulary.template, this.templateValues());
  }

  /** Compiles what options say of the text ahead. @throws {ArgumentError} for a grammar or schema that cannot be kept to */
  checkConstraint(options: GenerateOptions): void {
    this.constraints.of("generate a text", options);
  }

  /**
   * Goes on with a text, piece by piece. The return value of the generator says how much it was and why it ended.
   *
   * @throws {ArgumentError} for a prompt that is longer than the context, an option that is not known, or while as many
   * texts are generated as the model has sequences
   */
  generate(prompt: Prompt, options: GenerateOptions = {}): AsyncGenerator<Piece, Usage> {
    return this.pieces(prompt, options, false);
  }
  private async *pieces(prompt: Prompt, options: GenerateOptions, whole: boolean): AsyncGenerator<Piece, Usage> {
    const action = "generate a text";
    checkOptions(action, options, GENERATE_OPTIONS);
    const { tokenizer, decoder } = this, ids = this.idsOf(action, prompt), limit = limitOf(action, options.maxTokens);
    const logprobs = options.logprobs === undefined ? -1 : checkInteger(action, "logprobs", options.logprobs, 0);
    const constraint = this.constraints.of(action, options), masked = constraint !== undefined;
    const sampling = samplingOf(action, options, decoder.vocabulary, Math.min(logprobs, decoder.vocabulary), masked);
    const filter = new StopFilter(stopTexts(action, options.stop)), { signal } = options;
    const speculation = this.speculationOf(action, options), onRead = (n: number) => void (cached = n);
    if (ids.length === 0) {
      throw new ArgumentError(action, { reason: "the prompt is empty, and the model has no token to begin with" });
    }
    const how = { sampling, constraint, speculation, signal, onRead, whole },
      began = performance.now(),
      stream = tokenizer.stream({ continues: masked || ids.some((id) => tokenizer.bytesOf(id).length > 0) });
    let first = began, count = 0, cached = 0, guessed = 0, finish: FinishReason = "length", stopped = false;
    if (limit > 0) {
      for await (const next of this.batch.generate(ids, how)) {
        if (count++ === 0) first = performance.now();
        if (next.guessed) guessed++;
        if (signal?.aborted) {
          finish = "abort";
          break;
        }
        if (tokenizer.isEnd(next.id)) {
          finish = "stop";
          count--;
          break;
        }
        const [text, ends] = filter.push(stream.push(next.id));
        yield { text, id: next.id, logprobs: next.logprobs };
        if (ends || constraint?.complete) {
          [finish, stopped] = ["stop", ends];
          break;
        }
        if (count >= limit) break;
      }
      // before its first token, or between two
      if (signal?.aborted && finish === "length" && count < limit) finish = "abort";
    }
    if (!stopped) {
      const [text, ends] = filter.push(stream.end()), rest = ends ? text : text + filter.end();
      if (rest !== "") yield { text: rest, id: undefined, logprobs: undefined };
    }
    const promptMs = first - began, completionMs = performance.now() - first;
    return {
      promptTokens: ids.length,
      cachedTokens: cached,
      completionTokens: count,
      guessedTokens: guessed,
      finish,
      promptMs,
      completionMs,
    };
  }

  /**
   * A vector of length 1 that stands for a text, float32 `[dim]`: of the states behind its tokens the mean, or what the file
   * says. Texts that mean the same have a large inner product, where the model was trained for that.
   *
   * @throws {ArgumentError} for a text that is empty or longer than the context
   */
  async embed(prompt: Prompt): Promise<Float32Array<ArrayBuffer>> {
    const ids = this.idsOf("embed a text", prompt);
    if (ids.length === 0) throw new ArgumentError("embed a text", { reason: "it is empty" });
    const x = await this.batch.pooled(ids, this.pooling), size = Math.hypot(...x) || 1;
    return x.map((v) => v / size);
  }

  /**
   * The tokens of a text, each with its log probability behind those before it, and those of the `best` most probable ones
   * there; the first one has none. Their sum tells how well the model knows the text: `exp(-mean)` is its perplexity.
   *
   * @throws {ArgumentError} for a text that is empty or longer than the context
   */
  async promptLogprobs(prompt: Prompt, { best = 0 }: { readonly best?: number } = {}): Promise<CompletionToken[]> {
    const action = "tell how probable a text is", ids = this.idsOf(action, prompt);
    const count = Math.min(checkInteger(action, "best", best, 0), this.decoder.vocabulary);
    if (ids.length === 0) throw new ArgumentError(action, { reason: "it is empty" });
    const told = await this.batch.logprobsOf(ids, count);
    return ids.map((id, i) => ({ id, logprobs: told[i - 1] }));
  }

  /** At most `count` tokens that may follow, the most probable ones: how it helps another model. */
  async guess(tokens: readonly number[], count: number): Promise<readonly number[]> {
    const out: number[] = [], room = Math.min(count, this.decoder.context - tokens.length);
    if (room <= 0) return out;
    const greedy = samplingOf("guess tokens", {}, this.decoder.vocabulary);
    for await (const { id } of this.batch.generate(tokens, { sampling: greedy })) if (out.push(id) >= room) break;
    return out;
  }
  private speculationOf(action: string, { speculate, draft }: GenerateOptions): Speculation | undefined {
    const count = speculate === undefined
      ? draft === undefined ? 0 : 4
      : checkInteger(action, "speculate", speculate, 0);
    if (count > 16) throw new ArgumentError(action, { reason: `speculate is ${count}, not from 0 to 16` });
    if (draft === undefined) return count === 0 ? undefined : { count, guess: guessByRepetition };
    const mine = this.tokenizer.vocabulary.tokens, theirs = draft.tokenizer.vocabulary.tokens;
    if (mine !== theirs && (mine.length !== theirs.length || mine.some((t, i) => t !== theirs[i]))) {
      throw new ArgumentError(action, { reason: "the draft model has other tokens" });
    }
    return { count, guess: (tokens, n) => draft.guess(tokens, n) };
  }

  /**
   * A whole text. Beyond as many texts as the model has sequences it waits for another whole one to end, so that
   * `Promise.all(prompts.map((p) => model.complete(p)))` completes a list of any length.
   *
   * @throws {ArgumentError} as {@linkcode LanguageModel.generate}, where all sequences are taken by streams
   */
  async complete(prompt: Prompt, options: GenerateOptions = {}): Promise<Completion> {
    const pieces = this.pieces(prompt, options, true);
    const tokens: CompletionToken[] = [];
    let text = "";
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) return { ...value, text, tokens };
      text += value.text;
      if (value.id !== undefined) tokens.push({ id: value.id, logprobs: value.logprobs });
    }
  }

  /** An answer to a conversation, piece by piece. */
  async *chat(messages: readonly ChatMessage[], options: GenerateOptions = {}): AsyncGenerator<Piece, Usage> {
    return yield* this.generate(await this.chatIds(messages), options);
  }

  /**
   * Forgets the last text, and what was captured with the weights that there were: after they have been trained.
   *
   * @throws {ArgumentError} while a text is generated
   */
  reset(): void {
    this.batch.reset();
  }

  /** Gives the memory of the cache back; the weights go with the model. */
  [Symbol.dispose](): void {
    this.isDisposed = true;
    this.batch[Symbol.dispose]();
  }
}
