/** The C runtime stays when the module that opened it is gone: its threads still wait in it. */
import assert from "node:assert/strict";
import { Device } from "../../../mod.ts";

const available = Device.list().find((d) => d.name === "CLANG")?.available === true;

Deno.test({
  name: "CLANG: workers that end without closing the device leave it usable",
  ignore: !available,
  fn: async () => {
    const script = new URL("../../fixtures/clang_worker.ts", import.meta.url).pathname;
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", script],
      stdin: "null",
      signal: AbortSignal.timeout(30_000),
    });
    const { code, stdout, stderr } = await child.output();
    assert.equal(code, 0, new TextDecoder().decode(stderr));
    assert.equal(new TextDecoder().decode(stdout).trim(), String(1 << 20));
  },
});
