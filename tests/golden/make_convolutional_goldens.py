#!/usr/bin/env python3
"""Writes tests/golden/data/convolutional.txt: evaluation outputs of narrow LeViTs, ResNets,
RegNetYs and T2T-ViTs, in float64. The models are timm's, or written from formulas in tests/peers.

Needs PyTorch and timm. The file has the layout of those of make_timm_goldens.py. The test reads
only the file, so this runs again only when a case is added.
"""
import math
import pathlib
import sys

import torch
from timm.models.levit import Levit, LevitDistilled
from timm.models.regnet import RegNet, RegNetCfg
from timm.models.resnet import Bottleneck, ResNet

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
from convolutional import with_token_norms  # noqa: E402
from make_timm_goldens import BATCH, IMAGES, values  # noqa: E402
from t2t_torch import T2tVit  # noqa: E402

CLASSES = 7
LEVIT = dict(img_size=(80, 48), num_classes=CLASSES, embed_dim=(32, 64), key_dim=16, depth=(1, 2),
             num_heads=(1, 2))
OURS = ("preset: levit_128s, image_size: [80, 48], embed_dim: [32, 64], depth: [1, 2], "
        "num_heads: [1, 2]")
T2T = "preset: t2t_vit_t_14, image_size: [32, 48], embed_dim: 16, depth: 2, num_heads: 2"


def t2t(*args):
    return T2tVit((32, 48), CLASSES, *args, width=16, depth=2, heads=2)


CASES = {
    "levit": (LevitDistilled(**LEVIT), OURS),
    "levit_one_head": (Levit(**LEVIT), OURS + ", distilled: false"),
    "levit_dtn": (with_token_norms(LevitDistilled(**LEVIT)), OURS + ", norm: dtn"),
    "resnet": (ResNet(Bottleneck, (2, 1, 1, 1), channels=(64, 8, 12, 16), num_classes=CLASSES),
               "preset: resnet50, image_size: [37, 50], embed_dim: [256, 32, 48, 64], "
               "depth: [2, 1, 1, 1]"),
    "regnet": (RegNet(RegNetCfg(w0=24, wa=36.44, wm=2.49, group_size=8, depth=13, se_ratio=0.25),
                      num_classes=CLASSES),
               "preset: regnety_160, image_size: [45, 64], embed_dim: [24, 56, 152, 368], "
               "depth: [1, 1, 4, 7], num_heads: [3, 7, 19, 46]"),
    "t2t": (t2t(), T2T),
    "t2t_dtn": (t2t(1, "dtn"), T2T + ", class_token_at: 1, norm: dtn"),
}


def range_of(name, shape):
    """Middle and half width of a tensor's values, powers of two so that float32 holds them."""
    if name.endswith("running_var"):
        return 1.0, 0.5
    if len(shape) == 1:
        return (1.0, 0.5) if name.endswith(".weight") else (0.0, 0.25)
    if "attention_biases" in name or len(shape) == 3 or "pos_proj" in name:
        return 0.0, 0.5
    fan_in = math.prod(shape[1:])
    return 0.0, 2.0 ** round(math.log2(math.sqrt(4 / fan_in)))


def write_case(out, name, model, keys):
    model = model.double().eval()
    print("case", name, file=out)
    print(f"model {keys}, num_classes: {CLASSES}", file=out)
    state = model.state_dict()
    tensors = [entry for entry in state.items() if not entry[0].endswith("num_batches_tracked")]
    for seed, (tensor, value) in enumerate(tensors, 1):
        shift, scale = range_of(tensor, value.shape)
        value.copy_((values(seed, value.numel()) * scale + shift).reshape(value.shape))
        print("tensor", tensor, f"{shift:g} {scale:g}", *value.shape, file=out)
    model.load_state_dict(state)
    size = [int(n) for n in keys.split("[")[1].split("]")[0].split(",")]
    images = values(IMAGES, BATCH * 3 * size[0] * size[1]).reshape(BATCH, 3, *size)
    with torch.no_grad():
        logits = model(images)
    numbers = " ".join(f"{v:.9g}" for v in logits.reshape(-1).tolist())
    print("output", *logits.shape, numbers, file=out)


def main():
    with open(HERE / "data" / "convolutional.txt", "w") as out:
        for name, (model, keys) in CASES.items():
            write_case(out, name, model, keys)


if __name__ == "__main__":
    main()
