/**
 * Functions that write views of what they close over: tensors of all kinds, views of them that builders merge or not, read
 * or realized before or not, and functions that write them, called as they are, under jit, and with JIT_CHECK=1. What comes
 * out is what comes out where the tensor was real before.
 */
import { assertEquals } from "@std/assert";
import { context, Device, jit, Tensor } from "../../../mod.ts";

type View = (t: Tensor) => Tensor;

const made = (): Tensor => new Tensor([[1, 2, 3], [4, 5, 6]], { dtype: "int32" });
const TENSORS: Readonly<Record<string, View>> = {
  "a product": (a) => a.mul(2),
  "sums": (a) => a.cumsum(0),
  "values": made,
  "a clone": (a) => a.clone(),
  "a copy": (a) => a.mul(3).contiguous(),
  "a constant": () => Tensor.full([2, 3], 2, { dtype: "int32" }),
  "sums of one": (a) => a.reshape([2, 3, 1]).sum(2),
  "a roll": (a) => a.roll(1, 0),
  "a view of values": () => made().flip(1),
  "a view of memory": (a) => a.flip(1),
  "a part of a product": (a) => a.mul(2).at(":", [0, 2]),
  "bits of a product": (a) => a.mul(2).bitcast("uint32"),
};
const VIEWS: Readonly<Record<string, View>> = {
  "a row": (t) => t.at(1),
  "all rows": (t) => t.at([0, 2]),
  "detached": (t) => t.detach(),
  "turned": (t) => t.flip(0),
  "transposed": (t) => t.permute([1, 0]),
  "flat": (t) => t.flatten(),
  "bits": (t) => t.bitcast("int32"),
  "a column": (t) => t.permute([1, 0]).at(0),
};
const one = (x: Tensor): Tensor => new Tensor(1, { dtype: x.dtype });
const BODIES: Readonly<Record<string, (x: Tensor, t: Tensor) => Tensor>> = {
  "adds": (x, t) => (x.addInPlace(one(x)), t.sum()),
  "adds and reads it": (x, t) => (x.addInPlace(one(x)), x.sum().cast("int32").add(t.sum().cast("int32"))),
  "adds and realizes": (x, t) => (x.addInPlace(one(x)).realize(), t.mul(1)),
  "adds and realizes all": (x, t) => (x.addInPlace(one(x)), t.realize(), t.mul(1)),
  "adds twice": (x, t) => (x.addInPlace(one(x)), x.addInPlace(x), t.mul(1)),
  "assigns": (x, t) => (x.assign(x.mul(2).cast(x.dtype)), t.mul(1)),
  "sets": (x, t) => (x.setAt([0], 50), t.sum()),
  "adds to a part": (x, t) => (x.at([0, 1]).addInPlace(one(x)), t.mul(1)),
  "reads first": (x, t) => {
    const sum = t.sum();
    x.addInPlace(one(x));
    return sum.add(t.sum());
  },
  "adds to both": (x, t) => (t.addInPlace(one(t)), x.addInPlace(one(x)), t.sum()),
  "gives it back": (x) => x.addInPlace(one(x)),
  "gives all": (x, t) => (x.addInPlace(one(x)), t),
};
/** What happens to the tensor and its view before. */
const BEFORE: Readonly<Record<string, (t: Tensor, view: View) => Tensor>> = {
  "": (t, view) => view(t),
  "after a write": (t, view) => view(t.addInPlace(one(t))),
  "that was read": (t, view) => {
    const v = view(t);
    v.dataSync();
    return v;
  },
  "that was realized": (t, view) => view(t).realize(),
};

type Way = (f: (x: Tensor) => Tensor) => (x: Tensor) => Tensor;
const WAYS: Readonly<Record<string, Way>> = {
  plain: (f) => f,
  jit: (f) => jit(f),
  checked: (f) => {
    const g = jit(f);
    return (x) => context({ JIT_CHECK: 1 }, () => g(x));
  },
};

/** What calls give, and what the tensor is in the end. */
function trace(make: View, view: View, body: (x: Tensor, t: Tensor) => Tensor, before: string, way?: Way): unknown {
  const t = make(made().realize());
  if (way === undefined) t.realize();
  const v = BEFORE[before](t, view), f = (way ?? WAYS.plain)((x) => body(x, t)), out: unknown[] = [];
  for (let i = 0; i < 3; i++) out.push(f(v).clone().tolistSync());
  return [...out, t.tolistSync()];
}

for (const [name, make] of Object.entries(TENSORS)) {
  Deno.test(`jit: views of what is closed over, ${name}, are written as without jit`, () => {
    Device.default = "JS";
    let k = 0;
    for (const [what, view] of Object.entries(VIEWS)) {
      for (const [does, body] of Object.entries(BODIES)) {
        for (const before of Object.keys(BEFORE)) {
          if (k++ % 7 !== 0) continue; // each meets each
          const want = trace(make, view, body, before);
          for (const [how, way] of Object.entries(WAYS)) {
            assertEquals(trace(make, view, body, before, way), want, `${what} ${before}, ${does}, ${how}`);
          }
        }
      }
    }
  });
}
