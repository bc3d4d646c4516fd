/**
 * The numbers of a script: short lists stand in its text, longer ones in a file beside it.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { f16Round } from "../../dtype/float16.ts";
import { scriptArray } from "../../renderer/c/typescript.ts";
import type { Numbers } from "./explain_values.ts";

/** Elements of a list that stands in the text, at most. */
const INLINE = 32;
/** Columns of a line. */
const WIDTH = 120;

type ArrayClass = new (buffer: ArrayBufferLike, offset: number, size: number) => Numbers;

/** Bytes as the elements of the array that holds them in a script. */
export function elementsOf(bytes: Uint8Array, dtype: DType): Numbers {
  const whole = bytes.slice(), Class = (globalThis as unknown as Record<string, ArrayClass>)[scriptArray(dtype)];
  return new Class(whole.buffer, 0, whole.length / dtype.real.itemsize);
}

/** A number as text that reads back as the same element. */
export function elementText(x: number | bigint, dtype: DType): string {
  if (typeof x === "bigint") return `${x}n`;
  if (Object.is(x, -0)) return "-0";
  const round = dtype.real === dtypes.float32 ? Math.fround : dtype.real === dtypes.float16 ? f16Round : undefined;
  if (round === undefined || Number.isInteger(x) || !Number.isFinite(x)) return String(x);
  for (let digits = 1; digits < 10; digits++) {
    const short = Number(x.toPrecision(digits));
    if (round(short) === x) return String(short);
  }
  return String(x);
}

/** A list broken into lines: `head`, the items, `tail`. */
export function wrapList(head: string, items: readonly string[], tail: string, indent: string = ""): string[] {
  const one = `${indent}${head}${items.join(", ")}${tail}`;
  if (one.length <= WIDTH) return [one];
  const lines = [indent + head];
  let line = "";
  for (const item of items) {
    if (line !== "" && indent.length + 2 + line.length + item.length + 2 > WIDTH) {
      lines.push(`${indent}  ${line}`);
      line = "";
    }
    line += line === "" ? `${item},` : ` ${item},`;
  }
  return [...lines, `${indent}  ${line}`, indent + tail];
}

/** The file beside a script. */
export class DataFile {
  private readonly parts: Uint8Array[] = [];
  private length = 0;

  /** The bytes of the file. */
  get bytes(): Uint8Array {
    const out = new Uint8Array(this.length);
    let at = 0;
    for (const p of this.parts) {
      out.set(p, at);
      at += Math.ceil(p.length / 8) * 8;
    }
    return out;
  }

  /** Whether anything is in it. */
  get isEmpty(): boolean {
    return this.length === 0;
  }

  /** `const name = ` an array with these bytes, in lines. */
  declare(name: string, bytes: Uint8Array, dtype: DType, note: string, inline: number = INLINE): string[] {
    const Class = scriptArray(dtype), elements = elementsOf(bytes, dtype), size = elements.length;
    if (note !== "") note = ` // ${note}`;
    if (size > 2 && isUniform(elements)) {
      const value = elementText(elements[0], dtype), fill = value === "0" || value === "0n" ? "" : `.fill(${value})`;
      return [`const ${name} = new ${Class}(${size})${fill};${note}`];
    }
    if (size <= inline) {
      const lines = wrapList(
        `const ${name} = new ${Class}([`,
        Array.from(elements as ArrayLike<number>, (x) => elementText(x, dtype)),
        "]);",
      );
      return [...lines.slice(0, -1), lines[lines.length - 1] + note];
    }
    const at = this.length;
    this.parts.push(bytes);
    this.length += Math.ceil(bytes.length / 8) * 8;
    return [`const ${name} = new ${Class}(data, ${at}, ${size});${note}`];
  }
}

function isUniform(x: Numbers): boolean {
  for (let i = 1; i < x.length; i++) if (!Object.is(x[i], x[0])) return false;
  return true;
}
