/**
 * llama.cpp's own libraries, of npm's `@node-llama-cpp/linux-x64` (MIT), through FFI: the oracle of the language model
 * tests. It runs where the package can be fetched: `deno run -A tests/llm/llama_cpp.ts blocks` checks all block formats
 * on random bytes, `... blocks --write` also writes tests/llm/fixtures/blocks.json, which the suite reads.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { BLOCK_FORMATS, dequantize, type FormatName, quantize, QUANTIZED } from "../../src/llm/llm.ts";
import { Tensor } from "../../mod.ts";
import { hashOf } from "./hash_of.ts";

const LIBRARY: string = "npm:@node-llama-cpp/linux-x64@3.22.1";

/** The folder of the libraries. Throws where the package cannot be fetched. */
export async function libraries(): Promise<string> {
  const { getBinsDir } = await import(LIBRARY) as { getBinsDir: () => { binsDir: string } };
  return `${getBinsDir().binsDir}/linux-x64`;
}

/** How ggml calls a format in its functions. */
function ggmlName(name: FormatName): string {
  return name.toLowerCase().replace(/_k$/, "_K").replace(/^iq(\d)(xxs|xs|s|m|nl)$/, "iq$1_$2");
}

/** A function `(in, out, count)` of libggml-base. */
function rowFunction(folder: string, name: string): (from: Uint8Array, to: Uint8Array, count: number) => void {
  const parameters = ["buffer", "buffer", "i64"] as const;
  const { symbols } = Deno.dlopen(`${folder}/libggml-base.so`, { [name]: { parameters, result: "void" } } as const);
  return (from, to, count) => {
    symbols[name](from as Uint8Array<ArrayBuffer>, to as Uint8Array<ArrayBuffer>, BigInt(count));
  };
}

function random(n: number): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(n);
  for (let i = 0; i < n; i += 65536) crypto.getRandomValues(out.subarray(i, i + 65536));
  return out;
}

/** Compares all formats on `count` random blocks each. Gives cases for the suite. */
async function checkBlocks(count: number): Promise<Record<string, unknown>> {
  const folder = await libraries(), cases: Record<string, unknown> = {};
  for (const format of BLOCK_FORMATS.values()) {
    if (format.plain !== undefined) continue;
    const read = rowFunction(folder, `dequantize_row_${ggmlName(format.name)}`), n = count * format.elements;
    const raw = random(count * format.nbytes), want = new Float32Array(n);
    read(raw, new Uint8Array(want.buffer), n);
    const got = await dequantize(new Tensor(raw).reshape([1, raw.length]), format).data() as Float32Array;
    const bad = want.findIndex((x, i) => !(Object.is(x, got[i]) || x === 0 && got[i] === 0));
    if (bad >= 0) throw new Error(`${format.name}: element ${bad} is ${got[bad]}, not ${want[bad]}`);
    const kept: number[] = [], values: number[] = [];
    for (let i = 0; i < count && kept.length < 2 * format.nbytes; i++) {
      const part = want.subarray(i * format.elements, (i + 1) * format.elements);
      if (!part.every(Number.isFinite)) continue;
      kept.push(...raw.subarray(i * format.nbytes, (i + 1) * format.nbytes));
      values.push(...part);
    }
    const row: Record<string, unknown> = {
      raw: btoa(String.fromCharCode(...kept)),
      first: values.slice(0, 4),
      hash: hashOf(new Float32Array(values)),
    };
    if (QUANTIZED.includes(format.name)) {
      const write = rowFunction(folder, `quantize_row_${ggmlName(format.name)}_ref`);
      const x = Float32Array.from({ length: n }, (_, i) => i < 64 ? 0 : (Math.random() * 2 - 1) * 10 ** (i % 7 - 3));
      const packed = new Uint8Array(count * format.nbytes);
      write(new Uint8Array(x.buffer), packed, n);
      const ours = quantize(x, format.name), at = packed.findIndex((b, i) => b !== ours[i]);
      if (at >= 0) throw new Error(`${format.name}: byte ${at} written is ${ours[at]}, not ${packed[at]}`);
      const y = Float32Array.from({ length: 96 }, (_, i) => Math.fround(Math.sin(i * i) * (i % 5)));
      const bytes = new Uint8Array(3 * format.nbytes);
      write(new Uint8Array(y.buffer), bytes, 96);
      row.written = btoa(String.fromCharCode(...bytes));
    }
    cases[format.name] = row;
    console.log(`${format.name}: ${n} elements are equal`);
  }
  return cases;
}

if (import.meta.main) {
  const { _: [what], write, count } = parseArgs(Deno.args, { boolean: ["write"], string: ["count"] });
  if (what !== "blocks") throw new Error("usage: llama_cpp.ts blocks [--count N] [--write]");
  const cases = await checkBlocks(Number(count ?? 300));
  if (write) {
    const path = new URL("fixtures/blocks.json", import.meta.url);
    await Deno.writeTextFile(path, JSON.stringify(cases, null, 2) + "\n");
  }
}
