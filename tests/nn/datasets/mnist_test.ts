/** MNIST from a folder and from a server: plain and gzipped, kept, fetched again when damaged, refused when wrong. */
import assert from "node:assert/strict";
import { ArgumentError, FormatError, nn } from "../../../mod.ts";
import { parseIdx } from "../../../src/nn/datasets/idx.ts";
import "../support.ts";
import { inFolder } from "../../support/folder.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** An IDX file. */
function idx(kind: number, shape: number[], data: ArrayLike<number>): Bytes {
  const out = new Uint8Array(4 + 4 * shape.length + data.length), view = new DataView(out.buffer);
  out.set([0, 0, kind, shape.length]);
  shape.forEach((n, i) => view.setUint32(4 + 4 * i, n));
  out.set(Uint8Array.from(data), 4 + 4 * shape.length);
  return out;
}
async function gzip(bytes: Bytes): Promise<Bytes> {
  return new Uint8Array(
    await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer(),
  );
}

const pixels = (n: number) => Array.from({ length: n * 784 }, (_, i) => (i * 7 + n) % 256);
const SET: Record<string, Bytes> = {
  "train-images-idx3-ubyte": idx(8, [3, 28, 28], pixels(3)),
  "train-labels-idx1-ubyte": idx(8, [3], [7, 0, 9]),
  "t10k-images-idx3-ubyte": idx(8, [2, 28, 28], pixels(2)),
  "t10k-labels-idx1-ubyte": idx(8, [2], [1, 2]),
};

async function write(folder: string, set: Record<string, Bytes>): Promise<void> {
  for (const [name, bytes] of Object.entries(set)) await Deno.writeFile(`${folder}/${name}`, bytes);
}
async function check(set: Awaited<ReturnType<typeof nn.datasets.mnist>>): Promise<void> {
  assert.deepEqual(set.trainImages.shape, [3, 1, 28, 28]);
  assert.deepEqual(set.testImages.shape, [2, 1, 28, 28]);
  assert.deepEqual([set.trainImages.dtype.name, set.trainLabels.dtype.name], ["uint8", "int32"]);
  assert.deepEqual(await set.trainLabels.tolist(), [7, 0, 9]);
  assert.deepEqual(await set.testLabels.tolist(), [1, 2]);
  assert.deepEqual([...await set.testImages.data()], pixels(2));
  assert.deepEqual([...await set.trainImages.data()], pixels(3));
}

Deno.test("mnist: a folder of plain files, by path and by URL", () =>
  inFolder(async (folder) => {
    await write(folder, SET);
    await check(await nn.datasets.mnist(folder));
    await check(await nn.datasets.mnist(`${folder}/`));
    await check(await nn.datasets.mnist(new URL(`file://${folder}/`)));
    await check(await nn.datasets.mnist(`file://${folder}`));
  }));

Deno.test("mnist: gzipped files, also without the ending", () =>
  inFolder(async (folder) => {
    for (const [i, [name, bytes]] of Object.entries(SET).entries()) {
      await Deno.writeFile(`${folder}/${name}${i % 2 ? "" : ".gz"}`, await gzip(bytes));
    }
    await check(await nn.datasets.mnist(folder));
  }));

/** A loopback server of files; `fn` gets its address and the list of requests. */
async function served(
  respond: (path: string) => Response | Promise<Response>,
  fn: (base: string, requests: string[]) => Promise<void>,
): Promise<void> {
  const requests: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) => {
    const path = new URL(request.url).pathname;
    requests.push(path);
    return respond(path);
  });
  try {
    await fn(`http://127.0.0.1:${server.addr.port}/set`, requests);
  } finally {
    await server.shutdown();
  }
}
const missing = () => new Response("no", { status: 404 });

Deno.test("mnist: a server, kept, and fetched again when damaged", () =>
  inFolder((cache) =>
    served(
      async (path) => {
        const name = path.slice("/set/".length).replace(/\.gz$/, "");
        return path.endsWith(".gz") && SET[name] ? new Response(await gzip(SET[name])) : missing();
      },
      async (base, requests) => {
        const seen: string[] = [];
        await check(await nn.datasets.mnist(base, { cache, onProgress: ({ file }) => seen.push(file) }));
        assert.equal(requests.length, 4);
        assert.equal(new Set(seen).size, 4);
        await check(await nn.datasets.mnist(`${base}/`, { cache }));
        assert.equal(requests.length, 4, "the second time nothing is fetched");
        const [folder] = [...Deno.readDirSync(`${cache}/datasets`)].map((e) => `${cache}/datasets/${e.name}`);
        assert.equal([...Deno.readDirSync(folder)].length, 4);
        await Deno.truncate(`${folder}/train-labels-idx1-ubyte`, 20);
        await check(await nn.datasets.mnist(base, { cache }));
        assert.equal(requests.length, 5);
        await check(await nn.datasets.mnist(new URL(base), { cache: false }));
        assert.equal(requests.length, 9);
      },
    )
  ));

Deno.test("mnist: a server of plain files; a cache that cannot be written is no error", () =>
  inFolder((folder) =>
    served(
      (path) => new Response(SET[path.slice("/set/".length)] ?? null, { status: SET[path.slice(5)] ? 200 : 404 }),
      async (base, requests) => {
        await Deno.writeTextFile(`${folder}/file`, "");
        await check(await nn.datasets.mnist(base, { cache: `${folder}/file` }));
        assert.equal(requests.length, 8);
      },
    )
  ));

Deno.test("mnist: what a server does wrong", async () => {
  const load = (base: string) => nn.datasets.mnist(base, { cache: false });
  const says = (why: RegExp) => (e: unknown) => e instanceof FormatError && why.test(e.message);
  await served(missing, (base) =>
    assert.rejects(
      load(base),
      says(/^Cannot load http:\/\/127.*\/set\/train-images-idx3-ubyte: the server answers 404, with \.gz and without$/),
    ));
  await served(
    () => new Response("", { status: 500 }),
    (base) => assert.rejects(load(base), says(/\.gz: the server answers 500$/)),
  );
  await served(
    () => new Response("<html>please log in</html>"),
    (base) => assert.rejects(load(base), says(/it starts with 3c 68 74 6d, no magic number of an IDX file$/)),
  );
  const gone = AbortSignal.abort();
  await served(missing, (base) => assert.rejects(nn.datasets.mnist(base, { signal: gone, cache: false })));
});

const WRONG: [name: string, change: (set: Record<string, Bytes>) => void, why: RegExp][] = [
  ["a missing file", (s) => delete s["t10k-labels-idx1-ubyte"], /it has neither t10k-labels-idx1-ubyte nor .*\.gz$/],
  ["fewer labels", (s) => s["train-labels-idx1-ubyte"] = idx(8, [2], [1, 2]), /it has 2 labels for 3 images$/],
  ["a label beyond 9", (s) => s["t10k-labels-idx1-ubyte"] = idx(8, [2], [1, 10]), /label 1 is 10, not 0 to 9$/],
  [
    "labels for images",
    (s) => s["train-images-idx3-ubyte"] = s["train-labels-idx1-ubyte"],
    /axes \[3\]; images are unsigned bytes of 3 axes$/,
  ],
  [
    "signed bytes",
    (s) => s["train-labels-idx1-ubyte"] = idx(9, [3], [1, 2, 3]),
    /labels are unsigned bytes of 1 axis$/,
  ],
];
for (const [name, change, why] of WRONG) {
  Deno.test(`mnist: refuses ${name}`, () =>
    inFolder(async (folder) => {
      const set = { ...SET };
      change(set);
      await write(folder, set);
      await assert.rejects(nn.datasets.mnist(folder), (e) => e instanceof FormatError && why.test(e.message));
    }));
}

Deno.test("mnist: refuses arguments that are no place", async () => {
  for (
    const [args, why] of [
      [[""], /it takes a folder or a URL, not ""/],
      [[3], /not 3$/],
      [["ftp://a/b"], /the URL must be http, https or file, not ftp:$/],
      [["/tmp", { chache: true }], /unknown option "chache"; known are cache, device, signal, onProgress$/],
    ] as [unknown[], RegExp][]
  ) {
    await assert.rejects(
      nn.datasets.mnist(...args as [string]),
      (e) => e instanceof ArgumentError && why.test(e.message),
    );
  }
});

Deno.test("idx: every type of element", async () => {
  const bytes = (a: ArrayBufferView) => new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
  const swap = (a: ArrayBufferView, width: number) => {
    const b = bytes(a).slice();
    for (let i = 0; i < b.length; i += width) b.subarray(i, i + width).reverse();
    return b;
  };
  const rows: [kind: number, width: number, data: ArrayBufferView & ArrayLike<number>][] = [
    [0x08, 1, Uint8Array.of(0, 255, 3, 4, 5, 6)],
    [0x09, 1, Int8Array.of(0, -1, 3, 4, 5, -128)],
    [0x0b, 2, Int16Array.of(0, -1, 300, 4, 5, -32768)],
    [0x0c, 4, Int32Array.of(0, -1, 70000, 4, 5, -(2 ** 31))],
    [0x0d, 4, Float32Array.of(0, -1.5, Infinity, 4, 5, 1e-40)],
    [0x0e, 8, Float64Array.of(0, -1.5, Infinity, 4, 5, 1e-310)],
  ];
  for (const [kind, width, data] of rows) {
    for (const file of [idx(kind, [2, 3], swap(data, width)), await gzip(idx(kind, [2, 3], swap(data, width)))]) {
      const got = await parseIdx(file, "x");
      assert.deepEqual([got.shape, got.data], [[2, 3], data]);
    }
  }
  assert.deepEqual((await parseIdx(idx(8, [0, 5], []), "x")).data.length, 0);
});
