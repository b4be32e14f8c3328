#!/usr/bin/env python3
"""Writes tests/golden/detection/arithmetic.safetensors: parts of object detectors. Needs PyTorch
and torchvision. The tests read only the file. Values are float64 if no type is given.

  roi.features.<l>   [B, H W, C], levels of 12 x 17 and 6 x 9 cells of 4 and 8 pixels
  roi.boxes          [R, 4] float32: inside, at and outside of the borders, larger than the image
  roi.image, level   [R] int64
  roi.y, dy          [R, S S, C], S = 7, by torchvision.ops.roi_align
  roi.dfeatures.<l>  the gradient for dy
  focal.*            logits [B, n, K], labels [B, n] int64, scale [1]; loss [1] and gradient by
                     torchvision.ops.sigmoid_focal_loss; ignored anchors are left out
  nms.*              boxes [N, 4] and scores [N] float32, classes [N] int64; kept.<threshold> int64
                     by torchvision.ops.nms class by class
  deltas.*           anchors, boxes [N, 4] float32; <units> [N, 4] by the formulas
"""
import pathlib
import sys

import torch
import torchvision
from torchvision.ops import sigmoid_focal_loss

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import safetensors_io  # noqa: E402

GRIDS = ((12, 17), (6, 9))
BATCH, CHANNELS, SIZE = 2, 3, 7
UNITS = {"dense": (1, 1, 1, 1), "roi": (0.1, 0.1, 0.2, 0.2)}
BOXES = (  # image, level, x1, y1, x2, y2
    (0, 0, 3.3, 5.1, 40.2, 33.7), (1, 0, 10, 10, 10.5, 11), (1, 1, 0, 0, 68, 48),
    (0, 1, -9, -7, 30, 20), (0, 0, 50, 30, 90, 70), (1, 0, -101.3, -99.3, 200.7, 201),
    (1, 1, 20, 1, 21, 47), (1, 0, -60, 2, -20, 30), (0, 0, 8, 8, 36, 36), (1, 0, 64, 44, 70, 60))


def roi_align(generator):
    image = torch.tensor([b[0] for b in BOXES])
    level = torch.tensor([b[1] for b in BOXES])
    boxes = torch.tensor([b[2:] for b in BOXES], dtype=torch.float32)
    dy = torch.randn(len(BOXES), CHANNELS, SIZE, SIZE, generator=generator, dtype=torch.float64)
    y = torch.zeros_like(dy)
    out = {"roi.boxes": boxes, "roi.image": image, "roi.level": level}
    for index, (h, w) in enumerate(GRIDS):
        x = torch.randn(BATCH, CHANNELS, h, w, generator=generator, dtype=torch.float64)
        x.requires_grad_()
        mine = level == index
        rois = torch.cat([image[mine, None].double(), boxes[mine].double()], 1)
        of_level = torchvision.ops.roi_align(x, rois, SIZE, 0.25 / 2 ** index, 0, True)
        of_level.backward(dy[mine])
        y[mine] = of_level.detach()
        out[f"roi.features.{index}"] = x.detach().flatten(2).mT.contiguous()
        out[f"roi.dfeatures.{index}"] = x.grad.flatten(2).mT.contiguous()
    for name, value in (("y", y), ("dy", dy)):
        out[f"roi.{name}"] = value.flatten(2).mT.contiguous()
    return out


def focal(generator):
    classes = 5
    labels = torch.tensor([[0, -1, 4, -2, -1, 2], [-1, -1, -2, 1, 3, -1]])
    logits = torch.randn(2, 6, classes, generator=generator, dtype=torch.float64) * 4
    logits[0, 0, 0], logits[0, 1, 1], logits[0, 2, 4], logits[1, 0, 0] = 100, 100, -100, -100
    logits.requires_grad_()
    counts = labels != -2
    targets = torch.nn.functional.one_hot(labels.clamp(min=0), classes) * (labels >= 0)[..., None]
    scale = torch.tensor([0.125], dtype=torch.float64)
    loss = scale * sigmoid_focal_loss(logits[counts], targets[counts].double(), 0.25, 2, "sum")
    loss.backward()
    return {"focal.logits": logits.detach(), "focal.labels": labels, "focal.scale": scale,
            "focal.loss": loss.detach(), "focal.gradient": logits.grad}


def random_boxes(count, generator):
    corner = torch.rand(count, 2, generator=generator) * 90
    return torch.cat([corner, corner + 2 + torch.rand(count, 2, generator=generator) * 50], 1)


def nms(generator):
    boxes, classes = random_boxes(400, generator), torch.randint(0, 4, (400,), generator=generator)
    scores = torch.rand(400, generator=generator)
    out = {"nms.boxes": boxes, "nms.scores": scores, "nms.classes": classes}
    for threshold in (0.3, 0.5, 0.7):
        kept = []
        for c in range(4):
            rows = torch.nonzero(classes == c).flatten()
            kept.append(rows[torchvision.ops.nms(boxes[rows], scores[rows], threshold)])
        kept = torch.cat(kept)
        out[f"nms.kept.{threshold}"] = kept[scores[kept].argsort(descending=True)]
    return out


def deltas(generator):
    anchors, boxes = random_boxes(40, generator), random_boxes(40, generator)
    a, g = anchors.double(), boxes.double()
    size, to = a[:, 2:] - a[:, :2], g[:, 2:] - g[:, :2]
    move = ((g[:, :2] + g[:, 2:]) / 2 - (a[:, :2] + a[:, 2:]) / 2) / size
    both = torch.cat([move, (to / size).log()], 1)
    out = {"deltas.anchors": anchors, "deltas.boxes": boxes}
    for name, units in UNITS.items():
        out[f"deltas.{name}"] = both / torch.tensor(units, dtype=torch.float64)
    return out


def main():
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for part in (roi_align, focal, nms, deltas):
        tensors |= part(generator)
    (HERE / "detection").mkdir(exist_ok=True)
    safetensors_io.save(HERE / "detection/arithmetic.safetensors", tensors)


if __name__ == "__main__":
    main()
