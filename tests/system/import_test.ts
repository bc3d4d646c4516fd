/**
 * `mod.ts` imported from a server, as users import it from a URL: no other permission than that import, no file beside
 * the modules, and nothing fetched at run time.
 *
 * @module
 */
import assert from "node:assert/strict";
import { ROOT, runDeno } from "./subprocess.ts";

const PROGRAM = `
const a = Tensor.arange(1 << 20).reshape([1024, 1024]);
const b: Tensor = a.mul(2).sub(a).sum(1).max();
console.log(Device.default, await b.item(), await new Tensor([1, 2, 3]).add(2).tolist());
`;
const WANT = `WASM ${1024 * 1023 * 1024 + 1023 * 512} [ 3, 4, 5 ]\n`;

/** Serves the project's sources, and notes what was asked for. */
function serve(asked: Set<string>): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    asked.add(pathname);
    try {
      const text = await Deno.readTextFile(new URL(`.${pathname}`, ROOT));
      return new Response(text, { headers: { "content-type": "application/typescript" } });
    } catch {
      return new Response("not found", { status: 404 });
    }
  });
}

Deno.test("import: mod.ts from a URL needs --allow-import of its host and nothing else", async () => {
  const asked = new Set<string>();
  const server = serve(asked);
  const dir = await Deno.makeTempDir({ prefix: "dinograd-test-" });
  try {
    const host = `127.0.0.1:${server.addr.port}`, script = `${dir}/script.ts`;
    await Deno.writeTextFile(script, `import { Device, Tensor } from "http://${host}/mod.ts";\n${PROGRAM}`);
    const env = { DENO_DIR: `${dir}/cache` };
    const refused = await runDeno(["run", "--no-prompt", script], { cwd: dir, env });
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, new RegExp(`${host}.*--allow-import`));
    assert.equal(asked.size, 0);

    const online = await runDeno(["run", "--no-prompt", `--allow-import=${host}`, script], { cwd: dir, env });
    assert.deepEqual([online.code, online.stdout], [0, WANT], online.stderr);
    const strange = [...asked].filter((p) => p !== "/mod.ts" && !/^\/(src|backends)\/.*\.ts$/.test(p));
    assert.deepEqual(strange, [], "only modules are fetched");

    await server.shutdown();
    const offline = await runDeno(
      ["run", "--no-prompt", "--cached-only", `--allow-import=${host}`, "--deny-net", script],
      { cwd: dir, env },
    );
    assert.deepEqual([offline.code, offline.stdout], [0, WANT], offline.stderr);
  } finally {
    await server.shutdown();
    await Deno.remove(dir, { recursive: true });
  }
});

/** Prints which global objects are named that Deno makes, of modules that take long to load, when they are named first. */
const NAMED = `
const named = [];
for (const [name, made] of Object.entries(Object.getOwnPropertyDescriptors(globalThis))) {
  if (made.get === undefined || !made.configurable) continue;
  const get = () => (named.push(name), made.get.call(globalThis));
  Object.defineProperty(globalThis, name, { ...made, get });
}
await import("./mod.ts");
const byImport = named.splice(0);
void process;
console.log(JSON.stringify([byImport, named.includes("process")]));`;

Deno.test("import: no global object is named that Deno loads then, as it does Node's process", async () => {
  const { code, stdout, stderr } = await runDeno(["eval", "--no-check", NAMED], {
    cwd: decodeURIComponent(ROOT.pathname),
  });
  assert.deepEqual([code, stdout], [0, "[[],true]\n"], stderr);
});
