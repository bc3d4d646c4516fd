/** The registry of devices: what fails its self-test stays refused. */
import { assert, assertEquals, assertMatch, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import { Device, DeviceError, Tensor } from "../../mod.ts";
import { type Backend, type Device as OpenDevice, registerBackend } from "../../src/device/device.ts";
import { makeSimDevice } from "../fixtures/sim.ts";

Device.get(); // opened before the tests

/** A device whose every result is one too large in its first byte, and how often it was opened and closed. */
function brokenBackend(name: string, how: { fails: () => boolean; asynchronous?: boolean }) {
  const counts = { opened: 0, closed: 0 };
  const open = (): OpenDevice => {
    counts.opened++;
    const device = makeSimDevice(undefined, name), { allocator } = device, copyOut = allocator.copyOut!.bind(allocator);
    const close = device.close.bind(device);
    device.close = () => {
      counts.closed++;
      close();
    };
    const read: typeof copyOut = (dst, block, offset) => {
      copyOut(dst, block, offset);
      if (how.fails()) dst[0]++;
    };
    Object.defineProperty(allocator, "copyOut", { value: how.asynchronous ? undefined : read });
    allocator.copyOutAsync = (dst, block, offset) => Promise.resolve(read(dst, block, offset));
    return device;
  };
  let ready: OpenDevice | undefined;
  const backend: Backend = {
    name,
    description: "a broken device, for tests",
    permissions: [],
    unavailable: () => undefined,
    open: () => ready ?? open(),
    ...(how.asynchronous ? { openAsync: () => Promise.resolve(ready = open()) } : {}),
  };
  registerBackend(backend);
  return counts;
}

Deno.test("device: one that fails its self-test stays refused, with the same error", async () => {
  const counts = brokenBackend("BROKEN", { fails: () => true });
  const first = assertThrows(() => Device.get("BROKEN" as string), DeviceError);
  assertMatch(
    first.message,
    /^Cannot use device BROKEN: its self-test "add" gave .* results of this device cannot be trusted$/,
  );
  assertStrictEquals(assertThrows(() => Device.get("broken:0" as string)), first);
  assertStrictEquals(assertThrows(() => new Tensor([1, 2], { device: "BROKEN" as string }).add(1).realize()), first);
  assertStrictEquals(await assertRejects(() => Device.open("BROKEN" as string)), first);
  assertStrictEquals(assertThrows(() => void (Device.default = "BROKEN")), first);
  assertEquals(counts, { opened: 1, closed: 1 });
  const listed = Device.list().find((d) => d.name === "BROKEN");
  assertEquals([listed?.available, listed?.reason], [false, first.message]);
});

Deno.test("device: one that opens asynchronously, too", async () => {
  const counts = brokenBackend("BROKENLATER", { fails: () => true, asynchronous: true });
  const first = await assertRejects(() => Device.open("BROKENLATER" as string), DeviceError, "cannot be trusted");
  assertStrictEquals(await assertRejects(() => Device.open("BROKENLATER" as string)), first);
  assertStrictEquals(assertThrows(() => Device.get("BROKENLATER" as string)), first);
  assertEquals(counts, { opened: 1, closed: 1 });
});

Deno.test("device: a test that could not run is run again", () => {
  let working = false;
  const counts = brokenBackend("WEAK", {
    fails: () => {
      if (!working) throw new Error("no power");
      return false;
    },
  });
  assertThrows(() => Device.get("WEAK" as string), Error, "no power");
  assertEquals(counts, { opened: 1, closed: 1 });
  working = true;
  assert(Device.get("WEAK" as string).name === "WEAK");
  assertEquals(counts, { opened: 2, closed: 1 });
});
