/** The wire of protocol buffers: what is written is read back, and what lies is refused. @module */
import assert from "node:assert/strict";
import { protoBytes, ProtoReader } from "../../src/helpers/protobuf.ts";

const bad = (reason: string): Error => new Error(reason);
const reader = (bytes: readonly number[]): ProtoReader => new ProtoReader(Uint8Array.from(bytes), bad);

Deno.test("protobuf: all kinds of fields come back", () => {
  const big = -(2n ** 63n),
    bytes = protoBytes((w) => {
      w.uint(1, 300);
      w.uint(1, 2 ** 53 - 1);
      w.int64(2, -1);
      w.int64(2, big);
      w.float(3, 0.5);
      w.double(4, -1e300);
      w.text(5, "héllo");
      w.message(6, (m) => m.message(1, (n) => n.uint(70000, 1)));
      w.int64s(7, [1, -2, 3n]);
      w.floats(8, [0.25, -4]);
      w.doubles(9, [1 / 3]);
      w.fixed64(10, 2 ** 40 + 5);
      w.int64(7, 9);
    });
  const r = new ProtoReader(bytes, bad), found: unknown[] = [], ints: number[] = [], reals: number[] = [];
  while (r.next()) {
    if (r.field === 1) found.push(r.uint());
    else if (r.field === 2) found.push(r.int64());
    else if (r.field === 3) found.push(r.float());
    else if (r.field === 4) found.push(r.double());
    else if (r.field === 5) found.push(r.text());
    else if (r.field === 6) {
      const m = r.message();
      assert(m.next());
      const n = m.message();
      assert(n.next() && !m.next());
      found.push(n.field, n.uint());
    } else if (r.field === 7) r.ints(ints);
    else if (r.field === 8) r.floats(reals);
    else if (r.field === 9) r.doubles(reals);
    else r.skip();
  }
  assert.deepEqual(found, [300, 2 ** 53 - 1, -1n, big, 0.5, -1e300, "héllo", 70000, 1]);
  assert.deepEqual(ints, [1, -2, 3, 9]);
  assert.deepEqual(reals, [0.25, -4, 1 / 3]);
});

for (
  const [name, bytes, read, want] of [
    ["a length beyond the end", [10, 5, 1], (r) => r.chunk(), /5 bytes are needed, and its message has 1 more/],
    ["a huge length", [10, 255, 255, 255, 255, 255, 127], (r) => r.chunk(), /bytes are needed/],
    ["a varint without end", Array(20).fill(255), (r) => r.uint(), /more than 10 bytes/],
    ["a varint cut off", [8, 128], (r) => r.uint(), /1 bytes are needed/],
    ["a group", [11], (r) => r.skip(), /is a group/],
    ["wire type 7", [15], (r) => r.skip(), /wire type 7/],
    ["field 0", [0], (r) => r.skip(), /field 0 cannot be/],
    ["another kind", [8, 1], (r) => r.text(), /field 1 is a varint, not bytes/],
    ["no UTF-8", [10, 1, 255], (r) => r.text(), /no UTF-8/],
    ["beyond 2^53", [8, 255, 255, 255, 255, 255, 255, 255, 127], (r) => r.uint(), /beyond 2\^53/],
    ["a packed list that ends within a float", [10, 3, 0, 0, 0, 0], (r) => r.floats([]), /4 bytes are needed/],
  ] as readonly [string, number[], (r: ProtoReader) => unknown, RegExp][]
) {
  Deno.test(`protobuf: ${name} is refused`, () => {
    const r = reader(bytes);
    assert.throws(() => {
      while (r.next()) read(r);
    }, want);
  });
}

Deno.test("protobuf: messages nest so deep and no deeper", () => {
  let bytes = protoBytes((w) => w.uint(1, 1));
  for (let i = 0; i < 150; i++) {
    const inner = bytes;
    bytes = protoBytes((w) => w.chunk(1, inner));
  }
  let r = new ProtoReader(bytes, bad);
  assert.throws(() => {
    while (r.next()) r = r.message();
  }, /100 deep/);
});

Deno.test("protobuf: spoiled bytes give errors of the caller's, never others", () => {
  const bytes = protoBytes((w) => {
    for (let i = 1; i < 20; i++) w.message(i, (m) => m.text(1, "abc".repeat(i)));
  });
  let seed = 7;
  const random = (n: number): number => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % n;
  for (let i = 0; i < 2000; i++) {
    const spoiled = bytes.slice(0, random(bytes.length));
    for (let k = 0; k < 3 && spoiled.length > 0; k++) spoiled[random(spoiled.length)] = random(256);
    const walk = (r: ProtoReader, depth: number): void => {
      while (r.next()) {
        if (r.wire === 2 && depth < 2) walk(r.message(), depth + 1);
        else r.skip();
      }
    };
    try {
      walk(new ProtoReader(spoiled, (reason) => new RangeError(reason)), 0);
    } catch (error) {
      assert(error instanceof RangeError && error.message.includes("(byte "), String(error));
    }
  }
});
