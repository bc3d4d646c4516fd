/** Grids of devices of one process, for random shardings. @module */
import { Mesh } from "../../../src/dist/dist.ts";

const devices = ["JS", "JS:1", "JS:2", "JS:3"];
/** Grids of one and two axes, and numbers of devices that divide hardly anything. */
export const MESHES: readonly Mesh[] = [
  Mesh.of({ data: 2 }, { devices: devices.slice(0, 2) }),
  Mesh.of({ data: 3 }, { devices: devices.slice(0, 3) }),
  Mesh.of({ data: 2, model: 2 }, { devices }),
];
