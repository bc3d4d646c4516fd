/** Fourier transforms of complex tensors, spectra over time and windows: round trips, shapes, errors. Values are golden cases. */
import { assertClose, assertEquals, assertThrows } from "@std/assert";
import { Device, fft, jit, Tensor, windows } from "../../mod.ts";

Device.default = "WASM";
const signal = (...shape: number[]): Tensor => {
  return Tensor.arange(shape.reduce((a, b) => a * b, 1)).mul(1.7).sin().reshape(shape).realize();
};
const complex = (...shape: number[]): Tensor => Tensor.complex(signal(...shape), signal(...shape).cos()).realize();
/** How far two tensors are apart. */
const apart = async (a: Tensor, b: Tensor): Promise<number> => await a.sub(b).abs().max().item() as number;

Deno.test("spectral: transforms and their inverses", async () => {
  const z = complex(6, 5, 7), x = signal(6, 5, 8);
  for (const norm of ["backward", "forward", "ortho"] as const) {
    assertEquals(await apart(fft.ifft(fft.fft(z, 1, { norm }), 1, { norm }), z) < 1e-5, true);
    assertEquals(await apart(fft.ifftn(fft.fftn(z, undefined, { norm }), undefined, { norm }), z) < 1e-5, true);
    assertEquals(await apart(fft.irfftn(fft.rfftn(x, undefined, { norm }), undefined, { norm }), x) < 1e-5, true);
    assertEquals(await apart(fft.irfft2(fft.rfft2(x, undefined, { norm }), undefined, { norm }), x) < 1e-5, true);
    assertEquals(await apart(fft.hfft(fft.ihfft(x, -1, { norm }), -1, { n: 8, norm }), x) < 1e-5, true);
  }
  assertEquals(await fft.ifftshift(fft.fftshift(z)).eq(z).all().item(), true);
  assertEquals(await apart(z.fft().ifft(), z) < 1e-5, true);
  assertEquals(await apart(x.rfft().viewAsComplex(), fft.rfft(x)), 0);
  assertEquals([fft.fft(x).dtype.name, fft.fft(x.double()).dtype.name, fft.fft(x.int()).dtype.name], [
    "complex64",
    "complex128",
    "complex64",
  ]);
});

Deno.test("spectral: what a pulse gives, where roots of unity are products of two tables", async () => {
  const n = 1 << 15, at = 777, x = new Float32Array(2 * n);
  x[2 * at] = 1;
  const y = await new Tensor(x).reshape([n, 2]).viewAsComplex().fft().data() as Float32Array;
  let worst = 0;
  for (let k = 0; k < n; k++) {
    const turn = -2 * Math.PI * ((k * at) % n) / n;
    worst = Math.max(worst, Math.abs(y[2 * k] - Math.cos(turn)), Math.abs(y[2 * k + 1] - Math.sin(turn)));
  }
  assertEquals(worst < 5e-7, true, String(worst));
});

Deno.test("spectral: spectra over time and back", async () => {
  const x = signal(2, 400);
  for (
    const options of [
      { window: windows.hann(64) },
      { hopLength: 16, winLength: 48, window: windows.hamming(48), normalized: true },
      { hopLength: 5, onesided: false },
      { hopLength: 32, padMode: "constant" },
    ] as const
  ) {
    const { padMode: _, ...back } = options as typeof options & { padMode?: string };
    assertEquals(await apart(x.stft(64, options).istft(64, { ...back, length: 400 }), x) < 1e-5, true);
  }
  const z = complex(100), spectra = z.stft(16, { hopLength: 4 });
  assertEquals(spectra.shape, [16, 26]);
  const own = spectra.istft(16, { hopLength: 4, onesided: false, returnComplex: true });
  assertEquals(await apart(own, z) < 1e-5, true);
  const spectrogram = jit((t: Tensor) => t.stft(64).abs().square());
  for (let i = 0; i < 3; i++) assertEquals(spectrogram(signal(2, 400)).shape, [2, 33, 26]);
});

Deno.test("spectral: windows", async () => {
  assertEquals([
    windows.hann(0).shape,
    await windows.kaiser(1).tolist(),
    windows.hann(3, { dtype: "float16" }).dtype.name,
  ], [
    [0],
    [1],
    "float16",
  ]);
  assertEquals(await windows.bartlett(5, { periodic: false }).tolist(), [0, 0.5, 1, 0.5, 0]);
});

Deno.test("spectral: errors name the function, and the way out", () => {
  const x = signal(4, 6), z = complex(4, 6);
  for (
    const [act, text] of [
      [() => fft.rfft(z), "Cannot rfft dtype complex64: it takes real numbers; take real() first"],
      [() => z.rfft(), "Cannot rfft dtype complex64: it takes real numbers; use fft()"],
      [() => fft.fftn(z, [0, 1], { s: [2] }), "Cannot fftn: s has 1 lengths for 2 axes"],
      [() => fft.fft2(x.flatten()), "Cannot fft2 shape [24]: axis -2 is outside [-1, 1)"],
      [() => fft.fftfreq(0), "Cannot fftfreq: n must be an integer of at least 1, not 0"],
      [() => x.stft(64), "Cannot stft shape [4, 6]: a reflection of 32 values takes 33 or more"],
      [() => x.stft(8, { center: false }), "Cannot stft shape [4, 6]: 6 values are no frame of 8"],
      [() => x.stft(4, { window: x }), "Cannot stft shape [4, 6]: the window must have shape [4]"],
      [() => x.stft(4, { winLength: 5 }), "Cannot stft: winLength 5 must be at most nFft, 4"],
      [() => z.stft(4, { onesided: true }), "Cannot stft, one-sided, dtype complex64"],
      [() => x.istft(4), "Cannot istft dtype float32: it takes complex numbers"],
      [() => z.istft(12), "Cannot istft shape [4, 6]: the last axes must be 7 frequencies and the frames"],
      [() => windows.hann(4, { dtype: "int32" }), "Cannot make a Hann window of dtype int32: it must be a float"],
      [() => fft.fft2(signal(3, 4), [0, 1], { s: null as never }), "s must be a list of lengths, not null"],
    ] as const
  ) assertThrows(act, Error, text);
});

Deno.test("spectral: what the error of fft on real numbers advises gives their transform", async () => {
  const x = signal(4, 6);
  assertThrows(() => x.fft(), Error, 'of real numbers: rfft(), or cast("complex64").fft()');
  const whole = x.cast("complex64").fft(), half = x.rfft();
  assertEquals([whole.shape, half.shape], [[4, 6], [4, 4, 2]]);
  assertEquals(await apart(whole.shrink([null, [0, 4]]), fft.rfft(x)) < 1e-5, true);
  assertEquals(await apart(fft.fft(x), whole) < 1e-5, true);
});

/** The transform of real values by its definition, in double precision. */
function transformOf(x: readonly number[]): [re: number, im: number][] {
  const n = x.length;
  return Array.from({ length: (n >> 1) + 1 }, (_, k) => {
    const angles = x.map((_, j) => -2 * Math.PI * ((j * k) % n) / n);
    return [
      x.reduce((s, v, j) => s + v * Math.cos(angles[j]), 0),
      x.reduce((s, v, j) => s + v * Math.sin(angles[j]), 0),
    ];
  });
}

for (const n of [256, 262, 300]) {
  Deno.test(`spectral: ${n} reals, one way and back, and gradients, by definition`, async () => {
    const values = Array.from({ length: n }, (_, i) => ((i * i * 31 + i * 7) % 101) / 50 - 1), on = { device: "JS" };
    for (const [dtype, close] of [["float32", 2e-4], ["float64", 1e-12]] as const) {
      const x = new Tensor([values, values.toReversed()], { dtype, requiresGrad: true, ...on }), X = fft.rfft(x);
      const want = transformOf(values);
      assertClose(await X.at(0).viewAsReal().tolist(), want, close);
      assertClose(await fft.irfft(X, -1, { n }).tolist(), [values, values.toReversed()], close);
      // of |X|^2 the gradient is twice the transposed transform of X: n x, and what the ends count twice
      const [slope] = X.at(0).abs().square().sum().gradient([x]);
      const ends = values.map((_, j) => want[0][0] + (j % 2 === 0 ? 1 : -1) * want[n / 2][0]);
      assertClose(await slope.at(0).tolist(), values.map((v, j) => n * v + ends[j]), close * 10);
      const Y = X.detach();
      Y.requiresGrad = true;
      const [back] = fft.irfft(Y, -1, { n }).mul(x.detach()).sum().gradient([Y]);
      const twice = want.map((p, k) => p.map((v) => v * (k === 0 || k === n / 2 ? 1 : 2) / n));
      twice[0][1] = twice[n / 2][1] = 0; // those do not count
      assertClose(await back.at(0).viewAsReal().tolist(), twice, close);
    }
  });
}

Deno.test("spectral: stft gives complex numbers or pairs, as PyTorch's returnComplex says", async () => {
  const x = Tensor.arange(12).mul(0.3).sin().realize(), z = x.stft(4, { hopLength: 2, returnComplex: true });
  const pairs = x.stft(4, { hopLength: 2, returnComplex: false });
  assertEquals([z.dtype.name, pairs.dtype.name, pairs.shape], ["complex64", "float32", [...z.shape, 2]]);
  assertEquals(await pairs.tolist(), await z.viewAsReal().tolist());
});
