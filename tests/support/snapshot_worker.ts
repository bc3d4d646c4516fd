/** A worker of snapshot.ts: takes a writer and programs, sends back what is made for each. @module */
import { type MadeNow, make, show } from "./snapshot_cases.ts";

/** What to do. */
export interface Job {
  readonly writer: string;
  readonly programs: readonly string[];
  /** Texts rather than hashes. */
  readonly texts: boolean;
}

/** What came of it, by program. */
export interface Done {
  readonly made: readonly (MadeNow | undefined)[];
  readonly texts: readonly string[];
}

const worker = self as unknown as {
  onmessage: (event: MessageEvent<Job>) => void;
  postMessage(done: Done): void;
};

worker.onmessage = async ({ data: { writer, programs, texts } }) => {
  const made: MadeNow[] = [], shown: string[] = [];
  for (const name of programs) {
    if (texts) shown.push(await show(writer, name));
    else made.push(await make(writer, name));
  }
  worker.postMessage({ made, texts: shown });
};
