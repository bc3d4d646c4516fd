/**
 * What is drawn, as the network sees digits: 8 by 8 shares of ink. In: a bitmap of 32 by 32 dots; out: 64 numbers from 0
 * to 1, each how many of its 4 by 4 dots are black, as in the data, whose digits fill the picture.
 *
 * @module
 */

/** Dots of a side of the bitmap. */
export const DOTS = 32;
/** Pixels of a side of the picture. */
const PIXELS = 8;
/** Dots that the longer side of a digit has. */
const FILLED = 30;

/** The part of a bitmap that has ink: left, top, width, height; undefined where there is none. */
function inked(bitmap: Uint8Array): readonly [number, number, number, number] | undefined {
  let [left, top, right, bottom] = [DOTS, DOTS, -1, -1];
  bitmap.forEach((ink, i) => {
    if (ink === 0) return;
    const x = i % DOTS, y = Math.floor(i / DOTS);
    [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  });
  return right < 0 ? undefined : [left, top, right - left + 1, bottom - top + 1];
}

/** The picture of a bitmap, its ink moved to the middle and made as large as digits of the data are. */
export function pictureOf(bitmap: Uint8Array): Float32Array<ArrayBuffer> | undefined {
  const found = inked(bitmap);
  if (found === undefined) return undefined;
  const [left, top, width, height] = found, scale = Math.max(width, height) / FILLED;
  const picture = new Float32Array(PIXELS * PIXELS), side = DOTS / PIXELS;
  for (let y = 0; y < DOTS; y++) {
    for (let x = 0; x < DOTS; x++) {
      const fromX = Math.floor(left + width / 2 + (x + 0.5 - DOTS / 2) * scale);
      const fromY = Math.floor(top + height / 2 + (y + 0.5 - DOTS / 2) * scale);
      const isInside = fromX >= 0 && fromX < DOTS && fromY >= 0 && fromY < DOTS;
      if (!isInside || bitmap[fromY * DOTS + fromX] === 0) continue;
      picture[Math.floor(y / side) * PIXELS + Math.floor(x / side)] += 1 / (side * side);
    }
  }
  return picture;
}
