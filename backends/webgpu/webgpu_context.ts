/**
 * What all parts of the WEBGPU device share: the GPUDevice, whether it is lost, and its errors. WebGPU tells of errors only
 * later; each step runs between error scopes, and what they say is settled in the order of the steps.
 *
 * @module
 */
import { DeviceError } from "../../src/helpers/errors.ts";

/** What an error scope says. */
export interface ScopeError {
  readonly kind: "validation" | "out-of-memory" | "lost";
  readonly message: string;
}

/** The GPUDevice and its errors. */
export class GpuContext {
  private lostWhy: string | undefined;
  private closed = false;
  /** Settles when all errors so far are known. */
  private chain: Promise<void> = Promise.resolve();
  /** The first error since the last {@linkcode takeFailure}. */
  private failure: Error | undefined;

  /** @param name canonical: "WEBGPU" */
  constructor(readonly name: string, readonly gpu: GPUDevice) {
    gpu.lost?.then(({ reason, message }) => {
      this.lostWhy = `${reason ?? "unknown"}${message ? `: ${message}` : ""}`;
    });
    gpu.addEventListener?.("uncapturederror", (event) => {
      event.preventDefault?.();
      this.fail(
        new DeviceError(`use device ${name}`, {
          device: name,
          reason: (event as GPUUncapturedErrorEvent).error.message,
        }),
      );
    });
  }

  /** Whether it can be used no more. */
  get isLost(): boolean {
    return this.closed || this.lostWhy !== undefined;
  }
  /** The error of whoever uses it then. */
  lostError(action: string): DeviceError {
    const { name, closed, lostWhy } = this;
    return new DeviceError(action, {
      device: name,
      reason: closed || lostWhy === undefined
        ? `${name} was closed`
        : `${name} was lost (${lostWhy}) with all tensors on it; await Device.open("${name}") opens it anew`,
    });
  }
  /** @throws {DeviceError} where it can be used no more */
  check(action: string): void {
    if (this.isLost) throw this.lostError(action);
  }

  /** Remembers an error for {@linkcode takeFailure}. */
  fail(error: Error): void {
    this.failure ??= error;
  }
  /** The first error that nobody was told of. */
  takeFailure(): Error | undefined {
    const error = this.failure;
    this.failure = undefined;
    return error;
  }

  /** Runs a step; `settle` learns, after all earlier ones have, what went wrong in it. */
  scoped<T>(step: () => T, settle: (error: ScopeError | undefined) => void | Promise<void>): T {
    const { gpu } = this;
    gpu.pushErrorScope("out-of-memory");
    gpu.pushErrorScope("validation");
    try {
      return step();
    } finally {
      const found = this.popScopes();
      this.chain = this.chain.then(async () => settle(await found));
    }
  }
  private async popScopes(): Promise<ScopeError | undefined> {
    const { gpu } = this;
    const [validation, memory] = await Promise.allSettled([gpu.popErrorScope(), gpu.popErrorScope()]);
    if (memory.status === "fulfilled" && memory.value) return { kind: "out-of-memory", message: memory.value.message };
    if (validation.status === "fulfilled") {
      return validation.value ? { kind: "validation", message: validation.value.message } : undefined;
    }
    return { kind: "lost", message: String((validation.reason as Error)?.message ?? validation.reason) };
  }

  /** Settles when the errors of all steps so far are known. */
  settled(): Promise<void> {
    return this.chain;
  }

  /** Ends the device. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.gpu.destroy();
  }
}
