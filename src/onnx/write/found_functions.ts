/**
 * Functions of elements that ONNX has whole and the tensor graph in parts: each is built once on operands without a
 * meaning, and found again where a graph has the same form. In: a node; out: the operator, and what it is of.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { findPower } from "../../tensor/nodes/power.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { sameArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import type { WrittenAttribute } from "./onnx_graph.ts";

/** A function that was found. */
export interface FoundFunction {
  readonly op: string;
  readonly attributes: Readonly<Record<string, WrittenAttribute>>;
  readonly inputs: readonly UOp[];
}

type Build = (x: Tensor, y: Tensor) => Tensor;
type Row = readonly [op: string, build: Build, attributes?: FoundFunction["attributes"]];

/** Functions of floats. */
const OF_FLOATS: readonly Row[] = [
  ["Gelu", (x) => x.gelu()],
  ["Gelu", (x) => x.gelu({ approximate: "tanh" }), { approximate: "tanh" }],
  ["Mish", (x) => x.mish()],
  ["Erf", (x) => x.erf()],
  ["Tanh", (x) => x.tanh()],
  ["Sigmoid", (x) => x.sigmoid()],
  ["Softplus", (x) => x.softplus()],
  ["Softsign", (x) => x.softsign()],
  ["Selu", (x) => x.selu()],
  ["Elu", (x) => x.elu()],
  ["HardSwish", (x) => x.hardswish()],
  ["Exp", (x) => x.exp()],
  ["Log", (x) => x.log()],
  ["Tan", (x) => x.tan()],
  ["Asin", (x) => x.asin()],
  ["Acos", (x) => x.acos()],
  ["Atan", (x) => x.atan()],
  ["Sinh", (x) => x.sinh()],
  ["Cosh", (x) => x.cosh()],
  ["Asinh", (x) => x.asinh()],
  ["Acosh", (x) => x.acosh()],
  ["Atanh", (x) => x.atanh()],
  ["Floor", (x) => x.floor()],
  ["Ceil", (x) => x.ceil()],
  ["Round", (x) => x.round()],
  ["Reciprocal", (x) => x.reciprocal()],
  ["IsNaN", (x) => x.isnan()],
  ["IsInf", (x) => x.isinf()],
];
/** Functions of all numbers with a sign. */
const OF_SIGNED: readonly Row[] = [
  ["Relu", (x) => x.relu()],
  ["Abs", (x) => x.abs()],
  ["Sign", (x) => x.sign()],
  ["Neg", (x) => x.neg()],
  ["Sub", (x, y) => x.sub(y)],
  ["Min", (x, y) => x.minimum(y)],
];

/** A function as a form. */
interface Form {
  readonly op: string;
  readonly attributes: FoundFunction["attributes"];
  readonly root: UOp;
  /** Leaves that stand for operands. */
  readonly operands: readonly UOp[];
  readonly size: number;
}

const forms = new Map<DType, readonly Form[]>();

/** The forms of a dtype, the largest first. */
function formsOf(dtype: DType): readonly Form[] {
  const known = forms.get(dtype);
  if (known !== undefined) return known;
  const rows = dtype.isFloat ? [...OF_FLOATS, ...OF_SIGNED] : dtype.isInt && !dtype.isUnsigned ? OF_SIGNED : [];
  const made = rows.map(([op, build, attributes = {}]): Form => {
    const x = Tensor.empty([7], { dtype, device: "JS" }), y = Tensor.empty([7], { dtype, device: "JS" });
    const root = build(x, y).uop, all = toposort(root), operands = [x.uop, y.uop].filter((u) => all.includes(u));
    return { op, attributes, root, operands, size: all.length };
  });
  const usable = made.filter((f) => f.size > f.operands.length).sort((a, b) => b.size - a.size);
  forms.set(dtype, usable);
  return usable;
}

/** What the operands of a form are where `node` has that form. */
function unify(form: Form, node: UOp, isKnown: (u: UOp) => boolean): UOp[] | undefined {
  const bound = new Map<UOp, UOp>();
  const visit = (t: UOp, u: UOp): boolean => {
    const before = bound.get(t);
    if (before !== undefined) return before === u;
    if (t.dtype !== u.dtype) return false;
    bound.set(t, u);
    if (form.operands.includes(t)) return true;
    if (t.op !== u.op || t.src.length !== u.src.length || !sameArg(t.arg, u.arg)) return false;
    if (t.op === Ops.CONST && !isKnown(u)) return false;
    return t.src.every((s, i) => visit(s, u.src[i]));
  };
  return visit(form.root, node) ? form.operands.map((t) => bound.get(t)!) : undefined;
}

/** The largest function that a node is, if any. `isKnown` says of a constant that it is the same for all sizes. */
export function findFunction(node: UOp, isKnown: (u: UOp) => boolean): FoundFunction | undefined {
  const power = findPower(node);
  if (power !== undefined) return { op: "Pow", attributes: {}, inputs: power };
  const dtypes = new Set([node.dtype, ...node.src.map((s) => s.dtype)]);
  for (const dtype of dtypes) {
    for (const form of formsOf(dtype)) {
      if (form.root.op !== node.op || form.root.dtype !== node.dtype) continue;
      const inputs = unify(form, node, isKnown);
      if (inputs !== undefined) return { op: form.op, attributes: form.attributes, inputs };
    }
  }
}
