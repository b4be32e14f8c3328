#!/usr/bin/env python3
"""Writes tests/golden/data/analysis.json: PyTorch's analysis of small models, in float64.

Needs PyTorch, and tests/peers/analysis_torch.py, which has the definitions. The test reads only the
file, so this runs again only when a key or a model is added. Weights and images come from values(),
which the test repeats. The file has the first POINTS of pca_points.
"""
import json
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))
from analysis_torch import analyse, cka_matrix  # noqa: E402
from vit_torch import VisionTransformer  # noqa: E402

PATCH, ROWS, COLUMNS, IN_CHANNELS, CLASSES, COUNT, POINTS = 3, 2, 3, 2, 5, 18, 10
CHANNELS, HEADS, DEPTH, JOINS = 12, 3, 3, 2
MODELS = {  # in the order of the test
    "ln": dict(norm="ln", flavour="deit"),
    "dtn": dict(norm="dtn"),
    "dtn official": dict(norm="dtn", variant="official"),
    "bn": dict(norm="bn"),
}


def values(seed, count):
    """Uniform in [-1, 1), exact in float32."""
    mask, out = 0xFFFFFFFF, []
    for i in range(count):
        h = (i * 2654435761 + seed * 40503) & mask
        h ^= h >> 13
        h = h * 0x5BD1E995 & mask
        h ^= h >> 15
        out.append((h >> 16) / 32768 - 1)
    return torch.tensor(out, dtype=torch.float64)


def fill(model):
    """Fills each tensor by its position among the names; gains and variances lie around 1."""
    tensors = {n: t for n, t in model.state_dict().items() if "num_batches" not in n}
    with torch.no_grad():
        for i, name in enumerate(sorted(tensors)):
            t = tensors[name]
            one = (name.endswith("running_var") or name.endswith("norm.weight")
                   or name.endswith("norm1.weight") or name.endswith("norm2.weight"))
            t.copy_((values(100 + i, t.numel()) / 4 + one).reshape(t.shape))
    return model


def rounded(value):
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def main():
    torch.set_default_dtype(torch.float64)
    height, width = ROWS * PATCH, COLUMNS * PATCH
    images = values(7, COUNT * IN_CHANNELS * height * width)
    images = images.reshape(COUNT, IN_CHANNELS, height, width)
    labels = torch.arange(COUNT) % CLASSES
    golden, streams = {"checkpoints": {}}, []
    for name, options in MODELS.items():
        model = fill(VisionTransformer(channels=CHANNELS, heads=HEADS, depth=DEPTH, patch=PATCH,
                                       image=(height, width), in_channels=IN_CHANNELS,
                                       classes=CLASSES, cls_at=JOINS, **options).double())
        numbers, stream = analyse(model, images, labels)
        for place, points in numbers["pca_points"].items():
            numbers["pca_points"][place] = points[:POINTS]
        golden["checkpoints"][name] = numbers
        streams.append(stream)
    golden["cka"] = [cka_matrix(streams[a], streams[b]) for a in range(len(streams))
                     for b in range(a + 1, len(streams))]
    text = json.dumps(rounded(golden), separators=(",", ":"))
    (HERE / "data" / "analysis.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
