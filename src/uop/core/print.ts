/**
 * Nodes as text, for people: numbered lines for a graph, a tree, one line of infix for index arithmetic, and the list
 * of a linear program. Nothing here is parsed again.
 *
 * @module
 */
import { argOf, axisKindName } from "./args.ts";
import { opName, Ops } from "./ops.ts";
import { toposort, type UOp } from "./uop.ts";

/** The argument of a node as text; "" where it has none. */
export function argText(u: UOp): string {
  if (u.arg === undefined) return "";
  if (typeof u.arg === "number") return Object.is(u.arg, -0) ? "-0" : String(u.arg);
  if (typeof u.arg === "string") return JSON.stringify(u.arg);
  return u.arg.toString();
}

function line(number: string, u: UOp, refs: string): string {
  const arg = argText(u);
  return `${number} ${opName[u.op].padEnd(10)} ${u.dtype.name.padEnd(9)}${refs === "" ? "" : ` (${refs})`}${
    arg === "" ? "" : ` ${arg}`
  }`;
}

function lines(uops: readonly UOp[]): string[] {
  const width = String(uops.length).length;
  const at = new Map<UOp, number>();
  return uops.map((u, i) => {
    const refs = u.src.map((s) => at.has(s) ? String(at.get(s)) : `?${opName[s.op]}`).join(", ");
    at.set(u, i);
    return line(String(i).padStart(width), u, refs);
  });
}

/** The graph below `root`, one numbered line a node, sources first: number, op, dtype, (source numbers), arg. */
export function printUOp(root: UOp | readonly UOp[], limit: number = 400): string {
  const all = lines(toposort(root));
  const cut = all.length - limit;
  return cut > 0 ? [`... ${cut} more`, ...all.slice(cut)].join("\n") : all.join("\n");
}

/** How many users of a node are printed. */
const MAX_USERS = 8;

/** A node and what surrounds it in `graph`: sources and their sources, the node, marked by >, and who uses it. */
export function printNeighbors(u: UOp, graph: readonly UOp[]): string {
  const near = new Set([u]);
  for (let i = 0; i < 2; i++) for (const v of [...near]) for (const s of v.src) near.add(s);
  const users = new Set(graph.filter((v) => v !== u && v.src.includes(u)));
  const shown = [...toposort(u, (v) => near.has(v)).filter((v) => near.has(v)), ...[...users].slice(0, MAX_USERS)];
  const at = shown.indexOf(u);
  const out = lines(shown).map((text, i) => `${i === at ? ">" : " "} ${text}`);
  if (users.size > MAX_USERS) out.push(`  ... and ${users.size - MAX_USERS} more users`);
  return out.join("\n");
}

/** A linear program: as {@linkcode printUOp}, in list order, indented by loops and conditions. */
export function listText(uops: readonly UOp[]): string {
  let depth = 0;
  return lines(uops).map((text, i) => {
    const { op } = uops[i];
    if (op === Ops.END || op === Ops.ENDIF) depth = Math.max(0, depth - 1);
    const out = "  ".repeat(depth) + text;
    if (op === Ops.RANGE || op === Ops.IF) depth++;
    return out;
  }).join("\n");
}

/** The graph as an indented tree; a node that was printed already is one line with its number. */
export function printTree(root: UOp): string {
  const number = new Map<UOp, number>();
  const out: string[] = [];
  const stack: [UOp, number][] = [[root, 0]];
  while (stack.length > 0) {
    const [u, depth] = stack.pop()!;
    const known = number.get(u);
    const indent = "  ".repeat(depth);
    if (known !== undefined) {
      out.push(`${indent}#${known}`);
      continue;
    }
    number.set(u, number.size);
    out.push(`${indent}${line(`#${number.size - 1}`, u, "")}`);
    for (let i = u.src.length - 1; i >= 0; i--) stack.push([u.src[i], depth + 1]);
  }
  return out.join("\n");
}

const INFIX: Record<number, string> = {
  [Ops.ADD]: "+",
  [Ops.MUL]: "*",
  [Ops.SUB]: "-",
  [Ops.FDIV]: "/",
  [Ops.FLOORDIV]: "//",
  [Ops.FLOORMOD]: "%",
  [Ops.CDIV]: "cdiv",
  [Ops.CMOD]: "cmod",
  [Ops.CMPLT]: "<",
  [Ops.CMPNE]: "!=",
  [Ops.CMPEQ]: "==",
  [Ops.AND]: "&",
  [Ops.OR]: "|",
  [Ops.XOR]: "^",
  [Ops.SHL]: "<<",
  [Ops.SHR]: ">>",
};

/** "r3" for the range of id 3, "r3_1u" for its second piece when upcast. */
export function rangeName(u: UOp): string {
  const a = argOf(u, Ops.RANGE);
  return `r${a.id}${a.sub ? `_${a.sub}` : ""}${axisKindName[a.kind][0].toLowerCase()}`;
}

/** One line of infix, for index arithmetic: `(r0l * 4 + r1l) // 3`. Other ops print as calls; depth is limited. */
export function exprText(u: UOp, depth: number = 24): string {
  return text(u, depth, 0);
}

const PRECEDENCE: Record<number, number> = {
  [Ops.OR]: 1,
  [Ops.XOR]: 2,
  [Ops.AND]: 3,
  [Ops.CMPEQ]: 4,
  [Ops.CMPNE]: 4,
  [Ops.CMPLT]: 4,
  [Ops.SHL]: 5,
  [Ops.SHR]: 5,
  [Ops.ADD]: 6,
  [Ops.SUB]: 6,
  [Ops.MUL]: 7,
  [Ops.FDIV]: 7,
  [Ops.FLOORDIV]: 7,
  [Ops.FLOORMOD]: 7,
  [Ops.CDIV]: 7,
  [Ops.CMOD]: 7,
};

function text(u: UOp, depth: number, outer: number): string {
  if (depth <= 0) return "...";
  switch (u.op) {
    case Ops.CONST:
      return u.dtype.isBool ? (u.arg === 0 ? "false" : "true") : argText(u);
    case Ops.RANGE:
      return rangeName(u);
    case Ops.VARIABLE:
      return argOf(u, Ops.VARIABLE).name;
    case Ops.SPECIAL:
      return String(u.arg);
    case Ops.WHERE: {
      const [c, a, b] = u.src.map((s) => text(s, depth - 1, 1));
      return outer > 0 ? `(${c} ? ${a} : ${b})` : `${c} ? ${a} : ${b}`;
    }
    case Ops.CMPNE:
      if (u.src[1].isConst(1) && u.src[1].dtype.isBool) return `!${text(u.src[0], depth - 1, 9)}`;
  }
  const sign = INFIX[u.op];
  if (sign !== undefined) {
    const p = PRECEDENCE[u.op];
    const inner = `${text(u.src[0], depth - 1, p)} ${sign} ${text(u.src[1], depth - 1, p + 1)}`;
    return p < outer ? `(${inner})` : inner;
  }
  const args = u.src.map((s) => text(s, depth - 1, 0));
  const arg = argText(u);
  if (u.op === Ops.CAST || u.op === Ops.BITCAST) args.push(u.dtype.name);
  else if (arg !== "") args.push(arg);
  return `${opName[u.op].toLowerCase()}(${args.join(", ")})`;
}
