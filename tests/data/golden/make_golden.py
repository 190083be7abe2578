"""Writes the golden files beside it with the standard library alone. Run it only to change them."""
import gzip
import pathlib
import struct
import zlib

here = pathlib.Path(__file__).parent


def png(path, width, height, colour_type, rows, depth=8, palette=b""):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    data = b"".join(b"\0" + bytes(row) for row in rows)
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    extra = chunk(b"PLTE", palette) if palette else b""
    body = chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")
    (here / path).write_bytes(b"\x89PNG\r\n\x1a\n" + body)


png("grey.png", 3, 2, 0, [[0, 128, 255], [1, 2, 3]])
png("colour.png", 2, 1, 2, [[255, 0, 0, 10, 20, 30]])
png("transparent.png", 2, 1, 6, [[255, 0, 0, 128, 10, 20, 30, 255]])
png("palette.png", 2, 1, 3, [[1, 0]], palette=bytes([9, 8, 7, 200, 100, 50]))

idx = bytes([0, 0, 8, 3]) + struct.pack(">III", 2, 2, 3) + bytes(range(12))
(here / "images.idx").write_bytes(idx)
(here / "images.idx.gz").write_bytes(gzip.compress(idx, mtime=0))
