/**
 * The roll call of MPI ranks, when something went wrong: each tells every other where it is, and waits a moment for what
 * they say. Ranks that wait listen, so that one that gives up is heard by all.
 *
 * @module
 */
import { cString, textOf } from "../device/foreign.ts";
import { addressOfBytes } from "./host_ranges.ts";
import type { MpiLibrary } from "./mpi_library.ts";
import { checkMpi, isRequestDone, type MpiRequest, newRequest } from "./mpi_requests.ts";

/** Messages of the roll call, and their length in bytes. */
const TAG = 2, NBYTES = 256;

interface Message {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly request: MpiRequest;
  isDone: boolean;
}

/** The roll call of one communicator. */
export class RollCall {
  /** What comes from each rank, by rank; undefined for the own one. */
  private received: (Message | undefined)[] = [];
  private sent: Message[] = [];

  constructor(
    private readonly library: MpiLibrary,
    private readonly group: bigint,
    private readonly rank: number,
    private readonly size: number,
  ) {}

  /** Is ready for what others say from now on. */
  listen(): void {
    if (this.received.length > 0) return;
    const { library: { symbols, handles }, group } = this;
    for (let source = 0; source < this.size; source++) {
      const bytes = new Uint8Array(new ArrayBuffer(NBYTES)), request = newRequest();
      if (source === this.rank) {
        this.received.push(undefined);
        continue;
      }
      const code = symbols.MPI_Irecv(addressOfBytes(bytes), NBYTES, handles.byte, source, TAG, group, request);
      checkMpi(this.library, code, "MPI_Irecv");
      this.received.push({ bytes, request, isDone: false });
    }
  }

  /** Whether some rank has said something. */
  hasHeard(): boolean {
    return this.received.some((m) => m !== undefined && this.isDone(m));
  }

  /** What each rank says, the own `text` included; undefined where there was no word in `graceMs`. */
  call(text: string, graceMs: number): (string | undefined)[] {
    this.listen();
    if (this.sent.length === 0) this.tell(text);
    const end = performance.now() + graceMs, others = this.received.filter((m) => m !== undefined);
    while (!others.every((m) => this.isDone(m)) && performance.now() < end) this.isEverythingSent();
    while (!this.isEverythingSent() && performance.now() < end);
    return this.received.map((m) => m === undefined ? text : m.isDone ? textOf(m.bytes) : undefined);
  }

  /** Takes back what nobody has answered, before the library ends. */
  close(): void {
    const { library: { symbols, handles } } = this;
    for (const m of this.received) {
      if (m === undefined || m.isDone) continue;
      symbols.MPI_Cancel(m.request);
      symbols.MPI_Wait(m.request, handles.statusIgnore);
    }
    this.received = [];
  }

  private tell(text: string): void {
    const { library: { symbols, handles }, group } = this;
    for (let target = 0; target < this.size; target++) {
      if (target === this.rank) continue;
      const bytes = new Uint8Array(new ArrayBuffer(NBYTES)), request = newRequest();
      bytes.set(cString(text).subarray(0, NBYTES - 1));
      const code = symbols.MPI_Isend(addressOfBytes(bytes), NBYTES, handles.byte, target, TAG, group, request);
      checkMpi(this.library, code, "MPI_Isend");
      this.sent.push({ bytes, request, isDone: false });
    }
  }
  private isEverythingSent(): boolean {
    return this.sent.every((m) => this.isDone(m));
  }
  private isDone(message: Message): boolean {
    return message.isDone ||= isRequestDone(this.library, message.request);
  }
}

/** What ranks said, those of one text together: "ranks 0, 1: a; no word from rank 2". */
export function rollText(states: readonly (string | undefined)[]): string {
  const ranksOf = new Map<string | undefined, number[]>();
  states.forEach((text, rank) => ranksOf.set(text, [...ranksOf.get(text) ?? [], rank]));
  const named = (ranks: readonly number[]): string => `${ranks.length > 1 ? "ranks" : "rank"} ${ranks.join(", ")}`;
  const parts = [...ranksOf].filter(([text]) => text !== undefined).map(([text, ranks]) => `${named(ranks)}: ${text}`);
  const silent = ranksOf.get(undefined);
  if (silent !== undefined) parts.push(`no word from ${named(silent)}`);
  return parts.join("; ");
}
