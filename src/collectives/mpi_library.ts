/**
 * The MPI library by foreign calls alone: one table of functions and handles for three binary interfaces, that of Open
 * MPI (handles are addresses of exported globals), that of MPICH and its kin (integers), and the standard one of MPI 5.0
 * (small integers). Every handle is passed as u64: an `int` is the low half of the same register.
 *
 * @module
 */
import { textOf, whyNoForeignCode } from "../device/foreign.ts";
import { readEnv } from "../helpers/env.ts";
import { DeviceError } from "../helpers/errors.ts";

const MPI_SYMBOLS = {
  MPI_Init_thread: { parameters: ["u64", "u64", "i32", "buffer"], result: "i32" },
  MPI_Initialized: { parameters: ["buffer"], result: "i32" },
  MPI_Finalize: { parameters: [], result: "i32" },
  MPI_Abort: { parameters: ["u64", "i32"], result: "i32" },
  MPI_Get_library_version: { parameters: ["buffer", "buffer"], result: "i32" },
  MPI_Error_string: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  MPI_Comm_rank: { parameters: ["u64", "buffer"], result: "i32" },
  MPI_Comm_size: { parameters: ["u64", "buffer"], result: "i32" },
  MPI_Comm_set_errhandler: { parameters: ["u64", "u64"], result: "i32" },
  MPI_Comm_split: { parameters: ["u64", "i32", "i32", "buffer"], result: "i32" },
  MPI_Comm_free: { parameters: ["buffer"], result: "i32" },
  MPI_Iallreduce: { parameters: ["u64", "u64", "i32", "u64", "u64", "u64", "buffer"], result: "i32" },
  MPI_Ireduce: { parameters: ["u64", "u64", "i32", "u64", "u64", "i32", "u64", "buffer"], result: "i32" },
  MPI_Ireduce_scatter_block: { parameters: ["u64", "u64", "i32", "u64", "u64", "u64", "buffer"], result: "i32" },
  MPI_Iallgather: { parameters: ["u64", "i32", "u64", "u64", "i32", "u64", "u64", "buffer"], result: "i32" },
  MPI_Ialltoall: { parameters: ["u64", "i32", "u64", "u64", "i32", "u64", "u64", "buffer"], result: "i32" },
  MPI_Ibcast: { parameters: ["u64", "i32", "u64", "i32", "u64", "buffer"], result: "i32" },
  MPI_Isend: { parameters: ["u64", "i32", "u64", "i32", "i32", "u64", "buffer"], result: "i32" },
  MPI_Irecv: { parameters: ["u64", "i32", "u64", "i32", "i32", "u64", "buffer"], result: "i32" },
  MPI_Test: { parameters: ["buffer", "buffer", "u64"], result: "i32" },
  MPI_Cancel: { parameters: ["buffer"], result: "i32" },
  MPI_Wait: { parameters: ["buffer", "u64"], result: "i32" },
  MPI_Abi_get_version: { parameters: ["buffer", "buffer"], result: "i32", optional: true },
} as const;

/** The functions of an MPI library. */
export type MpiSymbols = Deno.DynamicLibrary<typeof MPI_SYMBOLS>["symbols"];

/** Handles and constants: what Open MPI exports them as, or its value; MPICH's; and those of the standard. */
const HANDLES = {
  world: ["ompi_mpi_comm_world", 0x44000000n, 0x101n],
  errorsReturn: ["ompi_mpi_errors_return", 0x54000001n, 0x143n],
  byte: ["ompi_mpi_byte", 0x4c00010dn, 0x247n],
  int8: ["ompi_mpi_int8_t", 0x4c000137n, 0x240n],
  uint8: ["ompi_mpi_uint8_t", 0x4c00013bn, 0x241n],
  int16: ["ompi_mpi_int16_t", 0x4c000238n, 0x248n],
  uint16: ["ompi_mpi_uint16_t", 0x4c00023cn, 0x249n],
  int32: ["ompi_mpi_int32_t", 0x4c000439n, 0x250n],
  uint32: ["ompi_mpi_uint32_t", 0x4c00043dn, 0x251n],
  int64: ["ompi_mpi_int64_t", 0x4c00083an, 0x258n],
  uint64: ["ompi_mpi_uint64_t", 0x4c00083en, 0x259n],
  float32: ["ompi_mpi_float", 0x4c00040an, 0x210n],
  float64: ["ompi_mpi_double", 0x4c00080bn, 0x214n],
  sum: ["ompi_mpi_op_sum", 0x58000003n, 0x21n],
  min: ["ompi_mpi_op_min", 0x58000002n, 0x22n],
  max: ["ompi_mpi_op_max", 0x58000001n, 0x23n],
  prod: ["ompi_mpi_op_prod", 0x58000004n, 0x24n],
  inPlace: [1n, 0xffffffffffffffffn, 1n],
  statusIgnore: [0n, 1n, 0n],
  threadMultiple: [3n, 3n, 4096n],
} as const;

/** Names of the handles. */
export type MpiHandle = keyof typeof HANDLES;
/** Which binary interface a library has. */
export type MpiInterface = "Open MPI" | "MPICH" | "MPI 5";

/** An open MPI library. */
export interface MpiLibrary {
  readonly path: string;
  readonly interface: MpiInterface;
  readonly symbols: MpiSymbols;
  readonly handles: Readonly<Record<MpiHandle, bigint>>;
  /** What it says of itself: "Open MPI v4.1.4". */
  readonly version: string;
}

const OPEN_MPI = ["libmpi.so.40"], MPICH = ["libmpich.so.12", "libmpi.so.12"], STANDARD = ["libmpi_abi.so.1"];

/**
 * Where to look: the launcher says which library, since another one starts a world of one rank each time. `MPI_PATH` goes
 * before everything.
 */
export function mpiPlaces(env: (name: string) => string | undefined = readEnv): readonly string[] {
  const named = env("MPI_PATH");
  if (named) return [named];
  if (env("OMPI_COMM_WORLD_SIZE") !== undefined) return [...OPEN_MPI, ...STANDARD];
  if (env("PMI_SIZE") !== undefined || env("PMI_RANK") !== undefined) return [...MPICH, ...STANDARD];
  return [...OPEN_MPI, ...MPICH, ...STANDARD];
}

/** Numbers that a library writes to: a typed array whose memory does not move. */
export function outInts(count = 1): Int32Array<ArrayBuffer> {
  return new Int32Array(new ArrayBuffer(4 * count));
}

/** Opens the library that the launcher belongs to. @throws {DeviceError} that says which package has one */
export function openMpi(places: readonly string[] = mpiPlaces()): MpiLibrary {
  const why = whyNoForeignCode(), reasons: string[] = [];
  if (why !== undefined) throw new DeviceError("open the MPI library", { device: "MPI", reason: why });
  for (const path of places) {
    let symbols: MpiSymbols;
    try {
      ({ symbols } = Deno.dlopen(path, MPI_SYMBOLS));
    } catch (error) {
      reasons.push((error as Error).message.split("\n")[0]);
      continue;
    }
    const kind = interfaceOf(path, symbols), bytes = new Uint8Array(new ArrayBuffer(8192)), length = outInts();
    symbols.MPI_Get_library_version(bytes, length);
    const version = textOf(bytes).split(/[,\n]/)[0].replace(/\s+/g, " ").trim();
    return { path, interface: kind, symbols, handles: handlesOf(path, kind), version };
  }
  throw new DeviceError("open the MPI library", {
    device: "MPI",
    reason:
      `there is none of ${places.join(", ")} (${reasons.join("; ")}); install openmpi-bin or mpich (Debian), that ` +
      "whose mpirun starts the program, allow --allow-ffi, or name the library in MPI_PATH",
  });
}

/** What sort of handles a library takes: natively built ones answer -1 for the version of the standard's interface. */
function interfaceOf(path: string, symbols: MpiSymbols): MpiInterface {
  const major = outInts(), minor = outInts();
  if (symbols.MPI_Abi_get_version?.(major, minor) === 0 && major[0] >= 1) return "MPI 5";
  try {
    Deno.dlopen(path, { ompi_mpi_comm_world: { type: "pointer" } }).close();
    return "Open MPI";
  } catch {
    return "MPICH";
  }
}

/** Handles by name; those of Open MPI are addresses in the library. */
function handlesOf(path: string, kind: MpiInterface): Record<MpiHandle, bigint> {
  const column = kind === "Open MPI" ? 0 : kind === "MPICH" ? 1 : 2;
  const entries = Object.entries(HANDLES).map(([name, row]) => [name, row[column]] as const);
  const exported = entries.flatMap(([, value]) => typeof value === "string" ? [value] : []);
  const statics = Object.fromEntries(exported.map((name) => [name, { type: "pointer" } as const]));
  const found: Record<string, Deno.PointerValue> = exported.length === 0 ? {} : Deno.dlopen(path, statics).symbols;
  return Object.fromEntries(entries.map(([name, value]) => [
    name,
    typeof value === "string" ? Deno.UnsafePointer.value(found[value]) : value,
  ])) as Record<MpiHandle, bigint>;
}

/** What a code of the library means. */
export function mpiErrorText({ symbols }: MpiLibrary, code: number): string {
  const bytes = new Uint8Array(new ArrayBuffer(8192)), length = outInts();
  return symbols.MPI_Error_string(code, bytes, length) === 0 ? textOf(bytes) : `error ${code}`;
}
