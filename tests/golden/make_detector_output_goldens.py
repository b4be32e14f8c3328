#!/usr/bin/env python3
"""Writes tests/golden/detection/outputs.safetensors: from the outputs of detectors to detections, in
float64. Needs PyTorch and torchvision. The tests read only the file.

  dense.*      detections of RetinaNet: classes, deltas, anchors of three levels
  proposals.*  Mask R-CNN's proposals: the same with one class
  roi.*        detections of Mask R-CNN: proposals [R, 4], classes [R, K + 1], deltas [R, 4 K]

Inputs are float32. Results are boxes [n, 4] and scores [n] float64, and labels [n] int64. An IoU
that is near its threshold, and scores that are nearly equal, would be an error of the script.
"""
import math
import pathlib
import sys

import torch
from torchvision.ops import batched_nms, box_iou

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import safetensors_io  # noqa: E402

LEVELS, CLASSES = (150, 60, 7), 4
RESIZED, ORIGINAL = (90, 125), (61, 83)  # height, width
PER_LEVEL, MOST, SCORE = 40, 25, 0.05
MOST_PROPOSALS = 45


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


def main():
    generator = torch.Generator().manual_seed(3)
    tensors = {}
    for part in (dense, proposals, roi):
        tensors |= part(generator)
    safetensors_io.save(HERE / "detection/outputs.safetensors", tensors)


if __name__ == "__main__":
    main()
