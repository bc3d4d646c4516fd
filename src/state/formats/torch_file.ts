/**
 * PyTorch's checkpoints (`torch.save`): zip archives since 1.6, pickles with storages behind them before, tar archives
 * before that. The pickle is read by a restricted reader that knows the few globals that tensors are made of.
 *
 * @module
 */
import { FILES } from "../../device/files.ts";
import { takeTurn } from "../../device/pressure.ts";
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { prod, stridesOf } from "../../helpers/math.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { Cursor, type PickleHooks, PyGlobal, PyTuple, unpickle } from "./pickle.ts";
import { NumpyArray, plainPart, PyBuilt, pythonGlobals, wayAround } from "./python_values.ts";
import { type Bad, placeOf, type Source, tensorOfBytes } from "../source.ts";
import { readTar } from "./tar_file.ts";
import { type ArchiveOptions, ZipReader } from "./zip_file.ts";

/** Memory of tensors, by the name of its file. */
interface StorageRef {
  readonly key: string;
  readonly dtype: DType | undefined;
  readonly numel: number;
}

/** A tensor that is yet to be made of its storage. */
class TensorSpec {
  constructor(
    readonly storage: StorageRef,
    readonly dtype: DType,
    /** In elements. */
    readonly offset: number,
    readonly shape: readonly number[],
    readonly strides: readonly number[],
  ) {}
}

/** Where the bytes of a storage are. */
type OpenStorage = (ref: StorageRef) => Promise<Source>;

const STORAGES: Readonly<Record<string, DType>> = {
  BoolStorage: dtypes.bool,
  ByteStorage: dtypes.uint8,
  CharStorage: dtypes.int8,
  ShortStorage: dtypes.int16,
  IntStorage: dtypes.int32,
  LongStorage: dtypes.int64,
  HalfStorage: dtypes.float16,
  BFloat16Storage: dtypes.bfloat16,
  FloatStorage: dtypes.float32,
  DoubleStorage: dtypes.float64,
  ComplexFloatStorage: dtypes.complex64,
  ComplexDoubleStorage: dtypes.complex128,
};
/** PyTorch's dtypes, that untyped storages are seen as. */
const DTYPES: Readonly<Record<string, DType>> = {
  bool: dtypes.bool,
  uint8: dtypes.uint8,
  int8: dtypes.int8,
  uint16: dtypes.uint16,
  int16: dtypes.int16,
  uint32: dtypes.uint32,
  int32: dtypes.int32,
  uint64: dtypes.uint64,
  int64: dtypes.int64,
  float16: dtypes.float16,
  bfloat16: dtypes.bfloat16,
  float32: dtypes.float32,
  float64: dtypes.float64,
  complex64: dtypes.complex64,
  complex128: dtypes.complex128,
  float8_e4m3fn: dtypes.fp8e4m3,
  float8_e5m2: dtypes.fp8e5m2,
};
const MAX_AXES = 64, MAX_VALUES = 1 << 22;

function isCount(x: unknown): x is number {
  return typeof x === "number" && Number.isSafeInteger(x) && x >= 0;
}
function countsOf(x: unknown): readonly number[] | undefined {
  return x instanceof PyTuple && x.items.length <= MAX_AXES && x.items.every(isCount)
    ? x.items as readonly number[]
    : undefined;
}

/** The globals that may occur. Each makes a value of ours of its arguments. */
class TorchGlobals implements PickleHooks {
  private readonly table = new Map<string, PyGlobal>();
  /** Storages by name, as the pickle mentions them. */
  readonly storages: Map<string, StorageRef> = new Map();

  constructor(private readonly bad: Bad) {
    const add = (name: string, call?: (args: readonly unknown[]) => unknown) =>
      this.table.set(name, new PyGlobal(name, call));
    const first = (args: readonly unknown[]) => args[0];
    add("collections.OrderedDict", (args) => this.dictionary(args));
    add("torch._utils._rebuild_tensor", (args) => this.rebuild(args));
    add("torch._utils._rebuild_tensor_v2", (args) => this.rebuild(args));
    add("torch._utils._rebuild_tensor_v3", (args) => this.rebuild(args, args[6]));
    add("torch._utils._rebuild_parameter", first);
    add("torch._utils._rebuild_parameter_with_state", first);
    add("torch._tensor._rebuild_from_type_v2", (args) => this.rebuildFromType(args));
    add("torch.Size", (args) => args[0]);
    add("torch.device", (args) => String(args[0]));
    add("torch.Tensor");
    add("torch.nn.parameter.Parameter");
    add("_codecs.encode", (args) => this.encode(args));
    for (const name of [...Object.keys(STORAGES), "UntypedStorage"]) {
      add(`torch.${name}`);
      add(`torch.cuda.${name}`);
      add(`torch.storage.${name}`);
      add(`torch.${name.replace("Storage", "Tensor")}`);
    }
    for (const name of Object.keys(DTYPES)) add(`torch.${name}`);
    for (const g of pythonGlobals(bad, (args) => this.dictionary(args))) this.table.set(g.name, g);
  }

  build(value: unknown, state: unknown): boolean {
    if (value instanceof PyBuilt) value.build(state);
    return value instanceof PyBuilt;
  }
  wayAround(name: string): string {
    return wayAround(name);
  }

  find(name: string): PyGlobal | undefined {
    return this.table.get(name);
  }

  persistent(id: unknown): StorageRef {
    const [kind, type, key, , numel] = id instanceof PyTuple ? id.items : [];
    const name = type instanceof PyGlobal ? type.name.split(".").at(-1)! : "";
    if (kind !== "storage" || typeof key !== "string" || !isCount(numel) || !name.endsWith("Storage")) {
      throw this.bad("a persistent id is no storage");
    }
    return this.storage(key, STORAGES[name], numel);
  }

  /** The storage of a name; all mentions of it must agree. */
  storage(key: string, dtype: DType | undefined, numel: number): StorageRef {
    const known = this.storages.get(key);
    if (known === undefined) {
      const made: StorageRef = { key, dtype, numel };
      this.storages.set(key, made);
      return made;
    }
    if (known.dtype !== dtype || known.numel !== numel) throw this.bad(`storage "${key}" has two sizes or dtypes`);
    return known;
  }

  /** A dictionary of pairs, or of nothing. */
  private dictionary([pairs]: readonly unknown[]): Map<unknown, unknown> {
    const out = new Map<unknown, unknown>();
    if (pairs === undefined) return out;
    for (const pair of Array.isArray(pairs) ? pairs : [null]) {
      const items: readonly unknown[] = pair instanceof PyTuple ? pair.items : Array.isArray(pair) ? pair : [];
      if (items.length !== 2 || typeof items[0] === "object") throw this.bad("a dictionary is made of no pairs");
      out.set(items[0], items[1]);
    }
    return out;
  }
  private encode([text, encoding]: readonly unknown[]): Uint8Array {
    if (typeof text !== "string" || encoding !== "latin1") throw this.bad("it encodes what is no Latin-1 text");
    return Uint8Array.from(text, (c) => c.charCodeAt(0));
  }
  private rebuildFromType([fn, , args]: readonly unknown[]): unknown {
    if (!(fn instanceof PyGlobal) || !/_rebuild_(tensor|parameter)/.test(fn.name) || !(args instanceof PyTuple)) {
      throw this.bad("it rebuilds what is no tensor");
    }
    return fn.call!(args.items);
  }
  private rebuild([storage, offset, size, stride]: readonly unknown[], type?: unknown): TensorSpec {
    const shape = countsOf(size), strides = countsOf(stride), ref = storage as StorageRef;
    const known = typeof storage === "object" && storage !== null && this.storages.get(ref.key) === ref;
    if (!known || !isCount(offset) || shape === undefined || shape.length !== strides?.length) {
      throw this.bad("a tensor has no valid storage, offset, shape and strides");
    }
    const name = type instanceof PyGlobal ? type.name.replace("torch.", "") : "";
    const dtype = ref.dtype ?? (Object.hasOwn(DTYPES, name) ? DTYPES[name] : undefined);
    if (dtype === undefined) throw this.bad("a tensor of an untyped storage has no dtype");
    const text = `[${shape.join(", ")}] with strides [${strides.join(", ")}] at ${offset}`;
    if (!Number.isSafeInteger(prod(shape.map((n) => n || 1)) * dtype.itemsize)) {
      throw this.bad(`a tensor of shape ${text} needs more bytes than can be counted`);
    }
    const last = shape.reduce((n, size, i) => n + (size - 1) * strides[i], offset);
    const room = ref.dtype === undefined ? Math.floor(ref.numel / dtype.itemsize) : ref.numel;
    if (prod(shape) > 0 && !(last < room)) {
      throw this.bad(`a tensor of shape ${text} is beyond its storage "${ref.key}" of ${room} elements`);
    }
    return new TensorSpec(ref, dtype, offset, shape, strides);
  }
}

/** A tensor of elements that lie anyhow in the range of a storage that it needs. */
function tensorOf(spec: TensorSpec, source: Source): Tensor {
  const { dtype, shape, strides, offset } = spec, start = offset * dtype.itemsize;
  if (prod(shape) === 0) return source.tensor(0, dtype, shape);
  const dense = stridesOf(shape);
  if (shape.every((n, i) => n === 1 || strides[i] === dense[i])) return source.tensor(start, dtype, shape);
  // what follows is computed, and a file computes nothing
  const load = (sizes: readonly number[]): Tensor => {
    const t = source.tensor(start, dtype, sizes);
    return t.device === FILES ? t.to() : t;
  };
  const real = [...shape.keys()].filter((i) => shape[i] > 1 && strides[i] > 0);
  const order = [...real].sort((i, j) => strides[j] - strides[i]);
  const sorted = order.map((i) => shape[i]), packed = stridesOf(sorted);
  let t: Tensor;
  if (order.every((i, k) => strides[i] === packed[k])) { // permuted
    t = load(sorted).permute(real.map((i) => order.indexOf(i)));
  } else { // with gaps or overlaps
    const extent = real.reduce((n, i) => n + (shape[i] - 1) * strides[i], 1);
    const sizes = real.map((i) => shape[i]);
    let index = Tensor.zeros(sizes, { dtype: "int32" });
    real.forEach((i, k) => {
      const along = Tensor.arange(shape[i], undefined, undefined, { dtype: "int32" }).mul(strides[i]);
      index = index.add(along.reshape(sizes.map((n, j) => j === k ? n : 1)));
    });
    t = load([extent]).gather(0, index.flatten()).reshape(sizes);
  }
  const kept = shape.map((n, i) => real.includes(i) ? n : 1);
  return t.reshape(kept).expand([...shape]);
}

/** Plain values of what the pickle built: objects of dictionaries, lists of tuples, tensors of their storages. */
async function plainOf(root: unknown, open: OpenStorage, bad: Bad, device: string): Promise<unknown> {
  const opened = new Map<StorageRef, Source>(), made = new Map<TensorSpec, Tensor>();
  const path = new Set<unknown>();
  let count = 0;
  const visit = async (x: unknown): Promise<unknown> => {
    if (++count > MAX_VALUES) throw bad(`it has more than ${MAX_VALUES} values`);
    if (x instanceof TensorSpec) {
      await takeTurn();
      let source = opened.get(x.storage);
      if (source === undefined) opened.set(x.storage, source = await open(x.storage));
      let t = made.get(x);
      if (t === undefined) made.set(x, t = tensorOf(x, source));
      return t;
    }
    if (x instanceof NumpyArray) {
      if (x.found === undefined) throw bad("an array of NumPy has no elements");
      const { dtype, shape, isFortran, bytes } = x.found, stored = isFortran ? [...shape].reverse() : shape;
      const t = tensorOfBytes(bytes, dtype, stored, device);
      return isFortran ? t.permute(stored.map((_, i) => stored.length - 1 - i)) : t;
    }
    x = plainPart(x) ?? x;
    if (x instanceof PyGlobal) return x.name;
    if (typeof x !== "object" || x === null || x instanceof Uint8Array) return x;
    if (path.has(x)) throw bad("a value contains itself");
    if (path.size > 256) throw bad("its values are nested too deeply");
    path.add(x);
    let out: unknown;
    if (x instanceof Map) {
      const entries: [string, unknown][] = [];
      for (const [key, value] of x) entries.push([String(key), await visit(value)]);
      out = Object.fromEntries(entries);
    } else if (Array.isArray(x) || x instanceof PyTuple) {
      const items: unknown[] = [];
      for (const value of x instanceof PyTuple ? x.items : x) items.push(await visit(value));
      out = items;
    } else throw bad("a storage stands where a value should");
    path.delete(x);
    return out;
  };
  return await visit(root);
}

/** Throws where a storage has fewer bytes than were promised. */
function checkedStorage(ref: StorageRef, source: Source, bad: Bad): Source {
  const needed = ref.numel * (ref.dtype?.itemsize ?? 1);
  if (source.size < needed) throw bad(`storage "${ref.key}" needs ${needed} bytes, and has ${source.size}`);
  return source;
}

async function loadZip(source: Source, options: ArchiveOptions): Promise<unknown> {
  const { bad } = source, zip = new ZipReader(source, options), device = placeOf(options);
  const pickles = [...zip.members.keys()].filter((n) => /^[^/]+\/data\.pkl$|^data\.pkl$/.test(n));
  if (pickles.length !== 1) throw bad(`it has ${pickles.length} members data.pkl, not one`);
  const prefix = pickles[0].slice(0, -"data.pkl".length);
  if (zip.members.has(`${prefix}constants.pkl`)) throw bad("it is a TorchScript program; save a state_dict instead");
  if (zip.members.has(`${prefix}byteorder`)) {
    const order = await zip.open(`${prefix}byteorder`),
      text = new TextDecoder().decode(order.read(0, Math.min(order.size, 16)));
    if (text !== "little") throw bad(`its byte order is ${JSON.stringify(text)}; only little is known`);
  }
  const globals = new TorchGlobals(bad), pickle = await zip.open(pickles[0]);
  const root = unpickle(new Cursor(pickle), globals);
  return await plainOf(
    root,
    async (ref) => checkedStorage(ref, await zip.open(`${prefix}data/${ref.key}`), bad),
    bad,
    device,
  );
}

/** 0x1950a86a20f9469cfc6c, as PyTorch before 1.6 starts a file. */
const LEGACY_MAGIC = 0x1950a86a20f9469cfc6cn, LEGACY_PROTOCOL = 1001;
const PLAIN: PickleHooks = { find: () => undefined, persistent: () => undefined };

/** Pickles of a magic number, a protocol, the system, the values, the names of storages; then size and bytes of each. */
async function loadLegacy(source: Source, device: string): Promise<unknown> {
  const { bad } = source, cursor = new Cursor(source);
  if (unpickle(cursor, PLAIN) !== LEGACY_MAGIC) throw bad("it is no checkpoint of PyTorch");
  if (unpickle(cursor, PLAIN) !== LEGACY_PROTOCOL) throw bad("it is a checkpoint of an unknown protocol");
  const system = unpickle(cursor, PLAIN);
  if (system instanceof Map && system.get("little_endian") === false) {
    throw bad("its byte order is big; only little is known");
  }
  const globals = new TorchGlobals(bad), root = unpickle(cursor, globals), keys = unpickle(cursor, PLAIN);
  if (!Array.isArray(keys)) throw bad("it has no list of storages");
  const parts = new Map<string, Source>();
  for (const key of keys) {
    const ref = globals.storages.get(key), numel = cursor.int(8);
    if (ref === undefined || numel !== ref.numel) throw bad(`storage ${JSON.stringify(key)} has two sizes`);
    const nbytes = ref.numel * (ref.dtype?.itemsize ?? 1);
    parts.set(ref.key, source.part(cursor.at, nbytes));
    cursor.at += nbytes;
  }
  return await plainOf(
    root,
    (ref) => {
      const part = parts.get(ref.key);
      if (part === undefined) throw bad(`storage "${ref.key}" is missing`);
      return Promise.resolve(part);
    },
    bad,
    device,
  );
}

/** Tar archives of PyTorch 0.1: members `storages`, `tensors` and `pickle`. */
async function loadTar(source: Source, device: string): Promise<unknown> {
  const { bad } = source, members = new Map(readTar(source).map((m) => [m.name, m]));
  const cursorOf = (name: string): Cursor => {
    const m = members.get(name);
    if (m === undefined) throw bad(`it has no member "${name}"`);
    return new Cursor(source.part(m.start, m.size));
  };
  const globals = new TorchGlobals(bad), parts = new Map<string, Source>(), specs = new Map<string, TensorSpec>();
  const count = (x: unknown): number => {
    if (!isCount(x)) throw bad("a count is no number");
    return x;
  };
  const storages = cursorOf("storages");
  for (let n = count(unpickle(storages, PLAIN)); n > 0; n--) {
    const entry = unpickle(storages, globals), [key, , type] = entry instanceof PyTuple ? entry.items : [];
    const dtype = type instanceof PyGlobal ? STORAGES[type.name.split(".").at(-1)!] : undefined;
    if (dtype === undefined) throw bad("a storage has no dtype");
    const ref = globals.storage(String(key), dtype, count(storages.int(8))), nbytes = ref.numel * dtype.itemsize;
    parts.set(ref.key, storages.source.part(storages.at, nbytes));
    storages.at += nbytes;
  }
  const tensors = cursorOf("tensors");
  for (let n = count(unpickle(tensors, PLAIN)); n > 0; n--) {
    const entry = unpickle(tensors, globals), [key, storage] = entry instanceof PyTuple ? entry.items : [];
    const axes = tensors.uint(4);
    if (axes > MAX_AXES) throw bad(`a tensor has ${axes} axes, more than ${MAX_AXES}`);
    tensors.take(4);
    const list = () => new PyTuple(Array.from({ length: axes }, () => tensors.int(8)));
    const shape = list(), strides = list(), ref = globals.storages.get(String(storage));
    const rebuild = globals.find("torch._utils._rebuild_tensor")!.call!;
    specs.set(String(key), rebuild([ref, tensors.int(8), shape, strides]) as TensorSpec);
  }
  const root = unpickle(cursorOf("pickle"), {
    find: (name) => globals.find(name),
    persistent: (id) => {
      const spec = specs.get(String(id));
      if (spec === undefined) throw bad(`tensor ${JSON.stringify(id)} is missing`);
      return spec;
    },
  });
  return await plainOf(root, (ref) => Promise.resolve(parts.get(ref.key)!), bad, device);
}

/** What a checkpoint holds: `torchLoad` of torch.ts. */
export async function readTorch(source: Source, options: ArchiveOptions): Promise<unknown> {
  const start = source.read(0, Math.min(4, source.size));
  if (start.length < 4) throw source.bad(`it has ${source.size} bytes, too few for a checkpoint`);
  if (start[0] === 0x50 && start[1] === 0x4b) return await loadZip(source, options);
  if (start[0] === 0x80) return await loadLegacy(source, placeOf(options));
  const ustar = source.size > 512 && new TextDecoder().decode(source.read(257, 5)) === "ustar";
  if (ustar) return await loadTar(source, placeOf(options));
  throw source.bad("it is no checkpoint of PyTorch");
}
