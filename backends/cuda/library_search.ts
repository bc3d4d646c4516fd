/**
 * Where the vendor's libraries lie: in folders, and in the wheels of Python, as frameworks install them.
 *
 * @module
 */
import { isGranted } from "../../src/device/foreign.ts";
import { readEnv } from "../../src/helpers/env.ts";

/** Whether folders may be looked into. */
export function canRead(): boolean {
  return isGranted({ name: "read" });
}

/** Names in a folder, "z" before "a" and 13 before 9; none where it cannot be listed. */
export function filesOf(folder: string): string[] {
  try {
    const order = new Intl.Collator("en", { numeric: true });
    return [...Deno.readDirSync(folder)].map((e) => e.name).sort((a, b) => order.compare(b, a));
  } catch {
    return [];
  }
}

/** The libraries in a folder whose names match `file`. */
export function inFolder(folder: string, file: RegExp): string[] {
  return filesOf(folder).filter((name) => file.test(name)).map((name) => `${folder}/${name}`);
}

/** Libraries in `nvidia/NAME/lib` of the wheels of every Python that is found, those of an active environment first. */
export function* inWheels(file: RegExp): Generator<string> {
  for (const prefix of new Set(pythonPrefixes())) yield* inPython(prefix, file);
}

/** The libraries in the wheels below a Python prefix. */
function inPython(prefix: string, file: RegExp): string[] {
  return filesOf(`${prefix}/lib`).filter((n) => /^python3/.test(n)).flatMap((python) =>
    ["site-packages", "dist-packages"].flatMap((packages) => {
      const nvidia = `${prefix}/lib/${python}/${packages}/nvidia`;
      return filesOf(nvidia).flatMap((name) => inFolder(`${nvidia}/${name}/lib`, file));
    })
  );
}

/** Prefixes that may hold Python packages. */
function pythonPrefixes(): string[] {
  const onPath = (readEnv("PATH") ?? "").split(":").filter((f) => f.startsWith("/") && f.endsWith("/bin"));
  const home = readEnv("HOME");
  return [
    ...[readEnv("VIRTUAL_ENV"), readEnv("CONDA_PREFIX")].filter((p) => p !== undefined && p !== "") as string[],
    ...onPath.filter((f) => filesOf(f).some((n) => n === "python3" || n === "python")).map((f) => f.slice(0, -4)),
    ...(home ? [`${home}/.local`] : []),
    "/usr/local",
    "/usr",
  ];
}
