/**
 * What comes in: bodies of requests within limits of bytes and time, and turns of requests, of which only so many wait.
 *
 * @module
 */
import { concatBytes } from "../../helpers/math.ts";
import { ApiError, type Body, isObject } from "./api_fields.ts";

const decoder = new TextDecoder("utf-8", { fatal: true });

/** So many at once, the others one after the other, and at most so many of them waiting. */
export class Turns {
  /** How many are answered now. */
  running = 0;
  private readonly line: (() => void)[] = [];
  constructor(private readonly places: number, private readonly limit: number) {}

  /** How many wait. */
  get waiting(): number {
    return this.line.length;
  }
  /**
   * Waits for a place; what it gives frees that. Who is gone waits no longer. @throws {ApiError} at once where too many wait
   */
  enter(gone: AbortSignal): Promise<() => void> {
    if (this.running < this.places) {
      this.running++;
      return Promise.resolve(this.leaving());
    }
    if (this.line.length >= this.limit) {
      throw new ApiError(429, `${this.waiting} requests are waiting, try again later`, null, "queue_full");
    }
    return new Promise((resolve, reject) => {
      // a place that becomes free goes to the first in line
      const next = (): void => {
        gone.removeEventListener("abort", leave);
        resolve(this.leaving());
      };
      const leave = (): void => {
        const at = this.line.indexOf(next);
        if (at >= 0) this.line.splice(at, 1);
        reject(gone.reason);
      };
      gone.addEventListener("abort", leave, { once: true });
      this.line.push(next);
    });
  }
  /** A place that is free now, as {@linkcode enter} gives it; undefined where there is none. */
  spare(): (() => void) | undefined {
    if (this.running >= this.places) return undefined;
    this.running++;
    return this.leaving();
  }
  private leaving(): () => void {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      const next = this.line.shift();
      if (next === undefined) this.running--;
      else next();
    };
  }
}

/** The bytes of a request, at most so many in so much time. */
async function bytesOf(request: Request, limit: number, timeMs: number): Promise<Uint8Array> {
  const tooLarge = () => new ApiError(413, `the body has more than ${limit} bytes`, null, "body_too_large");
  if (Number(request.headers.get("content-length") ?? 0) > limit) throw tooLarge();
  const reader = request.body?.getReader(), parts: Uint8Array[] = [];
  let size = 0, timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ApiError(408, `the body did not come within ${timeMs} ms`)), timeMs);
  });
  try {
    for (; reader !== undefined;) {
      const { done, value } = await Promise.race([reader.read(), late]);
      if (done) break;
      size += value.length;
      if (size > limit) throw tooLarge();
      parts.push(value);
    }
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError(400, "the body did not come whole", null, "incomplete_body");
  } finally {
    clearTimeout(timer);
    late.catch(() => {});
    reader?.cancel().catch(() => {});
  }
  return concatBytes(parts);
}

/** The object that a request brings. @throws {ApiError} for what is too large, too late, or none */
export async function bodyOf(request: Request, limit: number, timeMs: number): Promise<Body> {
  const bytes = await bytesOf(request, limit, timeMs);
  let body: unknown;
  try {
    body = JSON.parse(decoder.decode(bytes));
  } catch {
    throw new ApiError(400, "the body is no JSON in UTF-8", null, "invalid_json");
  }
  if (!isObject(body)) throw new ApiError(400, "the body is no JSON object", null, "invalid_json");
  return body;
}
