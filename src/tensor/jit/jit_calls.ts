/**
 * Calls of functions under `jit`: which form the arguments have, whether they run, are captured or replayed, and what they
 * write. In: a function. Out: its results. jit.ts has the function that users call; pages load this with the engine.
 *
 * @module
 */
import { relieveDevices, relieveHeap, REPLAY_SHARE } from "../../device/pressure.ts";
import { toDType } from "../../dtype/dtype.ts";
import { realizeNodes } from "../../engine/front/engine.ts";
import { debugPrint, forgotten, useLog } from "../../engine/front/listening.ts";
import { envNumber, modesText } from "../../helpers/env.ts";
import { DisposedError, JitError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { argOf, Storage } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { meshes } from "../../uop/core/sharding.ts";
import { nodesMade, type UOp, uop } from "../../uop/core/uop.ts";
import { pendingWrite, shown } from "../../uop/graph/writes.ts";
import { forgetOrigin, hasOrigin, liveLeaves } from "../gradients/origins.ts";
import { handlesMade, internals, readHandles, type TensorBase } from "../handle/base.ts";
import { isWeak } from "../handle/weak_numbers.ts";
import { movedHandles, realizedBuffer, type RealizeTensor, realizeTensors } from "../realize.ts";
import { type Leaves, leavesOfTree, replaceTensors } from "./jit_arguments.ts";
import type { Captured, InputInfo } from "./captured.ts";
import { type AnyFunction, asyncError, type JitCalls, type JitOptions } from "./jit.ts";
import { ClosedReads } from "./closed_reads.ts";
import { captureCall, checkAlive, ClosedOver, pendingWrites } from "./jit_capture.ts";
import { checkedReplay } from "./jit_check.ts";
import { isOverwritten, lostOf, Parts, Uses, viewsOf } from "./jit_memory.ts";
import { madeOf, parted, pendingOf, realizeResult } from "./jit_places.ts";
import { watchReached } from "./jit_required.ts";

/** All calls that differ only in the values of tensors and variables. */
interface Form {
  readonly key: string;
  readonly inputs: readonly InputInfo[];
  calls: number;
  /** The number of the last call of it. */
  usedAt: number;
  /** Positions of tensors that calls write. */
  readonly writes: Set<number>;
  /** Positions of tensors that calls assign to: what shares memory with them is written, and names no newer version. */
  readonly assigned: Set<number>;
  /** Positions of leaves whose gradients captures neither read nor fill. */
  readonly plain: Set<number>;
  /** Positions of tensors that gradients come to. */
  readonly reached: Set<number>;
  readonly captures: Captured[];
  /** What calls read besides arguments. */
  readonly closed: ClosedReads;
}

/** Forms of the arguments that are kept: the one not used for longest goes first, with its memory. */
const MAX_FORMS = 64;
/** Captures of one form that are kept: the first goes first. */
const MAX_CAPTURES = 16;
/** Forms from which on somebody should be told. */
const MANY_FORMS = 8;

const NONE: ReadonlySet<number> = new Set();

/**
 * Realizes the inputs, those that are `written` in memory of their own, but for those that are `lost`: a function may
 * write to them. @throws {StaleReadError} @throws {DisposedError}
 */
function prepareInputs(
  all: readonly TensorBase[],
  written: ReadonlySet<number>,
  uses: Uses,
  lost: ReadonlySet<number>,
): Storage[] {
  const tensors = lost.size === 0 ? all : all.filter((_, i) => !lost.has(i));
  for (const t of tensors) internals.ownValue(t);
  const ready = written.size === 0 && lost.size === 0 ? readyStorages(all) : undefined;
  if (ready !== undefined) return ready;
  // a write through a view is one to what that is now; what one of these overwrites is read before that
  const lazy = tensors.filter((t) => realizedBuffer(t.uop) === undefined || isOverwritten(t));
  if (lazy.length > 0) realizeTensors(lazy, true);
  if (written.size > 0) uses.moveOut([...written].filter((i) => !lost.has(i)).map((i) => all[i]));
  return all.map((t, i) => {
    if (lost.has(i)) return new Storage(t.device, t.dtype.real, t.numel());
    const node = realizedBuffer(t.uop);
    if (node === undefined) throw new JitError("call a jit function", { reason: `argument tensor ${i} has no buffer` });
    const { storage, version } = argOf(node, Ops.BUFFER);
    if (storage.disposedAt !== "") {
      throw new DisposedError("call a jit function", { disposedAt: String(storage.disposedAt) });
    }
    if (storage.version !== version) realizeNodes([uop(Ops.CONTIGUOUS, t.dtype, [t.uop])]); // throws StaleReadError
    return storage;
  });
}

/** The storages of tensors that are real, as they are in most calls; undefined where there is anything to do, or to refuse. */
function readyStorages(tensors: readonly TensorBase[]): Storage[] | undefined {
  const storages: Storage[] = [];
  for (let i = 0; i < tensors.length; i++) {
    const node = realizedBuffer(tensors[i].uop);
    if (node === undefined) return undefined;
    const { storage, version } = argOf(node, Ops.BUFFER);
    if (storage.version !== version || storage.disposedAt !== "" || pendingWrite(storage) !== undefined) {
      return undefined;
    }
    storages.push(storage);
  }
  return storages;
}

function infoOf(t: TensorBase): InputInfo {
  return { shape: t.shape, dtype: t.dtype.name, device: deviceText(t) };
}

/** The device of a tensor; of one that is divided among several also how. */
function deviceText(t: TensorBase): string {
  if (meshes.count === 0) return t.device;
  const node = realizedBuffer(t.uop), layout = node && argOf(node, Ops.BUFFER).storage.layout;
  return layout === undefined ? t.device : `${t.device} ${layout}`;
}

function infoText({ shape, dtype, device }: InputInfo): string {
  return `[${shape.join(", ")}] ${dtype} on ${device}`;
}

/** Whether a tensor is what was captured, but perhaps for its dtype. */
function isLike(want: InputInfo, t: TensorBase): boolean {
  return sameArray(want.shape, shapeOf(t.uop)) && want.device === deviceText(t);
}

/** Whether a tensor of whole numbers without a dtype of their own is taken for the floats that were captured. */
function turnsInto(want: InputInfo, t: TensorBase): boolean {
  return want.dtype !== t.dtype.name && isLike(want, t) && toDType(want.dtype).isFloat && isWeak(t);
}

/** Tensors of a result that were made after so many nodes are values alone, as replays give them: no gradient goes on. */
function withoutGraphs(result: unknown, start: number): unknown {
  for (const t of leavesOfTree(result, "call a jit function").tensors) {
    if ((madeOf(t)?.born ?? -1) >= start) forgetOrigin(t.uop); // a part of what it was given is not real
  }
  return result;
}

/** Whether tensors have the dtypes that a form takes. */
function hasDTypes({ inputs }: Form, tensors: readonly TensorBase[]): boolean {
  for (let i = 0; i < inputs.length; i++) if (inputs[i].dtype !== tensors[i].dtype.name) return false;
  return true;
}

/** Arguments as a form takes them, which differ in dtype alone: see {@linkcode turnsInto}. */
function asForm(args: unknown[], { inputs }: Form): { args: unknown[]; leaves: Leaves } {
  let at = 0;
  const taken = replaceTensors(args, (t) => {
    const { dtype } = inputs[at++];
    return t.dtype.name === dtype ? t : (t as RealizeTensor).cast(dtype);
  }) as unknown[];
  return { args: taken, leaves: leavesOfTree(taken, "call a jit function") };
}

function emptyForm(key: string, inputs: readonly InputInfo[], usedAt: number): Form {
  const [writes, assigned, plain, reached] = Array.from({ length: 4 }, () => new Set<number>());
  return { key, inputs, calls: 0, usedAt, writes, assigned, plain, reached, captures: [], closed: new ClosedReads() };
}

/** A call: the form of its arguments, these, the tensors in them and their memory, those given away, and parts of others. */
interface Call {
  readonly form: Form;
  readonly args: unknown[];
  readonly leaves: Leaves;
  readonly storages: readonly Storage[];
  readonly donated: ReadonlySet<number>;
  readonly parts: Parts;
}

/** A function under `jit`, with all that it has captured. */
export class Jit implements JitCalls {
  private readonly forms = new Map<string, Form[]>();
  private formCount = 0;
  /** What calls used and wrote. */
  private readonly uses = new Uses();
  readonly stats = { calls: 0, eager: 0, captures: 0, replays: 0, retraces: 0, kernels: 0, arenaBytes: 0 };
  /** What was told already. */
  private readonly told = new Set<string>();

  constructor(readonly fn: AnyFunction, readonly options: JitOptions) {}

  call(args: unknown[]): unknown {
    const given = leavesOfTree(args, "call a jit function");
    const form = envNumber("JIT") === 0 ? this.noForm(given) : this.formOf(given);
    const taken = hasDTypes(form, given.tensors) ? { args, leaves: given } : asForm(args, form);
    const { tensors } = taken.leaves, tells = this.uses.tells(tensors);
    const lost = tells ? lostOf(tensors, form.assigned) : NONE;
    if (tells) form.assigned.clear(); // they may have been by what it closes over
    const views = viewsOf(tensors, form.writes, form.assigned);
    const storages = prepareInputs(tensors, form.writes, this.uses, lost), donated = this.donatedOf(args);
    const parts = new Parts(tensors, storages, form.writes, views, this.uses);
    const result = this.answer({ form, args: taken.args, leaves: taken.leaves, storages, donated, parts }, tells);
    if (donated.size > 0) {
      const kept = new Set(leavesOfTree(result, "call a jit function").tensors.map(madeOf)); // given back
      for (const { grad } of liveLeaves()) {
        const storage = madeOf(grad ?? undefined);
        if (storage !== undefined) kept.add(storage);
      }
      for (const i of donated) {
        for (const t of new Set([given.tensors[i], taken.leaves.tensors[i]])) {
          if (t !== taken.leaves.tensors[i] || !kept.has(storages[i])) (t as RealizeTensor).dispose();
        }
      }
    }
    return result;
  }

  /** Which of the tensors among the arguments are given away. */
  private donatedOf(args: readonly unknown[]): ReadonlySet<number> {
    const { donate } = this.options;
    if (donate === undefined || donate === false) return NONE;
    const out = new Set<number>();
    let at = 0;
    args.forEach((arg, position) => {
      const count = leavesOfTree(arg, "call a jit function").tensors.length;
      if (donate === true || donate.includes(position)) { for (let k = 0; k < count; k++) out.add(at + k); }
      at += count;
    });
    return out;
  }

  private answer(call: Call, tells: boolean): unknown {
    const { form, leaves, storages, parts } = call;
    const { stats } = this, { captures } = form, goesOn = form.calls > 0 && this.goesOn(form, leaves.tensors);
    const isEager = tells || parts.isMixed || goesOn || form.closed.moves > 1;
    for (let i = captures.length - 1; i >= 0 && !isEager; i--) {
      const c = captures[i];
      if (c.isOutdated()) {
        captures.splice(i, 1);
        stats.retraces++;
      } else if (c.fits(leaves.tensors, storages)) return this.replay(c, call);
    }
    const start = nodesMade();
    if (form.calls++ === 0 || isEager) {
      stats.eager++;
      return withoutGraphs(this.run(form, call.args, leaves.tensors, storages), start);
    }
    let heard: ReturnType<typeof captureCall>;
    try {
      heard = captureCall({
        ...call,
        fn: this.fn,
        uses: this.uses,
        writes: form.writes,
        plain: form.plain,
        closed: form.closed,
        reuseOutputs: this.options.reuseOutputs === true,
      });
    } catch (error) {
      if (!(error instanceof ClosedOver)) throw error;
      this.uses.noteOwn(error.argument);
      stats.eager++;
      return withoutGraphs(this.run(form, call.args, leaves.tensors, storages), start);
    }
    const { captured, result, moves } = heard;
    parts.learn(captured.writtenInputs);
    parts.check(captured.writtenInputs, captured.replay.held);
    if (!moves) captures.push(captured);
    if (captures.length > MAX_CAPTURES) captures.shift();
    for (const i of captured.writtenInputs.keys()) form.writes.add(i);
    for (const i of captured.assigned) form.assigned.add(i);
    for (const i of captured.plain) form.plain.add(i);
    for (const i of captured.reached) form.reached.add(i);
    stats.captures++;
    stats.kernels = captured.replay.kernels;
    stats.arenaBytes = captured.replay.arenaBytes;
    parts.write(captured.writtenInputs, result);
    return withoutGraphs(result, start);
  }

  /** The form of these arguments: of those it has, first one that takes whole numbers without a dtype as floats. */
  private formOf({ key: given, tensors }: Leaves): Form {
    const { forms, stats } = this,
      key = `${modesText()}${forgotten.count || ""}${given}`,
      list = forms.get(key),
      call = ++stats.calls;
    if (list !== undefined) {
      let exact: Form | undefined;
      for (const form of list) {
        let same = true, fits = true;
        for (let i = 0; i < tensors.length && fits; i++) {
          const want = form.inputs[i], t = tensors[i];
          if (want.dtype === t.dtype.name && isLike(want, t)) continue;
          same = false;
          fits = turnsInto(want, t);
        }
        if (!fits) continue;
        exact = form;
        if (!same) break;
      }
      if (exact !== undefined) {
        exact.usedAt = call;
        return exact;
      }
    }
    return this.newForm(key, tensors, list);
  }

  /** The newest capture of all forms. */
  get last(): Captured | undefined {
    return [...this.forms.values()].flat().reduce<Form | undefined>(
      (a, b) => a === undefined || b.usedAt >= a.usedAt ? b : a,
      undefined,
    )
      ?.captures.at(-1);
  }

  /** The form of arguments that are not captured. */
  private noForm({ key, tensors }: Leaves): Form {
    const usedAt = ++this.stats.calls, inputs = tensors.map(infoOf);
    return emptyForm(key, inputs, usedAt);
  }

  private newForm(key: string, tensors: readonly TensorBase[], known: Form[] | undefined): Form {
    const { forms, stats } = this, inputs = tensors.map(infoOf);
    const form = emptyForm(key, inputs, stats.calls);
    if (this.formCount++ > 0) stats.retraces++;
    if (known === undefined) forms.set(key, [form]);
    else known.push(form);
    // many that most calls replay are worth their captures
    const isWorth = 2 * stats.replays > stats.calls;
    if (!isWorth && forms.size > MANY_FORMS) {
      this.tell(
        `${forms.size} different values of arguments that are no tensors`,
        key.slice(0, 200),
        'pass what changes as a tensor, or as new Variable("n", min, max).bind(n)',
      );
    } else if (!isWorth && known !== undefined && known.length > MANY_FORMS) {
      this.tell(
        `tensors of ${known.length} different shapes, dtypes or devices`,
        form.inputs.map(infoText).join(", ").slice(0, 200),
        'pad them to few shapes, or cut them at a variable: x.at([0, new Variable("n", 1, max).bind(n)])',
      );
    }
    if (this.formCount > MAX_FORMS) this.dropOldest();
    return form;
  }

  /** Whether a gradient goes on from an argument to leaves that it was computed from: no capture knows how that was. */
  private goesOn({ reached }: Form, tensors: readonly TensorBase[]): boolean {
    for (const i of reached) {
      if (!hasOrigin(tensors[i].uop)) continue;
      this.tell(
        `argument tensor ${i} computed from what requires gradients, which go through it`,
        infoText(infoOf(tensors[i])),
        "pass its detach(), or compute it inside",
        "runs as it is each time",
      );
      return true;
    }
    return false;
  }

  /** Tells, once for each advice, that it is captured again and again, or what else is slow about calls. */
  private tell(
    what: string,
    last: string,
    advice: string,
    effect = `is captured for each, of which it keeps ${MAX_FORMS}`,
  ): void {
    if (this.told.has(advice)) return;
    this.told.add(advice);
    const name = this.fn.name || "a function";
    debugPrint(
      `jit: ${name} has been called with ${what}, and ${effect} (the last: ${last}); ${advice}`,
    );
  }

  /** Forgets the form that was not called for longest. */
  private dropOldest(): void {
    const oldest = [...this.forms.values()].flat().reduce((a, b) => b.usedAt < a.usedAt ? b : a);
    const rest = this.forms.get(oldest.key)!.filter((f) => f !== oldest);
    if (rest.length > 0) this.forms.set(oldest.key, rest);
    else this.forms.delete(oldest.key);
    this.formCount--;
  }

  /** Calls the function as it is, and sees what it writes. */
  run(
    { writes, assigned: positions, reached, closed }: Form,
    args: unknown[],
    inputs: readonly TensorBase[],
    storages: readonly Storage[],
  ): unknown {
    const start = nodesMade();
    useLog.listener = this.uses.listen(inputs, storages, start, writes);
    const assigned = movedHandles.assigned = new Set<TensorBase>();
    const renamed = movedHandles.renamed = new Set<TensorBase>();
    movedHandles.since = handlesMade();
    const reachedBy = watchReached(inputs);
    const read = readHandles.set = new Set<TensorBase>(), grads = new Set(liveLeaves().map((leaf) => leaf.grad));
    let result: unknown;
    try {
      result = this.fn(...args);
      readHandles.set = undefined;
      if (result instanceof Promise) {
        result.catch(() => {}); // this error is the one to tell
        throw asyncError();
      }
      for (const t of leavesOfTree(result, "call a jit function").tensors) read.add(t);
      const filled = liveLeaves().flatMap(({ grad }) => grad && !grads.has(grad) ? [grad as TensorBase] : []);
      // assigned to itself, a tensor waits for the write that it waited for
      const waits = ({ op, seq }: UOp): boolean => op === Ops.AFTER && seq < start;
      const lazy = pendingOf(pendingWrites(renamed)).filter((t) => !waits(shown(t.uop).base)); // as views stay what they are
      const others = [...pendingWrites(assigned), ...lazy, ...pendingOf(filled)];
      result = realizeResult(result, others, start, storages, inputs);
    } finally {
      for (const i of reachedBy()) reached.add(i);
      useLog.listener =
        movedHandles.assigned =
        movedHandles.renamed =
        readHandles.set =
          undefined;
    }
    const given = new Set<unknown>([...inputs, ...grads]);
    replaceTensors(args, (t) => t, (number) => (given.add(number), number));
    const fresh = closed.note(read, movedHandles.since, given);
    if (fresh !== undefined && closed.moves > 1) {
      this.tell(
        "a variable that it closes over and that was given another tensor since the call before",
        infoText(infoOf(fresh)),
        "pass what changes as an argument, or change the tensor that the variable has: h.assign(x), h.replace(x)",
        "runs as it is each time",
      );
    }
    this.uses.noteRead([...read].filter((t) => internals.isBefore(t, movedHandles.since)), inputs);
    this.uses.noteHandles([...assigned, ...renamed], inputs);
    // also those that were no memory, and have got some
    inputs.forEach((t, i) => {
      if (assigned.has(t)) positions.add(i);
      if (assigned.has(t) || renamed.has(t)) writes.add(i);
    });
    checkAlive(inputs);
    return result;
  }

  private replay(c: Captured, call: Call): unknown {
    const { leaves, storages, donated, parts } = call;
    this.stats.replays++;
    relieveHeap(REPLAY_SHARE);
    relieveDevices();
    parts.check(c.writtenInputs, c.replay.held);
    c.catchUp(storages);
    const result = envNumber("JIT_CHECK") === 0
      ? c.run(leaves, storages, donated.size > 0, parts)
      : this.checked(c, call);
    parts.write(c.writtenInputs, result);
    return result;
  }

  /** As a replay, beside a call, in which parts of other tensors are tensors of their own, as in the replay. */
  private checked(c: Captured, { form, args, leaves: { tensors, key, bound }, storages, parts }: Call): unknown {
    const back = new Map<TensorBase, TensorBase>();
    const own = tensors.map((t, i) => {
      if (!parts.has(i)) return t;
      const copy = [...back].find(([, of]) => of === t)?.[0] ?? parted(t);
      back.set(copy, t);
      return copy;
    });
    let at = 0;
    const given = replaceTensors(args, () => own[at++]) as unknown[];
    const call = (): unknown => this.run(form, given, own, storages);
    return replaceTensors(
      checkedReplay(c, { tensors: own, key, bound }, storages, parts, call),
      (t) => back.get(t) ?? t,
    );
  }

  reset(): void {
    this.forms.clear();
    this.formCount = 0;
  }
}
