/**
 * A run as a story in Markdown: what was written, what was decided and why, how each kernel was shaped, what ran, and what
 * the values are. Each sentence is a recorded fact; what was not recorded is not told.
 *
 * @module
 */
import { byteText } from "../../helpers/errors.ts";
import { lineText } from "../../helpers/stack.ts";
import type { Note } from "../../uop/core/notes.ts";
import type { Trace, TraceBuffer, TraceStep } from "./explain_record.ts";
import { numberText, positionText, type Statistics, statisticsText } from "./explain_values.ts";
import { bufferText, costText } from "./script.ts";
import { pathOf, shortLine, sourceText } from "../program/calls.ts";

/** What a story is made of. */
export interface StorySpec {
  readonly trace: Trace;
  readonly notes: readonly Note[];
  readonly nameOf: (b: TraceBuffer) => string;
  /** What stands first, in lines. */
  readonly head: readonly string[];
  readonly times: boolean;
  readonly shareOf: (step: TraceStep) => number | undefined;
  /** What in a step made an element NaN or infinite, where that is known. */
  readonly notFiniteBy: (step: TraceStep, b: TraceBuffer, at: number) => string | undefined;
}

/** Lines that are named with a reason, at most. */
const MOST_PLACES = 8;

/** Equal lines once, with how often they were there. */
function counted(lines: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const line of lines) counts.set(line, (counts.get(line) ?? 0) + 1);
  return [...counts].map(([line, n]) => n > 1 ? `${line} (${n} times)` : line);
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((c) => c.replaceAll("|", "\\|")).join(" | ")} |`;
}
function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  return rows.length === 0 ? [] : [row(head), row(head.map(() => "---")), ...rows.map(row)];
}

/** What was written: the lines that led to steps, in order, with what they made. */
function writtenText({ trace: { steps }, nameOf }: StorySpec): string[] {
  const lines = new Map<string, string[]>();
  for (const step of steps) {
    const { calls } = pathOf(step.item.site), at = calls[calls.length - 1]?.at;
    if (at === undefined) continue;
    const text = sourceText(at), key = `\`${shortLine(at)}\`${text === "" ? "" : ` \`${text.replaceAll("`", "'")}\``}`;
    const made = lines.get(key) ?? [];
    made.push(...step.writes.map((b) => `${nameOf(b)} ${bufferText(b)}`));
    lines.set(key, made);
  }
  return [...lines].map(([line, made]) => `- ${line}: ${counted(made).join("; ")}`);
}

/** The line that a note is about. */
function lineOf({ node }: Note): string {
  return node.line === undefined ? "" : `\`${lineText(node.line).replace(/:\d+$/, "")}\` `;
}

/** Work that is computed where it is read, of which there is much: what, and why. */
const IN_PLACE = /^(\S+) is computed where it is read, .*?: (.*)$/;

/** What was decided: what stands apart first, then what is computed where it is read, by the reason. */
function decidedText({ notes }: StorySpec): string[] {
  const lines: string[] = [], why = new Map<string, { readonly what: string[]; readonly at: Set<string> }>();
  for (const n of notes) {
    if (n.of?.kind !== "schedule") continue;
    const m = IN_PLACE.exec(n.text);
    if (m === null) {
      lines.push(`- ${lineOf(n)}${n.text}`);
      continue;
    }
    let all = why.get(m[2]);
    if (all === undefined) why.set(m[2], all = { what: [], at: new Set() });
    all.what.push(m[1]);
    if (n.node.line !== undefined) all.at.add(lineOf(n).trim());
  }
  for (const [reason, { what, at }] of why) {
    const places = [...at], more = places.length > MOST_PLACES ? ` and ${places.length - MOST_PLACES} more` : "";
    const where = places.length === 0 ? "" : `, at ${places.slice(0, MOST_PLACES).join(", ")}${more}`;
    lines.push(`- computed where they are read, being ${reason}: ${counted(what).join(", ")}${where}`);
  }
  return counted(lines);
}

function shapedText({ notes, trace: { steps }, times }: StorySpec): string[] {
  const names = new Map<string, string[]>();
  for (const { item: { runner } } of steps) {
    if (runner.kind !== "CompiledKernel") continue;
    const { name, opts } = runner.program.linear, key = `\`${name}\` on ${runner.device}`;
    if (names.has(key)) continue;
    const own = notes.filter((n) => n.of?.kind === "kernel" && n.of.name === name && n.of.device === runner.device);
    names.set(key, [...new Set(own.map((n) => n.text))]);
    if (own.length === 0 && opts !== undefined && opts !== "") names.get(key)!.push(`opts ${opts}`);
  }
  // what the model says depends on the machine, as times do
  const isShown = (text: string): boolean => times || !text.includes("by the model");
  return [...names].map(([name, why]) => [name, why.filter(isShown)] as const).filter(([, why]) => why.length > 0)
    .map(([name, why]) => `- ${name}: ${why.join("; ")}`);
}

function ranText({ trace: { steps }, times, shareOf, nameOf }: StorySpec): string[] {
  return table(
    ["step", "what", "makes", "took"],
    steps.filter((s) => s.kind !== "view" && s.kind !== "empty").map((s) => {
      const { runner } = s.item, what = runner.kind === "CompiledKernel" && times ? runner.name : s.kind;
      const made = s.writes.map(nameOf).join(", ");
      return [String(s.number + 1), what, made, costText(s, times, times ? shareOf(s) : undefined)];
    }),
  );
}

/** Where the first NaN or infinity is. */
function badText({ firstBad, nans, infinities }: Statistics, { buffer: { shape }, size }: TraceBuffer): string {
  if (firstBad === undefined) return "";
  const known = shape !== undefined && shape.reduce((a, b) => a * b, 1) === size ? shape : [size];
  return `the first ${nans > 0 && infinities > 0 ? "NaN or infinity" : nans > 0 ? "NaN" : "infinity"} at ${
    positionText(firstBad, known)
  }`;
}

function valuesText({ trace: { steps }, nameOf, notFiniteBy }: StorySpec): string[] {
  const rows: string[][] = [];
  let isFound = false;
  for (const s of steps) {
    s.writes.forEach((b, i) => {
      const statistics = s.statistics[i], bad = badText(statistics, b);
      let first = bad;
      if (bad !== "" && !isFound) {
        const by = notFiniteBy(s, b, statistics.firstBad!);
        first += `: here it begins${by === undefined ? "" : `, with \`${by.replaceAll("`", "'")}\``}`;
        isFound = true;
      }
      rows.push([`${s.number + 1}`, nameOf(b), bufferText(b), statisticsText(statistics), first]);
    });
  }
  return table(["step", "array", "is", "values", "not finite"], rows);
}

/** The totals of a run. */
function sumText({ trace: { steps }, times }: StorySpec): string {
  let flops = 0, bytes = 0, ms = 0;
  for (const { item: { runner }, timeMs } of steps) {
    ms += timeMs;
    if (runner.kind !== "CompiledKernel") continue;
    flops += runner.program.linear.flops;
    bytes += runner.program.linear.bytes;
  }
  const took = times ? `, in ${numberText(ms)} ms` : "";
  return `Together ${numberText(flops)} floating-point operations, and ${byteText(bytes)} touched${took}.`;
}

/** The story as Markdown. */
export function storyText(spec: StorySpec): string {
  const parts: readonly (readonly [title: string, lines: readonly string[]])[] = [
    ["What was written", writtenText(spec)],
    ["What was decided, and why", decidedText(spec)],
    ["How kernels were shaped", shapedText(spec)],
    ["What ran", spec.trace.steps.length === 0 ? [] : [...ranText(spec), "", sumText(spec)]],
    ["Values", valuesText(spec)],
  ];
  const [title, ...more] = spec.head;
  const lines = [`# ${title.replace(/\.$/, "")}`, "", ...more];
  for (const [title, own] of parts) if (own.length > 0) lines.push("", `## ${title}`, "", ...own);
  return lines.join("\n").replace(/\n{3,}/g, "\n\n").trimEnd() + "\n";
}
