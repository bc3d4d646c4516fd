/**
 * Weights divided by their largest singular value (T. Miyato, T. Kataoka, M. Koyama and Y. Yoshida, "Spectral Normalization
 * for Generative Adversarial Networks", 2018). In: a layer. Out: the same layer, whose weight is computed wherever it is
 * read, by vectors that follow the singular ones in training.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { rangeOf } from "../../helpers/math.ts";
import { checkInteger, checkOptions } from "../../helpers/options.ts";
import { resolveAxis } from "../../tensor/handle/axes.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { ConvTranspose2d } from "./conv_layers.ts";
import { computed, type Fields, fieldsOf, ownCopy, restored, weightOf } from "./computed_weight.ts";

/** What {@linkcode spectralNorm} adds to a layer: the weight as it is trained, and both singular vectors, `[n]` and `[m]`. */
export type SpectralNormed<T, N extends string> = T & { readonly [K in `${N}Orig` | `${N}U` | `${N}V`]: Tensor };

/** Options of {@linkcode spectralNorm}. */
export interface SpectralNormOptions {
  /** The axis of outputs: 0 unless given, 1 of transposed convolutions. */
  readonly dim?: number;
  /** Iterations of the power method each time that the weight is read in training; 1 unless given. */
  readonly nPowerIterations?: number;
  /** Shorter vectors are taken as this long; 1e-12 unless given. */
  readonly eps?: number;
}

/** The left and the right singular vector, or what follows them. */
type Vectors = readonly [left: Tensor, right: Tensor];

/** A weight divided by what the vectors take for the singular value of its matrix. */
function divided(weight: Tensor, matrix: Tensor, [left, right]: Vectors): Tensor {
  return weight.div(left.mul(matrix.matmul(right)).sum());
}

/** Iterations that the vectors begin with. */
const FIRST_ITERATIONS = 15;

/**
 * Divides the weight `name` of a layer by its largest singular value, as PyTorch's `nn.utils.spectral_norm`: of the matrix
 * of axis `dim` by all others. The parameter is then `weightOrig`; `weightU` and `weightV` are no parameters, and follow the
 * singular vectors in `Tensor.train`. Gives the layer, whose `weight` is computed wherever it is read. Make the optimizer
 * afterwards.
 *
 * ```ts
 * import { nn, state } from "../../../mod.ts";
 * const layer = nn.utils.spectralNorm(new nn.Linear(3, 2));
 * console.log(Object.keys(state.getStateDict(layer))); // ["bias", "weightOrig", "weightU", "weightV"]
 * ```
 *
 * @throws {ArgumentError} where the layer has no such tensor, or it is normed already @throws {ShapeError} for another axis
 */
export function spectralNorm<T extends object, N extends string = "weight">(
  layer: T,
  name: N = "weight" as N,
  options: SpectralNormOptions = {},
): SpectralNormed<T, N> {
  const action = "norm a weight by its spectrum", fields = fieldsOf(action, layer, name);
  const [orig, u, v] = [`${name}Orig`, `${name}U`, `${name}V`];
  const { dim = layer instanceof ConvTranspose2d ? 1 : 0, nPowerIterations = 1, eps = 1e-12 } = checkOptions(
    action,
    options,
    ["dim", "nPowerIterations", "eps"],
  );
  checkInteger(action, "nPowerIterations", nPowerIterations, 1);
  if (fields[orig] instanceof Tensor) {
    throw new ArgumentError(action, { reason: `${name} of the layer is normed already` });
  }
  const weight = weightOf(action, fields, name), axis = resolveAxis(action, dim, weight.shape);
  const order = [axis, ...rangeOf(weight.ndim).filter((i) => i !== axis)];
  // a vector is a matrix of one column: its only singular value is its length
  const matrixOf = (t: Tensor): Tensor => t.permute(order).reshape([t.shape[axis], -1]);
  const follow = (matrix: Tensor, [left, right]: Vectors, count: number): Vectors => {
    for (let i = 0; i < count; i++) {
      right = matrix.transpose().matmul(left).normalize({ dim: 0, eps });
      left = matrix.matmul(right).normalize({ dim: 0, eps });
    }
    return [left, right];
  };
  const first = matrixOf(weight.detach()), { dtype, device } = weight;
  const begin = Tensor.randn([first.shape[0]], { dtype, device }).normalize({ dim: 0, eps });
  const vectors = follow(first, [begin, begin], FIRST_ITERATIONS).map((t) => ownCopy(t));
  for (const t of vectors) t.requiresGrad = false;
  Object.assign(fields, { [orig]: ownCopy(weight), [u]: vectors[0], [v]: vectors[1] });
  computed(fields, name, (own: Fields) => {
    const whole = own[orig] as Tensor, matrix = matrixOf(whole), kept = [own[u], own[v]] as [Tensor, Tensor];
    if (!Tensor.training) return divided(whole, matrix, kept);
    const next = follow(matrix.detach(), kept, nPowerIterations);
    kept.forEach((t, i) => t.assign(next[i]));
    return divided(whole, matrix, next);
  });
  return layer as SpectralNormed<T, N>;
}

/**
 * Undoes {@linkcode spectralNorm}: the weight is a parameter again, with the value that it has.
 *
 * ```ts
 * import { nn, state } from "../../../mod.ts";
 * const layer = nn.utils.removeSpectralNorm(nn.utils.spectralNorm(new nn.Linear(3, 2)));
 * console.log(Object.keys(state.getStateDict(layer)).sort()); // ["bias", "weight"]
 * ```
 *
 * @throws {ArgumentError} where that weight is not normed
 */
export function removeSpectralNorm<T extends object>(layer: T, name = "weight"): T {
  const action = "undo the spectral norm of a weight", fields = fieldsOf(action, layer, name), orig = `${name}Orig`;
  if (!(fields[orig] instanceof Tensor)) {
    throw new ArgumentError(action, { reason: `${name} of the layer is not normed` });
  }
  restored(fields, name, orig, [orig, `${name}U`, `${name}V`]);
  return layer;
}
