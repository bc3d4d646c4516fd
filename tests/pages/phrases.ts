/**
 * The tables of docs/coming.md: what another library writes, what is written here, and the value of both. Out: an example
 * that prints all right sides, which the tests of the documentation run. `deno run -A tests/pages/phrases.ts` asks Python
 * (`PEER_PYTHON`, else python3) for the values of the left sides of PyTorch and NumPy, and tells where they differ.
 *
 * @module
 */
import { ROOT } from "../system/subprocess.ts";
import type { Snippet } from "./pages.ts";

const PAGE = "docs/coming.md";

/** A row of a table. */
interface Phrase {
  readonly section: string;
  readonly line: number;
  readonly theirs: string;
  readonly ours: string;
  readonly value: string;
}

/** All rows that have a value. */
export function phrases(page: string = Deno.readTextFileSync(new URL(PAGE, ROOT))): Phrase[] {
  const found: Phrase[] = [];
  let section = "";
  page.split("\n").forEach((text, i) => {
    section = /^## (.*)/.exec(text)?.[1] ?? section;
    const [, theirs, ours, value] = /^\| `(.*?)` +\| `(.*?)` +\| `(.*?)` +\|$/.exec(text) ?? [];
    if (value !== undefined) found.push({ section, line: i + 1, theirs, ours, value });
  });
  return found;
}

/** One example of all right sides, each a line that says what it prints. */
export function phraseExample(rows: readonly Phrase[]): Snippet {
  const head = `import { dtypes, fft, finfo, iinfo, Tensor } from "../mod.ts";
const x = new Tensor([[1, 2, 3], [4, 5, 6]], { dtype: "float32" }), i = new Tensor([2, 0]);
const short = (v: unknown): unknown =>
  typeof v === "number" ? Number(v.toPrecision(6)) : Array.isArray(v) ? v.map(short) : v;
const shown = async (v: unknown): Promise<string> =>
  JSON.stringify(short(v instanceof Tensor ? await v.tolist() : v));
export { dtypes, fft, finfo, iinfo };
`;
  const lines = rows.map(({ ours, value }) => `console.log(await shown(${ours})); // ${value}`);
  return { file: PAGE, line: 1, code: `${head}${lines.join("\n")}\n`, attributes: "" };
}

const PYTHON = `
import json, sys, numpy as np, torch, torch.nn.functional as F
def plain(v):
    if isinstance(v, (torch.Tensor, np.ndarray, np.generic)): return v.tolist()
    return list(v) if isinstance(v, tuple) else str(v).split(".")[1] if isinstance(v, torch.dtype) else v
def short(v):
    if isinstance(v, list): return [short(a) for a in v]
    return float(f"{v:.6g}") if isinstance(v, float) else v
for section, text, value in json.load(sys.stdin):
    i = [2, 0]
    x = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    x, i = (torch.tensor(x), torch.tensor(i)) if section == "PyTorch" else (np.array(x, dtype=np.float32), np.array(i))
    got = short(plain(eval(text)))
    if got != json.loads(value): print(f"{text} is {got}, not {value}")
`;

if (import.meta.main) {
  const rows = phrases().filter(({ section }) => section !== "tinygrad");
  const python = new Deno.Command(Deno.env.get("PEER_PYTHON") ?? "python3", { args: ["-c", PYTHON], stdin: "piped" })
    .spawn();
  const writer = python.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(rows.map((r) => [r.section, r.theirs, r.value]))));
  await writer.close();
  const { success } = await python.status;
  console.log(`${rows.length} rows${success ? "" : ": Python failed"}`);
}
