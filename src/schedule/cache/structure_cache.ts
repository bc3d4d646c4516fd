/**
 * A cache by the structure of graphs that holds so many entries, those used last.
 *
 * @module
 */
import { type GraphKey, sameKey } from "./graph_key.ts";

interface Known<T> {
  readonly key: GraphKey;
  readonly value: T;
}

/** What a key has besides telling graphs apart. */
const NOTHING = {
  order: [],
  rootAt: [],
  storages: [],
  constants: [],
  constantAt: [],
  bound: [],
  boundAt: [],
  offsets: [],
};

/** What is known of graphs by their keys; the one not used for longest goes first. */
export class StructureCache<T> {
  /** Entries by hash, in the order of their last use. */
  private readonly buckets = new Map<number, Known<T>[]>();
  private count = 0;

  /** @param limit entries that are kept */
  constructor(readonly limit: number) {}

  /** Entries kept now. */
  get size(): number {
    return this.count;
  }

  /** What is known of graphs of this key. */
  get(key: GraphKey): T | undefined {
    const bucket = this.buckets.get(key.hash), found = bucket?.find((k) => sameKey(k.key, key));
    if (found === undefined) return undefined;
    this.buckets.delete(key.hash);
    this.buckets.set(key.hash, bucket!);
    return found.value;
  }

  /** Adds what was not known. Of the key only what tells graphs apart is kept, not the graph. */
  add(key: GraphKey, value: T): T {
    const { hash, ints, args } = key;
    const bare = { ...NOTHING, hash, ints, args };
    const bucket = this.buckets.get(key.hash) ?? [];
    this.buckets.delete(key.hash);
    this.buckets.set(key.hash, [...bucket, { key: bare, value }]);
    this.count++;
    for (const [hash, list] of this.buckets) {
      if (this.count <= this.limit || hash === key.hash) break;
      this.buckets.delete(hash);
      this.count -= list.length;
    }
    return value;
  }

  /** Forgets everything. */
  clear(): void {
    this.buckets.clear();
    this.count = 0;
  }
}
