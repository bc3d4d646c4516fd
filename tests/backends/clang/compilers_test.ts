/**
 * CLANG by each C compiler that is here: the same programs, in a process a compiler, give the same values as JS. (The
 * golden and program suites under gcc are a run of tests/run.ts.) Products of bytes also as for processors that lack some of
 * the instructions of this one.
 */
import assert from "node:assert/strict";
import { findCompiler } from "../../../backends/clang/toolchain.ts";
import { context, Device } from "../../../mod.ts";
import { inFolder } from "../../support/folder.ts";
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

const clang = here.find((CC) => CC.startsWith("clang"));
Deno.test({
  name: "CLANG by clang: a linker that fails is called by the compiler, which knows another",
  ignore: clang === undefined || Deno.build.os !== "linux",
  fn: () =>
    inFolder(async (folder) => {
      // compilers say where the output is by -o after other options, we at once
      const script = '#!/bin/sh\n[ "$2" = -o ] && echo called >> "${0%/*}/log" && exit 1\nexec /usr/bin/ld "$@"\n';
      await Deno.writeTextFile(`${folder}/ld`, script, { mode: 0o755 });
      const program = `import { Tensor } from ${JSON.stringify(new URL("mod.ts", ROOT).href)};
        console.log(String(await Tensor.arange(5, { device: "CLANG" }).mul(3).add(0.5).data()));`;
      const { code, stdout, stderr } = await runDeno(
        ["run", "-A", "--no-check", `data:application/typescript,${encodeURIComponent(program)}`],
        { env: { DEV: "", CC: clang!, XDG_CACHE_HOME: folder, PATH: `${folder}:${Deno.env.get("PATH")}` } },
      );
      assert.equal(code, 0, stderr);
      assert.equal(stdout.trim(), "0.5,3.5,6.5,9.5,12.5");
      assert.match(await Deno.readTextFile(`${folder}/log`), /called/);
    }),
});

/** Products of bytes `[m, k]` and `[n, k]` in words of so many rows, against their integers. */
const BYTES = `
import { Device, Tensor } from ${JSON.stringify(new URL("mod.ts", ROOT).href)};
let seed = 7;
const byte = () => [0, 255, 128, seed & 255][(seed = Math.imul(seed, 1103515245) + 12345 | 0) >>> 30];
const device = "CLANG", bad = [];
const { compiler } = Device.get(device), compile = compiler.compile.bind(compiler);
let source = "";
compiler.compile = (list) => {
  const made = compile(list);
  source += made.map((p) => p.source).join("");
  return made;
};
for (const [m, n, k] of [[1, 16, 64], [1, 64, 36], [5, 33, 20], [1, 1, 64]]) {
  const a = Uint8Array.from({ length: m * k }, byte), b = Int8Array.from({ length: n * k }, byte);
  const put = (data, shape, dtype) => new Tensor([...data], { device }).cast(dtype).reshape(shape).contiguous().realize();
  const x = put(a, [m, k], "uint8"), lies = n % 16 === 0;
  const w = lies
    ? put(b, [n, k], "int8").reshape([n / 16, 16, k / 4, 4]).permute([0, 2, 1, 3]).contiguous().realize()
      .permute([0, 2, 1, 3]).reshape([n, k])
    : put(b, [n, k], "int8");
  const got = await x.cast("int32").matmul(w.cast("int32").transpose(0, 1)).data();
  for (let i = 0; i < m * n; i++) {
    let want = 0;
    for (let l = 0; l < k; l++) want += a[Math.floor(i / n) * k + l] * b[i % n * k + l];
    if (got[i] !== want) bad.push([m, n, k, i, got[i], want]);
  }
}
console.log(JSON.stringify({ bad, dots: /\\bdot(_x\\d+)?\\(/.test(source) }));`;

/** Processors by the name that compilers have for them, the flags that this one must have for it, and all that it has. */
const PROCESSORS: readonly (readonly [name: string, flags: readonly string[]])[] = [
  ["haswell", ["avx2", "fma", "bmi2", "f16c"]], // pairs of products, 32 bytes
  ["skylake-avx512", ["avx512bw", "avx512vl", "avx512dq", "avx512cd"]], // pairs of products, 64 bytes
  ["cascadelake", ["avx512_vnni", "avx512bw", "avx512vl", "avx512dq", "avx512cd"]], // sums of four
  ["alderlake", ["avx_vnni", "avx2"]], // sums of four, 32 bytes
];
function flagsHere(): ReadonlySet<string> {
  try {
    return new Set(/^flags\s*:\s*(.*)$/m.exec(Deno.readTextFileSync("/proc/cpuinfo"))?.[1].split(" "));
  } catch {
    return new Set();
  }
}
const flags = flagsHere(), processors = PROCESSORS.filter(([, needs]) => needs.every((f) => flags.has(f)));

for (const CC of here.filter((name) => name === "gcc" || name === "clang-19")) {
  for (const [name] of processors) {
    Deno.test(`CLANG by ${CC} as for ${name}: products of bytes are their integers`, async () => {
      await inFolder(async (folder) => {
        const path = context({ CC }, () => findCompiler()!), url = `data:text/javascript,${encodeURIComponent(BYTES)}`;
        const each = `for a in "$@"; do [ "$a" = -march=native ] && a=-march=${name}; set -- "$@" "$a"; shift; done`;
        Deno.writeTextFileSync(`${folder}/cc`, `#!/bin/sh\n${each}\nexec ${path} "$@"\n`, { mode: 0o755 });
        const env = { DEV: "", NOOPT: "0", CC: `${folder}/cc`, CACHEDIR: folder };
        const { code, stdout, stderr } = await runDeno(["run", "-A", "--no-check", url], { env });
        assert.equal(code, 0, stderr);
        assert.deepEqual(JSON.parse(stdout), { bad: [], dots: true });
      });
    });
  }
}
if (here.length === 0) Deno.test({ name: "CLANG by each compiler", ignore: true, fn: () => {} });
