import { Tensor } from "../../../mod.ts";
const weights = new Tensor([2, 3, 5]).realize();
Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, () => new Response(""));
const answer = weights.mul(11);
console.log(await answer.tolist());
console.log("ready");
