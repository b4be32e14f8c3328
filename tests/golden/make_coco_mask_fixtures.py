#!/usr/bin/env python3
"""Writes tests/golden/data/coco_masks.txt: masks that pycocotools 2.0.11 makes, one case a line.

Needs pycocotools and numpy. The tests read only the file, so this runs again only when a case is
added. `counts` are compressed texts, and a bounding box is x y width height.

  polygon height width polygons {values x y ...} counts area box      the union of polygons
  pair height width counts_a counts_b union intersection_area         two masks
"""
import pathlib
import random

import numpy as np
from pycocotools import mask as coco

OUT = pathlib.Path(__file__).parent / "data/coco_masks.txt"
POLYGONS, PAIRS = 160, 60


def coordinate(rng, kind, side):
    """One coordinate: inside, around, on a grid, on the borders, or far away."""
    return (lambda: round(rng.uniform(0, side), 2),
            lambda: round(rng.uniform(-side, 2 * side), 2),
            lambda: float(rng.randint(-3, side + 3)),
            lambda: rng.randint(-10, 10 * side + 10) / 10,
            lambda: rng.choice([0.0, float(side), side - 0.5, 0.5, -0.1, side / 2]),
            lambda: rng.choice([1e-9, -1e-9, 0.0]) + rng.randint(-5, 5 * side + 5) / 5,
            lambda: round(rng.uniform(-1e6, 1e6), 1))[kind]()


def polygon(rng, kind, height, width):
    values = []
    for _ in range(rng.randint(3, 8)):
        values += [coordinate(rng, kind, width), coordinate(rng, kind, height)]
    if rng.random() < 0.1:
        values[2:4] = values[:2]
    if rng.random() < 0.1:
        values += values[:2]
    return values


def polygon_case(rng, i):
    height, width = rng.randint(1, 50), rng.randint(1, 50)
    polygons = [polygon(rng, i % 7, height, width) for _ in range(rng.choice([1, 1, 2, 3]))]
    rle = coco.merge(coco.frPyObjects(polygons, height, width))
    listed = " ".join(f"{len(p)} " + " ".join(map(repr, p)) for p in polygons)
    box = " ".join(str(int(v)) for v in coco.toBbox(rle))
    return (f"polygon {height} {width} {len(polygons)} {listed} {rle['counts'].decode()} "
            f"{coco.area(rle)} {box}")


def bitmap(rng, height, width):
    share = rng.choice([0.02, 0.5, 0.98])
    if rng.random() < 0.5:  # columns of long runs
        pixels = np.cumsum([rng.random() < 0.02 for _ in range(height * width)]) % 2
        return np.asfortranarray(pixels.reshape(width, height).T.astype(np.uint8))
    pixels = [rng.random() < share for _ in range(height * width)]
    return np.asfortranarray(np.array(pixels, np.uint8).reshape(height, width))


def pair_case(rng):
    height, width = rng.randint(1, 24), rng.randint(1, 24)
    a, b = (coco.encode(bitmap(rng, height, width)) for _ in range(2))
    texts = [r["counts"].decode() for r in (a, b, coco.merge([a, b]))]
    shared = coco.area(coco.merge([a, b], intersect=True))
    return f"pair {height} {width} {texts[0]} {texts[1]} {texts[2]} {shared}"


def main():
    rng = random.Random(40)
    lines = [polygon_case(rng, i) for i in range(POLYGONS)] + [pair_case(rng) for _ in range(PAIRS)]
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
