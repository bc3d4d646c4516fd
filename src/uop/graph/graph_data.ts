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

/** A table that gives each thing one position. */
class Table<K, T> {
  readonly rows: T[] = [];
  private readonly places = new Map<K, number>();
  /** The position of what has this key; `make` gives its row. */
  at(key: K, make: () => T): number {
    let at = this.places.get(key);
    if (at === undefined) {
      const row = make();
      this.places.set(key, at = this.rows.push(row) - 1);
    }
    return at;
  }
}

/** Records that graphs take for one, by their hashes: one of each. */
class SameRecords {
  private readonly byHash = new Map<number, ArgRecord[]>();
  /** The first record that is the same as this one: itself where it is new. */
  first(arg: ArgRecord): ArgRecord {
    const found = this.byHash.get(arg.hash);
    if (found === undefined) this.byHash.set(arg.hash, [arg]);
    else {
      for (const other of found) if (other === arg || other.same(arg)) return other;
      found.push(arg);
    }
    return arg;
  }
}

function refuse(action: "write" | "read", reason: string): never {
  throw new FormatError(action, { file: "a graph", reason });
}

/** A number that a Map takes for 0. */
const NEGATIVE_ZERO = Symbol("-0");

class GraphWriter {
  private readonly ops = new Table<number, string>();
  private readonly dtypes = new Table<DType, [string, number]>();
  /** By number, text or record. */
  private readonly args = new Table<number | string | symbol | ArgRecord, ArgData>();
  private readonly same = new SameRecords();
  /** Carriers by their text: graphs compare their keys alone. */
  private readonly carriers = new Map<string, CarrierArg>();
  private readonly formats = new Map<unknown, RecordFormat>();
  private readonly storages = new Table<Storage, StorageData>();
  private readonly nodes: [number, number, number, ...number[]][] = [];
  private readonly rows = new Map<UOp, number>();
  private readonly rowOf = (u: UOp): number => {
    this.add([u]);
    return this.rows.get(u)!;
  };

  constructor(private readonly records: readonly RecordFormat[]) {}

  write(roots: readonly UOp[]): GraphData {
    this.add(roots);
    const { ops, dtypes, args, storages, nodes, rows } = this;
    return {
      format: GRAPH_FORMAT,
      version: GRAPH_VERSION,
      ops: ops.rows,
      dtypes: dtypes.rows,
      args: args.rows,
      storages: storages.rows,
      nodes,
      roots: roots.map((u) => rows.get(u)!),
    };
  }

  /** Gives each of these nodes a row; those below them have theirs before. */
  private add(roots: readonly UOp[]): void {
    const { rows, nodes } = this;
    for (const u of toposort(roots)) {
      if (rows.has(u)) continue;
      const { op, dtype, src } = u, arg = this.arg(u);
      const row: [number, number, number, ...number[]] = [
        this.ops.at(op, () => opName[op]),
        this.dtypes.at(dtype, () => [dtype.scalar.name, dtype.count]),
        arg,
      ];
      for (const s of src) row.push(rows.get(s)!);
      rows.set(u, nodes.push(row) - 1);
    }
  }

  private arg({ op, arg }: UOp): number {
    if (arg === undefined) return -1;
    if (typeof arg !== "object") return this.args.at(Object.is(arg, -0) ? NEGATIVE_ZERO : arg, () => fieldData(arg));
    if (arg instanceof CarrierArg) {
      const data = this.record(op, arg), text = JSON.stringify(data), first = this.carriers.get(text) ?? arg;
      this.carriers.set(text, first);
      return this.args.at(first, () => data);
    }
    return this.args.at(this.same.first(arg), () => this.record(op, arg));
  }

  private record(op: Ops, arg: ArgRecord): ArgData {
    if (arg instanceof BufferArg) return { record: "BufferArg", fields: [this.storage(arg.storage), arg.version] };
    const format = this.formatOf(arg);
    if (format === undefined) {
      return refuse(
        "write",
        `the argument of a ${opName[op]} (${arg}) is a function of the program; realize it before`,
      );
    }
    return { record: format.name, fields: format.write(arg).map((f) => fieldData(f, this.rowOf)) };
  }

  private formatOf(arg: ArgRecord): RecordFormat | undefined {
    if (arg instanceof CarrierArg) return this.records.find((r) => r.is(arg)); // whatever class it is of
    let format = this.formats.get(arg.constructor);
    if (format === undefined) {
      format = this.records.find((r) => r.is(arg));
      if (format !== undefined) this.formats.set(arg.constructor, format);
    }
    return format;
  }

  private storage(s: Storage): number {
    return this.storages.at(s, () => ({ id: s.id, device: s.device, dtype: s.dtype.name, size: s.size }));
  }
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

function fieldData(field: Field, row?: (u: UOp) => number): FieldData {
  if (field === undefined) return null;
  if (typeof field === "number") {
    return Number.isFinite(field) && !Object.is(field, -0)
      ? field
      : { number: Object.is(field, -0) ? "-0" : String(field) };
  }
  if (typeof field !== "object") return field;
  if (field instanceof UOp) return { node: row!(field) };
  if (Array.isArray(field)) return field.map((f) => fieldData(f, row));
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
    private readonly records: readonly RecordFormat[],
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
    const format = this.records.find((r) => r.name === data.record);
    const made = format?.read(data.fields.map((f) => this.field(f)));
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
 * @param more formats of records that are of no op here
 * @throws {FormatError} where an argument is a function of the program: the formula of a gradient
 */
export function graphData(roots: readonly UOp[], more: readonly RecordFormat[] = []): GraphData {
  return new GraphWriter([...more, ...RECORDS]).write(roots);
}

/**
 * The roots of data: nodes that still exist are these nodes.
 *
 * @param more as {@linkcode graphData} was given
 * @param buffer what BUFFERs become; new memory, which holds nothing, where it is left out
 * @throws {FormatError} for data of another version, or that is none
 */
export function graphOf(data: GraphData, more: readonly RecordFormat[] = [], buffer?: BufferOf): UOp[] {
  if (data?.format !== GRAPH_FORMAT) refuse("read", `its format is ${data?.format}, not ${GRAPH_FORMAT}`);
  if (data.version !== GRAPH_VERSION) {
    refuse("read", `it is of version ${data.version}, and this is version ${GRAPH_VERSION}: write it again`);
  }
  return new GraphReader(data, [...more, ...RECORDS], buffer ?? newBuffers()).read();
}
