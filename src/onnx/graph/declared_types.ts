/**
 * Whether what flows is what a model says. In: types as the file declares them, and items, inputs of nodes or records of
 * weights; out: why they do not fit, or undefined. As onnxruntime does it, other elements than declared are refused, and
 * so are inputs that an operator takes in one type alone; other sizes of an output are told and let by.
 *
 * @module
 */
import { areSymbolic } from "../values/variable_sizes.ts";
import { type Fault, type Item, Mapping, Optional, Sequence, Value } from "../values/value.ts";
import { BOOL, elementType, INT64, typeName } from "../wire/element_types.ts";
import type { Graph, ModelProto, TypeProto } from "../wire/messages.ts";

/** Types that are held alike count as one: what a node gives is known by its dtype in places. */
function isSame(a: number, b: number): boolean {
  const x = elementType(a), y = elementType(b);
  return a === b || x !== undefined && y !== undefined && x.bits > 0 && y.bits > 0 && x.dtype === y.dtype;
}

/** What an item is, where the model says that it is something else. */
export function otherThan(type: TypeProto | undefined, item: Item): string | undefined {
  if (type === undefined || type.kind === "unknown" || type.kind === "map") return undefined;
  if (type.kind === "optional") {
    const held = item instanceof Optional ? item.item : item;
    return held === undefined ? undefined : otherThan(type.of, held);
  }
  if (type.kind === "sequence") {
    if (!(item instanceof Sequence)) return item instanceof Optional ? undefined : "a tensor";
    return item.items.map((i) => otherThan(type.of, i)).find((x) => x !== undefined);
  }
  if (item instanceof Sequence) return "a sequence";
  if (item instanceof Optional) return undefined;
  if (item instanceof Mapping) return "a map";
  return type.element === 0 || isSame(item.type, type.element) ? undefined : typeName(item.type);
}
/** What a type is called. */
export function declaredText(type: TypeProto): string {
  return type.kind === "sequence" || type.kind === "optional"
    ? `${type.kind} of ${typeName(type.element)}`
    : typeName(type.element);
}

/** Whether sizes are those that a model says, where it says any: names stand for all. */
function fits(said: readonly (number | string)[] | undefined, sizes: readonly number[]): boolean {
  return said === undefined ||
    sizes.length === said.length && said.every((n, i) => typeof n === "string" || n === sizes[i]);
}

/** The sizes of a tensor, where the model says others; those that are variables are left alone. */
export function otherSizes(type: TypeProto | undefined, item: Item): readonly number[] | undefined {
  if (type?.kind !== "tensor" || !(item instanceof Value) || areSymbolic(item.sizes)) return undefined;
  return fits(type.shape, item.shape) ? undefined : item.shape;
}

/** Refuses weights that are also inputs, of another type. @throws {FormatError} by `bad` */
export function checkInitializers(model: ModelProto, bad: Fault): void {
  const weights = new Map(model.graph.initializers.map((t) => [t.name, t]));
  for (const { name, type } of model.graph.inputs) {
    const t = weights.get(name);
    if (t === undefined || type?.kind !== "tensor") continue;
    const dims = `[${t.dims.join(", ")}]`, { element, shape } = type;
    if (element !== 0 && element !== t.type) {
      throw bad(`initializer "${name}" is ${typeName(t.type)}, and the input of its name ${typeName(element)}`);
    }
    if (shape !== undefined && !fits(shape, t.dims)) {
      throw bad(`initializer "${name}" has the shape ${dims}, and the input of its name [${shape.join(", ")}]`);
    }
  }
}

/** The types that a graph declares of what is in it. */
export function declaredTypes(graph: Graph): ReadonlyMap<string, TypeProto> {
  const out = new Map<string, TypeProto>();
  for (const { name, type } of [...graph.values ?? [], ...graph.outputs]) if (type !== undefined) out.set(name, type);
  return out;
}

const ONE_TYPE: ReadonlySet<string> = new Set(
  ("Add Sub Mul Div Max Min Mean Sum Mod MatMul Gemm Concat PRelu Equal Greater GreaterOrEqual Less LessOrEqual " +
    "BitwiseAnd BitwiseOr BitwiseXor BitShift Conv ConvTranspose").split(" "),
);
const BOOLS: Readonly<Record<string, readonly number[]>> = {
  Not: [0],
  And: [0, 1],
  Or: [0, 1],
  Xor: [0, 1],
  Where: [0],
  If: [0],
  Compress: [1],
};
const WHOLE: Readonly<Record<string, readonly number[]>> = {
  Reshape: [1],
  Expand: [1],
  Tile: [1],
  ConstantOfShape: [0],
  Squeeze: [1],
  Unsqueeze: [1],
  Split: [1],
  TopK: [1],
  CenterCropPad: [1],
  Gather: [1],
  GatherElements: [1],
  GatherND: [1],
  ScatterElements: [1],
  ScatterND: [1],
  Slice: [1, 2, 3, 4],
  Pad: [1],
};

/** Why the types of inputs do not fit an operator of ai.onnx, of those that take one type alone; undefined where they do. */
export function misfit(op: string, inputs: readonly (Item | undefined)[]): string | undefined {
  const typeOf = (i: number): number | undefined => {
    const v = inputs[i];
    return v instanceof Value ? v.type : undefined;
  };
  const first = typeOf(0);
  const pairs: readonly (readonly [number, number])[] = ONE_TYPE.has(op)
    ? inputs.map((_, i) => [0, i] as const)
    : op === "Where"
    ? [[1, 2]]
    : [];
  for (const [i, j] of pairs) {
    const a = i === 0 ? first : typeOf(i), b = typeOf(j);
    if (a === undefined || b === undefined || isSame(a, b)) continue;
    return `its input ${i} is ${typeName(a)} and its input ${j} ${
      typeName(b)
    }, which must be one type: put a Cast before it`;
  }
  for (const i of BOOLS[op] ?? []) {
    const type = typeOf(i);
    if (type !== undefined && type !== BOOL) return `its input ${i} is ${typeName(type)}, not bool`;
  }
  for (const i of WHOLE[op] ?? []) {
    const type = typeOf(i);
    if (type !== undefined && elementType(type)?.dtype.isInt !== true) {
      return `its input ${i} is ${typeName(type)}, not ${typeName(INT64)}`;
    }
  }
  return undefined;
}
