/**
 * What decompositions and a long Fourier transform take once their kernels are there, on the default device:
 * `deno bench -A --no-check bench/linalg_bench.ts`. Each gives all of its results on the host.
 */
import { fft, Tensor } from "../mod.ts";

Tensor.manualSeed(1);
const matrix = (n: number): Tensor => Tensor.randn([n, n]).realize();
const symmetric = (n: number): Tensor => {
  const x = matrix(n);
  return x.add(x.T).realize();
};
const signal = Tensor.randn([2 ** 20]).realize();

/** What is measured: tensors that one call makes. */
const CALLS: Readonly<Record<string, () => readonly Tensor[]>> = {
  "fft_1m": () => [fft.fft(signal)],
  "rfft_1m": () => [fft.rfft(signal)],
  ...Object.fromEntries([256, 512].flatMap((n) => {
    const x = matrix(n), s = symmetric(n);
    return [[`svd_${n}`, () => x.svd()], [`eigh_${n}`, () => s.eigh()]] as const;
  })),
};

for (const [name, call] of Object.entries(CALLS)) {
  const once = async (): Promise<void> => {
    const made = call();
    Tensor.realize([...made]);
    for (const t of made) await t.data();
    for (const t of made) t.dispose();
  };
  await once(); // its kernels
  Deno.bench(name, { n: 10, warmup: 2 }, once);
}
