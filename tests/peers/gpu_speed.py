#!/usr/bin/env python3
"""Training steps of ViT-S* on one GPU: dtn, PyTorch eager, PyTorch compiled, dtn again.

  python3 tests/peers/gpu_speed.py --norm ln  --bench build-gpu/bin/dtn-bench
  python3 tests/peers/gpu_speed.py --norm dtn --bench build-gpu/bin/dtn-bench

Prints one JSON object: images per second of each, and dtn's over PyTorch's, where dtn counts with
the mean of its two runs. Both sides take the step of the configs vit_s_star_ln and vit_s_star_dtn:
bf16, drop path 0.1, label smoothing 0.1, AdamW, no clipping, the whole batch at once, random
images that are on the device already. PyTorch gets what it is fastest with: autocast, its own
attention kernels, fused AdamW, TF32 for what stays in float32, channels-last images, and steps that
follow each other without waiting for the host. DTN is the dense module; of its two forms, P times
each image or times all images at once, the faster one counts.

--smoke checks the script itself, on the CPU too: a tiny model, what is optional compared with what
is plain, nothing compiled. Not part of the tests.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from vit_torch import DropPath, DynamicTokenNorm, VisionTransformer, decay_groups

DROP_PATH, SMOOTHING = 0.1, 0.1
FULL = dict(channels=432, heads=9, depth=12, image=224, classes=1000, cls_at=10)
TINY = dict(channels=48, heads=3, depth=2, image=64, classes=10, cls_at=1)
HAS_FUSED_ATTENTION = hasattr(F, "scaled_dot_product_attention")


def note(text):
    print(f"gpu_speed: {text}", file=sys.stderr, flush=True)


def ours(args):
    """Images per second of dtn, in a process of its own."""
    command = [args.bench, "train", "--config", f"vit_s_star_{args.norm}", "--device", args.device,
               "--steps", str(args.steps), "--warmup", str(args.warmup), "--json"]
    settings = {"train.batch_size": args.batch, "train.micro_batch": args.batch,
                "train.precision": "bf16"}
    if args.smoke:
        settings.update({"model.image_size": 32, "model.depth": 1, "model.class_token_at": 1,
                         "model.num_classes": 10})
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"gpu_speed: {' '.join(command)} failed:\n{done.stderr}")
    rate = json.loads(done.stdout)["images_per_second"]
    note(f"dtn {args.norm}: {rate:.1f} images/s")
    return rate


def median_seconds(step, args):
    """Of a step, from the end of one to the end of the next; nothing waits in between."""
    for _ in range(args.warmup):
        step()
    if args.device == "cpu":
        ends = [time.perf_counter()]
        for _ in range(args.steps):
            step()
            ends.append(time.perf_counter())
        return statistics.median(b - a for a, b in zip(ends, ends[1:]))
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(args.steps + 1)]
    torch.cuda.synchronize()
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:])) / 1e3


class Training:
    """One training step, as fast as PyTorch does it."""

    def __init__(self, args, folded, compiled):
        torch.manual_seed(0)
        shape = TINY if args.smoke else FULL
        self.device = args.device
        self.model = VisionTransformer(norm=args.norm, drop_path=DROP_PATH, folded=folded,
                                       fused_attention=HAS_FUSED_ATTENTION, **shape)
        self.model.to(args.device).to(memory_format=torch.channels_last).train()
        fused = {"fused": True} if args.device == "cuda" else {}
        self.optimizer = torch.optim.AdamW(decay_groups(self.model, 0.05), lr=1e-4, **fused)
        self.images = torch.randn(args.batch, 3, shape["image"], shape["image"], device=args.device)
        self.images = self.images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.arange(args.batch, device=args.device) % shape["classes"]
        self.criterion = nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
        self.loss = torch.compile(self.compute_loss, mode=args.compile_mode) if compiled \
            else self.compute_loss

    def compute_loss(self):
        with torch.autocast(self.device, dtype=torch.bfloat16):
            return self.criterion(self.model(self.images), self.labels)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        self.optimizer.step()


def torch_rate(args, folded=False, compiled=False):
    training = Training(args, folded, compiled)
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    rate = args.batch / median_seconds(training.step, args)
    loss = training.loss().item()
    if loss != loss:
        sys.exit("gpu_speed: PyTorch's loss is NaN")
    peak = torch.cuda.max_memory_allocated() if args.device == "cuda" else None
    note(f"PyTorch {args.norm}{' folded' * folded}, {'compiled' if compiled else 'eager'}: "
         f"{rate:.1f} images/s")
    del training
    if args.device == "cuda":
        torch.cuda.empty_cache()  # so that dtn has the card to itself
    return rate, peak


def compare(args):
    result = {"norm": args.norm, "gpu": torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
              "torch": torch.__version__, "batch": args.batch, "steps": args.steps, "ours": [],
              "eager": None, "compiled": None, "dense": None, "peak_bytes": None, "ratios": {}}
    if args.bench:
        result["ours"].append(ours(args))
    result["eager"], result["peak_bytes"] = torch_rate(args)
    folded = False
    if args.norm == "dtn":
        rate, peak = torch_rate(args, folded=True)
        folded = rate > result["eager"]
        result["dense"] = "all images at once" if folded else "image by image"
        if folded:
            result["eager"], result["peak_bytes"] = rate, peak
    if args.compile:
        try:
            result["compiled"], _ = torch_rate(args, folded, compiled=True)
        except Exception as error:  # what a compiler may throw has no common type
            result["compile_error"] = f"{type(error).__name__}: {error}"[:300]
            note(f"torch.compile failed: {result['compile_error']}")
    if args.bench:
        result["ours"].append(ours(args))
    if args.bench and not args.smoke:  # where the two models are not the same
        mean = statistics.mean(result["ours"])
        result["ratios"] = {name: mean / result[name] for name in ("eager", "compiled")
                            if result[name]}
    return result


def close(what, a, b):
    error = ((a - b).abs().max() / b.abs().max()).item()
    note(f"{what}: {error:.1e}")
    assert error < 1e-5, what


def check_options():
    """What is optional in vit_torch.py computes the same as what is plain."""
    torch.manual_seed(0)
    norm = DynamicTokenNorm(48, 3, (3, 5))
    x = torch.randn(2, 15, 48)
    plain = norm(x)
    norm.folded = True
    close("P times all images at once", norm(x), plain)
    if HAS_FUSED_ATTENTION:
        model = VisionTransformer(norm="ln", **TINY)
        images = torch.randn(2, 3, 64, 64)
        plain = model(images)
        for block in model.blocks:
            block.attn.fused = True
        close("PyTorch's own attention", model(images), plain)
    else:
        note("this PyTorch has no scaled_dot_product_attention; not compared")
    kept = DropPath(0.25)(torch.ones(20000, 1, 1))
    assert set(kept.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert abs(kept.mean().item() - 1) < 0.02


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--norm", choices=("ln", "dtn"), default="ln")
    parser.add_argument("--bench", help="dtn-bench; without it only PyTorch is measured")
    parser.add_argument("--device", choices=("cuda", "cpu"),
                        default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--compile-mode", default="default", help="see torch.compile")
    parser.add_argument("--smoke", action="store_true", help="a tiny model, two steps of four images")
    args = parser.parse_args()
    if args.smoke:
        args.batch, args.steps, args.warmup, args.compile = 4, 2, 1, False
        check_options()
    elif args.device == "cpu":
        sys.exit("gpu_speed: PyTorch sees no CUDA device here; only --smoke runs on the CPU")
    elif not HAS_FUSED_ATTENTION:
        sys.exit(f"gpu_speed: PyTorch {torch.__version__} is too old to be a fair peer")
    if args.device == "cuda":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    else:
        torch.set_num_threads(os.cpu_count())
    print(json.dumps(compare(args)))


if __name__ == "__main__":
    main()
