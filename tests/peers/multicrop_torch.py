#!/usr/bin/env python3
"""Views per second and core that torchvision on Pillow cuts for DINO: 2 global ones of 224 pixels
and 8 local ones of 96 from each JPEG, decoded once, up to normalized tensors.

  python3 tests/peers/multicrop_torch.py
  python3 tests/peers/multicrop_torch.py --images imagenet/val

The transforms are DINO's: random resized crop (bicubic), flip, color jitter, gray, Pillow's blur,
solarization. Without --images, the JPEGs are generated, 500 x 375 pixels of smooth shapes and
noise, about 80 KB each. To measure another Pillow, such as pillow-simd, put it first on PYTHONPATH;
its version is printed. One thread. Needs torchvision; not part of the tests.
"""
import argparse
import io
import os
import pathlib
import random
import time

os.environ["OMP_NUM_THREADS"] = "1"  # before torch reads it

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image, ImageFilter, ImageOps
from torchvision import transforms
from torchvision.transforms import InterpolationMode

WIDTH, HEIGHT, FILES = 500, 375, 16
SIDE, LOCAL_SIDE, LOCAL_VIEWS = 224, 96, 8


class Blur:
    def __init__(self, probability):
        self.probability = probability

    def __call__(self, image):
        if random.random() > self.probability:
            return image
        return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(0.1, 2.0)))


class Solarize:
    def __init__(self, probability):
        self.probability = probability

    def __call__(self, image):
        return ImageOps.solarize(image) if random.random() < self.probability else image


def view(size, scale, blur, solarize=0.0):
    jitter = transforms.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1)
    steps = [transforms.RandomResizedCrop(size, scale=scale,
                                          interpolation=InterpolationMode.BICUBIC),
             transforms.RandomHorizontalFlip(p=0.5), transforms.RandomApply([jitter], p=0.8),
             transforms.RandomGrayscale(p=0.2), Blur(blur)]
    if solarize > 0:
        steps.append(Solarize(solarize))
    return transforms.Compose([*steps, transforms.ToTensor(),
                               transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])


# name: (views per image, transform)
VIEWS = {
    "first global": (1, view(SIDE, (0.4, 1.0), 1.0)),
    "second global": (1, view(SIDE, (0.4, 1.0), 0.1, solarize=0.2)),
    "local": (LOCAL_VIEWS, view(LOCAL_SIDE, (0.05, 0.4), 0.5)),
}


def generated():
    """JPEGs with a spectrum like that of photographs."""
    for seed in range(FILES):
        rng, pixels = np.random.default_rng(seed), np.zeros((HEIGHT, WIDTH, 3))
        for step in (125, 50, 20, 8, 3, 1):
            small = rng.normal(0, 12 + step / 4, (HEIGHT // step + 2, WIDTH // step + 2, 3))
            channels = [Image.fromarray(small[..., c]).resize((WIDTH, HEIGHT), Image.BICUBIC)
                        for c in range(3)]
            pixels += np.stack(channels, -1)
        out = io.BytesIO()
        pixels = (pixels + 120).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(out, "JPEG", quality=90)
        yield out.getvalue()


def files(args):
    if not args.images:
        return list(generated())
    paths = sorted(pathlib.Path(args.images).rglob("*.[jJ][pP]*[gG]"))[:args.limit]
    return [path.read_bytes() for path in paths]


def decode(data):
    return Image.open(io.BytesIO(data)).convert("RGB")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", help="folder of JPEGs, searched with its subfolders")
    parser.add_argument("--limit", type=int, default=100, help="number of files at most")
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    random.seed(0)
    torch.manual_seed(0)
    data = files(args)
    if not data:
        parser.error(f"no JPEGs in {args.images}")
    spent = dict.fromkeys(("decoding", *VIEWS), 0.0)
    images, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < args.seconds:
        before = time.perf_counter()
        image = decode(data[images % len(data)])
        spent["decoding"] += time.perf_counter() - before
        for name, (count, transform) in VIEWS.items():
            before = time.perf_counter()
            for _ in range(count):
                transform(image)
            spent[name] += time.perf_counter() - before
        images += 1
    views = sum(count for count, _ in VIEWS.values())
    kib = sum(map(len, data)) / len(data) / 1024
    print(f"torchvision {torchvision.__version__}, Pillow {PIL.__version__}, one thread, "
          f"{len(data)} JPEGs of {kib:.0f} KiB in the mean")
    for name, seconds in spent.items():
        count = VIEWS[name][0] if name in VIEWS else 1
        each = " each" if count > 1 else ""
        print(f"  {name}: {1e3 * seconds / images / count:.2f} ms{each}")
    print(f"{images / elapsed:.1f} images/s, {views * images / elapsed:.0f} views/s")


if __name__ == "__main__":
    main()
