/**
 * Random async functions that overlap: each knows the modes that it must see (values of `context` and `Tensor.train`) and
 * the tensors that must be alive for it (those of its scopes, and those that nobody's scope made), and looks at random
 * moments. Functions share tensors, equal expressions and jit functions; some fail. At the end nothing may be held.
 *
 * Run: `deno run -A tests/fuzz/async_modes.ts --count 100 --seed 1 --device WASM`
 */
import { parseArgs } from "@std/cli/parse-args";
import { settleMemory } from "../../src/device/pressure.ts";
import { envNumber, envText } from "../../src/helpers/env.ts";
import { context, Device, DisposedError, jit, scope, Tensor } from "../../mod.ts";
import { Random } from "../support/random.ts";

/** What a function must see. */
interface Modes {
  readonly TRAINING: number;
  readonly DEFAULT_FLOAT: string;
  readonly DEFAULT_INT: string;
  readonly WINO: number;
}
const USUAL: Modes = { TRAINING: 0, DEFAULT_FLOAT: "float32", DEFAULT_INT: "int32", WINO: 0 };

/** A tensor of two elements, both this value. */
interface Made {
  readonly t: Tensor;
  readonly value: number;
  /** Whether a capture of jit made it, which no scope frees. */
  readonly captured: boolean;
}

/** What a scope has made; `outer` is the scope around it. */
interface Scope {
  readonly outer: Scope | undefined;
  readonly made: Made[];
}

/** Thrown on purpose. */
class Planned extends Error {}

function fail(what: string): never {
  throw new Error(what);
}

/** One program: its functions share what is here. */
class Overlap {
  /** Made in no scope. */
  private readonly pool: Made[] = [];
  private readonly base: Tensor;
  private readonly double = jit((x: Tensor) => x.mul(2).contiguous());
  private readonly drop = jit((x: Tensor) => x.dropout(0.5));
  private readonly half = jit((x: Tensor) => x.add(new Tensor([0.5], { device: this.device })));
  private readonly ones: Tensor;
  private next = 100; // beyond what shared expressions have
  /** Looks at modes and tensors. */
  looks = 0;

  constructor(private readonly random: Random, private readonly device: string) {
    this.base = new Tensor(new Float32Array([1, 1]), { device }).realize();
    this.ones = new Tensor(new Float32Array(64).fill(1), { device }).realize();
  }

  private int(n: number): number {
    return this.random.int(0, n - 1);
  }

  private async pause(): Promise<void> {
    switch (this.int(4)) {
      case 0:
        return await Promise.resolve();
      case 1:
        return await new Promise((done) => setTimeout(done, this.int(3)));
      case 2:
        return await new Promise((done) => setImmediate(done));
      default:
        for (let i = this.int(6); i > 0; i--) await Promise.resolve();
    }
  }

  /** Checks what is seen here. */
  private look(modes: Modes): void {
    this.looks++;
    const seen: Modes = {
      TRAINING: Number(Tensor.training),
      DEFAULT_FLOAT: new Tensor([0.5]).dtype.name,
      DEFAULT_INT: envText("DEFAULT_INT"),
      WINO: envNumber("WINO"),
    };
    if (JSON.stringify(seen) !== JSON.stringify(modes)) {
      fail(`sees ${JSON.stringify(seen)}, not ${JSON.stringify(modes)}`);
    }
  }

  private async checkTensor({ t, value }: Pick<Made, "t" | "value">): Promise<void> {
    this.looks++;
    const got = await t.tolist() as number[];
    if (got.length !== 2 || got.some((x) => x !== value)) fail(`a tensor is ${got}, not ${value}`);
  }

  private make(scope: Scope | undefined): void {
    const value = this.next++, kind = this.int(4);
    const options = { device: this.device, dtype: "float32" } as const;
    const t = kind === 0
      ? new Tensor([value, value], options)
      : kind === 1
      ? this.base.add(value - 1)
      : kind === 2
      ? this.base.mul(value).contiguous()
      : context(USUAL as never, () => this.double(this.base.mul(value / 2)));
    if (this.int(2) === 0) t.realize();
    (scope?.made ?? this.pool).push({ t, value, captured: kind === 3 });
  }

  private someone(scope: Scope | undefined): Made | undefined {
    let list = this.pool;
    for (let s = scope; s !== undefined && this.int(2) === 0; s = s.outer) list = s.made;
    return list.length === 0 ? undefined : list[this.int(list.length)];
  }

  /** A function that runs in these modes and scopes. */
  async run(modes: Modes, within: Scope | undefined, depth: number): Promise<void> {
    for (let steps = 1 + this.int(5); steps > 0; steps--) {
      this.look(modes);
      await this.step(modes, within, depth);
    }
    this.look(modes);
  }

  private async step(modes: Modes, within: Scope | undefined, depth: number): Promise<void> {
    const deeper = depth > 0 ? 9 : 5;
    switch (this.int(deeper)) {
      case 0:
        return await this.pause();
      case 1:
        return this.make(within);
      case 2: {
        const made = this.someone(within);
        if (made !== undefined) await this.checkTensor(made);
        return;
      }
      case 3: { // an expression that others write, too: one node for all
        const factor = 2 + this.int(2);
        const t = this.base.add(factor).contiguous();
        if (this.int(2) === 0) t.realize();
        await this.pause();
        return await this.checkTensor({ t, value: 1 + factor });
      }
      case 4: {
        // few modes: of each a jit function makes a capture
        const few = { DEFAULT_INT: USUAL.DEFAULT_INT, WINO: USUAL.WINO };
        const half = context(few, () => this.half(this.base)),
          wide = modes.DEFAULT_FLOAT === "float64" ? "float64" : "float32";
        if (half.dtype.name !== wide) fail(`a jit function gives ${half.dtype} beside ${modes.DEFAULT_FLOAT}`);
        if ((await half.tolist() as number[])[0] !== 1.5) fail(`a jit function gives ${await half.tolist()}`);
        const kept = await context(few, () => this.drop(this.ones)).data() as Float32Array,
          dropped = kept.some((x) => x === 0);
        if (dropped !== (modes.TRAINING === 1)) {
          fail(`dropout ${dropped ? "drops" : "keeps all"} beside ${modes.TRAINING}`);
        }
        return;
      }
      case 5: {
        const set = this.someModes(), now = { ...modes, ...set };
        if (this.int(3) === 0) return context(set, () => this.look(now));
        return await context(set, () => this.run(now, within, depth - 1));
      }
      case 6:
        return await Tensor.train(() => this.run({ ...modes, TRAINING: 1 }, within, depth - 1));
      case 7:
        return await this.inScope(modes, within, depth);
      case 8: {
        const parts = Array.from({ length: 2 + this.int(2) }, () => this.run(modes, within, depth - 1));
        // all of them must end before what they share does
        const bad = (await Promise.allSettled(parts)).find((p) => p.status === "rejected");
        if (bad !== undefined) throw bad.reason;
      }
    }
  }

  private someModes(): Partial<Modes> {
    const set: { -readonly [K in keyof Modes]?: Modes[K] } = {};
    if (this.int(2) === 0) set.DEFAULT_FLOAT = ["float16", "float32", "float64"][this.int(3)];
    if (this.int(2) === 0) set.TRAINING = this.int(2);
    if (this.int(2) === 0) set.DEFAULT_INT = ["int32", "int64"][this.int(2)];
    if (this.int(2) === 0) set.WINO = this.int(2);
    return set;
  }

  private async inScope(modes: Modes, outer: Scope | undefined, depth: number): Promise<void> {
    const inner: Scope = { outer, made: [] }, fails = this.int(8) === 0;
    let kept: Made[] = [];
    const choose = (): Tensor[] => {
      if (fails) throw new Planned();
      kept = inner.made.filter(() => this.int(3) === 0);
      return kept.map(({ t }) => t);
    };
    try {
      if (this.int(4) === 0) {
        scope(() => {
          for (let i = this.int(3); i >= 0; i--) this.make(inner);
          this.look(modes);
          return choose();
        });
      } else {
        await scope(async () => {
          await this.run(modes, inner, depth - 1);
          return choose();
        });
      }
    } catch (error) {
      if (!(error instanceof Planned)) throw error;
      kept = [];
    }
    for (const made of inner.made) {
      if (kept.includes(made)) {
        await this.checkTensor(made);
        (outer?.made ?? this.pool).push(made);
      } else if (made.t.isRealized && !made.captured) {
        try {
          await made.t.data();
        } catch (error) {
          if (error instanceof DisposedError) continue;
          throw error;
        }
        fail(`${made.value} outlives its scope`);
      }
    }
  }

  /** All functions have ended: what is in the pool is there, and goes. */
  async end(): Promise<void> {
    this.look(USUAL);
    for (const made of this.pool) await this.checkTensor(made);
    for (const made of this.pool) made.t.dispose();
    for (const t of [this.base, this.ones]) t.dispose();
    for (const f of [this.double, this.drop, this.half]) f.reset();
    this.pool.length = 0;
  }
}

/** Bytes held on a device. */
function held(device: string): number {
  return Device.memory()[device]?.bytes ?? 0;
}

/** Runs so many programs; gives how often they looked. Throws what the first wrong one saw. */
export async function fuzzAsyncModes(options: { count: number; seed: number; device: string }): Promise<number> {
  const { device, count, seed } = options;
  let looks = 0;
  await settleMemory();
  const before = held(device);
  for (let i = 0; i < count; i++) {
    const program = new Overlap(new Random(seed + i), device);
    const parts = Array.from({ length: 6 }, () => program.run(USUAL, undefined, 4));
    const bad = (await Promise.allSettled(parts)).find((p) => p.status === "rejected");
    if (bad !== undefined) throw new Error(`program ${seed + i} on ${device}`, { cause: bad.reason });
    await program.end();
    looks += program.looks;
  }
  await settleMemory();
  if (held(device) !== before) throw new Error(`${held(device) - before} bytes are left on ${device}`);
  return looks;
}

if (import.meta.main) {
  const { count = 100, seed = 1, device = "WASM" } = parseArgs(Deno.args, { string: ["count", "seed", "device"] });
  await Device.open(device);
  const looks = await fuzzAsyncModes({ count: Number(count), seed: Number(seed), device });
  console.log(`${count} programs on ${device} looked ${looks} times; nothing wrong`);
}
