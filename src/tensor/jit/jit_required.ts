/**
 * Which tensors required gradients when a function was captured: `requiresGrad = false` freezes a weight, and another
 * capture serves the calls from then on. A capture depends on that for the tensors of which the function asks for it, and,
 * where it takes gradients, for all that it reads.
 *
 * @module
 */
import { originPlace, reached } from "../gradients/origins.ts";
import { requiring, type TensorBase } from "../handle/base.ts";

/** A tensor that a function closes over, and whether it required a gradient. */
interface Closed {
  readonly ref: WeakRef<TensorBase>;
  readonly required: boolean;
}

/** What a capture depends on. */
export class Required {
  private checkedAt: number = requiring.count;
  private isSame = true;

  constructor(
    /** By argument, whether it required a gradient; undefined where that is of no matter. */
    private readonly args: readonly (boolean | undefined)[],
    private readonly closed: readonly Closed[],
  ) {}

  /** Whether what required a gradient does, and nothing else. */
  fits(tensors: readonly TensorBase[]): boolean {
    if (this.checkedAt !== requiring.count) {
      this.isSame = this.closed.every(({ ref, required }) => {
        const t = ref.deref();
        return t === undefined || (t.requiresGrad === true) === required;
      });
      this.checkedAt = requiring.count;
    }
    return this.isSame && this.args.every((r, i) => r === undefined || r === (tensors[i].requiresGrad === true));
  }
}

/** Watches a call for what it depends on. */
export class Asked {
  private readonly asked = new Map<TensorBase, boolean>();
  private readonly args: readonly boolean[];

  /** Begins, with these arguments. */
  constructor(tensors: readonly TensorBase[]) {
    this.args = tensors.map((t) => t.requiresGrad === true);
    requiring.asked = this.asked;
    requiring.taken = false;
  }

  /**
   * Ends; `inside` are the arguments as the function got them, `read` the tensors it read, and `isOlder` tells those that
   * were there before it.
   */
  end(inside: readonly TensorBase[], read: Iterable<TensorBase>, isOlder: (t: TensorBase) => boolean): Required {
    this.stop();
    const { asked } = this, { taken } = requiring, own = new Set(inside), closed: Closed[] = [];
    for (const t of new Set([...taken ? read : [], ...asked.keys()])) {
      if (own.has(t) || !isOlder(t) || !t.dtype.isFloat) continue;
      closed.push({ ref: new WeakRef(t), required: asked.get(t) ?? t.requiresGrad === true });
      requiring.known.add(t);
    }
    const args = this.args.map((r, i) => taken || asked.has(inside[i]) ? r : undefined);
    return new Required(args, closed);
  }

  /** Hears no more. */
  stop(): void {
    requiring.asked = undefined;
  }
}

/** Watches a call until what it gives is called, which tells the positions of arguments that gradients came to. */
export function watchReached(inputs: readonly TensorBase[]): () => number[] {
  const places = inputs.map((t) => originPlace(t.uop)), set = reached.set = new Set();
  return () => {
    reached.set = undefined;
    return [...places.keys()].filter((i) => set.has(places[i]!));
  };
}
