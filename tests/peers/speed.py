#!/usr/bin/env python3
"""Compares dtn with PyTorch on this machine, each ratio in one run: dtn, PyTorch, dtn again.

  python3 tests/peers/speed.py norm  --bench build/bin/dtn-bench
  python3 tests/peers/speed.py train --bench build/bin/dtn-bench --batch 16 --steps 3

`train` times whole steps of ViT-S* in several forms of PyTorch (gpu_variants.py has the words),
each in a process of its own; dtn is compared with the best form. On AMD processors each form runs
twice, as installed and with MKL's fast path (mkl.py); `norm` runs with it. Needs PyTorch 2; not
part of the tests.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import torch

import gpu_variants
import mkl
from training_torch import FULL, Training, seconds_of_steps
from vit_torch import DynamicTokenNorm


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


# Plain forms first, then faster ones. All have attention in one kernel; "lastrow" is as in dtn.
LAYER_NORM = {"fp32": ["eager-flash-fp32res-allrows", "eager-flash-fp32res-lastrow",
                       "compiled-flash-fp32res-lastrow"],
              "bf16": ["eager-flash-fp32res-allrows", "eager-flash-bf16res-lastrow",
                       "compiled-flash-fp32res-lastrow", "compiled-flash-bf16res-lastrow"]}
FORMS_OF_DTN = ["released-batch", "module-kron", "module-axes"]


def forms(norm, dtype):
    if norm == "ln":
        return LAYER_NORM[dtype]
    plain, *fast = LAYER_NORM[dtype]
    return [f"released-each-{plain}"] + [f"{f}-{fast[-1]}" for f in FORMS_OF_DTN]


def peer_run(args):
    torch.set_num_threads(os.cpu_count())
    variant = gpu_variants.parse(args.norms, args.form)
    dtype = torch.bfloat16 if args.dtypes == "bf16" else torch.float32
    training = Training(variant, FULL, args.batch, "cpu", dtype)
    for _ in range(2):
        training.step()
    rate = args.batch / statistics.median(seconds_of_steps(training.step, args.steps, False))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"images_per_second": rate, "peak_bytes": peak}))


def peer(args, norm, dtype, form, way):
    command = [sys.executable, __file__, "train", "--norms", norm, "--dtypes", dtype, "--form", form,
               "--batch", str(args.batch), "--steps", str(args.steps)]
    done = subprocess.run(command, capture_output=True, text=True, env=mkl.environment(way))
    if done.returncode:
        print(f"  {form} {way}: failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"  {form} {way}: {found['images_per_second']:.2f} images/s, "
          f"{found['peak_bytes'] / 2**30:.2f} GiB", flush=True)
    return found["images_per_second"], form


def compare_train(args):
    for norm in args.norms.split(","):
        for dtype in args.dtypes.split(","):
            command = ("train", "--config", f"vit_s_star_{norm}", "--set",
                       f"train.batch_size={args.batch}", "--set", f"train.precision={dtype}",
                       "--steps", str(args.steps), "--warmup", "2")
            first = bench(args.bench, *command)
            best = {way: max(filter(None, (peer(args, norm, dtype, form, way)
                                           for form in forms(norm, dtype))))
                    for way in mkl.ways()}
            second = bench(args.bench, *command)
            ours = max(first["images_per_second"], second["images_per_second"])
            theirs = "; ".join(f"PyTorch {way} {rate:.2f} ({form}), ratio {ours / rate:.2f}"
                               for way, (rate, form) in best.items())
            print(f"ViT-S* {norm} {dtype} batch {args.batch}: ours {ours:.2f} images/s "
                  f"(mfu {max(first['mfu'], second['mfu']):.3f}, "
                  f"peak {first['peak_bytes'] / 2**30:.2f} GiB); {theirs}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("norm", "train"))
    parser.add_argument("--bench", default="build/bin/dtn-bench")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--norms", default="ln,dtn")
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--form", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.form:
        peer_run(args)
        return
    torch.set_num_threads(os.cpu_count())  # Debian's build starts with one
    way = mkl.restart_at_best() if args.what == "norm" else ", ".join(mkl.ways())
    print(f"PyTorch {torch.__version__} ({way}), {torch.get_num_threads()} threads", flush=True)
    (compare_norm if args.what == "norm" else compare_train)(args)


if __name__ == "__main__":
    main()
