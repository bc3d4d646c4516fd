/**
 * Which rank of how many this process is, as its launcher says: variables of mpirun (Open MPI, MPICH and their kin), srun,
 * torchrun, and of Kubernetes' indexed jobs; alone without them.
 *
 * @module
 */
import { readEnv } from "../helpers/env.ts";
import { ArgumentError } from "../helpers/errors.ts";

/** The place of this process among those that were started together. */
export interface RankPlace {
  /** "Open MPI", "MPICH", "torchrun", "Slurm", "Kubernetes", or "" for a process alone. */
  readonly launcher: string;
  readonly rank: number;
  readonly size: number;
  /** The rank among those of this host: which card is its own. */
  readonly localRank: number;
  /** How many ranks this host has, where the launcher says it. */
  readonly localSize: number | undefined;
  /** Whether an MPI library joins the ranks; otherwise rank 0 is met at `master`. */
  readonly hasMpi: boolean;
  /** Where rank 0 can be reached by TCP. */
  readonly master: { readonly hostname: string; readonly port: number } | undefined;
}

interface Row {
  readonly launcher: string;
  readonly rank: string;
  readonly size: string;
  readonly localRank: string;
  readonly localSize: string;
  readonly hasMpi: boolean;
}

/** By launcher, its variables; the first whose rank is set is taken: mpirun under Slurm has those of both. */
const ROWS: readonly Row[] = [
  {
    launcher: "Open MPI",
    rank: "OMPI_COMM_WORLD_RANK",
    size: "OMPI_COMM_WORLD_SIZE",
    localRank: "OMPI_COMM_WORLD_LOCAL_RANK",
    localSize: "OMPI_COMM_WORLD_LOCAL_SIZE",
    hasMpi: true,
  },
  {
    launcher: "MPICH",
    rank: "PMI_RANK",
    size: "PMI_SIZE",
    localRank: "MPI_LOCALRANKID",
    localSize: "MPI_LOCALNRANKS",
    hasMpi: true,
  },
  {
    launcher: "torchrun",
    rank: "RANK",
    size: "WORLD_SIZE",
    localRank: "LOCAL_RANK",
    localSize: "LOCAL_WORLD_SIZE",
    hasMpi: false,
  },
  {
    launcher: "Slurm",
    rank: "SLURM_PROCID",
    size: "SLURM_STEP_NUM_TASKS", // of a step: a batch script alone has none
    localRank: "SLURM_LOCALID",
    localSize: "SLURM_NTASKS_PER_NODE",
    hasMpi: true,
  },
  {
    launcher: "Kubernetes",
    rank: "JOB_COMPLETION_INDEX",
    size: "WORLD_SIZE",
    localRank: "LOCAL_RANK",
    localSize: "LOCAL_WORLD_SIZE",
    hasMpi: false,
  },
];

const ALONE: RankPlace = {
  launcher: "",
  rank: 0,
  size: 1,
  localRank: 0,
  localSize: 1,
  hasMpi: false,
  master: undefined,
};

/** A whole number from `min` on that a variable has. @throws {ArgumentError} */
function numberOf(launcher: string, name: string, text: string | undefined, min: number): number {
  const value = Number(text);
  if (text !== undefined && text !== "" && Number.isSafeInteger(value) && value >= min) return value;
  throw new ArgumentError(`read the variables of ${launcher}`, {
    reason: `${name} must be a whole number from ${min} on, and is ${text === undefined ? "not set" : `"${text}"`}`,
  });
}

/** The place of this process. @throws {ArgumentError} for variables that contradict each other, or are no numbers */
export function rankPlace(env: (name: string) => string | undefined = readEnv): RankPlace {
  const row = ROWS.find((r) => env(r.rank) !== undefined && (r.launcher !== "Slurm" || env(r.size) !== undefined));
  if (row === undefined) return ALONE;
  const { launcher, hasMpi } = row, read = (name: string, min: number) => numberOf(launcher, name, env(name), min);
  const rank = read(row.rank, 0), size = read(row.size, 1);
  if (rank >= size) {
    throw new ArgumentError(`read the variables of ${launcher}`, {
      reason: `${row.rank} is ${rank}, and ${row.size} is ${size}`,
    });
  }
  const local = [row.localRank, "SLURM_LOCALID"].find((name) => env(name) !== undefined);
  const localRank = local === undefined ? 0 : read(local, 0);
  const localSize = env(row.localSize) === undefined ? undefined : read(row.localSize, 1),
    hostname = env("MASTER_ADDR");
  const master = hostname === undefined
    ? undefined
    : { hostname, port: numberOf(launcher, "MASTER_PORT", env("MASTER_PORT") ?? "29500", 1) };
  return { launcher, rank, size, localRank, localSize, hasMpi, master };
}
