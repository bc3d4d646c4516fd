/**
 * Trees of objects, arrays and maps with values of one kind at their leaves: what `jit`, `grad` and `vmap` take and give.
 *
 * @module
 */

function isBranch(x: unknown): x is Record<string, unknown> {
  return typeof x === "object" && x !== null && !ArrayBuffer.isView(x);
}

/** All leaves of `tree` for which `isLeaf` holds, in order. A branch inside of itself (a cycle) is not entered again. */
export function leavesOf<T>(tree: unknown, isLeaf: (x: unknown) => x is T): T[] {
  const found: T[] = [], inside = new Set<unknown>();
  const visit = (x: unknown): void => {
    if (isLeaf(x)) found.push(x);
    else if (isBranch(x) && !inside.has(x)) {
      inside.add(x);
      for (const v of x instanceof Map ? x.values() : Object.values(x)) visit(v);
      inside.delete(x);
    }
  };
  visit(tree);
  return found;
}

/**
 * The same tree with every leaf replaced by `replace(leaf, index)`. Arrays and maps stay such; other objects keep their
 * prototype, so that an instance of a class still has its methods. What has no leaf below it is not copied, nor is a branch
 * inside of itself (a cycle), which stays what it was.
 */
export function mapLeaves<T>(
  tree: unknown,
  isLeaf: (x: unknown) => x is T,
  replace: (leaf: T, index: number) => unknown,
): unknown {
  let next = 0;
  const inside = new Set<unknown>();
  const branch = (x: Record<string, unknown>): unknown => {
    const before = next;
    if (x instanceof Map) {
      const made = new Map([...x].map(([k, v]) => [k, visit(v)]));
      return next === before ? x : made;
    }
    if (Array.isArray(x)) {
      const made = x.map(visit);
      return next === before ? x : made;
    }
    const fields = Object.keys(x).map((k) => [k, visit(x[k])] as const);
    return next === before ? x : Object.assign(Object.create(Object.getPrototypeOf(x)), x, Object.fromEntries(fields));
  };
  const visit = (x: unknown): unknown => {
    if (isLeaf(x)) return replace(x, next++);
    if (!isBranch(x) || inside.has(x)) return x;
    inside.add(x);
    const made = branch(x);
    inside.delete(x);
    return made;
  };
  return visit(tree);
}
