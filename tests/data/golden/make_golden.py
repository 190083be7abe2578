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

# JPEG, by Pillow: two halves, four quarters, and one picture as a camera stores it that is held in each of eight ways.
from PIL import Image  # noqa: E402

halves = Image.new("L", (32, 16), 0)
halves.paste(255, (16, 0, 32, 16))
halves.save(here / "halves.jpg", quality=95)
quarters = Image.new("RGB", (48, 32))
for x, y, colour in [(0, 0, (255, 0, 0)), (24, 0, (0, 255, 0)), (0, 16, (0, 0, 255)), (24, 16, (255, 255, 0))]:
    quarters.paste(colour, (x, y, x + 24, y + 16))
quarters.save(here / "quarters.jpg", quality=95, subsampling=0)
upright = Image.new("L", (32, 16), 0)
upright.paste(255, (0, 0, 16, 8))
upright.paste(128, (16, 0, 32, 8))
turns = Image.Transpose
stored = [None, turns.FLIP_LEFT_RIGHT, turns.ROTATE_180, turns.FLIP_TOP_BOTTOM, turns.TRANSPOSE, turns.ROTATE_90,
          turns.TRANSVERSE, turns.ROTATE_270]
for held, turn in enumerate(stored, 1):
    exif = Image.Exif()
    exif[0x0112] = held
    picture = upright if turn is None else upright.transpose(turn)
    picture.save(here / f"held{held}.jpg", quality=90, exif=exif.tobytes())
