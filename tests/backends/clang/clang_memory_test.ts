/** Blocks of CLANG's memory: random programs that take and give them, beside a list of what each holds. */
import { assert, assertEquals } from "@std/assert";
import { context } from "../../../src/helpers/env.ts";
import type { Block } from "../../../src/device/allocator.ts";
import { Random } from "../../support/random.ts";
import { cacheFolder, ignore, openAt, test } from "./clang_harness.ts";

const MB = 2 ** 20;
/** Not with a page without access behind each block, as tests have it. */
const inner = ignore ? undefined! : context({ SPEC: 0 }, () => openAt(cacheFolder)).allocator.inner;

/** A block with what it was filled with. */
interface Held {
  readonly block: Block;
  readonly nbytes: number;
  readonly mark: number;
}

/** Bytes of this process that are in memory. */
function resident(): number {
  return Number(/VmRSS:\s+(\d+)/.exec(Deno.readTextFileSync("/proc/self/status"))![1]) * 1024;
}

/** A size as programs have them: most are small, a few are larger than an arena. */
function sizeOf(r: Random): number {
  const kind = r.int(0, 9);
  if (kind < 5) return r.int(0, 4096);
  if (kind < 8) return r.int(1, 300_000);
  return kind < 9 ? r.int(1, 5 * MB) : r.int(1, 70 * MB);
}

test("blocks of memory are apart, keep what is in them, and are given back, in any order", () => {
  const bytes = (h: Held) => inner.hostBytes!(h.block, 0, h.nbytes)!;
  for (let seed = 1; seed <= 6; seed++) {
    const r = new Random(seed), held: Held[] = [];
    const give = (i: number): void => {
      const [h] = held.splice(i, 1);
      // both ends and some between: all of the large ones would take long
      for (const at of [0, h.nbytes - 1, h.nbytes >> 1, ...Array.from({ length: 20 }, () => r.int(0, h.nbytes - 1))]) {
        if (h.nbytes > 0) assertEquals(bytes(h)[Math.max(0, at)], h.mark, `byte ${at} of ${h.nbytes}, seed ${seed}`);
      }
      inner.free(h.block, h.nbytes);
    };
    for (let step = 0; step < 400; step++) {
      const total = held.reduce((n, h) => n + h.nbytes, 0);
      if (held.length > 0 && (r.int(0, 99) < 45 || total > 150 * MB)) give(r.int(0, held.length - 1));
      else {
        const nbytes = sizeOf(r), h = { block: inner.alloc(nbytes), nbytes, mark: r.int(1, 255) };
        assertEquals(Number((h.block as unknown as { address: bigint }).address % 64n), 0);
        if (nbytes > 0) bytes(h).fill(h.mark);
        held.push(h);
      }
    }
    while (held.length > 0) give(r.int(0, held.length - 1));
  }
});

Deno.test({
  name: "clang: what is given back goes to the system, also where a small block stays beside it",
  ignore: ignore || Deno.build.os !== "linux",
  fn: () => {
    const n = 12 * MB;
    const take = (): Held => {
      const h = { block: inner.alloc(n), nbytes: n, mark: 7 };
      inner.hostBytes!(h.block, 0, n)!.fill(7);
      return h;
    };
    const before = resident(), held: Held[] = [], small: Block[] = [];
    for (let i = 0; i < 16; i++) {
      held.push(take());
      small.push(inner.alloc(100));
    }
    const most = resident() - before;
    assert(most > 0.8 * 16 * n, `${most} bytes`);
    for (const h of held) inner.free(h.block, n);
    // a large page on each side of a small block may stay
    const left = resident() - before;
    assert(left < 16 * 4 * MB + 16 * MB, `${left} bytes are left of ${most}`);
    for (const b of small) inner.free(b, 100);
  },
});
