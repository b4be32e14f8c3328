#!/usr/bin/env python3
"""Training steps of image-to-image models in dtn and in PyTorch on this machine's processor.

  python3 tests/peers/unet_speed.py --bin build/bin --threads 2
  python3 tests/peers/unet_speed.py --bin build/bin --models unet_small --shortcut ms

A step runs forward, the L1 loss and backward, and updates with AdamW (fused in PyTorch), in float32.
Both sides have one batch in memory: 64 images of 32 x 32 for unet_tiny, 8 of 128 x 128 for
unet_small. Models have BatchNorm, ReLU and, by default, the shortcut concat.

A round is dtn, then each form of PyTorch in a process of its own. Rates are medians over the
rounds; dtn is compared with the best form. The words of a form:

  eager, compiled   kernels as Python calls them; torch.compile of forward and loss
  first, last       convolutions on contiguous or channels_last maps

PyTorch's convolutions are oneDNN's. On AMD processors each form runs twice, as installed and with
MKL's fast path (mkl.py). PyTorch keeps freed memory (dino_torch.py). The memory of dtn is the peak
of its tensors, that of PyTorch the peak of the process. `--bin none` leaves dtn out. Needs PyTorch
2; not part of the tests.
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
import tempfile

import torch
import torch.nn.functional as F

import mkl
from dino_torch import KEPT, processor
from dit_speed import median_of, run_program, seconds_of, text_of
from unet_torch import PRESETS, UNet

BATCHES = {"unet_tiny": 64, "unet_small": 8}
STEPS = {"unet_tiny": 20, "unet_small": 4}
WARMUP = 3
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 0.05
FORMS = ["-".join(words) for words in itertools.product(("eager", "compiled"), ("first", "last"))]


# --- PyTorch's side ------------------------------------------------------------------------------

class Training:
    """Whole steps on one batch of random images."""

    def __init__(self, name, shortcut, batch, form):
        torch.manual_seed(0)
        side, keys = PRESETS[name]
        compiled, layout = form.split("-")
        memory = torch.channels_last if layout == "last" else torch.contiguous_format
        self.model = UNet(**{**keys, "shortcut": shortcut}).train().to(memory_format=memory)
        self.input, self.target = (torch.rand(batch, 3, side, side).to(memory_format=memory)
                                   for _ in range(2))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE,
                                           weight_decay=WEIGHT_DECAY, fused=True)
        self.loss = self.compute_loss
        if compiled == "compiled":
            self.loss = torch.compile(self.compute_loss, fullgraph=True, dynamic=False)

    def compute_loss(self, input, target):
        return F.l1_loss(self.model(input), target)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.input, self.target)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def peer_run(args):
    torch.set_num_threads(args.threads)
    if not torch.backends.mkldnn.is_available():
        sys.exit("this PyTorch has no oneDNN")
    batch = args.batch or BATCHES[args.models]
    training = Training(args.models, args.shortcut, batch, args.form)
    first = training.step()
    for _ in range(WARMUP - 1):
        training.step()
    seconds = statistics.median(seconds_of(training.step) for _ in range(args.steps))
    last = training.step()
    if not last < first:
        sys.exit(f"the loss went from {first} to {last} on the same images")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"images_per_second": batch / seconds, "peak_bytes": peak}))


def peer(args, name, form, way):
    """The record of one form; None if it failed, which is printed."""
    command = [sys.executable, __file__, "--form", form, "--models", name, "--steps",
               str(args.steps or STEPS[name])]
    for option in ("batch", "shortcut", "threads"):
        if value := getattr(args, option):
            command += ["--" + option, str(value)]
    environment = {**mkl.environment(way), **KEPT, "OMP_NUM_THREADS": str(args.threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        print(f"  {form}, {way}: failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


# --- dtn's side ----------------------------------------------------------------------------------

def config_text(args, name):
    return f"""name: unet_speed
task: translate
model: {{preset: {name}, shortcut: {args.shortcut}}}
data: {{dataset: synthetic, corruptions: [gaussian_noise/3]}}
translate: {{l1: 1}}
optim: {{name: adamw, lr: {LEARNING_RATE}, weight_decay: {WEIGHT_DECAY}}}
schedule: {{name: constant, steps: 1000}}
train: {{batch_size: {args.batch or BATCHES[name]}, precision: fp32}}
"""


def our_training(args, name):
    """The record of dtn-bench; None without --bin."""
    if args.bin == "none":
        return None
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "unet_speed.yaml")
        config.write_text(config_text(args, name))
        out, _ = run_program(args, "dtn-bench", "train", "--config", config, "--json", "--steps",
                             str(args.steps or STEPS[name]), "--warmup", str(WARMUP),
                             *itertools.chain(*(["--set", s] for s in args.set)))
    return json.loads(out)


# --- Both ----------------------------------------------------------------------------------------

def compare(args, name):
    """Prints the figures of one model."""
    side = PRESETS[name][0]
    print(f"{name}, {args.batch or BATCHES[name]} images of {side} x {side}, shortcut "
          f"{args.shortcut}", flush=True)
    ours, theirs = [], {}
    forms = [form for form in FORMS if not args.forms or form in args.forms.split(",")]
    for _ in range(args.repeats):
        if record := our_training(args, name):
            ours.append(record)
        for way, form in itertools.product(mkl.ways(), forms):
            if record := peer(args, name, form, way):
                theirs.setdefault((way, form), []).append(record)
    medians = {key: median_of(records) for key, records in theirs.items()}
    for (way, form), median in medians.items():
        print(f"  PyTorch, {form}, {way}: {text_of(median)}", flush=True)
    if not ours:
        return
    own = median_of(ours)
    print(f"  dtn: {text_of(own)}", flush=True)
    for way in mkl.ways():
        rates = {form: m["rate"] for (w, form), m in medians.items() if w == way}
        if rates:
            best = max(rates, key=rates.get)
            print(f"  ratio to PyTorch's best {way}, {best}: {own['rate'] / rates[best]:.2f}",
                  flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin", help="folder of dtn-bench, or none")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="another setting of dtn-bench")
    parser.add_argument("--models", default="unet_tiny,unet_small")
    parser.add_argument("--shortcut", default="concat", choices=("none", "concat", "ms", "dms"))
    parser.add_argument("--batch", type=int, help="default: 64 for unet_tiny, 8 for unet_small")
    parser.add_argument("--steps", type=int, help="timed steps of a process; default: 20 and 4")
    parser.add_argument("--repeats", type=int, default=3, help="rounds")
    parser.add_argument("--forms", help="these forms of PyTorch only, such as compiled-last")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--form", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    if args.form:
        peer_run(args)
        return
    print(f"PyTorch {torch.__version__}, {args.threads} threads of {processor()}, {args.repeats} "
          f"rounds", flush=True)
    for name in args.models.split(","):
        compare(args, name)


if __name__ == "__main__":
    main()
