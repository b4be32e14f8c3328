#!/usr/bin/env python3
"""Compares every key of dtn-analyze with PyTorch in float64 (analysis_torch.py).

  python3 tests/peers/analysis.py --bin build/bin

For each model, saves random weights and images for dtn-analyze, and prints the largest difference
of each key, relative to the key's largest value if that is above 1. Exits with 1 above a bound of
1e-4. Needs PyTorch; not part of the tests, which compare with tests/golden/data/analysis.json.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch

import safetensors_io
from analysis_torch import analyse, cka_matrix
from vit_torch import VisionTransformer

BOUND = 1e-4
PATCH, CHANNELS, HEADS, CLASSES, COUNT = 4, 24, 4, 7, 20

MODELS = {
    "ln": dict(),
    "deit": dict(flavour="deit"),
    **{n: dict(norm=n) for n in ("rms", "bn", "in", "gn", "sn", "scale")},
    "dtn": dict(norm="dtn"),
    "dtn official": dict(norm="dtn", options={"variant": "official"}),
    "dtn lambda": dict(norm="dtn", options={"lambda": 0.25}),
    "dtn uniform": dict(norm="dtn", options={"position": "uniform"}),
    "dtn free": dict(norm="dtn", options={"position": "free"}),
    "dtn banded": dict(norm="dtn", options={"position": "banded:5"}),
    "dtn pool": dict(norm="dtn", options={"pool": 2}),
    "dtn only_var": dict(norm="dtn", options={"only_var": True}),
    "mhsa_position": dict(mhsa_position=True),
}
ROWS, COLUMNS = 4, 6  # of the grid


def build(spec, depth=3):
    options = dict(spec.get("options", {}))
    if "lambda" in options:
        options["fixed_lambda"] = options.pop("lambda")
    return VisionTransformer(channels=CHANNELS, heads=HEADS, depth=depth, patch=PATCH,
                             image=(ROWS * PATCH, COLUMNS * PATCH), in_channels=2,
                             classes=CLASSES, norm=spec.get("norm", "ln"), cls_at=2,
                             flavour=spec.get("flavour", "paper"), norm_options=options,
                             mhsa_position=spec.get("mhsa_position", False))


def shake(model):
    """Makes weights large enough to matter, and exact in float32."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.add_(torch.randn_like(p) * (0.5 if "_norm_weight" in name else 0.15))
        for name, b in model.named_buffers():
            if name.endswith("running_mean"):
                b.add_(torch.randn_like(b) * 0.2)
    return model.float().double()


def config_text(spec, depth):
    options = {"type": spec.get("norm", "ln"), **spec.get("options", {})}
    norm = "{%s}" % ", ".join(f"{k}: {str(v).lower()}" for k, v in options.items())
    deit = spec.get("flavour") == "deit"
    own = "preset: deit_tiny" if deit else "preset: vit_t_star, class_token_at: 2"
    own += ", mhsa_position: true" if spec.get("mhsa_position") else ""
    return f"""name: peer
model: {{{own}, image_size: [{ROWS * PATCH}, {COLUMNS * PATCH}], patch_size: {PATCH}, channels: 2,
  init_image_size: [{ROWS * PATCH}, {COLUMNS * PATCH}],
  num_classes: {CLASSES}, embed_dim: {CHANNELS}, depth: {depth}, num_heads: {HEADS}, norm: {norm}}}
data: {{dataset: tensors, root: /nowhere}}
schedule: {{steps: 1}}
"""


def weights_of(model):
    return {n: t.float() for n, t in model.state_dict().items() if "num_batches" not in n}


def numbers(value):
    if isinstance(value, dict):
        return [n for v in value.values() for n in numbers(v)]
    if isinstance(value, list):
        return [n for v in value for n in numbers(v)]
    return [] if value is None else [float(value)]


def same_form(a, b):
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(
            same_form(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same_form, a, b))
    return (a is None) == (b is None)


def difference(ours, theirs):
    """Largest difference; infinity if the shapes differ."""
    if not same_form(ours, theirs):
        return float("inf")
    x, y = numbers(ours), numbers(theirs)
    scale = max([1.0, *map(abs, y)])
    return max([abs(a - b) for a, b in zip(x, y)], default=0.0) / scale


def run(program, folder, models, specs, images, labels):
    command = [program, "--inputs", folder / "inputs.safetensors", "--output", folder / "out"]
    safetensors_io.save(folder / "inputs.safetensors",
                        {"images": images.float(), "labels": labels})
    for i, (model, spec) in enumerate(zip(models, specs)):
        safetensors_io.save(folder / f"{i}.safetensors", weights_of(model),
                            {"config": config_text(spec, len(model.blocks))})
        command += ["--checkpoint", folder / f"{i}.safetensors"]
    subprocess.run(command, check=True, capture_output=True)
    return json.loads((folder / "out" / "analysis.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--only", choices=MODELS)
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    worst = {}
    for name, spec in MODELS.items():
        if args.only not in (None, name):
            continue
        torch.manual_seed(len(name))
        other = dict(spec, norm="ln", options={})
        models = [shake(build(spec)), shake(build(other, depth=4))]
        images = torch.randn(COUNT, 2, ROWS * PATCH, COLUMNS * PATCH).float().double()
        labels = torch.randint(CLASSES, (COUNT,))
        with tempfile.TemporaryDirectory() as folder:
            ours = run(args.bin / "dtn-analyze", pathlib.Path(folder), models, [spec, other],
                       images, labels)
        streams = []
        for got, model in zip(ours["checkpoints"], models):
            wanted, stream = analyse(model, images, labels)
            streams.append(stream)
            for key, value in wanted.items():
                d = difference(got[key], value)
                worst[key] = max(worst.get(key, 0), d)
                if not d <= BOUND:
                    print(f"{name}: {key}: {d:.2e}")
        d = difference(ours["cka"][0]["matrix"], cka_matrix(*streams))
        worst["cka"] = max(worst.get("cka", 0), d)
        print(f"{name}: done", flush=True)
    for key, d in sorted(worst.items(), key=lambda e: -e[1]):
        print(f"{key:32} {d:.1e}{'' if d <= BOUND else '  ABOVE THE BOUND'}")
    sys.exit(any(not d <= BOUND for d in worst.values()))


if __name__ == "__main__":
    main()
