#!/usr/bin/env python3
"""Writes tests/golden/detection/outputs.safetensors: detections from the outputs of detectors, in
float64. Needs PyTorch and torchvision. The tests read only the file.

  dense.*      detections of RetinaNet: classes, deltas, anchors of three levels
  proposals.*  Mask R-CNN's proposals: the same with one class
  roi.*        detections of Mask R-CNN: proposals [R, 4], classes [R, K + 1], deltas [R, 4 K]
  target.*     targets of masks: mask [h, w] uint8, regions [R, 4]; <frame>.<mirrored> [R, 28, 28]
               uint8 by torchvision.ops.roi_align; the frames are FRAMES
  paste.*      masks of detections: logits [n, 28, 28], boxes [n, 4], masks [n, h, w] uint8 by
               torch.nn.functional.grid_sample

Inputs are float32. Results are boxes [n, 4] and scores [n] float64, and labels [n] int64. The
script fails if an IoU is near its threshold, or if scores are nearly equal.
"""
import math
import pathlib
import sys

import torch
from torch.nn.functional import grid_sample, pad
from torchvision.ops import batched_nms, box_iou, roi_align

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import safetensors_io  # noqa: E402

LEVELS, CLASSES = (150, 60, 7), 4
RESIZED, ORIGINAL = (90, 125), (61, 83)  # height, width
PER_LEVEL, MOST, SCORE = 40, 25, 0.05
MOST_PROPOSALS = 45
MASK, CELLS = (45, 61), 28
FRAMES = (((77, 104), (96, 128)), ((32, 43), (32, 64)))  # resized and padded height, width
MIRRORED = ((0, 1), (1,))
REGIONS = (  # x1, y1, x2, y2
    (20.3, 10.1, 70.9, 60.2), (0, 0, 104, 77), (-9, -7, 30.5, 20.25), (60, 40, 140, 99),
    (50, 20, 50.6, 40.7), (31.7, 5, 33.2, 6.1), (2, 25, 43, 32), (10, 3, 24, 31), (90, 60, 128, 96),
    (12.5, 8.5, 40.5, 36.5))
PASTED = (  # x1, y1, x2, y2
    (5.3, 4.2, 40.8, 33.9), (-12.5, 10.2, 30.1, 61.7), (-40, -33, 99, 87), (20.2, 3, 21.5, 39),
    (10, 12, 38, 40))
IMAGE = (40, 50)  # height, width of the pasted masks


def random_boxes(count, generator):
    centre = torch.rand(count, 2, generator=generator) * torch.tensor([125.0, 90.0])
    half = 4 + torch.rand(count, 2, generator=generator) * 30
    return torch.cat([centre - half, centre + half], 1)


def decode(anchors, deltas, units=(1, 1, 1, 1)):
    """Decodes and clips to the resized image: [..., 4] float64."""
    anchors, deltas = anchors.double(), deltas.double() * torch.tensor(units, dtype=torch.float64)
    size = anchors[..., 2:] - anchors[..., :2]
    centre = (anchors[..., :2] + anchors[..., 2:]) / 2 + deltas[..., :2] * size
    limit = math.log(1000 / 16)
    half = size * deltas[..., 2:].clamp(-limit, limit).exp() / 2
    boxes = torch.cat([centre - half, centre + half], -1)
    most = torch.tensor([RESIZED[1], RESIZED[0]] * 2, dtype=torch.float64)
    return boxes.clamp(min=0).minimum(most)


def original(boxes):
    factors = [RESIZED[1] / ORIGINAL[1], RESIZED[0] / ORIGINAL[0]] * 2
    return boxes / torch.tensor(factors, dtype=torch.float64)


def check_distances(boxes, scores, threshold):
    gaps = scores.sort().values.diff()
    assert len(gaps) == 0 or gaps.min() > 1e-7, gaps.min()
    assert (box_iou(boxes, boxes).nan_to_num() - threshold).abs().min() > 1e-6


def detections(name, boxes, scores):
    """boxes [n, K, 4] in original pixels, scores [n, K]."""
    rows, labels = torch.nonzero(scores > SCORE, as_tuple=True)
    assert (scores - SCORE).abs().min() > 1e-6
    boxes, scores = boxes[rows, labels], scores[rows, labels]
    check_distances(boxes, scores, 0.5)
    kept = batched_nms(boxes, scores, labels, 0.5)
    assert len(kept) > MOST and len(kept) < len(boxes)
    kept = kept[:MOST]
    return {f"{name}.boxes": boxes[kept], f"{name}.scores": scores[kept],
            f"{name}.labels": labels[kept]}


def best_anchors(level, most):
    """Rows of the best anchors of one level: classes, deltas, anchors."""
    best = level[0].max(1).values.topk(min(most, len(level[0]))).indices
    return [part[best] for part in level]


def random_levels(name, classes, bias, generator):
    levels, out = [], {}
    for index, count in enumerate(LEVELS):
        level = (torch.randn(count, classes, generator=generator) * 2 - bias,
                 torch.randn(count, 4, generator=generator) * 0.4, random_boxes(count, generator))
        levels.append(level)
        for part, value in zip(("classes", "deltas", "anchors"), level):
            out[f"{name}.{index}.{part}"] = value
    return levels, out


def dense(generator):
    levels, out = random_levels("dense", CLASSES, 2.5, generator)
    levels = [best_anchors(level, PER_LEVEL) for level in levels]
    classes, deltas, anchors = (torch.cat(part) for part in zip(*levels))
    boxes = original(decode(anchors, deltas))[:, None].expand(-1, CLASSES, -1)
    return out | detections("dense", boxes, classes.double().sigmoid())


def proposals(generator):
    levels, out = random_levels("proposals", 1, 0, generator)
    levels[0][1][5] = out["proposals.0.deltas"][5] = torch.tensor([-9.0, 0, 0, 0])  # left of the image
    levels[0][0][5] = out["proposals.0.classes"][5] = 9.5
    all_boxes, all_scores, ids = [], [], []
    for index, level in enumerate(levels):
        classes, deltas, anchors = best_anchors(level, PER_LEVEL)
        boxes = decode(anchors, deltas)
        inside = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        assert index > 0 or not inside.all()
        boxes, scores = boxes[inside], classes[inside, 0].double()
        check_distances(boxes, scores, 0.7)
        all_boxes.append(boxes)
        all_scores.append(scores)
        ids.append(torch.full((len(boxes),), index))
    boxes, scores = torch.cat(all_boxes), torch.cat(all_scores)
    kept = batched_nms(boxes, scores, torch.cat(ids), 0.7)
    assert MOST_PROPOSALS < len(kept) < len(boxes)
    kept = kept[:MOST_PROPOSALS]
    return out | {"proposals.boxes": boxes[kept], "proposals.scores": scores[kept]}


def roi(generator):
    count = 60
    regions = random_boxes(count, generator)
    classes = torch.randn(count, CLASSES + 1, generator=generator) * 2
    deltas = torch.randn(count, 4 * CLASSES, generator=generator)
    boxes = decode(regions[:, None].expand(-1, CLASSES, -1), deltas.view(count, CLASSES, 4),
                   (0.1, 0.1, 0.2, 0.2))
    scores = classes.double().softmax(1)[:, :CLASSES]
    return {"roi.proposals": regions, "roi.classes": classes,
            "roi.deltas": deltas} | detections("roi", original(boxes), scores)


def blobs(height, width, generator):
    """A mask with a curved border, holes and several parts."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    value = torch.zeros(height, width, dtype=torch.float64)
    for _ in range(12):
        centre, size = torch.rand(2, generator=generator), 3 + torch.rand(1, generator=generator) * 9
        sign = 1 if torch.rand(1, generator=generator) < 0.7 else -1
        far = (y - centre[0] * height) ** 2 + (x - centre[1] * width) ** 2
        value += sign * torch.exp(-far / (2 * size ** 2))
    return (value > 0.4).to(torch.uint8)


def targets(generator):
    mask, regions = blobs(*MASK, generator), torch.tensor(REGIONS, dtype=torch.float32)
    out = {"target.mask": mask, "target.regions": regions}
    for index, ((h, w), (padded_h, padded_w)) in enumerate(FRAMES):
        rows, columns = torch.arange(h) * MASK[0] // h, torch.arange(w) * MASK[1] // w
        for mirrored in MIRRORED[index]:
            resized = mask[rows][:, columns].double()
            if mirrored:
                resized = resized.flip(1)
            canvas = pad(resized, (0, padded_w - w, 0, padded_h - h))
            most = torch.tensor([padded_w, padded_h] * 2)
            boxes = regions.clamp(min=0).minimum(most).double()
            values = roi_align(canvas[None, None], [boxes], CELLS, 1.0, 0, True)[:, 0]
            # Values that equal 1/2 except for rounding are set.
            out[f"target.{index}.{mirrored}"] = (values >= 0.5 - 1e-9).to(torch.uint8)
    return out


def paste(generator):
    boxes = torch.tensor(PASTED, dtype=torch.float32)
    coarse = torch.randn(len(PASTED), 1, 7, 7, generator=generator) * 4 + 1
    logits = torch.nn.functional.interpolate(coarse, CELLS, mode="bilinear")[:, 0]
    logits += torch.randn(logits.shape, generator=generator)
    logits[2, :, :3], logits[4] = 60, logits[4].sign() * 100
    masks = []
    for box, cells in zip(boxes.double(), logits.double()):
        x = (torch.arange(IMAGE[1]).double() + 0.5 - box[0]) / (box[2] - box[0]) * 2 - 1
        y = (torch.arange(IMAGE[0]).double() + 0.5 - box[1]) / (box[3] - box[1]) * 2 - 1
        grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)[None]
        values = grid_sample(cells.sigmoid()[None, None], grid, align_corners=False)[0, 0]
        assert (values - 0.5).abs().min() > 1e-9
        masks.append((values >= 0.5).to(torch.uint8))
    return {"paste.logits": logits, "paste.boxes": boxes, "paste.masks": torch.stack(masks)}


def main():
    generator = torch.Generator().manual_seed(3)
    tensors = {}
    for part in (dense, proposals, roi, targets, paste):
        tensors |= part(generator)
    safetensors_io.save(HERE / "detection/outputs.safetensors", tensors)


if __name__ == "__main__":
    main()
