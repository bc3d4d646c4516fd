/**
 * The handwritten digits of UCI: 1,797 images of 8x8 pixels, in order of writers.
 *
 * @module
 */
import { Tensor } from "../../tensor/tensor.ts";

/** What {@linkcode digits} gives. */
export interface Digits {
  /** float32 `[1797, 1, 8, 8]`, 0 to 1. */
  readonly images: Tensor;
  /** int32 `[1797]`, 0 to 9. */
  readonly labels: Tensor;
  /** The pixels of `images` on the host, 64 an image. */
  readonly pixels: Float32Array;
  /** `labels` on the host. */
  readonly digits: Int32Array;
  /** Whom to credit; goes wherever the data goes (CC BY 4.0). */
  readonly attribution: string;
}

const COUNT = 1797, PIXELS = 64, LEVELS = 16;

/**
 * The test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, UCI, 1998, CC BY 4.0).
 * The last 360 images are by other writers than the first 1,437.
 *
 * ```ts
 * import { nn } from "../../../mod.ts";
 * const { images, labels } = await nn.datasets.digits();
 * console.log(images.shape, labels.shape); // [1797, 1, 8, 8] [1797]
 * ```
 */
export async function digits(): Promise<Digits> {
  // they weigh 41 kB: bundlers leave them in a file of their own, which is loaded here
  const { DIGITS_ATTRIBUTION, DIGITS_GZIP_BASE64 } = await import("./digits_data.ts");
  const packed = Uint8Array.from(atob(DIGITS_GZIP_BASE64), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const columns = new Uint8Array(await new Response(stream).arrayBuffer());
  const pixels = Float32Array.from(
    { length: COUNT * PIXELS },
    (_, i) => columns[(i % PIXELS) * COUNT + Math.floor(i / PIXELS)] / LEVELS,
  );
  const labels = Int32Array.from(columns.subarray(PIXELS * COUNT));
  return {
    images: new Tensor(pixels).reshape([COUNT, 1, 8, 8]),
    labels: new Tensor(labels),
    pixels,
    digits: labels,
    attribution: DIGITS_ATTRIBUTION,
  };
}
