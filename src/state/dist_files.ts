/**
 * Files of models on several devices: one safetensors file for each of them, with the parts that it has, and an index. A
 * part is named by its tensor and where it begins, as "layer.weight@4,0", so that files are read by any reader of the
 * format, and loaded under any other division.
 *
 * @module
 */
import { world } from "../collectives/engines.ts";
import { processes } from "../device/group.ts";
import { ArgumentError, FormatError, ShapeError } from "../helpers/errors.ts";
import { sameArray } from "../helpers/math.ts";
import { describe } from "../helpers/options.ts";
import { checkShards } from "../engine/front/engine.ts";
import { realizedBuffer } from "../tensor/realize.ts";
import { Tensor } from "../tensor/tensor.ts";
import { argOf } from "../uop/core/args.ts";
import { reshape } from "../uop/core/build_movement.ts";
import { Ops } from "../uop/core/ops.ts";
import { bufferNode } from "../uop/core/uop.ts";
import { shardSize } from "../uop/core/sharding.ts";
import { bare } from "../uop/graph/complex.ts";
import { safeLoad, writeShards } from "./safetensors.ts";
import { pathOf } from "./source.ts";
import { getStateDict } from "./state_dict.ts";

/** A part of a tensor by the rank that writes it. */
interface Part {
  readonly rank: number;
  readonly starts: readonly number[];
  readonly stops: readonly number[];
}

/** The parts of a tensor that devices have, each once. */
function partsOf(t: Tensor): Part[] {
  const { mesh, axes } = checkShards(bare(t.uop)), { shape } = t, seen = new Set<string>(), out: Part[] = [];
  const sizes = shape.map((n, i) => shardSize(n, mesh!, axes[i] ?? null));
  for (let rank = 0; rank < (mesh?.size ?? 1); rank++) {
    const starts = sizes.map((n, i) => axes[i] == null ? 0 : n * mesh!.coordinate(rank, axes[i]!));
    const stops = starts.map((s, i) => Math.min(shape[i], s + sizes[i]));
    const isEmpty = starts.some((s, i) => s >= shape[i] && shape[i] > 0), key = starts.join();
    if (isEmpty || seen.has(key)) continue;
    seen.add(key);
    out.push({ rank, starts, stops });
  }
  return out;
}

function checkTree(action: string, tree: unknown): Record<string, Tensor> {
  const dict = getStateDict(tree);
  if (Object.keys(dict).length > 0) return dict;
  throw new ArgumentError(action, { reason: `there are no tensors in ${describe(tree)}` });
}

/**
 * Writes the tensors of `tree` to one safetensors file for each device that has parts of them
 * (`model-00001-of-00004.safetensors`) and their index (`model.safetensors.index.json`), which gets its name last: what a
 * path names is always whole. What several devices have is written once. After `dist.init()` all ranks call it, and each
 * writes what it has, to a folder that all of them see. Needs write permission for the folder.
 *
 * ```ts ignore files
 * import { nn, state } from "../../mod.ts";
 * const model = new nn.Linear(8, 2);
 * await state.distSave(model, "parts.safetensors");
 * await state.distLoad(model, "parts.safetensors"); // also on another mesh, or on one device
 * ```
 * @throws {DTypeError} for a dtype that the format has not, {ArgumentError} for a tree without tensors
 */
export async function distSave(tree: unknown, path: string | URL): Promise<void> {
  const action = "save a tree in parts", target = pathOf(action, path), dict = checkTree(action, tree);
  const files = new Map<number, [string, Tensor][]>(), own = processes.place?.rank;
  for (const [name, t] of Object.entries(dict)) {
    const whole = own === undefined && t.devices.length > 1 ? t.detach().to("JS") : t.detach();
    for (const { rank, starts, stops } of partsOf(t)) {
      if (!files.has(rank)) files.set(rank, []);
      const sizes = starts.map((s, i) => stops[i] - s);
      const part = own === undefined
        ? whole.shrink(starts.map((s, i) => [s, stops[i]]))
        : rank === own
        ? ownShard(t).shrink(sizes.map((n) => [0, n]))
        : Tensor.empty(sizes, { dtype: t.dtype, device: "JS" }); // another process has it
      files.get(rank)!.push([`${name}@${starts}`, part]);
    }
  }
  const ranks = [...files.keys()].sort((a, b) => a - b), shards = ranks.map((rank) => files.get(rank)!);
  if (own === undefined) return await writeShards(target, shards);
  const file = files.has(own) ? ranks.indexOf(own) : undefined, { communicator } = world;
  const barrier = async (): Promise<void> => await communicator!.start({ kind: "barrier" }, [], []).done();
  await writeShards(target, shards, undefined, { file, writesIndex: own === 0, barrier });
}

/** What this process has of a tensor, on the host. */
function ownShard(t: Tensor): Tensor {
  const { layout } = argOf(realizedBuffer(bare(t.realize().uop))!, Ops.BUFFER).storage;
  if (layout === undefined) return t.detach().to("JS");
  const node = realizedBuffer(bare(t.uop))!, { storage, version } = argOf(node, Ops.BUFFER);
  return new Tensor(reshape(bufferNode(storage, version, true), layout.local)).to("JS");
}

/** Parts by where they begin, joined along dimension `dim` and those after it. */
function joined(parts: readonly { readonly starts: readonly number[]; readonly t: Tensor }[], dim: number): Tensor {
  if (parts.length === 1) return parts[0].t;
  const groups = new Map<number, typeof parts[number][]>();
  for (const p of parts) groups.set(p.starts[dim], [...groups.get(p.starts[dim]) ?? [], p]);
  const rows = [...groups].sort(([a], [b]) => a - b).map(([, group]) => joined(group, dim + 1));
  return rows.length === 1 ? rows[0] : rows[0].cat(rows.slice(1), dim);
}

/**
 * Writes the parts in the files of {@linkcode distSave} into the tensors of `tree`, each divided as it is now: the number
 * of devices, and the mesh, may be others than those that wrote. Returns the tree.
 *
 * @throws {FormatError} where a tensor of the tree is in no file, {ShapeError} where it has another shape there
 */
export async function distLoad<T>(tree: T, path: string | URL): Promise<T> {
  const action = "load a tree from parts", target = pathOf(action, path), dict = checkTree(action, tree);
  const found = await safeLoad(`${target.replace(/\.safetensors$/, "")}.safetensors.index.json`, { device: "JS" });
  const parts = new Map<string, { starts: number[]; t: Tensor }[]>();
  for (const [key, t] of Object.entries(found)) {
    const at = key.lastIndexOf("@"), name = key.slice(0, at), list = parts.get(name) ?? [];
    list.push({ starts: key.slice(at + 1).split(",").map(Number), t });
    parts.set(name, list);
  }
  for (const [name, t] of Object.entries(dict)) {
    const own = parts.get(name);
    if (own === undefined) throw new FormatError("load", { file: target, reason: `it has no tensor "${name}"` });
    const whole = joined(own, 0);
    if (!sameArray(whole.shape, t.shape)) {
      throw new ShapeError(`load tensor "${name}" of`, {
        shapes: [whole.shape],
        reason: `the tree has it with shape [${t.shape.join(", ")}]`,
      });
    }
    const value = whole.cast(t.dtype);
    t.assign(checkShards(bare(t.uop)).mesh === undefined ? value.to(t.device) : value.shardLike(t));
  }
  Tensor.realize(Object.values(dict));
  return tree;
}
