/** What tests of tensors share: all methods, a host device where none is registered, and values by the oracle. */
import { type Device, listBackends, registerBackend, setDefaultDevice } from "../../src/device/device.ts";
import { LruAllocator } from "../../src/device/allocator.ts";
import { FAMILIES } from "../../src/tensor/families.ts";
import { addFamilies } from "../../src/tensor/handle/members.ts";
import { LATE_FAMILIES } from "../../src/tensor/late_families.ts";
import { Tensor } from "../../src/tensor/tensor.ts";
import { type HostArray, nestedOf, type NestedValues } from "../../src/tensor/nodes/host.ts";
import { evaluate } from "../reference.ts";

addFamilies(Tensor, FAMILIES);
addFamilies(Tensor, LATE_FAMILIES);
if (!listBackends().some((b) => b.name === "JS")) {
  const allocator = new LruAllocator("JS", {
    alloc: (nbytes) => new Uint8Array(nbytes),
    free: () => {},
    copyIn: (block, offset, src) => (block as Uint8Array).set(src, offset),
    copyOut: (dst, block, offset) => dst.set((block as Uint8Array).subarray(offset, offset + dst.length)),
    copyOutAsync: (dst, block, offset) => {
      dst.set((block as Uint8Array).subarray(offset, offset + dst.length));
      return Promise.resolve();
    },
  });
  registerBackend({
    name: "JS",
    description: "host memory, for tests of graphs",
    permissions: [],
    rank: 9,
    unavailable: () => undefined,
    open: () => ({ name: "JS", allocator, info: () => ({}), close: () => {} }) as unknown as Device,
  });
  setDefaultDevice("JS"); // DEV may name one that is not registered here
}

/** The value of a tensor by the oracle, as nested lists. */
export function valueOf(t: Tensor): NestedValues {
  const v = evaluate(t.uop);
  return nestedOf(v.data as unknown as HostArray, v.shape, v.dtype);
}
