import { Tensor } from "../../../mod.ts";
const devices = ["WASM", "WASM:1"];
const rows = Tensor.arange(48).reshape([8, 6]).mul(0.25).contiguous().realize();
const weight = Tensor.arange(18).reshape([6, 3]).sub(9).cast("float32").contiguous().realize();
const batch = rows.shard(devices, { axis: 0 }), shared = weight.shard(devices);
const scores = batch.matmul(shared).relu();
const total = scores.sum(0);
console.log(await total.tolist(), await scores.max().item());
