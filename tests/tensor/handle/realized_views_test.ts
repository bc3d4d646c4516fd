/**
 * Values that become memory through a view of them: whatever is realized, and in which order, a write to the value is seen
 * by views that are all of it, and parts stay what they were; and cutting a value off from gradients cuts only what is cut.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, Device, jit, Tensor } from "../../../mod.ts";
import { Storage } from "../../../src/uop/core/args.ts";

for (const name of ["JS", "WASM"]) await Device.open(name);

/** Views that are all of a tensor in order. */
const WHOLES: Readonly<Record<string, (t: Tensor) => Tensor>> = {
  detach: (t) => t.detach(),
  reshape: (t) => t.reshape([6]),
  "reshape of detach": (t) => t.detach().reshape([3, 2]),
  "detach of reshape": (t) => t.reshape([6]).detach(),
  contiguousBackward: (t) => t.contiguousBackward(),
  "permute of permute": (t) => t.permute([1, 0]).permute([1, 0]),
  "all of it by index": (t) => t.at(":", ":"),
  "a shape more": (t) => t.unsqueeze(0).detach(),
};
/** Views that are not: what they were when they were made. */
const PARTS: Readonly<Record<string, (t: Tensor) => Tensor>> = {
  permute: (t) => t.permute([1, 0]),
  slice: (t) => t.at(":", [0, 2]),
  flip: (t) => t.flip(1),
  "flip of flip": (t) => t.flip(0).flip(0),
  bitcast: (t) => t.bitcast("int32"),
  "detach of slice": (t) => t.at(1).detach(),
  "flip of detach": (t) => t.detach().flip(0),
};
const VALUES: Readonly<Record<string, (a: Tensor, b: Tensor) => Tensor>> = {
  "a sum": (a, b) => a.add(b),
  "a product of matrices": (a, b) => a.matmul(b.T.matmul(b)),
  "a reduction": (a) => a.unsqueeze(0).expand([3, 2, 3]).sum(0),
  "what is memory already": (a) => a.unsqueeze(0).sum(0),
  "x * 1": (a) => a.mul(1),
  "a clone": (a) => a.clone(),
};
const WRITES: Readonly<Record<string, (t: Tensor) => void>> = {
  "setAt a mask": (t) => void t.setAt([t.gt(3)], 2),
  assign: (t) => void t.assign(t.mul(2)),
  "assign a number": (t) => void t.assign(7),
  "setAt a row": (t) => void t.setAt([0], 9),
  addInPlace: (t) => void t.addInPlace(1),
};
/** What is realized before the write: the view, the value, both in one schedule, one after the other. */
const ORDERS = ["v", "t v", "v t", "t;v", "v;t"] as const;

for (const device of ["JS", "WASM"]) {
  for (const [isWhole, views] of [[true, WHOLES], [false, PARTS]] as const) {
    for (const [what, view] of Object.entries(views)) {
      Deno.test(`realized views: ${what}, which ${isWhole ? "shows" : "keeps apart from"} what is written, ${device}`, async () => {
        Device.default = device;
        for (const [value, make] of Object.entries(VALUES)) {
          for (const [how, write] of Object.entries(WRITES)) {
            for (const order of ORDERS) {
              const a = new Tensor([[1, 2, 3], [4, 5, 6]], { dtype: "float32" }).realize();
              const b = new Tensor([[1, 1, 1], [2, 2, 2]], { dtype: "float32" }).realize();
              const t = make(a, b), v = view(t), was = await view(make(a, b).clone()).tolist();
              for (const step of order.split(";")) Tensor.realize(step.split(" ").map((n) => n === "v" ? v : t));
              write(t);
              const text = `${value}, ${how}, realized ${order}`, now = t.clone();
              assertEquals(await v.tolist(), isWhole ? await view(now).tolist() : was, text);
              assertEquals(await a.tolist(), [[1, 2, 3], [4, 5, 6]], text); // nobody has written that
            }
          }
        }
      });
    }
  }
}

Deno.test("realized views: a write through one reaches the value that has become memory with it", async () => {
  Device.default = "JS";
  const a = new Tensor([1, 2, 3], { dtype: "float32" }).realize(), t = a.add(1), d = t.detach();
  d.realize();
  d.setAt([0], 9);
  d.at([1, 3]).mulInPlace(10);
  assertEquals([await t.tolist(), await d.tolist(), await a.tolist()], [[9, 30, 40], [9, 30, 40], [1, 2, 3]]);
  const siblings = a.unsqueeze(0).sum(0), [p, q] = [siblings.detach(), siblings.reshape([3, 1])];
  p.realize();
  q.realize();
  siblings.assign(5);
  assertEquals([await p.tolist(), await q.tolist(), await a.tolist()], [[5, 5, 5], [[5], [5], [5]], [1, 2, 3]]);
});

Deno.test("realized views: an equal expression keeps its values", async () => {
  Device.default = "JS";
  const a = new Tensor([1, 2, 3], { dtype: "float32" }).realize(), t = a.mul(2), d = t.detach(), e = a.mul(2);
  Tensor.realize([d, e]); // equal expressions
  t.assign(0);
  assertEquals([await d.tolist(), await e.tolist()], [[0, 0, 0], [2, 4, 6]]);
});

/** Gradients beside a value that is read cut off: of w, where t = 2w, what PyTorch gives. */
const CUTS: readonly (readonly [name: string, loss: (t: Tensor, d: Tensor) => Tensor, want: number[] | undefined])[] = [
  ["the value alone", (t) => t.mul(3).sum(), [6, 6, 6]],
  ["both", (t, d) => t.mul(3).add(d.mul(5)).sum(), [6, 6, 6]],
  ["their product", (t, d) => t.mul(d).sum(), [4, 8, 12]],
  ["a view of what is cut", (t, d) => d.flip(0).mul(5).add(t).sum(), [2, 2, 2]],
];
const CUT_BY: Readonly<Record<string, (t: Tensor) => Tensor>> = {
  detach: (t) => t.detach(),
  "detach of reshape": (t) => t.reshape([3, 1]).detach().reshape([3]),
  "detach of detach": (t) => t.detach().detach(),
  "detach between views": (t) => t.flip(0).detach().flip(0),
};
for (const [how, cut] of Object.entries(CUT_BY)) {
  Deno.test(`realized views: ${how} stays cut off, and cuts nothing else`, async () => {
    Device.default = "JS";
    for (const [name, loss, want] of CUTS) {
      for (const order of ["", "d", "t", "t d", "d t", "d;t"]) {
        const w = new Tensor([1, 2, 3], { requiresGrad: true }), t = w.mul(2), d = cut(t);
        for (const step of order.split(";").filter((x) => x !== "")) {
          Tensor.realize(step.split(" ").map((n) => n === "d" ? d : t));
        }
        assertEquals(d.requiresGrad, undefined);
        loss(t, d).backward();
        assertEquals(await w.grad?.tolist(), want, `${name}, realized ${order}`);
      }
    }
    for (const order of ["", "d", "t d"]) { // nothing else requires a gradient
      const x = new Tensor([1, 2, 3], { dtype: "float32" }).realize(), t = x.mul(2), d = cut(t);
      if (order !== "") Tensor.realize(order.split(" ").map((n) => n === "d" ? d : t));
      assertEquals(await d.mul(x).sum().gradient([x])[0].tolist(), [2, 4, 6]);
      if (order === "" || (order === "d" && how === "detach between views")) { // the value has no memory
        assertEquals(await t.mul(x).sum().gradient([x])[0].tolist(), [4, 8, 12]);
        continue;
      }
      // of the value itself it is not known any more: said, and not taken for a constant
      assertThrows(() => t.mul(x).sum().gradient([x]), ArgumentError, "requiresGrad = true");
    }
  });
}

Deno.test("realized views: what is cut off can be a leaf of its own, in the memory of what it was cut from", async () => {
  Device.default = "JS";
  for (const order of ["", "d", "t", "d;t"]) {
    for (const isLeaf of [false, true]) {
      const w = new Tensor([1, 2, 3], { requiresGrad: true }), t = isLeaf ? w : w.mul(2), d = t.detach();
      for (const n of order.split(";")) (n === "d" ? d : n === "t" ? t : undefined)?.realize();
      d.requiresGrad = true;
      t.mul(3).add(d.mul(2)).sum().backward();
      const own = isLeaf ? 3 : 6;
      assertEquals([await d.grad!.tolist(), await w.grad!.tolist()], [[2, 2, 2], [own, own, own]], order);
    }
  }
});

Deno.test("realized views: what a function under jit realizes cut off stays cut off in replays", async () => {
  Device.default = "JS";
  const w = new Tensor([1, 2, 3], { requiresGrad: true }).realize();
  const step = jit((x: Tensor) => {
    w.grad = undefined;
    const t = w.mul(x), d = t.detach().realize();
    d.mul(5).add(t).sum().backward();
    return [d, w.grad!];
  });
  const cut = jit((x: Tensor) => w.mul(x).detach());
  for (let i = 0; i < 4; i++) {
    const x = new Tensor([i, 1, 1], { dtype: "float32" }).realize(), [d, g] = step(x);
    assertEquals([await d.tolist(), await g.tolist()], [[i, 2, 3], [i, 1, 1]]);
    w.grad = undefined;
    const given = cut(x);
    assertEquals(given.requiresGrad, undefined);
    given.mul(w).sum().backward();
    assertEquals(await w.grad!.tolist(), [i, 2, 3]);
  }
});

Deno.test("realized views: many parts of one tensor are written in linear time", async () => {
  Device.default = "JS";
  const versions = Object.getOwnPropertyDescriptor(Storage.prototype, "version")!;
  /** How often it is asked whether some memory has been overwritten. */
  const looksFor = async (n: number): Promise<number> => {
    const x = Tensor.zeros([n, 2]).contiguous().realize(),
      given = Tensor.arange(2 * n).reshape([n, 2]).float().realize();
    const rows = x.split(1), values = given.split(1).map((row) => row.mul(2));
    Tensor.realize([...rows, ...values]);
    let looks = 0;
    Object.defineProperty(Storage.prototype, "version", {
      ...versions,
      get(this: Storage) {
        looks++;
        return versions.get!.call(this);
      },
    });
    try {
      rows.forEach((row, i) => row.assign(values[i]));
    } finally {
      Object.defineProperty(Storage.prototype, "version", versions);
    }
    assertEquals(await x.tolist(), await given.mul(2).tolist());
    return looks;
  };
  const few = await looksFor(50), many = await looksFor(400);
  assert(many < 10 * few, `${many} looks for 400 rows, ${few} for 50`); // 64 times where each write looks at all before it
});
