/**
 * Programs by the assembler and the compiler of NVIDIA's toolkit, where they are: many kernels in one file, so that a
 * thousand of them take seconds.
 */
import { CudaRenderer } from "../../src/renderer/c/cuda_c.ts";
import { archNumber, cudaCaps } from "../../src/renderer/cuda_caps.ts";
import { PtxRenderer } from "../../src/renderer/ptx/ptx.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import { isAvailable } from "./tools.ts";

/** The architectures that everything is assembled for. */
export const ARCHS: readonly string[] = ["sm_80", "sm_90a"];

/** The two languages, and the tool that takes them. */
export const LANGUAGES = { PTX: "ptxas", "CUDA C": "nvcc" } as const;
export type Language = keyof typeof LANGUAGES;

/** Kernels of one run of a tool. */
const CHUNK = 400;

/** Whether the tool of a language is here. */
export const available: Readonly<Record<Language, boolean>> = {
  PTX: isAvailable("ptxas", "--version"),
  "CUDA C": isAvailable("nvcc", "--version"),
};

/** All programs in one source: kernels k0, k1, ... */
export function sourceOf(language: Language, programs: readonly LinearProgram[], arch: string): string {
  const caps = cudaCaps({ arch }), title = (p: LinearProgram) => `// ${p.name}\n`;
  if (language === "PTX") {
    const renderer = new PtxRenderer(caps, arch);
    return [renderer.header, ...programs.map((p, i) => title(p) + renderer.body(p, `k${i}`))].join("\n");
  }
  const renderer = new CudaRenderer(caps, archNumber(arch)), shared = new Map<string, string>();
  const bodies = programs.map((p, i) => {
    const { declarations, body } = renderer.parts(p, `k${i}`);
    for (const [name, text] of declarations) shared.set(name, text);
    return title(p) + body;
  });
  return [...shared.values(), ...bodies].join("\n");
}

async function assembleChunk(language: Language, programs: readonly LinearProgram[], arch: string): Promise<string> {
  const directory = await Deno.makeTempDir({ prefix: "dinograd-assemble-" });
  try {
    const isPtx = language === "PTX", path = `${directory}/kernels.${isPtx ? "ptx" : "cu"}`;
    await Deno.writeTextFile(path, sourceOf(language, programs, arch));
    const flags = isPtx ? [] : ["-cubin", "--fmad=false"];
    const args = [...flags, `-arch=${arch}`, "-o", `${directory}/kernels.cubin`, path];
    const { success, stderr } = await new Deno.Command(LANGUAGES[language], { args, stderr: "piped" }).output();
    const log = new TextDecoder().decode(stderr);
    // products that wait for each other are as wrong as an error
    return success && !log.includes("serialized") ? "" : log.slice(0, 2000) || "failed without a word";
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** Assembles programs for an architecture. @throws {Error} with what the tool says */
export async function assemble(language: Language, programs: readonly LinearProgram[], arch: string): Promise<void> {
  for (let i = 0; i < programs.length; i += CHUNK) {
    const log = await assembleChunk(language, programs.slice(i, i + CHUNK), arch);
    if (log !== "") throw new Error(`${LANGUAGES[language]} for ${arch}: ${log}`);
  }
}
