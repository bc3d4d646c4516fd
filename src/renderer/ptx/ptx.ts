/**
 * PTX, rendered directly: the language of the CUDA device where no compiler is found; the driver assembles it.
 *
 * A kernel's parameters are the buffers by slot, then the variables in order. Arithmetic is scalar (lanes.ts), each value
 * in a virtual register of its dtype; vectors are what one memory instruction moves, lanes of 8 and 16 bits in words.
 * Addresses are a base and a constant: an index is computed in 32 bits and widened once. Allocation of registers,
 * scheduling and strength reduction are the assembler's.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { argOf } from "../../uop/core/args.ts";
import { isAlu, Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { throughAfter } from "../../uop/rewrite/walk.ts";
import { identifier } from "../c/cstyle.ts";
import { matrixTypes } from "../c/cuda_helpers.ts";
import { DESCRIPTOR_HIGH, descriptorLow, unitFlags, unitInstruction, unitOrder, unitSteps } from "../c/cuda_units.ts";
import { archNumber, PTX_OPS } from "../cuda_caps.ts";
import {
  inLanes,
  isPacked,
  lanesOfWord,
  residentGroups,
  SHARED_ALIGN,
  sharedLayout,
  sharedPlaces,
  wordsOf,
} from "../lanes.ts";
import {
  type Capabilities,
  type GridCaps,
  type LinearProgram,
  MAP_ALIGN,
  MAP_BYTES,
  mapNumber,
  type Renderer,
} from "../renderer.ts";
import { readsShared, unitOf } from "../tensor_core_table.ts";
import { isShared, LinearVisitor, type Place } from "../visitor.ts";
import { boolBits, halves, inRegister, writeAlu } from "./ptx_alu.ts";
import { classOf, Emitter, literalOf, memoryTypeOf, type RegisterClass } from "./ptx_emitter.ts";

/** A place in memory: its registers, and what instructions call its space. */
interface Address {
  readonly space: string;
  /** "[%rd1+16]" */
  readonly text: string;
  /** Register of the bool that guards it. */
  readonly gate: string | undefined;
}

/** The class of the components that a vector's memory instruction moves, and how many. */
function componentsOf(d: DType): readonly [RegisterClass, string, number] {
  if (!isPacked(d)) return [classOf(d.scalar), d.isFloat ? `f${d.bits}` : `b${d.bits}`, d.count];
  return ["b32", d.itemsize < 4 ? "u16" : "b32", wordsOf(d)];
}

function list(registers: readonly string[]): string {
  return `{${registers.join(", ")}}`;
}

class Writer extends LinearVisitor<readonly string[]> {
  private readonly e: Emitter;
  private readonly shared: ReturnType<typeof sharedLayout>;
  private readonly labels = new Map<UOp, string>();

  /** @param grid the limits of a multiprocessor; undefined where no program has threads */
  constructor(
    program: LinearProgram,
    private readonly symbol: string,
    arch: number,
    private readonly grid: GridCaps | undefined,
  ) {
    super(program, "PTX");
    this.e = new Emitter(arch);
    this.shared = sharedLayout(program);
  }

  /** Has it shared memory of its own, which begins at a multiple of more than that of all kernels? */
  private get isAligned(): boolean {
    return this.shared.align > SHARED_ALIGN;
  }

  // ---- values: registers or constants, one, or a vector's components

  protected constant({ dtype, arg }: UOp): readonly string[] {
    return [dtype.isBool ? arg === 0 ? "0" : "1" : literalOf(dtype, arg as number)];
  }
  /** The operand of a scalar. */
  private operand(u: UOp): string {
    return this.value(u)[0];
  }
  /** The registers of a value's components. */
  private registers(u: UOp): string[] {
    const d = u.dtype;
    return d.count > 1 ? [...this.value(u)] : [inRegister(this.e, d, this.operand(u))];
  }
  private register(u: UOp): string {
    return this.registers(u)[0];
  }
  /** The predicate that an integer register holds. */
  private predicate(bits: string): string {
    return this.e.op("pred", "setp.ne.s32", bits, "0");
  }

  // ---- memory

  protected param(u: UOp): readonly string[] {
    const generic = this.e.op("b64", "ld.param.u64", `[${this.symbol}_b${argOf(u, Ops.PARAM).slot}]`);
    return [this.e.op("b64", "cvta.to.global.u64", generic)];
  }
  protected variable(u: UOp): readonly string[] {
    const name = `[${this.symbol}_${identifier(argOf(u, Ops.VARIABLE).name)}]`, d = u.dtype;
    const r = this.e.op(d.isBool ? "b32" : classOf(d), `ld.param.${memoryTypeOf(d)}`, name);
    return [d.isBool ? this.predicate(r) : r];
  }
  protected override special(u: UOp): readonly string[] {
    const name = argOf(u, Ops.SPECIAL), from = `%${name.startsWith("g") ? "ctaid" : "tid"}.${"xyz"[Number(name[4])]}`;
    return [this.e.op("b32", "mov.u32", from)];
  }
  protected local(u: UOp): readonly string[] {
    const { e } = this, { id, scope, size } = argOf(u, Ops.LOCAL);
    if (scope === "shared") {
      const at = this.shared.at.get(u)!;
      const [start] = e.once(
        "shared",
        () => [e.op("b32", "mov.u32", this.isAligned ? `${this.symbol}_shared` : "shared")],
      );
      return [at === 0 ? start : e.op("b32", "add.s32", start, `${at}`)];
    }
    e.line(`.local .align 16 .b8 local${id}[${size * u.dtype.itemsize}]`);
    return [e.op("b64", "mov.u64", `local${id}`)];
  }

  protected acc(u: UOp): readonly string[] {
    // a unit sets it
    if (u.src.length === 0) return [this.e.register(classOf(u.dtype))];
    return this.copy(u, u.src[0]);
  }
  protected readAcc(u: UOp, acc: UOp): readonly string[] {
    return this.copy(u, acc);
  }
  protected writeAcc(acc: UOp, value: UOp): void {
    this.e.line(`mov.${classOf(acc.dtype)} ${this.operand(acc)}, ${this.operand(value)}`);
  }
  private copy({ dtype }: UOp, from: UOp): readonly string[] {
    const c = classOf(dtype);
    return [this.e.op(c, `mov.${c}`, this.operand(from))];
  }

  private address({ base, index, gate: condition }: Place): Address {
    const gate = condition && this.register(condition), size = base.dtype.itemsize;
    let idx = throughAfter(index), offset = 0;
    if (idx.op === Ops.ADD && idx.src[1].op === Ops.CONST && Math.abs(idx.src[1].value * size) < 2 ** 30) {
      [idx, offset] = [throughAfter(idx.src[0]), idx.src[1].value * size];
    }
    if (idx.op === Ops.CONST) offset += idx.value * size;
    const start = this.operand(base);
    const space = base.op === Ops.PARAM ? "global" : isShared(base) ? "shared" : "local";
    if (idx.op === Ops.CONST) {
      if (Math.abs(offset) < 2 ** 30) return { space, text: `[${start}${offset === 0 ? "" : `+${offset}`}]`, gate };
      const far = this.e.op("b64", "add.s64", start, `${offset}`);
      return { space, text: `[${far}]`, gate };
    }
    const x = this.operand(idx), wide = idx.dtype.bits === 64;
    const [reg] = this.e.once(`${start} ${x} ${size}`, () => {
      if (space === "shared") {
        const low = wide ? this.e.op("b32", "cvt.u32.u64", x) : x;
        return [this.e.op("b32", "mad.lo.s32", low, `${size}`, start)];
      }
      return [this.e.op("b64", wide ? "mad.lo.s64" : "mad.wide.s32", x, `${size}`, start)];
    });
    return { space, text: `[${reg}${offset === 0 ? "" : `+${offset}`}]`, gate };
  }

  protected load(u: UOp, place: Place): readonly string[] {
    const d = u.dtype, { space, text, gate } = this.address(place), { base } = place;
    const readOnly = base.op === Ops.PARAM && !this.program.params[argOf(base, Ops.PARAM).slot].writes;
    const head = readOnly ? "ld.global.nc" : `ld.${space}`;
    const [c, type, n] = d.count > 1 ? componentsOf(d) : [d.isBool ? "b32" : classOf(d), memoryTypeOf(d), 1] as const;
    const into = Array.from({ length: n }, () => this.e.register(c));
    if (gate !== undefined) {
      const alt = u.src.length > 1
        ? [...this.value(u.src[1])]
        : new Array<string>(n).fill(c === "f32" || c === "f64" ? literalOf(d.scalar, 0) : "0");
      if (d === dtypes.bool) alt[0] = boolBits(this.e, alt[0]);
      into.forEach((r, i) => this.e.line(`mov.${c} ${r}, ${alt[i]}`));
    }
    const guard = gate === undefined ? "" : `@${gate} `;
    this.e.line(`${guard}${head}${n > 1 ? `.v${n}` : ""}.${type} ${n === 1 ? into[0] : list(into)}, ${text}`);
    return d === dtypes.bool ? [this.predicate(into[0])] : into;
  }

  protected store(value: UOp, place: Place): void {
    const d = value.dtype, { space, text } = this.address(place);
    if (d.count > 1) {
      const [, type, n] = componentsOf(d), from = this.registers(value);
      return this.e.line(`st.${space}${n > 1 ? `.v${n}` : ""}.${type} ${text}, ${n > 1 ? list(from) : from[0]}`);
    }
    const r = d.isBool ? inRegister(this.e, dtypes.int32, boolBits(this.e, this.operand(value))) : this.register(value);
    this.e.line(`st.${space}.${memoryTypeOf(d)} ${text}, ${r}`);
  }

  // ---- vectors

  private extract(u: UOp): readonly string[] {
    const from = throughAfter(u.src[0]), parts = this.value(from), l = argOf(u, Ops.EXTRACT), d = u.dtype;
    if (d.count > 1 || !isPacked(from.dtype)) return [parts[l]];
    const lanes = lanesOfWord(d), word = parts[Math.floor(l / lanes)], at = l % lanes;
    if (d.isFloat) return [halves(this.e, word)[at]];
    const type = d.isUnsigned || d.isBool ? "u32" : "s32";
    const r = this.e.op("b32", `bfe.${type}`, word, `${at * d.bits}`, `${d.bits}`);
    return [d.isBool ? this.predicate(r) : r];
  }

  private vectorize(u: UOp): readonly string[] {
    const d = u.dtype;
    if (!isPacked(d) || u.src[0].dtype.count > 1) return u.src.flatMap((s) => this.registers(s));
    if (d.isFloat) return [this.e.op("b32", "mov.b32", list(u.src.map((s) => this.register(s))))];
    const lanes = u.src.map((s) => d.isBool ? boolBits(this.e, this.operand(s)) : this.operand(s));
    const join = (a: string, b: string, bits: number): string =>
      this.e.op("b32", "prmt.b32", a, b, bits === 8 ? "0x7740" : "0x5410");
    if (d.bits === 16) return [join(lanes[0], lanes[1], 16)];
    const low = join(lanes[0], lanes[1], 8);
    return [lanes.length === 2 ? low : join(low, join(lanes[2], lanes[3], 8), 16)];
  }

  /** Two float32 rounded to a word of two 16-bit floats. */
  private roundPair(u: UOp): string {
    const [low, high] = this.registers(u.src[0]), type = u.dtype.scalar === dtypes.float16 ? "f16" : "bf16";
    if (this.e.arch >= 80) return this.e.op("b32", `cvt.rn.${type}x2.f32`, high, low);
    const lane = u.src[0].src[0].cast(u.dtype.scalar);
    return this.e.op("b32", "mov.b32", list([low, high].map((x) => writeAlu(this.e, lane, [x]))));
  }

  // ---- threads

  private shuffle(u: UOp): string {
    const d = u.dtype, e = this.e, x = this.register(u.src[0]);
    const swap = (r: string, c: RegisterClass): string => e.op(c, "shfl.sync.bfly.b32", r, `${u.arg}`, "31", "-1");
    if (d.isBool) return this.predicate(swap(boolBits(e, x), "b32"));
    if (d.bits === 64) {
      const low = e.register("b32"), high = e.register("b32");
      e.line(`mov.b64 {${low}, ${high}}, ${x}`);
      return e.op(classOf(d), "mov.b64", `{${swap(low, "b32")}, ${swap(high, "b32")}}`);
    }
    if (classOf(d) !== "b16") return swap(x, classOf(d));
    return e.op("b16", "cvt.u16.u32", swap(e.op("b32", "cvt.u32.u16", x), "b32"));
  }

  private copyAsync(u: UOp): void {
    const to = this.address(this.placeOf(u.src[0])), from = this.address(this.placeOf(u.src[1]));
    const third = u.src[2] !== undefined && u.src[2].dtype.isBool ? this.register(u.src[2]) : undefined;
    const gate = third ?? from.gate, nbytes = argOf(u, Ops.ASYNC_COPY), mode = nbytes === 16 ? "cg" : "ca";
    const size = gate === undefined ? "" : `, ${this.e.op("b32", "selp.b32", `${nbytes}`, "0", gate)}`;
    this.e.line(`cp.async.${mode}.shared.global ${to.text}, ${from.text}, ${nbytes}${size}`);
  }

  /** The address of a map, which is a parameter. */
  private tensorMap(u: UOp): readonly string[] {
    const at = this.e.op("b64", "mov.b64", `${this.symbol}_map${mapNumber(this.program, u)}`);
    return [this.e.op("b64", "cvta.param.u64", at)];
  }

  private copyBox(u: UOp): void {
    const [to, barrier] = u.src.slice(0, 2).map((s) => this.address(this.placeOf(s)).text);
    const gate = this.register(u.src[2]), position = u.src.slice(4).map((x) => this.operand(x));
    this.e.line(
      `@${gate} cp.async.bulk.tensor.${position.length}d.shared::cluster.global.mbarrier::complete_tx::bytes ${to}, [${
        this.operand(u.src[3])
      }, ${list(position)}], ${barrier}`,
    );
  }

  private barrierOf(u: UOp): void {
    const { text } = this.address(this.placeOf(u.src[0])), e = this.e, { arg } = u;
    if (arg === "wait") {
      const phase = this.operand(u.src[1]), again = e.label();
      e.place(again);
      const done = e.op("pred", "mbarrier.try_wait.parity.shared::cta.b64", text, phase);
      return e.line(`@!${done} bra ${again}`);
    }
    const gate = this.register(u.src[1]);
    if (arg === "init") return e.line(`@${gate} mbarrier.init.shared::cta.b64 ${text}, 1`);
    e.line(`@${gate} mbarrier.arrive.expect_tx.shared::cta.b64 _, ${text}, ${arg}`);
  }

  private matrixLoad(u: UOp): readonly string[] {
    const into = Array.from({ length: 4 }, () => this.e.register("b32"));
    const suffix = u.arg === "trans" ? ".trans" : "", { text } = this.address(this.placeOf(u.src[0]));
    this.e.line(`ldmatrix.sync.aligned.m8n8.x4${suffix}.shared.b16 ${list(into)}, ${text}`);
    return into;
  }

  private matrixUnit(u: UOp): readonly string[] {
    const unit = unitOf(u), c = classOf(unit.output);
    const input = (s: UOp): string[] => {
      const all = this.registers(s);
      if (unit.input !== dtypes.float32) return all;
      return all.map((x) => this.e.once(`tf32 ${x}`, () => [this.e.op("b32", "cvt.rna.tf32.f32", x)])[0]);
    };
    const into = Array.from({ length: 4 }, () => this.e.register(c));
    const from = [input(u.src[0]), input(u.src[1]), this.registers(u.src[2])].map(list);
    this.e.line(`mma.sync.aligned.${unit.name}.row.col.${matrixTypes(unit)} ${[list(into), ...from].join(", ")}`);
    return into;
  }

  /** A unit that reads shared memory and adds to its lanes' registers, at its own time. */
  private unitProduct(u: UOp): void {
    const unit = unitOf(u), e = this.e, places = sharedPlaces(u);
    const tiles = unit.shared!.filter((x) => x !== undefined), left = u.src.length - unit.sums - 2;
    const lows = tiles.map((tile, i) => {
      return e.op("b32", "or.b32", e.op("b32", "shr.u32", this.addressOf(places[i]), "4"), `${descriptorLow(tile)}`);
    });
    const descriptor = (low: string): string => e.op("b64", "mov.b64", list([low, `${DESCRIPTOR_HIGH}`]));
    const [yes] = e.once("true", () => [e.op("pred", "setp.ne.s32", "1", "0")]);
    const [no] = u.src[left + 1].value === 1 ? [yes] : e.once("false", () => [e.op("pred", "setp.ne.s32", "0", "0")]);
    const sums = list(u.src.slice(left + 2).map((x) => this.operand(x)));
    const isHeld = unit.shared![0] === undefined,
      words = isHeld ? u.src.slice(0, left).map((x) => this.register(x)) : [];
    const steps = unitSteps(unit), low = lows[lows.length - 1];
    const all = steps.map(({ words: [from, to], offset }) => [
      isHeld ? list(words.slice(from, to)) : descriptor(lows[0]),
      descriptor(offset === 0 ? low : e.op("b32", "add.s32", low, `${offset}`)),
    ]);
    all.forEach(([a, b], i) =>
      e.line(`${unitInstruction(unit)} ${sums}, ${a}, ${b}, ${i === 0 ? no : yes}${unitFlags(unit)}`)
    );
  }
  /** Reads registers, so that they are kept until then: for a store that never happens. */
  private readFound(words: readonly string[]): void {
    const groups = this.e.op("b32", "mov.u32", "%nctaid.x"), isNone = this.e.op("pred", "setp.eq.s32", groups, "0");
    const all = words.reduce((a, b) => this.e.op("b32", "xor.b32", a, b));
    this.e.line(`@${isNone} st.shared.b32 [${groups}], ${all}`);
  }
  /** The register of an address in shared memory. */
  private addressOf(u: UOp): string {
    const [, from, , offset] = /^\[([^+\]]+)(\+(-?\d+))?\]$/.exec(this.address(this.placeOf(u)).text)!;
    return offset === undefined ? from : this.e.op("b32", "add.s32", from, offset);
  }

  // ---- control

  protected enterLoop(u: UOp): readonly string[] {
    const c = classOf(u.dtype), i = this.e.register(c), end = u.src[0], head = this.e.label();
    this.e.line(`mov.${c} ${i}, 0`);
    this.labels.set(u, head);
    if (!(end.op === Ops.CONST && end.value > 0)) {
      const none = this.e.op("pred", `setp.le.s${u.dtype.bits}`, this.register(end), "0");
      this.e.line(`@${none} bra ${head}_end`);
    }
    this.e.place(head);
    this.e.line(`.pragma "nounroll"`);
    this.e.enter();
    return [i];
  }
  protected leaveLoop(loop: UOp): void {
    const i = this.operand(loop), t = `s${loop.dtype.bits}`, head = this.labels.get(loop)!;
    this.e.line(`add.${t} ${i}, ${i}, 1`);
    const again = this.e.op("pred", `setp.lt.${t}`, i, this.operand(loop.src[0]));
    this.e.line(`@${again} bra ${head}`);
    this.e.leave();
    this.e.place(`${head}_end`);
  }
  protected enterIf(u: UOp): void {
    const label = this.e.label();
    this.labels.set(u, label);
    this.e.line(`@!${this.register(u.src[0])} bra ${label}`);
    this.e.enter();
  }
  protected leaveIf(condition: UOp): void {
    this.e.leave();
    this.e.place(this.labels.get(condition)!);
  }
  protected override barrier(): void {
    this.e.line("bar.sync 0");
  }

  protected compute(u: UOp): readonly string[] | undefined | void {
    switch (u.op) {
      case Ops.SHUFFLE:
        return [this.shuffle(u)];
      case Ops.ASYNC_COPY:
        return this.copyAsync(u);
      case Ops.ASYNC_COMMIT:
        return this.e.line("cp.async.commit_group");
      case Ops.ASYNC_WAIT:
        return this.e.line(`cp.async.wait_group ${u.arg}`);
      case Ops.TENSOR_MAP:
        return this.tensorMap(u);
      case Ops.ASYNC_BOX:
        return this.copyBox(u);
      case Ops.MBARRIER:
        return this.barrierOf(u);
      case Ops.LDMATRIX:
        return this.matrixLoad(u);
      case Ops.WMMA:
        return readsShared(u) ? this.unitProduct(u) : this.matrixUnit(u);
      case Ops.UNIT:
        if (u.arg === "found") return this.readFound(u.src.map((s) => this.register(s)));
        return this.e.line(unitOrder(u));
      case Ops.EXTRACT:
        return this.extract(u);
      case Ops.VECTORIZE:
        return this.vectorize(u);
    }
    if (!isAlu(u.op)) return this.unknown(u);
    return [u.dtype.count > 1 ? this.roundPair(u) : writeAlu(this.e, u, u.src.map((s) => this.operand(s)))];
  }

  write(): string {
    this.walk();
    const args: string[] = [];
    for (let slot = 0; slot < this.program.params.length; slot++) args.push(`.param .u64 ${this.symbol}_b${slot}`);
    for (const v of this.program.vars) {
      const name = identifier(argOf(v, Ops.VARIABLE).name);
      args.push(`.param .${memoryTypeOf(v.dtype)} ${this.symbol}_${name}`);
    }
    this.program.maps?.forEach((_, i) =>
      args.push(`.param .align ${MAP_ALIGN} .b8 ${this.symbol}_map${i}[${MAP_BYTES}]`)
    );
    const size = this.program.grid?.size ?? [1, 1, 1];
    const resident = residentGroups(this.program, this.grid);
    const groups = resident === undefined ? "" : `\n.minnctapersm ${resident}`;
    const shared = this.isAligned ? `.extern .shared .align ${this.shared.align} .b8 ${this.symbol}_shared[];\n` : "";
    return [
      `${shared}.visible .entry ${this.symbol}(${args.map((a) => `\n  ${a}`).join(",")}`,
      `)\n.maxntid ${size.join(", ")}${groups}\n{`,
      this.e.body(),
      "  ret;\n}\n",
    ].join("\n");
  }
}

/** The version of PTX that knows an architecture. */
export function ptxVersion(arch: number): string {
  for (const [from, version] of [[120, "8.7"], [100, "8.6"], [90, "8.0"], [89, "7.8"], [86, "7.1"]] as const) {
    if (arch >= from) return version;
  }
  return "7.0";
}

/** Writes PTX for one architecture. */
export class PtxRenderer implements Renderer {
  readonly name: string = "PTX";
  readonly caps: Capabilities;

  /** @param arch "sm_80", "sm_90a" */
  constructor(caps: Capabilities, readonly arch: string = "sm_80") {
    this.caps = { ...caps, nativeOps: PTX_OPS };
  }
  /** What stands before all kernels of a module. */
  get header(): string {
    return `.version ${ptxVersion(archNumber(this.arch))}\n.target ${this.arch}\n.address_size 64\n\n` +
      `.extern .shared .align ${SHARED_ALIGN} .b8 shared[];\n`;
  }
  /** One kernel, under any name. */
  body(program: LinearProgram, symbol: string): string {
    return new Writer(inLanes(program), symbol, archNumber(this.arch), this.caps.grid).write();
  }
  render(program: LinearProgram): string {
    return `${this.header}\n${this.body(program, identifier(program.name))}`;
  }
}
