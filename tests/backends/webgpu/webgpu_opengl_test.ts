/** A machine whose only adapter is one of OpenGL, as images with Mesa and without Vulkan have: refused, or right. */
import assert from "node:assert/strict";
import { ROOT, runDeno } from "../../system/subprocess.ts";

const PROGRAM = `
import { Device, Tensor } from ${JSON.stringify(new URL("mod.ts", ROOT).href)};
const adapter = Deno.env.get("ASKED_BEFORE") === "0" || await navigator.gpu?.requestAdapter();
if (!adapter) console.log(JSON.stringify({ none: true }));
else {
  try {
    await Device.open("WEBGPU");
    const lists = [[NaN, 1], [NaN], [1, NaN, 2], [NaN, 1, 2], [1, 2, 3, NaN], [-5, NaN, -0]];
    const results = async (device) => {
      Device.default = device;
      const out = [];
      for (const list of lists) {
        const x = new Tensor(list, { dtype: "float32" }).realize(), y = x.flip([0]).contiguous().realize();
        for (const t of [x.max(), x.min(), x.maximum(y), x.minimum(y), x.maximum(0), x.clamp(-1, 1), x.relu(), x.cummax()[0]]) {
          out.push(String(await t.tolist()));
        }
      }
      return out;
    };
    console.log(JSON.stringify({ got: await results("WEBGPU"), want: await results("JS"), info: Device.get("WEBGPU").info() }));
  } catch (error) {
    const loaded = Deno.readTextFileSync("/proc/self/maps").includes("libEGL.so");
    console.log(JSON.stringify({ message: error.message, loaded, left: Deno.env.get("DENO_WEBGPU_BACKEND") }));
  }
}`;

async function withoutVulkan(env: Record<string, string>): Promise<Record<string, unknown>> {
  const url = `data:application/typescript,${encodeURIComponent(PROGRAM)}`;
  const none = { VK_DRIVER_FILES: "/dev/null", VK_ICD_FILENAMES: "/dev/null" };
  const { code, stdout, stderr } = await runDeno(["run", "-A", "--no-check", url], { env: { ...none, ...env } });
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

const ignore = Deno.build.os !== "linux" || (await withoutVulkan({})).none === true;

Deno.test({
  name: "WEBGPU over OpenGL: refused by name",
  ignore,
  async fn() {
    const { message } = await withoutVulkan({ DENO_WEBGPU_BACKEND: "gl" });
    assert.match(String(message), /^Cannot open device WEBGPU: the only adapter \(.*\) is one of OpenGL/);
  },
});
Deno.test({
  name: "WEBGPU over OpenGL: not even loaded where nobody else has asked for an adapter",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const { message, loaded, left } = await withoutVulkan({ ASKED_BEFORE: "0" });
    assert.match(String(message), /^Cannot open device WEBGPU: no adapter was found; .*WEBGPU_OPENGL=1/);
    assert.deepEqual([loaded, left], [false, undefined]);
  },
});
Deno.test({
  name: "WEBGPU over OpenGL: where it is asked for, no NaN is lost",
  ignore,
  async fn() {
    const { got, want, info, message } = await withoutVulkan({ WEBGPU_OPENGL: "1" });
    // a driver that has no device for it says so
    if (message !== undefined) return assert.match(String(message), /the adapter gives no device/);
    assert.match((info as { adapter: string }).adapter, /OpenGL$/);
    assert.deepEqual(got, want);
  },
});
