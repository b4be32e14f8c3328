#!/usr/bin/env python3
"""Holds dtn's numbers against PyTorch's: logits of the same weights, and ten AdamW steps.

  python3 tests/peers/parity.py --bin build/bin

For each model: the logits of dtn-eval against PyTorch's (float32), then weights after ten steps of
dtn-train on a `tensors` data set against PyTorch's in float64, as a fraction of each tensor's
largest value. Exits with 1 when a bound is passed. Needs PyTorch; not part of the tests.
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
    "paper ln": dict(preset="vit_t", norm="ln"),
    "paper dtn": dict(preset="vit_t_star", norm="dtn", variant="paper", heads=4),
    "official dtn": dict(preset="vit_t_star", norm="dtn", variant="official", heads=4),
    "deit": dict(preset="deit_tiny", norm="ln", flavour="deit"),
}


def config_text(spec, folder, image, depth):
    norm = "ln" if spec["norm"] == "ln" else "{type: dtn, variant: %s}" % spec["variant"]
    at = "" if spec.get("flavour") == "deit" else f", class_token_at: {depth - 1}"
    return f"""name: parity
model: {{preset: {spec['preset']}, image_size: {image}, num_classes: 10, depth: {depth}{at},
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
    kind = {k: v for k, v in spec.items() if k not in ("preset", "heads")}
    model = VisionTransformer(channels=192, heads=spec.get("heads", 3), depth=depth, image=image,
                              classes=10, cls_at=depth - 1, **kind)
    with torch.no_grad():  # away from the symmetric start, so that every term counts
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.02)
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
        with torch.no_grad():
            expected = model(images)
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
    for name, p in model.named_parameters():
        error = ((trained[name].double() - p).abs().max() / p.abs().max()).item()
        if error > worst:
            worst, worst_name = error, name
    return logit_error, worst, worst_name


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    programs = parser.parse_args().bin
    failed = False
    for name, spec in MODELS.items():
        logits, weights, where = check(spec, programs)
        ok = logits <= LOGITS_BOUND and weights <= WEIGHTS_BOUND
        failed |= not ok
        print(f"{name:14s} logits {logits:.2e}   weights after {STEPS} steps {weights:.2e} ({where})"
              f"   {'ok' if ok else 'FAILED'}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
