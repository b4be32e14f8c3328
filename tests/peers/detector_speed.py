#!/usr/bin/env python3
"""Training steps of RetinaNet on PVT-Tiny in dtn and in PyTorch on this machine's processor.

  python3 tests/peers/detector_speed.py --bin build/bin --norms ln,dtn --threads 2

A step assigns targets, runs forward and backward, and updates with AdamW. Both sides have one batch
in memory: no files are read. The default is 2 images of 448 x 320 (width x height) with 80 classes
and 7 truths. No drop path. First the fast model is compared with tests/golden/detector_oracle.py.

A round is dtn, then each form of PyTorch in a process of its own. Rates are medians over the
rounds; dtn is compared with the best form. The words of a form:

  eager, compiled   kernels as Python calls them; torch.compile of forward and losses
  first, last       convolutions on contiguous or channels_last maps
  kron, axes        DTN: the products of dtn_separable_torch.py

On AMD processors each form runs twice, as installed and with MKL's fast path (mkl.py). PyTorch
keeps freed memory (dino_torch.py). The memory of dtn is the peak of its tensors, that of PyTorch
the peak of the process. `--bin none` leaves dtn out. Needs PyTorch 2 and torchvision; not part of
the tests.
"""
import argparse
import itertools
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import torch

import detector_torch
import mkl
from dino_torch import KEPT, processor

CONFIGS = {"ln": "retinanet_pvt_tiny_ln", "dtn": "retinanet_pvt_tiny_dtn"}
MOST_DIFFERENCE = 1e-10


# --- PyTorch's side ------------------------------------------------------------------------------

def forms(args, norm):
    groups = [["eager", "compiled"], ["first", "last"], ["kron", "axes"] if norm == "dtn" else []]
    every = ["-".join(words) for words in itertools.product(*filter(None, groups))]
    return [form for form in every if not args.forms or form in args.forms.split(",")]


def peer_run(args):
    torch.set_num_threads(args.threads)
    size = (args.height, args.width)
    training = detector_torch.Training(detector_torch.make_oracle(args.norms, args.classes),
                                       args.norms, size, args.form)
    batch = detector_torch.example_batch(size, args.batch, args.classes, args.truths)
    for _ in range(args.warmup):
        training.step(*batch)
    seconds = []
    for _ in range(args.steps):
        start = time.perf_counter()
        training.step(*batch)
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"step_ms": statistics.median(seconds) * 1000,
                      "fastest_ms": min(seconds) * 1000, "peak_bytes": peak}))


def peer(args, norm, form, way):
    """The record of one form; None if it failed, which is printed."""
    command = [sys.executable, __file__, "--form", form, "--norms", norm]
    for name in ("height", "width", "batch", "classes", "truths", "steps", "warmup", "threads"):
        command += ["--" + name, str(getattr(args, name))]
    environment = {**mkl.environment(way), **KEPT, "OMP_NUM_THREADS": str(args.threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        print(f"  {form}, {way}: failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


# --- dtn's side ----------------------------------------------------------------------------------

def our_training(args, norm):
    """The record of dtn-bench; None without --bin."""
    if args.bin == "none":
        return None
    settings = [f"data.scale=[{args.width}, {args.height}]", f"train.batch_size={args.batch}",
                f"model.num_classes={args.classes}", "train.micro_batch=null", "model.drop_path=0",
                "train.precision=fp32", *filter(None, args.set)]
    command = [pathlib.Path(args.bin) / "dtn-bench", "train", "--config", CONFIGS[norm], "--json",
               "--steps", str(args.steps), "--warmup", str(args.warmup), "--device", "cpu",
               "--threads", str(args.threads),
               *itertools.chain(*(["--set", s] for s in settings))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    record = json.loads(done.stdout)
    return {name: record[name] for name in ("step_ms", "peak_bytes")}


# --- Both ----------------------------------------------------------------------------------------

def text_of(records):
    times = [r["step_ms"] for r in records]
    peak = statistics.median(r["peak_bytes"] for r in records) / 2**30
    fastest = [r["fastest_ms"] for r in records if "fastest_ms" in r]
    return (f"{statistics.median(times):.0f} ms ({min(times):.0f} to {max(times):.0f}"
            + (f", fastest step {min(fastest):.0f}" if fastest else "") + f"), peak {peak:.2f} GiB")


def compare(args, norm):
    """Prints the figures of one normalizer."""
    for form in {form.replace("compiled", "eager") for form in forms(args, norm)}:
        difference = detector_torch.check(norm, form)
        print(f"{norm}, {form}: differs from the oracle by {difference:.1e}", flush=True)
        if not difference < MOST_DIFFERENCE:
            sys.exit("the fast model is wrong")
    ours, theirs = [], {}
    for _ in range(args.repeats):
        if record := our_training(args, norm):
            ours.append(record)
        for way, form in itertools.product(mkl.ways(), forms(args, norm)):
            if record := peer(args, norm, form, way):
                theirs.setdefault((form, way), []).append(record)
                print(f"  {form}, {way}: {text_of([record])}", flush=True)
    medians = {k: statistics.median(r["step_ms"] for r in v) for k, v in theirs.items()}
    for key, records in sorted(theirs.items(), key=lambda e: medians[e[0]]):
        print(f"{norm}, PyTorch, {', '.join(key)}: {text_of(records)}")
    if ours and theirs:
        ratio = min(medians.values()) / statistics.median(r["step_ms"] for r in ours)
        print(f"{norm}, dtn: {text_of(ours)}: {ratio:.2f} of the rate of PyTorch's best")


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin", help="folder of dtn-bench, or none")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="another setting of dtn-bench")
    parser.add_argument("--norms", default="ln,dtn")
    parser.add_argument("--height", type=int, default=320)
    parser.add_argument("--width", type=int, default=448)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--truths", type=int, default=7, help="of each image, for PyTorch")
    parser.add_argument("--steps", type=int, default=3, help="timed steps of a process")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="rounds")
    parser.add_argument("--forms", help="these forms of PyTorch only, such as compiled-last-kron")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--form", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    if args.form:
        peer_run(args)
        return
    print(f"RetinaNet, PVT-Tiny, {args.batch} images of {args.width} x {args.height}, "
          f"{args.classes} classes, {args.repeats} rounds of {args.steps} steps; PyTorch "
          f"{torch.__version__}, {args.threads} threads of {processor()}", flush=True)
    for norm in args.norms.split(","):
        compare(args, norm)


if __name__ == "__main__":
    main()
