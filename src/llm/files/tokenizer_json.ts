/**
 * tokenizer.json of Hugging Face's tokenizers, of the kind that language models have: BPE over bytes, cut by patterns that
 * the file has, or over characters with "▁" for spaces. It becomes values as GGUF files have them.
 *
 * @module
 */
import { FormatError } from "../../helpers/errors.ts";
import { preTokenizerName } from "../text/pretokenize.ts";
import { type GgufInput, typed } from "./gguf_write.ts";

/** A JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)";

function isObject(x: unknown): x is JsonObject {
  return typeof x === "object" && x !== null && !Array.isArray(x);
}
/** Steps of a sequence, or the one there is. */
function stepsOf(x: unknown, list: string): readonly JsonObject[] {
  if (!isObject(x)) return [];
  return x.type === "Sequence" ? (x[list] as readonly unknown[] ?? []).filter(isObject) : [x];
}

/** The patterns of a pre-tokenizer, in the order in which they cut; undefined where one is not known. */
function patternsOf(steps: readonly JsonObject[]): string[] | undefined {
  const out: string[] = [];
  for (const s of steps) {
    const p = s.pattern as JsonObject | undefined;
    if (s.type === "Split" && typeof p?.Regex === "string") out.push(p.Regex);
    else if (s.type === "Digits") out.push(s.individual_digits === true ? "\\p{N}" : "\\p{N}+");
    else if (s.type === "ByteLevel") {
      if (s.use_regex !== false) out.push(GPT2);
    } else if (s.type !== "Metaspace" && s.type !== "Split") return undefined;
  }
  return out;
}

/** A list of ids, where there are any. */
function some(key: string, ids: readonly number[]): Record<string, GgufInput> {
  return ids.length === 0 ? {} : { [key]: typed("uint32", ids) };
}

/**
 * The values of a tokenizer. `settings` are tokenizer_config.json, `config` config.json: they say which tokens begin and
 * end a text.
 *
 * @throws {FormatError} for another kind of tokenizer
 */
export function tokenizerValues(
  json: JsonObject,
  settings: JsonObject,
  config: JsonObject,
  file: string,
): Record<string, GgufInput> {
  const bad = (reason: string) => new FormatError("load", { file, reason }), { model } = json;
  if (
    !isObject(model) || model.type !== undefined && model.type !== "BPE" || !isObject(model.vocab) ||
    !Array.isArray(model.merges)
  ) {
    throw bad(`its model is ${isObject(model) ? String(model.type) : "missing"}; BPE is read, others from GGUF files`);
  }
  const added = (Array.isArray(json.added_tokens) ? json.added_tokens : []).filter(isObject);
  const ids = new Map(Object.entries(model.vocab as Record<string, number>));
  for (const a of added) ids.set(String(a.content), Number(a.id));
  const size = Math.max(0, ...[...ids.values()].map((id) => id + 1));
  if (![...ids.values()].every((id) => Number.isInteger(id) && id >= 0) || size > 4 * ids.size + 4096) {
    throw bad("the ids of its tokens are no numbers from 0 on");
  }
  const tokens = Array.from({ length: size }, (_, i) => `[unused${i}]`), kinds: number[] = Array(size).fill(5);
  for (const [text, id] of ids) [tokens[id], kinds[id]] = [text, 1];
  for (const a of added) kinds[Number(a.id)] = a.special === true ? 3 : 4;
  const steps = stepsOf(json.pre_tokenizer, "pretokenizers"), normal = stepsOf(json.normalizer, "normalizers");
  const spaces = steps.some((s) => s.type === "Metaspace") ||
    normal.some((s) => s.type === "Replace" && s.content === "\u2581");
  const patterns = patternsOf(steps);
  if (patterns === undefined) {
    throw bad(`its pre-tokenizer ${steps.map((s) => String(s.type)).join(", ")} is not known`);
  }
  const meta = steps.find((s) => s.type === "Metaspace");
  const prefix = normal.some((s) => s.type === "Prepend") ||
    meta !== undefined && meta.prepend_scheme !== "never" && meta.add_prefix_space !== false;
  const whole = model.ignore_merges === true, pre = spaces ? undefined : preTokenizerName(patterns, whole);
  // cuts without a name are kept as they are; only we read those
  const cuts = { "dinograd.patterns": spaces ? [] : patterns, "dinograd.whole": whole, "dinograd.spaces": spaces };
  if (model.byte_fallback === true) tokens.forEach((t, i) => /^<0x[0-9A-F]{2}>$/.test(t) && (kinds[i] = 6));
  const strips = (side: string) => added.flatMap((a) => a[side] === true ? [Number(a.id)] : []);
  const at = "tokenizer.ggml.",
    values: Record<string, GgufInput> = {
      [`${at}model`]: "gpt2",
      [`${at}pre`]: pre ?? "",
      [`${at}tokens`]: tokens,
      [`${at}token_type`]: typed("int32", kinds),
      [`${at}merges`]: model.merges.map((m) => Array.isArray(m) ? m.join(" ") : String(m)),
      [`${at}add_space_prefix`]: prefix,
      ...pre === undefined ? cuts : {},
      // GGUF has no place for them; only we read these
      ...some("dinograd.strips_before", strips("lstrip")),
      ...some("dinograd.strips_after", strips("rstrip")),
    };
  const text = (x: unknown) => isObject(x) ? String(x.content) : typeof x === "string" ? x : undefined;
  const token = (name: string): number | undefined => {
    const own = ids.get(text(settings[`${name}_token`]) ?? ""), given = config[`${name}_token_id`];
    return own ?? (typeof given === "number" ? given : Array.isArray(given) ? Number(given[0]) : undefined);
  };
  for (const [name, key] of [["bos", "bos_token_id"], ["eos", "eos_token_id"], ["unk", "unknown_token_id"]] as const) {
    const id = token(name);
    if (id !== undefined && id < size) values[at + key] = id;
  }
  // the begin token is added where the post-processor does, or the settings say so
  const begin = text(settings.bos_token), post = JSON.stringify(json.post_processor ?? null);
  values[`${at}add_bos_token`] = settings.add_bos_token === true ||
    settings.add_bos_token === undefined && begin !== undefined && post.includes(JSON.stringify(begin));
  if (typeof settings.chat_template === "string") values["tokenizer.chat_template"] = settings.chat_template;
  return values;
}
