/**
 * One node as an operator sees it: its inputs as tensors or as numbers of the host, its attributes, the version of its
 * operator set. In: a node and items; out: what the functions of the tables in ops work on. Errors name the node.
 *
 * @module
 */
import { FormatError } from "../../helpers/errors.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { DType } from "../../dtype/dtype.ts";
import type { Attribute, Graph, Node } from "../wire/messages.ts";
import { elementType, typeName } from "../wire/element_types.ts";
import { FEWER, inputsText, longList } from "./room.ts";
import type { Size } from "./variable_sizes.ts";
import { decodeTensor, type External, type HostData, type Item, Optional, Sequence, Value, valueOf } from "./value.ts";

/** What an operator gives: an item or tensor for each output, in order. */
export type Result = Item | Tensor | undefined | readonly (Item | Tensor | undefined)[];
/** A computation that may ask for values on the host: each value that it yields is read before it goes on. */
export type Steps<T> = Generator<Value, T, void>;
/** Runs a graph of a node, which sees the names around it, on items for its inputs. */
export type RunGraph = (graph: Graph, inputs: readonly Item[]) => Steps<Item[]>;

/** An operator: the row of a table. */
export interface OpRow {
  readonly domain: string;
  readonly name: string;
  /** The first version of the operator set that it is written for. */
  readonly since: number;
  /** Inputs that it needs on the host, or all. */
  readonly host: readonly number[] | "all";
  readonly run: (c: Call) => Result | Steps<Result>;
  /** Attributes that it heeds; a node with another one is refused, where this is said. */
  readonly heeds?: readonly string[];
}

/** A row of ai.onnx. */
export function op(name: string, run: OpRow["run"], host: OpRow["host"] = [], since = 1, domain = ""): OpRow {
  return { domain, name, since, host, run };
}

const decoder = new TextDecoder();
/** The types of attributes, as AttributeProto numbers them; files before version 3 of the format do not say. */
const ATTRIBUTES = ["", "a float", "a whole number", "text", "a tensor", "a graph", "floats", "whole numbers", "texts"];

/** The attribute that an operator does not heed, and that is not nothing; undefined where there is none. */
export function unheeded(row: OpRow, attributes: ReadonlyMap<string, Attribute>): string | undefined {
  const isNothing = (a: Attribute): boolean =>
    a.i === 0 && a.f === 0 && a.s.length === 0 && a.ints.length === 0 && a.floats.length === 0 && a.t === undefined;
  return row.heeds && [...attributes].find(([name, a]) => !row.heeds!.includes(name) && !isNothing(a))?.[0];
}

/** How a node is called in errors. */
export function nodeText(node: Node): string {
  const type = node.domain === "" ? node.op : `${node.domain}.${node.op}`;
  return node.name === ""
    ? `the ${type} that gives ${node.outputs.find((o) => o !== "") ?? "nothing"}`
    : `${type} "${node.name}"`;
}
/** Makes an error of a node. */
export function nodeError(node: Node, reason: string, cause?: unknown): FormatError {
  return new FormatError("run ONNX node", { file: nodeText(node), reason, cause });
}

/** A node with its inputs. */
export class Call {
  /** @param version of the operator set of its domain */
  constructor(
    readonly node: Node,
    readonly inputs: readonly (Item | undefined)[],
    readonly version: number,
    private readonly place: { readonly device: string; readonly external: External | undefined },
    private readonly attributes: ReadonlyMap<string, Attribute>,
    readonly run: RunGraph,
  ) {}

  /** Where its tensors are. */
  get device(): string {
    return this.place.device;
  }
  /** The error that names the node. */
  fail(reason: string): FormatError {
    return nodeError(this.node, reason);
  }
  /** How many positions a list that the host makes may have: `n`, unless that is none, or more than the host makes. */
  list(n: number): number {
    if (!(Number.isInteger(n) && n >= 0)) throw this.fail(`${n} is no size (${inputsText(this.inputs)})`);
    const long = longList(n);
    if (long !== undefined) throw this.fail(`${long} at most (${inputsText(this.inputs)}): ${FEWER}`);
    return n;
  }
  /** How many inputs are listed. */
  get count(): number {
    return this.inputs.length;
  }
  /** Whether an input is given. */
  has(i: number): boolean {
    return this.inputs[i] !== undefined;
  }
  /** Whether an output is asked for. */
  wants(i: number): boolean {
    return (this.node.outputs[i] ?? "") !== "";
  }
  /** An input, whatever it is. */
  item(i: number): Item {
    const item = this.inputs[i];
    if (item === undefined) throw this.fail(`its input ${i} is missing`);
    return item;
  }
  /** An input that is a tensor. */
  value(i: number): Value {
    let item = this.item(i);
    if (item instanceof Optional && item.item !== undefined) item = item.item;
    if (item instanceof Value) return item;
    throw this.fail(`its input ${i} is ${item instanceof Sequence ? "a sequence" : "an optional"}, not a tensor`);
  }
  /** An input that is a sequence. */
  items(i: number): readonly Item[] {
    let item = this.item(i);
    if (item instanceof Optional && item.item !== undefined) item = item.item;
    if (item instanceof Sequence) return item.items;
    throw this.fail(`its input ${i} is no sequence`);
  }
  /** An input on the device. */
  x(i: number): Tensor {
    const v = this.value(i);
    if (v.isText) throw this.fail(`its input ${i} is text`);
    return v.tensor(this.device);
  }
  /** An input on the device, if given. */
  opt(i: number): Tensor | undefined {
    return this.has(i) ? this.x(i) : undefined;
  }
  /** All inputs on the device. */
  xs(): Tensor[] {
    return this.inputs.map((_, i) => this.x(i));
  }
  /** The code of an input's elements. */
  type(i: number): number {
    return this.value(i).type;
  }
  /** The shape of an input. */
  shape(i: number): readonly number[] {
    return this.value(i).shape;
  }
  /** What the host knows of an input. */
  data(i: number): HostData {
    const { data } = this.value(i);
    if (data === undefined) throw this.fail(`its input ${i} is not known on the host`);
    return data;
  }
  /** Numbers of an input that is listed as `host`. */
  numbers(i: number): number[] {
    const v = this.value(i);
    if (v.isText) throw this.fail(`its input ${i} is text, not ${typeName(7)}`);
    if (v.isSymbolic) {
      throw this.fail(
        `its input ${i} depends on a variable that is the size of an axis, which ${this.node.op} cannot take`,
      );
    }
    return Array.from(this.data(i) as ArrayLike<number>);
  }
  /** Numbers of an input that is listed as `host`, among them variables that are sizes. */
  sizes(i: number): Size[] {
    return this.value(i).isSymbolic ? Array.from(this.data(i) as ArrayLike<Size>) : this.numbers(i);
  }
  /** Texts of an input that is listed as `host`. */
  texts(i: number): string[] {
    if (!this.value(i).isText) throw this.fail(`its input ${i} is ${typeName(this.type(i))}, not text`);
    return Array.from(this.data(i) as ArrayLike<string>);
  }
  /** The one number of an input that is listed as `host`, or `otherwise` where it is not given. */
  number(i: number, otherwise?: number): number {
    if (!this.has(i) && otherwise !== undefined) return otherwise;
    const list = this.numbers(i);
    if (list.length !== 1) throw this.fail(`its input ${i} has ${list.length} elements, not 1`);
    return list[0];
  }

  /** Whether an attribute is there. */
  hasAttribute(name: string): boolean {
    return this.attributes.has(name);
  }
  /** A whole number. */
  int(name: string, otherwise?: number): number {
    return this.attribute(name, otherwise, 2, (a) => a.i);
  }
  /** A number. */
  float(name: string, otherwise?: number): number {
    return this.attribute(name, otherwise, 1, (a) => a.f);
  }
  /** Text. */
  text(name: string, otherwise?: string): string {
    return this.attribute(name, otherwise, 3, (a) => decoder.decode(a.s));
  }
  /** Whole numbers. */
  ints(name: string, otherwise?: readonly number[]): readonly number[] {
    return this.attribute(name, otherwise, 7, (a) => a.ints);
  }
  /** Numbers. */
  floats(name: string, otherwise?: readonly number[]): readonly number[] {
    return this.attribute(name, otherwise, 6, (a) => a.floats);
  }
  /** Texts. */
  strings(name: string, otherwise?: readonly string[]): readonly string[] {
    return this.attribute(name, otherwise, 8, (a) => a.strings.map((s) => decoder.decode(s)));
  }
  /** A graph. */
  graph(name: string): Graph {
    return this.attribute(name, undefined, 5, (a) => a.g) ?? this.absent(name);
  }
  /** A tensor. */
  constant(name: string): Value | undefined {
    const t = this.attributes.get(name)?.t;
    const bad = (reason: string) => this.fail(`its attribute ${name} ${reason}`);
    return t && decodeTensor(t, bad, this.place);
  }
  /** An axis from 0 on. */
  axis(axis: number, rank: number): number {
    if (!Number.isInteger(axis) || axis < -rank || axis >= rank) {
      throw this.fail(`axis ${axis} is outside of the ${rank} axes`);
    }
    return axis < 0 ? axis + rank : axis;
  }
  /** Axes, which newer versions take as an input and older ones as an attribute; undefined where neither says. */
  axes(i: number, rank: number, name = "axes"): number[] | undefined {
    const list = this.has(i) ? this.numbers(i) : this.hasAttribute(name) ? this.ints(name) : undefined;
    return list?.map((a) => this.axis(a, rank));
  }
  /** A tensor of the type that an input has. */
  like(t: Tensor, i = 0): Value {
    const type = this.type(i);
    return valueOf(t.cast(this.dtype(type)), type);
  }
  /** What holds a type. */
  dtype(code: number): DType {
    const type = elementType(code);
    if (type === undefined || type.bits === 0) throw this.fail(`${typeName(code)} is no type of numbers`);
    return type.dtype;
  }

  private absent(name: string): never {
    throw this.fail(`its attribute ${name} is missing`);
  }
  private attribute<T>(name: string, otherwise: T | undefined, type: number, read: (a: Attribute) => T): T {
    const a = this.attributes.get(name);
    if (a !== undefined) {
      if (a.type !== 0 && a.type !== type) {
        throw this.fail(
          `its attribute ${name} is ${ATTRIBUTES[a.type] ?? `of type ${a.type}`}, not ${ATTRIBUTES[type]}`,
        );
      }
      return read(a);
    }
    return otherwise === undefined ? this.absent(name) : otherwise;
  }
}
