#!/usr/bin/env python3
"""dtn against PyTorch on this machine, each ratio measured in one run: dtn, PyTorch, dtn again.

  python3 tests/peers/speed.py norm  --bench build/bin/dtn-bench
  python3 tests/peers/speed.py train --bench build/bin/dtn-bench --batch 16 --steps 3

Needs PyTorch (Debian: python3-torch). Not part of the tests.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import time

import torch
from torch import nn

from vit_torch import DynamicTokenNorm, VisionTransformer, decay_groups


def bench(program, *arguments):
    out = subprocess.run([program, *arguments, "--json"], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def median_seconds(work, runs, warmup):
    times = []
    for i in range(warmup + runs):
        start = time.perf_counter()
        work()
        if i >= warmup:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def torch_norm(dtype, runs, per_image):
    torch.manual_seed(0)
    module = DynamicTokenNorm(432, 9, (14, 14), per_image=per_image)
    x = torch.randn(16, 196, 432, requires_grad=True)
    dy = torch.randn(16, 196, 432)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            y = module(x)
        y.backward(dy.to(y.dtype))

    return 1e3 * median_seconds(step, runs, 2)


def compare_norm(args):
    for dtype in ("fp32", "bf16"):
        command = ("norm", "--type", "dtn", "--shape", "16,196,432", "--heads", "9", "--dtype", dtype,
                   "--steps", "50")
        first = bench(args.bench, *command)
        peer = torch_norm(dtype, args.steps, False)
        released = torch_norm(dtype, args.steps, True)
        second = bench(args.bench, *command)
        ours = min(r["forward_ms"] + r["backward_ms"] for r in (first, second))
        print(f"dtn norm {dtype}: ours {ours:.2f} ms, PyTorch dense {peer:.1f} ms, "
              f"ratio {peer / ours:.1f}; with P per image, as released, {released:.1f} ms, "
              f"ratio {released / ours:.1f}; fraction of GEMM "
              f"{max(first['fraction_of_gemm'], second['fraction_of_gemm']):.3f}", flush=True)


def torch_train(norm, dtype, batch, steps):
    torch.manual_seed(0)
    model = VisionTransformer(norm=norm)
    optimizer = torch.optim.AdamW(decay_groups(model, 0.05), lr=1e-4)
    images, labels = torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
    loss_function = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = loss_function(model(images), labels)
        loss.backward()
        optimizer.step()

    return batch / median_seconds(step, steps, 1)


def compare_train(args):
    for norm in args.norms.split(","):
        best_peer = best_ours = 0
        for dtype in args.dtypes.split(","):
            command = ("train", "--config", f"vit_s_star_{norm}", "--set",
                       f"train.batch_size={args.batch}", "--set", f"train.precision={dtype}",
                       "--steps", str(args.steps), "--warmup", "2")
            first = bench(args.bench, *command)
            peer = torch_train(norm, dtype, args.batch, args.steps)
            second = bench(args.bench, *command)
            ours = max(first["images_per_second"], second["images_per_second"])
            best_peer, best_ours = max(best_peer, peer), max(best_ours, ours)
            print(f"ViT-S* {norm} {dtype} batch {args.batch}: ours {ours:.2f} images/s "
                  f"(mfu {max(first['mfu'], second['mfu']):.3f}, "
                  f"peak {first['peak_bytes'] / 2**30:.2f} GiB), PyTorch {peer:.2f} images/s "
                  f"(peak of the process so far "
                  f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB), "
                  f"ratio {ours / peer:.2f}", flush=True)
        print(f"ViT-S* {norm}: best of ours over best of PyTorch {best_ours / best_peer:.2f}",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("norm", "train"))
    parser.add_argument("--bench", default="build/bin/dtn-bench")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--norms", default="ln,dtn")
    parser.add_argument("--dtypes", default="fp32,bf16")
    args = parser.parse_args()
    torch.set_num_threads(os.cpu_count())  # Debian's build starts with one
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
    (compare_norm if args.what == "norm" else compare_train)(args)


if __name__ == "__main__":
    main()
