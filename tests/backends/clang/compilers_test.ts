/**
 * CLANG by each C compiler that is here: the same programs, in a process a compiler, give the same values as JS. (The
 * golden and program suites under gcc are a run of tests/run.ts.)
 */
import assert from "node:assert/strict";
import { findCompiler } from "../../../backends/clang/toolchain.ts";
import { context, Device } from "../../../mod.ts";
import { ROOT, runDeno } from "../../system/subprocess.ts";

/** Compilers by the names of Debian's packages, and as a system's own. */
const NAMES = ["gcc", "gcc-11", "gcc-13", "gcc-14", "clang", "clang-14", "clang-16", "clang-19"];
const here = Device.list().find((d) => d.name === "CLANG")!.available
  ? NAMES.filter((CC) => context({ CC }, () => findCompiler()) !== undefined)
  : [];

/** Reads of several neighbors under conditions in a loop, of constant and of variable length; and what vectors are made of. */
const PROGRAM = `
import { context, Device, jit, Tensor, Variable } from ${JSON.stringify(new URL("mod.ts", ROOT).href)};
const n = new Variable("n", 3, 80);
const values = Float32Array.from({ length: 320 }, (_, i) => ((i * 37) % 23 - 11) / 4);
async function results(device) {
  Device.default = device;
  const all = new Tensor(values).reshape([80, 4]).realize(), out = [];
  const f = jit((all, n) => {
    const x = all.at([0, n]), square = x.matmul(x.T);
    return [square.tril(-1), square.triu(1), x.pad([[2, 1], [1, 3]]).add(1), x.cumsum(0)].map((t) => t.realize());
  });
  for (const size of [5, 3, 33, 80]) for (const t of f(all, n.bind(size))) out.push([...await t.data()]);
  const x = new Tensor(values).reshape([16, 20]).realize();
  const y = [
    x.gt(0).where(x, x.mul(2)), x.tril(), x.triu(-3), x.cast("int8"), x.cast("uint16").bitwiseXor(3), x.maximum(x.flip([0])),
    x.pad([[1, 1], [1, 1]]).avgPool2d(2), x.at(new Tensor([0, 3, 3, 15])), x.sort(1)[0], x.argmax(1), x.half().add(0.25),
    x.reshape([1, 1, 16, 20]).maxPool2d(3, { stride: 2, padding: 1 }), x.cast("int64").mod(7), x.lt(0).logicalNot(),
  ];
  for (const t of y) out.push([...await t.data()].map(Number));
  return out;
}
const got = await results("CLANG"), want = await results("JS");
const bad = want.flatMap((w, i) => w.every((x, j) => Math.abs(x - got[i][j]) <= 1e-5 * Math.max(1, Math.abs(x))) ? [] : [i]);
console.log(JSON.stringify({ bad, results: want.length, compiler: Device.get("CLANG").info().compiler }));`;

for (const CC of here) {
  Deno.test(`CLANG by ${CC}: the values of JS`, async () => {
    const url = `data:application/typescript,${encodeURIComponent(PROGRAM)}`;
    const { code, stdout, stderr } = await runDeno(["run", "-A", "--no-check", url], { env: { DEV: "", CC } });
    assert.equal(code, 0, stderr);
    const { bad, results, compiler } = JSON.parse(stdout);
    assert.deepEqual([bad, results], [[], 30], compiler);
    assert.match(compiler, new RegExp(`/${CC}$`));
  });
}
if (here.length === 0) Deno.test({ name: "CLANG by each compiler", ignore: true, fn: () => {} });
