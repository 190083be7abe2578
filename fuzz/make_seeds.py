# SPDX-License-Identifier: MIT
"""Writes the seeds of the fuzzers: small files that are right, one of each kind. Run from anywhere; needs nothing but
Python. What fuzzing finds is added to corpus/NAME by hand, under a name that says what it was."""

import io
import json
import pathlib
import struct
import zipfile
import zlib

CORPUS = pathlib.Path(__file__).parent / "corpus"


def put(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def npy(descr, shape, data, order="False", version=1):
    head = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"
    before = 10 if version == 1 else 12
    head += " " * (-(before + len(head) + 1) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(head))
    return b"\x93NUMPY" + bytes([version, 0]) + length + head.encode() + data


def npz(arrays, method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in arrays.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def png(width, height, colour, channels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(range(width * channels)) for _ in range(height))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


floats = struct.pack("<6f", 1, -2, 0.5, float("inf"), float("nan"), 1e-40)
put("npy", "f32", npy("<f4", "(2, 3)", floats))
put("npy", "big_endian_columns", npy(">i2", "(2, 2)", b"\0\1\0\2\0\3\0\4", order="True"))
put("npy", "scalar_version_2", npy("|b1", "()", b"\1", version=2))
put("npy", "bf16", npy("<V2", "(3,)", b"\0\1\2\3\4\5"))
for method, name in ((zipfile.ZIP_STORED, "stored"), (zipfile.ZIP_DEFLATED, "deflated")):
    put("npz", name, npz({"a.npy": npy("<f4", "(2, 3)", floats), "b.npy": npy("|u1", "(2,)", b"\1\2")}, method))
header = {
    "__metadata__": {"note": "text"},
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BOOL", "shape": [2], "data_offsets": [24, 26]},
    "c": {"dtype": "I8", "shape": [], "data_offsets": [26, 27]},
    "d": {"dtype": "F8_E4M3", "shape": [0], "data_offsets": [27, 27]},
}
put("safetensors", "four", safetensors(header, floats + b"\1\0\7"))
put("safetensors", "empty", safetensors({}, b""))
own = {
    "ebb.checkpoint": "1",
    "ebb.step": "7",
    "ebb.random.seed": "1",
    "ebb.random.next_operation": "2",
    "ebb.loader.seed": "3",
    "ebb.loader.epoch": "4",
    "ebb.loader.batch": "5",
}
lines = "".join(f"{key}={value}\n" for key, value in own.items())
put("checkpoint", "metadata", lines + "parameters.w=tensor\noptimizer.w.m=tensor\nnote=text\n")
put("checkpoint", "file", safetensors({"__metadata__": {**own, "ebb.crc32": "00000000"}}, b""))
idx = b"\0\0\x08\x02" + struct.pack(">II", 2, 3) + b"\1\2\3\4\5\6"
put("idx", "plain", idx)
compressor = zlib.compressobj(wbits=31)
put("idx", "gzipped", compressor.compress(idx) + compressor.flush())
put("idx", "f64", b"\0\0\x0e\x01" + struct.pack(">Id", 1, 2.5))
put("cifar", "ten", b"\3" + bytes(3072))
put("cifar", "hundred", b"\5\x2a" + bytes(3072))
put("csv", "header", 'a,b,"c ""d"""\n1,2,3\n4,NA,-5e3\n')
put("csv", "semicolons", "1;2;3\r\n4;5;6\r\n\r\n")
put("csv", "decimal_commas", "a;b;c\n1,5;-2,25e-3;x\n3;4,5;y\n")
put("csv", "dates", "when,what\n2024-05-31T23:15:00.5+02:00,rain\n2024-6-1,\n")
compressor = zlib.compressobj(wbits=31)
put("csv", "gzipped", compressor.compress(b"a,b\n1,2\n") + compressor.flush())
put("image", "rgb.png", png(3, 2, 2, 3))
put("image", "grey_alpha.png", png(2, 2, 4, 2))
put("image", "p6.ppm", b"P6 2 1 255\n" + bytes(6))
put("image", "p2.pgm", b"P2\n# a comment\n2 2\n15\n0 5 10 15\n")
for jpeg in sorted((pathlib.Path(__file__).parent.parent / "tests/data/golden").glob("*.jpg")):
    if jpeg.stat().st_size < 3000:
        put("image", jpeg.name, jpeg.read_bytes())
put("byte_pairs", "merges", '{"type": "byte-level BPE", "version": 1, "merges": [[97, 98], [256, 99]]}')
put("byte_pairs", "text", "ab abc abcabc\n  the cat the hat\n" * 3)
golden = pathlib.Path(__file__).resolve().parents[1] / "tests" / "models" / "golden"
tiny = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3}, "merges": ["a b"], "ignore_merges": True},
        "added_tokens": [{"id": 4, "content": "<|end|>", "special": True}], "pre_tokenizer": {"type": "ByteLevel"},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>"}}, {"Sequence": {"id": "A"}}],
                           "special_tokens": {"<|end|>": {"ids": [4]}}}, "decoder": {"type": "ByteLevel"}}
put("tokenizer", "tiny", json.dumps(tiny))
put("tokenizer", "config", (golden / "tied_grouped" / "config.json").read_text())
put("settings", "json", '{"model": "mlp", "lr": 0.01, "hidden": [8, 8], "steps": 5, "resize": [4, 4]}')
put("settings", "toml", 'model = "mlp"\nlr = 1e-2\nhidden = [8, 8]\n[train]\nbatch_size = 3\n')
put("einsum", "matmul", b"ij,jk->ik\0\x02\x02\x02\x03\x02\x03\x01")
put("einsum", "ellipsis", b"...ij,j\0\x02\x03\x01\x02\x03\x01\x03")
put("einsum", "trace", b"ii\0\x01\x02\x03\x03")
code = b"\x7fELF some machine code"
checksum = 0xCBF29CE484222325 ^ 1
for byte in code:
    checksum = (checksum ^ byte) * 0x100000001B3 % 2**64
checksum = (checksum ^ checksum >> 32) * 0x9E3779B97F4A7C15 % 2**64
put("kernel_cache", "kernel", b"ebbcuda1" + struct.pack("<QQQQ", 7, 8, checksum, len(code)) + code)
put("kernel_cache", "short", b"ebbcuda1" + struct.pack("<QQQQ", 7, 8, checksum, len(code)) + code[:-1])
for k in range(12):
    put("graph", f"seed_{k}", bytes((k * 37 + i * (2 * k + 1) * 29) % 256 for i in range(24 + 4 * k)))
