#!/usr/bin/env python3
"""Whole training steps of PVT, Swin, LeViT, T2T-ViT and ResNet in dtn and in PyTorch, at 224 x 224.

  python3 tests/peers/family_speed.py --bench build/bin/dtn-bench --models swin_t,pvt_tiny --compile

A row is measured in one run: dtn, PyTorch, dtn again; the better of dtn's two counts. PyTorch's
models are timm's with its fused attention, and those of pvt_torch.py and t2t_torch.py with
PyTorch's fused attention. All use fused AdamW and run in separate processes; `compiled` means
torch.compile. DTN in PyTorch has one dense matrix per head, over cells if the statistics are
pooled, and one product for all images. No drop path, clipping or average of weights on either side.
ResNet's images are channels_last, where that is faster. On AMD processors PyTorch runs twice, as
installed and with MKL's fast path (mkl.py). Needs PyTorch and timm; not part of the tests.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import timm
import torch
import torch.nn.functional as F

import convolutional
import hierarchical
import mkl
import pvt_torch
import t2t_torch
from vit_torch import DynamicTokenNorm

SIZE, CLASSES = (224, 224), 1000
OWN = {"levit_128s": "bn", "resnet50": "bn"}  # own norm of a preset; the others have ln
PEAK_PER_PAGE = 1024


# --- PyTorch's side ------------------------------------------------------------------------------

def fused_pvt_attention(self, x, grid):
    batch, tokens, width = x.shape
    source = x
    if self.reduction > 1:
        source = self.sr(x.transpose(1, 2).reshape(batch, width, *grid))
        source = self.norm(source.flatten(2).transpose(1, 2))
    q, (k, v) = self.q(x), self.kv(source).chunk(2, -1)
    q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (q, k, v))
    mixed = F.scaled_dot_product_attention(q, k, v)
    return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


def fused_token_transformer(self, x):
    q, k, v = self.attn.qkv(self.norm1(x)).chunk(3, -1)
    mixed = F.scaled_dot_product_attention(q, k, v, scale=x.shape[-1] ** -0.5)
    y = v + self.attn.proj(mixed)
    return y + self.mlp(self.norm2(y))


def fused_t2t_attention(self, x):
    batch, tokens, width = x.shape
    qkv = self.attn.qkv(x).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(*qkv.unbind(0))
    return self.attn.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


def peer_model(name, norm):
    pvt_torch.Attention.forward = fused_pvt_attention
    t2t_torch.TokenTransformer.forward = fused_token_transformer
    t2t_torch.Block.attention = fused_t2t_attention
    with_dtn = norm == "dtn"
    if name == "levit_128s":
        model = timm.create_model("levit_128s", num_classes=CLASSES)
        if with_dtn:
            convolutional.with_token_norms(model)
    elif name == "t2t_vit_t_14":
        model = t2t_torch.T2tVit(SIZE, CLASSES, 10 if with_dtn else 0, norm)
    elif name == "resnet50":
        model = timm.create_model("resnet50", num_classes=CLASSES)
    else:
        model, heads = hierarchical.make(name, SIZE, with_dtn, CLASSES, False)
        if with_dtn:
            hierarchical.put_dtn_in(model, name, SIZE, heads)
    for module in model.modules():
        if isinstance(module, DynamicTokenNorm):
            module.folded = True
    return model


def peer_run(args):
    torch.manual_seed(0)
    torch.set_num_threads(os.cpu_count())
    model = peer_model(args.models, args.norms).train()
    images = torch.randn(args.batch, 3, *SIZE)
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, CLASSES, (args.batch,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if args.compile else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtypes == "bf16"):
            out = run(images)
            out = (out[0] + out[1]) / 2 if isinstance(out, tuple) else out
            loss = F.cross_entropy(out, labels)
        loss.backward()
        optimizer.step()

    for _ in range(2):
        step()
    times = []
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_PER_PAGE
    print(json.dumps({"images_per_second": args.batch / statistics.median(times), "peak": peak}))


# --- both ----------------------------------------------------------------------------------------

def peer(args, name, norm, dtype, processor, *options):
    command = [sys.executable, __file__, "--peer", "--models", name, "--norms", norm, "--dtypes",
               dtype, "--batch", str(args.batch), "--steps", str(args.steps), *options]
    done = subprocess.run(command, capture_output=True, text=True, env=mkl.environment(processor))
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1:]
    return json.loads(done.stdout.splitlines()[-1]), None


def ours(args, name, norm, dtype):
    command = [args.bench, "train", "--config", f"{name}_{norm}", "--json", "--steps",
               str(args.steps), "--warmup", "2"]
    for key, value in {"train.batch_size": args.batch, "train.micro_batch": "null",
                       "train.precision": dtype, "train.ema": "null", "train.best": "raw",
                       "optim.name": "adamw",
                       "optim.clip_grad_norm": "null", "optim.clip_adaptive": "null",
                       "optim.clip_adaptive_head": "false",
                       "model.drop_path": 0, "augment.preset": "light"}.items():
        if name in ("levit_128s", "resnet50") and key == "model.drop_path":
            continue
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def compare(args, name, norm, dtype):
    first = ours(args, name, norm, dtype)
    rows = {}
    ways = [["--compile"]] if args.compile == "only" else [[]]
    if args.compile == "too":
        ways.append(["--compile"])
    if name == "resnet50":
        ways += [[*way, "--channels-last"] for way in ways]
    for way in ways:
        for processor in mkl.ways():
            found, why = peer(args, name, norm, dtype, processor, *way)
            form = " ".join(option[2:] for option in way) or "eager"
            rows[f"{form} {processor}"] = found or why
    second = ours(args, name, norm, dtype)
    best = max(first, second, key=lambda r: r["images_per_second"])
    rate = best["images_per_second"]
    shown = []
    for way, found in rows.items():
        if isinstance(found, dict):
            there = found["images_per_second"]
            shown.append(f"PyTorch {way} {there:.2f} ({found['peak'] / 2**30:.2f} GiB, "
                         f"ratio {rate / there:.2f})")
        else:
            shown.append(f"PyTorch {way} failed: {found}")
    print(f"{name} {norm} {dtype}: dtn {rate:.2f} images/s (mfu {best['mfu']:.2f}, "
          f"{best['peak_bytes'] / 2**30:.2f} GiB); {'; '.join(shown)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bin/dtn-bench")
    parser.add_argument("--models", default="swin_t,pvt_tiny,levit_128s,t2t_vit_t_14,resnet50")
    parser.add_argument("--norms", default="own,dtn")
    parser.add_argument("--dtypes", default="bf16,fp32")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--compile", nargs="?", const="too", choices=("too", "only"))
    parser.add_argument("--channels-last", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        peer_run(args)
        return
    print(f"PyTorch {torch.__version__}, timm {timm.__version__}, batches of {args.batch}, "
          f"{os.cpu_count()} threads", flush=True)
    for name in args.models.split(","):
        for norm in args.norms.split(","):
            if name == "resnet50" and norm == "dtn":
                continue
            for dtype in args.dtypes.split(","):
                compare(args, name, OWN.get(name, "ln") if norm == "own" else norm, dtype)


if __name__ == "__main__":
    main()
