/**
 * Rows of numbers as a CSV file: RFC 4180. In: objects by column; out: a line each, in the file as soon as it is logged.
 *
 * @module
 */
import { hostFiles } from "../device/host_files.ts";
import { ArgumentError } from "../helpers/errors.ts";
import { checkOptions, describe, isPlain } from "../helpers/options.ts";
import { LogFile, logPath } from "./log_file.ts";

/** A row by column. */
export type LogRow = Readonly<Record<string, number | string | boolean | bigint | null | undefined>>;

/** A value as a cell: quoted where it has to be. */
function cell(x: unknown): string {
  const text = x === null || x === undefined ? "" : String(x);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The cells of the first line of a text. */
function firstLine(text: string): string[] {
  const cells: string[] = [];
  const pattern = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/y;
  for (let m = pattern.exec(text); m !== null; m = pattern.exec(text)) {
    cells.push(m[1] !== undefined ? m[1].replaceAll('""', '"') : m[2]);
    if (m[3] !== ",") break;
  }
  return cells;
}

/**
 * A log as a CSV file. The first row says which columns there are; of a file that is gone on with, its first line.
 *
 * ```ts ignore files
 * import { CSVLogger } from "./train.ts";
 * using log = new CSVLogger("runs/log.csv");
 * log.log({ epoch: 1, loss: 0.5 });
 * ```
 */
export class CSVLogger {
  /** The columns, once there is a row. */
  columns: readonly string[] = [];
  private readonly file: LogFile;

  /**
   * Makes the file, or goes on with it.
   *
   * @param options `append` goes on with a file that is there; else it is made anew
   * @throws {FormatError} naming the file, and why it cannot be written
   */
  constructor(path: string | URL, options: { readonly append?: boolean } = {}) {
    checkOptions("make a CSVLogger", options, ["append"]);
    const target = logPath(path);
    if (options.append) {
      try {
        const text = hostFiles()?.readTextFileSync(target) ?? "";
        if (text !== "") this.columns = firstLine(text);
      } catch {
        // there is none yet
      }
    }
    this.file = new LogFile(target, !options.append);
  }

  /** Adds a row; missing values are empty. @throws {ArgumentError} for a column that there is not @throws {FormatError} */
  log(row: LogRow): void {
    if (!isPlain(row)) {
      throw new ArgumentError("log a row", { reason: `it must be an object by column, not ${describe(row)}` });
    }
    const names = Object.keys(row), isFirst = this.columns.length === 0, columns = isFirst ? names : this.columns;
    const unknown = names.find((name) => !columns.includes(name));
    if (unknown !== undefined) {
      throw new ArgumentError("log a row", {
        reason: `${this.file.path} has no column "${unknown}"; it has ${columns.join(", ")}, as its first row`,
      });
    }
    const lines = [...isFirst ? [columns.map(cell)] : [], columns.map((name) => cell(row[name]))];
    this.file.append(new TextEncoder().encode(lines.map((cells) => `${cells.join(",")}\n`).join("")));
    this.columns = columns;
  }

  /** Closes the file. */
  close(): void {
    this.file.close();
  }
  /** As {@linkcode CSVLogger.close}. */
  [Symbol.dispose](): void {
    this.close();
  }
}
