/**
 * Mixed precision by op: `autocast(() => model.call(x))` computes products in float16 or bfloat16, and what loses by that in
 * float32; all else in the dtype it is given. In: the methods of Tensor; out: the same, which cast their tensors while
 * autocast holds. They get this form when autocast is first asked for: programs without it pay nothing.
 *
 * Which ops these are is PyTorch's choice for CUDA ("Automatic Mixed Precision package", its op reference), and that for
 * CPUs where that has more: reductions, norms, exponentials and losses in float32.
 *
 * @module
 */
import { type Checked, type DeviceName, knownDevice } from "../../device/device.ts";
import { type DType, type DTypeLike, dtypes, toDType } from "../../dtype/dtype.ts";
import { currentHold, Hold, openHold, runHolding } from "../../helpers/async_local.ts";
import { ArgumentError, DTypeError } from "../../helpers/errors.ts";
import { checkBoolean, checkFunction, checkOptions, describe } from "../../helpers/options.ts";
import { isTensor, type TensorBase } from "../handle/base.ts";
import { formMethods } from "../handle/members.ts";
import { Tensor } from "../tensor.ts";

/** Options of {@linkcode autocast}. */
export interface AutocastOptions {
  /** Of the products: "float16" or "bfloat16"; bfloat16 unless given, float16 where the device is CUDA. */
  readonly dtype?: DTypeLike;
  /** Casts tensors of this device alone; of all unless given. */
  readonly device?: DeviceName;
  /** False lets ops compute in the dtypes they are given, as in a part of what autocast holds for; true unless given. */
  readonly enabled?: boolean;
}

/** Computed in the low dtype: matrix units do them, and add up in float32. */
const LOW =
  "dot matmul linear mm vecdot bmm mv addmm addmv addbmm baddbmm multiDot inner tensordot matrixPower conv2d " +
  "convTranspose2d scaledDotProductAttention";
/** Computed in float32, where the low dtype overflows or loses too much. */
const HIGH =
  "pow constantPower floatPower exp exp2 expm1 log log2 log10 log1p reciprocal rsqrt tan asin acos sinh cosh " +
  "erfinv softplus xlogy sum nansum prod cumsum cumprod logcumsumexp logsumexp norm vectorNorm matrixNorm dist cdist cov " +
  "corrcoef quantile nanquantile trapezoid cumulativeTrapezoid softmax logSoftmax softmin layernorm normalize " +
  "localResponseNorm cosineSimilarity pairwiseDistance mseLoss l1Loss huberLoss smoothL1Loss klDiv poissonNllLoss " +
  "gaussianNllLoss cosineEmbeddingLoss marginRankingLoss hingeEmbeddingLoss softMarginLoss multilabelSoftMarginLoss " +
  "multilabelMarginLoss multiMarginLoss tripletMarginLoss ctcLoss nllLoss crossEntropy " +
  "sparseCategoricalCrossentropy binaryCrossentropy " +
  "binaryCrossentropyLogits gridSample fft ifft rfft irfft stft istft trace qr svd svdvals cholesky solve inv det " +
  "eigh eigvalsh lu luFactor luSolve slogdet solveTriangular choleskySolve matrixRank pinv lstsq cond matrixExp " +
  "ldlFactor ldlSolve choleskyInverse householderProduct ormqr logdet tensorinv tensorsolve eig eigvals lobpcg";
/** Left as they are: they call functions of the user's, or wait. */
const OPEN = "constructor sequential call customKernel toString toJSON data tolist item dataSync tolistSync itemSync " +
  "realize schedule kernelize assign replace dispose backward gradient";

const MODE_OF: ReadonlyMap<string, "low" | "high" | "open"> = new Map(
  ([["low", LOW], ["high", HIGH], ["open", OPEN]] as const).flatMap(([mode, names]) =>
    names.split(" ").map((name) => [name, mode] as const)
  ),
);

/** That autocast holds, or, without a dtype, that it does not. */
class CastHold extends Hold {
  override readonly building: string;
  constructor(readonly low: DType | undefined, readonly device: string | undefined) {
    super(currentHold());
    this.building = `autocast=${low ?? ""}@${device ?? ""} `;
  }

  /** What `x` is to `op`: tensors of the device, alone or in a list, in `to`. Integers and float64 stay. */
  cast(x: unknown, to: DType): unknown {
    if (Array.isArray(x)) return x.some(isTensor) ? x.map((t) => this.cast(t, to)) : x;
    if (!isTensor(x) || x.dtype === to || !(x.dtype === dtypes.float32 || isLow(x.dtype))) return x;
    if (this.device !== undefined && x.device !== this.device && !x.device.startsWith(`${this.device}:`)) return x;
    return (x as Tensor).cast(to);
  }
}

function isLow(d: DType): boolean {
  return d === dtypes.float16 || d === dtypes.bfloat16;
}

/** What holds here. */
function current(): CastHold | undefined {
  for (let h = currentHold(); h !== undefined; h = openHold(h.outer)) {
    if (h instanceof CastHold) return h.low === undefined ? undefined : h;
  }
  return undefined;
}

/** Whether an op runs that has its operands: what it calls computes with them as they are. */
let inside = false;

type Method = (this: TensorBase, ...args: unknown[]) => unknown;

/** `method` as it is while autocast holds, and when it does not. */
function casting(method: Method, mode: "low" | "high" | undefined): Method {
  return function (this: TensorBase, ...args: unknown[]): unknown {
    const hold = inside ? undefined : current();
    if (hold === undefined) return method.apply(this, args);
    inside = true;
    try {
      if (mode === undefined) return method.apply(this, args);
      const to = mode === "low" ? hold.low! : dtypes.float32;
      const self = isTensor(this) ? hold.cast(this, to) as TensorBase : this;
      return method.apply(self, args.map((x) => hold.cast(x, to)));
    } finally {
      inside = false;
    }
  };
}

let isInstalled = false;

/** Gives the methods of Tensor the form that asks whether autocast holds. */
function install(): void {
  if (isInstalled) return;
  isInstalled = true;
  formMethods(Tensor, (name, d) => {
    const mode = MODE_OF.get(String(name)), method: unknown = d.value;
    if (typeof name !== "string" || typeof method !== "function" || mode === "open") return d;
    return { ...d, value: casting(method as Method, mode) };
  });
  Object.defineProperty(Tensor, "einsum", { value: casting(Tensor.einsum as Method, "low") });
}

/**
 * Runs `fn` in mixed precision: matrix products, convolutions and attention take float32 tensors as float16 or bfloat16,
 * exponentials, reductions, norms and losses take those as float32, and all other ops compute in the dtypes that they are
 * given. Weights stay float32, and so do their gradients. It holds for `fn` and what it awaits. In `jit`, call it within
 * the function; with float16, scale the loss by `nn.optim.GradScaler`.
 *
 * ```ts
 * import { autocast, nn, Tensor } from "../../../mod.ts";
 * const layer = new nn.Linear(4, 2), x = Tensor.rand([3, 4]);
 * const loss = autocast({ dtype: "bfloat16" }, () => {
 *   const y = layer.call(x);
 *   console.log(y.dtype.name, y.relu().dtype.name, y.softmax().dtype.name); // bfloat16 bfloat16 float32
 *   return y.crossEntropy(new Tensor([0, 1, 1]));
 * });
 * console.log(loss.backward().dtype.name, layer.weight.grad!.dtype.name); // float32 float32
 * ```
 *
 * @throws {DTypeError} for another dtype {DeviceError} for an unknown device {ArgumentError} for a generator, and in
 * browsers for an async `fn`
 */
export function autocast<T, N extends string = string>(options: Checked<AutocastOptions, N>, fn: () => T): T;
/** With bfloat16. */
export function autocast<T>(fn: () => T): T;
/** As PyTorch has it: the device first. */
export function autocast<T, N extends string = string>(device: DeviceName<N>, fn: () => T): T;
/** With options behind the device. */
export function autocast<T, N extends string = string>(
  device: DeviceName<N>,
  options: Checked<Omit<AutocastOptions, "device">, N>,
  fn: () => T,
): T;
export function autocast<T>(...args: readonly unknown[]): T {
  const action = "compute in mixed precision", fn = args[args.length - 1] as () => T;
  checkFunction(action, "fn", fn);
  const given = args.slice(0, -1), device = typeof given[0] === "string" ? given.shift() as string : undefined;
  if (given.length > 1) {
    throw new ArgumentError(action, {
      reason: `it takes a device, options and a function, not ${given.length} arguments beside them: ${
        given.map(describe).join(", ")
      }`,
    });
  }
  const known = device === undefined ? ["dtype", "device", "enabled"] : ["dtype", "enabled"];
  const options = checkOptions(action, given[0] as AutocastOptions, known);
  const where = device ?? options.device, home = where === undefined ? undefined : knownDevice(where);
  const isOn = options.enabled === undefined || checkBoolean(action, "enabled", options.enabled);
  const low = options.dtype === undefined
    ? home?.startsWith("CUDA") ? dtypes.float16 : dtypes.bfloat16
    : toDType(options.dtype);
  if (!isLow(low)) {
    throw new DTypeError(`${action} of dtype`, { dtypes: [low], reason: "it must be float16 or bfloat16" });
  }
  if (isOn) install();
  return runHolding(new CastHold(isOn ? low : undefined, home), "autocast()", fn, () => {});
}
