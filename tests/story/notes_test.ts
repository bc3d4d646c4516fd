/** Notes of why: what folds, products and units, kernels that are joined by their rows, what BEAM found by measuring. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { context, Device, type DTypeName, state, Tensor } from "../../mod.ts";
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

type Make = (empty: (shape: number[], dtype?: DTypeName) => Tensor) => Tensor | Tensor[];

/** What is noted of tensors without values. */
function heardOf(make: Make, on: string = "JS"): Note[] {
  const device = on === "JS" ? "JS" : openObserving(on).name, heard: Note[] = [];
  const empty = (shape: number[], dtype: DTypeName = "float32"): Tensor =>
    Tensor.empty(shape, { device, dtype }).realize();
  const stop = listenToNotes((n) => heard.push(n));
  try {
    context({ NOOPT: 0, SCACHE: 0 }, () => Tensor.realize([make(empty)].flat()));
  } finally {
    stop();
  }
  assert(heard.every((n) => n.of !== undefined && Object.values(n.numbers).every(Number.isFinite)));
  return heard;
}

/** The same, once each, as text. */
function saidOf(make: Make, on?: string): string[] {
  return [...new Set(heardOf(make, on).map((n) => `${n.kind}: ${n.text}`))];
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
  ] as readonly (readonly [string, Make, readonly (string | RegExp)[], string?])[]
) {
  Deno.test(`notes: ${name}`, () => {
    const said = saidOf(make, on);
    for (const want of wants) {
      const found = said.some((text) => typeof want === "string" ? text === want : want.test(text));
      assert(found, `${want}\n${said.join("\n")}`);
    }
  });
}

const H = "float16";

/** Few queries of many keys, or as many as given: products of them, in 32 bits. */
function scores(empty: Parameters<Make>[0], queries: number, keys: number): Tensor {
  return empty([queries, 16], H).dot(empty([16, keys], H), { dtype: "float32" });
}
/** A chain of products. */
function chained(empty: Parameters<Make>[0], weights: Tensor): Tensor {
  return weights.cast(H).dot(empty([weights.shape[1], 16], H), { dtype: "float32" });
}

/** One number, on the device of what it is used with. */
function all(number: number): Tensor {
  return Tensor.full([4, 6], number);
}

/** By text: what is told, of what, with which numbers; and of what nothing is. */
const TOLD: readonly {
  readonly text: string;
  readonly kind?: Note["kind"];
  readonly of: Make;
  readonly numbers?: Record<string, number>;
  readonly not: readonly Make[];
  readonly on?: string;
}[] = [
  {
    text: "terms of a sum that are all the same are not added: one is multiplied by how many there are",
    of: (empty) => empty([5, 1]).expand([5, 7]).mul(empty([5, 1])).sum(1),
    numbers: { loops: 1 },
    not: [(empty) => empty([5, 7]).mul(empty([5, 1])).sum(1), (empty) => empty([5, 1]).expand([5, 7]).sum(0)],
  },
  {
    text: "a reduction that is the same 1024 times is done once",
    of: (empty) => empty([64, 1, 2048]).expand([64, 1024, 2048]).exp().sum(2),
    numbers: { repeats: 1024 },
    // too few times, and too few terms
    not: [4, 32].map((n) => (empty) => empty([64, 1, 2048]).expand([64, n, 2048]).exp().sum(2)),
  },
  {
    text: "products are kept in memory: 2 kernels read them, and what they are made of is in fewer than 16 of them",
    kind: "missed",
    on: "CUDA",
    of: (empty) => {
      const p = scores(empty, 8, 512);
      return [chained(empty, p.sigmoid()), chained(empty, p.tanh())];
    },
    numbers: { products: 1, numbers: 8 * 512 },
    not: [(empty) => chained(empty, scores(empty, 8, 512).sigmoid()), (empty) => {
      const p = scores(empty, 16, 512);
      return [chained(empty, p.sigmoid()), chained(empty, p.tanh())];
    }],
  },
  {
    text: "products are kept in memory: a kernel that reads them is no chain of products on matrix units",
    kind: "missed",
    on: "CUDA",
    of: (empty) => chained(empty, scores(empty, 4, 32).sigmoid()),
    numbers: { products: 1, numbers: 4 * 32 },
    not: [(empty) => chained(empty, scores(empty, 8, 512).sigmoid())],
  },
  {
    text: "terms of a sum are all one number, which is known: nothing is reduced",
    of: (empty) => empty([4, 6]).add(all(2.5).sum()),
    numbers: { terms: 24, number: 2.5 },
    not: [(empty) => empty([4, 6]).sum(), (empty) => empty([4, 6]).expand([2, 4, 6]).sum(0)],
  },
  {
    text: "of a sum each term is there 7 times: one is multiplied by 7",
    of: (empty) => empty([5, 1]).exp().expand([5, 7]).sum(),
    numbers: { repeats: 7 },
    not: [(empty) => empty([5, 7]).exp().sum(), (empty) => empty([5, 1]).expand([5, 7]).sum(0)],
  },
  {
    text: "of a maximum each term is there 7 times: one of them is the result",
    of: (empty) => empty([5, 1]).exp().expand([5, 7]).max(1),
    numbers: { repeats: 7 },
    not: [(empty) => empty([5, 7]).exp().max(1)],
  },
  {
    text: "a sum of sums is one sum, over the axes of both",
    of: (empty) => empty([4, 6]).sum(1, { keepdim: true }).sum(0),
    numbers: { axes: 2 },
    not: [(empty) => empty([4, 6]).sum(), (empty) => empty([4, 6]).max(1, { keepdim: true }).sum(0)],
  },
  {
    text: "a condition is true everywhere: the other side is not computed",
    of: (empty) => all(1).gt(0).where(empty([4, 6]).exp(), empty([4, 6]).sin()),
    numbers: { elements: 24 },
    not: [
      (empty) => empty([4, 6]).gt(0).where(empty([4, 6]).exp(), empty([4, 6]).sin()),
      (empty) => all(1).gt(0).where(empty([4, 6]).exp(), 2), // there is no other work
    ],
  },
  {
    text: "a condition is true nowhere: that side is not computed",
    of: (empty) => all(1).lt(0).where(empty([4, 6]).exp(), 1),
    numbers: { elements: 24 },
    not: [(empty) => all(1).gt(0).where(empty([4, 6]).exp(), 1)],
  },
  {
    text: "both sides of a condition are the same: it is not computed",
    of: (empty) => {
      const x = empty([4, 6]);
      return empty([4, 6]).exp().gt(1).where(x, x);
    },
    numbers: { elements: 24 },
    not: [(empty) => empty([4, 6]).exp().gt(1).where(empty([4, 6]), empty([4, 6]).neg())],
  },
  {
    text: "integers times 0 are 0: they are not computed",
    of: (empty) => empty([4, 6], "int32").add(3).mul(0),
    numbers: { elements: 24 },
    // 0 times infinity is NaN; numbers that are drawn are of the library's own integers
    not: [(empty) => empty([4, 6]).add(3).mul(0), () => Tensor.rand([4, 6], { device: "JS" })],
  },
  {
    text: "is contiguous already: contiguous() copies nothing",
    of: (empty) => empty([4, 6]).reshape([24]).contiguous().add(1),
    numbers: {},
    not: [(empty) => empty([4, 6]).T.contiguous().add(1), (empty) => empty([4, 6]).exp().contiguous().add(1)],
  },
];

for (const { text, kind = "passed", of, numbers, not, on } of TOLD) {
  Deno.test(`notes: ${text}`, () => {
    const heard = heardOf(of, on), own = heard.filter((n) => n.text === text);
    assert(own.length > 0, heard.map((n) => n.text).join("\n"));
    for (const n of own) assertEquals([n.kind, n.numbers], [kind, numbers]);
    const begins = text.split(/\d/)[0];
    for (const make of not) {
      assertEquals(heardOf(make, on).filter((n) => n.text.startsWith(begins) && n.text.endsWith(text.slice(-12))), []);
    }
  });
}

Deno.test("notes: of a file the part that is used is read", () =>
  inFolder(async (folder) => {
    await state.safeSave({ x: Tensor.arange(1000, { dtype: "float32", device: "JS" }) }, `${folder}/x.safetensors`);
    const { x } = await state.safeLoad(`${folder}/x.safetensors`), heard: Note[] = [];
    const stop = listenToNotes((n) => heard.push(n));
    try {
      assertEquals(await x.at([10, 13]).add(1).tolist(), [11, 12, 13]);
      assertEquals(await x.add(1).at(999).item(), 1000);
    } finally {
      stop();
    }
    const own = heard.filter((n) => /of a file are read/.test(n.text));
    assertEquals(own.map((n) => [n.kind, n.text, n.numbers]), [
      ["passed", "12 bytes of a file are read, not all 4000", { nbytes: 12, whole: 4000 }],
    ]);
  }));

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
