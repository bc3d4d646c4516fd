/**
 * Padding by PyTorch's names: with zeros, a constant, reflected, repeated or circular, of one, two or three axes. Each is
 * `x.pad(padding, { mode, value })`.
 *
 * @module
 */
import { ArgumentError } from "../../../helpers/errors.ts";
import { checkNumber } from "../../../helpers/options.ts";
import { checkTensor } from "../../../tensor/handle/base.ts";
import type { PadMode } from "../../../tensor/nodes/movement_nodes.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { named, sizesOf } from "../init.ts";
import type { Layer } from "../method_layers.ts";

/** The class of a layer that pads: by one number on all sides, or before and after each axis, the last axis first. */
export type PadClass = new (padding: number | readonly number[]) => Layer;
/** That of one that pads with a number. */
export type ConstantPadClass = new (padding: number | readonly number[], value: number) => Layer;

/** The class that pads the last `rank` axes; with `value` where it is not made with one. */
function padding<C>(name: string, rank: number, mode: PadMode, value?: number): C {
  const what = `make ${name}`,
    made = class implements Layer {
      readonly #sizes: readonly number[];
      readonly #value: number;
      constructor(padding: number | readonly number[], given?: number) {
        this.#sizes = sizesOf(what, "padding", padding, 2 * rank, -Infinity);
        if (this.#sizes.length !== 2 * rank) {
          throw new ArgumentError(what, { reason: `padding must be a number or ${2 * rank} numbers` });
        }
        this.#value = value ?? checkNumber(what, "value", given);
      }
      call(x: Tensor): Tensor {
        checkTensor(`apply ${name}`, "x", x);
        return x.pad(this.#sizes, mode === "constant" ? { value: this.#value } : { mode });
      }
    };
  return named(made, name) as C;
}

/** Pads the last axis with zeros. */
export const ZeroPad1d: PadClass = /* @__PURE__ */ padding("ZeroPad1d", 1, "constant", 0);
/** Pads the last two axes with zeros. */
export const ZeroPad2d: PadClass = /* @__PURE__ */ padding("ZeroPad2d", 2, "constant", 0);
/** Pads the last three axes with zeros. */
export const ZeroPad3d: PadClass = /* @__PURE__ */ padding("ZeroPad3d", 3, "constant", 0);
/** Pads the last axis with a number. */
export const ConstantPad1d: ConstantPadClass = /* @__PURE__ */ padding("ConstantPad1d", 1, "constant");
/** Pads the last two axes with a number. */
export const ConstantPad2d: ConstantPadClass = /* @__PURE__ */ padding("ConstantPad2d", 2, "constant");
/** Pads the last three axes with a number. */
export const ConstantPad3d: ConstantPadClass = /* @__PURE__ */ padding("ConstantPad3d", 3, "constant");
/** Pads the last axis with what stands behind the edge, reflected. */
export const ReflectionPad1d: PadClass = /* @__PURE__ */ padding("ReflectionPad1d", 1, "reflect", 0);
/** Pads the last two axes with what stands behind the edge, reflected. */
export const ReflectionPad2d: PadClass = /* @__PURE__ */ padding("ReflectionPad2d", 2, "reflect", 0);
/** Pads the last three axes with what stands behind the edge, reflected. */
export const ReflectionPad3d: PadClass = /* @__PURE__ */ padding("ReflectionPad3d", 3, "reflect", 0);
/** Pads the last axis with the values at the edge. */
export const ReplicationPad1d: PadClass = /* @__PURE__ */ padding("ReplicationPad1d", 1, "replicate", 0);
/** Pads the last two axes with the values at the edge. */
export const ReplicationPad2d: PadClass = /* @__PURE__ */ padding("ReplicationPad2d", 2, "replicate", 0);
/** Pads the last three axes with the values at the edge. */
export const ReplicationPad3d: PadClass = /* @__PURE__ */ padding("ReplicationPad3d", 3, "replicate", 0);
/** Pads the last axis with what stands at the other end. */
export const CircularPad1d: PadClass = /* @__PURE__ */ padding("CircularPad1d", 1, "circular", 0);
/** Pads the last two axes with what stands at the other end. */
export const CircularPad2d: PadClass = /* @__PURE__ */ padding("CircularPad2d", 2, "circular", 0);
/** Pads the last three axes with what stands at the other end. */
export const CircularPad3d: PadClass = /* @__PURE__ */ padding("CircularPad3d", 3, "circular", 0);
