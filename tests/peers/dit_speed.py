#!/usr/bin/env python3
"""Diffusion transformers in dtn and in PyTorch on this machine's processor, in turn in one run.

  python3 tests/peers/dit_speed.py train  --bin build/bin --norms ln,dtn --dtypes fp32,bf16
  python3 tests/peers/dit_speed.py sample --bin build/bin --sampling-steps 50 --guidance 1.5,1

`train` times whole steps (dtn-bench train, and Training of dit_torch.py) on one batch of random
latents, whose times and noise are drawn beforehand on both sides. `sample` times DDIM in float32
with untrained models. For dtn it takes the difference of two runs of dtn-sample, with all steps and
with --short-steps, so that their start does not count; a process of PyTorch warms up first.

A round is dtn, then each form of PyTorch in a process of its own. Rates are medians over the
rounds; dtn is compared with the best form. The words of a form:

  eager, compiled   kernels as Python calls them; torch.compile
  frozen            `sample`: torch.compile with weights as constants, which it may rearrange
  kron, axes        DTN: the products of dtn_separable_torch.py
  fp32res, bf16res  bfloat16: autocast, with the sum of the branches in float32 or bfloat16

On AMD processors each form runs twice, as installed and with MKL's fast path (mkl.py). PyTorch
keeps freed memory (dino_torch.py). The memory of dtn is the peak of its tensors, that of PyTorch
the peak of the process. Needs PyTorch 2; not part of the tests.
"""
import argparse
import itertools
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import dit_torch
import mkl
import safetensors_io
from dino_torch import KEPT, processor

TRAINING_WARMUP = 2
CONFIGS = {"ln": "dit_s_2", "dtn": "dit_s_2_dtn"}  # --preset changes the size of the model


# --- PyTorch's side ------------------------------------------------------------------------------

def forms(args, norm, dtype):
    """The forms to run, by name."""
    execution = ["eager", "compiled"] + (["frozen"] if args.what == "sample" else [])
    groups = [execution, ["kron", "axes"] if norm == "dtn" else [],
              ["fp32res", "bf16res"] if dtype == "bf16" else []]
    every = ["-".join(words) for words in itertools.product(*filter(None, groups))]
    return [form for form in every if not args.forms or form in args.forms.split(",")]


def make_model(args):
    words = args.form.split("-")
    stream = torch.bfloat16 if "bf16res" in words else None
    torch.manual_seed(0)
    return dit_torch.DiT(**dit_torch.PRESETS[args.preset], norm=args.norms, stream=stream,
                         product="axes" if "axes" in words else "kron")


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def time_training(args):
    training = dit_torch.Training(make_model(args), args.dtypes == "bf16", "compiled" in args.form)
    batch = dit_torch.example_batch(args.batch)
    for _ in range(TRAINING_WARMUP):
        training.step(batch)
    return statistics.median(seconds_of(lambda: training.step(batch)) for _ in range(args.steps))


def time_sampling(args):
    model = make_model(args).eval()
    run = model
    if not args.form.startswith("eager"):
        options = {"freezing": True} if args.form.startswith("frozen") else None
        run = torch.compile(model, fullgraph=True, dynamic=False, options=options)
    x, labels, *_ = dit_torch.example_batch(args.batch)

    def sample(steps):
        dit_torch.sample(run, x, labels, steps, float(args.guidance))

    sample(2)
    return seconds_of(lambda: sample(args.sampling_steps))


def peer_run(args):
    torch.set_num_threads(args.threads)
    seconds = (time_training if args.what == "train" else time_sampling)(args)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"images_per_second": args.batch / seconds, "peak_bytes": peak}))


def peer(args, case, form, way):
    """The record of one form; None if it failed, which is printed."""
    norm, dtype, guidance = case
    command = [sys.executable, __file__, args.what, "--form", form, "--norms", norm, "--dtypes",
               dtype, "--guidance", guidance]
    for name in ("preset", "batch", "steps", "sampling_steps", "threads"):
        command += ["--" + name.replace("_", "-"), str(getattr(args, name))]
    environment = {**mkl.environment(way), **KEPT, "OMP_NUM_THREADS": str(args.threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        print(f"  {form}, {way}: failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


# --- dtn's side ----------------------------------------------------------------------------------

def run_program(args, name, *arguments):
    """Returns the output and the log of the program."""
    command = [pathlib.Path(args.bin) / name, *arguments, "--device", "cpu", "--threads",
               str(args.threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout, done.stderr


def our_training(args, norm, dtype):
    settings = [f"model.preset={args.preset}", f"train.batch_size={args.batch}",
                "train.micro_batch=null", f"train.precision={dtype}"]
    out, _ = run_program(args, "dtn-bench", "train", "--config", CONFIGS[norm], "--json", "--steps",
                         str(args.steps), "--warmup", str(TRAINING_WARMUP),
                         *itertools.chain(*(["--set", s] for s in settings)))
    return json.loads(out)


def our_sampling(args, norm, guidance):
    def seconds(folder, steps):
        file, samples = (pathlib.Path(folder, f"{name}.safetensors") for name in ("no", "samples"))
        safetensors_io.save(file, {})  # untrained, so no weights are read from it
        _, log = run_program(
            args, "dtn-sample", "--checkpoint", file, "--untrained", "--config", CONFIGS[norm],
            "--set", f"model.preset={args.preset}", "--count", str(args.batch), "--batch",
            str(args.batch), "--steps", str(steps), "--cfg-scale", guidance, "--save-samples",
            samples)
        return float(re.search(r"steps: ([\d.]+) s", log)[1])

    with tempfile.TemporaryDirectory() as folder:
        short, long = (seconds(folder, n) for n in (args.short_steps, args.sampling_steps))
    if long <= short:
        sys.exit(f"dtn-sample took {long} s for {args.sampling_steps} steps and {short} s for "
                 f"{args.short_steps}; raise --sampling-steps or --batch")
    step = (long - short) / (args.sampling_steps - args.short_steps)
    return {"images_per_second": args.batch / (args.sampling_steps * step)}


# --- Both ----------------------------------------------------------------------------------------

def median_of(records):
    """Medians of each figure, with the lowest and highest rate."""
    rates = [r["images_per_second"] for r in records]
    peaks = [r["peak_bytes"] for r in records if "peak_bytes" in r]
    return {"rate": statistics.median(rates), "range": (min(rates), max(rates)),
            "peak": statistics.median(peaks) if peaks else None}


def text_of(median):
    peak = f", peak {median['peak'] / 2**30:.2f} GiB" if median["peak"] else ""
    low, high = median["range"]
    return f"{median['rate']:.3g} images/s ({low:.3g} to {high:.3g}{peak})"


def measure(args, case):
    """Runs the rounds of one case. Returns medians of dtn, and of each way and form of PyTorch."""
    norm, dtype, guidance = case
    ours, theirs = [], {}
    ways = list(itertools.product(mkl.ways(), forms(args, norm, dtype)))
    for _ in range(args.repeats):
        ours.append(our_training(args, norm, dtype) if args.what == "train"
                    else our_sampling(args, norm, guidance))
        for way, form in ways:
            if found := peer(args, case, form, way):
                theirs.setdefault((way, form), []).append(found)
    return median_of(ours), {key: median_of(records) for key, records in theirs.items()}


def compare(args, case):
    """Prints the figures of one case, and returns its line of the table."""
    norm, dtype, guidance = case
    name = f"{norm}, {dtype}" if args.what == "train" else f"{norm}, guidance {guidance}"
    print(name, flush=True)
    ours, theirs = measure(args, case)
    print(f"  dtn: {text_of(ours)}", flush=True)
    for (way, form), median in theirs.items():
        print(f"  {form}, {way}: {text_of(median)}", flush=True)
    cells = [name, f"{ours['rate']:.3g}"]
    for way in mkl.ways():
        rates = {form: m["rate"] for (w, form), m in theirs.items() if w == way}
        best = max(rates, key=rates.get, default=None)
        cells += ([f"{rates[best]:.3g} ({best})", f"{ours['rate'] / rates[best]:.2f}"] if best
                  else ["", ""])
    return cells


def table(rows):
    header = ["", "dtn"]
    for way in mkl.ways():
        header += [f"PyTorch {way}", "ratio"]
    return "\n".join("| " + " | ".join(cells) + " |"
                     for cells in [header, ["---"] * len(header), *rows])


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "sample"))
    parser.add_argument("--bin", default="build/bin", help="folder of dtn-bench and dtn-sample")
    parser.add_argument("--preset", choices=dit_torch.PRESETS, default="dit_s_4", metavar="PRESET",
                        help="dit_{s,b,l,xl}_{2,4,8}")
    parser.add_argument("--norms", default="ln,dtn")
    parser.add_argument("--dtypes", default="fp32,bf16", help="of `train`")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=3, help="timed steps of a process of `train`")
    parser.add_argument("--sampling-steps", type=int, default=50)
    parser.add_argument("--short-steps", type=int, default=10)
    parser.add_argument("--guidance", default="1.5,1", help="scales of `sample`; 1: none")
    parser.add_argument("--repeats", type=int, default=3, help="rounds")
    parser.add_argument("--forms", help="these forms of PyTorch only, such as eager,compiled-kron")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--form", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    if args.form:
        peer_run(args)
        return
    work = f"{args.steps} steps" if args.what == "train" else f"DDIM, {args.sampling_steps} steps"
    print(f"{args.preset}, batch {args.batch}, {work}, {args.repeats} rounds; PyTorch "
          f"{torch.__version__}, {args.threads} threads of {processor()}", flush=True)
    dtypes = args.dtypes.split(",") if args.what == "train" else ["fp32"]
    guidance = ["1"] if args.what == "train" else args.guidance.split(",")
    cases = itertools.product(args.norms.split(","), dtypes, guidance)
    rows = [compare(args, case) for case in cases]
    print(f"\nImages per second, the fastest form of PyTorch:\n\n{table(rows)}")


if __name__ == "__main__":
    main()
