#!/usr/bin/env python3
"""Compares dtn's models of token sequences with PyTorch.

  python3 tests/peers/sequences.py parity --bin build/bin
  python3 tests/peers/sequences.py speed --bin build/bin

`parity`: narrow models with at most 199 tokens and random weights, on expressions of different
lengths. The logits of dtn-eval --inputs must be PyTorch's in float64, to 1e-4 of the largest. Then
dtn-train and PyTorch take ten steps of Adam by the recipe of the Long-Range Arena, without dropout.
dtn's weights may be as far from those of float64 as the bound, or four times as far as PyTorch's
own in float32. `speed`: training steps of the full dense model, 2000 tokens that all count, beside
PyTorch with fused attention and Adam, eager and compiled, on AMD processors as installed and with
MKL's fast path (mkl.py). Needs PyTorch and NumPy; not part of the tests.
"""
import argparse
import copy
import csv
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

import mkl
import safetensors_io
from sequence_torch import SequenceTransformer

BOUND = 1e-4       # of the largest logit
STEP_BOUND = 1e-3  # of the distance that weights moved in ten steps
STEPS, BATCH, WARMUP, PEAK_RATE = 10, 8, 4, 0.004
SHAPE = dict(max_length=199, channels=32, heads=4, depth=2)
SPARSE = {"dense": {}, "bigbird": dict(block=16), "reformer": dict(buckets=4)}
CASES = [(kind, norm) for kind in SPARSE for norm in ("ln", "dtn")] + [("dense", "in"), ("dense", "bn")]
WORDS = ["", *"0123456789", "[MAX", "[MED", "[MIN", "[SM", "]"]


def run(*command, env=None):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


# --- parity --------------------------------------------------------------------------------------

def read_expressions(path, width):
    """tokens [N, width] and values [N] of a file of ListOps."""
    tokens, labels = [], []
    with open(path, newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            ids = [WORDS.index(w) for w in row["Source"].split() if w not in "()"]
            tokens.append(ids + [0] * (width - len(ids)))
            labels.append(int(row["Target"]))
    return torch.tensor(tokens), torch.tensor(labels)


def make(kind, norm):
    model = SequenceTransformer(kind, norm, **SHAPE, **SPARSE[kind])
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "pos_proj.weight" in name:  # near and far, ahead and behind, flat and steep
                p.copy_(torch.tensor([[0, 0, -1.], [1, 0, -0.25], [-2, 0, -0.02], [0.1, 0, -1e-3]]))
            elif p.ndim == 1:
                p.add_(0.2 * torch.randn_like(p))
            elif name.endswith("qk.weight"):
                p.mul_(3)
        model.cls_token.normal_()
    return model


def write_config(folder, kind, norm):
    sparse = {"dense": "attention_dropout: 0, ","bigbird": "attention: {block_size: 16}, ",
              "reformer": "attention: {buckets: 4}, "}[kind]
    (folder / "config.yaml").write_text(f"""name: parity
model: {{preset: listops_{kind}, max_length: {SHAPE["max_length"]}, embed_dim: {SHAPE["channels"]},
  num_heads: {SHAPE["heads"]}, depth: {SHAPE["depth"]}, dropout: 0, {sparse}norm: {norm},
  init_weights: {folder}/weights.safetensors}}
data: {{dataset: listops, root: {folder}/data, shuffle: false}}
optim: {{name: adamw, lr: {PEAK_RATE * math.sqrt(WARMUP)}, betas: [0.9, 0.98], eps: 1e-9,
  weight_decay: 0.1, decay: all}}
schedule: {{name: rsqrt, steps: {STEPS}, warmup_steps: {WARMUP}}}
train: {{batch_size: {BATCH}}}
""")


def dtn_logits(programs, folder, checkpoint):
    out = folder / "logits.safetensors"
    run(programs / "dtn-eval", "--checkpoint", checkpoint, "--config", folder / "config.yaml",
        "--inputs", folder / "inputs.safetensors", "--save-logits", out)
    return safetensors_io.load(out)["logits"]


def logits_error(model, tokens, logits):
    with torch.no_grad():
        want = copy.deepcopy(model).double().eval()(tokens)
    return ((logits - want).abs().max() / want.abs().max()).item()


def after_steps(model, tokens, labels, dtype):
    model = copy.deepcopy(model).to(dtype).train()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), eps=1e-9,
                                  weight_decay=0.1)
    for step in range(STEPS):
        rate = PEAK_RATE * math.sqrt(WARMUP) * min(1, step / WARMUP) / math.sqrt(max(step, WARMUP))
        optimizer.param_groups[0]["lr"] = rate
        rows = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens[rows]), labels[rows]).backward()
        optimizer.step()
    return {name: t.detach().double() for name, t in model.named_parameters()}


def way_error(before, exact, got):
    """Distance of all tensors together from the exact ones, relative to how far they moved. Leaves
    out the bias of pos_proj, which has no effect under a softmax: only rounding moves it."""
    names = [name for name in exact if not name.endswith("pos_proj.bias")]
    off = sum((got[name].double() - exact[name]).square().sum().item() for name in names)
    way = sum((exact[name] - before[name].double()).square().sum().item() for name in names)
    return math.sqrt(off / way)


def check(kind, norm, programs):
    torch.manual_seed(2)
    model = make(kind, norm)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(programs / "dtn-data", "listops", "--output", folder / "data", "--seed", 1, "--train",
            STEPS * BATCH, "--val", 16, "--test", 1, "--min-length", 60, "--max-length", 200)
        write_config(folder, kind, norm)
        safetensors_io.save(folder / "weights.safetensors", model.state_dict())
        tokens, _ = read_expressions(folder / "data/basic_val.tsv", SHAPE["max_length"])
        safetensors_io.save(folder / "inputs.safetensors", {"tokens": tokens})
        before = logits_error(model, tokens, dtn_logits(programs, folder,
                                                        folder / "weights.safetensors"))
        run(programs / "dtn-train", "--config", folder / "config.yaml", "--output", folder / "run")
        ours = safetensors_io.load(folder / "run/checkpoints/last/model.safetensors")
        batches = read_expressions(folder / "data/basic_train.tsv", SHAPE["max_length"])
        exact = after_steps(model, *batches, torch.float64)
        start = dict(model.named_parameters())
        own = way_error(start, exact, after_steps(model, *batches, torch.float32))
        return before, way_error(start, exact, ours), own


def parity(args):
    print(f"PyTorch {torch.__version__}")
    failed = False
    for kind, norm in CASES:
        logits, way, own = check(kind, norm, args.bin)
        ok = logits <= BOUND and way <= max(STEP_BOUND, 4 * own)
        failed |= not ok
        print(f"{kind:8s} {norm:3s}  logits {logits:.1e}  {STEPS} steps {way:.1e} "
              f"(PyTorch's own {own:.1e})  {'ok' if ok else 'FAILED'}", flush=True)
    return failed


# --- speed ---------------------------------------------------------------------------------------

def peer_step(args):
    torch.manual_seed(0)
    torch.set_num_threads(os.cpu_count())
    model = SequenceTransformer("dense", "ln", dropout=0.1).train()
    for block in model.blocks:
        block.attn.weight_dropout = args.attention_dropout
    tokens, labels = torch.randint(1, 16, (args.batch, 2000)), torch.arange(args.batch) % 10
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9,
                                  weight_decay=0.1, fused=True)
    forward = torch.compile(model) if args.compile else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = F.cross_entropy(forward(tokens, padded=False), labels)
        loss.backward()
        optimizer.step()

    for _ in range(2):
        step()
    times = []
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"rate": args.batch / statistics.median(times), "peak": peak}))


def peer_rate(args, dtype, dropout, compiled, processor):
    command = [sys.executable, __file__, "peer", "--dtype", dtype, "--batch", str(args.batch),
               "--steps", str(args.steps), "--attention-dropout", str(dropout)]
    found = json.loads(run(*command, *(["--compile"] if compiled else []),
                           env=mkl.environment(processor)).splitlines()[-1])
    return found["rate"], found["peak"]


def our_rate(args, config, dtype, dropout):
    options = {"train.batch_size": args.batch, "train.micro_batch": "null",
               "train.precision": dtype, "model.attention_dropout": dropout}
    if "dense" not in config:
        del options["model.attention_dropout"]
    command = [args.bin / "dtn-bench", "train", "--config", config, "--json", "--steps", args.steps,
               "--warmup", 2]
    for key, value in options.items():
        command += ["--set", f"{key}={value}"]
    found = json.loads(run(*command))
    return found["images_per_second"], found["peak_bytes"], found["mfu"]


def speed(args):
    print(f"PyTorch {torch.__version__}, batches of {args.batch} sequences of 2000, "
          f"{os.cpu_count()} threads", flush=True)
    for dtype in args.dtypes.split(","):
        for dropout in (0.1, 0.0):
            first = our_rate(args, "listops_dense_ln", dtype, dropout)
            theirs = {f"{way} {processor}": peer_rate(args, dtype, dropout, way == "compiled",
                                                      processor)
                      for way in ("eager", "compiled") for processor in mkl.ways()}
            ours = max(first, our_rate(args, "listops_dense_ln", dtype, dropout))
            shown = "; ".join(f"PyTorch {way} {rate:.2f} ({peak / 2**30:.1f} GiB, ratio "
                              f"{ours[0] / rate:.2f})" for way, (rate, peak) in theirs.items())
            print(f"dense ln {dtype}, dropout of weights {dropout}: dtn {ours[0]:.2f} sequences/s "
                  f"(mfu {ours[2]:.2f}, {ours[1] / 2**30:.1f} GiB); {shown}", flush=True)
        for kind in SPARSE:
            pairs = []
            for _ in range(args.pairs):
                with_ln = our_rate(args, f"listops_{kind}_ln", dtype, 0.1)
                pairs.append((with_ln, our_rate(args, f"listops_{kind}_dtn", dtype, 0.1)))
            ratio = statistics.median(dtn[0] / ln[0] for ln, dtn in pairs)
            ln, dtn = (max(side) for side in zip(*pairs))
            print(f"{kind} {dtype}: ln {ln[0]:.2f} sequences/s ({ln[1] / 2**30:.2f} GiB), dtn "
                  f"{dtn[0]:.2f} ({dtn[1] / 2**30:.2f} GiB), median ratio {ratio:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("parity", "speed", "peer"))
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--dtype", default="fp32", help=argparse.SUPPRESS)
    parser.add_argument("--attention-dropout", type=float, default=0.1, help=argparse.SUPPRESS)
    parser.add_argument("--compile", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.what == "parity":
        sys.exit(parity(args))
    (speed if args.what == "speed" else peer_step)(args)


if __name__ == "__main__":
    main()
