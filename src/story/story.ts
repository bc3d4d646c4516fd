/**
 * The entry point `./story`: what a program computed, to read, to run and to look at; and where its time went.
 *
 * @module
 */
import "../../mod.ts"; // it registers the devices
export type { Span, SpanKind } from "../helpers/spans.ts";
export type { NodeData, PassData, Recording, RuleData, WorkData } from "../uop/core/recording.ts";
export type { Note, NoteKind } from "../uop/core/notes.ts";
export type { ElementTree } from "./explain/explain_element.ts";
export { explain, type ExplainOptions, Explanation, type ExplanationData } from "./explain/explain.ts";
export { graph, type GraphOptions, Picture } from "./picture.ts";
export { Profile, profile, type ProfiledDevice, type ProfiledThread } from "./profile.ts";
export type { ProfiledKernel } from "./profiler.ts";
export type { ThreadCounts } from "../device/program.ts";
export { vizPage } from "./viz/page.ts";
export {
  type BufferData,
  type EventData,
  type KernelData,
  type NoteData,
  type PlaceData,
  type ScheduleData,
  type StepData,
  type VizData,
  vizData,
} from "./viz/viz_data.ts";
