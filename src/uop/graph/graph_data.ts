/**
 * Graphs as data that JSON keeps exactly: nodes once each, sources before users, with every op, dtype and argument. In:
 * roots; out: {@linkcode GraphData}, and from it the roots again, which are the same nodes where these are still interned.
 *
 * @module
 */
import { DType, DTYPES, dtypes } from "../../dtype/dtype.ts";
import { FormatError } from "../../helpers/errors.ts";
import {
  AccArg,
  type Arg,
  type ArgRecord,
  AxesArg,
  type AxisKind,
  axisKindName,
  BufferArg,
  Int64,
  LocalArg,
  OwnArg,
  PairsArg,
  ParamArg,
  RangeArg,
  ReduceArg,
  ShapeArg,
  SkewArg,
  StageArg,
  Storage,
  TensorMapArg,
  VariableArg,
  WindowArg,
} from "../core/args.ts";
import { CarrierArg } from "../core/carrier.ts";
import { carrierOfKey, isOfItsKey } from "../core/carrier_key.ts";
import { CustomArg, TextArg } from "../core/custom_arg.ts";
import { opName, Ops } from "../core/ops.ts";
import { CollectiveArg, MeshShape, type MoveKind, Sharding } from "../core/sharding.ts";
import { bufferNode, toposort, UOp, uop } from "../core/uop.ts";

/** A value of an argument as JSON: numbers that JSON has not are `{ number }`, what is absent is null. */
export type FieldData =
  | boolean
  | number
  | string
  | null
  | readonly FieldData[]
  | { readonly number: string }
  | { readonly dtype: string; readonly count: number }
  | { readonly node: number }
  | { readonly op: string };
/** An argument: a number or a text as it is, or the name of its record and the fields. */
export type ArgData = FieldData | { readonly record: string; readonly fields: readonly FieldData[] };

/** A graph as data. */
export interface GraphData {
  /** {@linkcode GRAPH_FORMAT}. */
  readonly format: string;
  /** {@linkcode GRAPH_VERSION}: data of another version is refused. */
  readonly version: number;
  /** Names of the ops that there are. */
  readonly ops: readonly string[];
  /** Dtypes that there are: the name of the scalar, and lanes. */
  readonly dtypes: readonly (readonly [name: string, lanes: number])[];
  /** Arguments that there are. */
  readonly args: readonly ArgData[];
  /** Memory that BUFFERs name. */
  readonly storages: readonly StorageData[];
  /** A node a row: positions in the tables above (-1 for no argument), then the rows of its sources. */
  readonly nodes: readonly (readonly [op: number, dtype: number, arg: number, ...src: number[]])[];
  /** The rows of the roots. */
  readonly roots: readonly number[];
}

/** Memory that a BUFFER names: what it holds is not kept. */
export interface StorageData {
  /** The number that it had: the same memory has the same. */
  readonly id: number;
  /** The name of the device. */
  readonly device: string;
  /** The name of the dtype. */
  readonly dtype: string;
  /** In elements. */
  readonly size: number;
}

/** What {@linkcode GraphData} is called. */
const GRAPH_FORMAT = "dinograd graph";
/** Its version. */
const GRAPH_VERSION = 1;

/** How the records of a class are written and read. */
export interface RecordFormat {
  /** What it is called in data. */
  readonly name: string;
  /** Whether a record is of the class. */
  is(arg: ArgRecord): boolean;
  /** The fields of such a record. */
  write(arg: ArgRecord): readonly Field[];
  /** The record of these fields; undefined where there is none. */
  read(fields: readonly Field[]): ArgRecord | undefined;
}

/** An op in a record: its number may be another one in the next version. */
interface OpField {
  readonly op: string;
}

/** A value in a record. */
export type Field = undefined | boolean | number | string | DType | UOp | OpField | readonly Field[];

/**
 * The format of records that are made of their fields. @param name of the class: in packages those of classes are others
 * @param write the arguments of the constructor
 */
function recordFormat<F extends readonly Field[], A extends ArgRecord>(
  name: string,
  type: new (...fields: F) => A,
  write: (arg: A) => [...F],
): RecordFormat {
  return readFormat(name, type, write, (...fields: F) => new type(...fields));
}

/** The same of records that are made in another way. */
function readFormat<F extends readonly Field[], A extends ArgRecord>(
  name: string,
  type: { readonly prototype: A },
  write: (arg: A) => F,
  read: (...fields: F) => ArgRecord | undefined,
): RecordFormat {
  return {
    name,
    is: (arg) => Object.prototype.isPrototypeOf.call(type.prototype, arg),
    write: (arg) => write(arg as A),
    read: (fields) => read(...fields as F),
  };
}

type MeshFields = [names: readonly string[], sizes: readonly number[], device: string];
function meshFields({ names, sizes, device }: MeshShape): MeshFields {
  return [names, sizes, device];
}

/** The records of this layer, but those of memory, which have a table of their own. */
const RECORDS: readonly RecordFormat[] = [
  recordFormat("Int64", Int64, (a) => [a.hi, a.lo]),
  recordFormat("ShapeArg", ShapeArg, (a) => [a.shape]),
  recordFormat("AxesArg", AxesArg, (a) => [a.axes]),
  recordFormat("PairsArg", PairsArg, (a) => [a.pairs]),
  recordFormat("SkewArg", SkewArg, (a) => [a.axis, a.kernelAxis, a.stride, a.dilation, a.size]),
  recordFormat("WindowArg", WindowArg, (a) => [a.axis, a.capacity]),
  recordFormat("VariableArg", VariableArg, (a) => [a.name, a.min, a.max]),
  recordFormat("ParamArg", ParamArg, (a) => [a.slot, a.size]),
  recordFormat("AccArg", AccArg, (a) => [a.id]),
  recordFormat("LocalArg", LocalArg, (a) => [a.id, a.size, a.scope]),
  recordFormat("OwnArg", OwnArg, (a) => [a.identity, a.device]),
  recordFormat("TensorMapArg", TensorMapArg, (a) => [a.offset, a.sizes, a.strides, a.box]),
  recordFormat("StageArg", StageArg, (a) => [a.id, a.scope, a.width, a.depth, a.isSwizzled]),
  recordFormat("CustomArg", CustomArg, (a) => [a.kernel]),
  recordFormat("TextArg", TextArg, (a) => [a.language, a.entry, a.text, a.written, a.groups, a.threads]),
  readFormat(
    "ReduceArg",
    ReduceArg,
    (a): [OpField, readonly number[]] => [{ op: opName[a.op] }, a.axes],
    ({ op }, axes) => new ReduceArg(opNamed(op), axes),
  ),
  readFormat(
    "RangeArg",
    RangeArg,
    (a): [number, string, number, number] => [a.id, axisKindName[a.kind], a.sub, a.first],
    (id, kind, sub, first) => {
      const at = axisKindName.indexOf(kind);
      return at < 0 ? undefined : new RangeArg(id, at as AxisKind, sub, first);
    },
  ),
  readFormat(
    "Sharding",
    Sharding,
    (
      a,
    ): [...MeshFields, readonly number[], readonly (string | undefined)[], boolean] => [
      ...meshFields(a.mesh),
      a.shape,
      a.axes.map((x) => x ?? undefined),
      a.isStored,
    ],
    (names, sizes, device, shape, axes, isStored) => {
      const mesh = new MeshShape(names, sizes, device);
      return new Sharding(mesh, shape, axes.map((x) => x ?? null), isStored);
    },
  ),
  readFormat(
    "CollectiveArg",
    CollectiveArg,
    (
      a,
    ): [...MeshFields, MoveKind, readonly string[], OpField, string | undefined, number] => [
      ...meshFields(a.mesh),
      a.kind,
      a.axes,
      { op: opName[a.op] },
      a.device,
      a.shift,
    ],
    (names, sizes, on, kind, axes, { op }, device, shift) => (
      new CollectiveArg(kind, new MeshShape(names, sizes, on), axes, opNamed(op), device, shift)
    ),
  ),
  readFormat(
    "CarrierArg",
    CarrierArg,
    (a): [string, readonly DType[]] => (
      isOfItsKey(a)
        ? [a.key, a.dtypes]
        : refuse("write", `no carrier that combines as it does is known by the key ${a.key}`)
    ),
    carrierOfKey,
  ),
];

/** Formats of records: `more`, and those of this layer. */
export class RecordFormats {
  private readonly all: readonly RecordFormat[];
  private readonly byName: ReadonlyMap<string, RecordFormat>;
  private readonly byClass = new Map<unknown, RecordFormat>();

  constructor(more: readonly RecordFormat[] = []) {
    this.all = [...more, ...RECORDS];
    this.byName = new Map(this.all.map((r) => [r.name, r]));
  }

  /** How a record is written; undefined where that is not known. */
  of(arg: ArgRecord): RecordFormat | undefined {
    if (arg instanceof CarrierArg) return this.all.find((r) => r.is(arg)); // whatever class it is of
    let format = this.byClass.get(arg.constructor);
    if (format === undefined) {
      format = this.all.find((r) => r.is(arg));
      if (format !== undefined) this.byClass.set(arg.constructor, format);
    }
    return format;
  }

  /** How records of this name are read; undefined where there are none. */
  named(name: string): RecordFormat | undefined {
    return this.byName.get(name);
  }
}

/** Those of this layer alone. */
const GRAPH_RECORDS = new RecordFormats();

function refuse(action: "write" | "read", reason: string): never {
  throw new FormatError(action, { file: "a graph", reason });
}

/** A table that gives each thing one position. */
export class Table<K, T> {
  readonly rows: T[] = [];
  private readonly places = new Map<K, number>();
  constructor(private readonly make: (key: K) => T) {}
  /** The position of what has this key. */
  at(key: K): number {
    let at = this.places.get(key);
    if (at === undefined) this.places.set(key, at = this.rows.push(this.make(key)) - 1);
    return at;
  }
}

function nameOf(op: Ops): string {
  return opName[op];
}
function lanesOf(d: DType): [name: string, lanes: number] {
  return [d.scalar.name, d.count];
}
function storageData({ id, device, dtype, size }: Storage): StorageData {
  return { id, device, dtype: dtype.name, size };
}

/** A number that a Map takes for 0. */
const NEGATIVE_ZERO = Symbol("-0");

/** An argument that has a row. */
interface WrittenArg {
  readonly arg: ArgRecord;
  readonly row: number;
}

class GraphWriter {
  private readonly ops = new Table(nameOf);
  private readonly dtypes = new Table(lanesOf);
  private readonly storages = new Table(storageData);
  private readonly args: ArgData[] = [];
  /** Rows of numbers and texts, and of carriers: they are as their text is, graphs compare their keys alone. */
  private readonly values = new Map<number | string | symbol | CarrierArg, number>();
  private readonly carriers = new Map<string, number>();
  /** Other records by their hashes, or the next number that is free: one of those that are the same. */
  private readonly records = new Map<number, WrittenArg>();
  private readonly nodes: (readonly [number, number, number, ...number[]])[] = [];
  /** The nodes, in which stands their row. */
  private readonly written: UOp[] = [];

  constructor(private readonly formats: RecordFormats) {}

  write(roots: readonly UOp[]): GraphData {
    this.add(roots);
    const { ops, dtypes, args, storages, nodes } = this;
    return {
      format: GRAPH_FORMAT,
      version: GRAPH_VERSION,
      ops: ops.rows,
      dtypes: dtypes.rows,
      args,
      storages: storages.rows,
      nodes,
      roots: roots.map(rowOf),
    };
  }

  /** The row of a node that an argument names. */
  rowOf(u: UOp): number {
    this.add([u]);
    return u.at;
  }

  /** Gives each of these nodes a row; those below them have theirs before. */
  private add(roots: readonly UOp[]): void {
    const { written, nodes } = this;
    for (const u of toposort(roots)) {
      if (written[u.at] === u) continue;
      const { op, dtype, src } = u, arg = this.argRow(u);
      nodes.push([this.ops.at(op), this.dtypes.at(dtype), arg, ...src.map(rowOf)]);
      u.at = written.push(u) - 1;
    }
  }

  /** The row of a node's argument; -1 where it has none. */
  private argRow(u: UOp): number {
    const { arg } = u;
    if (arg === undefined) return -1;
    if (arg instanceof CarrierArg) return this.carrierRow(u, arg);
    return typeof arg === "object" ? this.recordRow(u, arg) : this.valueRow(arg);
  }

  private valueRow(value: number | string): number {
    const key = Object.is(value, -0) ? NEGATIVE_ZERO : value;
    let row = this.values.get(key);
    if (row === undefined) this.values.set(key, row = this.args.push(fieldData(value)) - 1);
    return row;
  }

  private carrierRow(u: UOp, carrier: CarrierArg): number {
    let row = this.values.get(carrier);
    if (row !== undefined) return row;
    const data = this.record(u, carrier), text = JSON.stringify(data);
    row = this.carriers.get(text) ?? this.args.push(data) - 1;
    this.carriers.set(text, row);
    this.values.set(carrier, row);
    return row;
  }

  private recordRow(u: UOp, arg: ArgRecord): number {
    const { records } = this;
    let place = arg.hash;
    for (let known: WrittenArg | undefined; (known = records.get(place)) !== undefined; place++) {
      if (known.arg === arg || known.arg.same(arg)) return known.row;
    }
    const written = { arg, row: -1 };
    records.set(place, written);
    const data = this.record(u, arg); // may write others
    return written.row = this.args.push(data) - 1;
  }

  private record({ op }: UOp, arg: ArgRecord): ArgData {
    if (arg instanceof BufferArg) return { record: "BufferArg", fields: [this.storages.at(arg.storage), arg.version] };
    const format = this.formats.of(arg);
    if (format === undefined) {
      return refuse(
        "write",
        `the argument of a ${opName[op]} (${arg}) is a function of the program; realize it before`,
      );
    }
    return { record: format.name, fields: format.write(arg).map((f) => fieldData(f, this)) };
  }
}

/** Where a node stands that was written. */
function rowOf(u: UOp): number {
  return u.at;
}

/** A record as data of its own; undefined where it names nodes, or is a function of the program. */
export function recordData(arg: ArgRecord): ArgData | undefined {
  const format = RECORDS.find((r) => r.is(arg));
  if (format === undefined || (arg instanceof CarrierArg && !isOfItsKey(arg))) return undefined;
  const fields = format.write(arg);
  return fields.some((f) => f instanceof UOp)
    ? undefined
    : { record: format.name, fields: fields.map((f) => fieldData(f)) };
}

/** A number or a text as data. */
export function plainData(value: number | string): FieldData {
  return fieldData(value);
}

function fieldData(field: Field, writer?: GraphWriter): FieldData {
  if (field === undefined) return null;
  if (typeof field === "number") {
    return Number.isFinite(field) && !Object.is(field, -0)
      ? field
      : { number: Object.is(field, -0) ? "-0" : String(field) };
  }
  if (typeof field !== "object") return field;
  if (field instanceof UOp) return { node: writer!.rowOf(field) };
  if (Array.isArray(field)) return field.map((f) => fieldData(f, writer));
  return field instanceof DType ? { dtype: field.scalar.name, count: field.count } : field as OpField;
}

/** The dtype of a name, void and bits of memory included. */
function dtypeNamed(name: unknown, lanes: unknown = 1): DType {
  const known = [...DTYPES, dtypes.complex64, dtypes.complex128].find((d) => d.name === name);
  if (known === undefined || !Number.isInteger(lanes) || (lanes as number) < 1) {
    return refuse("read", `it has a dtype ${name} of ${lanes} lanes, which there is not`);
  }
  return known.vec(lanes as number);
}

function opNamed(name: unknown): Ops {
  const op = typeof name === "string" && Object.hasOwn(Ops, name) ? Ops[name as keyof typeof Ops] : undefined;
  return op ?? refuse("read", `it has an op ${name}, which there is not`);
}

/** What a BUFFER of data becomes. */
export type BufferOf = (storage: StorageData, version: number) => UOp;

/** New memory for each one that data names: it holds nothing. */
function newBuffers(): BufferOf {
  const made = new Map<number, Storage>(), nodes = new Map<string, UOp>();
  return ({ id, device, dtype, size }, version) => {
    const storage = made.get(id) ?? new Storage(device, dtypeNamed(dtype), size), key = `${id} ${version}`;
    made.set(id, storage);
    const node = nodes.get(key) ?? bufferNode(storage, version);
    nodes.set(key, node);
    return node;
  };
}

class GraphReader {
  private readonly rows: UOp[] = [];
  private readonly args: Arg[] = [];
  constructor(
    private readonly data: GraphData,
    private readonly formats: RecordFormats,
    private readonly buffer: BufferOf,
  ) {}

  read(): UOp[] {
    const { data, rows } = this, ops = data.ops.map(opNamed), types = data.dtypes.map((d) => dtypeNamed(...d));
    for (const row of data.nodes) {
      const src: UOp[] = [];
      for (let i = 3; i < row.length; i++) src.push(this.pick(rows, row[i]));
      rows.push(this.made(this.pick(ops, row[0]), this.pick(types, row[1]), src, row[2]));
    }
    return data.roots.map((r) => this.node(r));
  }

  private made(op: Ops, dtype: DType, src: readonly UOp[], row: number): UOp {
    if (row === -1 && op !== Ops.BUFFER) return uop(op, dtype, src);
    const data = this.pick(this.data.args, row);
    // what an argument is made of stands before the first node that has it
    if (op !== Ops.BUFFER) return uop(op, dtype, src, this.args[row] ??= this.arg(data));
    const [storage, version] = (data as { readonly fields?: readonly FieldData[] }).fields ?? [];
    return this.buffer(this.pick(this.data.storages, storage), version as number);
  }

  private node(row: unknown): UOp {
    return this.pick(this.rows, row);
  }
  private pick<T>(table: readonly T[], at: unknown): T {
    if (typeof at === "number" && table[at] !== undefined) return table[at];
    return refuse("read", `it refers to row ${at} of a table of ${table.length}`);
  }

  private arg(data: ArgData): Arg {
    if (typeof data !== "object" || data === null || !("record" in data)) return this.field(data) as number | string;
    const made = this.formats.named(data.record)?.read(data.fields.map((f) => this.field(f)));
    return made ?? refuse("read", `it has an argument ${data.record} ${JSON.stringify(data.fields)}, which is none`);
  }

  private field(data: FieldData): Field {
    if (data === null) return undefined;
    if (typeof data !== "object") return data;
    if (Array.isArray(data)) return data.map((d) => this.field(d));
    const record = data as Exclude<typeof data, readonly FieldData[]>;
    if ("node" in record) return this.node(record.node);
    if ("number" in record) return Number(record.number);
    return "dtype" in record ? dtypeNamed(record.dtype, record.count) : record;
  }
}

/**
 * The graph of these roots as data that `JSON.stringify` keeps exactly: NaN, -0 and 64-bit values, too. What memory holds
 * is no part of it, nor are lines.
 *
 * @param formats of its records
 * @throws {FormatError} where an argument is a function of the program: the formula of a gradient
 */
export function graphData(roots: readonly UOp[], formats: RecordFormats = GRAPH_RECORDS): GraphData {
  return new GraphWriter(formats).write(roots);
}

/**
 * The roots of data: nodes that still exist are these nodes.
 *
 * @param formats as {@linkcode graphData} was given
 * @param buffer what BUFFERs become; new memory, which holds nothing, where it is left out
 * @throws {FormatError} for data of another version, or that is none
 */
export function graphOf(data: GraphData, formats: RecordFormats = GRAPH_RECORDS, buffer?: BufferOf): UOp[] {
  if (data?.format !== GRAPH_FORMAT) refuse("read", `its format is ${data?.format}, not ${GRAPH_FORMAT}`);
  if (data.version !== GRAPH_VERSION) {
    refuse("read", `it is of version ${data.version}, and this is version ${GRAPH_VERSION}: write it again`);
  }
  return new GraphReader(data, formats, buffer ?? newBuffers()).read();
}
