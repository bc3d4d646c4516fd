/** Random words on every device: Random123's known answers, and those of JAX 0.10.2 (`jax.random.bits(key(seed), (6,))`). */
import { assertEquals } from "@std/assert";
import { Tensor } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

const JAX: readonly [seed: number, words: readonly number[]][] = [
  [0, [4070199207, 4202968722, 1427181096, 2012915765, 2447653815, 710830403]],
  [1, [1883912375, 2292451390, 1915204986, 1882898417, 3854144420, 2400655036]],
  [7, [2895194379, 4185947648, 1300703658, 1906787632, 3139134342, 2709822315]],
  [42, [2098992034, 2919706841, 2646866425, 2409546199, 1935504149, 2516274904]],
  [123456789, [1234914217, 2979648120, 1727634118, 3045616527, 1956778536, 3263888465]],
  [2 ** 31 - 1, [840997797, 1235506558, 1419036569, 1650994062, 3053628459, 3320296850]],
  [2 ** 32 - 1, [2226700399, 2348827549, 2002407339, 3973470413, 1347664280, 1591134625]],
];
/** threefry2x32-20 of a 64-bit counter under a 64-bit key, low words first: Random123's kat_vectors. */
const RANDOM123: readonly [counter: bigint, key: bigint, want: bigint][] = [
  [0n, 0n, 0x99ba4efe_6b200159n],
  [0xffffffff_ffffffffn, 0xffffffff_ffffffffn, 0xbb002be7_1cb996fcn],
  [0x85a308d3_243f6a88n, 0x03707344_13198a2en, 0x483df7a0_c4923a9cn],
];

for (const device of await devicesHere()) {
  Deno.test(`random ${device}: words are Random123's and JAX's, and rand is jax.random.uniform`, async () => {
    const at = { device };
    for (const [seed, want] of JAX) {
      const key = new Tensor([0, seed], { dtype: "uint32", ...at });
      assertEquals(await Tensor.randomBits(key, 0, 6).tolist(), want);
    }
    for (const [counter, key, want] of RANDOM123) {
      const x = new Tensor([counter], { dtype: "uint64", ...at }), k = new Tensor([key], { dtype: "uint64", ...at });
      assertEquals((await x.threefry(k).data())[0], want);
    }
    Tensor.manualSeed(42);
    const uniform = await Tensor.rand([4], at).tolist();
    assertEquals(uniform, [0.48870956897735596, 0.6797971725463867, 0.6162714958190918, 0.5610160827636719]);
  });
}
