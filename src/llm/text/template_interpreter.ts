/**
 * `@huggingface/jinja` with the meaning that Python's jinja2 gives to templates, where the two differ: how values are
 * written, filters, tests, methods, operators, loops. To read templates, scopes, macros and calls are the package's.
 *
 * @module
 */
import { Arguments, FILTERS, methodOf, TESTS, type Tools } from "./template_filters.ts";
import {
  type Callable,
  contains,
  defined,
  equal,
  escaped,
  isSafe,
  isTrue,
  itemsOf,
  keyOf,
  numberOf,
  order,
  Safe,
  type Scope,
  textOf,
  Tuple,
  typeName,
  type Value,
} from "./template_values.ts";

/** A node of a template, as the package reads it. */
export interface TemplateNode {
  readonly type: string;
  readonly [field: string]: unknown;
}
interface Token {
  readonly type: string;
  readonly value: string;
}
interface Interpreter {
  readonly global: Scope & { readonly tests: ReadonlyMap<string, (x: Value, y: Value) => boolean> };
  run(program: TemplateNode): Value;
  evaluate(node: TemplateNode, scope: Scope): Value;
  evaluateBlock(nodes: readonly TemplateNode[], scope: Scope): Value;
  evaluateArguments(nodes: readonly TemplateNode[], scope: Scope): [Value[], Map<string, Value>];
  applyFilter(x: Value, filter: TemplateNode, scope: Scope): Value;
}
/** What is used of the package. */
export interface Jinja {
  readonly Environment: new (parent?: Scope) => Scope & { set(name: string, value: unknown): Value };
  readonly Interpreter: new (scope: Scope) => Interpreter;
  readonly tokenize: (text: string, options: Readonly<Record<string, boolean>>) => Token[];
  readonly parse: (tokens: readonly Token[]) => TemplateNode;
}

/** The end of a loop, or of one turn of it, with what was written before. */
class Leave {
  text = "";
  constructor(readonly loop: boolean) {}
}
const STATEMENTS: ReadonlySet<string> = new Set(
  ["Set", "If", "For", "Macro", "CallStatement", "FilterStatement", "Comment"],
);

const ARGUMENT: ReadonlySet<string> = new Set(
  ["Identifier", "StringLiteral", "NumericLiteral", "OpenParen", "OpenSquareBracket", "OpenCurlyBracket"],
);
/** Where the value ends that begins at `at`, with what is called or looked up of it. */
function endOf(tokens: readonly Token[], at: number): number {
  let depth = 0;
  for (let i = at; i < tokens.length; i++) {
    if (tokens[i].type.startsWith("Open")) depth++;
    if (tokens[i].type.startsWith("Close")) depth--;
    const next = tokens[i + 1]?.type;
    if (depth === 0 && tokens[i].type !== "Dot" && !/^(Dot|OpenParen|OpenSquareBracket)$/.test(next)) return i + 1;
  }
  return tokens.length;
}
/** Tests with arguments, which the package does not read, as filters: `x is not in y` as `x | "is not in"(y)`. */
function testsAsFilters(tokens: readonly Token[]): Token[] {
  const out: Token[] = [], put = (type: string, value = "") => out.push({ type, value });
  for (let i = 0; i < tokens.length; i++) {
    const words = tokens[i].type === "Identifier" && tokens[i].value === "is"
      ? tokens[i + 1]?.value === "not" ? 3 : 2
      : 0;
    const start = i + words, argument = tokens[start];
    const has = words > 0 && argument && ARGUMENT.has(argument.type) &&
      !/^(and|or|else|if|is|not|in)$/.test(argument.value);
    if (!has) {
      out.push(tokens[i]);
      continue;
    }
    const end = endOf(tokens, start), inner = testsAsFilters(tokens.slice(start, end));
    put("Pipe");
    put("Identifier", tokens.slice(i, start).map((token) => token.value).join(" "));
    if (argument.type === "OpenParen") out.push(...inner);
    else {
      put("OpenParen");
      out.push(...inner);
      put("CloseParen");
    }
    i = end - 1;
  }
  return out;
}
/** A template as the package reads it, with lines as transformers sets them. */
export function parsed({ tokenize, parse }: Jinja, template: string): TemplateNode {
  return parse(testsAsFilters(tokenize(template, { lstrip_blocks: true, trim_blocks: true })));
}

/** The arguments of a call: the package puts those with names into a last one. */
function argumentsOf(all: readonly Value[]): Arguments {
  const last = all.at(-1);
  return last?.type === "KeywordArgumentsValue" ? new Arguments(all.slice(0, -1), last.value) : new Arguments(all);
}

/** The package's interpreter, as Python understands templates. */
export function interpreterOf({ Environment, Interpreter }: Jinja): Jinja["Interpreter"] {
  for (const method of ["evaluateBlock", "evaluateArguments", "applyFilter"]) {
    if (!(method in Interpreter.prototype)) throw new Error("@huggingface/jinja is another version than 0.5.11");
  }
  type Kind = new (value: unknown) => Value;
  const kind = (x: unknown) => new Environment().set("x", x).constructor as Kind;
  const Text = kind(""), Int = kind(0), Real = kind(0.5), Bool = kind(true), Null = kind(null), None = kind(undefined);
  const List = kind([]), Dict = kind({}), Call = kind(() => {}), Any = Object.getPrototypeOf(Text) as Kind;
  function of(x: unknown): Value {
    if (x instanceof Any) return x;
    if (x instanceof Safe) return Object.assign(new Text(x.text), { safe: true });
    if (x instanceof Tuple) return Object.assign(new List(x.items.map(of)), { tuple: true });
    if (Array.isArray(x)) return new List(x.map(of));
    if (x instanceof Map) return new Dict(x);
    if (typeof x === "string") return new Text(x);
    if (typeof x === "number") return Number.isInteger(x) ? new Int(x) : new Real(x);
    if (typeof x === "boolean") return new Bool(x);
    if (typeof x === "function") return new Call(x);
    if (x === undefined || x === null) return x === null ? new Null(x) : new None(x);
    return new Dict(new Map(Object.entries(x).map(([key, item]) => [key, of(item)])));
  }
  const undefinedAs = (why: string): Value => Object.assign(of(undefined), { why });
  const constant = (value: Value): TemplateNode => ({ type: "Constant", value });

  class PythonInterpreter extends Interpreter implements Tools {
    of(plain: unknown): Value {
      return of(plain);
    }

    override evaluate(node: TemplateNode, scope: Scope): Value {
      const part = (name: string) => this.evaluate(node[name] as TemplateNode, scope);
      switch (node?.type) {
        case "Constant":
          return node.value as Value;
        case "Program":
          return this.evaluateBlock(node.body as TemplateNode[], scope);
        case "If":
          return this.evaluateBlock((isTrue(part("test")) ? node.body : node.alternate) as TemplateNode[], scope);
        case "For":
          return this.loop(node, scope);
        case "Break":
        case "Continue":
          throw new Leave(node.type === "Break");
        case "Macro":
          return this.macro(node, scope);
        case "Identifier": {
          const x = scope.lookupVariable(node.value as string);
          return x.type === "UndefinedValue" ? undefinedAs(x.why ?? `'${node.value}' is undefined`) : x;
        }
        case "TupleLiteral":
          return of(new Tuple((node.value as TemplateNode[]).map((item) => this.evaluate(item, scope))));
        case "ObjectLiteral": {
          const items = [...node.value as Map<TemplateNode, TemplateNode>].map((pair) =>
            pair.map((x) => this.evaluate(x, scope))
          );
          return of(new Map(items.map(([key, x]) => [keyOf(key), x])));
        }
        case "CallExpression":
          return super.evaluate({ ...node, callee: constant(defined(part("callee"))) }, scope);
        case "MemberExpression": {
          const x = defined(part("object")), key = node.property as TemplateNode;
          if (key.type === "SliceExpression") return super.evaluate({ ...node, object: constant(x) }, scope);
          return node.computed ? this.member(x, part("property"), true) : this.member(x, of(key.value));
        }
        case "BinaryExpression": {
          const operator = (node.operator as Token).value, left = part("left");
          if (operator !== "and" && operator !== "or") return of(this.operate(operator, left, part("right")));
          return isTrue(left) === (operator === "and") ? part("right") : left;
        }
        case "TestExpression":
          return of(this.test((node.test as Token).value, part("operand"), []) !== node.negate);
        default:
          return super.evaluate(node, scope);
      }
    }

    /** What statements write, and the texts of expressions among them. */
    override evaluateBlock(body: readonly TemplateNode[], scope: Scope): Value {
      let text = "";
      for (const node of body) {
        try {
          const x = this.evaluate(node, scope);
          if (!STATEMENTS.has(node.type) || x.type === "StringValue") text += textOf(x);
        } catch (error) {
          if (error instanceof Leave) error.text = text + error.text;
          throw error;
        }
      }
      return of(text);
    }

    /** A loop: each turn has variables of its own. */
    loop(node: TemplateNode, scope: Scope): Value {
      const from = node.iterable as TemplateNode, chosen = from.type === "SelectExpression";
      const turn = (x: Value) => {
        const inner = new Environment(scope), target = node.loopvar as TemplateNode;
        if (target.type === "Identifier") inner.setVariable(target.value as string, x);
        else this.evaluate({ type: "Set", assignee: target, value: constant(x) }, inner);
        return inner;
      };
      const all = itemsOf(this.evaluate((chosen ? from.lhs : from) as TemplateNode, scope)).map(of).filter((x) =>
        !chosen || isTrue(this.evaluate(from.test as TemplateNode, turn(x)))
      );
      let text = "";
      for (const [i, x] of all.entries()) {
        const inner = turn(x), n = all.length, cycle = (items: Value[]) => items[i % items.length];
        const loop = {
          ...{ index: i + 1, index0: i, revindex: n - i, revindex0: n - i - 1, first: i === 0, last: i === n - 1 },
          ...{ length: n, previtem: all[i - 1], nextitem: all[i + 1], cycle, depth: 1, depth0: 0 },
        };
        inner.setVariable("loop", of(loop));
        try {
          text += textOf(this.evaluateBlock(node.body as TemplateNode[], inner));
        } catch (error) {
          if (!(error instanceof Leave)) throw error;
          text += error.text;
          if (error.loop) break;
        }
      }
      return all.length > 0
        ? of(text)
        : this.evaluateBlock(node.defaultBlock as TemplateNode[], new Environment(scope));
    }

    /** A macro: it sees the variables of where it stands, not those of where it is called. */
    macro(node: TemplateNode, scope: Scope): Value {
      const result = super.evaluate(node, scope), name = (node.name as Token).value;
      const { value } = scope.lookupVariable(name) as { value: Callable };
      const called: Callable = (args, from) => {
        const inner = new Environment(scope), caller = from.variables.get("caller");
        if (caller !== undefined) inner.setVariable("caller", caller);
        return value(args, inner);
      };
      scope.setVariable(name, of(called));
      return result;
    }

    member(x: Value, key: Value, bracket = false): Value {
      const name = key.value, method = methodOf(x, name);
      const item = () => {
        if (x.value instanceof Map) return x.value.get(name);
        return typeof name === "number" && x.type !== "NullValue" ? itemsOf(x).at(name) : undefined;
      };
      const attribute = () => {
        if (method !== undefined) return (all: Value[]) => of(method(argumentsOf(all), this));
        const own = x.type === "StringValue" ? x.builtins?.get(name) : undefined;
        return own?.type === "FunctionValue" ? own : undefined;
      };
      const found = bracket ? item() ?? attribute() : attribute() ?? item();
      const owner = x.type === "NullValue" ? "None" : `${typeName(x)} object`;
      return found === undefined ? undefinedAs(`'${owner}' has no attribute ${textOf(key, true)}`) : of(found);
    }

    test(name: string, x: Value, args: readonly Value[]): boolean {
      const is = Object.hasOwn(TESTS, name) ? TESTS[name] : this.global.tests.get(name);
      if (is === undefined) throw new Error(`No test named '${name}'`);
      return is(x, args[0]);
    }

    filter(name: string, x: Value, args: Arguments): Value {
      const [is, not, ...rest] = name.split(" ");
      if (is === "is") return of(this.test(rest[0] ?? not, x, args.positional) === (rest.length === 0));
      if (Object.hasOwn(FILTERS, name)) return of(FILTERS[name](x, args, this));
      const callee: TemplateNode = { type: "Identifier", value: name },
        nodes: TemplateNode[] = args.positional.map(constant);
      for (const [value, given] of args.named) {
        nodes.push({ type: "KeywordArgumentExpression", key: { value }, value: constant(given) });
      }
      return super.applyFilter(
        x,
        nodes.length === 0 ? callee : { type: "CallExpression", callee, args: nodes },
        this.global,
      );
    }

    override applyFilter(x: Value, node: TemplateNode, scope: Scope): Value {
      if (node.type === "Identifier") return this.filter(node.value as string, x, new Arguments([]));
      const args = this.evaluateArguments(node.args as TemplateNode[], scope);
      return this.filter((node.callee as TemplateNode).value as string, x, new Arguments(...args));
    }

    operate(operator: string, a: Value, b: Value): unknown {
      if (operator === "==" || operator === "!=") return equal(a, b) === (operator === "==");
      if (operator === "in" || operator === "not in") return contains(b, a) === (operator === "in");
      if (operator === "<" || operator === ">=") return order(a, b) < 0 === (operator === "<");
      if (operator === ">" || operator === "<=") return order(a, b) > 0 === (operator === ">");
      const text = a.type === "StringValue" || b.type === "StringValue";
      if (operator === "~" || operator === "+" && text) {
        if (operator === "+" && a.type !== b.type) {
          throw new Error(`cannot concatenate ${typeName(defined(a))} and ${typeName(defined(b))}`);
        }
        return operator === "+" && (isSafe(a) || isSafe(b)) ? new Safe(escaped(a) + escaped(b)) : textOf(a) + textOf(b);
      }
      if (operator === "*" && a.type === "StringValue") return a.value.repeat(Math.max(0, numberOf(b) ?? 0));
      const node = { type: "BinaryExpression", operator: { value: operator }, left: constant(a), right: constant(b) };
      const result = super.evaluate(node, this.global), [rest, by] = [numberOf(result)!, numberOf(b)!];
      // a rest has the sign of the divisor
      return operator === "%" && rest * by < 0 ? this.operate("+", result, b) : result;
    }
  }
  return PythonInterpreter;
}
