#!/usr/bin/env python3
"""Compares ten steps of dtn's recipes with timm and PyTorch in float64.

  python3 tests/peers/recipes.py --bin build/bin

A narrow DeiT with random weights learns the same sixteen images for ten steps, by dtn-train in
float32, and by timm's optimizers, losses, layer decay and clipping in float64. Muon and
distillation follow their formulas in PyTorch. Each tensor may differ by 5e-4 of its largest weight.
The keys' third of qkv biases is left out: it has no gradient but rounding. With Lion one weight in
10,000 may differ more, by a multiple of 2 lr. Exits with 1 if a row differs more. Needs PyTorch and
timm; not part of the tests.
"""
import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

import timm
import torch
import torch.nn.functional as F
from timm.loss import BinaryCrossEntropy, LabelSmoothingCrossEntropy
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from timm.optim import Lamb, Lion, param_groups_layer_decay, param_groups_weight_decay
from timm.utils.agc import adaptive_clip_grad

import safetensors_io

BOUND = 5e-4  # of the largest weight of a tensor
STEPS, BATCH, CLASSES, SIDE, WIDTH, DEPTH, HEADS = 10, 16, 10, 32, 64, 2, 4
DECAY = 0.05
QUINTIC = ((4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
           (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012))
ORIGINAL = 5 * ((3.4445, -4.7750, 2.0315),)


def decayed(model):
    return param_groups_weight_decay(model, DECAY, no_weight_decay_list=model.no_weight_decay())


class Muon(torch.optim.Optimizer):
    """Updates the matrices of blocks by the formulas of Muon's paper, and the rest by AdamW."""

    def __init__(self, model, lr, quintic=False, nesterov=True, original_scale=False):
        matrices = {id(p) for n, p in model.named_parameters()
                    if n.startswith("blocks.") and p.ndim == 2}
        self.coefficients, self.nesterov = QUINTIC if quintic else ORIGINAL, nesterov
        self.original_scale = original_scale
        groups = decayed(model)
        rest = [{**g, "params": [p for p in g["params"] if id(p) not in matrices]} for g in groups]
        self.adamw = torch.optim.AdamW(rest, lr=lr, betas=(0.9, 0.95), eps=1e-8)
        super().__init__([p for p in model.parameters() if id(p) in matrices], dict(lr=lr))

    def zero_grad(self, set_to_none=True):
        super().zero_grad(set_to_none)
        self.adamw.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self):
        self.adamw.step()
        for group in self.param_groups:
            for p in group["params"]:
                self.move(p, group["lr"])

    def move(self, p, lr, mu=0.95):
        m = self.state[p].setdefault("m", torch.zeros_like(p))
        m.mul_(mu).add_((1 - mu) * p.grad)
        u = (1 - mu) * p.grad + mu * m if self.nesterov else m
        rows, cols = u.shape
        x = u.mT if rows > cols else u
        x = x / max(x.norm().item(), 1e-7)
        for a, b, c in self.coefficients:
            s = x @ x.mT
            x = a * x + (b * s + c * s @ s) @ x
        scale = (math.sqrt(max(1, rows / cols)) if self.original_scale
                 else 0.2 * math.sqrt(max(rows, cols)))
        p.mul_(1 - lr * DECAY).sub_(lr * scale * (x.mT if rows > cols else x))


def adamw(model, lr):
    return torch.optim.AdamW(decayed(model), lr=lr, betas=(0.9, 0.999), eps=1e-8)


def layer_decayed(model, lr):
    groups = param_groups_layer_decay(model, DECAY, model.no_weight_decay(), layer_decay=0.75)
    for group in groups:
        group["lr"] = lr * group["lr_scale"]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.999), eps=1e-8)


def cross_entropy(smoothing=0.0):
    return LabelSmoothingCrossEntropy(smoothing) if smoothing else torch.nn.CrossEntropyLoss()


def hard(student, teacher):
    return F.cross_entropy(student, teacher.argmax(1))


def soft(temperature, of_elements=False):
    def loss(student, teacher):
        sums = F.kl_div(F.log_softmax(student / temperature, 1),
                        F.log_softmax(teacher / temperature, 1), reduction="sum", log_target=True)
        return sums * temperature ** 2 / (student.numel() if of_elements else len(student))
    return loss


class Row:
    def __init__(self, settings, optimizer=adamw, lr=1e-3, loss=cross_entropy(), teacher=None,
                 alpha=0.5, distilled=False, clip=None):
        self.settings, self.optimizer, self.lr, self.loss = settings, optimizer, lr, loss
        self.teacher, self.alpha, self.distilled, self.clip = teacher, alpha, distilled, clip


ROWS = {
    "adamw": Row([]),
    "lamb": Row(["optim.name=lamb"], lambda m, lr: Lamb(decayed(m), lr=lr, eps=1e-6), 3e-3),
    "lion": Row(["optim.name=lion"], lambda m, lr: Lion(decayed(m), lr=lr, betas=(0.9, 0.99)),
                1e-4),
    "muon": Row(["optim.name=muon"], Muon),
    "muon quintic": Row(["optim.name=muon", "optim.ns_coefficients=quintic"],
                        lambda m, lr: Muon(m, lr, quintic=True)),
    "muon plain": Row(["optim.name=muon", "optim.nesterov=false", "optim.muon_scale=original"],
                      lambda m, lr: Muon(m, lr, nesterov=False, original_scale=True)),
    "layer decay": Row(["optim.layer_decay=0.75"], layer_decayed),
    "adaptive clipping": Row(["optim.clip_adaptive=0.01"], clip=0.01),
    "smoothed": Row(["train.label_smoothing=0.1"], loss=cross_entropy(0.1)),
    "bce": Row(["train.loss=bce", "train.label_smoothing=0.1"],
               loss=BinaryCrossEntropy(0.1)),
    "bce threshold": Row(["train.loss=bce", "train.label_smoothing=0.1",
                          "train.bce_target_threshold=0.2"],
                         loss=BinaryCrossEntropy(0.1, target_threshold=0.2)),
    "bce sum": Row(["train.loss=bce", "train.bce_sum=true"],
                   loss=BinaryCrossEntropy(0.0, sum_classes=True)),
    "deit3": Row(["optim.name=lamb", "train.loss=bce", "train.bce_target_threshold=0"],
                 lambda m, lr: Lamb(decayed(m), lr=lr, eps=1e-6), 3e-3,
                 BinaryCrossEntropy(0.0, target_threshold=0.0)),
    "distilled hard": Row(["model.distilled=true", "train.label_smoothing=0.1"],
                          loss=cross_entropy(0.1), teacher=hard, distilled=True),
    "distilled soft": Row(["model.distilled=true", "distill.type=soft", "distill.alpha=0.1",
                           "distill.temperature=3"],
                          teacher=soft(3), alpha=0.1, distilled=True),
    "soft by elements": Row(["distill.type=soft", "distill.temperature=2",
                             "distill.reduction=elements"], teacher=soft(2, True)),
}


def make(seed, distilled=False):
    """A model with weights large enough to matter, which float32 holds."""
    torch.manual_seed(seed)
    kind = VisionTransformerDistilled if distilled else VisionTransformer
    model = kind(img_size=SIDE, patch_size=16, embed_dim=WIDTH, depth=DEPTH, num_heads=HEADS,
                 num_classes=CLASSES)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return model


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")


def by_dtn(row, folder, programs):
    config = folder / "config.yaml"
    config.write_text(f"""name: recipe
model: {{preset: deit_tiny, image_size: {SIDE}, embed_dim: {WIDTH}, depth: {DEPTH},
        num_heads: {HEADS}, num_classes: {CLASSES}}}
data: {{dataset: tensors, root: {folder}, train: data.safetensors, val: data.safetensors}}
optim: {{lr: {row.lr}, weight_decay: {DECAY}}}
schedule: {{name: constant, steps: {STEPS}}}
train: {{batch_size: {BATCH}}}
""")
    settings = [f"model.init_weights={folder}/weights.safetensors", *row.settings]
    if row.teacher:
        settings += [f"distill.teacher={folder}/teacher.safetensors",
                     f"distill.teacher_config={config}"]
    run(programs / "dtn-train", "--config", config, "--output", folder / "run",
        *(word for s in settings for word in ("--set", s)))
    return safetensors_io.load(folder / "run/checkpoints/last/model.safetensors")


def by_timm(row, model, teacher, images, labels):
    model, teacher = model.double().train(), teacher.double().eval()
    images = images.double()
    if row.distilled:
        model.set_distilled_training(True)
    optimizer = row.optimizer(model, row.lr)
    body = [p for n, p in model.named_parameters() if not n.startswith("head")]
    for _ in range(STEPS):
        optimizer.zero_grad()
        outputs = model(images)
        by_labels, by_teacher = outputs if row.distilled else (outputs, outputs)
        loss = row.loss(by_labels, labels)
        if row.teacher:
            with torch.no_grad():
                answers = teacher(images)
            loss = (1 - row.alpha) * loss + row.alpha * row.teacher(by_teacher, answers)
        loss.backward()
        if row.clip:
            adaptive_clip_grad(body, row.clip)
        optimizer.step()
    return {n: p.detach() for n, p in model.named_parameters()}


def compare(row, got, want, lr):
    """Returns the largest difference relative to the largest weight of its tensor, the number of
    weights that Lion moved the other way, and the number of all weights."""
    worst, turned, count = 0.0, 0, 0
    for name, w in want.items():
        difference = (got[name].double().reshape(w.shape) - w).abs()
        if name.endswith("qkv.bias"):
            difference[WIDTH:2 * WIDTH] = 0
        relative = difference / w.abs().max()
        if row.settings == ["optim.name=lion"]:
            steps = difference / (2 * lr)
            other_way = (steps.round() >= 1) & ((steps - steps.round()).abs() < 0.01)
            turned += int(other_way.sum())
            relative = relative[~other_way]
        count += w.numel()
        worst = max(worst, relative.max().item())
    return worst, turned, count


def check(row, programs):
    model, teacher = make(1, row.distilled), make(2)
    torch.manual_seed(3)
    images, labels = torch.randn(BATCH, 3, SIDE, SIDE), torch.arange(BATCH) % CLASSES
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        safetensors_io.save(folder / "weights.safetensors", model.state_dict())
        safetensors_io.save(folder / "teacher.safetensors", teacher.state_dict())
        safetensors_io.save(folder / "data.safetensors", {"images": images, "labels": labels})
        got = by_dtn(row, folder, programs)
    return compare(row, got, by_timm(row, model, teacher, images, labels), row.lr)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--only", help="rows, comma separated: " + ", ".join(ROWS))
    args = parser.parse_args()
    failed = False
    print(f"timm {timm.__version__}, PyTorch {torch.__version__}, {STEPS} steps")
    for name in args.only.split(",") if args.only else ROWS:
        worst, turned, count = check(ROWS[name], args.bin)
        ok = worst <= BOUND and turned <= count / 10000
        failed |= not ok
        more = f"   {turned} of {count} a multiple of 2 lr away" if turned else ""
        print(f"{name:18s} {worst:.2e} of the largest weight{more}   {'ok' if ok else 'FAILED'}",
              flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
