/**
 * Texts to tokens and back: special tokens are found first, what lies between is encoded as the vocabulary wants it.
 * Decoding gives bytes, so that tokens which are parts of characters come out whole.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkOptions, describe } from "../../helpers/options.ts";
import { showAs } from "../../helpers/text.ts";
import { BYTE_CHARACTERS, type Encode, encoderOf, idsOf, SPACE } from "./encoders.ts";
import { TokenKind } from "./known_tokens.ts";
import { preTokenizerOf, type Vocabulary } from "./vocabulary.ts";

/** Options of {@linkcode Tokenizer.encode}. */
export interface EncodeOptions {
  /** Whether texts of control tokens, as "<s>", are those tokens; texts of a user should not be. Default false. */
  readonly special?: boolean;
  /** Whether the tokens that the model wants at begin and end are added. Default true. */
  readonly add?: boolean;
}

const utf8 = new TextEncoder();

/** The tokenizer of a model. */
export class Tokenizer {
  static {
    showAs(Tokenizer.prototype, ({ vocabulary: { kind }, size }) => `Tokenizer: ${kind}, ${size} tokens`);
  }
  /** What it was made of. */
  readonly vocabulary: Vocabulary;
  private readonly encodeText: Encode;
  private readonly ids: ReadonlyMap<string, number>;
  private readonly bytes: (Uint8Array | undefined)[] = [];
  private readonly byteOf: ReadonlyMap<string, number> | undefined;
  /** Special tokens by text, the longest first: those of users, and all. */
  private readonly users: RegExp | undefined;
  private readonly specials: RegExp | undefined;

  /** `file` is what errors call the model. @throws {FormatError} for a vocabulary that is not known */
  constructor(vocabulary: Vocabulary, file = "the vocabulary") {
    this.vocabulary = vocabulary;
    this.encodeText = encoderOf(vocabulary, file);
    this.ids = idsOf(vocabulary);
    const { tokens, kinds, kind } = vocabulary, byteLevel = preTokenizerOf(vocabulary)?.byteLevel ?? true;
    this.byteOf = kind === "bpe" && byteLevel ? new Map(BYTE_CHARACTERS.map((c, i) => [c, i])) : undefined;
    const some = (...of: number[]) => oneOf(tokens.filter((_, i) => of.includes(kinds[i])));
    this.users = some(TokenKind.USER);
    this.specials = some(TokenKind.USER, TokenKind.CONTROL, TokenKind.UNKNOWN);
  }

  /** How many tokens there are. */
  get size(): number {
    return this.vocabulary.tokens.length;
  }
  /** The id of a token by its text, special ones too. */
  idOf(text: string): number | undefined {
    return this.ids.get(text);
  }
  /** Whether an answer is over after this token. */
  isEnd(id: number): boolean {
    return this.vocabulary.ends.has(id);
  }
  /** Whether sequences begin with the begin token. */
  get addsBegin(): boolean {
    const { addBegin, kind } = this.vocabulary;
    return addBegin ??
      (kind === "spm" || kind === "wordpiece" || kind === "bpe" && (preTokenizerOf(this.vocabulary)?.begin ?? false));
  }
  private get addsEnd(): boolean {
    const { addEnd, kind } = this.vocabulary;
    return addEnd ?? (kind === "wordpiece" || kind === "unigram");
  }

  /**
   * The ids of a text.
   *
   * @throws {ArgumentError} for what is no text
   */
  encode(text: string, options: EncodeOptions = {}): number[] {
    checkOptions("encode a text", options, ["special", "add"]);
    if (typeof text !== "string") throw new ArgumentError("encode a text", { reason: `it is ${describe(text)}` });
    text = text.toWellFormed(); // halves of characters are no text
    const { special = false, add = true } = options, { begin, end } = this.vocabulary, out: number[] = [];
    if (add && this.addsBegin && begin !== undefined) out.push(begin);
    const pattern = special ? this.specials : this.users;
    const { stripsBefore, stripsAfter } = this.vocabulary;
    let at = 0, first = true, strips = false;
    const plain = (part: string): void => {
      if (strips) part = part.replace(/^[ \t-\r]+/, "");
      if (part === "") return;
      for (const id of this.encodeText(part, first)) out.push(id);
      first = false;
    };
    for (const m of pattern === undefined ? [] : text.matchAll(pattern)) {
      const id = this.ids.get(m[0])!, before = text.slice(at, m.index);
      plain(stripsBefore.has(id) ? before.replace(/[ \t-\r]+$/, "") : before);
      out.push(id);
      [first, strips] = [true, stripsAfter.has(id)];
      at = m.index + m[0].length;
    }
    plain(text.slice(at));
    if (add && this.addsEnd && end !== undefined) out.push(end);
    return out;
  }

  /** The bytes that a token stands for; control tokens have none unless `special`. */
  bytesOf(id: number, special = false): Uint8Array {
    const { tokens, kinds } = this.vocabulary;
    if (!Number.isInteger(id) || id < 0 || id >= tokens.length) {
      throw new ArgumentError(`decode token ${describe(id)}`, { reason: `tokens are 0 to ${tokens.length - 1}` });
    }
    if (kinds[id] === TokenKind.CONTROL || kinds[id] === TokenKind.UNKNOWN) {
      return special ? utf8.encode(tokens[id]) : new Uint8Array(0);
    }
    if (kinds[id] === TokenKind.UNUSED) return new Uint8Array(0);
    return this.bytes[id] ??= this.makeBytes(tokens[id], kinds[id]);
  }
  private makeBytes(text: string, kind: number): Uint8Array {
    const hex = /^<0x([0-9A-Fa-f]{2})>$/.exec(text);
    if (hex !== null && (kind === TokenKind.BYTE || this.byteOf === undefined)) {
      return Uint8Array.of(parseInt(hex[1], 16));
    }
    if (kind === TokenKind.USER) return utf8.encode(text);
    if (this.byteOf === undefined) return utf8.encode(text.replaceAll(SPACE, " "));
    const bytes = [...text].map((c) => this.byteOf!.get(c));
    return bytes.includes(undefined) ? utf8.encode(text) : Uint8Array.from(bytes as number[]);
  }

  /** The text of ids, without control tokens; `special` shows those. */
  decode(ids: readonly number[] | Int32Array, options: { readonly special?: boolean } = {}): string {
    checkOptions("decode tokens", options, ["special"]);
    if (!Array.isArray(ids) && !(ids instanceof Int32Array)) {
      throw new ArgumentError("decode tokens", { reason: `they must be a list of ids, not ${describe(ids)}` });
    }
    const stream = this.stream(options);
    return Array.from(ids, (id) => stream.push(id)).join("") + stream.end();
  }

  /**
   * Decodes tokens as they come. A character of which a token is a part comes out with its last part.
   *
   * `continues` says that text stands before: then the space that some vocabularies begin with is kept.
   */
  stream(options: { readonly special?: boolean; readonly continues?: boolean } = {}): TokenStream {
    const { kind, addSpace } = this.vocabulary;
    const strips = (kind === "spm" && (addSpace ?? true) || kind === "wordpiece" || kind === "unigram" ||
      kind === "bpe" && addSpace === true) &&
      !options.continues;
    return new TokenStream(this, options.special ?? false, strips);
  }
}

/** One of the texts, the longest first; undefined where there are none. */
function oneOf(texts: readonly string[]): RegExp | undefined {
  const some = texts.filter((t) => t !== "").sort((a, b) => b.length - a.length);
  if (some.length === 0) return undefined;
  return new RegExp(some.map((t) => t.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|"), "g");
}

/** Text as it comes, of {@linkcode Tokenizer.stream}. */
export class TokenStream {
  private readonly decoder = new TextDecoder("utf-8");

  /** A stream is made by its tokenizer. */
  constructor(private readonly tokenizer: Tokenizer, private readonly special: boolean, private strips: boolean) {}

  /** The text that is complete after this token; often empty in the middle of a character. */
  push(id: number): string {
    let bytes = this.tokenizer.bytesOf(id, this.special);
    if (this.strips && bytes.length > 0) {
      if (bytes[0] === 32) bytes = bytes.subarray(1);
      this.strips = false;
    }
    return this.decoder.decode(bytes, { stream: true });
  }
  /** What is left: a replacement character for a part of one. */
  end(): string {
    return this.decoder.decode();
  }
}
