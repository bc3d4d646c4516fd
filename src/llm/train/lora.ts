/**
 * Low-rank adapters (LoRA, https://arxiv.org/abs/2106.09685): a model that was loaded, quantized or not, learns by two
 * small matrices beside each chosen weight. Adapters are written as llama.cpp reads them, or merged into the weights.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError, FormatError } from "../../helpers/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../../helpers/options.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { checkGguf, checkModel } from "../files/given_arguments.ts";
import type { Gguf } from "../files/gguf.ts";
import { type GgufContents, type GgufInput, typed } from "../files/gguf_write.ts";
import type { Weight } from "../model/weight_store.ts";
import type { LanguageModel } from "../use/language_model.ts";

/** Options of {@linkcode lora}. */
export interface LoraOptions {
  /** Rows of the smaller matrices; 8 unless given. */
  readonly rank?: number;
  /** What is learned counts `alpha / rank` times; twice the rank unless given. */
  readonly alpha?: number;
  /** Which weights of a layer: "attn_q", "attn_v" unless given; "ffn_up" and all others that are matrices may be. */
  readonly targets?: readonly string[];
}

/** Adapters of a model. While they are attached, the model computes with them. */
export class Lora {
  /** What is learned: float32 `[rank, n]` and `[m, rank]` for a weight `[m, n]`, by "blk.0.attn_q.weight.lora_a". */
  readonly parameters: Readonly<Record<string, Tensor>>;

  /** {@linkcode lora} makes it. */
  constructor(
    private readonly model: LanguageModel,
    private readonly weights: ReadonlyMap<string, Weight>,
    private readonly alpha: number,
  ) {
    const all: Record<string, Tensor> = {};
    for (const [name, { adapter }] of weights) {
      [all[`${name}.lora_a`], all[`${name}.lora_b`]] = [adapter!.a, adapter!.b];
    }
    this.parameters = all;
    model.reset();
  }

  /** What a GGUF file of adapters holds: `llama-cli --lora` reads it, as does {@linkcode loadLora}. */
  contents(): GgufContents {
    const metadata: Record<string, GgufInput> = {
      "general.type": "adapter",
      "general.architecture": this.model.spec.architecture,
      "adapter.type": "lora",
      "adapter.lora.alpha": typed("float32", this.alpha),
    };
    return { metadata, tensors: this.parameters };
  }
  /** Adds what was learned to the weights, which become float32, and takes the adapters off. */
  merge(): void {
    for (const w of this.weights.values()) w.merge();
    this.model.reset();
  }
  /** Takes the adapters off: the model is what it was. */
  detach(): void {
    for (const w of this.weights.values()) w.adapter = undefined;
    this.model.reset();
  }
}

const ACTION = "adapt a model";

/** The weights that adapters are put beside. */
function chosenWeights(model: LanguageModel, targets: readonly string[]): Map<string, Weight> {
  const out = new Map<string, Weight>(), known = new Set<string>();
  for (const [name, w] of model.decoder.weights) {
    const kind = /^blk\.\d+\.(.+)\.weight$/.exec(name)?.[1];
    if (kind === undefined || w.shape.length !== 2) continue;
    known.add(kind);
    if (targets.includes(kind)) out.set(name, w);
  }
  const missing = targets.find((t) => !known.has(t));
  if (missing !== undefined || out.size === 0) {
    throw new ArgumentError(ACTION, {
      reason: `it has no weights "${missing}"; targets may be ${[...known].join(", ")}`,
    });
  }
  if ([...out.values()].some((w) => w.adapter !== undefined)) {
    throw new ArgumentError(ACTION, { reason: "it has adapters already; merge them or detach them first" });
  }
  return out;
}

/**
 * Adapters that change nothing yet: the first matrix is random, the second 0. Their `parameters` have gradients; train them
 * by `model.decoder.forward`.
 *
 * ```ts ignore files
 * import { nn } from "../../../mod.ts";
 * import { LanguageModel, lora, quantizeModel, writeGguf } from "../llm.ts";
 * const model = await LanguageModel.load("model.gguf");
 * const adapters = lora(model, { rank: 8, targets: ["attn_q", "attn_v"] });
 * const optimizer = new nn.optim.AdamW(Object.values(adapters.parameters), { lr: 1e-3 });
 * // ... train, then
 * await writeGguf("adapter.gguf", adapters.contents());
 * adapters.merge();
 * await writeGguf("tuned.gguf", quantizeModel(model.decoder.file(), "F16"));
 * ```
 *
 * @throws {ArgumentError} for weights that the model has not, or adapters that it has already
 */
export function lora(model: LanguageModel, options: LoraOptions = {}): Lora {
  checkModel(ACTION, model);
  checkOptions(ACTION, options, ["rank", "alpha", "targets"]);
  const { rank = 8, targets = ["attn_q", "attn_v"] } = options, { alpha = 2 * rank } = options;
  checkInteger(ACTION, "rank", rank, 1);
  checkNumber(ACTION, "alpha", alpha);
  const weights = chosenWeights(model, targets), { device } = model.decoder;
  for (const w of weights.values()) {
    const [m, n] = w.shape,
      make = (t: Tensor) => {
        const made = t.contiguous().realize();
        made.requiresGrad = true;
        return made;
      };
    w.adapter = {
      a: make(Tensor.randn([rank, n], { device }).mul(1 / Math.sqrt(n))),
      b: make(Tensor.zeros([m, rank], { device })),
      scale: alpha / rank,
    };
  }
  return new Lora(model, weights, alpha);
}

/**
 * Attaches adapters that were written, by this library or for llama.cpp.
 *
 * @throws {ArgumentError} for what is no model, or no file that was read
 * @throws {FormatError} for a file that holds no adapters of this model
 */
export function loadLora(model: LanguageModel, file: Gguf): Lora {
  checkModel("load adapters", model);
  checkGguf("load adapters", file);
  const bad = (reason: string) => new FormatError("load adapters", { file: model.name, reason });
  const alpha = file.metadata.get("adapter.lora.alpha")?.value, { architecture } = model.spec;
  if (file.metadata.get("adapter.type")?.value !== "lora" || typeof alpha !== "number") {
    throw bad("it holds no adapters");
  }
  if (file.metadata.get("general.architecture")?.value !== architecture) {
    throw bad(`the adapters are not those of a ${architecture} model`);
  }
  const weights = new Map<string, Weight>(), { decoder } = model;
  for (const name of file.tensors.keys()) {
    const base = name.replace(/\.lora_[ab]$/, ""), w = decoder.weights.get(base), [m, n] = w?.shape ?? [];
    if (weights.has(base)) continue; // its other half was named before
    const [a, b] = ["a", "b"].map((x) => file.tensors.get(`${base}.lora_${x}`));
    const rank = a?.shape[0];
    if (w === undefined || w.shape.length !== 2 || a?.shape[1] !== n || b?.shape[0] !== m || b?.shape[1] !== rank) {
      throw bad(`its tensor "${name}" fits no weight of the model`);
    }
    const load = (t: typeof a) => t!.load().cast(dtypes.float32).to(decoder.device).contiguous().realize();
    w.adapter = { a: load(a), b: load(b), scale: alpha / rank! };
    weights.set(base, w);
  }
  return new Lora(model, weights, alpha);
}
