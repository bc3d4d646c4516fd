/**
 * What a function under jit closes over: variables that hold tensors. They cannot be seen, but which tensors a call reads
 * can: where one gave way to another since the call before, a variable holds another tensor now, as one does that the
 * function gives its state (`h = cell(x, h)`), and a capture would go on with what was there.
 *
 * @module
 */
import { isRememberedLoss } from "../gradients/backward.ts";
import { frozenLeaves, gradLeaves, internals, type TensorBase } from "../handle/base.ts";

/** The tensors that calls of one form read besides their arguments. */
export class ClosedReads {
  private last: WeakSet<TensorBase> | undefined;
  private count = 0;
  /** In how many calls, up to the last one, one gave way to another: what is captured then would be of that call alone. */
  moves: number = 0;

  /**
   * Notes what a call has read of the handles that there were `since` then, but for its arguments and gradients that there
   * were: `others`. Gives the tensor that is new where another one is gone.
   */
  note(read: Iterable<TensorBase>, since: number, others: ReadonlySet<unknown>): TensorBase | undefined {
    const now = new WeakSet<TensorBase>(), { last } = this, leaves = new Set<TensorBase | undefined>();
    for (const ref of [...gradLeaves, ...frozenLeaves]) leaves.add(ref.deref()); // each backward() looks at all of them
    let count = 0, kept = 0, fresh: TensorBase | undefined;
    for (const t of read) {
      if (!internals.isBefore(t, since) || others.has(t) || leaves.has(t) || isRememberedLoss(t)) continue;
      now.add(t);
      count++;
      if (last?.has(t) === true) kept++;
      else fresh ??= t;
    }
    const isGone = last !== undefined && kept < this.count;
    [this.last, this.count] = [now, count];
    if (!isGone) fresh = undefined;
    this.moves = fresh === undefined ? 0 : this.moves + 1;
    return fresh;
  }
}
