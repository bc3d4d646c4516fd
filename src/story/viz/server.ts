/**
 * The server of the page: on the loopback address alone, for requests that name it. In: where the data comes from; out:
 * the address to open. It keeps no process alive unless it is asked to.
 *
 * @module
 */
import { DeviceError } from "../../helpers/errors.ts";
import { pack } from "./pack.ts";
import { pageHtml } from "./page.ts";
import type { VizData } from "./viz_data.ts";

/** What is used of Deno. */
interface DenoLike {
  serve(
    options: { hostname: string; port: number; onListen: () => void },
    handler: (request: Request) => Response | Promise<Response>,
  ): VizServer & { readonly addr: { readonly port: number } };
  readonly errors: { readonly AddrInUse: new () => Error };
}

/** A server that runs. */
export interface VizServer {
  /** Keeps the process alive. */
  ref(): void;
  /** Does not. */
  unref(): void;
  /** Ends it. */
  shutdown(): Promise<void>;
}

/** The port of VIZ=1; the next ones where it is in use. */
export const PORT = 8347;
export const TRIES = 10;

/**
 * Answers a request, for the port that the server has, with the page or what is `packed` for it: "data", or "other" where
 * there is one. Threads run its text: it uses nothing but what is in it.
 */
export async function answer(
  request: Request,
  port: number,
  page: () => string,
  packed: (name: string) => Promise<Uint8Array<ArrayBuffer> | undefined>,
): Promise<Response> {
  const host = request.headers.get("host") ?? "", { pathname } = new URL(request.url);
  const headers = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
  };
  // a page of another name that points to this address must not read it
  if (![`127.0.0.1:${port}`, `localhost:${port}`].includes(host)) {
    return new Response(`open http://127.0.0.1:${port}`, { status: 403, headers });
  }
  if (request.method !== "GET") return new Response("", { status: 405, headers });
  if (pathname === "/") {
    return new Response(page(), { headers: { ...headers, "content-type": "text/html; charset=utf-8" } });
  }
  if (pathname !== "/data" && pathname !== "/other") return new Response("", { status: 404, headers });
  const body = await packed(pathname.slice(1));
  if (body === undefined) return new Response(null, { status: 204, headers });
  return new Response(body, { headers: { ...headers, "content-type": "application/octet-stream" } });
}

/**
 * Serves the page. @param port exactly this one; without, {@linkcode PORT} or one of the next
 * @throws {DeviceError} where no port is free, or listening is not permitted
 */
export function serveViz(
  source: () => VizData,
  { port, other }: { readonly port?: number; readonly other?: VizData } = {},
): { readonly url: string; readonly server: VizServer } {
  const { Deno: deno } = globalThis as unknown as { Deno?: DenoLike }, first = port ?? PORT;
  if (deno === undefined) throw failure(first, "only Deno can serve it; VIZ=page.html writes a file");
  const packed = async (name: string): Promise<Uint8Array<ArrayBuffer> | undefined> =>
    name === "data" ? await pack(source()) : other === undefined ? undefined : await pack(other);
  for (let p = first; p < first + (port === undefined ? TRIES : 1); p++) {
    try {
      let own = p;
      const server = deno.serve(
        { hostname: "127.0.0.1", port: p, onListen: () => {} },
        (request) => answer(request, own, () => pageHtml(source().title), packed),
      );
      own = server.addr.port;
      return { url: `http://127.0.0.1:${own}/`, server };
    } catch (error) {
      if (error instanceof deno.errors.AddrInUse) continue;
      throw failure(p, `${(error as Error).message.split("\n")[0]}; VIZ=page.html writes a file instead`);
    }
  }
  throw allInUse(port);
}

/** That the port is in use, or where none is given all that are tried. */
export function allInUse(port: number | undefined): DeviceError {
  return failure(
    port ?? PORT,
    port === undefined
      ? `port ${PORT} and the next ${TRIES - 1} are in use; VIZ=${PORT + 100} takes another`
      : `port ${port} is in use; another number takes another`,
  );
}

function failure(port: number, reason: string): DeviceError {
  return new DeviceError("serve the page of VIZ", { device: `port ${port}`, reason });
}
