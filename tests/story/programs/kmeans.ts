import { Tensor } from "../../../mod.ts";
const points = new Tensor([[0, 0], [0, 1], [1, 0], [9, 9], [9, 8], [8, 9], [0, 9], [1, 9]]).float();
let centers = points.at(new Tensor([0, 3, 6]));
for (let i = 0;; i++) {
  const owner = points.unsqueeze(1).sub(centers.unsqueeze(0)).square().sum(2).argmin(1),
    member = owner.oneHot(3).float();
  const next = member.transpose().matmul(points).div(member.sum(0).unsqueeze(1));
  const moved = await next.sub(centers).abs().max().item();
  centers = next;
  if (moved < 1e-6 || i > 20) break;
}
console.log(String(await centers.mul(6).round().int().tolist()));
