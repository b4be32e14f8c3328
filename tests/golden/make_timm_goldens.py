#!/usr/bin/env python3
"""Writes tests/golden/data/timm.txt and stages.txt: outputs of narrow networks, in float64.

Needs PyTorch and timm. The tests read only the files, so this runs again only when a case is added.
The cases of timm.txt are those of tests/peers/timm_parity.py; those of stages.txt are timm's Swin
and PVTv2, and PVT from its formulas, each with LayerNorm and with DTN. A case is

  case NAME
  model KEYS                       dtn's, as the text of a config's section `model`
  tensor NAME SHIFT SCALE DIMS...  of timm's file, in the order of the seeds 1, 2, ...
  output DIMS... VALUES...

Weights and images come from values(), which the test repeats: norms, gains, biases, tokens and
positions are as far from their initial values as in a trained network.
"""
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import hierarchical  # noqa: E402
import timm_parity  # noqa: E402

IMAGES, BATCH = 1000, 2  # IMAGES: seed of the images


def values(seed, count):
    """Uniform in [-1, 1), exact in float32."""
    mask = 0xFFFFFFFF
    h = (torch.arange(count, dtype=torch.int64) * 2654435761 + seed * 40503) & mask
    h ^= h >> 13
    h = h * 0x5BD1E995 & mask
    h ^= h >> 15
    return (h >> 16).double() / 32768 - 1


def range_of(name, shape):
    """Middle and half width of a tensor's values, powers of two so that float32 holds them."""
    if ".gamma" in name:
        return 0.0, 0.5
    if "norm" in name and name.endswith("weight"):
        return 1.0, 0.5
    if name.endswith("bias"):
        return 0.0, 0.25
    if len(shape) == 2:
        return 0.0, 0.25
    return 0.0, 0.0625 if len(shape) == 4 else 0.5


def write_model(out, name, model, keys, size, resize=False):
    """Writes the case of a network with our weights; `resize`: they are for another image size."""
    print("case", name.replace(" ", "_"), file=out)
    print("model", ", ".join(f"{k}: {v}" for k, v in keys.items()), file=out)
    state = model.state_dict()
    for seed, (tensor, value) in enumerate(state.items(), 1):
        shift, scale = range_of(tensor, value.shape)
        value.copy_((values(seed, value.numel()) * scale + shift).reshape(value.shape))
        print("tensor", tensor, f"{shift:g} {scale:g}", *value.shape, file=out)
    model.load_state_dict(state)
    if resize:
        model.set_input_size(size)
    images = values(IMAGES, BATCH * 3 * size[0] * size[1]).reshape(BATCH, 3, *size)
    with torch.no_grad():
        logits = model(images)
    numbers = " ".join(f"{v:.9g}" for v in logits.reshape(-1).tolist())
    print("output", *logits.shape, numbers, file=out)


def write_case(out, name, timm_options, dtn_options):
    model = timm_parity.make(timm_options).double()
    keys = {k: str(v).lower() for k, v in {**timm_parity.DTN, **dtn_options}.items()}
    side = dtn_options.get("image_size", timm_parity.SIDE)
    write_model(out, name, model, keys, (side, side), resize=side != timm_parity.SIDE)


def write_stages(out, preset, with_dtn):
    size, window, classes = (64, 128), 2, 10
    model = hierarchical.make_narrow(preset, size, window, classes)
    if with_dtn:
        hierarchical.put_dtn_in(model, preset, size, hierarchical.NARROW["num_heads"])
    keys = hierarchical.narrow_config(preset, size, window, classes, with_dtn)
    write_model(out, preset + (" dtn" if with_dtn else ""), model.double().eval(),
                {k: hierarchical.text_of(v) for k, v in keys.items()}, size)


def main():
    with open(HERE / "data" / "timm.txt", "w") as out:
        for name, (timm_options, dtn_options) in timm_parity.CASES.items():
            write_case(out, name, timm_options, dtn_options)
    with open(HERE / "data" / "stages.txt", "w") as out:
        for preset in ("pvt_tiny", "pvt_v2_b3", "swin_t"):
            for with_dtn in (False, True):
                write_stages(out, preset, with_dtn)


if __name__ == "__main__":
    main()
