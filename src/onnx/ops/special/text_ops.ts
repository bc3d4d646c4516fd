/**
 * ONNX: text, which the host computes with: joining, splitting, matching, counting n-grams, labels.
 *
 * @module
 */
import { broadcastShape, placesOf } from "../../values/host_ops.ts";
import { type Call, op, type OpRow, type Result } from "../../values/node_call.ts";
import { knownValue, type Value } from "../../values/value.ts";
import { BOOL, FLOAT, INT64, STRING } from "../../wire/element_types.ts";

/** A function of two lists of texts that broadcast. */
export function joined<T>(c: Call, f: (a: string, b: string) => T): { shape: number[]; data: T[] } {
  const shape = broadcastShape([c.shape(0), c.shape(1)]);
  if (shape === undefined) throw c.fail(`[${c.shape(0).join(", ")}] and [${c.shape(1).join(", ")}] do not broadcast`);
  const [a, b] = [c.texts(0), c.texts(1)], [p, q] = [placesOf(shape, c.shape(0)), placesOf(shape, c.shape(1))];
  return { shape, data: p.map((at, i) => f(a[at], b[q[i]])) };
}

function split(c: Call): Result {
  const texts = c.texts(0),
    by = c.text("delimiter", ""),
    most = c.hasAttribute("maxsplit") ? c.int("maxsplit") : Infinity;
  const parts = texts.map((t) => {
    const rest = by === "" ? t.trim() : t;
    if (rest === "" && by === "") return [];
    const all = by === "" ? rest.split(/\s+/) : rest.split(by);
    if (all.length - 1 <= most) return all;
    if (by !== "") return [...all.slice(0, most), all.slice(most).join(by)];
    const out = all.slice(0, most);
    let tail = rest;
    for (const word of out) tail = tail.slice(tail.indexOf(word) + word.length).trimStart();
    return [...out, tail];
  });
  const width = Math.max(0, ...parts.map((p) => p.length)), shape = c.shape(0);
  const flat = parts.flatMap((p) => [...p, ...new Array<string>(width - p.length).fill("")]);
  return [knownValue(STRING, [...shape, width], flat), knownValue(INT64, shape, parts.map((p) => p.length))];
}

/** Case and stop words, of a list `[n]` or `[1, n]`. */
function normalize(c: Call): Result {
  const exact = c.int("is_case_sensitive", 0) === 1, fold = (s: string) => exact ? s : s.toLowerCase();
  const stops = new Set(c.strings("stopwords", []).map(fold)), action = c.text("case_change_action", "NONE");
  const kept = c.texts(0).filter((s) => !stops.has(fold(s)));
  const out = (kept.length === 0 ? [""] : kept).map((s) =>
    action === "LOWER" ? s.toLowerCase() : action === "UPPER" ? s.toUpperCase() : s
  );
  return knownValue(STRING, c.shape(0).length === 2 ? [1, out.length] : [out.length], out);
}

/** How often n-grams of a pool occur, with gaps of up to so many. */
function tfIdf(c: Call): Result {
  const shape = c.shape(0), rows = shape.length === 2 ? shape[0] : 1, width = shape[shape.length - 1];
  const isText = c.value(0).isText, all: readonly (string | number)[] = isText ? c.texts(0) : c.numbers(0);
  const pool: readonly (string | number)[] = isText ? c.strings("pool_strings") : c.ints("pool_int64s");
  const starts = c.ints("ngram_counts"),
    indexes = c.ints("ngram_indexes"),
    weights = c.floats("weights", indexes.map(() => 1));
  const least = c.int("min_gram_length"),
    most = c.int("max_gram_length"),
    skip = c.int("max_skip_count"),
    mode = c.text("mode");
  const grams = new Map<string, number>();
  let id = 0;
  starts.forEach((from, k) => {
    const to = starts[k + 1] ?? pool.length, n = k + 1;
    for (let at = from; at < to; at += n) {
      if (n >= least && n <= most) grams.set(JSON.stringify(pool.slice(at, at + n)), id);
      id++;
    }
  });
  const size = Math.max(-1, ...indexes) + 1, out = new Array<number>(c.list(rows * size)).fill(0);
  for (let r = 0; r < rows; r++) {
    const row = all.slice(r * width, (r + 1) * width);
    for (let n = least; n <= most; n++) {
      for (let gap = 1; gap <= (n === 1 ? 1 : skip + 1); gap++) {
        for (let at = 0; at + (n - 1) * gap < row.length; at++) {
          const found = grams.get(JSON.stringify(Array.from({ length: n }, (_, k) => row[at + k * gap])));
          if (found !== undefined) out[r * size + indexes[found]]++;
        }
      }
    }
  }
  const byIndex = new Array<number>(size).fill(1);
  indexes.forEach((at, k) => byIndex[at] = weights[k]);
  const told = out.map((n, i) => mode === "TF" ? n : (mode === "IDF" ? Math.min(1, n) : n) * byIndex[i % size]);
  return knownValue(FLOAT, shape.length === 2 ? [rows, size] : [size], told);
}

/** Keys to values, each a list in an attribute of one of several types. */
function labelEncoder(c: Call): Result {
  const list = (
    name: string,
  ): { type: number; data: ArrayLike<string | number>; fallback: string | number } | undefined => {
    const given: Value | undefined = c.constant(`${name}_tensor`);
    if (given !== undefined) {
      const spare = c.constant("default_tensor")?.data?.[0] as string | number | undefined;
      return {
        type: given.type,
        data: given.data as ArrayLike<string | number>,
        fallback: spare ?? (given.isText ? "_Unused" : 0),
      };
    }
    if (c.hasAttribute(`${name}_strings`)) {
      return { type: STRING, data: c.strings(`${name}_strings`), fallback: c.text("default_string", "_Unused") };
    }
    if (c.hasAttribute(`${name}_int64s`)) {
      return { type: INT64, data: c.ints(`${name}_int64s`), fallback: c.int("default_int64", -1) };
    }
    if (c.hasAttribute(`${name}_floats`)) {
      return { type: FLOAT, data: c.floats(`${name}_floats`), fallback: c.float("default_float", -0) };
    }
    return undefined;
  };
  let keys = list("keys"), values = list("values");
  if (c.hasAttribute("classes_strings")) { // version 1
    const classes = c.strings("classes_strings"), isText = c.value(0).isText, ids = classes.map((_, i) => i);
    keys = { type: isText ? STRING : INT64, data: isText ? classes : ids, fallback: 0 };
    values = isText
      ? { type: INT64, data: ids, fallback: c.int("default_int64", -1) }
      : { type: STRING, data: classes, fallback: c.text("default_string", "_Unused") };
  }
  if (keys === undefined || values === undefined) throw c.fail("it has no keys, or no values");
  const table = new Map<string, string | number>();
  for (let i = 0; i < keys.data.length; i++) table.set(String(keys.data[i]), values.data[i]);
  const out = Array.from(c.data(0) as ArrayLike<string | number>, (x) => table.get(String(x)) ?? values.fallback);
  return knownValue(values.type, c.shape(0), out as string[]);
}

/** The rows of this family. */
export const TEXTS: readonly OpRow[] = [
  op("StringConcat", (c) => {
    const { shape, data } = joined(c, (a, b) => a + b);
    return knownValue(STRING, shape, data);
  }),
  op("StringSplit", split),
  op("StringNormalizer", normalize),
  op("RegexFullMatch", (c) => {
    let pattern: RegExp;
    try {
      pattern = new RegExp(`^(?:${c.text("pattern")})$`, "u");
    } catch {
      throw c.fail(`"${c.text("pattern")}" is no regular expression`);
    }
    return knownValue(BOOL, c.shape(0), c.texts(0).map((t) => pattern.test(t) ? 1 : 0));
  }),
  op("TfIdfVectorizer", tfIdf, [0]),
  op("LabelEncoder", labelEncoder, [0], 1, "ai.onnx.ml"),
  op(
    "CategoryMapper",
    (c) => {
      const names = c.strings("cats_strings"), ids = c.ints("cats_int64s");
      if (c.value(0).isText) {
        const found = c.texts(0).map((t) => names.includes(t) ? ids[names.indexOf(t)] : c.int("default_int64", -1));
        return knownValue(INT64, c.shape(0), found);
      }
      const spare = c.text("default_string", "_Unused");
      return knownValue(STRING, c.shape(0), c.numbers(0).map((n) => ids.includes(n) ? names[ids.indexOf(n)] : spare));
    },
    [0],
    1,
    "ai.onnx.ml",
  ),
];
