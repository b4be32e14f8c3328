"""safetensors in a few lines of standard Python, so that the peers need nothing but PyTorch."""
import json
import struct

import torch

_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float64: "F64", torch.int64: "I64",
          torch.uint8: "U8"}
_TYPES = {v: k for k, v in _NAMES.items()}


def save(path, tensors, metadata=None):
    table, blobs, offset = {"__metadata__": metadata} if metadata else {}, [], 0
    for name, t in sorted(tensors.items(), key=lambda e: (-e[1].element_size(), e[0])):
        t = t.detach().contiguous()
        blob = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
        table[name] = {"dtype": _NAMES[t.dtype], "shape": list(t.shape),
                       "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    header = json.dumps(table).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + b"".join(blobs))


def metadata(path):
    """The metadata of a dtn file without checksums, which do not hold for other tensors."""
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        kept = json.loads(f.read(length)).get("__metadata__", {})
    return {k: v for k, v in kept.items() if "checksum" not in k}


def load(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    table = json.loads(data[8:8 + length])
    table.pop("__metadata__", None)
    result = {}
    for name, entry in table.items():
        begin, end = (8 + length + o for o in entry["data_offsets"])
        raw = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8)
        result[name] = raw.view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
    return result
