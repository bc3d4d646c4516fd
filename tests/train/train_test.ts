/** The entry point ./train: what a bar and logs write, that full disks leave whole records, curves, when to stop. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { ArgumentError, Device, FormatError, nn, ShapeError, Tensor } from "../../mod.ts";
import { crc32c } from "../../src/helpers/crc.ts";
import { LogFile } from "../../src/train/log_file.ts";
import { CSVLogger, EarlyStopping, plotCurves, progress, SummaryWriter } from "../../src/train/train.ts";
import { readMessages } from "../fixtures/protobuf.ts";
import { runDeno } from "../system/subprocess.ts";
import { inFolder } from "../support/folder.ts";

Device.default = "JS"; // the host code is what is tested
Device.get();

/** Somewhere to write to. */
function output(isTerminal: boolean) {
  const written: string[] = [];
  return { isTerminal, write: (text: string) => void written.push(text), written };
}

Deno.test("progress: a bar on a terminal, at most ten times a second, and the items as they are", async () => {
  const to = output(true),
    bar = progress([1, 2, 3], { label: "epoch 1", enabled: true, output: to }),
    seen: number[] = [];
  for await (const x of bar) {
    seen.push(x);
    bar.set({ loss: 1 / x, best: "a" });
  }
  assertEquals(seen, [1, 2, 3]);
  assert(to.written.length <= 3, String(to.written));
  const [first, last] = [to.written[0], to.written.at(-1)!.replace(/[\d.e+]+ it\/s/, "N it/s")];
  assertEquals(first, `\r\x1b[Kepoch 1 ${"░".repeat(24)} 0 %  0/3  0:00  0 it/s`);
  assertEquals(last, `\r\x1b[Kepoch 1 ${"█".repeat(24)} 100 %  3/3  0:00  N it/s  loss 0.3333  best a\n`);
});

Deno.test("progress: a line elsewhere, nothing where it is off; lengths of sets, loaders and what nobody knows", async () => {
  const lines = async (items: Iterable<unknown> | AsyncIterable<unknown>, options = {}) => {
    const to = output(false);
    for await (const _ of progress(items, { enabled: true, output: to, ...options }));
    return to.written.map((s) => s.replace(/[\d.e+]+ it\/s/, "N it/s"));
  };
  assertEquals(await lines(new Set([1, 2])), ["100 %  2/2  0:00  N it/s\n"]);
  assertEquals(await lines([]), ["100 %  0/0  0:00  N it/s\n"]);
  assertEquals(await lines([1], { total: 4 }), ["25 %  1/4  0:00 < 0:00  N it/s\n"]);
  assertEquals(
    await lines(
      (function* () {
        yield 1;
      })(),
      { label: "x" },
    ),
    ["x 1  0:00  N it/s\n"],
  );
  assertEquals(await lines(new nn.data.DataLoader([1, 2, 3], { batchSize: 2 })), ["100 %  2/2  0:00  N it/s\n"]);
  assertEquals(await lines([1], { enabled: false }), []);
  const ci = await runDeno([
    "eval",
    "--no-check",
    `import { progress } from "${new URL(
      "../../src/train/train.ts",
      import.meta.url,
    )}"; for (const _ of progress([1]));`,
  ], { env: { CI: "1" } });
  assertEquals([ci.code, ci.stderr], [0, ""]);
});

Deno.test("progress: errors and breaks go through it, and what it writes to may fail", async () => {
  const to = output(false),
    broken = {
      isTerminal: true,
      write: () => {
        throw new Error("gone");
      },
    };
  await assertRejects(
    async () => {
      for await (const x of progress([1, 2, 3], { enabled: true, output: to })) {
        if (x === 2) throw new RangeError("mine");
      }
    },
    RangeError,
    "mine",
  );
  assert(to.written[0].startsWith("33 %  1/3"), to.written[0]);
  let n = 0;
  for (const _ of progress([1, 2], { enabled: true, output: broken })) n++;
  assertEquals(n, 2);
  let isClosed = false;
  const closing = async function* () {
    try {
      yield 1;
      yield 2;
    } finally {
      isClosed = true;
    }
  };
  for await (const _ of progress(closing(), { enabled: false })) break;
  assert(isClosed);
  assertThrows(() => progress(5 as never), ArgumentError, "something to iterate over, not 5");
  assertThrows(() => [...progress(closing(), { enabled: false })], ArgumentError, "write for await");
});

Deno.test("CSV: rows with a header, quoted where it has to be, gone on with, and closed", () =>
  inFolder((dir) => {
    const path = `${dir}/runs/log.csv`, log = new CSVLogger(path);
    log.log({ epoch: 1, loss: 0.5, "a,b": 'say "x"' });
    log.log({ epoch: 2, loss: NaN });
    log.close();
    const text = 'epoch,loss,"a,b"\n1,0.5,"say ""x"""\n2,NaN,\n';
    assertEquals(Deno.readTextFileSync(path), text);
    {
      using more = new CSVLogger(path, { append: true });
      assertEquals(more.columns, ["epoch", "loss", "a,b"]);
      more.log({ "a,b": null, epoch: 3 });
      assertThrows(() => more.log({ accuracy: 1 }), ArgumentError, 'has no column "accuracy"; it has epoch, loss, a,b');
    }
    assertEquals(Deno.readTextFileSync(path), `${text}3,,\n`);
    assertThrows(() => log.log({ epoch: 1 }), FormatError, "log.csv: it is closed");
    assertThrows(() => new CSVLogger("/proc/nowhere/log.csv"), FormatError, "/proc/nowhere/log.csv");
    return Promise.resolve();
  }));

Deno.test({
  name: "logs: on a full disk there is an error that names the file, and no half of a record",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    inFolder((dir) => {
      assertThrows(() => new LogFile("/dev/full").append(new Uint8Array(8)), FormatError, "/dev/full");
      const file = new LogFile(`${dir}/a`), fs = (file as unknown as { fs: { writeSync: unknown } }).fs;
      file.append(new Uint8Array(4));
      let calls = 0;
      const real = fs.writeSync as (fd: number, b: Uint8Array, at: number, n: number) => number;
      Object.defineProperty(file, "fs", {
        value: {
          ...fs,
          writeSync(fd: number, b: Uint8Array, at: number) {
            if (calls++ > 0) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
            return real(fd, b, at, 3);
          },
        },
      });
      assertThrows(() => file.append(new Uint8Array(8)), FormatError, "no space left on device");
      assertEquals(Deno.statSync(`${dir}/a`).size, 4);
      file.close();
      return Promise.resolve();
    }),
});

/** A message as lists of values by field: varints and fixed numbers as numbers, the rest as bytes. */
function fieldsOf(bytes: Uint8Array): Map<number, (number | Uint8Array)[]> {
  const out = new Map<number, (number | Uint8Array)[]>(),
    view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  const varint = (): number => {
    let n = 0, scale = 1;
    for (;; scale *= 128) {
      const b = bytes[at++];
      n += (b & 127) * scale;
      if (b < 128) return n;
    }
  };
  while (at < bytes.length) {
    const key = varint(), kind = key % 8;
    let value: number | Uint8Array;
    if (kind === 0) value = varint();
    else if (kind === 1) [value, at] = [view.getFloat64(at, true), at + 8];
    else if (kind === 5) [value, at] = [view.getFloat32(at, true), at + 4];
    else {
      const n = varint();
      value = bytes.subarray(at, at += n);
    }
    out.set(key >> 3, [...out.get(key >> 3) ?? [], value]);
  }
  return out;
}

/** The events of a file, whose checksums are right. */
function events(path: string): ReturnType<typeof fieldsOf>[] {
  const bytes = Deno.readFileSync(path), view = new DataView(bytes.buffer), out = [];
  const masked = (b: Uint8Array) => (((crc32c(b) >>> 15) | (crc32c(b) << 17)) + 0xa282ead8) >>> 0;
  for (let at = 0; at < bytes.length;) {
    const n = Number(view.getBigUint64(at, true)), data = bytes.subarray(at + 12, at + 12 + n);
    assertEquals(view.getUint32(at + 8, true), masked(bytes.subarray(at, at + 8)));
    assertEquals(view.getUint32(at + 12 + n, true), masked(data));
    out.push(fieldsOf(data));
    at += 16 + n;
  }
  return out;
}

Deno.test("TensorBoard: records have their checksums, and events their values", () =>
  inFolder(async (dir) => {
    assertEquals(crc32c(new TextEncoder().encode("123456789")), 0xe3069283); // RFC 3720's check value
    const writer = new SummaryWriter(`${dir}/run`);
    writer.addScalar("loss", 0.25, 300);
    await writer.addScalar("loss", new Tensor([0.5]).sum(), 301);
    await writer.addHistogram("w", new Tensor([0, 1, 2, 3, NaN]), 1, { bins: 3 });
    await writer.addImage("x", Tensor.ones([3, 2, 4]), 1);
    writer.addText("note", "**hi**", 2);
    writer.close();
    const [version, a, b, h, image, text] = events(writer.path),
      word = (x: unknown) => new TextDecoder().decode(x as Uint8Array);
    assertEquals(word(version.get(3)![0]), "brain.Event:2");
    const value = (e: typeof a) => fieldsOf(fieldsOf(e.get(5)![0] as Uint8Array).get(1)![0] as Uint8Array);
    assertEquals([a.get(2), word(value(a).get(1)![0]), value(a).get(2)], [[300], "loss", [0.25]]);
    assertEquals([b.get(2), value(b).get(2)], [[301], [0.5]]);
    const histogram = fieldsOf(value(h).get(5)![0] as Uint8Array);
    const packed = (x: unknown) => Array.from(new Float64Array(Uint8Array.from(x as Uint8Array).buffer));
    assertEquals([1, 2, 3, 4, 5].map((k) => histogram.get(k)![0]), [0, 3, 4, 6, 14]);
    assertEquals([packed(histogram.get(6)![0]), packed(histogram.get(7)![0])], [[1, 2, 3], [1, 1, 2]]);
    const picture = fieldsOf(value(image).get(4)![0] as Uint8Array);
    assertEquals([1, 2, 3].map((k) => picture.get(k)![0]), [2, 4, 3]);
    assertEquals([...picture.get(4)![0] as Uint8Array].slice(1, 4), [80, 78, 71]); // PNG
    const tensor = fieldsOf(value(text).get(8)![0] as Uint8Array);
    assertEquals([tensor.get(1), word(tensor.get(8)![0])], [[7], "**hi**"]);
    await assertRejects(async () => await writer.addHistogram("w", [1]), FormatError, "it is closed");
    using other = new SummaryWriter(dir);
    await assertRejects(async () => await other.addImage("x", Tensor.ones([2]), 1), ShapeError, "CHW has 3 axes");
    assertThrows(() => other.addScalar("x", 1, 0.5), ArgumentError, "step must be an integer");
  }));

Deno.test("TensorBoard: what is still being read when it is closed comes into the file", () =>
  inFolder(async (dir) => {
    const writer = new SummaryWriter(dir), x = new Tensor([0.5, 2]);
    const late = writer.addScalar("loss", x.sum(), 1);
    writer.addHistogram("x", x, 1);
    writer.addImage("i", Tensor.ones([1, 2, 2]), 1);
    writer.addScalar("loss", 3, 2);
    const closed = writer.close();
    assertThrows(() => writer.addScalar("loss", 4, 3), FormatError, "it is closed");
    await assertRejects(async () => await writer.addScalar("loss", x.sum(), 3), FormatError, "it is closed");
    await closed;
    await late;
    assertEquals(events(writer.path).slice(1).map((e) => e.get(2)![0]).sort(), [1, 1, 1, 2]);
    {
      await using other = new SummaryWriter(`${dir}/other`);
      other.addScalar("loss", x.sum(), 7);
    }
    const [file] = Deno.readDirSync(`${dir}/other`);
    assertEquals(events(`${dir}/other/${file.name}`)[1].get(2), [7]);
  }));

Deno.test("TensorBoard: a protobuf library reads the events by the published schema", () =>
  inFolder(async (dir) => {
    const writer = new SummaryWriter(dir);
    writer.addScalar("loss", 0.25, 2 ** 33);
    await writer.addHistogram("w", [1, 2, 4], 1, { bins: 2 });
    writer.addText("note", "hi", 3);
    writer.close();
    const read = await readMessages("events.proto", "Event", writer.path, true);
    if (read === undefined) return;
    assertEquals(read[0].fileVersion, "brain.Event:2");
    assertEquals([read[1].step, read[1].summary.value[0]], [2 ** 33, { tag: "loss", simpleValue: 0.25 }]);
    const { bucketLimit, bucket, num } = read[2].summary.value[0].histo;
    assertEquals([bucketLimit, bucket, num], [[2.5, 4], [2, 1], 3]);
    assertEquals(read[3].summary.value[0].metadata.pluginData.pluginName, "text");
    assertEquals(read[3].summary.value[0].tensor.dtype, "DT_STRING");
  }));

Deno.test("curves: lines, gaps, ticks, a legend, and names as text", () => {
  const svg = plotCurves({ "a<b": [1, 2, NaN, 4], other: [[0, 3], [10, 5]] }, { title: "x & y" });
  assertEquals([...svg.matchAll(/ d="([^"]+)"/g)].map((m) => m[1].replace(/[\d.]+/g, "0").replaceAll(" ", "")), [
    "M00L00M00",
    "M00L00",
  ]);
  assert(svg.includes("a&#60;b") && svg.includes("x &#38; y") && !svg.includes("NaN"), svg);
  assertMatch(svg, /prefers-color-scheme:dark/);
  const log = plotCurves([{ epoch: 1, loss: 100 }, { epoch: 2, loss: 0.01 }, { epoch: 3, loss: 0 }], { logY: true });
  for (const tick of ["0.01", "0.1", "1", "10", "100"]) assert(log.includes(`>${tick}</text>`), tick);
  assert(log.includes(">epoch</text>") && log.includes(">loss</text>"), log);
  for (const odd of [{}, { a: [] }, { a: [1] }, { a: [2, 2, 2] }, [{ step: 1, name: "x" }]]) {
    const text = plotCurves(odd as never);
    assert(text.endsWith("</svg>") && !/NaN|Infinity/.test(text), text);
  }
  assertThrows(() => plotCurves(5 as never), ArgumentError, "lists of numbers by name");
  assertThrows(() => plotCurves({ a: "x" } as never), ArgumentError, '"a" must be a list of numbers');
});

Deno.test("early stopping: by patience, a least difference and either direction", () => {
  const run = (values: number[], options = {}) => {
    const stopping = new EarlyStopping({ patience: 2, ...options });
    return values.findIndex((v) => stopping.step(v));
  };
  assertEquals([run([3, 2, 1, 1, 0.5, 0.6, 0.7]), run([3, 2, 1])], [6, -1]);
  assertEquals(run([1, 0.95, 0.92, 0.91], { minDelta: 0.1 }), 2);
  assertEquals(run([1, 2, 3, 2, 1], { mode: "max" }), 4);
  assertEquals(run([NaN, NaN, 1]), 1);
  assertThrows(() => new EarlyStopping({ patience: 0 }), ArgumentError, "patience");
});
