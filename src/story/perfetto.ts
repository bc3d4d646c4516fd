/**
 * Traces as Perfetto reads them: protobuf. In: slices, counters and flows by track; out: bytes of a
 * `Trace` message. Field numbers are those of Perfetto's published schema (protos/perfetto/trace). Slices of a track that
 * overlap without one being inside of the other go to tracks of their own.
 *
 * @module
 */
import { ProtoWriter } from "../helpers/protobuf.ts";

/** A piece of time on a track. */
export interface Slice {
  readonly name: string;
  readonly category: string;
  readonly startMs: number;
  readonly endMs: number;
  /** What is told of it. */
  readonly notes?: Readonly<Record<string, string | number>>;
  /** Flows that begin, go on or end here: an arrow goes from each slice to the next one of its flow. */
  readonly flows?: readonly number[];
}

/** A row of the timeline. */
export interface SliceTrack {
  readonly name: string;
  readonly slices: readonly Slice[];
}

/** A curve below the timeline. */
export interface CounterTrack {
  readonly name: string;
  readonly samples: readonly (readonly [timeMs: number, bytes: number])[];
}

/** TrackEvent.Type. */
const BEGIN = 1, END = 2, COUNTER = 4;
/** CounterDescriptor.Unit: bytes. */
const SIZE_BYTES = 3;
/** The one writer of the trace, and that it refers to nothing before it. */
const SEQUENCE = 1, STATE_CLEARED = 1;
/** The track of the process; others follow. */
const PROCESS = 1;

interface Row {
  readonly name: string;
  readonly slices: Slice[];
  /** Ends of the slices that are open, outer ones first. */
  readonly open: number[];
}

/** Slices that nest, in as few rows as need be. */
function rowsOf({ name, slices }: SliceTrack): Row[] {
  const rows: Row[] = [];
  for (const s of slices.toSorted((a, b) => a.startMs - b.startMs || b.endMs - a.endMs)) {
    let row = rows.find(({ open }) => {
      while (open.length > 0 && open[open.length - 1] <= s.startMs) open.pop();
      return open.length === 0 || s.endMs <= open[open.length - 1];
    });
    if (row === undefined) {
      rows.push(row = { name: rows.length === 0 ? name : `${name} ${rows.length + 1}`, slices: [], open: [] });
    }
    row.slices.push(s);
    row.open.push(s.endMs);
  }
  return rows;
}

/** Nanoseconds since the trace began. */
function nanoseconds(ms: number): number {
  return Math.max(0, Math.round(ms * 1e6));
}

/** A trace. Times are milliseconds since some common beginning. */
export function perfettoTrace(
  title: string,
  tracks: readonly SliceTrack[],
  counters: readonly CounterTrack[],
): Uint8Array<ArrayBuffer> {
  const out = new ProtoWriter();
  let uuid = PROCESS, first = true;
  const packet = (write: (w: ProtoWriter) => void): void =>
    out.message(1, (w) => {
      w.uint(10, SEQUENCE);
      if (first) w.uint(13, STATE_CLEARED);
      first = false;
      write(w);
    });
  const descriptor = (own: number, name: string, more: (w: ProtoWriter) => void): void =>
    packet((w) =>
      w.message(60, (d) => {
        d.uint(1, own);
        d.text(2, name);
        if (own !== PROCESS) d.uint(5, PROCESS);
        more(d);
      })
    );
  const event = (ms: number, track: number, type: number, more?: (w: ProtoWriter) => void): void =>
    packet((w) => {
      w.uint(8, nanoseconds(ms));
      w.message(11, (e) => {
        e.uint(9, type);
        e.uint(11, track);
        more?.(e);
      });
    });
  descriptor(PROCESS, title, (d) =>
    d.message(3, (p) => {
      p.uint(1, 1);
      p.text(6, title);
    }));
  for (const row of tracks.flatMap(rowsOf)) {
    const track = ++uuid, ends: Slice[] = [];
    descriptor(track, row.name, () => {});
    const close = (before: number): void => {
      while (ends.length > 0 && ends[ends.length - 1].endMs <= before) event(ends.pop()!.endMs, track, END);
    };
    for (const s of row.slices) {
      close(s.startMs);
      event(s.startMs, track, BEGIN, (e) => {
        e.text(22, s.category);
        e.text(23, s.name);
        for (const [name, value] of Object.entries(s.notes ?? {})) {
          e.message(4, (a) => {
            a.text(10, name);
            if (typeof value === "string") a.text(6, value);
            else a.double(5, value);
          });
        }
        for (const flow of s.flows ?? []) e.fixed64(47, flow);
      });
      ends.push(s);
    }
    close(Infinity);
  }
  for (const { name, samples } of counters) {
    const track = ++uuid;
    descriptor(track, name, (d) => d.message(8, (c) => c.uint(3, SIZE_BYTES)));
    for (const [ms, bytes] of samples) event(ms, track, COUNTER, (e) => e.uint(30, Math.max(0, Math.round(bytes))));
  }
  return out.done().slice();
}
