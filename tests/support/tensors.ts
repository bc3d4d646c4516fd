/** Tensors that tests of many kinds make. @module */
import { Tensor } from "../../mod.ts";

/** Realized float32 of memory of its own. */
export function realFloats(values: number[] | number[][], requiresGrad = false): Tensor {
  return new Tensor(values, { dtype: "float32", requiresGrad }).realize();
}

/** Weights of an output in the loss whose gradients PyTorch's values are stored of, as in generate.py and opdb.py. */
export function ramp(t: Tensor): Tensor {
  const weights = Array.from({ length: t.numel() }, (_, i) => (((7 * i) % 11) - 5) / 4);
  return new Tensor(weights, { dtype: t.dtype, device: t.device }).reshape(t.shape);
}
