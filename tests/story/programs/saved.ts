import { nn, state, Tensor } from "../../../mod.ts";
Tensor.manualSeed(5);
const first = new nn.Linear(3, 3), second = new nn.Linear(3, 3);
const bytes = await state.safeBytes(state.getStateDict(first));
state.loadStateDict(second, state.safeParse(bytes));
const x = Tensor.eye(3);
const apart = first.call(x).sub(second.call(x)).abs().max();
console.log(await apart.item(), await second.bias!.shape);
