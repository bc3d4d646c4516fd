/**
 * Bad matrices: random ones beside good ones on every device, shapes that functions of matrices cannot take, and nothing.
 * Long runs are by hand: matrices.ts.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { ArgumentError, DTypeError, ShapeError, Tensor } from "../../mod.ts";
import { devicesHere } from "../fixtures/devices.ts";
import { onDevice } from "../support/on_device.ts";
import { fuzzMatrices, MATRIX_FUNCTIONS, type MatrixCase, matrixCase, wrongMatrices } from "./matrices.ts";

const names = Object.keys(MATRIX_FUNCTIONS);
const devices = await devicesHere("SIM");

for (const device of devices) {
  Deno.test(`matrices: random bad ones beside good ones on ${device}`, async () => {
    const report = await fuzzMatrices({
      seed: 20261127,
      count: device === "CLANG" || device === "WEBGPU" ? 8 : 20,
      device,
    });
    assertEquals(report.failures, []);
  });
}

/** The outcome of a function, read. */
async function outcome(name: string, a: Tensor): Promise<readonly number[][] | Error> {
  try {
    const made = [await MATRIX_FUNCTIONS[name].of(a)].flat() as Tensor[];
    for (const t of made) await t.data();
    return made.map((t) => [...t.shape]);
  } catch (error) {
    return error as Error;
  }
}

for (const device of devices) {
  Deno.test(`matrices: shapes that are none, on ${device}`, () =>
    onDevice(device, async () => {
      for (const name of names) {
        const { anyShape } = MATRIX_FUNCTIONS[name];
        for (const shape of [[], [3], ...anyShape ? [] : [[2, 3], [3, 2], [2, 1, 3]]]) {
          const found = await outcome(name, Tensor.full(shape, 2.5));
          const what = `${name} of [${shape}] on ${device}: ${found}`;
          // parts of it may be taken before the function itself is asked
          const isNamed = [ShapeError, ArgumentError, DTypeError].some((kind) => found instanceof kind) ||
            found instanceof RangeError;
          assert(isNamed, what);
          assertMatch((found as Error).message, /^Cannot /, what);
        }
      }
    }));

  Deno.test(`matrices: none, and those without elements, on ${device}`, () =>
    onDevice(device, async () => {
      for (const name of names) {
        const one = await outcome(name, Tensor.eye(3).unsqueeze(0)) as readonly number[][];
        const none = await outcome(name, Tensor.zeros([0, 3, 3]));
        assertEquals(none, one.map((shape) => [0, ...shape.slice(1)]), `${name} of [0, 3, 3] on ${device}: ${none}`);
        for (const shape of [[2, 0, 0], [0, 0], ...MATRIX_FUNCTIONS[name].anyShape ? [[0, 3], [3, 0]] : []]) {
          const found = await outcome(name, Tensor.zeros(shape));
          if (found instanceof Error) {
            assert(found instanceof ShapeError || found instanceof RangeError, `${name} of [${shape}]: ${found}`);
            assertMatch(found.message, /^Cannot /);
          } else {assertEquals(
              found.map((s) => s.slice(0, shape.length - 2)),
              found.map(() => shape.slice(0, -2)),
              name,
            );}
        }
      }
    }));
}

Deno.test("matrices: cases vary, and what is wrong is found", async () => {
  const kinds = new Set(
    Array.from({ length: 60 }, (_, i) => matrixCase(1, i)).flatMap((c) => [
      c.name,
      c.dtype,
      ...c.matrices.map(([k]) => k),
    ]),
  );
  assert(kinds.size > 30, [...kinds].join());
  const spoiled = {
    name: "logdet",
    dtype: "float32",
    rows: 2,
    columns: 2,
    matrices: [["good", [[1, 2], [2, 1]]]],
  } as const;
  assertMatch((await onDevice("JS", () => wrongMatrices(spoiled as unknown as MatrixCase))) ?? "", /though it is good/);
});

Deno.test("matrices: eigenvectors of one number that is NaN are NaN, beside a good one", () =>
  onDevice("JS", async () => {
    for (const dtype of ["float32", "complex64"] as const) {
      const [values, vectors] = new Tensor([[[NaN]], [[2]]], { dtype }).eigh();
      assertEquals(await values.tolist(), [[NaN], [2]]);
      assertEquals(await vectors.abs().tolist(), [[[NaN]], [[1]]]);
    }
  }));
