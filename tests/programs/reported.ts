/** Rows of programs that people wrote, each run on every device that is here. @module */
import assert from "node:assert/strict";
import { devicesHere } from "../fixtures/devices.ts";
import { onDevice } from "../support/on_device.ts";
import { Tensor } from "../../mod.ts";

/** A program on the default device, what it must give, and how near: 0 is the same value. */
export interface Row {
  readonly run: () => unknown;
  readonly want: unknown;
  /** Most relative distance of numbers, 0 where nothing is said. */
  readonly near?: number;
  /** Devices that have not what it needs. */
  readonly except?: readonly string[];
}

const devices = await devicesHere();

/** Tensors are their values, in lists and records too. */
export async function valuesOf(x: unknown): Promise<unknown> {
  const now = await x;
  if (now instanceof Tensor) return await now.tolist();
  if (Array.isArray(now)) {
    const all: unknown[] = [];
    for (const part of now) all.push(await valuesOf(part));
    return all;
  }
  return now;
}

function check(got: unknown, want: unknown, near: number, path: string, least = 1e-30): void {
  if (Array.isArray(want) && Array.isArray(got)) {
    assert.equal(got.length, want.length, `${path}: ${got.length} values for ${want.length}`);
    want.forEach((w, i) => check(got[i], w, near, `${path}[${i}]`, least));
  } else if (near > 0 && typeof want === "number" && Number.isFinite(want)) {
    assert.ok(Math.abs(Number(got) - want) <= near * Math.max(Math.abs(want), least), `${path}: ${got} for ${want}`);
  } else {
    assert.deepStrictEqual(got, want, path);
  }
}

/** Checks values in the middle of a program; `near` is relative above 1, and absolute below. */
export async function equal(got: unknown, want: unknown, near = 0): Promise<void> {
  check(await valuesOf(got), want, near, "value", 1);
}

/** A test of a program that checks for itself, on each device. */
export function onAllDevices(about: string, name: string, run: () => void | Promise<void>): void {
  for (const device of devices) Deno.test(`${about} ${device}: ${name}`, () => onDevice(device, run));
}

/** A test for each row and device. */
export function reported(about: string, rows: Readonly<Record<string, Row>>): void {
  for (const [name, { run, want, near = 0, except = [] }] of Object.entries(rows)) {
    for (const device of devices.filter((d) => !except.includes(d))) {
      Deno.test(`reported ${device}: ${about}: ${name}`, () =>
        onDevice(device, async () => check(await valuesOf(await run()), want, near, name)));
    }
  }
}

/** What a call throws: its class and its text. */
export function thrown(run: () => unknown): [kind: string, text: string] {
  try {
    run();
  } catch (error) {
    return [(error as Error).name, (error as Error).message];
  }
  return ["nothing", ""];
}

/** What is on the left in NumPy or PyTorch, how a newcomer writes it, and the value. */
export type Form = readonly [theirs: string, ours: () => unknown, value: unknown];

/** Fails where a value is not the other: nested lists, real or complex numbers, within 3e-5. */
export function checkForm(got: unknown, want: unknown, what: string): void {
  if (Array.isArray(want) && Array.isArray(got)) {
    assert.equal(got.length, want.length, what);
    want.forEach((w, i) => checkForm(got[i], w, what));
  } else if (typeof want === "object" && want !== null) {
    const { re, im } = want as { re: number; im: number }, z = got as { re: number; im: number } | number;
    checkForm(typeof z === "number" ? z : z.re, re, what);
    checkForm(typeof z === "number" ? 0 : z.im, im, what);
  } else {
    const x = Number(got), y = Number(want);
    assert.ok(Math.abs(x - y) <= 3e-5 * (1 + Math.abs(y)), `${what}: ${got}, not ${want}`);
  }
}
