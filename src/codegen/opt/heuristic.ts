/** placeholder @module */
import type { Renderer } from "../../renderer/renderer.ts";
import type { Kernel } from "./kernel.ts";
export function heuristic(_k: Kernel, _r: Renderer): void {}
