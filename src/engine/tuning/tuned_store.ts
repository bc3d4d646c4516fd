/**
 * What tuning has found, on disk: a line for each kernel and device in one file of the cache folder, so that another
 * process measures nothing anew. Lines are appended whole; one that is torn, or of another version, is as good as absent,
 * and the last of a kernel counts. Where files may not be used nothing is kept.
 *
 * A line that says which candidate is about to run for the first time is written before it runs: where it ended the
 * process, the next one leaves that candidate out.
 *
 * @module
 */
import { hostFiles, mayUseFolder } from "../../device/host_files.ts";
import { digest } from "../../device/object_cache.ts";
import { type Opt, optsText, parseOpts } from "../../codegen/opt/opt.ts";

/** Raised when opts mean something else: what was found before then counts no more. */
const VERSION = 2;
/** The end of a line: that it is whole, and of this version. */
const CHECK_LENGTH = 8;

/** What is known of a kernel. */
export interface Found {
  /** The opts that won; undefined where the chooser's are the best. */
  readonly opts: readonly Opt[] | undefined;
  /** Their time over that of the chooser's. */
  readonly ratio: number;
  /** How many candidates were measured. */
  readonly tried: number;
}

function checkOf(text: string): string {
  return digest(`${VERSION} ${text}`).slice(0, CHECK_LENGTH);
}

/** The file of what was found, and what it says. */
export class TunedStore {
  private readonly found = new Map<string, Found>();
  /** By kernel: candidates that were begun, and not ended. */
  private readonly begun = new Map<string, Set<string>>();
  private readonly file: string | undefined;

  /** @param folder of the cache; nothing is kept without, or where it may not be used */
  constructor(private readonly folder: string | undefined) {
    this.file = folder === undefined || !mayUseFolder(folder) ? undefined : `${folder}/tuned`;
    if (this.file === undefined) return;
    try {
      for (const line of hostFiles()!.readTextFileSync(this.file).split("\n")) this.take(line);
    } catch { /* there is none yet */ }
  }

  private take(line: string): void {
    const text = line.slice(CHECK_LENGTH + 1);
    if (line.slice(0, CHECK_LENGTH) !== checkOf(text)) return;
    const [key, kind, ratio, tried, ...rest] = text.split(" "), opts = rest.join(" ");
    if (kind === "begun") {
      const list = this.begun.get(key) ?? new Set();
      this.begun.set(key, list.add(opts));
    } else if (kind === "ended") this.begun.get(key)?.delete(opts);
    else {
      this.begun.delete(key);
      this.found.set(key, {
        opts: kind === "best" ? parseOpts(opts) : undefined,
        ratio: Number(ratio),
        tried: Number(tried),
      });
    }
  }

  private append(text: string): void {
    const line = `${checkOf(text)} ${text}`;
    this.take(line);
    if (this.file === undefined) return;
    try {
      const files = hostFiles()!;
      files.mkdirSync(this.folder!, { recursive: true });
      // a line that was torn before ends here
      files.writeTextFileSync(this.file, `\n${line}\n`, { append: true });
    } catch { /* this process knows it all the same */ }
  }

  /** What was found of a kernel. */
  get(key: string): Found | undefined {
    return this.found.get(key);
  }
  /** Candidates that ended a process. */
  crashed(key: string): ReadonlySet<string> {
    return this.begun.get(key) ?? new Set();
  }
  /** A candidate runs for the first time: `isBegun` before, and after it. */
  note(key: string, opts: readonly Opt[], isBegun: boolean): void {
    this.append(`${key} ${isBegun ? "begun" : "ended"} 0 0 ${optsText(opts)}`);
  }
  /** Keeps what was found. */
  set(key: string, { opts, ratio, tried }: Found): void {
    this.append(
      `${key} ${opts === undefined ? "chosen" : "best"} ${ratio.toFixed(3)} ${tried} ${optsText(opts ?? [])}`,
    );
  }
}
