/**
 * The driver library of this process: found, opened, initialized, and shared by the devices of all ordinals. It knows
 * which context is current, so that switching between cards costs a comparison.
 *
 * @module
 */
import { isGranted, whyNoForeignCode } from "../../src/device/foreign.ts";
import { envText } from "../../src/helpers/env.ts";
import { DeviceError } from "../../src/helpers/errors.ts";
import { resultText, versionText } from "./results.ts";
import { DRIVER_SYMBOLS } from "./symbols.ts";

type DriverLibrary = Deno.DynamicLibrary<typeof DRIVER_SYMBOLS>;

/** The oldest driver that has every function of the table, and the package that brings it. */
const OLDEST = 11040, OLDEST_PACKAGE = 470;

/** Where the driver's library is looked for: by the dynamic loader, then where WSL and containers mount it. */
const PLACES: readonly string[] = [
  "libcuda.so.1",
  "/usr/lib/wsl/lib/libcuda.so.1",
  "/usr/local/nvidia/lib64/libcuda.so.1",
  "/usr/local/nvidia/lib/libcuda.so.1",
];

/** Memory that outlives calls, at an address that is known: an own ArrayBuffer, which V8 never moves. */
export class HostMemory {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly u32: Uint32Array<ArrayBuffer>;
  readonly i32: Int32Array<ArrayBuffer>;
  readonly words: BigUint64Array<ArrayBuffer>;
  readonly view: DataView<ArrayBuffer>;
  readonly address: bigint;

  /** Zeros. @param words of 8 bytes */
  constructor(words: number) {
    const buffer = new ArrayBuffer(words * 8);
    this.bytes = new Uint8Array(buffer);
    this.u32 = new Uint32Array(buffer);
    this.i32 = new Int32Array(buffer);
    this.words = new BigUint64Array(buffer);
    this.view = new DataView(buffer);
    this.address = addressOf(this.bytes);
  }
}

/** The address of bytes in an own ArrayBuffer. They must be kept alive while it is used. */
export function addressOf(bytes: Uint8Array): bigint {
  return BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes as Uint8Array<ArrayBuffer>)));
}

/** An opened and initialized driver. */
export class Driver {
  readonly cu: DriverLibrary["symbols"];
  /** Out parameters of one call: two words. */
  readonly out: HostMemory = new HostMemory(2);
  /** The second word of `out`, for functions that give two values. */
  readonly second: BigUint64Array<ArrayBuffer> = this.out.words.subarray(1);
  private current = 0n;
  private users = 0;

  constructor(
    readonly path: string,
    private readonly library: DriverLibrary,
    /** 12040 for CUDA 12.4. */
    readonly version: number,
    /** Devices that can be opened. */
    readonly count: number,
  ) {
    this.cu = library.symbols;
  }

  /** Makes `context` the one that calls mean. Gives the status. */
  use(context: bigint): number {
    if (context === this.current) return 0;
    const code = this.cu.cuCtxSetCurrent(context);
    if (code === 0) this.current = context;
    return code;
  }
  /** Forgets which context is current: one was destroyed. */
  forget(): void {
    this.current = 0n;
  }
  /** Counts a device that uses it. */
  retain(): this {
    this.users++;
    return this;
  }
  /** The last device closes the library. */
  release(): void {
    if (--this.users > 0) return;
    drivers.delete(this.path);
    this.library.close();
  }
}

/** Open drivers, by the value of CUDA_DRIVER_PATH. */
const drivers = new Map<string, Driver>();

function refuse(reason: string, cause?: unknown): DeviceError {
  return new DeviceError("open device CUDA", { device: "CUDA", reason, cause });
}

function openLibrary(named: string): DriverLibrary {
  let reason = "";
  for (const place of named === "" ? PLACES : [named]) {
    try {
      return Deno.dlopen(place, DRIVER_SYMBOLS);
    } catch (error) {
      const { message } = error as Error, symbol = /undefined symbol: (\w+)/.exec(message);
      if (symbol !== null) {
        throw refuse(
          `the NVIDIA driver is too old: it has no ${symbol[1]}; update it to ${OLDEST_PACKAGE} or newer ` +
            `(CUDA ${versionText(OLDEST)})`,
          error,
        );
      }
      reason ||= message.replace(/^(Could not open library: )+/, "");
    }
  }
  throw refuse(
    named === ""
      ? 'no NVIDIA driver was found (libcuda.so.1); install one, as with "apt-get install nvidia-driver", or set ' +
        "CUDA_DRIVER_PATH to the library"
      : `the driver that CUDA_DRIVER_PATH names cannot be opened: ${reason}`,
  );
}

/** The driver, opened and initialized at the first call. @throws {DeviceError} saying what is missing */
export function openDriver(): Driver {
  const named = envText("CUDA_DRIVER_PATH");
  const known = drivers.get(named);
  if (known !== undefined) return known;
  const library = openLibrary(named);
  try {
    const { symbols: cu } = library, out = new Int32Array(1);
    const ask = (code: number): number => {
      if (code !== 0) throw refuse(resultText(code));
      return out[0];
    };
    const version = ask(cu.cuDriverGetVersion(out));
    if (version < OLDEST) {
      throw refuse(
        `the NVIDIA driver is too old: it supports CUDA ${versionText(version)}; update it to ${OLDEST_PACKAGE} or ` +
          `newer (CUDA ${versionText(OLDEST)})`,
      );
    }
    ask(cu.cuInit(0));
    const count = ask(cu.cuDeviceGetCount(out));
    if (count === 0) throw refuse(resultText(100));
    const driver = new Driver(named, library, version, count);
    drivers.set(named, driver);
    return driver;
  } catch (error) {
    library.close();
    throw error;
  }
}

/** The last answer of {@linkcode whyUnavailable}, by CUDA_DRIVER_PATH: a driver does not come or go while we run. */
const answers = new Map<string, string | undefined>();

/** Why the CUDA device cannot open here, or undefined. Asks for no permission. */
export function whyUnavailable(): string | undefined {
  const why = whyNoForeignCode();
  if (why !== undefined) return why;
  if (Deno.build.os !== "linux") return "it needs Linux";
  if (!isGranted({ name: "ffi" })) return "it needs --allow-ffi";
  const named = envText("CUDA_DRIVER_PATH");
  if (!answers.has(named)) {
    let why: string | undefined;
    try {
      openDriver();
    } catch (error) {
      if (!(error instanceof DeviceError)) throw error;
      why = error.message.replace(/^Cannot .*?: /, "");
    }
    answers.set(named, why);
  }
  return answers.get(named);
}
