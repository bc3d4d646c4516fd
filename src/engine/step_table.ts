/**
 * The steps of a schedule as a table: what each does, on which device, what it writes and reads, and what that costs. In:
 * ExecItems; out: text, which printing the list shows.
 *
 * @module
 */
import { byteText } from "../helpers/errors.ts";
import { showAs } from "../helpers/text.ts";
import { accessOf } from "./exec.ts";
import { CompiledKernel, type ExecItem } from "./front/runners.ts";

/** Steps beyond these are counted. */
const MAX_ROWS = 200;

/** The table of some steps. */
function stepTable(items: readonly ExecItem[]): string {
  const numbers = new Map<unknown, number>();
  const rows = items.slice(0, MAX_ROWS).map((item, i): string[] => {
    const { runner, bufs, line = "" } = item;
    const name = (b: typeof bufs[number]): string => {
      if (!numbers.has(b)) numbers.set(b, numbers.size);
      return `#${numbers.get(b)} ${b.dtype}x${b.size}`;
    };
    const { reads, writes } = accessOf(item), isKernel = runner instanceof CompiledKernel;
    const [flops, bytes] = isKernel
      ? [String(runner.program.linear.flops), byteText(runner.program.linear.bytes)]
      : ["", byteText(bufs[0]?.nbytes ?? 0)];
    const what = isKernel ? runner.name : runner.kind === "CustomOp" ? runner.name : runner.kind;
    const device = bufs[0]?.device.name ?? "";
    return [String(i), what, device, writes.map(name).join(", "), reads.map(name).join(", "), flops, bytes, line];
  });
  const all = [["", "step", "device", "writes", "reads", "ops", "moves", "line"], ...rows];
  const widths = all[0].map((_, c) => Math.max(...all.map((r) => r[c].length)));
  const isNumber = (c: number): boolean => c === 0 || c === 5 || c === 6;
  const lines = all.map((r) =>
    r.map((t, c) => isNumber(c) ? t.padStart(widths[c]) : t.padEnd(widths[c])).join("  ").trimEnd()
  );
  if (items.length > MAX_ROWS) lines.push(`and ${items.length - MAX_ROWS} steps more`);
  return lines.join("\n");
}

/** The list, which prints as its table. */
export function printedAsTable(items: ExecItem[]): ExecItem[] {
  showAs(items, stepTable);
  return items;
}
