/** Another default device for a while. */
import { Device } from "../../mod.ts";

void Device.default; // it opens outside of tests

/** What `run` gives while `device` is the default one: of a promise until it is settled. */
export function onDevice<T>(device: string, run: () => T): T {
  const before = Device.default, goBack = (): void => void (Device.default = before);
  let waits = false;
  Device.default = device;
  try {
    const result = run();
    waits = result instanceof Promise;
    return waits ? (result as Promise<unknown>).finally(goBack) as T : result;
  } finally {
    if (!waits) goBack();
  }
}
