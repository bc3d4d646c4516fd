/**
 * Kernels as data (src/uop/graph/graph_data.ts), with the arguments that only their nodes have. In: ASTs and lowered lists;
 * out: data, or text that names a kernel exactly.
 *
 * @module
 */
import { KernelInfo, optsText, parseOpts } from "../../codegen/opt/opt.ts";
import type { DType } from "../../dtype/dtype.ts";
import { FormatError } from "../../helpers/errors.ts";
import { chainOf, type SharedTile, TensorCore, type TileOffset } from "../../renderer/tensor_core_table.ts";
import { CarrierArg } from "../../uop/core/carrier.ts";
import { isOfItsKey, sumsOf } from "../../uop/core/carrier_key.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { type GraphData, graphData, graphOf, type RecordFormat, RecordFormats } from "../../uop/graph/graph_data.ts";

/** Arguments of nodes that kernels have beside those of graphs. */
const KERNEL_RECORDS: readonly RecordFormat[] = [
  {
    name: "KernelInfo",
    is: (arg) => arg instanceof KernelInfo,
    write: (arg) => {
      const { name, opts } = arg as KernelInfo;
      return [name, opts && optsText(opts)];
    },
    read: ([name, opts]) => new KernelInfo(name as string, opts === undefined ? opts : parseOpts(opts as string)),
  },
  {
    name: "TensorCore",
    is: (arg) => arg instanceof TensorCore,
    write: (arg) => {
      const core = arg as TensorCore, { name, m, n, k, input, output, lanes, a, b, c } = core.half ?? core;
      const tiles = [a, b, c].map(({ lane, element }) => [lane, element]), { shared, exchanged } = core;
      const places = shared?.map((tile) => tile === undefined ? [] : [tile.isAlong ? 1 : 0, tile.block]);
      return [name, m, n, k, input, output, lanes, tiles, core.half === undefined ? 1 : 2, places, exchanged];
    },
    read: ([name, m, n, k, input, output, lanes, tiles, count, places, exchanged]) => {
      const sizes = [m, n, k] as [number, number, number], types = [input, output] as [DType, DType];
      const [a, b, c] = (tiles as readonly [TileOffset[], TileOffset[]][]).map(([lane, element]) => ({
        lane,
        element,
      }));
      const shared = (places as readonly [number?, number?][] | undefined)
        ?.map(([along, block]): SharedTile | undefined =>
          block === undefined ? undefined : { isAlong: along === 1, block }
        ) as TensorCore["shared"];
      const swaps = exchanged as TensorCore["exchanged"],
        one = [lanes as number, a, b, c, undefined, shared, swaps] as const;
      const core = new TensorCore(name as string, ...sizes, ...types, ...one);
      return count === 2 ? chainOf(core)!.inner : core;
    },
  },
];

const RECORDS = new RecordFormats(KERNEL_RECORDS);

/** Kernels as data, and what they are made of: nodes of ops that only kernels have, too. */
export function kernelGraph(roots: readonly UOp[]): GraphData {
  return graphData(roots, RECORDS);
}
/** The kernels of {@linkcode kernelGraph}. @throws {FormatError} for data of another version */
export function kernelsOfGraph(data: GraphData): UOp[] {
  return graphOf(data, RECORDS);
}

/** Carriers of a program's own, by what they combine: their keys say so only within that program. None is read. */
const OWN_CARRIERS: RecordFormat = {
  name: "OwnCarrier",
  is: (arg) => arg instanceof CarrierArg && arg.constructor === CarrierArg && !isOfItsKey(arg),
  write: (arg) => {
    const { key, dtypes, identity } = arg as CarrierArg;
    return [key, dtypes, identity, sumsOf(arg as CarrierArg)];
  },
  read: () => undefined,
};
const TEXT_RECORDS = new RecordFormats([OWN_CARRIERS, ...KERNEL_RECORDS]);

/**
 * The nodes and all below them as text: two graphs have one text if and only if they are the same. undefined where an
 * argument has no such form.
 */
export function kernelText(nodes: readonly UOp[]): string | undefined {
  try {
    return JSON.stringify(graphData(nodes, TEXT_RECORDS));
  } catch (error) {
    if (error instanceof FormatError) return undefined;
    throw error;
  }
}

/** Whether what a text of {@linkcode kernelText} says of carriers is all of them. */
export function isReadable(text: string): boolean {
  return !text.includes(`"${OWN_CARRIERS.name}"`);
}

/** What {@linkcode kernelText} was given. @throws {FormatError} where there was a carrier of a program's own */
export function kernelsOfText(text: string): UOp[] {
  return kernelsOfGraph(JSON.parse(text));
}

/** The same; undefined where it reads back as another: of nodes that are equal and yet two, one would be left. */
export function sameKernelsOfText(text: string): UOp[] | undefined {
  const kernels = kernelsOfText(text);
  return kernelText(kernels) === text ? kernels : undefined;
}
