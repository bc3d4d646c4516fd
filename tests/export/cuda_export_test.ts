/**
 * Exports as CUDA: what they are made of, and that nvcc takes them where it is; a card runs them by `make && ./example`.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Device } from "../../mod.ts";
import { exportModel, exportModels } from "../../src/export/export.ts";
import { run } from "./build.ts";
import { agent, examples } from "./programs.ts";

Device.default = "WASM";

/** Whether there is a compiler of CUDA. */
function hasNvcc(): boolean {
  try {
    return new Deno.Command("nvcc", { args: ["--version"], stdout: "null", stderr: "null" }).outputSync().success;
  } catch {
    return false;
  }
}

Deno.test("export to CUDA: files, and a function for arrays of the host and one for those of the device", async () => {
  const { f, args, weights } = examples().train;
  const made = await exportModel(f, args, { target: "cuda", name: "train", weights });
  assertEquals([...made.files.keys()], [
    ...["train.h", "train.cu", "train.bin", "train_weights.c", "train_test.c", "Makefile"],
  ]);
  const header = made.text("train.h"), source = made.text("train.cu");
  assertStringIncludes(
    header,
    "int train_run(train_context *context, const float x[24], const int y[4], float y_2[1]);",
  );
  assertStringIncludes(
    header,
    "int train_launch(train_context *context, const float *x, const int *y, float *y_2, void *stream);",
  );
  const launches = source.match(/<<<dim3\(/g)?.length;
  assertEquals(launches, made.plan.steps.filter((s) => s.kind === "kernel").length);
  assert(!/malloc\(/.test(source.replaceAll("cudaMalloc(", "")));
});

Deno.test("export to CUDA: several functions launch the kernels that each would launch alone", async () => {
  const { entries, weights } = agent();
  const made = await exportModels(entries, { target: "cuda", name: "agent", weights }), source = made.text("agent.cu");
  const header = made.text("agent.h"),
    bodies = source.split('extern "C" ').filter((t) => /^int agent_\w+_launch/.test(t));
  assertEquals(bodies.map((t) => /^int agent_(\w+)_launch/.exec(t)![1]), Object.keys(entries));
  assertStringIncludes(header, "int agent_remember(agent_context *context, int n, const float x[4], float y[1]);");
  assertStringIncludes(header, "void agent_seed(agent_context *context, unsigned long long seed");
  const alone = agent();
  for (const [i, [name, [f, args]]] of Object.entries(alone.entries).entries()) {
    const one = await exportModel(f, args, { target: "cuda", name: "one", weights: alone.weights });
    const launches = (text: string): string[] => {
      return [...text.matchAll(/_kernel_\d+_(\w+)(<<<.*>>>)/g)].map((m) => m[1] + m[2]);
    };
    assertEquals(launches(bodies[i]), launches(one.text("one.cu")), name);
  }
});

Deno.test({
  name: "export to CUDA: nvcc takes the files",
  ignore: !hasNvcc(),
  async fn() {
    const folder = await Deno.makeTempDir({ prefix: "dinograd-export-" });
    try {
      const { f, args, weights } = examples().sizes;
      await (await exportModel(f, args, { target: "cuda", name: "sizes", weights })).write(folder);
      const several = agent(), together = `${folder}/agent`;
      await (await exportModels(several.entries, { target: "cuda", name: "agent", weights: several.weights }))
        .write(together);
      for (const at of [folder, together]) {
        await run("make", ["-s"], at);
        assert((await Deno.stat(`${at}/example`)).size > 0);
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
