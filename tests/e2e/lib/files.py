"""Files that the tests need, written without any library: safetensors, BMP, PNG, IDX."""
import array
import json
import struct
import zlib


def read_safetensors(path):
    """(metadata, {name: (dtype, shape, bytes)})"""
    data = open(path, "rb").read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        tensors[name] = t["dtype"], t["shape"], data[8 + size + begin : 8 + size + end]
    return metadata, tensors


def write_safetensors(path, tensors, metadata=None):
    header, body = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)


def floats(shape, values):
    return "F32", shape, array.array("f", values).tobytes()


def integers(values):
    return "I64", [len(values)], array.array("q", values).tobytes()


def values_of(tensor):
    dtype, _, data = tensor
    return list(array.array({"F32": "f", "I64": "q"}[dtype], data))


def bmp(width, height, pixel):
    """24 bits; pixel(x, y) gives (red, green, blue)."""
    rows = b""
    for y in reversed(range(height)):
        row = b"".join(bytes(pixel(x, y)[::-1]) for x in range(width))
        rows += row + b"\0" * (-len(row) % 4)
    return (
        struct.pack("<2sIHHI", b"BM", 54 + len(rows), 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(rows), 2835, 2835, 0, 0)
        + rows
    )


def png(width, height, pixel):
    def chunk(kind, data):
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    rows = b"".join(
        b"\0" + b"".join(bytes(pixel(x, y)) for x in range(width)) for y in range(height)
    )
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def idx(dims, data):
    return struct.pack(f">BBBB{len(dims)}I", 0, 0, 8, len(dims), *dims) + bytes(data)
