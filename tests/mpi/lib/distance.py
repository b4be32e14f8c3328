#!/usr/bin/env python3
"""Prints |a - b| / |a| of the float32 tensors of two safetensors files, in units of 1e-9."""
import array
import json
import math
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    values = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values[name] = array.array("f", data[begin:end])
    return values


def main():
    a, b = (read(f"{folder}/model.safetensors") for folder in sys.argv[1:3])
    if a.keys() != b.keys():
        sys.exit("the files hold different tensors")
    apart = sum((x - y) ** 2 for name in a for x, y in zip(a[name], b[name]))
    norm = sum(x * x for name in a for x in a[name])
    print(round(1e9 * math.sqrt(apart / norm)))


if __name__ == "__main__":
    main()
