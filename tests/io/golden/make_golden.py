"""Writes the golden files beside it with NumPy and ml_dtypes. Run it only to change them: python3 make_golden.py"""
import json
import pathlib
import struct

import ml_dtypes
import numpy as np

here = pathlib.Path(__file__).parent
rows = np.arange(6).reshape(2, 3)

np.save(here / "f32.npy", (rows * 0.5).astype("<f4"))
np.save(here / "f32_fortran.npy", np.asfortranarray((rows * 0.5).astype("<f4")))
np.save(here / "f64_big_endian.npy", (rows * 0.5).astype(">f8"))
np.save(here / "f16.npy", (rows * 0.5).astype("<f2"))
np.save(here / "bf16.npy", (rows * 0.5).astype(ml_dtypes.bfloat16))
np.save(here / "i16_big_endian.npy", (rows - 3).astype(">i2"))
np.save(here / "u32.npy", (rows + 4294967290).astype("<u4"))
np.save(here / "u64_too_large.npy", np.array([1, 2**63], dtype="<u8"))
np.save(here / "bool.npy", rows % 2 == 1)
np.save(here / "scalar.npy", np.array(2.5))
np.save(here / "empty.npy", np.zeros((3, 0, 2), "<i4"))
np.save(here / "complex.npy", np.zeros(2, "<c8"))
np.save(here / "records.npy", np.zeros(2, [("a", "<f4"), ("b", "<i4")]))
with open(here / "version2.npy", "wb") as f:
    np.lib.format.write_array(f, rows.astype("<i8"), version=(2, 0))

arrays = {"weights": (rows * 0.5).astype("<f4"), "labels": np.array([3, 1, 2]), "scalar": np.array(True)}
np.savez(here / "stored.npz", **arrays)
np.savez_compressed(here / "deflated.npz", **arrays)

# The output of `safetensors.numpy.save_file`: wide elements first, the header padded with spaces to a multiple of eight.
tensors = {
    "weights": ("F32", (rows * 0.5).astype("<f4")),
    "bias": ("F16", (np.arange(3) * 0.25).astype("<f2")),
    "narrow": ("I8", np.array([-3, 0, 5], "i1")),
    "flags": ("BOOL", np.array([True, False])),
}
header, data = {"__metadata__": {"format": "pt", "note": "größer"}}, b""
for name, (dtype, array) in tensors.items():
    raw = array.tobytes()
    header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
text += b" " * (-len(text) % 8)
(here / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
