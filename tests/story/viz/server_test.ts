/** The server of VIZ: loopback, only for requests that name it; and VIZ on whole programs. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { DeviceError } from "../../../mod.ts";
import { unpackData } from "../../../src/story/viz/page_data.ts";
import { pack } from "../../../src/story/viz/pack.ts";
import { pageHtml } from "../../../src/story/viz/page.ts";
import { answer, serveViz } from "../../../src/story/viz/server.ts";
import { FORMAT, parseVizData, VERSION, type VizData } from "../../../src/story/viz/viz_data.ts";
import { ROOT, runDeno } from "../../system/subprocess.ts";
import { withProgram } from "../program_folder.ts";

const lists = {
  nodes: [],
  rules: [],
  works: [],
  passes: [],
  places: [],
  kernels: [],
  schedules: [],
  events: [],
  notes: [],
};
const data: VizData = { format: FORMAT, version: VERSION, title: "<none>", dropped: 0, ...lists };

function ask(path: string, host: string, method = "GET"): Promise<Response> {
  const request = new Request(`http://${host}${path}`, { headers: { host }, method });
  const packed = async (name: string): Promise<Uint8Array<ArrayBuffer> | undefined> =>
    name === "data" ? await pack(data) : undefined;
  return answer(request, 8347, () => pageHtml(data.title), packed);
}

async function unpacked(response: Response): Promise<unknown> {
  return unpackData(await new Response(response.body!.pipeThrough(new DecompressionStream("gzip"))).json());
}

Deno.test("viz server: answers who names it, and nobody else", async () => {
  for (const host of ["127.0.0.1:8347", "localhost:8347"]) {
    const page = await ask("/", host), html = await page.text();
    assertEquals([page.status, page.headers.get("access-control-allow-origin")], [200, null]);
    assert(html.includes("&#60;none&#62;") && html.includes("default-src 'none'"));
    assertEquals(await unpacked(await ask("/data", host)), data);
    assertEquals((await ask("/other", host)).status, 204);
    assertEquals([(await ask("/etc/passwd", host)).status, (await ask("/data", host, "POST")).status], [404, 405]);
  }
  for (const host of ["evil.example:8347", "127.0.0.1:9999", "127.0.0.1", "localhost.evil.example:8347"]) {
    for (const path of ["/", "/data", "/other"]) {
      const refused = await ask(path, host);
      assertEquals([refused.status, await refused.text()], [403, "open http://127.0.0.1:8347"]);
    }
  }
});

Deno.test("viz server: a port in use", async () => {
  const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 }), { port } = taken.addr;
  assertThrows(
    () => serveViz(() => data, { port }),
    DeviceError,
    `Cannot serve the page of VIZ: port ${port} is in use`,
  );
  taken.close();
  const { url, server } = serveViz(() => data, { port });
  assertEquals(url, `http://127.0.0.1:${port}/`);
  const response = await fetch(`${url}data`);
  assertEquals(await unpacked(response), data);
  await server.shutdown();
});

const PROGRAM = `console.log(await Tensor.ones([8, 4], { device: "WASM" }).contiguous().add(2).sum().item());
if (Deno.args[0] === "throw") throw new TypeError("halfway");
if (Deno.args[0] === "exit") Deno.exit(3);
`;

const recordedIn = (fn: (folder: string) => Promise<void>): Promise<void> => withProgram(PROGRAM, fn);

Deno.test("viz: a program is recorded to its end, whatever that is", () =>
  recordedIn(async (folder) => {
    for (const [how, code, error] of [["", 0, undefined], ["exit", 3, undefined], ["throw", 1, "TypeError: halfway"]]) {
      const run = await runDeno(["run", "-A", "--no-check", "program.ts", String(how)], {
        cwd: folder,
        env: { VIZ: "out.json" },
      });
      assertEquals([run.code, run.stdout], [code, "96\n"], run.stderr);
      assertMatch(run.stderr, /^VIZ: out\.json$/m);
      const recorded = parseVizData(await Deno.readTextFile(`${folder}/out.json`), "out.json");
      assertEquals([recorded.title, recorded.error], ["program.ts", error]);
      assert(
        recorded.kernels.length >= 1 &&
          recorded.kernels.every((k) => k.lines.every((l) => l.startsWith("program.ts:"))),
      );
      assert(recorded.places.length > 0 && recorded.places.every((p) => p.line.startsWith("program.ts:")));
      // what the library runs to see that a device works is no part of the program
      assert(recorded.passes.length > 0 && recorded.passes.every((p) => p.of !== undefined));
    }
    const html = await runDeno(["run", "-A", "--no-check", "program.ts"], { cwd: folder, env: { VIZ: "out.html" } });
    assertEquals(html.code, 0, html.stderr);
    assertMatch(await Deno.readTextFile(`${folder}/out.html`), /^<!doctype html>[^]*id="data">H4sI/);
  }));

Deno.test("viz: what cannot be done is said, and the program goes on", () =>
  recordedIn(async (folder) => {
    const run = (VIZ: string, permissions: string[]) =>
      runDeno(["run", "--no-prompt", "--no-check", "--allow-env", "--allow-read", ...permissions, "program.ts"], {
        cwd: folder,
        env: { VIZ },
      });
    for (
      const [viz, permissions, said] of [
        ["1", [], /^VIZ=1 serves its page with --allow-net=127\.0\.0\.1; VIZ=page\.html writes a file instead$/m],
        ["1", ["--allow-net=127.0.0.1"], /^VIZ: http:\/\/127\.0\.0\.1:\d+\/.*\nVIZ: the page closes with the program/m],
        ["out.html", [], /^VIZ cannot write out\.html: it needs --allow-write$/m],
        ["out.txt", [], /^VIZ=out\.txt is none of 1, a port, /m],
      ] as const
    ) {
      const { code, stdout, stderr } = await run(viz, [...permissions]);
      assertEquals([code, stdout], [0, "96\n"], stderr);
      assertMatch(stderr, said);
    }
  }));

Deno.test("viz: a program that does nothing but compute answers, and the page closes with it", () =>
  withProgram(
    `const until = Number(Deno.args[0]);
let sum = Tensor.zeros([8], { device: "WASM" });
for (let i = 0; performance.timeOrigin + performance.now() < until; i++) {
  sum = sum.add(1).contiguous().realize();
  if (i % 20 === 0 && [...Deno.readDirSync(".")].some((f) => f.name === "seen")) break;
}
console.log("computed");
`,
    async (folder) => {
      const child = new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", "program.ts", String(Date.now() + 60_000)],
        cwd: folder,
        env: { VIZ: "1" },
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      const reader = child.stderr.pipeThrough(new TextDecoderStream()).getReader();
      let said = "";
      while (!/VIZ: http\S+\//.test(said)) {
        const { value, done } = await reader.read();
        if (done) break;
        said += value;
      }
      const url = said.match(/VIZ: (http:\S+\/)/)![1];
      assertMatch(await (await fetch(url)).text(), /^<!doctype html>/);
      // it is asked while it starts, too: from then on each answer tells of more
      const steps = [0], end = performance.now() + 30_000;
      while (steps.length < 4 && performance.now() < end) {
        const seen = await unpacked(await fetch(`${url}data`)) as VizData, now = seen.events.length + seen.dropped;
        assertEquals([seen.title, seen.error], ["program.ts", undefined]);
        assert(now >= steps.at(-1)!, `${steps}, then ${now}`);
        if (now > steps.at(-1)!) steps.push(now);
      }
      assertEquals(steps.length, 4, `it goes on: ${steps}`);
      // a page of another name must not read it
      const { port } = new URL(url), connection = await Deno.connect({ hostname: "127.0.0.1", port: Number(port) });
      await connection.write(
        new TextEncoder().encode("GET /data HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n"),
      );
      assertMatch(await new Response(connection.readable).text(), /^HTTP\/1\.1 403 /);
      await Deno.writeTextFile(`${folder}/seen`, "");
      const out = await new Response(child.stdout).text(), { code } = await child.status;
      assertEquals([code, out], [0, "computed\n"]);
      while (!(await reader.read()).done);
      await assertRejects(() => fetch(url), TypeError);
    },
  ));

Deno.test("viz: where no browser can be started, that is said, and the page is served", () =>
  recordedIn(async (folder) => {
    await Deno.writeTextFile(`${folder}/recording.json`, JSON.stringify(data));
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", new URL("bench/viz.ts", ROOT).pathname, "recording.json", "--open"],
      cwd: folder,
      env: { PATH: folder },
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    let said = "";
    try {
      while (!said.includes("no browser")) {
        const { value, done } = await reader.read();
        if (done) break;
        said += value;
      }
      const [, url] = said.match(
        /^(http:\S+\/) until Ctrl\+C\nno browser could be started: open the address in one yourself\n$/,
      )!;
      assertEquals(await unpacked(await fetch(`${url}data`)), data);
    } finally {
      child.kill();
      await child.status;
      while (!(await reader.read()).done);
    }
  }));
