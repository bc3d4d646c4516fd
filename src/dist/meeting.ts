/**
 * Where ranks meet that no MPI library joins: rank 0 listens at the address that all know, and gives each of the others the
 * bytes by which their engine finds them. Nothing else goes this way.
 *
 * @module
 */
import type { RankPlace } from "../collectives/rank_place.ts";
import { DeviceError } from "../helpers/errors.ts";

/** A rank that comes before rank 0 listens tries again after so long. */
const RETRY_MS = 100;

/** The bytes of rank 0, on all ranks. @throws {DeviceError} for ranks that have not come in time, by number */
export async function meetAtMaster(place: RankPlace, bytes: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
  const { master, rank, size, launcher } = place;
  if (size === 1) return bytes;
  if (master === undefined) {
    throw new DeviceError(`join the other processes of ${launcher}`, {
      device: "",
      reason: "rank 0 is met at MASTER_ADDR and MASTER_PORT, which are not set",
    });
  }
  const end = performance.now() + timeoutMs;
  return rank === 0 ? await receiveAll(master, size, bytes, end) : await visit(master, rank, bytes.length, end);
}

/** What rank 0 does: it waits for each other rank, which says its number, and answers with the bytes. */
async function receiveAll(
  { hostname, port }: Deno.ConnectOptions,
  size: number,
  bytes: Uint8Array,
  end: number,
): Promise<Uint8Array> {
  const listener = Deno.listen({ hostname: "0.0.0.0", port }), missing = new Set<number>();
  for (let rank = 1; rank < size; rank++) missing.add(rank);
  const timer = setTimeout(() => listener.close(), Math.max(0, end - performance.now()));
  try {
    while (missing.size > 0) {
      const connection = await listener.accept();
      try {
        const said = await readExactly(connection, 4);
        await connection.write(bytes);
        missing.delete(new DataView(said.buffer).getUint32(0, true));
      } finally {
        connection.close();
      }
    }
  } catch (cause) {
    throw new DeviceError("meet the other processes", {
      device: "",
      reason: `ranks ${[...missing].join(", ")} have not come to ${hostname}:${port} in time`,
      cause,
    });
  } finally {
    clearTimeout(timer);
    try {
      listener.close();
    } catch { /* past the deadline it is closed */ }
  }
  return bytes;
}

/** What every other rank does. */
async function visit(master: Deno.ConnectOptions, rank: number, length: number, end: number): Promise<Uint8Array> {
  const said = new Uint8Array(4);
  new DataView(said.buffer).setUint32(0, rank, true);
  for (;;) {
    try {
      const connection = await Deno.connect(master);
      try {
        await connection.write(said);
        return await readExactly(connection, length);
      } finally {
        connection.close();
      }
    } catch (cause) {
      if (performance.now() > end) {
        throw new DeviceError(`meet rank 0 at ${master.hostname}:${master.port}`, {
          device: "",
          reason: `rank ${rank} could not reach it in time (${(cause as Error).message})`,
          cause,
        });
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

async function readExactly(connection: Deno.Conn, length: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length;) {
    const count = await connection.read(bytes.subarray(at));
    if (count === null) throw new Error("the connection ended early");
    at += count;
  }
  return bytes;
}
