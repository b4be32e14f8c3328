"""A batch of two images for detector_oracle.py, and the targets of its anchors."""
import math

import torch

import detection_oracle as do

CLASSES, SIZE, SIZES, PADDED = 3, (64, 96), ((64, 96), (50, 61)), ((64, 96), (64, 64))


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def make_images(generator, sizes, shape):
    """Noise of several scales, uint8; 128 outside of each image."""
    noise = torch.zeros(len(sizes), 3, *shape, dtype=torch.float64)
    for cells in (2, 8, 32):
        coarse = normal(generator, len(sizes), 3, cells, cells)
        noise += torch.nn.functional.interpolate(coarse, shape, mode="bilinear")
    images = (128 + 50 * noise).round().clamp(0, 255).to(torch.uint8)
    for image, (height, width) in zip(images, sizes):
        image[:, height:], image[:, :, width:] = 128, 128
    return images


def as_input(images):
    return (images.double() - 128) / 64


def grids_of(levels, padded):
    return [tuple(math.ceil(n / stride) for n in padded) for stride, _ in levels]


def all_anchors(levels):
    return torch.cat(do.anchors_of(levels, grids_of(levels, SIZE)))


class Batch:
    """Images and truths, for which every assignment of anchors is clear."""

    def __init__(self, seed):
        self.images = make_images(torch.Generator().manual_seed(seed), SIZES, SIZE)
        generator = torch.Generator().manual_seed(11)
        self.truths = [self.clear_truths(generator, i, n) for i, n in enumerate((3, 2))]
        self.labels = [torch.tensor([2, 0, 1]), torch.tensor([1, 2])]
        self.bitmaps = [torch.stack([self.ellipse(box) for box in t]) for t in self.truths]
        self.first = [0, 3]

    def clear_truths(self, generator, i, count):
        """Boxes with corners at multiples of 1/8 pixel."""
        height, width = SIZES[i]
        while True:
            draw = torch.rand(count, 4, generator=generator, dtype=torch.float64)
            side = 14 + draw[:, 2:] * (draw.new_tensor([width, height]) - 16)
            corner = draw[:, :2] * (draw.new_tensor([width, height]) - side)
            boxes = (torch.cat([corner, corner + side], 1) * 8).floor() / 8
            overlap = do.ious(boxes, boxes).fill_diagonal_(0).max()
            margins = [do.assignment_margin(all_anchors(levels), boxes, rule, counting(levels, i))
                       for levels, rule in ((do.RETINANET_LEVELS, do.RETINANET_RULE),
                                            (do.RPN_LEVELS, do.RPN_RULE))]
            if min(margins) > 1e-4 and overlap < 0.4:
                return boxes

    @staticmethod
    def ellipse(box):
        y, x = (torch.arange(n) + 0.5 for n in SIZE)
        middle, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2
        inside = ((x - middle[0]) / half[0]) ** 2 + ((y[:, None] - middle[1]) / half[1]) ** 2 <= 1
        return inside.to(torch.uint8)

    def tensors(self):
        return {"images": self.images, "sizes": torch.tensor(SIZES), "padded": torch.tensor(PADDED),
                "truth.boxes": torch.cat(self.truths).float(),
                "truth.labels": torch.cat(self.labels),
                "truth.image": torch.tensor([0, 0, 0, 1, 1]),
                "truth.bitmaps": torch.cat(self.bitmaps)}


def counting(levels, i):
    return do.anchors_that_count(levels, grids_of(levels, SIZE), PADDED[i])


def dense_targets(batch, levels, rule, class_agnostic):
    """assigned, labels [B, N] and deltas [B, N, 4]."""
    anchors = all_anchors(levels)
    rows = []
    for i, (truths, labels) in enumerate(zip(batch.truths, batch.labels)):
        assigned = do.assign(anchors, truths, rule, counting(levels, i))
        labels = labels * 0 if class_agnostic else labels
        rows.append((assigned, *do.dense_targets(anchors, assigned, truths, labels)))
    return [torch.stack(part) for part in zip(*rows)]
