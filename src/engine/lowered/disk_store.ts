/**
 * What is made once and read by other processes: entries of two lines, a file a key, in a folder of the library that made
 * them. A file says first what it takes to run what it is about, then what is read when somebody asks for it. What is
 * damaged, or does not read back as the very same, is as good as absent; what cannot be written is not.
 *
 * @module
 */
import type { Device } from "../../device/device.ts";
import { cacheRoot, hostFiles, mayUseFolder } from "../../device/host_files.ts";
import { cacheLimit, digest, leastUsed, markUsed } from "../../device/object_cache.ts";
import { type ContextVar, envNumber } from "../../helpers/env.ts";
import type { LinearProgram, Renderer } from "../../renderer/renderer.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import { isRecording } from "../../uop/rewrite/record.ts";
import { debugPrint } from "../front/listening.ts";
import { capsText, libraryText } from "./library_text.ts";

/** Flags that lowering reads, or may come to. */
export const LOWERING_FLAGS: readonly ContextVar[] = ["NOOPT", "ALLOW_TF32", "BEAM", "TMA", "PTX"];
/** Flags under which all is made to be looked at, and nothing is read. */
export const WATCHING_FLAGS: readonly ContextVar[] = ["SPEC", "TRACK_MATCH_STATS"];
/** So much of what is printed tells of rewrites. */
const PRINTS_REWRITES = 6;
/** Libraries of which something is kept: those used last. */
const MOST_LIBRARIES = 4;
/** How an entry of a file begins; digests of its two lines follow. */
const MARK = "lowered ", CHECK_LENGTH = 32;

/** What the store calls kernels that it has, or will once they are compiled. */
export const namesOfPrograms: WeakMap<LinearProgram, string> = new WeakMap();

/** What of a kind was read, written, and found damaged so far in this process. */
export interface StoreCounts {
  /** What one of them is called. */
  readonly what: string;
  read: number;
  written: number;
  damaged: number;
}

/** Which of the two lines of an entry. */
type Which = 0 | 1;

let library: { readonly text: string | undefined } | undefined;
const identities = new WeakMap<Renderer, { readonly text: string | undefined }>();
const stores = new Map<string, DiskStore>();

/** What is kept in one cache folder by one library. */
export class DiskStore {
  private readonly folder: string;
  private isUsed = false;
  private isSwept = false;
  private canWrite = true;
  private readonly broken = new Set<string>();

  /** @param root of the cache @param library as {@linkcode libraryText} names it */
  constructor(private readonly root: string, library: string) {
    this.folder = `${root}/lowered/${digest(library).slice(0, 16)}`;
  }

  private path(key: string): string {
    return `${this.folder}/${key}`;
  }

  /** Tells once that what is known under a key is damaged. */
  private damaged(key: string, counted: StoreCounts): void {
    if (this.broken.has(key)) return;
    this.broken.add(key);
    counted.damaged++;
    if (envNumber("DEBUG") >= 1) debugPrint(`${this.path(key)} is damaged; its ${counted.what} is made again`);
  }

  /** The wanted lines of the last entry of a key in which they are whole; undefined where there is none. */
  lines(key: string, wanted: readonly Which[], counted: StoreCounts): string[] | undefined {
    let text: string;
    try {
      text = hostFiles()!.readTextFileSync(this.path(key));
    } catch {
      return undefined; // there is none yet
    }
    // what was torn, and written once more, has the last word
    for (let end = text.length; end > 0;) {
      const start = text.lastIndexOf(`\n${MARK}`, end - 1);
      if (start < 0) break;
      const [marks, ...lines] = text.slice(start + 1 + MARK.length, end).split("\n", 3);
      const isWhole = (which: Which): boolean => {
        const check = marks.slice(which * (CHECK_LENGTH + 1), which * (CHECK_LENGTH + 1) + CHECK_LENGTH);
        return check === digest(`${key}${which}${lines[which] ?? ""}`);
      };
      if (wanted.every(isWhole)) return wanted.map((which) => lines[which] ?? "");
      end = start;
    }
    this.damaged(key, counted);
    return undefined;
  }

  /** What is known under a key, which is used: its wanted lines. */
  use(key: string, wanted: readonly Which[], counted: StoreCounts): string[] | undefined {
    const lines = this.lines(key, wanted, counted);
    if (!this.isUsed) {
      this.isUsed = true;
      markUsed(this.folder);
    }
    if (lines === undefined) return undefined;
    markUsed(this.path(key));
    counted.read++;
    return lines;
  }

  /** Keeps two lines, which `make` gives, or nothing. */
  set(key: string, counted: StoreCounts, make: () => readonly [string, string] | undefined): void {
    if (!this.canWrite) return;
    const lines = make();
    if (lines === undefined) return;
    const [head, list] = lines, check = (which: Which): string => digest(`${key}${which}${lines[which]}`);
    try {
      const files = hostFiles()!;
      if (!this.isSwept) {
        this.isSwept = true;
        files.mkdirSync(this.folder, { recursive: true });
        this.sweep();
      }
      // one append: others see all of it, or what does not agree with its digest
      const entry = `\n${MARK}${check(0)} ${check(1)}\n${head}\n${list}\n`;
      files.writeTextFileSync(this.path(key), entry, { append: true });
      counted.written++;
    } catch (error) {
      this.canWrite = false;
      if (envNumber("DEBUG") < 1) return;
      debugPrint(`${this.folder} cannot be written (${(error as Error).message}): kernels are lowered in each process`);
    }
  }

  /** Removes libraries beyond those used last, and what this one does not use where all takes too much, once a process. */
  private sweep(): void {
    const files = hostFiles()!, all = `${this.root}/lowered`;
    try {
      const times = [...files.readDirSync(all)].map(({ name }) => `${all}/${name}`)
        .map((path) => [path, files.statSync(path).mtime?.getTime() ?? 0] as const).sort((a, b) => b[1] - a[1]);
      const gone = [...leastUsed(this.folder, cacheLimit(), () => true)].map((name) => this.path(name));
      for (const path of [...times.slice(MOST_LIBRARIES).map(([path]) => path), ...gone]) {
        if (path !== this.folder) files.removeSync(path, { recursive: true });
      }
    } catch { /* another process does the same */ }
  }
}

/** The store for a device now: undefined where none is, or all is to be made for those who watch. */
export function storeNow({ name, renderer: { caps } }: Device): DiskStore | undefined {
  if (caps.hasGrid || isRecording() || wantsNotes() || WATCHING_FLAGS.some((f) => envNumber(f) !== 0)) return undefined;
  if (envNumber("DEBUG") >= PRINTS_REWRITES || /^NULL\b/.test(name)) return undefined;
  let root: string | undefined;
  try {
    root = cacheRoot();
  } catch { /* relative to a folder that may not be asked for */ }
  if (root === undefined || !mayUseFolder(root)) return undefined;
  let store = stores.get(root);
  if (store === undefined) {
    library ??= { text: libraryText(import.meta.url) };
    if (library.text === undefined) return undefined;
    const runtime = (globalThis as { navigator?: { userAgent?: string } }).navigator?.userAgent ?? "";
    stores.set(root, store = new DiskStore(root, `${runtime}\n${library.text}`));
  }
  return store;
}

/** What a device can do, as text; undefined where that cannot be told. */
export function identityOf(renderer: Renderer): string | undefined {
  let identity = identities.get(renderer);
  if (identity === undefined) identities.set(renderer, identity = { text: capsText(renderer.name, renderer.caps) });
  return identity.text;
}
