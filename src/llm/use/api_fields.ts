/**
 * Fields of requests, checked one by one: what is wrong becomes an error with a status that names the field.
 *
 * @module
 */

/** An error that is told to the client. */
export class ApiError extends Error {
  /** The name of the class. */
  override readonly name: string = "ApiError";
  /** `param` names the field at fault, `code` what went wrong. */
  constructor(
    readonly status: number,
    message: string,
    readonly param: string | null = null,
    readonly code: string | null = null,
  ) {
    super(message);
  }

  /** The body of the response. */
  body(): Record<string, unknown> {
    const { status, message, param, code } = this;
    const type = status === 401
      ? "authentication_error"
      : status === 429
      ? "rate_limit_error"
      : status >= 500
      ? "server_error"
      : "invalid_request_error";
    return { error: { message, type, param, code } };
  }
}

/** A body that was parsed. */
export type Body = Readonly<Record<string, unknown>>;

/** A field with a value that cannot be. */
export function wrong(param: string, what: string): ApiError {
  return new ApiError(400, `'${param}' ${what}`, param, "invalid_value");
}
/** A field that is understood, and would change the answer, but is not done. */
export function unsupported(param: string, what: string): ApiError {
  return new ApiError(400, `'${param}' ${what}`, param, "unsupported_parameter");
}

/** A field; null is as good as nothing. */
export function given(body: Body, key: string): unknown {
  return body[key] ?? undefined;
}
/** Whether it has fields. */
export function isObject(x: unknown): x is Record<string, unknown> {
  return typeof x === "object" && x !== null && !Array.isArray(x);
}
/** A number. */
export function numberOf(body: Body, key: string, min: number, max: number): number | undefined {
  const x = given(body, key);
  if (x === undefined) return undefined;
  if (typeof x !== "number" || !(x >= min && x <= max)) throw wrong(key, `must be a number from ${min} to ${max}`);
  return x;
}
/** A whole number. */
export function wholeOf(body: Body, key: string, min: number, max: number): number | undefined {
  const x = numberOf(body, key, min, max);
  if (x !== undefined && !Number.isInteger(x)) throw wrong(key, "must be a whole number");
  return x;
}
/** True only where it is said. */
export function flagOf(body: Body, key: string): boolean {
  const x = given(body, key);
  if (x !== undefined && typeof x !== "boolean") throw wrong(key, "must be true or false");
  return x === true;
}
/** A text. */
export function textOf(body: Body, key: string): string | undefined {
  const x = given(body, key);
  if (x !== undefined && typeof x !== "string") throw wrong(key, "must be a text");
  return x as string | undefined;
}

/** Of parts, those of these types that have text. */
export function contentOf(x: unknown, at: string, types: readonly string[] = ["text"]): string {
  if (typeof x === "string") return x;
  if (x === null || x === undefined) return "";
  if (!Array.isArray(x)) throw wrong(at, "must be a text or a list of parts");
  return x.map((part) => {
    if (isObject(part) && types.includes(part.type as string) && typeof part.text === "string") return part.text;
    throw wrong(at, `may only have parts of the type ${types.join(" or ")}`);
  }).join("");
}
