/**
 * A language model behind the OpenAI protocol; without a model the one of the examples.
 *
 *     deno task serve
 *     deno task serve model.gguf --port 8000 --device CLANG
 *
 * Options: --port N (8000), --host ADDRESS (127.0.0.1: only this machine), --device D, --context N, --key KEY that clients
 * must show, --queue N requests that may wait (16), --sequences N requests that are answered at once (4, or 1 where the
 * model keeps a state), --speculate N tokens that are guessed and computed together (0), --cors ORIGIN whose pages may ask,
 * --sha256 HEX that a file from a server, as https://example.org/model.gguf, must have.
 */
import { parseArgs } from "@std/cli/parse-args";
import { Device } from "../mod.ts";
import { LanguageModel, serve } from "../src/llm/llm.ts";
import { told } from "./loading_support.ts";

const ROUTES = "chat/completions, completions, embeddings, models, responses";
const args = parseArgs(Deno.args, {
  string: ["port", "host", "device", "context", "key", "queue", "sequences", "speculate", "cors", "sha256"],
  strict: true,
}) as
  & Record<string, string | undefined>
  & { _: string[] };
const path = args._[0] === undefined ? new URL("models/stories260K.gguf", import.meta.url) : String(args._[0]);
if (args.device !== undefined) Device.default = args.device;
const model = await LanguageModel.load(path, {
  ...told(args.sha256),
  sequences: args.sequences === undefined ? "auto" : Number(args.sequences),
  ...args.context === undefined ? {} : { context: Number(args.context) },
});
const server = serve(model, {
  port: Number(args.port ?? 8000),
  ...args.host === undefined ? {} : { hostname: args.host },
  ...args.key === undefined ? {} : { key: args.key },
  ...args.speculate === undefined ? {} : { speculate: Number(args.speculate) },
  ...args.cors === undefined ? {} : { cors: args.cors },
  ...args.queue === undefined ? {} : { queue: Number(args.queue) },
});
console.log(
  `${model.name} on ${model.decoder.device}: ${server.url}/v1 (${ROUTES}), Ctrl-C ends`,
);
Deno.addSignalListener("SIGINT", async () => {
  await server.stop();
  Deno.exit(0);
});
