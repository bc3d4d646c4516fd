/**
 * Programs as people write them, exported and run several times on other inputs than those of the export, beside the
 * function itself: what it returns and what it remembers must be the same, in plain and fast C and as a module.
 */
import assert from "node:assert/strict";
import { Device, nn, state, Tensor, Variable } from "../../mod.ts";
import { type Callable, exportModels } from "../../src/export/export.ts";
import { compilersHere, run } from "./build.ts";
import { wave } from "./programs.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const folder = Deno.makeTempDirSync({ prefix: "dinograd-export-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const [compiler] = compilersHere().filter((c) => !c.isCpp);

/** Numbers as C and modules take them, or a size. */
type Given = number | readonly Tensor[] | Tensor;
/** A call: of which entry, on what; a number is the value of the variable that stands there. */
type Call = readonly [entry: string, ...args: Given[]];
interface Program {
  readonly entries: Readonly<Record<string, readonly [f: Callable, args: readonly unknown[]]>>;
  readonly calls: readonly Call[];
  readonly weights?: unknown;
  /** Largest difference, of the largest value. */
  readonly by?: number;
}
const whole = (list: readonly number[], dtype: "int32" | "uint8" | "bool" | "int64" = "int32", shape?: number[]) =>
  new Tensor(list.slice(), { dtype }).reshape(shape ?? [list.length]).realize();
const empty = (...shape: number[]): Tensor => Tensor.zeros(shape).contiguous().realize();

class Block {
  readonly norm = new nn.LayerNorm(8);
  readonly qkv = new nn.Linear(8, 24);
  readonly out = new nn.Linear(8, 8);
  readonly up = new nn.Linear(8, 16);
  readonly down = new nn.Linear(16, 8);
  /** A token at a time: keys and values of those before lie in the cache. */
  step(x: Tensor, keys: Tensor, values: Tensor, at: Tensor): Tensor {
    const [q, k, v] = this.qkv.call(this.norm.call(x)).reshape([3, 2, 4]).unbind(0);
    keys.setAt([at], k);
    values.setAt([at], v);
    const isSeen = Tensor.arange(6).le(at).reshape([1, 6]);
    const scores = keys.transpose(0, 1).matmul(q.unsqueeze(-1)).squeeze(-1).div(2);
    const weights = isSeen.where(scores, -Infinity).softmax(-1);
    const seen = weights.unsqueeze(1).matmul(values.transpose(0, 1)).reshape([8]);
    const y = x.add(this.out.call(seen));
    return y.add(this.down.call(this.up.call(y).gelu()));
  }
}

const PROGRAMS: Readonly<Record<string, () => Program>> = {
  mlp: () => {
    const l1 = new nn.Linear(6, 10), norm = new nn.RMSNorm(10), l2 = new nn.Linear(10, 3);
    const f = (x: Tensor) => l2.call(norm.call(l1.call(x).silu())).softmax();
    return {
      entries: { go: [f, [wave([4, 6])]] },
      calls: [1, 2, 3].map((k) => ["go", wave([4, 6], k)]),
      weights: { l1, norm, l2 },
    };
  },
  convnet: () => {
    const down = new nn.Conv2d(2, 6, 3, { stride: 2, padding: 1 }), up = new nn.ConvTranspose2d(6, 2, 2, { stride: 2 });
    const last = new nn.Conv2d(4, 1, 1);
    const f = (x: Tensor) => last.call(Tensor.cat([x, up.call(down.call(x).relu())], 1)).sigmoid();
    return {
      entries: { go: [f, [wave([1, 2, 8, 8])]] },
      calls: [1, 2].map((k) => ["go", wave([1, 2, 8, 8], k)]),
      weights: { down, up, last },
    };
  },
  lstm: () => {
    const lstm = new nn.LSTM(3, 5, { numLayers: 2, bidirectional: true, batchFirst: true });
    const f = (x: Tensor) => {
      const [out, [h]] = lstm.call(x);
      return { out, last: h };
    };
    return { entries: { go: [f, [wave([2, 4, 3])]] }, calls: [["go", wave([2, 4, 3], 5)]], weights: lstm };
  },
  decoder: () => {
    const block = new Block(), keys = empty(6, 2, 4), values = empty(6, 2, 4), at = new Variable("at", 0, 5);
    const step = (x: Tensor, at: Tensor) => block.step(x, keys, values, at);
    const forget = () => {
      keys.assign(keys.mul(0));
      values.assign(values.mul(0));
      return keys.sum();
    };
    return {
      entries: { step: [step, [wave([8]), at.bind(0)]], forget: [forget, []] },
      calls: [["forget"], ["step", wave([8], 1), 0], ["step", wave([8], 2), 1], ["step", wave([8], 3), 2], ["forget"], [
        "step",
        wave([8], 4),
        0,
      ]],
      weights: { block, keys, values },
    };
  },
  two_outputs: () => ({
    entries: {
      go: [(x: Tensor) => {
        const [values, places] = x.sort(-1, { descending: true });
        return { values, places, mean: x.mean(), isPositive: x.gt(0) };
      }, [wave([3, 5])]],
    },
    calls: [["go", wave([3, 5], 1)], ["go", wave([3, 5], 9)]],
  }),
  integers: () => {
    const table = new nn.Embedding(9, 4);
    const f = (ids: Tensor, mask: Tensor, bytes: Tensor, offset: Tensor) => ({
      mean: table.call(ids).mul(mask.unsqueeze(-1)).sum(0).div(mask.sum()),
      sum: bytes.cast("int32").sum().add(ids.sum().cast("int32")),
      far: offset.mul(3).add(1),
      halves: bytes.bitwiseAnd(15).mul(16).add(bytes.rshift(4)),
    });
    const of = (ids: number[], mask: number[], bytes: number[], offset: number[]): Tensor[] => [
      whole(ids, "int64"),
      whole(mask, "bool"),
      whole(bytes, "uint8"),
      whole(offset, "int64"),
    ];
    return {
      entries: { go: [f, of([1, 2, 3, 0], [1, 1, 0, 1], [255, 1, 2], [1, 2])] },
      calls: [["go", ...of([8, 8, 0, 1], [0, 1, 1, 0], [7, 250, 128], [-5, 2 ** 40])], [
        "go",
        ...of([0, 0, 0, 5], [1, 1, 1, 1], [0, 16, 17], [0, -(2 ** 51)]),
      ]],
      weights: table,
    };
  },
  symbolic: () => {
    const n = new Variable("n", 1, 7), layer = new nn.Linear(4, 3);
    const f = (x: Tensor, n: Tensor) => {
      const rows = layer.call(x.shrink([[0, n], null]));
      return { top: rows.max(0), share: rows.softmax(0).square().sum(0), mean: rows.mean() };
    };
    return {
      entries: { go: [f, [wave([7, 4]), n.bind(3)]] },
      calls: [["go", wave([7, 4], 1), 7], ["go", wave([7, 4], 2), 1], ["go", wave([7, 4], 3), 4]],
      weights: layer,
    };
  },
  statistics: () => {
    const norm = new nn.BatchNorm(3), count = Tensor.zeros([1], { dtype: "int32" }).contiguous().realize();
    const learn = (x: Tensor) =>
      Tensor.train(() => {
        count.assign(count.add(1));
        return norm.call(x).square().mean([0, 2, 3]);
      });
    const use = (x: Tensor) => ({ y: norm.call(x), count: count.add(0) });
    return {
      entries: { learn: [learn, [wave([2, 3, 4, 4])]], use: [use, [wave([1, 3, 4, 4])]] },
      calls: [["learn", wave([2, 3, 4, 4], 1)], ["use", wave([1, 3, 4, 4], 2)], ["learn", wave([2, 3, 4, 4], 3)], [
        "use",
        wave([1, 3, 4, 4], 4),
      ]],
      weights: { norm, count },
      by: 1e-5,
    };
  },
  training: () => {
    const model = { l1: new nn.Linear(3, 8), l2: new nn.Linear(8, 2) };
    const optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 0.01 });
    const out = (x: Tensor) => model.l2.call(model.l1.call(x).tanh());
    const learn = (x: Tensor, y: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = out(x).crossEntropy(y).backward();
        optimizer.step();
        return { loss };
      });
    const y = whole([0, 1, 1, 0]);
    return {
      entries: { learn: [learn, [wave([4, 3]), y]], use: [out, [wave([1, 3])]] },
      calls: [
        ["learn", wave([4, 3], 1), whole([1, 1, 0, 0])],
        ["use", wave([1, 3], 2)],
        ["learn", wave([4, 3], 3), whole([0, 1, 0, 1])],
        ["learn", wave([4, 3], 4), y],
        ["use", wave([1, 3], 5)],
      ],
      weights: model,
      by: 2e-5,
    };
  },
  queue: () => {
    // the last samples of a signal, a filter of them, and the largest so far
    const last = empty(8), most = empty(1), taps = wave([8], 0.5);
    const push = (x: Tensor) => {
      last.assign(Tensor.cat([last.shrink([[2, 8]]), x]));
      most.assign(most.maximum(x.max()));
      return { y: last.mul(taps).sum(), most: most.add(0) };
    };
    return {
      entries: { push: [push, [wave([2])]] },
      calls: [1, 2, 3, 4, 5].map((k) => ["push", wave([2], k)]),
      weights: { last, most, taps },
    };
  },
};

/** Tensors of a result by name, and their numbers. */
async function told(result: unknown): Promise<Record<string, number[]>> {
  const tensors = result instanceof Tensor ? { y: result } : result as Record<string, Tensor>;
  const out: Record<string, number[]> = {};
  for (const [name, t] of Object.entries(tensors)) out[name] = [await t.tolist()].flat(9).map(Number);
  return out;
}

function close(got: ArrayLike<number | bigint>, want: readonly number[], by: number, what: string): void {
  assert.equal(got.length, want.length, what);
  const most = Math.max(1, ...want.map(Math.abs));
  want.forEach((w, i) => {
    assert.ok(Math.abs(Number(got[i]) - w) <= by * most, `${what}: ${got[i]} at ${i}, not ${w}`);
  });
}

/** What a call of the function gives, with variables bound again. */
async function wanted({ entries }: Program, [entry, ...given]: Call): Promise<Record<string, number[]>> {
  const [f, args] = entries[entry];
  const bound = given.map((g, i) => (
    typeof g === "number" ? new Variable(...variableOf(args[i] as Tensor)).bind(g) : g
  ));
  return await told((f as (...args: unknown[]) => unknown)(...bound));
}

/** The name and the bounds of a bound variable. */
function variableOf(bound: Tensor): [name: string, min: number, max: number] {
  const { name, min, max } = bound.uop.src[0].arg as unknown as { name: string; min: number; max: number };
  return [name, min, max];
}

/** Arrays for C by the types of its header. */
const ARRAYS: Readonly<Record<string, new (n: number) => ArrayLike<number | bigint> & ArrayBufferView<ArrayBuffer>>> = {
  float: Float32Array,
  double: Float64Array,
  int: Int32Array,
  "long long": BigInt64Array,
  "unsigned char": Uint8Array,
};

for (const [name, make] of Object.entries(PROGRAMS)) {
  for (const style of ["plain", "fast"] as const) {
    Deno.test({
      name: `later runs: ${name} in ${style} C`,
      ignore: compiler === undefined,
      async fn() {
        Tensor.manualSeed(5);
        const program = make(), at = `${folder}/${name}_${style}`, { by = 2e-6 } = program;
        const made = await exportModels(program.entries, { target: "c", style, name, weights: program.weights });
        await made.write(at);
        const flags = ["-std=c11", "-O1", "-shared", "-fPIC", `-D${name.toUpperCase()}_EMBED`];
        await run(compiler.path, [...flags, `${name}.c`, "-o", "library.so", "-lm"], at);
        const header = made.text(`${name}.h`), hasWeights = header.includes(`${name}_weights(`);
        const symbols: Record<string, Deno.ForeignFunction> = {
          [`${name}_context_bytes`]: { parameters: [], result: "usize" },
          [`${name}_init`]: { parameters: hasWeights ? ["buffer", "pointer"] : ["buffer"], result: "void" },
          ...hasWeights ? { [`${name}_weights`]: { parameters: [], result: "pointer" } } : {},
        };
        const parameters: Record<string, [type: string, name: string, size: number][]> = {};
        for (const entry of Object.keys(program.entries)) {
          const m = new RegExp(`(int|void) ${name}_${entry}\\(${name}_context \\*context(.*?)\\);`, "s").exec(header);
          assert.ok(m !== null, header);
          const list = m[2].split(",").slice(1).map((p): [string, string, number] => {
            const [, type, own, size] = /^\s*(?:const )?([\w ]+) (\w+)(?:\[(\d+)\])?$/.exec(p)!;
            return [type, own, Number(size ?? 0)];
          });
          parameters[entry] = list;
          symbols[`${name}_${entry}`] = {
            parameters: ["buffer", ...list.map(([, , size]) => size === 0 ? "i32" as const : "buffer" as const)],
            result: m[1] === "int" ? "i32" : "void",
          };
        }
        const library = Deno.dlopen(`${at}/library.so`, symbols);
        try {
          // deno-lint-ignore no-explicit-any -- functions by names that are made here
          const c = library.symbols as any, nbytes = Number(c[`${name}_context_bytes`]());
          const context = new Uint8Array(nbytes + 64);
          const place = Number(Deno.UnsafePointer.value(Deno.UnsafePointer.of(context)) % 64n);
          const own = context.subarray((64 - place) % 64);
          c[`${name}_init`](own, ...hasWeights ? [c[`${name}_weights`]()] : []);
          for (const [k, call] of program.calls.entries()) {
            const [entry, ...given] = call, want = await wanted(program, call), arrays: Record<string, unknown> = {};
            const tensors = given.filter((g) => typeof g !== "number") as Tensor[];
            const sizes = given.filter((g) => typeof g === "number");
            const args: unknown[] = [];
            for (const [type, own, size] of parameters[entry]) {
              if (size === 0) args.push(sizes.shift());
              else {
                const array = new ARRAYS[type](size), from = tensors.shift();
                if (from === undefined) arrays[own] = array;
                else {
                  const data = await from.data() as Uint8Array;
                  new Uint8Array(array.buffer).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
                }
                args.push(array);
              }
            }
            const code = c[`${name}_${entry}`](own, ...args);
            assert.ok(code === undefined || code === 0);
            assert.deepEqual(Object.keys(arrays).sort(), Object.keys(want).sort());
            for (const [key, list] of Object.entries(want)) {
              close(arrays[key] as Float32Array, list, by, `${key} of call ${k}, ${entry}`);
            }
          }
        } finally {
          library.close();
        }
      },
    });
  }
  Deno.test(`later runs: ${name} as a module`, async () => {
    Tensor.manualSeed(5);
    const program = make(), at = `${folder}/${name}_wasm`, { by = 2e-6 } = program;
    const made = await exportModels(program.entries, { target: "wasm", name, weights: program.weights });
    await made.write(at);
    const { load } = await import(`file://${at}/${name}.js`);
    const m = await load(made.files.get(`${name}.wasm`), made.files.get(`${name}.bin`));
    for (const [k, call] of program.calls.entries()) {
      const [entry, ...given] = call, want = await wanted(program, call), args: unknown[] = [];
      for (const g of given) args.push(typeof g === "number" ? g : await (g as Tensor).data());
      const result = m[entry](...args), [only] = Object.keys(want);
      const got = ArrayBuffer.isView(result) ? { [only]: result } : result; // one result is given alone
      assert.deepEqual(Object.keys(got).sort(), Object.keys(want).sort());
      for (const [key, list] of Object.entries(want)) close(got[key], list, by, `${key} of call ${k}, ${entry}`);
    }
  });
}
