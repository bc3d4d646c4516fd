/** Pictures that are decoded: memory for them, checked. @module */

/** A decoded picture. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** Three bytes a pixel. */
  readonly rgb: Uint8Array<ArrayBuffer>;
}
/** Makes the error about a picture. */
export type Fault = (reason: string) => Error;

/** The most pixels of a picture. */
const MOST = 2 ** 26;

/** Memory for a picture of this size. @throws what `bad` makes of the reason, where it is none or too large */
export function pixels(width: number, height: number, bad: Fault): Pixels {
  if (!(width > 0 && height > 0 && width * height <= MOST)) {
    throw bad(`a picture of ${width} by ${height} pixels is none, or too large`);
  }
  return { width, height, rgb: new Uint8Array(3 * width * height) };
}

/** A number as a byte, the nearest one. */
export function clamp(x: number): number {
  return x < 0 ? 0 : x > 255 ? 255 : x;
}
