"""Files by PyTorch and NumPy that tests/state loads: python3 generate.py"""
import argparse, collections, io, pathlib, os, struct, tarfile, pickle, torch, numpy as np
os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures"))
base = torch.arange(24, dtype=torch.float32)
kinds = dict(
    dense=base.reshape(2, 3, 4), transposed=base.reshape(4, 6).t(), permuted=base.reshape(2, 3, 4).permute(2, 0, 1),
    columns=base.reshape(4, 6)[:, 1:3], stepped=base[1::3], expanded=base[:3].reshape(3, 1).expand(3, 2), scalar=base[5],
    empty=torch.zeros(0, 3), parameter=torch.nn.Parameter(base[:4]), tail=base[20:],
)
for d in ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float64"]:
    kinds[d] = torch.tensor([0, 1, 2, 100]).to(getattr(torch, d))
state = collections.OrderedDict(kinds)
torch.save(state, "state.pt")
torch.save(state, "legacy.pt", _use_new_zipfile_serialization=False)
torch.save({"model": torch.nn.Linear(2, 1).state_dict(), "epoch": 3, "lr": 0.5, "tags": ["a", ("b", None, True)], "big": 2**70,
            "raw": b"\x00\xff", "shape": torch.Size([2, 3])}, "checkpoint.pt")
torch.save({d: torch.tensor([0, 1, 2, 100]).to(getattr(torch, d)) for d in ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]}, "untyped.pt")
# what stands beside tensors in checkpoints that people write
torch.save({"numbers": {"best": np.float64(0.5), "step": np.int64(7), "big": np.int64(2**60), "done": np.bool_(True)},
            "array": np.asfortranarray(np.arange(6, dtype="<f4").reshape(2, 3)), "mask": np.array([True, False]),
            "args": argparse.Namespace(lr=0.1, hidden=[4, 8]), "path": pathlib.PurePosixPath("/data/a.txt"),
            "counts": collections.Counter("aab"), "table": collections.defaultdict(list, a=[1]), "names": {"x"},
            "z": 1 + 2j, "part": slice(1, None), "weight": base[:2]}, "values.pt")
torch.save({"s": torch.eye(2).to_sparse()}, "sparse.pt")
torch.save(torch.nn.Linear(2, 1), "module.pt")
np.savez("text.npz", names=np.array(["ab", "c"]), a=np.arange(2), b=np.arange(3))
np.save("c.npy", np.arange(6, dtype="<i4").reshape(2, 3))
np.save("fortran.npy", np.asfortranarray(np.arange(6, dtype="<f8").reshape(2, 3)))
np.save("big.npy", np.arange(6, dtype=">f4").reshape(2, 3))
np.save("scalar.npy", np.float16(0.5))
arrays = dict(a=np.arange(3, dtype="u1"), b=np.array([[True, False]]), c=np.zeros((0, 2), "<i8"))
np.savez("stored.npz", **arrays)
np.savez_compressed("deflated.npz", **arrays)
with tarfile.open("small.tar", "w", format=tarfile.PAX_FORMAT) as t:
    for name, data in [("a.txt", b"hello"), ("d/" + "n" * 120 + ".bin", bytes(range(7)))]:
        info = tarfile.TarInfo(name); info.size = len(data); t.addfile(info, io.BytesIO(data))
    info = tarfile.TarInfo("link"); info.type = tarfile.SYMTYPE; info.linkname = "/etc/passwd"; t.addfile(info)
with tarfile.open("gnu.tar.gz", "w:gz", format=tarfile.GNU_FORMAT) as t:
    info = tarfile.TarInfo("x" * 150); info.size = 3; t.addfile(info, io.BytesIO(b"abc"))
# PyTorch 0.1: storages, tensors and a pickle in a tar archive; classes are named as they were then
class Named:
    def __init__(self, text): self.text = text
class P(pickle._Pickler):
    def persistent_id(self, x): return x.id if isinstance(x, Ref) else None
    def save(self, x, save_persistent_id=True):
        if isinstance(x, Named): self.write(b"c" + x.text.encode()); return
        super().save(x, save_persistent_id)
class Ref:
    def __init__(self, i): self.id = i
def dump(x):
    f = io.BytesIO(); P(f, 2).dump(x); return f.getvalue()
storages = dump(1) + dump(("7", "cpu", Named("torch\nFloatStorage\n"))) + struct.pack("<q", 6) + base[:6].numpy().tobytes()
tensors = dump(2)
for key, shape, strides, offset in [("1", (2, 3), (3, 1), 0), ("2", (2,), (2,), 1)]:
    tensors += dump((key, "7", Named("torch\nFloatTensor\n"))) + struct.pack("<i", len(shape)) + b"\0\0\0\0"
    tensors += struct.pack(f"<{2 * len(shape)}q", *shape, *strides) + struct.pack("<q", offset)
with tarfile.open("old.pt", "w", format=tarfile.USTAR_FORMAT) as t:
    for name, data in [("storages", storages), ("tensors", tensors), ("pickle", dump({"w": Ref("1"), "b": Ref("2")}))]:
        info = tarfile.TarInfo(name); info.size = len(data); t.addfile(info, io.BytesIO(data))
