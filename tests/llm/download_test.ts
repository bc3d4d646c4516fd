/** Models of servers: fetched once, in as many tries as it takes, checked and kept; and bytes in every form that hosts have. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { download, EmbeddingModel, LanguageModel } from "../../src/llm/llm.ts";
import { context, Tensor } from "../../mod.ts";

const FILE = new URL("../../examples/models/stories260K.gguf", import.meta.url), BYTES = await Deno.readFile(FILE);
const hex = (bytes: Uint8Array) => [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
const SHA256 = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", BYTES)));
/** Are these the same bytes? Fast, where a comparison that tells the difference would be slow. */
function assertSame(a: Uint8Array, b: Uint8Array): void {
  assert(a.length === b.length && a.every((x, i) => x === b[i]), `${a.length} bytes differ from ${b.length}`);
}
const OPTIONS = { device: "WASM", context: 128 } as const;

// devices are opened here, and stay open
(await LanguageModel.load(FILE, OPTIONS))[Symbol.dispose]();

/** What a server does with its file. */
interface Behavior {
  bytes: Uint8Array<ArrayBuffer>;
  /** What the file is known by. */
  tag: string | undefined;
  /** Bytes after which a connection breaks. */
  most: number;
  /** Does it send parts? */
  ranges: boolean;
  status?: number;
}
/** What it was asked for. */
type Asked = { readonly range: string | null; readonly condition: string | null };

async function served(use: (url: string, does: Behavior, asked: Asked[]) => Promise<void>, most = Infinity) {
  const does: Behavior = { bytes: BYTES, tag: '"one"', most, ranges: true }, asked: Asked[] = [];
  const answer = (request: Request): Response => {
    const range = request.headers.get("range"), condition = request.headers.get("if-range");
    asked.push({ range, condition });
    if (does.status !== undefined) return new Response("no", { status: does.status });
    const { bytes, tag, ranges } = does, from = Number(/^bytes=(\d+)-$/.exec(range ?? "")?.[1] ?? 0);
    const isPart = ranges && range !== null && condition === tag, rest = isPart ? bytes.subarray(from) : bytes;
    const head: Record<string, string> = { "content-length": String(rest.length), ...tag ? { etag: tag } : {} };
    if (isPart) head["content-range"] = `bytes ${from}-${bytes.length - 1}/${bytes.length}`;
    let at = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(out) {
        if (at >= does.most && at < rest.length) return out.error(new Error("gone"));
        const next = rest.slice(at, Math.min(at + (1 << 16), does.most));
        if (next.length === 0) return out.close();
        at += next.length;
        out.enqueue(next);
      },
    });
    return new Response(body, { status: isPart ? 206 : 200, headers: head });
  };
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {}, onError: () => new Response() }, answer);
  try {
    await use(`http://127.0.0.1:${server.addr.port}/models/small.gguf`, does, asked);
  } finally {
    await server.shutdown();
  }
}

async function inFolder(use: (path: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await use(`${folder}/models/small.gguf`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
const filesOf = (path: string) => [...Deno.readDirSync(path.slice(0, path.lastIndexOf("/")))].map((e) => e.name).sort();

Deno.test("download: a file comes whole, once, and is checked", () =>
  served((url, _, asked) =>
    inFolder(async (path) => {
      const told: number[] = [];
      assertEquals(
        await download(url, path, { sha256: SHA256, onProgress: (p) => told.push(p.loaded / p.total!) }),
        path,
      );
      assertSame(await Deno.readFile(path), BYTES);
      assertEquals(told.at(-1), 1);
      assertEquals(filesOf(path), ["small.gguf"]);
      await download(url, path, { sha256: SHA256.toUpperCase() });
      assertEquals(asked.length, 1);
    })
  ));

Deno.test("download: what a broken connection brought is not fetched again", () =>
  served((url, _, asked) =>
    inFolder(async (path) => {
      await download(url, path, { sha256: SHA256 });
      assertSame(await Deno.readFile(path), BYTES);
      assert(asked.length > 2 && asked.slice(1).every((a) => a.range !== "bytes=0-" && a.condition === '"one"'));
    }), 300_000));

Deno.test("download: the next call goes on where one was stopped", () =>
  served((url, _, asked) =>
    inFolder(async (path) => {
      const stop = new AbortController();
      const onProgress = ({ loaded }: { loaded: number }) => loaded > 200_000 && stop.abort();
      await assertRejects(() => download(url, path, { signal: stop.signal, onProgress }));
      const have = Deno.statSync(`${path}.part`).size;
      assert(have > 200_000 && have < BYTES.length);
      await download(url, path, { sha256: SHA256 });
      assertEquals(asked.at(-1), { range: `bytes=${have}-`, condition: '"one"' });
      assertEquals(filesOf(path), ["small.gguf"]);
    })
  ));

Deno.test("download: a part of another file is thrown away, and servers without parts begin anew", async () => {
  for (const change of [{ tag: '"two"' }, { ranges: false }, { tag: undefined }]) {
    await served((url, does) =>
      inFolder(async (path) => {
        Object.assign(does, "tag" in change && change.tag === undefined ? change : {});
        const stop = new AbortController();
        const onProgress = ({ loaded }: { loaded: number }) => loaded > 200_000 && stop.abort();
        await assertRejects(() => download(url, path, { signal: stop.signal, onProgress }));
        does.bytes = BYTES.map((b) => b ^ 1);
        Object.assign(does, change);
        await download(url, path);
        assertSame(await Deno.readFile(path), does.bytes);
      })
    );
  }
});

Deno.test("download: what cannot be fetched is told, and nothing wrong is kept", () =>
  served((url, does) =>
    inFolder(async (path) => {
      await assertRejects(
        () => download(url, path, { sha256: "0".repeat(64) }),
        Error,
        `its SHA-256 is ${SHA256}, not 000`,
      );
      assertEquals(filesOf(path), []);
      await assertRejects(() => download(url, path, { sha256: "abc" }), Error, "64 hexadecimal digits");
      await assertRejects(() => download("ftp://a/b", path), Error, "http: or https: URL");
      does.most = 0;
      await assertRejects(() => download(url, path), Error, "ended 3 times without sending more");
      does.status = 404;
      await assertRejects(() => download(url, path), Error, "the server answers 404");
      await assertRejects(() => download("http://127.0.0.1:1/x.gguf", path), Error, "cannot be reached");
    })
  ));

Deno.test("download: a model is loaded by its URL, and the second time from the cache", () =>
  served(async (url, _, asked) => {
    const folder = await Deno.makeTempDir();
    try {
      await context({ CACHEDIR: folder }, async () => {
        for (const from of [url, new URL(url)]) {
          using model = await LanguageModel.load(from, { ...OPTIONS, download: { sha256: SHA256 } });
          assertEquals((await model.complete("Once upon", { maxTokens: 3 })).text, " a time,");
        }
      });
      assertEquals(asked.length, 1);
      assertEquals([...Deno.readDirSync(`${folder}/models`)].length, 1);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }));

Deno.test({
  name: "download: where the cache cannot be written, or its disk is full, models are in memory, and that is said once",
  ignore: Deno.build.os === "windows",
  fn: () =>
    served((url, _, asked) =>
      inFolder(async (path) => {
        const cache = path.slice(0, path.lastIndexOf("/models")), file = `${cache}/file`;
        Deno.writeTextFileSync(file, "");
        const script = `import { LanguageModel } from ${
          JSON.stringify(new URL("../../src/llm/llm.ts", import.meta.url))
        };
          for (let i = 0; i < 2; i++) {
            const model = await LanguageModel.load("${url}", { device: "WASM", context: 128, download: { sha256: "${SHA256}" } });
            console.log((await model.complete("Once upon", { maxTokens: 3 })).text);
          }`;
        // neither a folder, nor a place for one, and files that may have 8 or 16 kB
        for (const [root, most] of [["", "unlimited"], [file, "unlimited"], [cache, "16"]]) {
          asked.length = 0;
          const { stdout, stderr } = await new Deno.Command("sh", {
            args: ["-c", `trap '' XFSZ; ulimit -f ${most}; exec "$0" eval --no-check "$1"`, Deno.execPath(), script],
            env: { CACHEDIR: "", XDG_CACHE_HOME: root, HOME: "/proc/nowhere", NO_COLOR: "1" },
          }).output();
          const said = new TextDecoder().decode(stderr);
          assertEquals(new TextDecoder().decode(stdout), " a time,\n a time,\n", said);
          assertEquals(said.match(/downloads are not kept: .*\/models\/.* cannot be used/g)?.length, 1, said);
          assertEquals([...Deno.readDirSync(cache)].filter((e) => e.isFile).map((e) => e.name), ["file"]);
        }
        const kept = [...Deno.readDirSync(`${cache}/dinograd/models`)].flatMap((
          e,
        ) => [...Deno.readDirSync(`${cache}/dinograd/models/${e.name}`)]);
        assertEquals(kept, []);
      })
    ),
});

Deno.test("download: bytes in every form are a model", async () => {
  for (const from of [BYTES, BYTES.buffer, new Blob([BYTES]), new File([BYTES], "a.gguf"), new Tensor(BYTES)]) {
    using model = await LanguageModel.load(from, OPTIONS);
    assertEquals((await model.complete("Once upon", { maxTokens: 3 })).text, " a time,");
  }
});

Deno.test("download: what is no model says what would be one", async () => {
  const load = (from: unknown) => LanguageModel.load(from as string, OPTIONS);
  await assertRejects(
    () => load(new Response("x")),
    Error,
    "it takes a path, a URL, or bytes (Uint8Array, ArrayBuffer",
  );
  await assertRejects(() => load(""), Error, "it takes a path, a URL");
  const folder = await Deno.makeTempDir();
  await assertRejects(() => load(folder), Error, "a folder without config.json");
  await Deno.remove(folder);
  await assertRejects(() => EmbeddingModel.load(FILE), Error, "LanguageModel.embed");
  const model = await LanguageModel.load(FILE, OPTIONS);
  model[Symbol.dispose]();
  await assertRejects(() => model.complete("x"), Error, "generate a text: the model was disposed");
});
