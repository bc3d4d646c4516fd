/** Checks of options: by name they are never narrower than what the public types say. */
import { assert, assertEquals } from "@std/assert";
import { checkOptions } from "../../src/helpers/options.ts";
import { runDeno } from "../system/subprocess.ts";

/** A type as `deno doc --json` writes it. */
interface DocType {
  readonly kind: string;
  readonly repr: string;
  readonly value: unknown;
}

const SAMPLES: Readonly<Record<string, unknown>> = { boolean: true, number: 1, string: "text", null: null };

/** A value of each alternative of a type; none of what is a class or a type of its own. */
function valuesOf(type: DocType): unknown[] {
  const { kind, repr, value } = type;
  if (kind === "union") return (value as DocType[]).flatMap(valuesOf);
  if (kind === "parenthesized") return valuesOf(value as DocType);
  if (kind === "typeOperator") return valuesOf((value as { tsType: DocType }).tsType);
  if (kind === "array" || kind === "tuple") return [[]];
  if (kind === "fnOrConstructor") return [() => {}];
  if (kind === "keyword") return Object.hasOwn(SAMPLES, repr) ? [SAMPLES[repr]] : [];
  if (kind !== "literal") return [];
  const literal = value as { readonly kind: string };
  return [literal.kind === "boolean" ? repr === "true" : literal.kind === "number" ? Number(repr) : repr];
}

Deno.test("options: whatever type a public interface gives an option is taken", async () => {
  const { stdout, stderr } = await runDeno(["doc", "--json", "mod.ts"]), refused: string[] = [];
  assert(stdout.startsWith("{"), stderr);
  let count = 0;
  const visit = (x: unknown, interfaceName: string): void => {
    if (typeof x !== "object" || x === null) return;
    const { name = interfaceName, properties } = x as Record<string, unknown>;
    for (const p of Array.isArray(properties) ? properties as { name: string; tsType?: DocType }[] : []) {
      for (const value of p.tsType === undefined ? [] : valuesOf(p.tsType)) {
        count++;
        try {
          checkOptions("act", { [p.name]: value }, [p.name]);
        } catch (error) {
          refused.push(`${name}: ${(error as Error).message}`);
        }
      }
    }
    for (const child of Object.values(x)) visit(child, String(name));
  };
  visit(JSON.parse(stdout), "");
  assertEquals(refused, []);
  assert(count > 200, String(count));
});
