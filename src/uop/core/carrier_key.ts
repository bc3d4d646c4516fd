/**
 * Carriers by their keys: a key and the dtypes of the lanes name a carrier completely, so that a graph that was written
 * down gets its REDUCEs back. In: what `CarrierArg.key` and `CarrierArg.dtypes` are; out: the carrier, made anew.
 *
 * @module
 */
import { type DType, toDType } from "../../dtype/dtype.ts";
import { sameArray } from "../../helpers/math.ts";
import {
  type CarrierArg,
  momentsCarrier,
  opCarrier,
  productCarrier,
  RescaleCarrier,
  rescaleCarrier,
  RowCarrier,
  RowMaximum,
  ScaledSum,
  selectCarrier,
} from "./carrier.ts";
import { Ops } from "./ops.ts";
import { type UOp, variable } from "./uop.ts";

const REDUCES: Readonly<Record<string, Ops>> = { ADD: Ops.ADD, MUL: Ops.MUL, MAX: Ops.MAX };

/** Makes the carrier of a part of a key, of what its pattern caught and the dtypes of the lanes that are left. */
type Make = (caught: readonly (string | undefined)[], lanes: readonly DType[]) => CarrierArg;

const LIST = String.raw`((?:\d+(?:,\d+)*)?)`;

/** How the parts of keys are written; longer ones before those that they begin with. */
const PARTS: readonly (readonly [pattern: RegExp, leastLanes: number, Make])[] = [
  [/MAX,EXP2\((.*?)\)/, 2, ([a], [d]) => rescaleCarrier(d, -Number(a))],
  [/SELECT,(ADD|MUL|MAX)/, 2, ([op], [d, value]) => selectCarrier(d, REDUCES[op!], value)],
  [
    /RESCALE\((.*?)\)x(\d+)(?: (\w+))?/,
    2,
    ([slope, sums, weight], [d]) => (
      new RescaleCarrier(d, Number(slope), Number(sums), weight === undefined ? undefined : toDType(weight))
    ),
  ],
  [
    new RegExp(String.raw`ROWMAX\((.*?)\) ${LIST} ${LIST}`),
    1,
    ([slope, rows, masks], [d]) => new RowMaximum(d, Number(slope), numbers(rows), numbers(masks)),
  ],
  [
    new RegExp(`SCALED (?:tiles|${LIST}) ${LIST}`),
    2,
    ([rows, masks], [d]) => new ScaledSum(d, rows === undefined ? undefined : numbers(rows), numbers(masks)),
  ],
  [/MOMENTS/, 3, (_, lanes) => momentsCarrier(lanes[1])],
  [/(ADD|MUL|MAX)/, 1, ([op], [d]) => opCarrier(REDUCES[op!], d)],
];
const ANCHORED = PARTS.map(([pattern, ...more]) => [new RegExp(pattern.source, "y"), ...more] as const);
const AFTER_ROWS = new RegExp(` ${LIST} ${LIST}`, "y");

function numbers(list: string | undefined): number[] {
  return list === undefined || list === "" ? [] : list.split(",").map(Number);
}

/** Reads the parts of a key, one after the other. */
class KeyReader {
  private at = 0;
  private lane = 0;
  constructor(private readonly key: string, private readonly lanes: readonly DType[]) {}

  /** The whole of it; undefined for a key that no carrier has. */
  read(): CarrierArg | undefined {
    const made = this.product();
    return made !== undefined && this.at === this.key.length && this.lane === this.lanes.length ? made : undefined;
  }

  /** Parts up to the end, or to the parenthesis that closes them. */
  private product(): CarrierArg | undefined {
    const parts: CarrierArg[] = [];
    do {
      const part = this.part();
      if (part === undefined) return undefined;
      parts.push(part);
    } while (this.takes(","));
    return parts.length === 1 ? parts[0] : productCarrier(parts);
  }

  private part(): CarrierArg | undefined {
    if (this.takes("ROWS(")) return this.rows();
    for (const [pattern, least, make] of ANCHORED) {
      const caught = this.match(pattern);
      if (caught === undefined) continue;
      const rest = this.lanes.slice(this.lane);
      if (rest.length < least) return undefined;
      const made = make(caught, rest);
      this.lane += made.lanes;
      return made;
    }
    return undefined;
  }

  private rows(): CarrierArg | undefined {
    const of = this.product(), lists = of !== undefined && this.takes(")") ? this.match(AFTER_ROWS) : undefined;
    return lists === undefined ? undefined : new RowCarrier(of!, numbers(lists[0]), numbers(lists[1]));
  }

  private takes(text: string): boolean {
    const found = this.key.startsWith(text, this.at);
    if (found) this.at += text.length;
    return found;
  }

  private match(pattern: RegExp): (string | undefined)[] | undefined {
    pattern.lastIndex = this.at;
    const m = pattern.exec(this.key);
    if (m === null) return undefined;
    this.at = pattern.lastIndex;
    return m.slice(1);
  }
}

/** The carrier with this key and these dtypes of lanes; undefined where the key is none. */
export function carrierOfKey(key: string, lanes: readonly DType[]): CarrierArg | undefined {
  const made = new KeyReader(key, lanes).read();
  return made?.key === key && made.dtypes.every((d, i) => d === lanes[i]) ? made : undefined;
}

const ofTheirKeys = new WeakMap<CarrierArg, boolean>();

/** Whether a carrier is the very one that {@linkcode carrierOfKey} makes of its key: the same identity, the same sums. */
export function isOfItsKey(carrier: CarrierArg): boolean {
  let is = ofTheirKeys.get(carrier);
  if (is === undefined) {
    const { key, dtypes, identity } = carrier, known = carrierOfKey(key, dtypes);
    is = known !== undefined && known.constructor === carrier.constructor &&
      identity.every((x, i) => Object.is(x, known.identity[i])) && sameArray(sumsOf(carrier), sumsOf(known));
    ofTheirKeys.set(carrier, is);
  }
  return is;
}

/** What a carrier combines of two results, then of three: nodes, which are the same where they compute the same. */
export function sumsOf({ dtypes, combine, join }: CarrierArg): readonly (UOp | undefined)[] {
  const lanes = (part: number): UOp[] => dtypes.map((d, i) => variable(`p${part}_${i}`, -Infinity, Infinity, d));
  const parts = [0, 1, 2].map(lanes);
  return [...combine(parts[0], parts[1]), ...join?.(parts) ?? [undefined]];
}
