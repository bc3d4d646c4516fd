/**
 * `VIZ=1` on a program: records it from its first line on, and serves the page while it runs; at a terminal also
 * afterwards, until it is interrupted. `VIZ=page.html` and `VIZ=recording.json` write a file when it ends, also where it
 * throws. In: the setting; out: messages on standard error, the page, or the file.
 *
 * @module
 */
import type { PassRecord } from "../../uop/core/recording.ts";
import { listen } from "../../helpers/spans.ts";
import { listenToNotes } from "../../uop/core/notes.ts";
import { siteFrames } from "../../helpers/stack.ts";
import { nodeModule } from "../../helpers/node.ts";
import { isInPass, recordAll } from "../../uop/rewrite/record.ts";
import { atEnd, type Runtime, tell, writeFile } from "../program/runtime.ts";
import { packedText } from "./pack.ts";
import { pageHtml } from "./page.ts";
import { servePage } from "./page_thread.ts";
import { PORT, serveViz, type VizServer } from "./server.ts";
import { type VizData, VizRecorder } from "./viz_data.ts";

/** A program that is recorded. */
export interface Recorded {
  /** What there is so far. */
  data(): VizData;
  /** What it threw, if it did. */
  failed(error: unknown): void;
  /** Called between steps, where no pass goes on. */
  between: () => void;
  /** Ends it. */
  stop(): void;
}

/** Records what runs from now on; the function that is returned gives what there is so far. */
export function recordProgram(title: string): Recorded {
  const recorder = new VizRecorder(title, 0), records: PassRecord[] = [];
  const take = (): void => {
    recorder.take(records);
    records.length = 0; // no graph is kept that the program does not keep
  };
  siteFrames.wanted++; // the calls that led to a line
  const stops = [
    recordAll(records),
    listenToNotes((n) => recorder.note(n)),
    listen((span) => {
      // of these it is certain that no pass goes on around them
      if (span.kind === "schedule" || span.kind === "compile") take();
      recorder.hear(span);
      if (!isInPass()) recorded.between();
    }),
  ];
  const recorded: Recorded = {
    between: () => {},
    stop(): void {
      for (const end of stops.splice(0)) end();
      siteFrames.wanted--;
    },
    data(): VizData {
      take();
      return recorder.data();
    },
    failed(error: unknown): void {
      recorder.error = error === undefined
        ? undefined
        : error instanceof Error
        ? `${error.name}: ${error.message}`
        : String(error);
    },
  };
  return recorded;
}

/** The page with its data, at once. */
function pageNow(data: VizData): string {
  const { gzipSync } = nodeModule("node:zlib") as { gzipSync(text: string): { toString(encoding: "base64"): string } };
  const packed = (value: VizData | undefined): string => gzipSync(packedText(value)).toString("base64");
  return pageHtml(data.title, { data: packed(data), other: packed(undefined) });
}

/** Does as `setting` says: 1 or a port serves, a name is that of a file. */
export function watchViz(setting: string, runtime: Runtime): void {
  const { title, isTerminal } = runtime, port = /^\d+$/.test(setting) ? Number(setting) : undefined;
  if (port === undefined && !/\.(html|json)$/.test(setting)) {
    tell(`VIZ=${setting} is none of 1, a port, a name that ends with .html and one that ends with .json`);
    return;
  }
  const recorded = recordProgram(title);
  if (port === undefined) {
    atEnd((error) => {
      recorded.failed(error);
      const data = recorded.data();
      writeFile("VIZ", setting, setting.endsWith(".json") ? JSON.stringify(data) : pageNow(data));
    });
    return;
  }
  let server: VizServer | undefined, url = "";
  try {
    const first = port === 1 ? undefined : port;
    if (!runtime.mayListen(first ?? PORT)) {
      tell("VIZ=1 serves its page with --allow-net=127.0.0.1; VIZ=page.html writes a file instead");
      recorded.stop();
      return;
    }
    const served = servePage(pageHtml(title), () => packedText(recorded.data()), first);
    if (served === undefined) ({ server, url } = serveViz(() => recorded.data(), { port: first })); // while it waits
    else {
      url = served.url;
      recorded.between = served.look;
    }
  } catch (error) {
    tell((error as Error).message);
    recorded.stop();
    return;
  }
  if (first(url, port)) tell(`VIZ: ${url}`);
  else tell(`VIZ: ${url} (port ${PORT} is in use)`);
  server?.unref();
  atEnd(
    (error) => {
      recorded.failed(error);
      if (!isTerminal) tell("VIZ: the page closes with the program; VIZ=page.html keeps it in a file");
    },
    isTerminal
      ? (error) => {
        if (error !== undefined) console.error(error);
        tell(`VIZ: the program has ended${error === undefined ? "" : " with an error"}; ${url} stays until Ctrl+C`);
        if (server !== undefined) server.ref();
        else setInterval(() => {}, 1 << 30); // until Ctrl+C
      }
      : undefined,
  );
}

function first(url: string, port: number): boolean {
  return port !== 1 || url.endsWith(`:${PORT}/`);
}
