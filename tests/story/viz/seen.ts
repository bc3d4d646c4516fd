/** What viz_browser.ts has seen, for tests. @module */
import { runDeno } from "../../system/subprocess.ts";

/** What the page did: texts found on it, by what was looked for. */
export type Seen = Record<string, string | number | boolean | readonly string[]>;

/** All that was seen: of a small recording in three looks, and of a large one. */
interface All {
  readonly errors: readonly string[];
  readonly seen: readonly Seen[];
  readonly compared: Seen;
  readonly large: Seen;
  readonly scriptBytes: number;
}

/** Walks through the page; `ignore` where there is no browser. */
export async function seenInChromium(...flags: readonly string[]): Promise<All & { readonly ignore: boolean }> {
  // in a process of its own: its driver is in no lock file, which would have every run fetch it
  const args = ["run", "-A", "--no-lock", "--no-check", "tests/story/viz/viz_browser.ts", ...flags];
  const { stdout, stderr } = await runDeno(args, { timeoutMs: 120_000 });
  let found: All | string;
  try {
    found = JSON.parse(stdout);
  } catch {
    throw new Error(`the page did not run in Chromium: ${stderr}`);
  }
  if (typeof found !== "string") return { ...found, ignore: false };
  console.log(`Chromium is left out: ${found}`);
  return { ignore: true, errors: [], seen: [], compared: {}, large: {}, scriptBytes: 0 };
}
