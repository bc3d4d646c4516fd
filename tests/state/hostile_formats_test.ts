/**
 * Files made to hurt: .npy, .npz, zip, tar and PyTorch's. Each is refused with a FormatError that says why, before anything
 * of it is used; what is cut anywhere or changed at random is refused or read, and nothing else.
 */
import assert from "node:assert/strict";
import { FormatError, state, Tensor } from "../../mod.ts";
import { putZip } from "../../src/state/formats/zip_file.ts";
import "../nn/support.ts";
import { inFolder } from "../support/folder.ts";
import { Random } from "../support/random.ts";

type Bytes = Uint8Array<ArrayBuffer>;
const fixture = (name: string): Bytes => Deno.readFileSync(new URL(`fixtures/${name}`, import.meta.url));
const latin = (text: string): Bytes => Uint8Array.from(text, (c) => c.charCodeAt(0));
const u16 = (n: number) => [n & 255, (n >> 8) & 255];
const u32 = (n: number) => [...u16(n & 0xffff), ...u16(n >>> 16)];

function join(...parts: ArrayLike<number>[]): Bytes {
  return Uint8Array.from(parts.flatMap((p) => Array.from(p)));
}
async function archive(files: Readonly<Record<string, Uint8Array>>, compressed = false): Promise<Bytes> {
  const parts: Uint8Array[] = [];
  const members = Object.entries(files).map(([name, bytes]) => ({ name, bytes: () => Promise.resolve(bytes) }));
  await putZip(members, (b) => Promise.resolve(void parts.push(b)), compressed);
  return join(...parts);
}
/** Bytes at the nth place of `mark`, replaced. */
function patch(bytes: Bytes, mark: ArrayLike<number>, offset: number, value: ArrayLike<number>, nth = 0): Bytes {
  const out = bytes.slice(), wanted = Array.from(mark);
  let at = -1;
  for (let n = 0; n <= nth; n++) {
    do at++; while (at < out.length && !wanted.every((b, i) => out[at + i] === b));
  }
  assert.ok(at < out.length, "the mark is there");
  out.set(Array.from(value), at + offset);
  return out;
}
async function refused(load: (t: Tensor) => Promise<unknown>, file: Bytes, why: RegExp): Promise<void> {
  const bytes = new Tensor(file);
  await assert.rejects(() => load(bytes), (e: unknown) => {
    assert.ok(e instanceof FormatError, String(e));
    assert.match(e.message, why);
    return true;
  });
}

// ---- .npy

/** A .npy file of a header text and some data. */
function npy(text: string, data = 0, version = 1): Bytes {
  const head = latin(text), size = version === 1 ? u16(head.length) : u32(head.length);
  return join(latin("\x93NUMPY"), [version, 0], size, head, new Uint8Array(data));
}
const dict = (descr: string, shape: string, order = "False") =>
  `{'descr': ${descr}, 'fortran_order': ${order}, 'shape': ${shape}, }\n`;
const NPY: readonly (readonly [string, Bytes, RegExp])[] = [
  ["nothing", new Uint8Array(0), /it is no \.npy file$/],
  ["another magic", latin("\x93NUMPZ\x01\x00\x00\x00\x00\x00"), /it is no \.npy file$/],
  ["version 0", npy("{}", 0, 0), /version 0\.0; 1\.0 to 3\.0 are known$/],
  ["version 4", npy("{}", 0, 4), /version 4\.0/],
  ["a header of 4 GB", join(latin("\x93NUMPY"), [2, 0], u32(0xffffffff)), /header has 4294967295 bytes, more than/],
  [
    "a header beyond the end",
    join(latin("\x93NUMPY"), [1, 0], u16(99), [0, 0]),
    /header has 99 bytes, and only 2 follow$/,
  ],
  ["no dictionary", npy("hello"), /its header is no dictionary$/],
  ["a call", npy("{'descr': exec('x'), 'fortran_order': False, 'shape': ()}"), /no dictionary that NumPy writes: "/],
  ["a key twice", npy("{'shape': (), 'shape': ()}"), /has "shape" twice$/],
  ["no shape", npy("{'descr': '<f4', 'fortran_order': False}"), /has the keys descr, fortran_order, not/],
  ["a key too many", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': True}"), /not descr, fort/],
  ["objects", npy(dict("'|O'", "(1,)"), 8), /objects, which are pickles and could run anything$/],
  [
    "complex numbers that are longer",
    npy(dict("'<c32'", "(1,)"), 32),
    /elements are '<c32': no dtype that is known here/,
  ],
  ["text", npy(dict("'<U4'", "(1,)"), 16), /no dtype that is known/],
  ["records", npy(dict("[('a', '<f4')]", "(1,)"), 4), /no dtype that is known/],
  ["an order of 1", npy(dict("'<f4'", "()", "'F'"), 4), /its fortran_order is 'F'$/],
  ["a shape that is a number", npy(dict("'<f4'", "'4'"), 4), /its shape is '4', no tuple of sizes$/],
  ["a shape in parentheses", npy(dict("'<f4'", "(1)"), 4), /its shape is \(1\), no tuple/],
  ["a negative size", npy(dict("'<f4'", "(-1,)"), 4), /no dictionary that NumPy writes/],
  ["sizes that overflow", npy(dict("'<f8'", "(4294967296, 4294967296)")), /more bytes than can be counted$/],
  ["sizes that overflow beside 0", npy(dict("'<f8'", `(0, ${"9".repeat(30)})`)), /more bytes than can be counted$/],
  ["65 axes", npy(dict("'|u1'", `(${"1, ".repeat(65)})`), 1), /has 65 axes, more than 64$/],
  ["terabytes", npy(dict("'|u1'", "(1099511627776,)"), 1), /it is truncated: its shape \[1099511627776\] needs/],
  ["a byte too few", npy(dict("'<f4'", "(2, 3)"), 23), /it is truncated/],
  ["a byte too many", npy(dict("'<f4'", "(2, 3)"), 25), /1 bytes follow the last element$/],
];
for (const [name, file, why] of NPY) {
  Deno.test(`hostile npy: ${name}`, async () => {
    await refused(state.npyLoad, file, why);
    assert.throws(() => state.npyParse(file), FormatError);
  });
}

// ---- zip

const sound = await archive({ "a.npy": fixture("c.npy"), "b.npy": fixture("big.npy") });
const CENTRAL = [0x50, 0x4b, 1, 2], LOCAL = [0x50, 0x4b, 3, 4], END = [0x50, 0x4b, 5, 6];
const zeros = new Uint8Array(1 << 20), bomb = await archive({ zeros }, true);
const named = (name: string) => archive({ [name]: fixture("c.npy") });
const ZIP: readonly (readonly [string, Bytes, RegExp])[] = [
  ["nothing", new Uint8Array(0), /no zip archive, or is truncated/],
  ["no directory", sound.slice(0, -22), /no zip archive, or is truncated/],
  ["something behind", join(sound, [1]), /no zip archive, or is truncated/],
  ["a split archive", patch(sound, END, 4, u16(1)), /a part of a split zip archive$/],
  ["a directory beyond the end", patch(sound, END, 16, u32(0x7fffffff)), /its directory is out of range$/],
  ["a directory too long", patch(sound, END, 12, u32(0x7fffffff)), /its directory is out of range$/],
  ["too many entries", patch(sound, END, 10, u16(60000)), /cannot have 60000 entries$/],
  ["no Zip64 directory", patch(sound, END, 10, u16(0xffff)), /cannot have 65535 entries$/],
  ["a damaged entry", patch(sound, CENTRAL, 0, [0]), /entry 0 of its directory is damaged$/],
  ["a name beyond the directory", patch(sound, CENTRAL, 28, u16(60000)), /entry 0 of its directory is damaged$/],
  ["an encrypted member", patch(sound, CENTRAL, 8, u16(1)), /member "a\.npy" is encrypted$/],
  ["a link", patch(sound, CENTRAL, 38, u32(0xa1ff0000)), /member "a\.npy" is a link$/],
  ["an unknown method", patch(sound, CENTRAL, 10, u16(93)), /packed by method 93; 0 and 8 are known$/],
  ["another method in the member", patch(sound, CENTRAL, 10, u16(8)), /another name or method in its own header$/],
  ["another name in the member", patch(sound, LOCAL, 30, latin("z")), /another name or method in its own header$/],
  ["no header at the member", patch(sound, CENTRAL, 42, u32(1)), /member "a\.npy" has no header of its own$/],
  ["a member beyond the directory", patch(sound, CENTRAL, 42, u32(0x7ffffffe)), /member "a\.npy" is out of range$/],
  [
    "a member that is too long",
    patch(patch(sound, CENTRAL, 20, u32(9999)), CENTRAL, 24, u32(9999)),
    /"a\.npy" is out of/,
  ],
  ["two sizes of a stored member", patch(sound, CENTRAL, 24, u32(3)), /is stored, and has two sizes: 152, 3$/],
  [
    "members that overlap",
    patch(patch(sound, CENTRAL, 20, u32(200)), CENTRAL, 24, u32(200)),
    /members "a\.npy" and "b\.npy" overlap$/,
  ],
  [
    "one member twice",
    patch(patch(sound, CENTRAL, 46, latin("b"), 0), LOCAL, 30, latin("b")),
    /"b\.npy" is there twice$/,
  ],
  ["Zip64 sizes that are not there", patch(sound, CENTRAL, 20, u32(0xffffffff)), /"a\.npy" is out of range$/],
  [
    "a bomb",
    patch(bomb, CENTRAL, 24, u32(0x7fffffff)),
    /claims that \d+ bytes unpack to 2147483647, more than any can$/,
  ],
  ["a bomb that says less", patch(bomb, CENTRAL, 24, u32(1000)), /member "zeros" unpacks to more than 1000 bytes$/],
  ["a bomb that says more", patch(bomb, CENTRAL, 24, u32(1048600)), /unpacks to 1048576 bytes, not 1048600$/],
  ["a wrong checksum", patch(bomb, CENTRAL, 16, u32(7)), /member "zeros" is damaged: its checksum is wrong$/],
  ["damaged deflate", patch(bomb, latin("zeros"), 5, [0xff, 0xff]), /member "zeros" cannot be unpacked/],
  ["a path up", await named("../evil.npy"), /"\.\.\/evil\.npy" has a name that leads out of the archive$/],
  ["a path up inside", await named("a/../../evil.npy"), /leads out of the archive$/],
  ["an absolute path", await named("/etc/passwd"), /leads out of the archive$/],
  ["a drive", await named("C:evil.npy"), /leads out of the archive$/],
  ["a backslash", await named("..\\evil.npy"), /leads out of the archive$/],
  ["a zero in a name", await named("a\0.npy"), /leads out of the archive$/],
];
for (const [name, file, why] of ZIP) {
  Deno.test(`hostile zip: ${name}`, () => refused(state.zipExtract, file, why));
}

Deno.test("hostile zip: limits of the caller, and .npz with other members", async () => {
  await refused(
    (t) => state.zipExtract(t, { maxBytes: 1 << 19 }),
    bomb,
    /1048576 bytes, more than the 524288 that are/,
  );
  const two = await archive({ a: zeros, b: zeros }, true);
  await refused((t) => state.zipExtract(t, { maxBytes: 3 << 19 }), two, /"b" unpacks to .* more than the 524288 that/);
  await refused(state.npzLoad, await archive({ "a.txt": zeros }), /member "a\.txt" is no \.npy file$/);
  await refused(state.npzLoad, await archive({ "a.npy": zeros }), /a\.npy: it is no \.npy file$/);
});

// ---- PyTorch

/** A checkpoint of a pickle's bytes, with a storage of 16 bytes. */
const pt = (pickle: string) => archive({ "m/data.pkl": latin(pickle), "m/data/0": new Uint8Array(16) });
const STORAGE = "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ";
/** A tensor of a storage, offset, shape and strides, as opcodes. */
const tensor = (shape: string, strides: string, offset = "K\0", storage = STORAGE) =>
  `ctorch._utils\n_rebuild_tensor_v2\n(${storage}${offset}(${shape}t(${strides}t\x89}tR.`;
const PICKLES: readonly (readonly [string, string, RegExp])[] = [
  ["nothing", "", /it is truncated at byte 0$/],
  [
    "os.system",
    "\x80\x02cos\nsystem\n(X\x02\0\0\0lstR.",
    /asks for "os\.system", which is not allowed: save what is plain/,
  ],
  ["posix.system by STACK_GLOBAL", "\x80\x04\x8c\x05posix\x8c\x06system\x93.", /asks for "posix\.system"/],
  ["builtins.eval", "cbuiltins\neval\n(V1\ntR.", /asks for "builtins\.eval"/],
  ["builtins.getattr", "cbuiltins\ngetattr\n.", /asks for "builtins\.getattr"/],
  ["a module of PyTorch", "ctorch.hub\nload\n.", /asks for "torch\.hub\.load"/],
  ["torch.load", "ctorch\nload\n.", /asks for "torch\.load"/],
  ["a name of Object.prototype", "cconstructor\n\n.", /asks for "constructor\."/],
  ["INST", "(ios\nsystem\n.", /opcode 0x69 at byte 1 is not allowed$/],
  ["OBJ", "(cos\nsystem\no.", /not allowed: save/],
  ["EXT1", "\x82\x01.", /opcode 0x82 at byte 0 is not allowed$/],
  ["EXT4", "\x84\x01\0\0\0.", /opcode 0x84 at byte 0/],
  ["NEWOBJ_EX", "\x92.", /opcode 0x92 at byte 0/],
  ["NEXT_BUFFER", "\x97.", /opcode 0x97 at byte 0/],
  ["BYTEARRAY8", "\x96\0\0\0\0\0\0\0\0.", /opcode 0x96 at byte 0/],
  ["STRING, which is evaluated", "S'x'\n.", /opcode 0x53 at byte 0/],
  ["protocol 9", "\x80\x09.", /a pickle of protocol 9; up to 5 are known$/],
  ["an empty stack", ".", /its stack is empty at byte 1$/],
  ["values left over", "NN.", /it ends with more than one value$/],
  ["no mark", "Nt.", /it lacks a mark at byte 2$/],
  ["a mark for a value", "(.", /its stack is empty/],
  ["a reference to nothing", "h\x05.", /it refers to 5, which is not there$/],
  ["a call of a number", "K\x01)R.", /it calls what is no function$/],
  ["a call of a value", "ctorch\nFloatStorage\n)R.", /it calls torch\.FloatStorage$/],
  ["state of a number", "K\x01}b.", /it sets the state of what has none$/],
  ["items of a list", "]K\x01K\x02s.", /it sets items of what is no dictionary$/],
  ["half an item", "}(K\x01u.", /it sets items of what is no dictionary$/],
  ["a list for a key", "}]Ns.", /a key is no text and no number$/],
  ["appending to a dictionary", "}Na.", /it appends to what is no list$/],
  ["text of 4 GB", "X\xff\xff\xff\xff.", /a value of 4294967295 bytes/],
  ["text of 2^63", `\x8d${"\xff".repeat(8)}.`, /a value of 18446744073709552000 bytes/],
  ["text that is cut", "X\x09\0\0\0ab.", /it is truncated at byte 5$/],
  ["text that is no UTF-8", "X\x01\0\0\0\xff.", /is no UTF-8$/],
  ["a number that is none", "I1e5\n.", /"1e5" is no number$/],
  ["a number of a thousand digits", `I${"9".repeat(1000)}\n.`, /is no number$/],
  ["a line without end", `c${"a".repeat(5000)}`, /a line .* does not end$/],
  ["a list in itself", "]q\0h\0a.", /a value contains itself$/],
  ["a deep list", `${"]".repeat(400)}${"a".repeat(399)}.`, /its values are nested too deeply$/],
  ["a tuple of 2^40", `N${"2\x86".repeat(40)}.`, /it has more than 4194304 values$/],
  ["a storage alone", `${STORAGE}.`, /a storage stands where a value should$/],
  ["a persistent id of text", "Vx\nQ.", /a persistent id is no storage$/],
  ["a storage without a class", "(X\x07\0\0\0storageNX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ.", /is no storage$/],
  [
    "a storage of two sizes",
    `(${STORAGE}${STORAGE.replace("K\x04", "K\x03")}t.`,
    /storage "0" has two sizes or dtypes$/,
  ],
  [
    "a storage of more bytes",
    tensor("K\x05", "K\x01", "K\0", STORAGE.replace("K\x04", "K\x05")),
    /needs 20 bytes, and has 16$/,
  ],
  [
    "a storage that is missing",
    tensor("K\x04", "K\x01", "K\0", STORAGE.replace("\x000X", "\x009X")),
    /no member "m\/data\/9"$/,
  ],
  [
    "a storage by a path up",
    tensor("K\x04", "K\x01", "K\0", STORAGE.replace("\x01\0\0\x000X", "\x05\0\0\0../..X")),
    /no member "m\/data\/\.\.\/\.\."$/,
  ],
  ["a tensor of no storage", tensor("K\x04", "K\x01", "K\0", "N"), /no valid storage, offset, shape and strides$/],
  ["a tensor of text", tensor("Vx\n", "K\x01"), /no valid storage, offset, shape/],
  ["a negative size", tensor("J\xff\xff\xff\xff", "K\x01"), /no valid storage, offset, shape/],
  ["a negative stride", tensor("K\x02", "J\xff\xff\xff\xff"), /no valid storage, offset, shape/],
  ["a negative offset", tensor("K\x02", "K\x01", "J\xff\xff\xff\xff"), /no valid storage, offset, shape/],
  ["fewer strides", tensor("K\x02K\x02", "K\x01"), /no valid storage, offset, shape/],
  [
    "a tensor beyond its storage",
    tensor("K\x05", "K\x01"),
    /\[5\] with strides \[1\] at 0 is beyond its storage "0" of 4/,
  ],
  ["an offset beyond its storage", tensor("K\x01", "K\x01", "K\x04"), /at 4 is beyond its storage/],
  ["a stride beyond its storage", tensor("K\x02", "K\x04"), /is beyond its storage/],
  [
    "sizes that overflow",
    tensor("\x8a\x07\0\0\0\0\0\0\x08\x8a\x07\0\0\0\0\0\0\x08", "K\0K\0"),
    /more bytes than can be c/,
  ],
];
for (const [name, pickle, why] of PICKLES) {
  Deno.test(`hostile pickle: ${name}`, async () => await refused(state.torchLoad, await pt(pickle), why));
}

const legacy = fixture("legacy.pt"), old = fixture("old.pt");
const TORCH: readonly (readonly [string, Bytes, RegExp])[] = [
  ["nothing", new Uint8Array(0), /it has 0 bytes, too few for a checkpoint$/],
  ["text", latin("hello, world"), /it is no checkpoint of PyTorch$/],
  [
    "two pickles",
    await archive({ "a/data.pkl": latin("N."), "b/data.pkl": latin("N.") }),
    /has 2 members data\.pkl, not one$/,
  ],
  ["no pickle", await archive({ "a/x": latin("N.") }), /has 0 members data\.pkl, not one$/],
  ["a program", await archive({ "a/data.pkl": latin("N."), "a/constants.pkl": latin("N.") }), /a TorchScript program/],
  [
    "big-endian",
    await archive({ "a/data.pkl": latin("N."), "a/byteorder": latin("big") }),
    /byte order is "big"; only little/,
  ],
  ["a pickle alone", latin("\x80\x02N."), /it is no checkpoint of PyTorch$/],
  ["an unknown protocol", patch(legacy, latin("M\xe9\x03"), 1, [0]), /an unknown protocol$/],
  [
    "legacy, a storage of another size",
    patch(legacy, [4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 100], 0, [5]),
    /has two sizes$/,
  ],
  ["tar, an unknown class", patch(old, latin("FloatStorage"), 0, latin("E")), /asks for "torch\.EloatStorage"/],
  ["tar, a damaged header", patch(old, latin("storages"), 0, latin("S")), /it is no tar archive$/],
];
for (const [name, file, why] of TORCH) {
  Deno.test(`hostile checkpoint: ${name}`, () => refused(state.torchLoad, file, why));
}

// ---- tar

/** A tar header, with its checksum, and its data. */
function tar(name: string, size: string, kind = "0", data: Uint8Array = new Uint8Array(0)): Bytes {
  const head = new Uint8Array(512);
  head.set(latin(name));
  head.set(latin(size), 124);
  head.set(latin(kind), 156);
  head.set(latin("ustar\x0000"), 257);
  const sum = head.reduce((n, b) => n + b, 8 * 32);
  head.set(latin(sum.toString(8).padStart(6, "0") + "\0 "), 148);
  return join(head, data, new Uint8Array((512 - data.length % 512) % 512));
}
const TAR: readonly (readonly [string, Bytes, RegExp])[] = [
  ["nothing", new Uint8Array(0), /it is no tar archive$/],
  ["half a header", tar("a", "0").slice(0, 300), /it is no tar archive$/],
  ["a wrong checksum", patch(tar("a", "0"), latin("a"), 0, latin("b")), /it is no tar archive$/],
  ["a damaged second header", join(tar("a", "0"), tar("b", "0").fill(7, 0, 9)), /the header at byte 512 is damaged$/],
  ["a size beyond the end", tar("a", "77777777777"), /it is truncated: "a" needs 8589934591 bytes/],
  [
    "a binary size beyond 2^53",
    tar("a", "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
    /size at byte 0 is no number$/,
  ],
  ["a size that is text", tar("a", "9x"), /size at byte 0 is no number$/],
  ["a path up", tar("../a", "0"), /leads out of the archive$/],
  ["an absolute path", tar("/a", "0"), /leads out of the archive$/],
  ["a member twice", join(tar("a", "0"), tar("a", "0")), /member "a" is there twice$/],
  ["a long name of megabytes", tar("a", "7777777", "L"), /truncated|extended header has/],
  ["a damaged extended header", tar("a", "5", "x", latin("99 a=")), /an extended header is damaged$/],
  ["an extended header without an end", tar("a", "5", "x", latin("abcde")), /an extended header is damaged$/],
  [
    "a size by an extended header",
    join(tar("x", "12", "x", latin("10 size=9\n")), tar("a", "0")),
    /truncated: "a" needs 9 bytes/,
  ],
  ["damaged gzip", join([0x1f, 0x8b], latin("nonsense")), /it cannot be unpacked/],
];
for (const [name, file, why] of TAR) {
  Deno.test(`hostile tar: ${name}`, () => refused(state.tarExtract, file, why));
}

// ---- an index

for (
  const [name, text, why] of [
    ["no JSON", "{", /it is no valid JSON/],
    ["no map", "{}", /it has no weight_map$/],
    ["a path up", '{"weight_map":{"a":"../b"}}', /tensor "a" is in "\.\.\/b", which is no plain file name$/],
    ["an absolute path", '{"weight_map":{"a":"/etc/passwd"}}', /is no plain file name$/],
    ["a drive", '{"weight_map":{"a":"C:b"}}', /is no plain file name$/],
    ["the folder", '{"weight_map":{"a":".."}}', /is no plain file name$/],
    ["a number", '{"weight_map":{"a":1}}', /tensor "a" is in 1, which is no plain file name$/],
    ["a name twice", '{"weight_map":{"a":"b","a":"c"}}', /duplicate key "a"/],
    ["a tensor that is not there", '{"weight_map":{"b":"ok.safetensors"}}', /ok\.safetensors has no tensor "b"$/],
  ] as const
) {
  Deno.test(`hostile index: ${name}`, () =>
    inFolder(async (folder) => {
      await state.safeSave({ a: Tensor.ones([1]) }, `${folder}/ok.safetensors`);
      await Deno.writeTextFile(`${folder}/m.index.json`, text);
      await assert.rejects(
        () => state.safeLoad(`${folder}/m.index.json`),
        (e: unknown) => e instanceof FormatError && why.test(e.message),
      );
    }));
}

// ---- anything

const LOADERS: readonly (readonly [string, (t: Tensor) => Promise<unknown>])[] = [
  ["c.npy", state.npyLoad],
  ["fortran.npy", state.npyLoad],
  ["stored.npz", state.npzLoad],
  ["deflated.npz", state.npzLoad],
  ["checkpoint.pt", state.torchLoad],
  ["values.pt", state.torchLoad],
  ["state.pt", state.torchLoad],
  ["legacy.pt", state.torchLoad],
  ["old.pt", state.torchLoad],
  ["small.tar", state.tarExtract],
  ["gnu.tar.gz", state.tarExtract],
];

/** What a loader makes of bytes: "read", or "refused"; anything else fails. */
async function outcome(load: (t: Tensor) => Promise<unknown>, bytes: Bytes, what: string): Promise<string> {
  try {
    await load(new Tensor(bytes));
    return "read";
  } catch (error) {
    if (error instanceof FormatError) return "refused";
    throw new Error(what, { cause: error });
  }
}

for (const [name, load] of LOADERS) {
  Deno.test(`hostile: ${name} cut at any byte`, async () => {
    const whole = fixture(name), step = Math.max(1, Math.floor(whole.length / 300));
    assert.equal(await outcome(load, whole, name), "read");
    const most = name.endsWith(".tar") || name === "old.pt" ? 4096 : whole.length;
    for (let n = 0; n < most; n += step) {
      const result = await outcome(load, whole.slice(0, n), `cut at ${n}`);
      // a tar archive may end behind any member
      if (!name.endsWith(".tar") && name !== "old.pt") assert.equal(result, "refused", `cut at ${n}`);
    }
  });

  Deno.test(`hostile: ${name} with bytes changed at random`, async () => {
    const whole = fixture(name);
    const random = new Random(1);
    let refusals = 0;
    for (let i = 0; i < 200; i++) {
      const bytes = whole.slice();
      for (let k = 0; k <= i % 4; k++) bytes[random.below(Math.min(bytes.length, 6000))] = random.below(256);
      if (await outcome(load, bytes, `${name}, change ${i}`) === "refused") refusals++;
    }
    assert.ok(refusals > 5, `${refusals} refused`);
  });
}
