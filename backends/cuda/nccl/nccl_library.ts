/**
 * NCCL as a library: its functions, where it is looked for (NCCL_PATH; the loader; the wheels of Python), what its status
 * means. Communicators, streams and device pointers are u64; the 128 bytes of an id go by value, as a struct.
 *
 * @module
 */
import { isGranted } from "../../../src/device/foreign.ts";
import { envText } from "../../../src/helpers/env.ts";
import { DeviceError } from "../../../src/helpers/errors.ts";
import { canRead, inWheels } from "../library_search.ts";

const NCCL_SYMBOLS = {
  ncclGetVersion: { parameters: ["buffer"], result: "i32" },
  ncclGetUniqueId: { parameters: ["buffer"], result: "i32" },
  // (ncclComm_t *, int size, ncclUniqueId by value, int rank, ncclConfig_t *)
  ncclCommInitRankConfig: {
    parameters: [
      "buffer",
      "i32",
      {
        struct: [
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
          "u64",
        ],
      },
      "i32",
      "buffer",
    ],
    result: "i32",
  },
  ncclCommSplit: { parameters: ["u64", "i32", "i32", "buffer", "u64"], result: "i32", optional: true },
  ncclCommDestroy: { parameters: ["u64"], result: "i32" },
  ncclCommAbort: { parameters: ["u64"], result: "i32" },
  ncclCommGetAsyncError: { parameters: ["u64", "buffer"], result: "i32" },
  ncclCommUserRank: { parameters: ["u64", "buffer"], result: "i32" },
  ncclCommCount: { parameters: ["u64", "buffer"], result: "i32" },
  ncclGetErrorString: { parameters: ["i32"], result: "pointer" },
  ncclGroupStart: { parameters: [], result: "i32" },
  ncclGroupEnd: { parameters: [], result: "i32" },
  ncclAllReduce: { parameters: ["u64", "u64", "u64", "i32", "i32", "u64", "u64"], result: "i32" },
  ncclReduceScatter: { parameters: ["u64", "u64", "u64", "i32", "i32", "u64", "u64"], result: "i32" },
  ncclAllGather: { parameters: ["u64", "u64", "u64", "i32", "u64", "u64"], result: "i32" },
  ncclBroadcast: { parameters: ["u64", "u64", "u64", "i32", "i32", "u64", "u64"], result: "i32" },
  ncclSend: { parameters: ["u64", "u64", "i32", "i32", "u64", "u64"], result: "i32" },
  ncclRecv: { parameters: ["u64", "u64", "i32", "i32", "u64", "u64"], result: "i32" },
} as const;

/** The functions of NCCL. */
export type NcclSymbols = Deno.DynamicLibrary<typeof NCCL_SYMBOLS>["symbols"];

/** ncclResult_t: what calls give. */
export const NcclResult = { SUCCESS: 0, IN_PROGRESS: 7 } as const;

/** Bytes of an id. */
export const ID_BYTES = 128;

const FILE = /^libnccl\.so(\.\d+)*$/;

function* candidates(): Generator<string> {
  const named = envText("NCCL_PATH");
  if (named !== "") return yield named;
  yield "libnccl.so.2";
  if (canRead()) yield* inWheels(FILE);
}

/** Whether the library registers the buffers of captured graphs, for which all ranks must capture at once. */
const REGISTER = "NCCL_GRAPH_REGISTER";

let opened: NcclSymbols | undefined;

/** The library, opened once. @throws {DeviceError} that says which package has it */
export function openNccl(): NcclSymbols {
  if (opened !== undefined) return opened;
  // a rank that looks at its steps one by one acts with others that run graphs
  if (isGranted({ name: "env", variable: REGISTER }) && Deno.env.get(REGISTER) === undefined) {
    Deno.env.set(REGISTER, "0");
  }
  const reasons: string[] = [];
  for (const path of candidates()) {
    try {
      return opened = Deno.dlopen(path, NCCL_SYMBOLS).symbols;
    } catch (error) {
      reasons.push((error as Error).message.split("\n")[0]);
    }
  }
  throw new DeviceError("open the NCCL library", {
    device: "CUDA",
    reason: `${reasons.join("; ")}; install libnccl2, or the wheel nvidia-nccl-cu13 or -cu12, or name it in NCCL_PATH`,
  });
}

/** The bytes by which ranks find each other; one of them makes them. @throws {DeviceError} */
export function makeNcclId(): Uint8Array {
  const nccl = openNccl(), id = new Uint8Array(new ArrayBuffer(ID_BYTES)), code = nccl.ncclGetUniqueId(id);
  if (code === NcclResult.SUCCESS) return id;
  throw new DeviceError("join the other ranks by NCCL", { device: "CUDA", reason: ncclErrorText(nccl, code) });
}

/** What a status means. */
export function ncclErrorText(nccl: NcclSymbols, code: number): string {
  const text = nccl.ncclGetErrorString(code);
  return text === null ? `error ${code}` : Deno.UnsafePointerView.getCString(text);
}

/** Fields that are left to the library. */
const UNSET = -0x80000000;

/**
 * `ncclConfig_t` of version 2.18 with `blocking = 0`: calls return at once, and `ncclCommGetAsyncError` says when they are
 * done. Newer libraries see by the size that the rest is left to them.
 */
export function nonblockingConfig(): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(new ArrayBuffer(48)), view = new DataView(bytes.buffer);
  view.setBigUint64(0, 48n, true); // size
  view.setUint32(8, 0xcafebeef, true); // magic
  view.setUint32(12, 21800, true); // version
  for (const at of [20, 24, 28, 40, 44]) view.setInt32(at, UNSET, true); // blocking, at 16, is 0
  return bytes;
}
