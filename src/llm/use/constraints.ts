/**
 * Grammars of requests, compiled once: the same one is often asked for again.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkText } from "../../helpers/options.ts";
import { GrammarMachine } from "../grammar/automaton.ts";
import { type Grammar, readGbnf } from "../grammar/grammar.ts";
import { jsonGrammar } from "../grammar/json_schema.ts";
import { GrammarConstraint, TokenTree } from "../grammar/token_masks.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import type { GenerateOptions } from "./generation.ts";

/** Machines that are kept. */
const KEPT = 32;

/** The grammars of a model's texts. */
export class Constraints {
  private readonly machines: Map<string, GrammarMachine> = new Map();
  private tree: TokenTree | undefined;
  constructor(private readonly tokenizer: Tokenizer, private readonly vocabulary: number) {}

  /** What options ask for. @throws {ArgumentError} for a grammar or a schema that is none, and for both */
  of(action: string, { grammar, schema }: GenerateOptions): GrammarConstraint | undefined {
    if (grammar === undefined && schema === undefined) return undefined;
    if (grammar !== undefined && schema !== undefined) {
      throw new ArgumentError(action, { reason: "grammar and schema are both given" });
    }
    const machine = grammar === undefined
      ? this.machine(`schema ${JSON.stringify(schema)}`, () => jsonGrammar(schema))
      : this.machine(`grammar ${checkText(action, "grammar", grammar)}`, () => readGbnf(grammar));
    this.tree ??= new TokenTree(this.tokenizer, this.vocabulary);
    return new GrammarConstraint(machine, this.tree);
  }
  /** The machine of this key; those that were not asked for longest go. */
  private machine(key: string, make: () => Grammar): GrammarMachine {
    const machine = this.machines.get(key) ?? new GrammarMachine(make());
    this.machines.delete(key);
    this.machines.set(key, machine);
    if (this.machines.size > KEPT) this.machines.delete(this.machines.keys().next().value!);
    return machine;
  }
}
