/**
 * Programs of reads, views and writes as data, and as a person would write them. What a statement means for the library is
 * in assignments.ts, and for the model in assignments_model.ts.
 */

/** What tensors hold here. */
export type Kind = "int32" | "uint32" | "int16" | "uint8" | "float32";

/** Part of an index: a position, a slice, positions of an axis, where a tensor is positive, or a window at a variable. */
export type Part =
  | number
  | ":"
  | readonly (number | null)[]
  | { readonly at: readonly number[] }
  | { readonly gt: string }
  | { readonly bound: readonly [start: number, count: number, max: number] };

/** One statement, as data: what it means for the library is in assignments.ts. */
export interface Statement {
  readonly op:
    | "leaf"
    | "view"
    | "value"
    | "assign"
    | "setAt"
    | "inplace"
    | "realize"
    | "read"
    | "scope"
    | "jit"
    | "call"
    | "optimizer"
    | "stepper"
    | "step"
    | "failing"
    | "grad"
    | "slopes"
    | "slope";
  readonly to?: string;
  readonly on?: string;
  readonly how?: string;
  readonly dtype?: Kind;
  readonly shape?: readonly number[];
  readonly values?: number[];
  readonly list?: readonly number[];
  readonly index?: readonly Part[];
  readonly value?: string | number;
  readonly names?: readonly string[];
  readonly body?: readonly Statement[];
  readonly params?: readonly string[];
  readonly result?: string;
  /** Whether a function gives a value computed from its result, and not that itself. */
  readonly isValue?: boolean;
  readonly terms?: readonly (readonly [number, number, boolean])[];
}

function partText(part: Part): string {
  if (typeof part !== "object") return JSON.stringify(part);
  if ("at" in part && Array.isArray(part.at)) return `new Tensor([${part.at.join(", ")}])`;
  if ("gt" in part) return `${part.gt}.gt(0)`;
  if ("bound" in part) {
    const [start, count, max] = part.bound;
    return `[p(${start}, ${max}), p(${start}, ${max}).add(${count})]`;
  }
  return JSON.stringify(part);
}

/** Ways to write a value that is another one. */
export const SAME = 8;
/** From this one on they compute nothing: who reads them before they are realized reads the other one. */
export const SAME_NODES = 4;
/** Those from this one on copy: to assign all of what they give may be a mistake. */
export const SAME_COPIES = 6;
function sameText(x: string, way: number): string {
  if (way === 2) return `new Tensor(true).where(${x}, ${x})`;
  const calls = ["mul(1)", "add(0)", "", "contiguous()", "pow(1)", "repeatInterleave(1, 0)", "pad([0, 0])", "roll(0)"];
  return `${x}.${calls[way]}`;
}

/** Ways to call a jit function. */
const MODES = { nested: " // called by another one", check: " // with JIT_CHECK=1", off: " // with JIT=0" };

/** A statement as a person would write it. */
export function textOf(s: Statement): string {
  const index = s.index?.map(partText).join(", "), list = JSON.stringify(s.list), to = `const ${s.to} = ${s.on}`;
  switch (s.op) {
    case "leaf": {
      const end = s.how === "realized"
        ? ".realize()"
        : s.how === "clone"
        ? ".clone()"
        : s.how === "weight"
        ? ".realize(); // requiresGrad"
        : "";
      return `const ${s.to} = new Tensor([${s.values!.join(", ")}], { dtype: "${s.dtype}" })` +
        `.reshape([${s.shape!.join(", ")}])${end};`;
    }
    case "view":
      if (s.how === "at") return `${to}.at(${index});`;
      if (s.how === "detach") return `${to}.detach();`;
      if (s.how === "bitcast") return `${to}.bitcast("${s.dtype}");`;
      if (s.how === "shrink") return `${to}.shrink(${JSON.stringify(s.list!.map((x, i) => [x, s.shape![i]]))});`;
      return `${to}.${s.how}(${list});`;
    case "value":
      switch (s.how) {
        case "max":
          return `${to}.maximum(${s.value});`;
        case "sum":
          return `${to}.sum(${s.list![0]});`;
        case "scan":
          return `${to}.cumsum(${s.list![0]});`;
        case "total":
          return `${to}.sum().add(${s.on}.flip(0));`;
        case "expand":
          return `${to}.unsqueeze(0).expand([2, ...${s.on}.shape]);`;
        case "pick":
          return `${to}.at(new Tensor(${list}));`;
        case "same":
          return `const ${s.to} = ${sameText(s.on!, s.list![0])};`;
        case "clone":
        case "contiguous":
          return `${to}.${s.how}();`;
      }
      return `${to}.${s.how}(${s.value});`;
    case "assign":
      return `${s.on}.assign(${s.value});`;
    case "setAt":
      return `${s.on}.setAt([${index}], ${s.value});`;
    case "inplace":
      return `${s.on}.${s.how}InPlace(${s.value});`;
    case "realize":
      return `Tensor.realize([${s.names!.join(", ")}]);`;
    case "read":
      return `await ${s.on}.tolist();`;
    case "scope":
      return `scope(() => {\n  ${s.body!.map(textOf).join("\n  ")}\n});`;
    case "jit": {
      return `const ${s.to} = jit((${s.params!.join(", ")}) => {\n  ${s.body!.map(textOf).join("\n  ")}\n  ` +
        `return ${s.result}${s.isValue ? ".mul(1)" : ""};\n});${MODES[s.how as keyof typeof MODES] ?? ""}`;
    }
    case "call":
      return `${to}(${s.names!.join(", ")});`;
    case "optimizer":
      return `const ${s.to} = new nn.optim.SGD([${s.names!.join(", ")}], { lr: 0.25, momentum: ${
        s.list![0] / 2
      } }); // ${s.list![1] === 1 ? "with its gradients, " : ""}of ` +
        s.terms!.map(([a, b, apart]) =>
          apart ? `${s.names![a]}.sum().mul(${s.names![b]}.sum())` : `${s.names![a]}.mul(${s.names![b]}).sum()`
        ).join(" + ");
    case "stepper": {
      const body = s.body!.map(textOf), k = s.list![0];
      const lines = [...body.slice(0, k), `${s.on}.zeroGrad(); loss().backward(); ${s.on}.step();`, ...body.slice(k)];
      return `const ${s.to} = ${s.how === "" ? "" : "jit("}() => Tensor.train(() => {\n  ${lines.join("\n  ")}\n})${
        s.how === "" ? "" : ")"
      };${MODES[s.how as keyof typeof MODES] ?? ""}`;
    }
    case "step":
      return `${s.on}();`;
    case "failing":
      return `Tensor.train(() => { ${s.on}.zeroGrad(); loss().backward(); ${s.on}.step({ also: [disposed] }); }); // throws`;
    case "grad":
      return `const ${s.to} = ${s.value}.grad;`;
    case "slopes":
      return `const ${s.to} = jit((x, y) => { x.mul(y).mul(${s.list![0]}).sum().backward();${
        s.list![1] === 0 ? "" : ` y.addInPlace(${s.list![1]});`
      } return x.sum(); });${MODES[s.how as keyof typeof MODES] ?? ""}`;
    case "slope":
      return `${s.list![0] === 1 ? `${s.names![0]}.grad = undefined; ` : ""}${s.on}(${s.names!.join(", ")}); ` +
        `const ${s.to} = ${s.names![0]}.grad;`;
  }
}
