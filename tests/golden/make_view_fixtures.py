#!/usr/bin/env python3
"""Writes tests/golden/data/views_<order>.txt: views of images as in DINO's and SupCon's pipelines,
by Pillow and torchvision with given parameters.

Has the requirements of make_pillow_fixtures.py. <order> is pillow13 with Pillow 13, otherwise
pillow12. The tests read only the files.

Each line:
  seed width height channels            of pixel_values() of make_pillow_fixtures.py
  left top crop_width crop_height size  the crop, resized to size x size by the bicubic filter
  flip                                  0 or 1
  jitter brightness contrast saturation hue
                                        the order, such as 2031 with 0 brightness, 1 contrast,
                                        2 saturation, 3 hue; or - for none
  gray sigma solarize                   0 or 1; 0.0 for no blur; 0 or 1: threshold 128
  crc                                   of the bytes of the result
"""
import itertools
import pathlib
import random

from PIL import ImageFilter, ImageOps
from torchvision.transforms import functional

from make_pillow_fixtures import MODES, ORDER, crc, image

SIZES = (24, 16)
IMAGES = ((97, 71, 3), (28, 28, 1))
ORDERS = ["".join(order) for order in itertools.permutations("0123")]
ADJUST = (functional.adjust_brightness, functional.adjust_contrast, functional.adjust_saturation,
          functional.adjust_hue)
NOTHING = dict(flip=0, jitter="-", factors=(1.0, 1.0, 1.0, 0.0), gray=0, sigma=0.0, solarize=0)


def apply(picture, box, size, draw):
    """The view, step by step in the order of the pipelines."""
    left, top, width, height = box
    view = functional.resized_crop(picture, top, left, height, width, [size, size],
                                   MODES["bicubic"])
    if draw["flip"]:
        view = functional.hflip(view)
    if draw["jitter"] != "-":
        for index in map(int, draw["jitter"]):
            view = ADJUST[index](view, draw["factors"][index])
    if draw["gray"]:
        view = functional.to_grayscale(view, len(view.getbands()))
    if draw["sigma"] > 0:
        view = view.filter(ImageFilter.GaussianBlur(draw["sigma"]))
    return ImageOps.solarize(view, 128) if draw["solarize"] else view


def random_box(rng, width, height):
    w, h = rng.randint(1, width), rng.randint(1, height)
    return rng.randint(0, width - w), rng.randint(0, height - h), w, h


def random_factors(rng):
    """Random factors in the ranges of DINO."""
    return (rng.uniform(0.6, 1.4), rng.uniform(0.6, 1.4), rng.uniform(0.8, 1.2),
            rng.uniform(-0.1, 0.1))


def draws(rng):
    """Single steps, every order of the jitter, the ends of the ranges, then random mixtures."""
    yield NOTHING
    for change in (dict(flip=1), dict(gray=1), dict(solarize=1), dict(sigma=0.1), dict(sigma=2.0)):
        yield NOTHING | change
    for order in ORDERS:
        yield NOTHING | dict(jitter=order, factors=random_factors(rng))
    for factors in ((0.6, 0.6, 0.8, -0.1), (1.4, 1.4, 1.2, 0.1)):
        yield NOTHING | dict(jitter="3120", factors=factors, sigma=1.0, solarize=1)
    for _ in range(32):
        yield dict(flip=rng.randrange(2), jitter=rng.choice(("-", *ORDERS)),
                   factors=random_factors(rng), gray=int(rng.random() < 0.3),
                   sigma=rng.choice((0.0, rng.uniform(0.1, 2.0))), solarize=rng.randrange(2))


def main():
    rng, lines = random.Random(5), []
    for seed, draw in enumerate(draws(rng)):
        for width, height, channels in IMAGES:
            whole = (0, 0, width, height)
            box = whole if seed % 8 == 0 else random_box(rng, width, height)
            for size in SIZES:
                view = apply(image(seed, width, height, channels), box, size, draw)
                assert view.size == (size, size) and len(view.getbands()) == channels
                fields = (seed, width, height, channels, *box, size, draw["flip"], draw["jitter"],
                          *draw["factors"], draw["gray"], draw["sigma"], draw["solarize"])
                lines.append(" ".join(map(str, (*fields, crc(view)))) + "\n")
    (pathlib.Path(__file__).parent / "data" / f"views_{ORDER}.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
