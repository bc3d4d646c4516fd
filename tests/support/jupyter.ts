/**
 * A Jupyter client for tests: starts `deno jupyter` as the kernel of a notebook, has it execute cells, and gives what these
 * show. Messages as in "Messaging in Jupyter" 5.3, over ZMTP 3.0 (rfc.zeromq.org/spec/23) without security, by TCP.
 *
 * @module
 */

/** What a cell showed. */
export interface CellOutcome {
  /** Bundles by MIME type, in order: what is displayed, then the value of the last line. */
  readonly shown: readonly Readonly<Record<string, unknown>>[];
  /** What it printed. */
  readonly printed: string;
  /** The error with which it ended. */
  readonly error?: string;
}

const encoder = new TextEncoder(), decoder = new TextDecoder();

/** One ZMTP connection, to a socket that listens. */
class ZmtpSocket {
  private pending: Uint8Array = new Uint8Array(0);
  private constructor(private readonly conn: Deno.TcpConn) {}

  /** Connects as a socket of this type. */
  static async connect(port: number, type: "DEALER" | "SUB"): Promise<ZmtpSocket> {
    const socket = new ZmtpSocket(await Deno.connect({ hostname: "127.0.0.1", port }));
    const greeting = new Uint8Array(64), ready = [5, ...encoder.encode("READY"), 11, ...encoder.encode("Socket-Type")];
    greeting.set([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, ...encoder.encode("NULL")]);
    ready.push(0, 0, 0, type.length, ...encoder.encode(type));
    await socket.write(greeting);
    await socket.write(Uint8Array.from([4, ready.length, ...ready]));
    await socket.read(64);
    await socket.frame(); // it is ready, too
    return socket;
  }

  /** Sends one message, of these frames. */
  async send(frames: readonly Uint8Array[]): Promise<void> {
    for (const [i, body] of frames.entries()) {
      const head = new Uint8Array(9);
      head[0] = (i < frames.length - 1 ? 1 : 0) | 2;
      new DataView(head.buffer).setBigUint64(1, BigInt(body.length));
      await this.write(head);
      await this.write(body);
    }
  }

  /** The frames of the next message. */
  async receive(): Promise<Uint8Array[]> {
    for (const frames: Uint8Array[] = [];;) {
      const [flags, body] = await this.frame();
      if ((flags & 4) === 0) frames.push(body);
      if ((flags & 5) === 0) return frames;
    }
  }

  close(): void {
    this.conn.close();
  }

  private async frame(): Promise<[flags: number, body: Uint8Array]> {
    const [flags] = await this.read(1), size = await this.read((flags & 2) === 0 ? 1 : 8);
    return [flags, await this.read(size.reduce((n, byte) => n * 256 + byte, 0))];
  }

  private async read(count: number): Promise<Uint8Array> {
    while (this.pending.length < count) {
      const part = new Uint8Array(1 << 16), got = await this.conn.read(part);
      if (got === null) throw new Error("the kernel closed the connection");
      this.pending = Uint8Array.from([...this.pending, ...part.subarray(0, got)]);
    }
    const taken = this.pending.slice(0, count);
    this.pending = this.pending.slice(count);
    return taken;
  }

  private async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) at += await this.conn.write(bytes.subarray(at));
  }
}

/** A message as it stands in its frames. */
interface Message {
  readonly type: string;
  readonly parent: string;
  readonly content: Record<string, unknown>;
}

/** A kernel, and the connections to it. */
export class JupyterKernel {
  private constructor(
    private readonly process: Deno.ChildProcess,
    private readonly key: CryptoKey,
    private readonly shell: ZmtpSocket,
    private readonly published: ZmtpSocket,
    private readonly file: string,
  ) {}

  /** Starts one in a folder. @throws {Error} where none can be had */
  static async start(folder: URL): Promise<JupyterKernel> {
    const listeners = ["shell", "iopub", "stdin", "control", "hb"].map((name) =>
      [`${name}_port`, Deno.listen({ hostname: "127.0.0.1", port: 0 })] as const
    );
    const ports = Object.fromEntries(listeners.map(([name, l]) => [name, (l.addr as Deno.NetAddr).port]));
    for (const [, listener] of listeners) listener.close();
    const key = crypto.randomUUID(), file = await Deno.makeTempFile({ suffix: ".json" });
    const how = { ...ports, ip: "127.0.0.1", transport: "tcp", key, signature_scheme: "hmac-sha256" };
    await Deno.writeTextFile(file, JSON.stringify({ ...how, kernel_name: "deno" }));
    const process = new Deno.Command(Deno.execPath(), {
      args: ["jupyter", "--kernel", "--conn", file],
      cwd: folder,
      env: { NO_COLOR: "1" },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    let isOver = false;
    process.status.then(() => isOver = true);
    const connect = async (name: string, type: "DEALER" | "SUB"): Promise<ZmtpSocket> => {
      for (;;) {
        try {
          return await ZmtpSocket.connect(ports[name], type);
        } catch (error) {
          if (!(error instanceof Deno.errors.ConnectionRefused)) throw error;
          if (isOver) throw new Error("deno jupyter ended at once", { cause: error });
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }
    };
    const published = await connect("iopub_port", "SUB");
    await published.send([Uint8Array.of(1)]); // all that is published
    const hmac = { name: "HMAC", hash: "SHA-256" };
    const signing = await crypto.subtle.importKey("raw", encoder.encode(key), hmac, false, ["sign"]);
    const kernel = new JupyterKernel(process, signing, await connect("shell_port", "DEALER"), published, file);
    // until what is published comes here
    const first = published.receive().then(() => true);
    for (let isHeard = false; !isHeard;) {
      await kernel.request("undefined");
      const { promise, resolve } = Promise.withResolvers<boolean>(), timer = setTimeout(resolve, 50, false);
      isHeard = await Promise.race([first, promise]);
      clearTimeout(timer);
    }
    return kernel;
  }

  /**
   * Has it execute a cell, and gives what that showed: until a second, empty one has been executed, since the kernel may say
   * that it is idle before it publishes a result.
   */
  async execute(code: string): Promise<CellOutcome> {
    const id = await this.request(code), after = await this.request("undefined");
    const shown: Record<string, unknown>[] = [];
    let printed = "", error: string | undefined;
    for (;;) {
      const { type, parent, content } = messageOf(await this.published.receive());
      if (type === "status" && content.execution_state === "idle" && parent === after) break;
      if (parent !== id) continue;
      if (type === "display_data" || type === "execute_result") shown.push(content.data as Record<string, unknown>);
      if (type === "stream") printed += content.text;
      if (type === "error") error = `${content.ename}: ${content.evalue}`;
    }
    return error === undefined ? { shown, printed } : { shown, printed, error };
  }

  /** Sends a cell, and waits until its execution is over. Gives the name of the request. */
  private async request(code: string): Promise<string> {
    const id = crypto.randomUUID();
    const header = { msg_id: id, msg_type: "execute_request", session: "tests", username: "", version: "5.3" };
    const content = { code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false };
    const parts = [{ ...header, date: new Date().toISOString() }, {}, {}, content]
      .map((part) => encoder.encode(JSON.stringify(part)));
    const signed = await crypto.subtle.sign("HMAC", this.key, Uint8Array.from(parts.flatMap((part) => [...part])));
    const digest = encoder.encode(new Uint8Array(signed).toHex());
    await this.shell.send([encoder.encode("<IDS|MSG>"), digest, ...parts]);
    while (messageOf(await this.shell.receive()).parent !== id);
    return id;
  }

  /** Ends it. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of [this.shell, this.published]) socket.close();
    this.process.kill("SIGKILL");
    await this.process.status;
    await Deno.remove(this.file);
  }
}

function messageOf(frames: readonly Uint8Array[]): Message {
  const at = frames.findIndex((frame) => decoder.decode(frame) === "<IDS|MSG>");
  const [header, parent, , content] = frames.slice(at + 2, at + 6).map((frame) => JSON.parse(decoder.decode(frame)));
  return { type: header.msg_type, parent: parent.msg_id, content };
}
