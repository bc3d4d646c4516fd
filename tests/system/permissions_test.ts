/**
 * Each device opens and computes with exactly the permissions that the table of docs/devices.md prints, and says which
 * one is missing without it. The README prints the same table.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Device } from "../../mod.ts";
import { ROOT, runDeno } from "./subprocess.ts";
import { opensHere } from "../fixtures/devices.ts";

const PROBE = "tests/fixtures/open_device.ts";

/** Flags by device: the rows of the table whose first column is a device in backquotes. */
function permissionsIn(page: string): Map<string, readonly string[]> {
  const text = Deno.readTextFileSync(new URL(page, ROOT));
  const rows = [...text.matchAll(/^\| `([A-Z]+)` *\|[^|]*\| *([^|]*?) *\|$/gm)];
  return new Map(rows.map(([, name, flags]) => [name, flags === "none" ? [] : flags.replaceAll("`", "").split(" ")]));
}

const documented = permissionsIn("docs/devices.md");
const listing = Device.list();
/** Is a card here, by what its library says? */
const isCard = listing.some((d) => d.name === "CUDA" && d.available);

Deno.test("permissions: the documentation, the README and the devices agree", () => {
  assert.deepEqual(Object.fromEntries(documented), Object.fromEntries(listing.map((d) => [d.name, d.permissions])));
  assert.deepEqual(permissionsIn("README.md"), documented);
});

for (const { name, available } of listing) {
  if (name === "DISK") continue; // it computes nothing, and each file needs permission of its own
  const flags = documented.get(name) ?? [];
  const ignore = !available || (name === "WEBGPU" && !await opensHere(name));
  Deno.test({
    name: `permissions: ${name} needs ${flags.join(" ") || "none"}`,
    ignore,
    async fn() {
      const { code, stdout, stderr } = await runDeno(["run", "--no-prompt", ...flags, PROBE, name]);
      assert.equal(code, 0, stderr);
      // NULL computes nothing
      assert.match(stdout, name === "NULL" ? /^NULL / : new RegExp(`^${name} 14\\n$`));
    },
  });
  for (const dropped of flags) {
    Deno.test({
      name: `permissions: ${name} without ${dropped} says so`,
      ignore,
      async fn() {
        const rest = flags.filter((f) => f !== dropped);
        const { code, stderr } = await runDeno(["run", "--no-prompt", ...rest, PROBE, name]);
        assert.equal(code, 1);
        const message = /DeviceError: (.*)/.exec(stderr)?.[1] ?? stderr;
        // a card is here for whoever may call its driver
        const others = isCard && rest.includes("--allow-ffi") ? "WASM, CUDA" : "WASM";
        assert.equal(message, `Cannot open device ${name}: it needs ${dropped}; available here: ${others}`);
      },
    });
  }
}

Deno.test("permissions: with none, and with all denied, the default is WASM", async () => {
  const denied = ["read", "write", "net", "env", "run", "ffi", "sys", "import"].map((p) => `--deny-${p}`);
  for (const flags of [[], denied]) {
    const { code, stdout, stderr } = await runDeno(["run", "--no-prompt", ...flags, PROBE]);
    assert.deepEqual([code, stdout], [0, "WASM 14\n"], stderr);
  }
});

Deno.test("permissions: a variable of the environment is not read without permission", async () => {
  const env = { DEV: "JS" };
  const without = await runDeno(["run", "--no-prompt", PROBE], { env });
  assert.equal(without.stdout, "WASM 14\n", without.stderr);
  const granted = await runDeno(["run", "--no-prompt", "--allow-env=DEV", PROBE], { env });
  assert.equal(granted.stdout, "JS 14\n", granted.stderr);
});
