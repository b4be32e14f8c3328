#!/usr/bin/env python3
"""Writes tests/golden/data/coco.txt: small scenes and the figures that pycocotools finds for them.

  tests/golden/make_coco_goldens.py [--scenes N] [--seed S] [--output FILE]

Needs NumPy and pycocotools 2.0.11. The tests read only the file, so this runs again only when a
case is added. With --scenes, N random scenes replace those of the file.

Layout of the file:
    scene NAME boxes|masks
    categories ID...
    truth IMAGE CATEGORY X Y W H AREA CROWD [HEIGHT WIDTH COUNTS]
    found IMAGE CATEGORY X Y W H SCORE [HEIGHT WIDTH COUNTS]
    figures AP AP50 AP75 APs APm APl AR1 AR10 AR100 ARs ARm ARl
    classes AP...                      of each category, -1 for one without truths
    thresholds P...                    mean precision at each overlap threshold
    recalls P...                       mean precision at each of the 101 recalls
The scenes have crowds, equal scores, equal overlaps, areas on the borders of the ranges, recalls of
k / n, images without truths or detections, categories without truths, unknown categories, and ids
that are neither contiguous nor sorted.
"""
import argparse
import contextlib
import io
import pathlib

import numpy as np
from pycocotools import mask as masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

SCORES = [0.05, 0.3, 0.5, 0.5, 0.75, 0.9, 0.99, 1.0]


class Scene:
    def __init__(self, name, categories, kind="boxes"):
        self.name, self.categories, self.kind = name, categories, kind
        self.truths, self.found = [], []

    def truth(self, image, category, box, area=None, crowd=0, mask=None):
        self.truths.append({"image_id": image, "category_id": category, "bbox": list(box),
                            "area": box[2] * box[3] if area is None else area, "iscrowd": crowd,
                            "id": len(self.truths) + 1, "segmentation": mask})

    def find(self, image, category, box, score, mask=None):
        self.found.append({"image_id": image, "category_id": category, "bbox": list(box),
                           "score": score, "segmentation": mask})


def index(scene, annotations):
    images = {a["image_id"] for a in scene.truths + scene.found}
    coco = COCO()
    coco.dataset = {"info": {}, "images": [{"id": i, "height": 1, "width": 1} for i in images],
                    "categories": [{"id": c} for c in scene.categories], "annotations": annotations}
    coco.createIndex()
    return coco


def evaluate(scene):
    dropped = "bbox" if scene.kind == "masks" else "segmentation"
    results = [{k: v for k, v in f.items() if k != dropped} for f in scene.found]
    with contextlib.redirect_stdout(io.StringIO()):
        truths = index(scene, scene.truths)
        found = truths.loadRes(results) if results else index(scene, [])
        e = COCOeval(truths, found, "segm" if scene.kind == "masks" else "bbox")
        e.evaluate()
        e.accumulate()
        e.summarize()
    precision = e.eval["precision"][:, :, :, 0, 2]  # [threshold, recall, category]
    known = precision[:, :, precision[0, 0] > -1]
    ap = [float(np.mean(p)) for p in np.moveaxis(precision, 2, 0)]
    mean = lambda axes: np.mean(known, axis=axes).tolist() if known.size else None
    return e.stats.tolist(), ap, mean((1, 2)) or [-1.0] * 10, mean((0, 2)) or [-1.0] * 101


# Boxes lie on a grid of half pixels, so that overlaps are often equal.
def random_box(rng, size):
    w, h = (int(v) / 2 for v in rng.integers(2, size, 2))
    if rng.random() < 0.2:
        w = h = float(rng.choice([32, 96]))  # an area on the border of two ranges
    x, y = (int(v) / 2 for v in rng.integers(0, 2 * size, 2))
    return [x, y, w, h]


def near(rng, box, step):
    if rng.random() < 0.3:
        return list(box)
    moved = [v + int(rng.integers(-step, step + 1)) / 2 for v in box]
    return moved[:2] + [max(v, 0.5) for v in moved[2:]]


def mask_of(rng, box, height, width):
    x, y, w, h = (int(v) for v in box)
    picture = np.zeros((height, width), np.uint8, order="F")
    picture[y:y + h + 1, x:x + w + 1] = 1
    if rng.random() < 0.5:  # a corner cut off
        picture[y:y + h // 3, x:x + w // 2] = 0
    return masks.encode(picture)


def random_scene(name, rng, kind):
    ids = rng.choice(90, size=int(rng.integers(1, 5)), replace=False) + 1
    scene = Scene(name, [int(c) for c in ids], kind)
    images = [int(i) for i in rng.choice(10 ** 6, size=int(rng.integers(1, 5)), replace=False)]
    sizes = {i: [int(v) for v in rng.integers(30, 50, 2)] for i in images}
    grid = int(rng.choice([16, 60, 250])) if kind == "boxes" else 40
    step = max(grid // 16, 1)
    jobs = []  # detections: image, category, box
    for _ in range(int(rng.integers(0, 14))):
        image = images[int(rng.integers(len(images)))]
        category = scene.categories[int(rng.integers(max(len(ids) - 1, 1)))]
        box = random_box(rng, grid)
        area = [None, 1024.0, 9216.0, box[2] * box[3] * 0.7][int(rng.integers(4))]
        for _ in range(2 if rng.random() < 0.2 else 1):  # some truths twice
            crowd = int(rng.random() < 0.2)
            mask = mask_of(rng, box, *sizes[image]) if kind == "masks" else None
            scene.truth(image, category, box, area, crowd, mask)
        for _ in range(int(rng.integers(0, 4))):
            jobs.append((image, category, near(rng, box, step)))
    for _ in range(int(rng.integers(0, 6))):
        category = 1000 if rng.random() < 0.1 else scene.categories[int(rng.integers(len(ids)))]
        jobs.append((images[int(rng.integers(len(images)))], category, random_box(rng, grid)))
    for at in rng.permutation(len(jobs)):
        image, category, box = jobs[at]
        score = float(rng.choice(SCORES)) if rng.random() < 0.7 else round(rng.random(), 3)
        mask = mask_of(rng, box, *sizes[image]) if kind == "masks" else None
        scene.find(image, category, box, score, mask)
    return scene


# n separate truths; every `miss`-th detection matches no truth.
def recall_scene(n, miss):
    scene = Scene(f"recall_{n}_{miss}", [7])
    for i in range(n):
        image, place = 5 + 3 * (i % 4), 10 * (i // 4)
        scene.truth(image, 7, [place, 0, 8, 8])
        shift = 40 if i % miss == miss - 1 else i % 3
        scene.find(image, 7, [place, shift, 8, 8], 1 - i / 128)
    return scene


# More detections than the evaluation counts, all with equal scores.
def crowded_scene():
    scene = Scene("over_100", [3, 9])
    for i in range(12):
        scene.truth(4, 3, [12 * i, 0, 10, 10])
    for i in range(125):
        scene.find(4, 3, [12 * (i // 10), (i * 7) % 10, 10, 10], 0.5)
    return scene


# Squares of 32 and 96 pixels, found as masks.
def border_scene():
    scene = Scene("mask_borders", [2], "masks")
    for image, (side, area) in enumerate([(32, 1024), (32, 1023), (96, 9216), (96, 9217), (33, 1024)]):
        for shift, score in ((0, None), (3, 0.9), (1, 0.4)):
            picture = np.zeros((100, 100), np.uint8, order="F")
            picture[shift:shift + side, :side] = 1
            box = [0, shift, side, side]
            if score is None:
                scene.truth(image, 2, box, area, int(image == 4), masks.encode(picture))
            else:
                scene.find(image, 2, box, score, masks.encode(picture))
    return scene


def special_scenes():
    yield Scene("nothing", [1, 5])
    found_only = Scene("no_truths", [1, 5])
    found_only.find(3, 5, [0, 0, 4, 4], 0.5)
    yield found_only
    truths_only = Scene("no_detections", [5, 1])
    truths_only.truth(3, 5, [0, 0, 40, 40])
    yield truths_only
    crowds_only = Scene("crowds_only", [5])
    crowds_only.truth(3, 5, [0, 0, 40, 40], crowd=1)
    crowds_only.find(3, 5, [0, 0, 20, 40], 0.5)
    yield crowds_only
    for n, miss in ((100, 200), (50, 7), (20, 5), (7, 3)):
        yield recall_scene(n, miss)
    yield crowded_scene()
    yield border_scene()


def put_objects(scene, out):
    for kind, objects, own in (("truth", scene.truths, ("area", "iscrowd")),
                               ("found", scene.found, ("score",))):
        for o in objects:
            numbers = [o["image_id"], o["category_id"], *o["bbox"], *(o[k] for k in own)]
            mask = o["segmentation"]
            text = [*mask["size"], mask["counts"].decode()] if mask else []
            print(kind, *(f"{v:g}" if v == float(f"{v:g}") else repr(v) for v in numbers), *text, file=out)


def write(scene, out):
    figures, classes, thresholds, recalls = evaluate(scene)
    print("scene", scene.name, scene.kind, file=out)
    print("categories", *scene.categories, file=out)
    put_objects(scene, out)
    for name, values in (("figures", figures), ("classes", classes), ("thresholds", thresholds),
                         ("recalls", recalls)):
        print(name, *(f"{v:.15g}" for v in values), file=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scenes", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent / "data" / "coco.txt")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    with open(options.output, "w", encoding="ascii") as out:
        for scene in special_scenes() if options.scenes is None else ():
            write(scene, out)
        for i in range(16 if options.scenes is None else options.scenes):
            write(random_scene(f"random_{i}", rng, "masks" if i % 2 else "boxes"), out)


if __name__ == "__main__":
    main()
