#!/usr/bin/env python3
"""Compares dtn's numbers with PyTorch's: logits of the same weights, and ten AdamW steps.

  python3 tests/peers/parity.py --bin build/bin

For each model, compares the logits of dtn-eval with PyTorch's (float32), then the weights after ten
steps of dtn-train on a `tensors` data set with PyTorch's in float64, relative to each tensor's
largest value. Exits with 1 if a bound is exceeded. Needs PyTorch; not part of the tests.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn

import safetensors_io
from vit_torch import VisionTransformer, decay_groups

LOGITS_BOUND, WEIGHTS_BOUND = 1e-4, 5e-4
STEPS, BATCH = 10, 8

MODELS = {
    "ln": dict(),
    "ln mhsa_position": dict(mhsa_position=True),
    "deit": dict(preset="deit_tiny", flavour="deit"),
    **{n: dict(norm=n) for n in ("rms", "bn", "in", "gn", "sn", "scale")},
    "power": dict(norm="power", options={"warmup": STEPS // 2}),
    "dtn": dict(norm="dtn"),
    "dtn official": dict(norm="dtn", options={"variant": "official"}),
    "dtn lambda 0 uniform": dict(norm="dtn", options={"lambda": 0, "position": "uniform"}),
    "dtn free": dict(norm="dtn", options={"position": "free"}),
    "dtn banded": dict(norm="dtn", options={"position": "banded:5"}),
    "dtn pool": dict(norm="dtn", options={"pool": 2}),
    "dtn only_var": dict(norm="dtn", options={"only_var": True}),
}
HEADS = {"vit_t": 3, "vit_t_star": 4, "deit_tiny": 3}


def preset_of(spec):
    return spec.get("preset", "vit_t_star")


def config_text(spec, folder, image, depth):
    options = {"type": spec.get("norm", "ln"), **spec.get("options", {})}
    norm = "{%s}" % ", ".join(f"{k}: {str(v).lower()}" for k, v in options.items())
    at = "" if spec.get("flavour") == "deit" else f", class_token_at: {depth - 1}"
    at += ", mhsa_position: true" if spec.get("mhsa_position") else ""
    return f"""name: parity
model: {{preset: {preset_of(spec)}, image_size: {image}, num_classes: 10, depth: {depth}{at},
  norm: {norm}, init_weights: {folder}/weights.safetensors}}
data: {{dataset: tensors, root: {folder}, train: data.safetensors, val: data.safetensors,
  shuffle: false}}
optim: {{name: adamw, lr: 1.0e-3, eps: 1.0e-6, weight_decay: 0.05}}
schedule: {{name: constant, steps: {STEPS}}}
train: {{batch_size: {BATCH}, precision: fp32, eval_every: {STEPS}, checkpoint_every: {STEPS}}}
"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")


def check(spec, programs, image=96, depth=4):
    torch.manual_seed(1)
    options = {("fixed_lambda" if k == "lambda" else k): v
               for k, v in spec.get("options", {}).items()}
    model = VisionTransformer(channels=192, heads=HEADS[preset_of(spec)], depth=depth, image=image,
                              classes=10, cls_at=depth - 1, norm=spec.get("norm", "ln"),
                              flavour=spec.get("flavour", "paper"),
                              mhsa_position=spec.get("mhsa_position", False), norm_options=options)
    with torch.no_grad():  # away from the symmetric start, so that every term counts
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.02)
        for name, b in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                b.add_(torch.rand_like(b) * 0.5)
    images = torch.randn(STEPS * BATCH, 3, image, image)
    labels = torch.randint(0, 10, (STEPS * BATCH,))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        safetensors_io.save(folder / "weights.safetensors", model.state_dict())
        safetensors_io.save(folder / "data.safetensors", {"images": images, "labels": labels})
        (folder / "config.yaml").write_text(config_text(spec, folder, image, depth))
        run(programs / "dtn-eval", "--checkpoint", folder / "weights.safetensors", "--config",
            folder / "config.yaml", "--inputs", folder / "data.safetensors", "--save-logits",
            folder / "logits.safetensors")
        model.eval()
        with torch.no_grad():
            expected = model(images)
        model.train()
        logits = safetensors_io.load(folder / "logits.safetensors")["logits"]
        logit_error = (logits - expected).abs().max().item()

        run(programs / "dtn-train", "--config", folder / "config.yaml", "--output", folder / "run")
        trained = safetensors_io.load(folder / "run/checkpoints/last/model.safetensors")
    model.double()
    optimizer = torch.optim.AdamW(decay_groups(model, 0.05), lr=1e-3, eps=1e-6)
    for i in range(STEPS):
        part = slice(i * BATCH, (i + 1) * BATCH)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[part].double()), labels[part]).backward()
        optimizer.step()
    worst, worst_name = 0.0, ""
    for name, p in model.state_dict().items():  # running statistics too
        error = ((trained[name].double() - p).abs().max() / p.abs().max()).item()
        if error > worst:
            worst, worst_name = error, name
    return logit_error, worst, worst_name


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--only", help="models, comma separated: " + ", ".join(MODELS))
    args = parser.parse_args()
    programs, only = args.bin, args.only.split(",") if args.only else MODELS
    failed = False
    for name, spec in MODELS.items():
        if name not in only:
            continue
        logits, weights, where = check(spec, programs)
        ok = logits <= LOGITS_BOUND and weights <= WEIGHTS_BOUND
        failed |= not ok
        print(f"{name:20s} logits {logits:.2e}   weights after {STEPS} steps {weights:.2e} ({where})"
              f"   {'ok' if ok else 'FAILED'}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
