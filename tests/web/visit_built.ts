/** The page of examples/web, built into a folder for one visit. @module */
import { buildPage, servePage } from "../../examples/web/build.ts";
import { findLaunch } from "./browser.ts";

/**
 * What a visit of the page sees, which is built and served for it; text says why there is no browser.
 *
 * @param build fills the folder
 * @param flags of the browser
 */
export async function visitBuilt<P, Seen>(
  visit: (page: P, url: string) => Promise<Seen>,
  build: (folder: string) => Promise<void> = (folder) => buildPage(folder),
  flags: readonly string[] = [],
): Promise<Seen | string> {
  const launch = await findLaunch<P>();
  if (typeof launch === "string") return launch;
  const folder = await Deno.makeTempDir({ prefix: "dinograd-page-" });
  try {
    await build(folder);
    const server = servePage(folder, 0), browser = await launch(...flags);
    try {
      return await visit(await browser.newPage(), `http://127.0.0.1:${server.addr.port}/`);
    } finally {
      await browser.close();
      await server.shutdown();
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
