/** Spans: told while somebody listens, to all who do. */
import { assert, assertEquals } from "@std/assert";
import { tellReplay, tellTimed } from "../../src/engine/exec.ts";
import { listen, listening, type Span, type SpanListener, spans, timed } from "../../src/helpers/spans.ts";

Deno.test("spans: nobody listens, nothing is told", () => {
  let asked = 0;
  assertEquals(timed("run", "a", () => 3, () => (asked++, {})), 3);
  assertEquals([asked, spans.listener], [0, undefined]);
});

Deno.test("spans: inner ones end first, and all who listen hear them", () => {
  const one: Span[] = [], two: Span[] = [];
  const stop = listen((s) => one.push(s));
  const made = listening(
    (s) => two.push(s),
    () => timed("schedule", "outer", () => timed("pass", "inner", () => 5), (n) => ({ subject: n })),
  );
  timed("run", "later", () => {});
  stop();
  timed("run", "unheard", () => {});
  assertEquals([made, two.map((s) => s.name), one.map((s) => s.name)], [5, ["inner", "outer"], [
    "inner",
    "outer",
    "later",
  ]]);
  assertEquals(two[1].subject, 5);
  assert(two[1].startMs <= two[0].startMs && two[0].endMs <= two[1].endMs);
  assertEquals(spans.listener, undefined);
});

Deno.test("spans: launches are told at once to who hears them so, to others one by one", () => {
  const times: Float64Array[] = [], heard: Span[] = [], hears: SpanListener = () => assert(false);
  hears.launches = (_items, _startMs, ends) => times.push(ends);
  const stops = [listen(hears), listen(hears)], ends = Float64Array.of(1, 3);
  const items = ["a", "b"].map((name) => ({ runner: { name, device: "CLANG" } }));
  tellTimed(items, 10, ends);
  assertEquals(times, [ends, ends]);
  stops.push(listen((span) => heard.push(span)));
  tellTimed(items, 10, ends);
  assertEquals(times, [ends, ends, ends, ends]);
  assertEquals(heard.map((s) => [s.kind, s.name, s.device, s.startMs, s.endMs, s.deviceMs, s.subject]), [
    ["launch", "a", "CLANG", 10, 11, 1, items[0]],
    ["launch", "b", "CLANG", 11, 13, 2, items[1]],
  ]);
  for (const stop of stops) stop();
  assertEquals(spans.listener, undefined);
});

Deno.test("spans: who ends its listening while it is told hides nobody, and who begins hears the next", () => {
  const told: string[] = [], items = [{ runner: { name: "a", device: "CLANG" } }], ends = Float64Array.of(1);
  const later: (() => void)[] = [];
  const once: SpanListener = ({ kind }) => {
    told.push(`once ${kind}`);
    stops[0]();
    later.push(listen((span) => told.push(`later ${span.kind}`)));
  };
  const stops = [once, ({ kind }: Span) => void told.push(`next ${kind}`)].map((f: SpanListener) => listen(f));
  tellTimed(items, 10, ends);
  assertEquals(told.splice(0), ["once launch", "next launch"]);
  tellReplay("1 kernel", items as never, (own) => own[0] = 1);
  assertEquals(told.splice(0), ["next launch", "next replay", "later launch", "later replay"]);
  for (const stop of [...stops, ...later]) stop();
  assertEquals(spans.listener, undefined);
});

Deno.test("spans: a replay is told with its launches, which end with it, to who hears both at once", () => {
  const heard: Span[] = [], replays: unknown[][] = [], hears: SpanListener = () => assert(false);
  hears.launches = () => assert(false);
  hears.replays = (...told) => replays.push([...told.slice(0, 5), (told[5] as Float64Array).slice(0, 2)]);
  const items = ["a", "b"].map((name) => ({ runner: { name, device: "CLANG" } }));
  const stops = [listen(hears), listen((span) => heard.push(span))];
  tellReplay("2 kernels", items as never, (ends) => {
    for (const end = performance.now() + 1; performance.now() < end;);
    ends.set([0.25, 0.5]);
  });
  for (const stop of stops) stop();
  const [a, b, replay] = heard, origin = b.endMs - 0.5;
  assertEquals(heard.map((s) => [s.kind, s.name, s.subject]), [
    ["launch", "a", items[0]],
    ["launch", "b", items[1]],
    ["replay", "2 kernels", undefined],
  ]);
  assert(Math.abs(b.endMs - replay.endMs) < 1e-6 && replay.startMs < a.startMs && a.endMs === origin + 0.25);
  assertEquals(replays, [["2 kernels", replay.startMs, replay.endMs, items, origin, Float64Array.of(0.25, 0.5)]]);
});

Deno.test("spans: what throws is not told, and ends the listening", () => {
  const heard: Span[] = [];
  let message = "";
  try {
    listening((s) => heard.push(s), () =>
      timed("run", "fails", () => {
        throw new Error("no");
      }));
  } catch (error) {
    message = (error as Error).message;
  }
  assertEquals([message, heard, spans.listener], ["no", [], undefined]);
});
