/** Notes of why: matrix units that are not used, kernels that are joined by their rows, what BEAM found by measuring. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { context, Device, type DTypeName, Tensor } from "../../mod.ts";
import { explain } from "../../src/story/story.ts";
import { listenToNotes, type Note } from "../../src/uop/core/notes.ts";
import { openObserving } from "../support/snapshot_writers.ts";
import { inFolder } from "../support/folder.ts";

Device.get(Device.default);
const hasClang = Device.list().some((d) => d.name === "CLANG" && d.available);
if (hasClang) Device.get("CLANG");

/** What is noted while kernels are made for a card that is not there. */
function notesOf(make: (device: string) => Tensor, writer: string = "CUDA"): Note[] {
  const heard: Note[] = [], stop = listenToNotes((n) => heard.push(n));
  try {
    context({ NOOPT: 0, ALLOW_TF32: 0 }, () => make(openObserving(writer).name).realize());
  } finally {
    stop();
  }
  return heard;
}

const UNITS: readonly (readonly [dtype: string, sizes: readonly [number, number, number], want: RegExp | undefined])[] =
  [
    ["float16", [512, 512, 512], undefined],
    ["float32", [512, 512, 512], /^not on matrix units: .*float32 with 10 bits .*ALLOW_TF32=1/],
    [
      "float64",
      [512, 512, 512],
      /^not on matrix units: none of the device multiplies float64 for a sum of float64$/,
    ],
    ["bfloat16", [512, 512, 4], /^not on matrix units: one adds 16 products at a time, and the sum has 4$/],
  ];
for (const [dtype, [m, n, k], want] of UNITS) {
  Deno.test(`notes: whether matrix units multiply ${dtype} over ${k}, and why not`, () => {
    const notes = notesOf((device) => {
      const [a, b] = [[m, k], [k, n]].map((shape) => Tensor.empty(shape, { dtype, device }).realize());
      return a.matmul(b);
    });
    const missed = notes.filter((note) => note.kind === "missed" && note.of?.kind === "kernel").map((note) =>
      note.text
    );
    assertEquals(missed.length, want === undefined ? 0 : 1, missed.join("\n"));
    if (want !== undefined) assertMatch(missed[0], want);
    else assert(notes.some((note) => note.text.includes(", on matrix units")), notes.map((n) => n.text).join("\n"));
  });
}

Deno.test("notes: units are no matter of what is no product of matrices", () => {
  const notes = notesOf((device) => Tensor.empty([512, 512], { device }).realize().square().sum(1));
  assertEquals(notes.filter((n) => /matrix unit/.test(n.text)), []);
});

Deno.test("notes: kernels that are joined by their rows are told, with what they hand on", () => {
  const notes = notesOf((device) => Tensor.empty([4096, 64], { device }).realize().sort(1)[0]);
  const joined = notes.filter((n) => /are joined: each reads only its own row/.test(n.text));
  assert(joined.length > 0, notes.map((n) => n.text).join("\n"));
  for (const { kind, numbers, text } of joined) {
    assertEquals([kind, numbers.kernels > 1, numbers.bytes > 0], ["passed", true, true]);
    assertMatch(text, new RegExp(`^${numbers.kernels} kernels `));
  }
});

Deno.test("notes: operands that are copied for matrix units are told", () => {
  const told = (k: number): Note[] =>
    notesOf((device) => {
      const make = (shape: number[]): Tensor => Tensor.empty(shape, { dtype: "bfloat16", device }).realize();
      return make([1024, k]).matmul(make([k, 1024]));
    }, "PTX").filter((n) => /^operands are copied in rows for matrix units$/.test(n.text));
  const notes = told(1023);
  assert(notes.length > 0 && notes.every((n) => n.kind === "passed" && n.numbers.copies >= 1), String(notes.length));
  assertEquals(told(1024), []);
});

Deno.test("notes: kernels that are compiled once for all that differ by where they begin, and their order, are told", () => {
  const heard: Note[] = [], stop = listenToNotes((n) => heard.push(n));
  try {
    const x = Tensor.rand([33, 6]).realize(),
      half = Tensor.eye(6).mul(0.375).contiguous().realize(),
      outputs: Tensor[] = [];
    for (let t = 0, h = x.at([0, 1]); t < 32; t++) outputs.push(h = h.matmul(half).add(x.at(t)).add(x.at(32 - t)));
    Tensor.realize(outputs);
    // gradients of weights run as soon as they can free the activations that they read
    const weights = [1, 2, 3, 4].map(() => Tensor.rand([64, 64], { requiresGrad: true }).realize());
    const rows = Tensor.rand([256, 64]).realize();
    weights.reduce((h, w) => h.matmul(w).tanh(), rows).square().mean().backward();
    Tensor.realize(weights.map((w) => w.grad!));
  } finally {
    stop();
  }
  const shared = heard.filter((n) =>
    /^one is compiled for \d+ kernels, which differ by where they begin$/.test(n.text)
  );
  assert(shared.length > 0 && shared.every((n) => n.numbers.kernels >= 2), heard.map((n) => n.text).join("\n"));
  const ordered = heard.filter((n) =>
    /^kernels run in another order, for .* of intermediates at once, not /.test(n.text)
  );
  assert(
    ordered.length > 0 && ordered.every((n) => n.numbers.least < n.numbers.most),
    heard.map((n) => n.text).join("\n"),
  );
});

Deno.test("notes: the plans beside the chosen one are told, with what the model expects of each", () => {
  // of a kernel that no other test has compiled
  const make = (device: string) => Tensor.empty([768, 640], { device }).realize().sin().sum(1).add(0.3125);
  const grid = notesOf(make), cpu: Note[] = [], stop = listenToNotes((n) => cpu.push(n));
  try {
    if (hasClang) context({ NOOPT: 0 }, () => make("CLANG").realize());
  } finally {
    stop();
  }
  for (const notes of [grid, ...(hasClang ? [cpu] : [])]) {
    const others = notes.filter((n) => n.text.startsWith("beside it, by the model: ") && n.of?.kind === "kernel");
    assert(others.length > 0, notes.map((n) => n.text).join("\n"));
    for (const { kind, text, numbers, of } of others) {
      assertEquals([kind, text.split("; ").length <= 3, numbers.least > 0], ["analysis", true, true]);
      const chosen = notes.find((n) => n.of === of && n.kind === "passed" && /by the model/.test(n.text))!;
      assert(Object.values(chosen.numbers)[0] <= numbers.least * 1.01, `${chosen.text}\n${text}`);
    }
  }
});

/** What is noted, once each, of tensors without values. */
function saidOf(make: (empty: (shape: number[], dtype?: DTypeName) => Tensor) => Tensor, on: string = "JS"): string[] {
  const device = on === "JS" ? "JS" : openObserving(on).name, heard: Note[] = [];
  const empty = (shape: number[], dtype: DTypeName = "float32"): Tensor =>
    Tensor.empty(shape, { device, dtype }).realize();
  const stop = listenToNotes((n) => heard.push(n));
  try {
    context({ NOOPT: 0, SCACHE: 0 }, () => make(empty).realize());
  } finally {
    stop();
  }
  assert(heard.every((n) => n.of !== undefined && Object.values(n.numbers).every(Number.isFinite)));
  return [...new Set(heard.map((n) => `${n.kind}: ${n.text}`))];
}

const CHAIN = "products are computed where they are read, as a chain on matrix units: they are in no memory";
const SCALED = "passed: a sum is scaled as a whole, not each of its terms: it does not wait for what scales it";

for (
  const [name, make, wants, on] of [
    [
      "rows that numbers choose",
      (empty) => empty([10, 8]).at(empty([5], "int32")),
      ["passed: of a sum of 10 terms all but one are zero: that one is computed, without a loop"],
    ],
    ["sums of sums", (empty) => empty([5, 6, 7]).sum(2).sum(1), ["passed: a sum of sums is one sum, in one kernel"]],
    ["a softmax times values", (empty) => empty([64, 48]).softmax().matmul(empty([48, 32])), [SCALED]],
    [
      "a softmax in half, times values",
      (empty) => empty([64, 48], "float16").softmax().matmul(empty([48, 32], "float16")),
      ["missed: a sum waits for what its terms are scaled by: in float16 they may be too large before"],
    ],
    [
      "attention on a card",
      (empty) => {
        const [q, k, v] = [0, 1, 2].map(() => empty([2, 8, 512, 64], "float16"));
        return q.scaledDotProductAttention(k, v);
      },
      [
        `passed: ${CHAIN}`,
        "passed: reductions of a row that wait for each other are one, whose parts are rescaled as it goes",
      ],
      "CUDA",
    ],
    [
      "a product that has another reader",
      (empty) => {
        const p = empty([512, 64], "float16").matmul(empty([64, 512], "float16"));
        return Tensor.cat([p.matmul(empty([512, 512], "float16")), p.exp()], 1);
      },
      ["missed: products are kept in memory: what is kept in memory is computed from them, too"],
      "CUDA",
    ],
    [
      "more buffers than a kernel takes",
      (empty) => Array.from({ length: 20 }, () => empty([32])).reduce((sum, x) => sum.add(x)),
      [/^missed: a kernel would read \d+ buffers and take \d+ at most: it is cut here$/],
      "WEBGPU",
    ],
  ] as readonly (readonly [string, Parameters<typeof saidOf>[0], readonly (string | RegExp)[], string?])[]
) {
  Deno.test(`notes: ${name}`, () => {
    const said = saidOf(make, on);
    for (const want of wants) {
      const found = said.some((text) => typeof want === "string" ? text === want : want.test(text));
      assert(found, `${want}\n${said.join("\n")}`);
    }
  });
}

Deno.test("notes: explain tells what BEAM measured", () =>
  inFolder((folder) => {
    context({ CACHEDIR: folder, NOOPT: 0, BEAM: 1 }, () => {
      const x = Tensor.rand([64, 48], { device: "WASM" }).realize();
      const e = explain(() => x.mul(2.125).sum(0));
      const [note] = e.notes.filter((n) => n.text.startsWith("BEAM"));
      assertMatch(note.text, /^BEAM measured \d+ lists? of opts: .* which the model chose$/);
      assertEquals(note.kind, note.numbers.ratio < 1 ? "passed" : "missed");
      assert(e.story.includes(note.text), e.story);
    });
  }));
