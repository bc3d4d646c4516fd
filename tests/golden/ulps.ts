/**
 * How far results of the golden cases were from PyTorch's where it was measured: the worst of each op, dtype and device, in
 * units in the last place. report.ts writes the table; golden_test.ts holds each device to four times what is its own.
 */
const TABLE = new URL("../fixtures/golden/ulps.json", import.meta.url);

/** Devices that have a column. WEBGPU's is of an adapter in software: another adapter has its own logarithm and division. */
export const MEASURED = ["JS", "WASM", "CLANG", "WEBGPU", "CUDA"] as const;
export type Measured = (typeof MEASURED)[number];

/** By op, dtype and kind of result (`ulpKey`): what a device was off at most; where nothing stands it is one ulp at most. */
export type Ulps = Readonly<Partial<Record<string, Readonly<Partial<Record<Measured, number>>>>>>;

export function isMeasured(device: string): device is Measured {
  return (MEASURED as readonly string[]).includes(device);
}

/** The table: a row is a number where all devices are as far off, else a number for each that is more than one ulp off. */
export function readUlps(): Ulps {
  const rows: Record<string, number | Partial<Record<Measured, number>>> = JSON.parse(Deno.readTextFileSync(TABLE));
  const all = (n: number): Record<Measured, number> => ({ JS: n, WASM: n, CLANG: n, WEBGPU: n, CUDA: n });
  return Object.fromEntries(Object.entries(rows).map(([key, row]) => [key, typeof row === "number" ? all(row) : row]));
}

/** What `device` may be off in results of `key`: four times what was measured. */
export function ulpsAllowed(table: Ulps, key: string, device: Measured): number {
  return 4 * Math.max(1, table[key]?.[device] ?? 1);
}

/**
 * Puts what was measured into the table, in place of what stood there for the same op and device.
 * @param widen keep what stood there where that is more: another compiler's or machine's
 */
export function merged(table: Ulps, found: Ulps, widen: boolean): Ulps {
  const rows: Record<string, Partial<Record<Measured, number>>> = {};
  for (const key of [...new Set([...Object.keys(table), ...Object.keys(found)])].sort()) {
    const row: Partial<Record<Measured, number>> = {};
    for (const device of MEASURED) {
      const was = table[key]?.[device] ?? 1, is = found[key]?.[device];
      const most = is === undefined ? was : widen ? Math.max(was, is) : is;
      if (most > 1) row[device] = Number(most.toFixed(1));
    }
    if (Object.keys(row).length > 0) rows[key] = row;
  }
  return rows;
}

export function writeUlps(table: Ulps): void {
  const rows = Object.entries(table).map(([key, row = {}]) => {
    const first = row[MEASURED[0]], isOne = first !== undefined && MEASURED.every((d) => row[d] === first);
    return ` ${JSON.stringify(key)}: ${JSON.stringify(isOne ? first : row)}`;
  });
  Deno.writeTextFileSync(TABLE, `{\n${rows.join(",\n")}\n}\n`);
}
