import { kernel, Tensor } from "../../../mod.ts";
const x = Tensor.arange(12).cast("float32").contiguous().realize();
const [cubed] = Tensor.empty([12], { dtype: "float32" }).customKernel([x], (out, from) => {
  const i = kernel.loop(12), v = kernel.read(from, i);
  return kernel.write(out, i, v.mul(v).mul(v));
});
const after = cubed.reshape([3, 4]).sum(1);
console.log(await after.tolist());
