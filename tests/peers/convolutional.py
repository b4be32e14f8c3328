#!/usr/bin/env python3
"""Compares dtn's LeViT, ResNet, RegNetY and T2T-ViT with PyTorch.

  python3 tests/peers/convolutional.py --bin build/bin

LeViT-128S, ResNet-50 and RegNetY-160 are timm's. timm lacks T2T-ViT_t-14: t2t_torch.py has its
formulas. In LeViT, Dynamic Token Normalization replaces timm's BatchNorm after the projections of
attentions. Each row runs at 224 pixels and at another size. A model with random weights, and
statistics of its own inputs, is saved: the logits of dtn-eval must be PyTorch's (float32). Then
dtn-train and PyTorch take a step of SGD. dtn's weights and running statistics must be as near to
those of float64 as PyTorch's float32, with the batch in either order, since small variances under
BatchNorm enlarge roundings. PyTorch loads dtn's checkpoint strictly and must give dtn's logits.
Exits with 1 if a bound is exceeded. Needs PyTorch and timm; not part of the tests.
"""
import argparse
import copy
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import timm
import torch
from torch import nn

import safetensors_io
from t2t_torch import T2tVit
from vit_torch import DynamicTokenNorm

BOUND = 1e-4        # of the largest logit
STEP_BOUND = 1e-3   # of the length of a step, or four times the error of PyTorch's float32
CLASSES, BATCH, RATE = 20, 4, 0.01


# --- LeViT's names in timm, and LeViT with DTN ---------------------------------------------------

def levit_name(name):
    """The authors' name of timm's tensor, for LeViT-128S."""
    first = {"0": 0, "1": 6, "2": 14}
    name = re.sub(r"^stem\.conv(\d)\.", lambda m: f"patch_embed.{2 * int(m[1]) - 2}.", name)
    name = re.sub(r"^stages\.(\d)\.downsample\.attn_downsample\.",
                  lambda m: f"blocks.{first[m[1]] - 2}.", name)
    name = re.sub(r"^stages\.(\d)\.downsample\.mlp\.",
                  lambda m: f"blocks.{first[m[1]] - 1}.m.", name)
    name = re.sub(r"^stages\.(\d)\.blocks\.(\d)\.(attn|mlp)\.",
                  lambda m: f"blocks.{first[m[1]] + 2 * int(m[2]) + (m[3] == 'mlp')}.m.", name)
    if name.startswith("head"):
        return name.replace(".linear.", ".l.")
    for theirs, ours in ((".proj.ln.", ".proj.1."), (".q.ln.", ".q.1."), (".ln1.", ".0."),
                         (".ln2.", ".2."), (".linear.", ".c.")):
        name = name.replace(theirs, ours)
    return name


class LinearTokenNorm(nn.Module):
    def __init__(self, unit, grid):
        super().__init__()
        self.linear = unit.linear
        channels = unit.linear.out_features
        self.bn = DynamicTokenNorm(channels, channels // 32, grid)

    def forward(self, x):
        return self.bn(self.linear(x))


def with_token_norms(model):
    """LeViT with DTN after the projections of its attentions."""
    for module in model.modules():
        if type(module).__name__ == "Attention":
            module.proj.ln = LinearTokenNorm(module.proj.ln, module.resolution)
        if type(module).__name__ == "AttentionDownsample":
            grid = tuple((n + 1) // 2 for n in module.resolution)
            module.proj.ln = LinearTokenNorm(module.proj.ln, grid)
    return model


def levit(size):
    return timm.create_model("levit_128s", img_size=size, num_classes=CLASSES)


# --- the rows ------------------------------------------------------------------------------------

def resnet(size):
    return timm.create_model("resnet50", num_classes=CLASSES, zero_init_last=False)


def regnet(size):
    return timm.create_model("regnety_160", num_classes=CLASSES)


def t2t(size, class_token_at=0, norm="ln"):
    return T2tVit(size, CLASSES, class_token_at, norm)


def same(name):
    return name


LATE = dict(class_token_at=10)
DTN = dict(norm="{type: dtn}")
# Function that makes PyTorch's model, dtn's keys, function for dtn's names, and the second size.
CASES = {
    "levit_128s": (levit, dict(preset="levit_128s"), levit_name, (160, 240)),
    "levit_128s dtn": (lambda s: with_token_norms(levit(s)), dict(preset="levit_128s", **DTN),
                       levit_name, (160, 240)),
    "t2t_vit_t_14": (t2t, dict(preset="t2t_vit_t_14"), same, (96, 160)),
    "t2t_vit_t_14 dtn": (lambda s: t2t(s, 10, "dtn"),
                         dict(preset="t2t_vit_t_14", norm="{type: dtn, layers: 10}", **LATE), same,
                         (96, 160)),
    "resnet50": (resnet, dict(preset="resnet50"), same, (150, 211)),
    "regnety_160": (regnet, dict(preset="regnety_160"), same, (97, 150)),
}


def some_images(count, size):
    """Noise with structure at the scale of patches, so that tokens and images differ."""
    coarse = torch.randn(count, 3, size[0] // 16, size[1] // 16)
    return nn.functional.interpolate(coarse, size, mode="bilinear") + 0.2 * torch.randn(
        count, 3, *size)


def ends_branch(name):
    """Returns True if a gain ends a residual branch. Small ones keep a deep model stable."""
    return re.search(r"(proj\.ln|mlp\.ln2|attn\.proj\.ln)\.bn\.weight$|bn3\.weight$|"
                     r"conv3\.bn\.weight$", name) is not None


def settle(model, images):
    """Sets random gains and biases, and running statistics like those of the images."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name == "pos_embed":
                continue
            if name.endswith(("bn.weight", "norm1.weight", "norm2.weight")) or (
                    p.ndim == 1 and name.endswith(".weight")):
                p.copy_((0.3 if ends_branch(name) else 1) * (0.6 + 0.8 * torch.rand_like(p)))
            elif p.ndim == 1 or "attention_biases" in name:
                p.add_(0.1 * torch.randn_like(p))
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for m in norms:
        m.momentum = 1.0
    model.train()
    with torch.no_grad():
        model(images)
    for m in norms:
        m.momentum = 0.1
        m.running_mean.add_(0.1 * m.running_var.sqrt() * torch.randn_like(m.running_mean))
        # Random attention averages differences of tokens away. The 0.2 keeps the rest from growing.
        m.running_var.mul_(0.8 + 0.4 * torch.rand_like(m.running_var)).add_(0.2)
    return model.eval()


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")


def write_config(folder, options, size):
    sizes = {"image_size": list(size)}
    if options["preset"].startswith(("levit", "t2t")):  # PyTorch's file does not tell its size
        sizes["init_image_size"] = list(size)
    model = ", ".join(f"{k}: {v}" for k, v in (options | sizes).items())
    (folder / "config.yaml").write_text(f"""name: parity
model: {{{model}, num_classes: {CLASSES},
  init_weights: {folder}/weights.safetensors}}
data: {{dataset: tensors, root: {folder}, train: data.safetensors, val: data.safetensors,
  shuffle: false}}
optim: {{name: sgd, lr: {RATE}, momentum: 0, weight_decay: 0}}
schedule: {{name: constant, steps: 1}}
train: {{batch_size: {BATCH}}}
""")


def dtn_logits(programs, folder, checkpoint):
    out = folder / "logits.safetensors"
    run(programs / "dtn-eval", "--checkpoint", checkpoint, "--config", folder / "config.yaml",
        "--inputs", folder / "data.safetensors", "--save-logits", out)
    return safetensors_io.load(out)["logits"]


def error(model, images, logits):
    with torch.no_grad():
        want = model(images)
    return ((logits - want).abs().max() / want.abs().max()).item()


def after_step(model, images, labels, dtype):
    """The parameters and statistics after a step of SGD, computed in that type."""
    model = copy.deepcopy(model).to(dtype).train()
    out = model(images.to(dtype))
    if isinstance(out, tuple):
        out = (out[0] + out[1]) / 2
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=RATE)
    nn.functional.cross_entropy(out, labels).backward()
    optimizer.step()
    return {name: t.double() for name, t in model.state_dict().items() if t.ndim}


def step_error(before, exact, got):
    """Distance of all tensors together from the exact ones, relative to the length of the step."""
    off = sum((got[name].double() - t).square().sum().item() for name, t in exact.items())
    way = sum((t - before[name].double()).square().sum().item() for name, t in exact.items())
    return math.sqrt(off / way)


def check(make, options, rename, size, programs):
    torch.manual_seed(1)
    images, labels = some_images(BATCH, size), torch.arange(BATCH) % CLASSES
    model = settle(make(size), some_images(2 * BATCH, size))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_config(folder, options, size)
        safetensors_io.save(folder / "weights.safetensors", model.state_dict())
        safetensors_io.save(folder / "data.safetensors", {"images": images, "labels": labels})
        there = error(model, images, dtn_logits(programs, folder, folder / "weights.safetensors"))
        run(programs / "dtn-train", "--config", folder / "config.yaml", "--output", folder / "run")
        checkpoint = folder / "run/checkpoints/last/model.safetensors"
        ours = safetensors_io.load(checkpoint)
        theirs = {name: ours.pop(rename(name)) for name in model.state_dict()
                  if not name.endswith("num_batches_tracked")}
        if ours:
            sys.exit(f"tensors that PyTorch's model has not: {', '.join(ours)}")
        exact = after_step(model, images, labels, torch.float64)
        step = step_error(model.state_dict(), exact, theirs)
        own = max(step_error(model.state_dict(), exact, after_step(model, *batch, torch.float32))
                  for batch in ((images, labels), (images.flip(0), labels.flip(0))))
        for name in model.state_dict():
            theirs.setdefault(name, torch.tensor(0))
        model.load_state_dict(theirs, strict=True)
        back = error(model, images, dtn_logits(programs, folder, checkpoint))
    return there, back, step, own


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--only", help="rows, comma separated: " + ", ".join(CASES))
    args = parser.parse_args()
    failed = False
    print(f"timm {timm.__version__}, PyTorch {torch.__version__}")
    for name in args.only.split(",") if args.only else CASES:
        make, options, rename, other = CASES[name]
        for size in (224, 224), other:
            there, back, step, own = check(make, options, rename, size, args.bin)
            ok = there <= BOUND and back <= BOUND and step <= max(STEP_BOUND, 4 * own)
            failed |= not ok
            print(f"{name:18s} {size[0]:3d} x {size[1]:3d}  PyTorch's weights {there:.1e}  "
                  f"dtn's {back:.1e}  a step {step:.1e} (PyTorch's own {own:.1e})  "
                  f"{'ok' if ok else 'FAILED'}",
                  flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
