/**
 * Lowered kernels on disk, for devices of loops: a kernel that an earlier process has lowered is read, and not made again.
 * A file a kernel, named by a digest of all that lowering depends on: the kernel itself, what the device can do, the flags
 * that passes read, and this library, by the sizes and times of its sources or, in a package, by what is in its files.
 * A file says first what is needed to run the kernel, with the name that the device's compiler gave to what it made of
 * it, so that nothing is rendered, either; then the list, which is read when somebody asks for it. What is damaged, or does
 * not read back as the very same kernel, is as good as absent.
 *
 * @module
 */
import type { Device } from "../../device/device.ts";
import { cacheRoot, hostFiles, mayUseFolder } from "../../device/host_files.ts";
import { cacheLimit, digest, leastUsed, markUsed } from "../../device/object_cache.ts";
import type { Program } from "../../device/program.ts";
import { type DType, toDType } from "../../dtype/dtype.ts";
import { type ContextVar, envNumber } from "../../helpers/env.ts";
import { type LinearProgram, programOf, type ProgramParam, type Renderer } from "../../renderer/renderer.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import { TextArg } from "../../uop/core/custom_arg.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { isRecording } from "../../uop/rewrite/record.ts";
import { debugPrint } from "../front/listening.ts";
import type { LoweredKernels } from "../front/runners.ts";
import { kernelsOfText, kernelText } from "./kernel_data.ts";
import { capsText, libraryText } from "./library_text.ts";

/** Flags that lowering reads, or may come to. */
export const LOWERING_FLAGS: readonly ContextVar[] = ["NOOPT", "ALLOW_TF32", "BEAM", "TMA", "PTX"];
/** Flags under which kernels are lowered to be looked at, and none is read. */
export const WATCHING_FLAGS: readonly ContextVar[] = ["SPEC", "TRACK_MATCH_STATS"];
/** So much of what is printed tells of rewrites. */
const PRINTS_REWRITES = 6;
/** Libraries of which kernels are kept: those used last. */
const MOST_LIBRARIES = 4;
/** How an entry of a file begins; digests of its two lines follow. */
const MARK = "lowered ", CHECK_LENGTH = 32;

/** A parameter as JSON. */
type ParamData = readonly [dtype: string, lanes: number, size: number, reads: boolean, writes: boolean];

/** What is written of a program, beside its list. */
interface Head {
  readonly name: string;
  readonly flops: number;
  readonly bytes: number;
  readonly threads: number;
  readonly params: readonly (ParamData | null)[];
  readonly opts?: string;
  readonly streams?: boolean;
  readonly compiled?: string;
  /** Whether launches pass numbers, which are told from each other by nodes of the list. */
  readonly hasVars: boolean;
}

/** A lowered kernel as text: what it takes to run it, and its list. */
export interface ProgramText {
  /** In one line. */
  readonly head: string;
  /** Likewise. */
  readonly list: string;
}

/**
 * A lowered kernel as text, which reads back as the same; undefined for one that does not. @param compiled
 * {@linkcode Program.key}
 */
export function programText(p: LinearProgram, compiled?: string): ProgramText | undefined {
  const { name, flops, bytes, threads, opts, streams, uops } = p;
  if (p.text !== undefined || p.grid !== undefined || p.maps !== undefined) return undefined;
  if (!Number.isFinite(flops) || !Number.isFinite(bytes)) return undefined;
  const params = Array.from(p.params, (q): ParamData | null => (
    q === undefined ? null : [q.dtype.scalar.name, q.dtype.count, q.size, q.reads, q.writes]
  ));
  const list = kernelText(uops);
  // of nodes that are equal and yet two, one would be left
  if (list === undefined || kernelText(kernelsOfText(list)) !== list) return undefined;
  const hasVars = p.vars.length > 0;
  const head = { name, flops, bytes, threads, params, opts, streams, compiled, hasVars } satisfies Head;
  return { head: JSON.stringify(head), list };
}

/**
 * The program that {@linkcode programText} wrote, whose nodes are there when they are asked for. @param list gives them
 */
export function programFrom(head: string, list: () => readonly UOp[]): LinearProgram {
  const { hasVars, params, ...rest } = JSON.parse(head) as Head;
  if (hasVars) return { ...programOf(rest.name, list()), ...rest };
  let uops: readonly UOp[] | undefined;
  return {
    ...rest,
    params: paramsOf(params),
    vars: [],
    get uops(): readonly UOp[] {
      return uops ??= list();
    },
  };
}

function paramsOf(data: Head["params"]): ProgramParam[] {
  const params: ProgramParam[] = [];
  data.forEach((p, slot) => {
    if (p !== null) params[slot] = { slot, dtype: dtypeOf(p[0], p[1]), size: p[2], reads: p[3], writes: p[4] };
  });
  return params;
}

function dtypeOf(name: string, lanes: number): DType {
  return toDType(name).vec(lanes);
}

/** Kernels read, written, and found damaged so far in this process, and lists of kernels that were read. */
export const storeStats: { read: number; written: number; damaged: number; lists: number } = {
  read: 0,
  written: 0,
  damaged: 0,
  lists: 0,
};
let library: { readonly text: string | undefined } | undefined;
const identities = new WeakMap<Renderer, { readonly text: string | undefined }>();
const stores = new Map<string, LoweredStore>();

/** The lowered kernels of one cache folder and one library. */
class LoweredStore {
  private readonly folder: string;
  private isUsed = false;
  private isSwept = false;
  private canWrite = true;

  /** @param root of the cache @param library as {@linkcode libraryText} names it */
  constructor(private readonly root: string, library: string) {
    this.folder = `${root}/lowered/${digest(library).slice(0, 16)}`;
  }

  private path(key: string): string {
    return `${this.folder}/${key}`;
  }

  private damaged(key: string): void {
    storeStats.damaged++;
    if (envNumber("DEBUG") >= 1) debugPrint(`${this.path(key)} is damaged; its kernel is lowered again`);
  }

  /** The last entry of a key whose line is whole: the first, or the one that `which` says; undefined where there is none. */
  private line(key: string, which: 0 | 1): string | undefined {
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
      const [marks, ...lines] = text.slice(start + 1 + MARK.length, end).split("\n", 3), line = lines[which] ?? "";
      const check = marks.slice(which * (CHECK_LENGTH + 1), which * (CHECK_LENGTH + 1) + CHECK_LENGTH);
      if (check === digest(`${key}${which}${line}`)) return line;
      end = start;
    }
    this.damaged(key);
    return undefined;
  }

  /** What is known under a key; undefined where that is nothing, or damaged. @param lower makes it anew */
  get(key: string, lower: () => LinearProgram): LinearProgram | undefined {
    const head = this.line(key, 0);
    if (!this.isUsed) {
      this.isUsed = true;
      markUsed(this.folder);
    }
    if (head === undefined) return undefined;
    markUsed(this.path(key));
    storeStats.read++;
    const made: LinearProgram = programFrom(head, () => {
      const list = this.line(key, 1);
      if (list !== undefined) {
        storeStats.lists++;
        return kernelsOfText(list);
      }
      owed.set(made, { store: this, key });
      return lower().uops;
    });
    return made;
  }

  /** Keeps a program where it can be read back. */
  set(key: string, { linear, key: compiled }: Program): void {
    if (!this.canWrite) return;
    const text = programText(linear, compiled);
    if (text === undefined) return;
    const { head, list } = text, check = (which: 0 | 1, line: string): string => digest(`${key}${which}${line}`);
    try {
      const files = hostFiles()!;
      if (!this.isSwept) {
        this.isSwept = true;
        files.mkdirSync(this.folder, { recursive: true });
        this.sweep();
      }
      // one append: others see all of it, or what does not agree with its digest
      const entry = `\n${MARK}${check(0, head)} ${check(1, list)}\n${head}\n${list}\n`;
      files.writeTextFileSync(this.path(key), entry, { append: true });
      storeStats.written++;
    } catch (error) {
      this.canWrite = false;
      if (envNumber("DEBUG") < 1) return;
      debugPrint(`${this.folder} cannot be written (${(error as Error).message}): kernels are lowered in each process`);
    }
  }

  /** Removes libraries beyond those used last, and kernels of this one where they take too much, once a process. */
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

/** Programs that are to be kept once they are compiled. */
const owed = new WeakMap<LinearProgram, { readonly store: LoweredStore; readonly key: string }>();

/** The store for a device now: undefined where none is, or each kernel is to be lowered for those who watch. */
function storeNow({ name, renderer: { caps } }: Device): LoweredStore | undefined {
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
    stores.set(root, store = new LoweredStore(root, `${runtime}\n${library.text}`));
  }
  return store;
}

/** The key of a kernel for a device: a digest of all that lowering reads; undefined where that cannot be told. */
export function loweredKey(ast: UOp, renderer: Renderer): string | undefined {
  if (ast.arg instanceof TextArg) return undefined; // nothing is lowered
  let identity = identities.get(renderer);
  if (identity === undefined) identities.set(renderer, identity = { text: capsText(renderer.name, renderer.caps) });
  if (identity.text === undefined) return undefined;
  const text = kernelText([ast]);
  if (text === undefined) return undefined;
  return digest(`${identity.text}\n${LOWERING_FLAGS.map((f) => envNumber(f)).join()}\n${text}`);
}

/** The lowered kernel of the store, else what `lower` makes, which {@linkcode keepLowered} keeps. */
function loweredBefore(ast: UOp, device: Device, lower: () => LinearProgram): LinearProgram {
  const store = storeNow(device), key = store === undefined ? undefined : loweredKey(ast, device.renderer);
  if (store === undefined || key === undefined) return lower();
  const known = store.get(key, lower);
  if (known !== undefined) return known;
  const made = lower();
  owed.set(made, { store, key });
  return made;
}

/** Keeps those of these programs that the store did not know, with what their compiler calls them. */
function keepLowered(programs: readonly Program[]): void {
  for (const program of programs) {
    const { linear } = program, own = owed.get(linear);
    if (own === undefined) continue;
    owed.delete(linear);
    own.store.set(own.key, program);
  }
}

/** The store, as the engine takes it. */
export const loweredKernels: LoweredKernels = { before: loweredBefore, keep: keepLowered };
