/**
 * Merges accesses of neighboring elements into wide ones, on devices with a grid: copies of a loop body that load or store
 * elements 0, 1, 2, 3 become one access of a vector. Then copies to shared memory become asynchronous. In and out: a lowered graph of stage P, its values scalars.
 *
 * An access is as wide as the device allows (4, 8 or 16 bytes) and only where its address is proved to be a multiple of
 * that: the part of the index that all copies share must be divisible by the lanes, by its coefficients.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { divisorOf, indexForm } from "../../uop/algebra/linear_form.ts";
import { simplify } from "../../uop/algebra/symbolic.ts";
import { Ops } from "../../uop/core/ops.ts";
import { index, mayHave, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { rebuild, throughAfter } from "../../uop/rewrite/walk.ts";
import { broadcast, extract, vectorize } from "../ast/alu_builder.ts";

/** What the value of a position may depend on beside threads, loops and variables: memory, whose order is not to be made anew. */
const REMEMBERED = [Ops.LOAD, Ops.ACC];

/**
 * Brings positions with quotients to normal form, now that lanes and threads are numbers in them: (2 * x + 1) // 98 is
 * x // 49, and what copies share is told from the constant in which they differ. Where a position was read from memory it
 * stays: algebra would make what is below the LOAD anew, the stores that it waits for among them, and both would run.
 * With a variable in the LOAD's place 8 of 778 kernels that index are others on a card, and some of them search a sorted
 * list twice: choices around what was read are made anew, too.
 */
export function simplifyAddresses(sink: UOp): UOp {
  return rebuild(sink, (u, src) => {
    if (u.op !== Ops.INDEX || !(mayHave(src[1], Ops.FLOORDIV) || mayHave(src[1], Ops.FLOORMOD))) return undefined;
    if (REMEMBERED.some((op) => mayHave(src[1], op))) return undefined;
    return u.withSrc([src[0], simplify(src[1]), ...src.slice(2)]);
  });
}

/** Accesses that differ by a constant only. */
interface Family {
  /** What is common to their indices; undefined where that is nothing. */
  readonly rest: UOp | undefined;
  readonly members: Map<number, UOp>;
  /** Two stores to one element: left alone. */
  isAmbiguous: boolean;
}

/** A wide access: its members by lane. */
interface Wide {
  readonly members: readonly UOp[];
}

/** The index without its constant, and the constant. */
export function splitIndex(idx: UOp): [rest: UOp | undefined, offset: number] {
  if (idx.op === Ops.CONST) return [undefined, idx.value];
  if (idx.op === Ops.ADD && idx.src[1].op === Ops.CONST) return [idx.src[0], idx.src[1].value];
  return [idx, 0];
}

/** Lanes of a wide access of this dtype, at most. */
function lanesOf(dtype: DType, caps: Capabilities, isParam: boolean): number {
  if (dtype.isBool || dtype.count > 1) return 1;
  const bytes = isParam ? Math.min(caps.vectorBytes, caps.bufferAlignment ?? 1) : caps.vectorBytes;
  return Math.min(caps.vectorLanes(dtype), Math.floor(Math.min(bytes, 16) / dtype.itemsize));
}

class Coalescer {
  private readonly wide = new Map<UOp, Wide>();
  /** STOREs that an ASYNC_COMMIT waits for, where copies may be asynchronous. */
  private awaited: ReadonlySet<UOp> = new Set();
  private readonly made = new Map<UOp, UOp>();
  private readonly memo = new Map<UOp, UOp>();

  constructor(private readonly caps: Capabilities) {}

  private collect(nodes: readonly UOp[]): void {
    const families = new Map<string, Family>();
    const numbers = new Map<UOp | undefined, number>([[undefined, -1]]);
    const numberOf = (u: UOp | undefined): number => {
      let n = numbers.get(u);
      if (n === undefined) numbers.set(u, n = numbers.size);
      return n;
    };
    for (const u of nodes) {
      if ((u.op !== Ops.LOAD && u.op !== Ops.STORE) || u.src[0].op !== Ops.INDEX) continue;
      const [base, idx, gate] = u.src[0].src as readonly (UOp | undefined)[];
      const value = u.op === Ops.STORE ? u.src[1].dtype : u.dtype;
      if (value.count > 1) continue;
      const [rest, offset] = splitIndex(idx!);
      const alt = u.op === Ops.LOAD ? u.src[1] as UOp | undefined : undefined;
      const key = `${u.op} ${numberOf(base)} ${numberOf(rest)} ${numberOf(gate)} ${numberOf(alt)}`;
      let f = families.get(key);
      if (f === undefined) families.set(key, f = { rest, members: new Map(), isAmbiguous: false });
      if (f.members.has(offset)) f.isAmbiguous = true;
      f.members.set(offset, u);
    }
    for (const f of families.values()) if (f.members.size > 1 && !f.isAmbiguous) this.cut(f);
  }

  /** Cuts a family into aligned runs, the widest first. */
  private cut(f: Family): void {
    const [first] = f.members.values();
    const { dtype } = first.src[0], base = throughAfter(first.src[0].src[0]);
    const lanes = lanesOf(dtype, this.caps, base.op === Ops.PARAM);
    const most = f.rest === undefined ? lanes : divisorOf(indexForm(f.rest), lanes);
    for (let n = most; n > 1 && n * dtype.itemsize >= 4; n /= 2) {
      for (const c of f.members.keys()) {
        if (c % n !== 0) continue;
        const members: UOp[] = [];
        for (let l = 0; l < n; l++) {
          const u = f.members.get(c + l);
          if (u === undefined || this.wide.has(u)) break;
          members.push(u);
        }
        if (members.length < n || this.areCopies(members)) continue;
        for (const u of members) this.wide.set(u, { members });
      }
    }
  }

  /** Are they asynchronous copies of elements that lie apart? Then each is one by itself. */
  private areCopies(members: readonly UOp[]): boolean {
    return members.every((u) => this.awaited.has(u) && asyncOf(u) !== undefined && !this.wide.has(u.src[1]));
  }

  /** What must be rebuilt before `u`. */
  private needs(u: UOp): readonly UOp[] {
    const w = this.wide.get(u);
    return w === undefined ? u.src : w.members.flatMap((m) => m.src[0].src.concat(m.src.slice(1)));
  }

  private rebuild(u: UOp): UOp {
    const w = this.wide.get(u);
    const now = (x: UOp): UOp => this.memo.get(x)!;
    if (w === undefined) {
      const src: UOp[] = [];
      for (const s of u.src) {
        const x = now(s);
        // a wide STORE stands for its members once
        if (x.op === Ops.STORE && src.includes(x)) continue;
        src.push(x);
      }
      return u.op === Ops.VECTORIZE ? vectorize(src) : u.withSrc(src);
    }
    const [first] = w.members;
    let access = this.made.get(first);
    if (access === undefined) {
      const [base, idx, gate] = first.src[0].src as readonly (UOp | undefined)[];
      const place = index(now(base!), now(idx!), gate === undefined ? undefined : now(gate));
      const n = w.members.length;
      if (u.op === Ops.STORE) {
        access = uop(Ops.STORE, u.dtype, [place, vectorize(w.members.map((m) => now(m.src[1])))]);
      } else {
        const alt = first.src.length > 1 ? [broadcast(now(first.src[1]), n)] : [];
        access = uop(Ops.LOAD, u.dtype.vec(n), [place, ...alt]);
      }
      this.made.set(first, access);
    }
    return u.op === Ops.STORE ? access : extract(access, w.members.indexOf(u));
  }

  run(sink: UOp): UOp {
    const nodes = toposort(sink);
    if (this.caps.grid?.hasAsyncCopy) this.awaited = awaitedOf(nodes);
    this.collect(nodes);
    if (this.wide.size === 0) return sink;
    const { memo } = this;
    const stack: UOp[] = [sink];
    while (stack.length > 0) {
      const u = stack[stack.length - 1];
      if (memo.has(u)) {
        stack.pop();
        continue;
      }
      const before = stack.length;
      for (const s of this.needs(u)) if (!memo.has(s)) stack.push(s);
      if (stack.length > before) continue;
      stack.pop();
      memo.set(u, this.rebuild(u));
    }
    return memo.get(sink)!;
  }
}

/** Merges accesses of neighboring elements of a lowered kernel into wide, aligned ones. */
export function coalesce(sink: UOp, caps: Capabilities): UOp {
  return new Coalescer(caps).run(sink);
}

/** STOREs that an ASYNC_COMMIT waits for. */
function awaitedOf(nodes: readonly UOp[]): Set<UOp> {
  return new Set(nodes.flatMap((u) => u.op === Ops.ASYNC_COMMIT ? u.src : []));
}

/** The asynchronous copy that a STORE is; undefined where it is none. */
function asyncOf(s: UOp): UOp | undefined {
  const [to, value] = s.src;
  if (s.op !== Ops.STORE || to.op !== Ops.INDEX || value.op !== Ops.LOAD || value.src[0].op !== Ops.INDEX) {
    return undefined;
  }
  const [base, at, gate] = value.src[0].src as readonly (UOp | undefined)[];
  const { itemsize } = value.dtype;
  if (base!.op !== Ops.PARAM || (itemsize !== 4 && itemsize !== 8 && itemsize !== 16)) return undefined;
  const alt = value.src[1] as UOp | undefined;
  if (alt !== undefined && !alt.isConst(0)) return undefined;
  const from = index(base!, at!);
  return uop(Ops.ASYNC_COPY, dtypes.void, gate === undefined ? [to, from] : [to, from, gate], itemsize);
}

/**
 * Makes copies from buffers to shared memory asynchronous, where a STORE that an ASYNC_COMMIT waits for stores nothing but
 * what a LOAD read. Others stay: they are complete at the barrier that follows anyway.
 */
export function copyAsync(sink: UOp): UOp {
  const awaited = awaitedOf(toposort(sink));
  if (awaited.size === 0) return sink;
  return rebuild(sink, (u, src) => awaited.has(u) ? asyncOf(u.withSrc(src)) : undefined);
}
