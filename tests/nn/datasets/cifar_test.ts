/** CIFAR-10 from a folder and from a server: kept, checked, refused when wrong. @module */
import assert from "node:assert/strict";
import { ArgumentError, FormatError, nn } from "../../../mod.ts";
import "../support.ts";
import { inFolder } from "../../support/folder.ts";

type Bytes = Uint8Array<ArrayBuffer>;
const ROW = 3073;

/** A member of a tar archive. */
function member(name: string, data: Bytes): Bytes {
  const out = new Uint8Array(512 + Math.ceil(data.length / 512) * 512);
  const put = (at: number, text: string) => out.set(new TextEncoder().encode(text), at);
  put(0, name);
  put(124, data.length.toString(8).padStart(11, "0"));
  put(156, "0");
  put(257, "ustar");
  const sum = out.reduce((n, b) => n + b, 8 * 32);
  put(148, sum.toString(8).padStart(6, "0"));
  out[155] = 32;
  out.set(data, 512);
  return out;
}
/** Rows of labels; the pixels count up from the label. */
function batch(labels: readonly number[]): Bytes {
  return Uint8Array.from({ length: labels.length * ROW }, (_, i) => {
    const label = labels[Math.floor(i / ROW)];
    return i % ROW === 0 ? label : (label + i % ROW - 1) % 256;
  });
}
async function archive(files: Readonly<Record<string, Bytes>>): Promise<Bytes> {
  const parts = Object.entries(files).map(([name, data]) => member(`cifar-10-batches-bin/${name}`, data));
  const stream = new Blob([...parts, new Uint8Array(1024)]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
const SOUND = {
  "readme.html": new Uint8Array(10),
  "data_batch_2.bin": batch([5]),
  "data_batch_1.bin": batch([1, 9]),
  "test_batch.bin": batch([7, 0]),
};
async function check(set: Awaited<ReturnType<typeof nn.datasets.cifar>>): Promise<void> {
  assert.deepEqual(set.trainImages.shape, [3, 3, 32, 32]);
  assert.deepEqual([set.trainImages.dtype.name, set.trainLabels.dtype.name], ["uint8", "int32"]);
  assert.deepEqual(await set.trainLabels.tolist(), [1, 9, 5]);
  assert.deepEqual(await set.testLabels.tolist(), [7, 0]);
  assert.deepEqual(await set.trainImages.at(2, 1, 0, [0, 3]).tolist(), [5, 6, 7]);
}

Deno.test("cifar: a folder, and a server whose file is kept", () =>
  inFolder(async (folder) => {
    const bytes = await archive(SOUND);
    await Deno.writeFile(`${folder}/cifar-10-binary.tar.gz`, bytes);
    await check(await nn.datasets.cifar(folder));
    let requests = 0;
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, () => {
      requests++;
      return new Response(bytes);
    });
    try {
      const base = `http://127.0.0.1:${server.addr.port}/set`, cache = `${folder}/cache`;
      await check(await nn.datasets.cifar(base, { cache }));
      await check(await nn.datasets.cifar(base, { cache }));
      assert.equal(requests, 1);
      await assert.rejects(
        () => nn.datasets.cifar(base, { cache: false, sha256: "00" }),
        /its SHA-256 is [0-9a-f]{64}, not 00$/,
      );
    } finally {
      await server.shutdown();
    }
    await assert.rejects(
      () => nn.datasets.cifar(`http://127.0.0.1:${server.addr.port}/set`, { cache: false }),
      (e: unknown) =>
        e instanceof FormatError &&
        /the server cannot be reached .*; a folder with the files works offline$/.test(e.message),
    );
  }));

const { "test_batch.bin": _, ...untested } = SOUND;
const BAD: readonly (readonly [string, Bytes, RegExp])[] = [
  ["nothing", new Uint8Array(0), /it is no tar archive$/],
  ["no test batch", await archive(untested), /it has no test_batch\.bin$/],
  [
    "half a row",
    await archive({ ...SOUND, "data_batch_1.bin": new Uint8Array(100) }),
    /has 100 bytes, no multiple of 3073$/,
  ],
  ["a label beyond 9", await archive({ ...SOUND, "test_batch.bin": batch([1, 10]) }), /label 1 is 10, not 0 to 9$/],
  ["a cut archive", (await archive(SOUND)).slice(0, 200), /it cannot be unpacked/],
];
for (const [name, bytes, why] of BAD) {
  Deno.test(`cifar: refuses ${name}`, () =>
    inFolder(async (folder) => {
      await Deno.writeFile(`${folder}/cifar-10-binary.tar.gz`, bytes);
      await assert.rejects(() => nn.datasets.cifar(folder), (e) => e instanceof FormatError && why.test(e.message));
    }));
}

Deno.test("cifar: refuses a folder without it, and other places", () =>
  inFolder(async (folder) => {
    await assert.rejects(() => nn.datasets.cifar(folder), /it has no cifar-10-binary\.tar\.gz$/);
    await assert.rejects(() => nn.datasets.cifar("ftp://a/b"), ArgumentError);
    await assert.rejects(() => nn.datasets.cifar(folder, { sha: "" } as object), /unknown option "sha"/);
  }));
