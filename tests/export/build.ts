/**
 * Compilers of C and C++ for the tests of exports, and programs that are run.
 */

/** A compiler. */
export interface CCompiler {
  readonly path: string;
  readonly isCpp: boolean;
}

/** The first of some programs that starts. */
export function firstOf(names: readonly string[]): string | undefined {
  return names.find((name) => {
    try {
      return new Deno.Command(name, { args: ["--version"], stdout: "null", stderr: "null" }).outputSync().success;
    } catch {
      return false;
    }
  });
}

/** gcc and clang, for C and for C++, as far as they are here. */
export function compilersHere(): CCompiler[] {
  const versions = [21, 20, 19, 18, 17, 16, 15, 14];
  const named = (base: string): string[] => [base, ...versions.map((v) => `${base}-${v}`)];
  const found: CCompiler[] = [];
  for (
    const [names, isCpp] of [[["gcc"], false], [["g++"], true], [named("clang"), false], [
      named("clang++"),
      true,
    ]] as const
  ) {
    const path = firstOf(names);
    if (path !== undefined) found.push({ path, isCpp });
  }
  return found;
}

/** Runs a program; what it prints. @throws {Error} with all that it printed, where it fails */
export async function run(path: string, args: readonly string[], cwd: string): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(path, {
    args: [...args],
    cwd,
    stdout: "piped",
    stderr: "piped",
  })
    .output();
  const text = new TextDecoder().decode(stdout), errors = new TextDecoder().decode(stderr);
  if (!success) throw new Error(`${path} ${args.join(" ")} failed:\n${errors}\n${text}`);
  return text;
}
