/**
 * The programs of golden cases of complex numbers (fixtures/golden/complex.py) in our API: inputs and outputs are pairs of
 * floats.
 */
import { fft, windows } from "../../src/tensor/spectral.ts";
import { Tensor } from "../../src/tensor/tensor.ts";
import type { Program } from "./golden_cases.ts";

/** Complex in and out. */
const on = (f: (...z: Tensor[]) => Tensor): Program => (...given) => {
  const out = f(...given.map((x) => x.viewAsComplex()));
  return out.dtype.isComplex ? out.viewAsReal() : out;
};

const UNARY =
  "exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh reciprocal sigmoid square log1p expm1 exp2 log2 " +
  "log10 rsqrt sgn neg conj abs angle real imag inv det cov";
const BINARY = "add sub mul div pow matmul solve";
const POWERS = { "two": 2, "three": 3, "minus two": -2, "half": 0.5, "one and a half": 1.5 };
type Methods = Readonly<Record<string, (x?: Tensor) => Tensor>>;

/** What each family computes. */
export const COMPLEX: Readonly<Record<string, Program>> = {
  ...Object.fromEntries(
    UNARY.split(" ").map((name) => [`complex ${name}`, on((z) => (z as unknown as Methods)[name]())]),
  ),
  ...Object.fromEntries(
    BINARY.split(" ").map((name) => [`complex ${name}`, on((z, w) => (z as unknown as Methods)[name](w))]),
  ),
  ...Object.fromEntries(Object.entries(POWERS).map(([name, e]) => [`complex power ${name}`, on((z) => z.pow(e))])),
  "complex beside real": (a, b, c) => {
    const z = a.viewAsComplex();
    return z.mul(b).add(c.div(z)).sub(2.5).viewAsReal();
  },
  "complex equal": (a, b) => {
    const z = a.viewAsComplex(), w = b.viewAsComplex();
    return [z.eq(w), z.ne(w)];
  },
  "complex where": (a, b, c) => a.gt(0).where(b.viewAsComplex(), c.viewAsComplex()).viewAsReal(),
  "complex sum": on((z) => z.sum(0)),
  "complex mean": on((z) => z.mean()),
  "complex prod": on((z) => z.prod(0)),
  "complex cumsum": on((z) => z.cumsum(0)),
  "complex cumprod": on((z) => z.cumprod(0)),
  "complex var": on((z) => z.var(0)),
  "complex einsum": on((z, w) => Tensor.einsum("ij,kj->ik", [z, w])),
  "complex norm": on((z) => z.norm({ dim: 0 })),
  "complex moved": on((z) => z.T.flip(0).cat([z.reshape([3, 2]).at([1, null])]).roll(1, 1)),
  "complex gathered": (a, b) => a.viewAsComplex().at(b).viewAsReal(),
  "complex padded": on((z) => z.pad([1, 2])),
  "complex polar": (a, b) => Tensor.polar(a, b).viewAsReal(),
  "complex of parts": (a, b) => Tensor.complex(a, b).viewAsReal(),
};

const names = (text: string): string[] => text.split(" ");
type Transforms = Readonly<Record<string, (x: Tensor) => Tensor>>;
const shown = (x: Tensor): Tensor => x.dtype.isComplex ? x.viewAsReal() : x;
const WIDE = { dtype: "float64" } as const;

/** What each family of transforms computes. */
export const SPECTRA: Readonly<Record<string, Program>> = {
  ...Object.fromEntries(
    names("fft ifft fft2 ifft2 fftn ifftn irfft hfft irfft2 irfftn fftshift").map((name) => [
      `spectrum ${name}`,
      on((z) => (fft as unknown as Transforms)[name](z)),
    ]),
  ),
  ...Object.fromEntries(
    names("fft ifft fft2 ifft2 fftn ifftn").map((name) => [
      `spectrum ${name} real`,
      (a: Tensor) => (fft as unknown as Transforms)[name](a).viewAsReal(),
    ]),
  ),
  ...Object.fromEntries(
    names("rfft ihfft rfft2 rfftn").map((name) => [
      `spectrum ${name}`,
      (a: Tensor) => (fft as unknown as Transforms)[name](a).viewAsReal(),
    ]),
  ),
  "spectrum fft cut": on((z) => z.fft(0, { n: 5, norm: "ortho" })),
  "spectrum hfft ortho": on((z) => fft.hfft(z, -1, { n: 5, norm: "ortho" })),
  "spectrum ihfft forward": (a) => fft.ihfft(a, -1, { norm: "forward" }).viewAsReal(),
  "spectrum fftn cut": on((z) => fft.fftn(z, [0, 2], { s: [4, -1], norm: "forward" })),
  "spectrum irfft2 cut": on((z) => fft.irfft2(z, undefined, { s: [4, 7] })),
  "spectrum ifftshift": on((z) => fft.ifftshift(z, 1)),
  "spectrum frequencies":
    () => [fft.fftfreq(7), fft.fftfreq(6, { d: 0.5 }), fft.rfftfreq(7), fft.rfftfreq(6, { d: 2 })],
  ...Object.fromEntries(
    Object.entries(windows).map(([name, make]) => [
      `spectrum window ${name}`,
      () => [make(7, WIDE), make(8, { ...WIDE, periodic: false }), make(1, WIDE), make(9)],
    ]),
  ),
  "spectrum stft": (a) =>
    a.stft(8, { hopLength: 3, window: windows.hann(8, { dtype: a.dtype, device: a.device }) }).viewAsReal(),
  "spectrum stft plain": (a) => a.stft(6, { center: false, normalized: true, onesided: false }).viewAsReal(),
  "spectrum stft short": (a, b) => a.stft(8, { winLength: 5, window: b, padMode: "constant" }).viewAsReal(),
  "spectrum stft complex": on((z) => z.stft(6, { hopLength: 2 })),
  "spectrum istft": on((z) =>
    z.istft(8, { hopLength: 3, window: windows.hann(8, { dtype: z.dtype.real, device: z.device }) })
  ),
  "spectrum istft length": (a, b) =>
    a.viewAsComplex().istft(6, { hopLength: 2, window: b, winLength: 4, length: 9, normalized: true }),
  "spectrum istft complex": (a) =>
    shown(a.viewAsComplex().istft(6, { hopLength: 2, onesided: false, returnComplex: true })),
};
