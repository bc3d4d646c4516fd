/** What writes files where they cannot grow, as on a full disk: errors name the file and why, and nothing is left half. @module */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { ROOT, runCommand } from "./subprocess.ts";

Deno.test({
  name: "full disks: all that writes names the file and the reason, and leaves no part of one",
  ignore: Deno.build.os === "windows",
  async fn() {
    const folder = await Deno.makeTempDir({ prefix: "dinograd-full-" });
    try {
      const script = fileURLToPath(new URL("tests/fixtures/full_disk.ts", ROOT));
      const limited = `trap '' XFSZ; ulimit -f 16; exec "$0" run -A --no-check "$1" "$2"`; // files of 8 or 16 kB
      const { code, stdout, stderr } = await runCommand("sh", ["-c", limited, Deno.execPath(), script, folder], {
        env: { DEV: "JS", CACHEDIR: `${folder}/cache` },
      });
      assert.equal(code, 0, stderr);
      const { said, left } = JSON.parse(stdout) as { said: Record<string, string>; left: string[] };
      assert.equal(Object.keys(said).length, 8);
      for (const [name, text] of Object.entries(said)) {
        assert.ok(text.startsWith("FormatError: Cannot ") && text.includes(`${folder}/${name}`), text);
        assert.match(text, /File too large|EFBIG/);
      }
      // what is logged line by line stays as far as it came
      assert.deepEqual(left.filter((file) => file !== "cache"), ["CSVLogger", "SummaryWriter"]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
