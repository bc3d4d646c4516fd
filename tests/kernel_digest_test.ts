/** Kernels of the suite, compiled of their ASTs, are what the digest says; one that is not is told by its number. */
import { assertEquals, assertMatch } from "@std/assert";
import { specKernel, verify } from "../src/uop/core/spec.ts";
import { differences, formatDigest, keptDigest, keptKernels, parseDigest, written } from "./kernel_digest.ts";
import { runDeno } from "./system/subprocess.ts";

const kernels = await keptKernels(), digest = keptDigest();

for (const writer of digest.keys()) {
  Deno.test(`digest: ${writer} makes the kernels that the data says`, () => {
    const lines = differences(writer, written(writer, kernels), digest);
    assertEquals(lines, [], `${lines.join("\n")}\nmeant? deno task digest --write`);
  });
}

Deno.test("digest: the data is small, and of kernels that are legal", () => {
  for (const { ast } of kernels) verify(ast, specKernel, "in the digest");
  const size = (name: string): number => Deno.statSync(new URL(`fixtures/kernel_digest.${name}`, import.meta.url)).size;
  assertEquals(size("json.gz") + size("tsv") <= 200_000, true);
  assertEquals([kernels.length > 400, [...digest.values()].every((d) => d.length >= 100)], [true, true]);
  assertEquals(parseDigest(formatDigest(digest)), digest);
});

Deno.test("digest: a kernel that is another one is told by writer, number and name", () => {
  const now = written("JS", kernels.slice(0, 3)), of = (...hashes: string[]) => new Map([["JS", hashes]]);
  const [a, b, c] = now.map((k) => k.hash);
  assertEquals(differences("JS", now, of(a, b, c)), []);
  assertEquals(differences("JS", now, of(a, "------", c)), [`JS kernel 1: ${now[1].name} is another one`]);
  assertEquals(differences("JS", now.slice(0, 2), of(a, b, c)), ["JS: 2 kernels, were 3"]);
  assertEquals(differences("JS", [], new Map()), []);
});

Deno.test("digest: a kernel is shown as each writer makes it; other arguments are refused", async () => {
  const run = (...args: string[]) => runDeno(["run", "-A", "--no-check", "tests/kernel_digest.ts", ...args]);
  const shown = await run("--show=0", "--writer=JS");
  assertEquals([shown.code, shown.stderr], [0, ""]);
  assertMatch(shown.stdout, /^##### loops 0\n.*\bPARAM\b[^]*^=== JS \w+/m);
  for (const args of [[], ["--compare", "--write"], ["--compare", "--writer=NO"]]) {
    const { code, stderr } = await run(...args);
    assertEquals(code, 2);
    assertMatch(stderr, /deno task digest --compare/);
  }
});
