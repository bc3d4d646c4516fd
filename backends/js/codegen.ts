/**
 * From a linear program to a JavaScript function body: one statement a lane of a UOp, nothing clever. Lanes of vectors
 * become separate locals. Each access is checked against the size of its buffer, so that the oracle finds what a real
 * device would silently get wrong.
 *
 * @module
 */
import { arrayName, type DType } from "../../src/dtype/dtype.ts";
import { sharedPlaces } from "../../src/renderer/lanes.ts";
import { type LinearProgram, threadBounds } from "../../src/renderer/renderer.ts";
import { readsShared, type TensorCore, unitOf } from "../../src/renderer/tensor_core_table.ts";
import { isShared, type Place } from "../../src/renderer/visitor.ts";
import { argOf, AxisKind, type ConstValue } from "../../src/uop/core/args.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { worksTogether } from "./grid.ts";
import { decoding, encoding, fill, flopsOf, type Form, isBig, LaneVisitor, literal } from "./js_lanes.ts";

/** A place in memory, as text. */
interface Address {
  readonly base: UOp;
  readonly name: string;
  readonly at: string;
  readonly gate: string | undefined;
  /** Elements of the base. */
  readonly size: number;
}

/** Writes one program; a lane is called by an expression that has no effect. */
class Writer extends LaneVisitor<string> {
  private readonly lines: string[] = [];
  private depth = 1;
  private next = 0;
  private read = 0;
  private written = 0;
  private flops = 0;
  private sites = 0;
  /** True where the threads of a group work together: the body is that of a generator. */
  private readonly collective: boolean;

  constructor(program: LinearProgram) {
    super(program, "JS");
    this.collective = worksTogether(program);
  }

  private line(text: string): void {
    this.lines.push("  ".repeat(this.depth) + text);
  }

  /** Adds what the straight-line code since the last flush counts. */
  private flush(): void {
    if (this.read > 0) this.line(`count.read += ${this.read};`);
    if (this.written > 0) this.line(`count.written += ${this.written};`);
    if (this.flops > 0) this.line(`count.flops += ${this.flops};`);
    this.read = this.written = this.flops = 0;
  }

  private open(head: string): void {
    this.flush();
    this.line(`${head} {`);
    this.depth++;
  }
  protected close(): void {
    this.flush();
    this.depth--;
    this.line("}");
  }

  protected literal(d: DType, value: ConstValue): string {
    return literal(d, value);
  }
  private define(lanes: readonly string[], keyword = "const"): readonly string[] {
    const id = this.next++;
    const names = lanes.map((_, l) => `v${id}${lanes.length > 1 ? `_${l}` : ""}`);
    lanes.forEach((text, l) => this.line(`${keyword} ${names[l]} = ${text};`));
    return names;
  }

  private address({ base, index, gate }: Place): Address {
    const [at] = this.value(index), isParam = base.op === Ops.PARAM;
    return {
      base,
      name: isParam ? `b${argOf(base, Ops.PARAM).slot}` : `local${argOf(base, Ops.LOCAL).id}`,
      at: isBig(index.dtype) ? `Number(${at})` : at,
      gate: gate === undefined ? undefined : this.value(gate)[0],
      size: isParam ? argOf(base, Ops.PARAM).size : argOf(base, Ops.LOCAL).size,
    };
  }

  /** The checks of one access: bounds; on grids also alignment, and races where the memory is shared. */
  private check({ base, name, at, size }: Address, n: number, how: "Read" | "Write"): string {
    const inside = `check(${at}, ${n}, ${size}, "${name}")`;
    const aligned = this.program.grid !== undefined && n > 1 ? `; aligned(${at}, ${n}, "${name}")` : "";
    if (!this.collective || !isShared(base)) return inside + aligned;
    return `${inside}${aligned}; watch${name}.on${how}(${at}, ${n}, me.me, me.epoch)`;
  }

  /** The threads of the warp, or of the group, meet here. */
  private meet(group: boolean): void {
    this.line(`yield { site: ${this.sites++}, group: ${group} };`);
  }

  protected override compute(u: UOp): readonly string[] | undefined | void {
    switch (u.op) {
      case Ops.SHUFFLE: {
        this.line(`me.offer([${this.value(u.src[0]).join(", ")}]);`);
        this.meet(false);
        const from = `me.from(me.lane ^ ${argOf(u, Ops.SHUFFLE)})`;
        return this.define(Array.from({ length: u.dtype.count }, (_, l) => `${from}[${l}]`));
      }
      case Ops.WMMA: {
        if (readsShared(u)) return this.unitProduct(u);
        const [a, b, c] = u.src.map((s) => this.value(s).join(", "));
        this.line(`me.offer([[${a}], [${b}]]);`);
        this.meet(false);
        const core = unitOf(u), { m, n, k, lanes } = core, id = `w${this.next++}`;
        const at = coresOf(this.program).findIndex((c) => c.same(core));
        this.line(`const ${id} = multiply(cores[${at}], me, [${c}]);`);
        this.flops += 2 * m * n * k / lanes;
        return Array.from({ length: u.dtype.count }, (_, l) => `${id}[${l}]`);
      }
      case Ops.LDMATRIX: {
        const { base, name, at, size } = this.address(this.placeOf(u.src[0]));
        this.line(`check(${at}, 8, ${size}, "${name}"); aligned(${at}, 8, "${name}"); me.offer(${at});`);
        this.meet(false);
        const id = `m${this.next++}`, { text } = decoding(base.dtype);
        this.line(`const ${id} = matrixElements(me, ${u.arg === "trans"});`);
        this.line(`for (const x of ${id}) watch${name}.onRead(x, 1, me.me, me.epoch);`);
        return this.define(Array.from({ length: 8 }, (_, l) => fill(text, `${name}[${id}[${l}]]`)));
      }
      case Ops.ASYNC_COPY: {
        const to = this.address(this.placeOf(u.src[0])), from = this.address(this.placeOf(u.src[1]));
        const nbytes = argOf(u, Ops.ASYNC_COPY), n = nbytes / to.base.dtype.itemsize;
        const gate = u.src.length > 2 ? this.value(u.src[2])[0] : from.gate;
        this.line(`check(${to.at}, ${n}, ${to.size}, "${to.name}"); aligned(${to.at}, ${n}, "${to.name}");`);
        this.line(`watch${to.name}.onWrite(${to.at}, ${n}, me.me, me.epoch);`);
        const read =
          `check(${from.at}, ${n}, ${from.size}, "${from.name}"); aligned(${from.at}, ${n}, "${from.name}"); ` +
          `count.read += ${nbytes}; me.copies.start(() => { for (let i = 0; i < ${n}; i++) ` +
          `${to.name}[${to.at} + i] = ${from.name}[${from.at} + i]; });`;
        if (gate === undefined) return this.line(read);
        return this.line(
          `if (${gate}) { ${read} } else me.copies.start(() => ${to.name}.fill(0, ${to.at}, ${to.at} + ${n}));`,
        );
      }
      case Ops.UNIT:
        this.meet(false);
        if (u.arg === "commit") this.line("me.products.commit();");
        else if (typeof u.arg === "number") this.line(`me.products.wait(${u.arg});`);
        return;
      case Ops.ASYNC_COMMIT:
        return this.line("me.copies.commit();");
      case Ops.ASYNC_WAIT:
        return this.line(`me.copies.wait(${argOf(u, Ops.ASYNC_WAIT)});`);
    }
    return super.compute(u);
  }
  /** A product whose unit reads shared memory, until it is waited for. */
  private unitProduct(u: UOp): readonly string[] {
    const core = unitOf(u), { m, n, k, lanes } = core, id = `w${this.next++}`;
    const at = coresOf(this.program).findIndex((c) => c.same(core)), c = this.value(u.src[2]).join(", ");
    const held = core.shared![0] === undefined ? `, [${this.value(u.src[0]).join(", ")}]` : "";
    const tiles = sharedPlaces(u).map((s) => {
      const { base, name, at, size } = this.address(this.placeOf(s)), { text } = decoding(base.dtype);
      const read = `(i) => (check(i, 1, ${size}, "${name}"), ${fill(text, `${name}[i]`)})`;
      return `{ at: ${at}, watch: watch${name}, itemsize: ${base.dtype.itemsize}, read: ${read} }`;
    });
    this.line(`me.offer(readShared(cores[${at}], me, [${tiles.join(", ")}]${held}));`);
    this.meet(false);
    this.line(`const ${id} = multiplyShared(cores[${at}], me, [${c}]);`);
    this.flops += 2 * m * n * k / lanes;
    return Array.from({ length: u.dtype.count }, (_, l) => `${id}[${l}]`);
  }
  protected alu(u: UOp, { text }: Form, lanes: readonly (readonly string[])[]): readonly string[] {
    this.flops += flopsOf(u);
    return this.define(lanes.map(([a, b, c]) => fill(text, a, b, c)));
  }
  protected override barrier(): void {
    if (this.collective) this.meet(true);
  }
  protected override special(u: UOp): readonly string[] {
    return this.collective ? [argOf(u, Ops.SPECIAL)] : super.special(u);
  }
  protected variable(u: UOp): readonly string[] {
    return [`vars[${this.program.vars.indexOf(u)}]`];
  }
  protected local(u: UOp): undefined {
    const { id, size, scope } = argOf(u, Ops.LOCAL);
    if (!this.collective) this.line(`const local${id} = locals[${id}];`);
    else if (scope === "shared") this.line(`const local${id} = locals[${id}], watchlocal${id} = watches[${id}];`);
    else this.line(`const local${id} = new ${arrayName(u.dtype)}(${size * u.dtype.count});`);
  }

  protected acc(u: UOp): readonly string[] {
    return this.define(this.value(u.src[0]), "let");
  }
  protected readAcc(_u: UOp, acc: UOp): readonly string[] {
    return this.define(this.value(acc));
  }
  protected writeAcc(acc: UOp, value: UOp): void {
    const lanes = this.value(value);
    this.value(acc).forEach((name, l) => this.line(`${name} = ${lanes[l]};`));
  }

  protected load(u: UOp, place: Place): readonly string[] {
    const address = this.address(place), { base, name, at, gate } = address, n = u.dtype.count;
    const check = this.check(address, n, "Read"), { text } = decoding(base.dtype);
    const nbytes = base.op === Ops.PARAM ? u.dtype.itemsize : 0;
    const lanes = Array.from({ length: n }, (_, l) => fill(text, `${name}[${at}${l ? ` + ${l}` : ""}]`));
    const [, , mask] = u.src;
    if (mask !== undefined) {
      const names = this.define(this.value(u.src[1]), "let"), [bits] = this.value(mask);
      names.forEach((v, l) => {
        this.line(`if (${bits} >>> ${l} & 1) {`);
        this.line(`  ${this.check({ ...address, at: `${at} + ${l}` }, 1, "Read")};`);
        if (nbytes > 0) this.line(`  count.read += ${nbytes / n};`);
        this.line(`  ${v} = ${lanes[l]};`);
        this.line("}");
      });
      return names;
    }
    if (gate === undefined) {
      this.line(`${check};`);
      this.read += nbytes;
      return this.define(lanes);
    }
    const alt = u.src.length > 1 ? this.value(u.src[1]) : new Array<string>(n).fill(literal(u.dtype, 0));
    const names = this.define(alt, "let");
    this.line(`if (${gate}) {`);
    this.line(`  ${check};`);
    if (nbytes > 0) this.line(`  count.read += ${nbytes};`);
    names.forEach((v, l) => this.line(`  ${v} = ${lanes[l]};`));
    this.line("}");
    return names;
  }
  protected store(value: UOp, place: Place): void {
    const lanes = this.value(value), address = this.address(place), { base, name, at } = address;
    const { text } = encoding(base.dtype);
    this.line(`${this.check(address, lanes.length, "Write")};`);
    lanes.forEach((x, l) => this.line(`${name}[${at}${l ? ` + ${l}` : ""}] = ${fill(text, x)};`));
    if (base.op === Ops.PARAM) this.written += value.dtype.itemsize;
  }

  protected enterLoop(u: UOp): readonly string[] {
    const id = `r${this.next++}`, big = isBig(u.dtype), end = this.value(u.src[0])[0];
    const thread = u.op === Ops.RANGE && argOf(u, Ops.RANGE).kind === AxisKind.THREAD;
    const bounds = thread
      ? threadBounds(this.program, u).map((x) => big ? `BigInt(${x})` : x)
      : [big ? "0n" : "0", end];
    this.open(`for (let ${id} = ${bounds[0]}; ${id} < ${bounds[1]}; ${id}++)`);
    return [id];
  }
  protected enterIf(u: UOp): void {
    this.open(`if (${this.value(u.src[0])[0]})`);
  }

  write(): string {
    if (this.collective) this.line("const [gidx0, gidx1, gidx2] = group, [lidx0, lidx1, lidx2] = thread;");
    for (const p of this.program.params) if (p !== undefined) this.line(`const b${p.slot} = bufs[${p.slot}];`);
    this.walk();
    this.flush();
    return this.lines.join("\n");
  }
}

/** The matrix units that a program uses. */
export function coresOf(program: LinearProgram): TensorCore[] {
  const cores: TensorCore[] = [];
  for (const u of program.uops) {
    if (u.op !== Ops.WMMA) continue;
    const core = unitOf(u);
    if (!cores.some((c) => c.same(core))) cores.push(core);
  }
  return cores;
}

/**
 * The body of `(bufs, vars, begin, end, locals, count) => void`; where threads work together, of the generator that one
 * thread is, `function* (bufs, vars, locals, count, watches, cores, group, thread, me)`.
 */
export function renderJs(program: LinearProgram): string {
  return new Writer(program).write();
}

/** Arrays of the kernel itself. */
export function localsOf(program: LinearProgram): UOp[] {
  return program.uops.filter((u) => u.op === Ops.LOCAL);
}
