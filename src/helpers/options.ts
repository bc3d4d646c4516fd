/**
 * Checks of arguments. An options object is checked by name and type: an unknown name is an error, never silently
 * ignored, and so is an option of another type; `undefined` is absent. What is positional has one check a kind.
 *
 * @module
 */
import { ArgumentError } from "./errors.ts";

/**
 * What an option is, by its name, wherever it occurs: what `typeof` says, and of numbers, whether they are integers, or
 * values, which may be NaN. What is not here is checked by who takes it.
 */
const TYPES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    boolean: "accumulate affine alignCorners assumeUnique averageAttnWeights batchFirst bias bidirectional buffer " +
      "ceilMode center classic compressed consume contiguous countIncludePad decoupledWeightDecay density " +
      "descending detectNegative detectPositive dropLast elementwiseAffine enabled enableGqa equalNan full fullMatrices fused gunzip hard " +
      "hasAux hermitian image invert isCausal keepdim largest left logInput logTarget logY needWeights nesterov " +
      "normalized normFirst onesided periodic preWd realize recomputeScaleFactor replacement requiresGrad " +
      "returnComplex returnCounts returnIndex returnIndices returnInverse reuseOutputs reverse right rng " +
      "shuffle sorted squared strict swap trackRunningStats training unitriangular unroll verbose warmup " +
      "withReplacement zeroInfinity",
    number:
      "a alpha b1 b2 backoffFactor baseLr beta budgetMs correction d decay delta dilationFactor divFactor dropout " +
      "dropoutP dx endFactor endLr eps etaMin factor finalDivFactor gamma growthFactor high initScale k " +
      "labelSmoothing layerNormEps low lower margin max maxLr maxVal mean min minDelta minLr minVal momentum " +
      "momentumDecay normType pctStart power rcond rho scale startFactor std tau tcoef threshold timeout weightDecay",
    integer:
      "batchSize bins blank cooldown decimals dim1 dim2 dimFeedforward divisorOverride growthInterval hopLength " +
      "ignoreIndex kdim keep maxBytes maxShardBytes minlength n nPowerIterations nsSteps numClasses numDecoderLayers numEncoderLayers numLayers " +
      "numSamples numWorkers offset outAxes patience prefetchFactor r stepSize stepSizeDown stepSizeUp t0 tMax " +
      "tMult topk totalIters totalSteps vdim warmupSteps winLength",
    value: "nan neginf posinf",
    string: "annealStrategy approximate device indexing interpolation mode nonlinearity norm paddingMode prefix " +
      "reduction scaleMode thresholdMode",
    function: "gradFxn",
  }).flatMap(([type, names]) => names.split(" ").map((name): [string, string] => [name, type])),
);

/**
 * Throws if `options` is no plain options object, has a name outside `allowed`, or a value of another type than the name
 * stands for. Gives the options, an object without any where there is none.
 *
 * @throws {ArgumentError} naming the action, the option at fault and what is known
 */
export function checkOptions<T>(action: string, options: T, allowed: readonly string[]): T {
  if (options === undefined) return {} as T;
  if (!isPlain(options)) {
    throw new ArgumentError(action, {
      reason: `the options must be an object with ${optionList(allowed)}, not ${describe(options)}`,
    });
  }
  for (const name in options) {
    const value = options[name], type = TYPES.get(name);
    if (!allowed.includes(name)) {
      throw new ArgumentError(action, { reason: `unknown option "${name}"; known are ${optionList(allowed)}` });
    }
    if (value !== undefined && type !== undefined && !isOf(type, value)) wrongType(action, name, type, value);
  }
  return options;
}

const WORDS: Readonly<Record<string, string>> = { string: "text", integer: "an integer", value: "a number" };

/** Whether something is an object literal, of whatever realm: a tensor, a date or a map among options is a mistake. */
export function isPlain(x: unknown): x is Record<string, unknown> {
  if (typeof x !== "object" || x === null || Array.isArray(x)) return false;
  const proto: unknown = Object.getPrototypeOf(x);
  return proto === null || Object.getPrototypeOf(proto) === null;
}

/** Whether a value is what its option's name stands for. */
function isOf(type: string, value: unknown): boolean {
  if (type === "integer") return Number.isSafeInteger(value);
  if (type === "number") return typeof value === "number" && !Number.isNaN(value);
  const own: string = typeof value;
  return own === (type === "value" ? "number" : type);
}

function wrongType(action: string, name: string, type: string, value: unknown): never {
  const what = WORDS[type] ?? `a ${type}`;
  throw new ArgumentError(action, { reason: `${name} must be ${what}, not ${describe(value)}` });
}

/** The value, if it is a boolean. @throws {ArgumentError} */
export function checkBoolean(action: string, name: string, value: unknown): boolean {
  return typeof value === "boolean" ? value : wrongType(action, name, "boolean", value);
}

/** The value, if it is a number, and not NaN: a rate, an exponent, a limit. @throws {ArgumentError} */
export function checkNumber(action: string, name: string, value: unknown): number {
  return typeof value === "number" && !Number.isNaN(value) ? value : wrongType(action, name, "number", value);
}

/** The value, if it is a number that elements may be: NaN, too. @throws {ArgumentError} */
export function checkValue(action: string, name: string, value: unknown): number {
  return typeof value === "number" ? value : wrongType(action, name, "value", value);
}

/** The value, if it is text. @throws {ArgumentError} */
export function checkText(action: string, name: string, value: unknown): string {
  return typeof value === "string" ? value : wrongType(action, name, "string", value);
}

/** The value, if it is a function. @throws {ArgumentError} */
export function checkFunction<F>(action: string, name: string, value: F): F {
  if (typeof value !== "function") return wrongType(action, name, "function", value);
  // of a class the prototype cannot be set
  if (Object.getOwnPropertyDescriptor(value, "prototype")?.writable !== false) return value;
  throw new ArgumentError(action, { reason: `${name} must be a function, not the class ${value.name}` });
}

/** What computes: a function, or a model, whose method `call` is one. */
export type Callable = ((...args: never[]) => unknown) | { call(...args: never[]): unknown };

/** The function that something is, or has as `call`. @throws {ArgumentError} for anything else */
export function checkCallable(action: string, name: string, value: Callable): (...args: never[]) => unknown {
  const isModel = typeof value === "object" && value !== null && typeof value.call === "function";
  return isModel ? value.call.bind(value) : checkFunction(action, name, value as (...args: never[]) => unknown);
}

/** The value, if it is a number, boolean or bigint. @throws {ArgumentError} */
export function checkScalar(action: string, name: string, value: unknown): number | boolean | bigint {
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return value;
  throw new ArgumentError(action, { reason: `${name} must be a number, boolean or bigint, not ${describe(value)}` });
}

/** The value, if it is one of these names. @throws {ArgumentError} */
export function checkChoice<T extends string>(action: string, name: string, value: unknown, known: readonly T[]): T {
  if (known.includes(value as T)) return value as T;
  const given = typeof value === "string" ? `"${value}"` : describe(value);
  throw new ArgumentError(action, { reason: `unknown ${name} ${given}; known are ${known.join(", ")}` });
}

/** Throws unless `value` is an integer of at least `min`. @throws {ArgumentError} */
export function checkInteger(action: string, name: string, value: unknown, min: number = -Infinity): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min) {
    throw new ArgumentError(action, {
      reason: `${name} must be an integer${min > -Infinity ? ` of at least ${min}` : ""}, not ${describe(value)}${
        Number.isInteger(value) && (value as number) >= min ? ", which is beyond 2^53" : ""
      }`,
    });
  }
  return value;
}

/** The most that a list may have which is made on the host, one by one: 2^24. */
const MOST_LISTED = 2 ** 24;

/**
 * {@linkcode checkInteger} of how many are made one by one on the host, where a size of a tensor, which is lazy, could be
 * larger. `most` is 2^24 unless given. @throws {ArgumentError}
 */
export function checkCount(
  action: string,
  name: string,
  value: unknown,
  min: number = 0,
  most: number = MOST_LISTED,
): number {
  if (checkInteger(action, name, value, min) > most) {
    throw new ArgumentError(action, { reason: `${name} must be at most ${most}, not ${value}` });
  }
  return value as number;
}

function optionList(names: readonly string[]): string {
  return names.length === 0 ? "none" : names.join(", ");
}

/** What an object is called in errors, where its class alone says too little; undefined: the class does. */
export const CALLED: unique symbol = Symbol("called");

/** A value in the text of an error: short, text in quotes, and of objects the name of their class. Never fails. */
export function describe(x: unknown): string {
  if (typeof x === "string") return JSON.stringify(x.length > 40 ? `${x.slice(0, 40)}...` : x);
  if (Array.isArray(x)) return `a list of ${x.length}`;
  if (typeof x === "function") return "a function";
  if (typeof x === "bigint") return `${x}n`;
  if (typeof x !== "object" || x === null) return String(x);
  const proto: unknown = Object.getPrototypeOf(x);
  if (proto === null || isPlain(x)) return "an object";
  if (CALLED in x && x[CALLED] !== undefined) return String(x[CALLED]);
  const name: unknown = Object.getOwnPropertyDescriptor(proto, "constructor")?.value?.name;
  if (typeof name !== "string" || name === "") return "an object";
  return `${/^([AEIO]|U(?!int|RL))/.test(name) ? "an" : "a"} ${name}`;
}

/** {@linkcode describe} of each entry, in brackets; of what is no list as it is. */
export function describeList(x: unknown): string {
  return Array.isArray(x) ? `[${Array.from(x, describe).join(", ")}]` : describe(x);
}

/** Refuses sizes or axes as arguments of their own, where they are one array. @throws {ArgumentError} with the right form */
export function checkAlone(action: string, first: unknown, more: readonly unknown[]): void {
  if (more.length === 0) return;
  throw new ArgumentError(action, {
    reason: `it takes one array, not ${more.length + 1} arguments: ${action}([${
      [first, ...more].map(describe).join(", ")
    }])`,
  });
}
