/**
 * Trees of objects, arrays and maps with values of one kind at their leaves: what `jit`, `grad` and `vmap` take and give.
 *
 * @module
 */

/** Levels below which nothing is looked for: a cycle ends there. */
const MAX_DEPTH = 64;

function isBranch(x: unknown): x is Record<string, unknown> {
  return typeof x === "object" && x !== null && !ArrayBuffer.isView(x);
}

/** All leaves of `tree` for which `isLeaf` holds, in order. @param into receives them */
export function leavesOf<T>(tree: unknown, isLeaf: (x: unknown) => x is T, into: T[] = [], depth = 0): T[] {
  if (isLeaf(tree)) into.push(tree);
  else if (isBranch(tree) && depth < MAX_DEPTH) {
    for (const x of tree instanceof Map ? tree.values() : Object.values(tree)) leavesOf(x, isLeaf, into, depth + 1);
  }
  return into;
}

/**
 * The same tree with every leaf replaced by `replace(leaf, index)`. Arrays and maps stay such; other objects keep their
 * prototype, so that an instance of a class still has its methods. What has no leaf below it is not copied.
 */
export function mapLeaves<T>(
  tree: unknown,
  isLeaf: (x: unknown) => x is T,
  replace: (leaf: T, index: number) => unknown,
): unknown {
  let next = 0;
  const visit = (x: unknown, depth: number): unknown => {
    if (isLeaf(x)) return replace(x, next++);
    if (!isBranch(x) || depth >= MAX_DEPTH) return x;
    const before = next;
    if (x instanceof Map) {
      const made = new Map([...x].map(([k, v]) => [k, visit(v, depth + 1)]));
      return next === before ? x : made;
    }
    if (Array.isArray(x)) {
      const made = x.map((v) => visit(v, depth + 1));
      return next === before ? x : made;
    }
    const fields = Object.keys(x).map((k) => [k, visit(x[k], depth + 1)] as const);
    return next === before ? x : Object.assign(Object.create(Object.getPrototypeOf(x)), x, Object.fromEntries(fields));
  };
  return visit(tree, 0);
}
