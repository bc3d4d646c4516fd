/**
 * One kernel for steps that differ in where they begin to read and write: the steps of a recurrent layer, parts that are
 * put side by side. In, the steps of a template; out, the same with such kernels replaced by one that takes the place
 * where it begins in each buffer as a scalar argument. Hundreds of kernels are lowered and compiled once.
 *
 * @module
 */
import { gcd } from "../../helpers/math.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, mayHave, toposort, type UOp, variable } from "../../uop/core/uop.ts";
import { note } from "../../uop/rewrite/record.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import type { TemplateItem } from "./template.ts";

/** So many kernels must be alike: few are compiled faster as they are, with all numbers known. */
const MIN_ALIKE = 4;
/** A kernel takes no more of these arguments. */
const MAX_MOVING = 8;

/** Names of arguments that are the same in each run: their value is in the name. */
const NAME = /^k(\d+)$/;

/** The arguments of steps that are the same in each run. */
export function fixedValues(items: readonly TemplateItem[]): Map<string, number> {
  const values = new Map<string, number>();
  for (const { vars } of items) {
    for (const name of vars) {
      const m = NAME.exec(name);
      if (m !== null) values.set(name, Number(m[1]));
    }
  }
  return values;
}

/** An address without its constant, and that. */
function apart(address: UOp): [rest: UOp | undefined, offset: number] {
  if (address.op === Ops.CONST) return [undefined, address.value];
  const last = address.op === Ops.ADD ? address.src[1] : undefined;
  return last?.op === Ops.CONST ? [address.src[0], last.value] : [address, 0];
}

/** The INDEXes of a kernel whose address may begin elsewhere. */
function movable(ast: UOp): UOp[] {
  return toposort(ast).filter((u) =>
    u.op === Ops.INDEX && u.src[0].op === Ops.PARAM && u.src[1].dtype.count === 1 && !mayHave(u.src[1], Ops.LOAD)
  );
}

/** A kernel with a placeholder for each different offset of a buffer, in their order, and the offsets by placeholder. */
function formOf(ast: UOp): { form: UOp; offsets: ReadonlyMap<UOp, number> } {
  const indices = movable(ast), bySlot = new Map<number, number[]>();
  for (const u of indices) {
    const { slot } = argOf(u.src[0], Ops.PARAM), offset = apart(u.src[1])[1], list = bySlot.get(slot);
    if (list === undefined) bySlot.set(slot, [offset]);
    else if (!list.includes(offset)) list.push(offset);
  }
  for (const list of bySlot.values()) list.sort((a, b) => a - b);
  const map = new Map<UOp, UOp>(), offsets = new Map<UOp, number>();
  for (const u of indices) {
    const [param, address, ...gate] = u.src, { slot } = argOf(param, Ops.PARAM), [rest, offset] = apart(address);
    const place = variable(`place${slot}_${bySlot.get(slot)!.indexOf(offset)}`, 0, 1, address.dtype);
    offsets.set(place, offset);
    map.set(u, u.withSrc([param, rest === undefined ? place : rest.alu(Ops.ADD, place), ...gate]));
  }
  return { form: substitute(ast, map), offsets };
}

/** The kernels of one form, each with its offsets by placeholder. */
interface Form {
  readonly asts: UOp[];
  readonly offsets: ReadonlyMap<UOp, number>[];
}

/** Replaces kernels that are alike. */
export function shareKernels(items: readonly TemplateItem[]): readonly TemplateItem[] {
  const bySize = new Map<string, Set<UOp>>();
  for (const { kind, ast, device, entries } of items) {
    if (kind !== "kernel") continue;
    const size = `${device} ${entries.length} ${toposort(ast!).length}`, list = bySize.get(size);
    if (list === undefined) bySize.set(size, new Set([ast!]));
    else list.add(ast!);
  }
  const made = new Map<UOp, { ast: UOp; vars: string[] }>();
  for (const asts of bySize.values()) {
    if (asts.size < MIN_ALIKE) continue;
    const forms = new Map<UOp, Form>();
    for (const ast of asts) {
      const { form, offsets } = formOf(ast), known = forms.get(form);
      if (known === undefined) forms.set(form, { asts: [ast], offsets: [offsets] });
      else {
        known.asts.push(ast);
        known.offsets.push(offsets);
      }
    }
    for (const [form, { asts, offsets }] of forms) {
      if (asts.length < MIN_ALIKE) continue;
      share(form, asts, offsets, made);
      if (!made.has(asts[0])) continue;
      const text = `one is compiled for ${asts.length} kernels, which differ by where they begin`;
      note("passed", asts[0], text, { kernels: asts.length });
    }
  }
  if (made.size === 0) return items;
  return items.map((item) => {
    const to = item.ast === undefined ? undefined : made.get(item.ast);
    return to === undefined ? item : { ...item, ast: to.ast, vars: [...item.vars, ...to.vars] };
  });
}

/** An offset that moves: how far in each kernel beyond the lowest, and the argument that says so in units. */
interface Moving {
  readonly values: readonly number[];
  readonly unit: number;
  readonly low: number;
  readonly argument: UOp;
}

/** One kernel for all of a form. */
function share(
  form: UOp,
  asts: readonly UOp[],
  offsets: readonly ReadonlyMap<UOp, number>[],
  made: Map<UOp, { ast: UOp; vars: string[] }>,
): void {
  const own = toposort(form).filter((u) => u.op === Ops.VARIABLE && !offsets[0].has(u)).length;
  const moving: Moving[] = [], vars: string[][] = asts.map(() => []);
  /** By placeholder: what moves, and what is added to it. */
  const places = new Map<UOp, { with: Moving | undefined; offset: number }>();
  for (const place of offsets[0].keys()) {
    const values = offsets.map((o) => o.get(place)!), low = Math.min(...values);
    const unit = values.reduce((g, v) => gcd(g, v - low), 0);
    if (unit === 0) {
      places.set(place, { with: undefined, offset: low });
      continue;
    }
    let found = moving.find((m) => values.every((v, i) => v - m.values[i] === values[0] - m.values[0]));
    if (found === undefined) {
      if (moving.length === MAX_MOVING) return;
      const argument = variable(`v${own + moving.length}`, 0, (Math.max(...values) - low) / unit);
      moving.push(found = { values, unit, low, argument });
      values.forEach((v, i) => vars[i].push(`k${(v - low) / unit}`));
    }
    places.set(place, { with: found, offset: found.low + values[0] - found.values[0] });
  }
  const map = new Map<UOp, UOp>();
  for (const u of movable(form)) {
    const [param, address, ...gate] = u.src, rest = address.op === Ops.ADD ? address.src[0] : undefined;
    const { with: moves, offset } = places.get(rest === undefined ? address : address.src[1])!;
    let sum = rest;
    if (moves !== undefined) {
      const term = moves.argument.cast(address.dtype).mul(moves.unit);
      sum = sum === undefined ? term : sum.add(term);
    }
    const fixed = constant(offset, address.dtype);
    const at = sum === undefined ? fixed : offset === 0 ? sum : sum.alu(Ops.ADD, fixed);
    map.set(u, u.withSrc([param, at, ...gate]));
  }
  const ast = substitute(form, map);
  asts.forEach((from, i) => made.set(from, { ast, vars: vars[i] }));
}
