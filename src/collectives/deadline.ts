/**
 * Waiting for other ranks: polled, since a blocked call would stop timers, signals and every deadline; and more seldom the
 * longer it takes, since ranks that share cores must let each other run.
 *
 * @module
 */

/** Polls before the first pause; sleep between two then, in milliseconds, up to the longest. */
const SPINS = 200, FIRST_PAUSE_MS = 0.02, LONGEST_PAUSE_MS = 1;
/** How long a wait that may give way to other work of the process sits still before it does. */
const PATIENCE_MS = 2;

/** What nobody wakes; made when it is first slept on, since pages may have no memory that is shared. */
let word: Int32Array | undefined;

/** The sleep before the next poll, after waiting for `waitedMs`. */
function pauseMs(waitedMs: number): number {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS + waitedMs / 16);
}

/** Stands still. */
export function sleepSync(ms: number): void {
  Atomics.wait(word ??= new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/**
 * Polls `isDone` until it is true; `late` is asked now and then with the milliseconds so far, and throws past a deadline.
 *
 * @param spinMs how long it polls without a pause after the first polls: where what is waited for comes soon, and a sleep,
 * which takes the system longer than it was asked for, would be most of the wait
 */
export function pollUntil(isDone: () => boolean, late: (waitedMs: number) => void, spinMs: number = 0): void {
  for (let i = 0; i < SPINS; i++) if (isDone()) return;
  const start = performance.now();
  while (!isDone()) {
    const waited = performance.now() - start;
    if (waited < spinMs) continue;
    late(waited);
    sleepSync(pauseMs(waited));
  }
}

/** As {@linkcode pollUntil}, while timers and other work of this process go on. */
export async function pollAsync(isDone: () => boolean, late: (waitedMs: number) => void): Promise<void> {
  for (let i = 0; i < SPINS; i++) if (isDone()) return;
  const start = performance.now();
  while (!isDone()) {
    const waited = performance.now() - start;
    late(waited);
    if (waited < PATIENCE_MS) sleepSync(pauseMs(waited));
    else await new Promise((resolve) => setTimeout(resolve, pauseMs(waited)));
  }
}
