/** Context variables: the table, `context`, and the page that is made of them. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { ArgumentError, context, CONTEXT_VARS, type ContextVar } from "../../mod.ts";
import { envDocs, meaningOf } from "../../bench/env_docs.ts";
import { envNumber, envText, setEnv, wantsLines } from "../../src/helpers/env.ts";
import { runDeno } from "../system/subprocess.ts";

const ROOT = new URL("../../", import.meta.url);

Deno.test("env: each variable has a meaning, and is used outside of the table", async () => {
  let sources = "";
  const read = async (folder: URL): Promise<void> => {
    for await (const e of Deno.readDir(folder)) {
      const url = new URL(e.name + (e.isDirectory ? "/" : ""), folder);
      if (e.isDirectory) await read(url);
      else if (e.name.endsWith(".ts") && !url.pathname.endsWith("/helpers/env.ts")) {
        sources += await Deno.readTextFile(url);
      }
    }
  };
  await read(new URL("src/", ROOT));
  await read(new URL("backends/", ROOT));
  for (const name of Object.keys(CONTEXT_VARS)) {
    assertMatch(meaningOf(name), /^[a-z0-9].*[^.]$/);
    const used = ["TRACEMETA", "GRAD"].includes(name) || sources.includes(`"${name}"`);
    assert(used, `${name} does nothing`);
  }
});

Deno.test("env: docs/env.md is current", async () => {
  const words = (text: string) => text.replace(/\s+/g, " ").trim();
  assertEquals(
    words(await Deno.readTextFile(new URL("docs/env.md", ROOT))),
    words(envDocs()),
    "run `deno run -A bench/env_docs.ts`",
  );
});

Deno.test("env: context nests, and restores after errors and promises", async () => {
  const level = () => envNumber("DEBUG_MEMORY");
  const before = level();
  const seen = context({ DEBUG_MEMORY: 5 }, () => [level(), context({ DEBUG_MEMORY: 6, CC: "x" }, level), level()]);
  assertEquals([seen, level()], [[5, 6, 5], before]);
  assertThrows(
    () =>
      context({ DEBUG_MEMORY: 5 }, () => {
        throw new Error("no");
      }),
    Error,
    "no",
  );
  assertEquals(level(), before);
  const late = context({ DEBUG_MEMORY: 7 }, async () => {
    await Promise.resolve();
    return level();
  });
  assertEquals([await late, level()], [7, before]);
  await assertRejects(() => context({ DEBUG_MEMORY: 7 }, () => Promise.reject(new Error("later"))), Error, "later");
  assertEquals(level(), before);
});

Deno.test("env: unknown variables and values of another kind are errors, and set nothing", () => {
  const before = envNumber("JIT");
  assertThrows(() => context({ JIT: 0, DEBUGG: 1 } as never, () => 1), ArgumentError, "DEBUGG");
  assertThrows(() => context({ JIT: "0" } as never, () => 1), ArgumentError, 'it takes a number, not "0"');
  assertThrows(() => context({ CC: 1 } as never, () => 1), ArgumentError, "it takes a string, not 1");
  assertEquals(envNumber("JIT"), before);
});

Deno.test("env: lines are recorded for those who show them", () => {
  const on = (set: Partial<Record<ContextVar, number>>) => context(set as never, wantsLines);
  const none = { DEBUG: 0, DEBUG_MEMORY: 0, TRACEMETA: 0 };
  assertEquals(
    [none, { DEBUG: 1 }, { DEBUG: 2 }, { DEBUG_MEMORY: 1 }, { TRACEMETA: 1 }].map((x) => on({ ...none, ...x })),
    [
      false,
      false,
      true,
      true,
      true,
    ],
  );
  const before = envNumber("TRACEMETA");
  setEnv("TRACEMETA", 1);
  assertEquals(wantsLines(), true);
  setEnv("TRACEMETA", before);
});

Deno.test("env: variables come from the environment, where that may be read", async () => {
  const script = `
    import { envNumber, envText } from "${new URL("src/helpers/env.ts", ROOT).href}";
    console.log(envNumber("DEBUG"), envText("CC"), envNumber("JIT"), envNumber("THREADS"));
  `;
  const run = (flags: string[]) =>
    runDeno(
      ["run", "--no-prompt", "--no-check", ...flags, `data:application/typescript,${encodeURIComponent(script)}`],
      {
        env: { DEBUG: "3", CC: "tcc", JIT: "", THREADS: "many" },
      },
    );
  assertEquals((await run(["--allow-env=DEBUG,CC,JIT,THREADS"])).stdout, "3 tcc 1 0\n");
  assertEquals((await run(["--allow-env=CC"])).stdout, "0 tcc 1 0\n");
  assertEquals((await run([])).stdout, "0  1 0\n");
  assertEquals(envText("DEFAULT_FLOAT"), "float32");
});
