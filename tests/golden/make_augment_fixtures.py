#!/usr/bin/env python3
"""Writes tests/golden/data/augment.txt: Pillow's results on small images for the operations of
RandAugment, of DeiT III's three-augment and of colour jitter, called as in timm and torchvision.

Needs what make_pillow_fixtures.py needs. Pillow 9.4 to 13.0.0 give the same file. With arguments,
writes another file with more cases from another seed: make_augment_fixtures.py FILE CASES SEED.

Each line: operation filter seed width height channels kind argument crc. The kind of an image is
  p  pixel_values() of make_pillow_fixtures.py
  n  p, squeezed into the values 100 .. 131
  c  one colour, the first pixel of p
"""
import pathlib
import random
import sys

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torchvision.transforms import functional

from make_pillow_fixtures import crc, pixel_values

FILL = (124, 116, 104)
FILTERS = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}


def factor(rng):
    return rng.choice((0.0, 1.0, 0.1, 1.9, 2.7, -0.5, *(rng.uniform(0, 2) for _ in range(12))))


def shear(rng):
    return rng.choice((0.0, 0.3, -0.27, *(rng.uniform(-0.4, 0.4) for _ in range(9))))


def shift(rng):
    return rng.choice((0.0, 0.5, -1.5, 0.405, *(rng.uniform(-0.5, 0.5) for _ in range(9))))


def angle(rng):
    return rng.choice((0.0, 90.0, 180.0, 270.0, -90.0, 450.0, -1e-9, 45.0, 27.0,
                       *(rng.uniform(-40, 40) for _ in range(18)),
                       *(rng.uniform(-400, 400) for _ in range(4))))


def affine(picture, matrix, **how):
    return picture.transform(picture.size, Image.AFFINE, matrix, **how)


def posterize(picture, bits):
    return ImageOps.posterize(picture, bits) if bits else picture.point(lambda _: 0)  # Pillow 13


def solarize_add(picture, addend):
    table = [min(255, i + addend) if i < 128 else i for i in range(256)]
    return picture.point(table * len(picture.getbands()))


# name: (how to draw an argument, how to apply it)
VALUES = {
    "autocontrast": (lambda rng: 0, lambda p, _: ImageOps.autocontrast(p)),
    "equalize": (lambda rng: 0, lambda p, _: ImageOps.equalize(p)),
    "invert": (lambda rng: 0, lambda p, _: ImageOps.invert(p)),
    "posterize": (lambda rng: rng.randint(0, 8),
                  lambda p, v: p if v >= 8 else posterize(p, v)),
    "solarize": (lambda rng: rng.choice((0, 256, 128, rng.randint(0, 256))), ImageOps.solarize),
    "solarize_add": (lambda rng: rng.choice((0, 110, rng.randint(0, 255))), solarize_add),
    "color": (factor, lambda p, v: ImageEnhance.Color(p).enhance(v)),
    "contrast": (factor, lambda p, v: ImageEnhance.Contrast(p).enhance(v)),
    "brightness": (factor, lambda p, v: ImageEnhance.Brightness(p).enhance(v)),
    "sharpness": (factor, lambda p, v: ImageEnhance.Sharpness(p).enhance(v)),
    "grayscale": (lambda rng: 0,
                  lambda p, _: functional.to_grayscale(p, len(p.getbands()))),
    "blur": (lambda rng: rng.choice((0.0, 5.5, 20.0, *(rng.uniform(0.1, 2) for _ in range(9)))),
             lambda p, v: p.filter(ImageFilter.GaussianBlur(v))),
    "hue": (lambda rng: rng.choice((0.0, 0.5, -0.5, *(rng.uniform(-0.5, 0.5) for _ in range(9)))),
            functional.adjust_hue),
    "flip": (lambda rng: 0, lambda p, _: functional.hflip(p)),
}
MOVES = {
    "rotate": (angle, lambda p, v, **how: p.rotate(v, **how)),
    "shear_x": (shear, lambda p, v, **how: affine(p, (1, v, 0, 0, 1, 0), **how)),
    "shear_y": (shear, lambda p, v, **how: affine(p, (1, 0, 0, v, 1, 0), **how)),
    "translate_x": (shift, lambda p, v, **how: affine(p, (1, 0, v * p.width, 0, 1, 0), **how)),
    "translate_y": (shift, lambda p, v, **how: affine(p, (1, 0, 0, 0, 1, v * p.height), **how)),
}


def image(kind, seed, width, height, channels):
    values = pixel_values(seed, width, height, channels)
    if kind == "n":
        values = values // 8 + 100
    elif kind == "c":
        values = np.broadcast_to(values[:1, :1], values.shape).copy()
    return Image.fromarray(values[..., 0] if channels == 1 else values)


def write(path, cases, seed):
    rng = random.Random(seed)
    lines = []
    kinds = [(name, "-") for name in VALUES] + [(n, f) for n in MOVES for f in FILTERS]
    for name, filter_name in kinds:
        draw, apply = (VALUES if filter_name == "-" else MOVES)[name]
        for i in range(cases):
            limit = (3, 20, 50, 100)[i % 4]
            width, height = rng.randint(1, limit), rng.randint(1, limit)
            if name == "rotate" and i % 3 == 0:
                height = width
            channels = 1 if i % 5 == 0 else 3
            kind = "pnpcpnpp"[i // 4 % 8]
            number, argument = rng.randrange(10000), draw(rng)
            how = {} if filter_name == "-" else {
                "resample": FILTERS[filter_name],
                "fillcolor": FILL if channels == 3 else FILL[0]}
            result = apply(image(kind, number, width, height, channels), argument, **how)
            assert result.size == (width, height) and len(result.getbands()) == channels
            lines.append(f"{name} {filter_name} {number} {width} {height} {channels} {kind} "
                         f"{argument!r} {crc(result)}\n")
    pathlib.Path(path).write_text("".join(lines))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        write(pathlib.Path(__file__).parent / "data" / "augment.txt", 32, 4)
