#!/usr/bin/env python3
"""Images per second and core that the loader prepares, compared with torchvision on Pillow, in one
run: dtn, torchvision, dtn, torchvision, ..., each on one thread.

  python3 tests/peers/loader_speed.py --bench build/bin/dtn-bench --root imagenet --split val

--root holds <split>/<class>/<image>: a hundred images or more, which all stay in the page cache
after the first round. Prints the best round of either side. Needs torchvision (Debian:
python3-torchvision). Not part of the tests.
"""
import argparse
import itertools
import json
import os
import subprocess
import time

os.environ["OMP_NUM_THREADS"] = "1"  # before torch reads it

import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.transforms import InterpolationMode

BICUBIC = InterpolationMode.BICUBIC
TO_TENSOR = [transforms.ToTensor(),
             transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]


def light(size):
    return [transforms.RandomResizedCrop(size, interpolation=BICUBIC),
            transforms.RandomHorizontalFlip()]


def deit(size):
    """timm's rand-m9-mstd0.5-inc1 is two operations, each with probability 0.5."""
    operation = transforms.RandAugment(1, 9, interpolation=BICUBIC)
    return [*light(size), transforms.RandomApply([operation], 0.5),
            transforms.RandomApply([operation], 0.5)]


def pipelines(size):
    """name: (settings of dtn, torchvision's)"""
    evaluation = [transforms.Resize(int(size / 0.875), interpolation=BICUBIC),
                  transforms.CenterCrop(size)]
    return {
        "light": (["augment.preset=light"], light(size) + TO_TENSOR),
        "light, exact": (["augment.preset=light", "data.decode=exact"], light(size) + TO_TENSOR),
        "evaluation": (["augment.preset=none", "data.decode=exact"], evaluation + TO_TENSOR),
        "deit": (["augment.preset=deit"],
                 deit(size) + TO_TENSOR + [transforms.RandomErasing(0.25, value="random")]),
    }


def ours(args, settings):
    settings = [*settings, f"data.root={args.root}", f"data.train={args.split}", "data.workers=0",
                "data.dataset=imagefolder", f"model.image_size={args.size}",
                f"train.batch_size={args.batch}", "train.micro_batch=null"]
    command = [args.bench, "data", "--config", args.config, "--seconds", str(args.seconds), "--json"]
    command += itertools.chain.from_iterable(("--set", s) for s in settings)
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode == 2:  # a preset this version does not know
        return None
    out.check_returncode()
    return json.loads(out.stdout)["images_per_second"]


def theirs(args, steps):
    data = ImageFolder(f"{args.root}/{args.split}", transforms.Compose(steps))
    images, start = 0, time.perf_counter()
    while True:
        for batch, _ in DataLoader(data, args.batch, shuffle=True, drop_last=True):
            images += len(batch)
            elapsed = time.perf_counter() - start
            if elapsed > args.seconds:
                return images / elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default="build/bin/dtn-bench")
    parser.add_argument("--root", required=True)
    parser.add_argument("--split", default="val")
    parser.add_argument("--config", default="vit_s_ln")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':14}{'dtn':>9}{'torchvision':>13}{'ratio':>8}   images/s per core, {args.size} px")
    for name, (settings, steps) in pipelines(args.size).items():
        rounds = [(ours(args, settings), theirs(args, steps)) for _ in range(args.rounds)]
        if rounds[0][0] is None:
            print(f"{name:14}  not known to this dtn-bench")
            continue
        mine, peer = (max(column) for column in zip(*rounds))
        print(f"{name:14}{mine:9.0f}{peer:13.0f}{mine / peer:8.2f}")


if __name__ == "__main__":
    main()
