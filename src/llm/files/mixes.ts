/**
 * Which format each weight of a model gets: the mixes that files are named after. In "Q4_K_M" most weights are Q4_K; the
 * output, and of a part of the layers the values of attention and the last product of the feed-forward, are Q6_K. The
 * choice is that of llama.cpp for models of one file type, but for those of eight experts and of 70 billion elements.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkGguf } from "./given_arguments.ts";
import { BLOCK_FORMATS, type FormatName } from "./block_formats.ts";
import type { Gguf } from "./gguf.ts";
import { type GgufContents, type GgufInput, type GgufTensorInput, typed } from "./gguf_write.ts";
import { QUANTIZED } from "./quantize.ts";

/** A format for all weights, or a mix of several. */
export type MixName = FormatName | "Q4_K_S" | "Q4_K_M" | "Q5_K_S" | "Q5_K_M";

/** What most weights are, and what others are. */
interface Mix {
  readonly base: FormatName;
  /** The number of the mix in files. */
  readonly fileType?: number;
  /** Values of attention and `ffn_down` of layer `i` of `n`. */
  readonly value?: (i: number, n: number) => FormatName | undefined;
  readonly down?: (i: number, n: number) => FormatName | undefined;
  /** Queries, keys and values in one weight. */
  readonly together?: FormatName;
}

/** Layers that get more bits: the first and the last eighth, and every third between. */
function important(i: number, n: number): boolean {
  const eighth = Math.floor(n / 8);
  return i < eighth || i >= Math.floor(7 * n / 8) || (i - eighth) % 3 === 2;
}
const more = (i: number, n: number): FormatName | undefined => important(i, n) ? "Q6_K" : undefined;

const MIXES: Readonly<Record<string, Mix>> = {
  Q4_K_S: {
    base: "Q4_K",
    fileType: 14,
    value: (i) => i < 4 ? "Q5_K" : undefined,
    down: (i, n) => i < Math.floor(n / 8) ? "Q5_K" : undefined,
  },
  Q4_K_M: { base: "Q4_K", fileType: 15, value: more, down: more, together: "Q5_K" },
  Q5_K_S: { base: "Q5_K", fileType: 16 },
  Q5_K_M: { base: "Q5_K", fileType: 17, value: more, down: more, together: "Q6_K" },
};
const FILE_TYPES: Readonly<Record<string, number>> = {
  F32: 0,
  F16: 1,
  Q4_0: 2,
  Q4_1: 3,
  Q8_0: 7,
  Q5_0: 8,
  Q5_1: 9,
  Q6_K: 18,
  BF16: 32,
};
/** What stands for a format whose blocks the rows do not fill. */
const SMALLER: Partial<Record<FormatName, FormatName>> = { Q4_K: "Q5_0", Q5_K: "Q5_1", Q6_K: "Q8_0" };
/** Weights that stay what they are: they are small, or choose. */
const KEPT = /_norm\.weight$|ffn_gate_inp|ssm_conv1d|position_embd|token_types|rope_f/;

/** The format that rows of `row` elements can have. */
function fitting(format: FormatName, row: number): FormatName {
  if (row % BLOCK_FORMATS.get(format)!.elements === 0) return format;
  const next = SMALLER[format] ?? "IQ4_NL", last = QUANTIZED.includes(next) ? next : "Q4_0";
  return row % 32 === 0 ? last : "F16";
}

/**
 * The formats of the weights of a model, by name, of their shapes; others stay what they are.
 *
 * @throws {ArgumentError} for a mix that is not known
 */
export function formatsOf(mix: MixName, shapes: ReadonlyMap<string, readonly number[]>): Map<string, FormatName> {
  const known = MIXES[mix] ?? (BLOCK_FORMATS.has(mix) ? { base: mix as FormatName } : undefined);
  if (known === undefined) {
    const names = [...Object.keys(MIXES), "F32", "F16", "BF16", ...QUANTIZED].join(", ");
    throw new ArgumentError("quantize a model", {
      reason: `the mix "${String(mix)}" is not known; known are ${names}`,
    });
  }
  const { base } = known, plain = BLOCK_FORMATS.get(base)!.plain !== undefined;
  const counts = new Map<string, number>(), kindOf = (name: string) => name.replace(/^blk\.\d+\./, "");
  for (const name of shapes.keys()) counts.set(kindOf(name), (counts.get(kindOf(name)) ?? 0) + 1);
  const top = shapes.has("output.weight") ? "output.weight" : "token_embd.weight", out = new Map<string, FormatName>();
  const choose = (name: string, kind: string): FormatName | undefined => {
    const layer = Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? 0), n = counts.get(kind)!;
    if (name === top) return plain || base === "Q8_0" ? undefined : "Q6_K";
    if (kind === "attn_v.weight") return known.value?.(layer, n);
    if (kind === "attn_qkv.weight") return known.together;
    return /^ffn_down(_exps)?\.weight$/.test(kind) ? known.down?.(layer, n) : undefined;
  };
  for (const [name, shape] of shapes) {
    if (shape.length < 2 || !name.endsWith(".weight") || KEPT.test(name)) continue;
    out.set(name, fitting(choose(name, kindOf(name)) ?? base, shape[shape.length - 1]));
  }
  return out;
}

/**
 * The contents of a file with the weights of another model in the formats of a mix, for `writeGguf`.
 *
 * ```ts ignore files
 * import { quantizeModel, readGguf, writeGguf } from "../llm.ts";
 * await writeGguf("model-q4_k_m.gguf", quantizeModel(await readGguf("model.gguf"), "Q4_K_M"));
 * ```
 *
 * @throws {ArgumentError} for a mix that is not known, or a format that is only read
 */
export function quantizeModel(file: Gguf, mix: MixName): GgufContents {
  checkGguf("quantize a model", file);
  const formats = formatsOf(mix, new Map([...file.tensors].map(([name, t]) => [name, t.shape])));
  const base = MIXES[mix]?.base ?? mix as FormatName;
  if (BLOCK_FORMATS.get(base)!.plain === undefined && !QUANTIZED.includes(base)) {
    throw new ArgumentError(`quantize a model to ${mix}`, {
      reason: `${base} is only read; written are ${QUANTIZED.join(", ")}`,
    });
  }
  const fileType = MIXES[mix]?.fileType ?? FILE_TYPES[mix];
  const metadata = new Map<string, GgufInput>(file.metadata);
  metadata.set("general.quantization_version", typed("uint32", 2));
  if (fileType !== undefined) metadata.set("general.file_type", typed("uint32", fileType));
  const tensors = new Map<string, GgufTensorInput>();
  for (const [name, t] of file.tensors) {
    const format = formats.get(name);
    tensors.set(name, format === undefined ? t : { tensor: t, format });
  }
  return { metadata, tensors };
}
