#!/usr/bin/env python3
"""Training steps of DINO in PyTorch on this machine's processor, as fast as PyTorch runs them.

  python3 tests/peers/dino_torch.py --models vit_s_star --dtypes fp32,bf16 --batch 8 --threads 2

A step is the whole of DINO's: the teacher on 2 views of 224 pixels, the student on these and on 8
of 96, the head with 65536 outputs on all rows at once, the loss of all pairs, the center, the clip
of each tensor, AdamW and the teacher's average. The views are random numbers, so nothing is loaded.
The models have LayerNorm and the paper's late class token. Where the public code is slow, the same
numbers are computed faster:

  log-softmax of the student once for all pairs, summed over the views before the product with q
  clip and average by torch._foreach_*, AdamW fused, attention in one kernel, patches by one product
  the last block computes only the class token's row
  freed memory stays with the process, in huge pages; `--memory returned` gives it back, as in a
  plain installation, which is about 5 % slower and has a smaller peak

Each form runs in a process of its own: eager and compiled, and on AMD processors as installed and
with MKL's fast path (mkl.py). The peak is the resident memory of the whole process. Needs PyTorch
2; not part of the tests.
"""
import argparse
import itertools
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import gpu_variants
import mkl
from vit_fast_torch import FastVisionTransformer, add_branch

SHAPES = {"vit_s_star": dict(channels=432, heads=9), "vit_s": dict(channels=384, heads=6)}
DEPTH, PATCH, SIDE, LOCAL_SIDE, LOCAL_VIEWS = 12, 16, 224, 96, 8
HIDDEN, BOTTLENECK, OUTPUTS = 2048, 256, 65536
STUDENT_TEMP, TEACHER_TEMP, CENTER_MOMENTUM, TEACHER_MOMENTUM = 0.1, 0.04, 0.9, 0.996
LEARNING_RATE, WEIGHT_DECAY, CLIP, DROP_PATH = 5e-4 * 8 / 256, 0.04, 3.0, 0.1
WARMUP = 2
KEPT = {"THP_MEM_ALLOC_ENABLE": "1", "MALLOC_MMAP_THRESHOLD_": str(2**33),
        "MALLOC_TRIM_THRESHOLD_": str(2**33)}


class Backbone(FastVisionTransformer):
    """For square images of any size that the patch divides. `kept` is None for the teacher."""

    def __init__(self, model):
        variant = gpu_variants.parse("ln", "eager-flash-fp32res-lastrow")
        super().__init__(variant, depth=DEPTH, image=SIDE, patch=PATCH, **SHAPES[model])
        self.head = nn.Identity()

    def positions(self, grid):
        side = SIDE // PATCH
        if grid == side:
            return self.pos_embed
        table = self.pos_embed.unflatten(1, (side, side)).permute(0, 3, 1, 2)
        factor = (grid + 0.1) / side
        table = F.interpolate(table, scale_factor=(factor, factor), mode="bicubic")
        return table.permute(0, 2, 3, 1).flatten(1, 2)

    def embed(self, images):
        n, channels, side, _ = images.shape
        grid = side // PATCH
        patches = images.view(n, channels, grid, PATCH, grid, PATCH).permute(0, 2, 4, 1, 3, 5)
        projection = self.patch_embed.proj
        x = F.linear(patches.reshape(n, grid * grid, -1), projection.weight.flatten(1),
                     projection.bias)
        return x + self.positions(grid)

    def forward(self, images, kept=None):
        def add(x, branch, at):
            return x + branch if kept is None else add_branch(x, branch, kept[at])

        x = self.embed(images)
        for i, block in enumerate(self.blocks):
            if i == self.cls_at:
                x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)
            last = i + 1 == len(self.blocks)
            attention = self.class_token_attention if last else self.attention
            x = add(x[:, 0] if last else x, attention(block.attn, block.norm1(x)), 2 * i)
            x = add(x, block.mlp(block.norm2(x)), 2 * i + 1)
        return self.norm(x)


class Head(nn.Module):
    """The gains of the last layer are 1 and frozen (norm_last_layer)."""

    def __init__(self, channels):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(channels, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN),
                                 nn.GELU(), nn.Linear(HIDDEN, BOTTLENECK))
        self.weight_v = nn.Parameter(torch.empty(OUTPUTS, BOTTLENECK).uniform_(-1 / 16, 1 / 16))
        self.register_buffer("weight_g", torch.ones(OUTPUTS, 1))

    def forward(self, x):
        x = F.normalize(self.mlp(x), dim=-1)
        return F.linear(x, torch._weight_norm(self.weight_v, self.weight_g, 0))


class Network(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.backbone = Backbone(model)
        self.head = Head(SHAPES[model]["channels"])

    def forward(self, batches, kept=None):
        """Views of one size run as one batch; the head runs once. Rows are view-major."""
        kept = kept or [None] * len(batches)
        return self.head(torch.cat([self.backbone(*pair) for pair in zip(batches, kept)]))


def loss_of(student, teacher, center):
    """student [V n, K], teacher [2 n, K], raw."""
    q = ((teacher.float() - center) / TEACHER_TEMP).softmax(-1).unflatten(0, (2, -1))
    log_p = (student.float() / STUDENT_TEMP).log_softmax(-1).unflatten(0, (2 + LOCAL_VIEWS, -1))
    others = log_p.sum(0) - log_p[:2]  # of each global view a: the sum over all views but a
    pairs = 2 * (1 + LOCAL_VIEWS)
    return -(q * others).sum() / (pairs * q.shape[1])


class Training:
    def __init__(self, args):
        torch.manual_seed(0)
        self.student = Network(args.model)
        self.teacher = Network(args.model)
        self.teacher.load_state_dict(self.student.state_dict())
        self.teacher.requires_grad_(False)
        self.center = torch.zeros(1, OUTPUTS)
        self.views = [torch.randn(2 * args.batch, 3, SIDE, SIDE),
                      torch.randn(LOCAL_VIEWS * args.batch, 3, LOCAL_SIDE, LOCAL_SIDE)]
        self.parameters = list(self.student.parameters())
        self.averages = list(self.teacher.parameters())
        self.optimizer = torch.optim.AdamW(
            [{"params": [p for p in self.parameters if p.ndim > 1], "weight_decay": WEIGHT_DECAY},
             {"params": [p for p in self.parameters if p.ndim == 1], "weight_decay": 0.0}],
            lr=LEARNING_RATE, fused=True)
        keep = 1 - DROP_PATH * torch.arange(DEPTH) / (DEPTH - 1)
        self.keep = keep.repeat_interleave(2)[:, None]
        self.autocast = args.dtype == "bf16"
        self.compute = self.forward_and_loss
        if args.form == "compiled":
            self.compute = torch.compile(self.compute, fullgraph=True, dynamic=False)

    def forward_and_loss(self, views, kept, center):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            with torch.no_grad():
                teacher = self.teacher(views[:1])
            student = self.student(views, kept)
        return loss_of(student, teacher, center), teacher

    def clip(self):
        gradients = [p.grad for p in self.parameters]
        norms = torch.stack(torch._foreach_norm(gradients))
        factors = (CLIP / (norms + 1e-6)).clamp(max=1)
        torch._foreach_mul_(gradients, list(factors.unbind()))

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        kept = [(torch.rand(2 * DEPTH, len(v)) < self.keep) / self.keep for v in self.views]
        loss, teacher = self.compute(self.views, kept, self.center)
        mean = teacher.float().mean(0, keepdim=True)
        self.center = self.center.lerp(mean, 1 - CENTER_MOMENTUM)  # backward() may read the old one
        loss.backward()
        with torch.no_grad():
            self.clip()
            self.optimizer.step()
            torch._foreach_lerp_(self.averages, self.parameters, 1 - TEACHER_MOMENTUM)
        return loss.item()


def measure(args):
    """Runs in a process of its own, so that its peak of memory is that of one form."""
    torch.set_num_threads(args.threads)
    training = Training(args)
    losses, seconds = [], []
    for _ in range(WARMUP + args.steps):
        start = time.perf_counter()
        losses.append(training.step())
        seconds.append(time.perf_counter() - start)
    if not all(map(math.isfinite, losses)):
        raise RuntimeError(f"the loss is not finite: {losses}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"step_ms": 1e3 * statistics.median(seconds[WARMUP:]), "peak_bytes": peak,
                      "loss": losses[-1]}))


def measured(args, model, dtype, form, way):
    """The record of one form; None if it failed, which is printed."""
    command = [sys.executable, __file__, "--model", model, "--dtype", dtype, "--form", form,
               "--batch", str(args.batch), "--steps", str(args.steps), "--threads",
               str(args.threads)]
    environment = {**mkl.environment(way), "OMP_NUM_THREADS": str(args.threads)}
    if args.memory == "kept":
        environment |= KEPT
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        print(f"  {form}, {way}: failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def processor():
    with open("/proc/cpuinfo") as info:
        names = [line.split(":")[1].strip() for line in info if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="vit_s_star,vit_s", help="of " + ", ".join(SHAPES))
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--forms", default="eager,compiled")
    parser.add_argument("--memory", choices=("kept", "returned"), default="kept")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    for name in ("--model", "--dtype", "--form"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.model:
        measure(args)
        return
    print(f"PyTorch {torch.__version__}, {args.threads} threads of {processor()}, batch "
          f"{args.batch}, 2 x {SIDE} + {LOCAL_VIEWS} x {LOCAL_SIDE}, K {OUTPUTS}, memory "
          f"{args.memory}", flush=True)
    for model, dtype in itertools.product(args.models.split(","), args.dtypes.split(",")):
        print(f"{model} {dtype}", flush=True)
        for form, way in itertools.product(args.forms.split(","), mkl.ways()):
            if found := measured(args, model, dtype, form, way):
                print(f"  {form}, {way}: {1e3 * args.batch / found['step_ms']:.2f} images/s, "
                      f"{found['step_ms']:.0f} ms per step, peak "
                      f"{found['peak_bytes'] / 2**30:.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
