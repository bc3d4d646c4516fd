import { nn, Tensor } from "../../../mod.ts";
Tensor.manualSeed(5);
const net = new nn.Linear(4, 2);
const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
  const input = new Tensor(await request.json() as number[]);
  return Response.json(await net.call(input).softmax().tolist());
});
const url = `http://127.0.0.1:${server.addr.port}/`;
const answers = await Promise.all(
  [1, 2, 3].map(async (i) => (await fetch(url, { method: "POST", body: JSON.stringify([i, 0, 1, 2]) })).json()),
);
console.log(answers.length);
await server.shutdown();
