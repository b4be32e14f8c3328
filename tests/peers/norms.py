#!/usr/bin/env python3
"""Compares every normalizer with PyTorch: numbers, then speed.

  python3 tests/peers/norms.py parity --bench build/bin/dtn-bench
  python3 tests/peers/norms.py speed  --bench build/bin/dtn-bench

parity: one pass in float32, output and all gradients and buffers, in training and evaluation mode,
as a fraction of each tensor's largest value; exits with 1 above 1e-5. PyTorch computes in float64.
speed: forward + backward at 16 x 196 x 432, dtn, PyTorch, dtn again, and as a multiple of
LayerNorm in the same run. Needs PyTorch (Debian: python3-torch); not part of the tests.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import mkl
import safetensors_io
from norms_torch import NORMS
from vit_torch import DynamicTokenNorm

BOUND = 1e-5
# name: (type, options, whether training differs from evaluation)
CASES = {
    "ln": ("ln", {}, False),
    "rms": ("rms", {}, False),
    "scale": ("scale", {}, False),
    "in": ("in", {}, False),
    "in official": ("in", {"variant": "official"}, False),
    "gn": ("gn", {}, False),
    "gn groups 2": ("gn", {"groups": 2}, False),
    "bn": ("bn", {}, True),
    "sn": ("sn", {}, True),
    "power warming up": ("power", {}, True),
    "power": ("power", {"warmup": 0}, True),
    "dtn": ("dtn", {}, False),
    "dtn official": ("dtn", {"variant": "official"}, False),
    "dtn lambda 0.5": ("dtn", {"lambda": 0.5}, False),
    "dtn lambda 0 uniform": ("dtn", {"lambda": 0, "position": "uniform"}, False),
    "dtn free": ("dtn", {"position": "free"}, False),
    "dtn banded": ("dtn", {"position": "banded:5"}, False),
    "dtn pool 2": ("dtn", {"pool": 2}, False),
    "dtn only_var": ("dtn", {"only_var": True}, False),
}
SHAPES = [(2, (8, 8), 48, 6), (3, (4, 6), 36, 4)]  # B, grid, C, H


def peer_of(kind, options, channels, heads, grid):
    if kind == "dtn":
        named = {("fixed_lambda" if k == "lambda" else k): v for k, v in options.items()}
        return DynamicTokenNorm(channels, heads, grid, **named)
    return NORMS[kind](channels, heads, **options)


def set_flags(options):
    flags = []
    for key, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        flags += ["--set", f"norm.{key}={text}"]
    return flags


def disturb(module):
    """Moves parameters away from the symmetric start, so that every term counts."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.randn_like(p) * 0.3)
        for name, b in module.named_buffers():
            if name == "iters":
                b.fill_(3)
            elif name in module.state_dict():
                b.add_(torch.rand_like(b) * 0.5)


def compare(bench, kind, options, training, shape):
    batch, grid, channels, heads = shape
    torch.manual_seed(1)
    peer = peer_of(kind, options, channels, heads, grid)
    disturb(peer)
    x = torch.randn(batch, grid[0] * grid[1], channels) * 2 + 0.5
    dy = torch.randn_like(x)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        safetensors_io.save(folder / "in.safetensors", {"x": x, "dy": dy, **peer.state_dict()})
        subprocess.run([bench, "norm", "--type", kind, "--heads", str(heads), "--grid",
                        f"{grid[0]},{grid[1]}", "--inputs", folder / "in.safetensors", "--save",
                        folder / "out.safetensors", *([] if training else ["--eval"]),
                        *set_flags(options)], check=True, stdout=subprocess.DEVNULL)
        got = safetensors_io.load(folder / "out.safetensors")
    peer.double().train(training)
    input_ = x.double().requires_grad_()
    y = peer(input_)
    y.backward(dy.double())
    want = {"y": y, "dx": input_.grad}
    for name, p in peer.named_parameters():
        want["d" + name] = torch.zeros_like(p) if p.grad is None else p.grad
    saved = peer.state_dict()
    want.update({name: b for name, b in peer.named_buffers() if name in saved})
    assert got.keys() == want.keys(), (sorted(got), sorted(want))
    worst, where = 0.0, ""
    for name, w in want.items():
        if name == "dpos_proj.bias":  # inert; PyTorch's gradient is rounding
            continue
        error = ((got[name].double() - w).abs().max() / w.abs().max().clamp(min=1e-3)).item()
        if not error <= worst:
            worst, where = error, name
    return worst, where


def parity(args):
    failed = False
    for name, (kind, options, modes) in CASES.items():
        if args.only and kind not in args.only.split(","):
            continue
        for training in (True, False) if modes else (True,):
            worst, where = max(compare(args.bench, kind, options, training, s) for s in SHAPES)
            ok = worst <= BOUND
            failed |= not ok
            mode = (" train" if training else " eval") if modes else ""
            print(f"{name + mode:24s} {worst:.1e} ({where})   {'ok' if ok else 'FAILED'}",
                  flush=True)
    sys.exit(failed)


def ours_ms(bench, kind, dtype):
    out = subprocess.run([bench, "norm", "--type", kind, "--shape", "16,196,432", "--heads", "9",
                          "--dtype", dtype, "--steps", "60", "--json"], check=True,
                         capture_output=True, text=True)
    times = json.loads(out.stdout)
    return times["forward_ms"] + times["backward_ms"]


def torch_ms(kind, dtype, runs):
    torch.manual_seed(0)
    low = torch.bfloat16 if dtype == "bf16" else torch.float32
    peer = peer_of(kind, {}, 432, 9, (14, 14)).train().to(low)
    x = torch.randn(16, 196, 432).to(low).requires_grad_()
    dy = torch.randn(16, 196, 432).to(low)
    times = []
    for _ in range(runs + 2):
        start = time.perf_counter()
        peer(x).backward(dy)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[2:])


def speed(args):
    for dtype in ("fp32", "bf16"):
        for kind in [*NORMS, "dtn"]:
            if args.only and kind not in args.only.split(","):
                continue
            base, first = ours_ms(args.bench, "ln", dtype), ours_ms(args.bench, kind, dtype)
            peer = torch_ms(kind, dtype, args.steps)
            second, again = ours_ms(args.bench, kind, dtype), ours_ms(args.bench, "ln", dtype)
            ours = min(first, second)
            print(f"{kind:6s} {dtype}: {ours:.2f} ms, {ours / min(base, again):.2f} x LayerNorm; "
                  f"PyTorch {peer:.2f} ms, ratio {peer / ours:.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("parity", "speed"))
    parser.add_argument("--bench", default="build/bin/dtn-bench")
    parser.add_argument("--only", default="", help="types, comma separated")
    parser.add_argument("--steps", type=int, default=10, help="timed passes of PyTorch")
    args = parser.parse_args()
    torch.set_num_threads(os.cpu_count())  # Debian's build starts with one
    print(f"PyTorch {torch.__version__} ({mkl.restart_at_best()}), {torch.get_num_threads()} threads",
          flush=True)
    (parity if args.what == "parity" else speed)(args)


if __name__ == "__main__":
    main()
