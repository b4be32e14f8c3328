"""Anchors, targets, losses and results of object detectors in PyTorch, for detector_oracle.py.

Semantics are those of MMDetection 2.13. Boxes are (x1, y1, x2, y2) in pixels.
"""
import math

import torch
import torch.nn.functional as F
import torchvision

BACKGROUND, IGNORED = -1, -2
RATIOS = (0.5, 1, 2)  # height / width
RETINANET_LEVELS = [(s, [4 * s * 2 ** (k / 3) for k in range(3)]) for s in (8, 16, 32, 64, 128)]
RPN_LEVELS = [(s, [8 * s]) for s in (4, 8, 16, 32, 64)]
# Least IoU of a positive, IoU below which a box is background, least IoU of a forced match.
RETINANET_RULE, RPN_RULE, ROI_RULE = (0.5, 0.4, 0), (0.7, 0.3, 0.3), (0.5, 0.5, 0.5)
DENSE_UNITS, ROI_UNITS = (1, 1, 1, 1), (0.1, 0.1, 0.2, 0.2)
MOST_STEP = math.log(1000 / 16)  # largest change of the logarithm of a side
MASK_SIDE = 28
MIN_SCORE, DETECTION_IOU, PROPOSAL_IOU, DETECTIONS, LEVEL_CANDIDATES = 0.05, 0.5, 0.7, 100, 1000


# --- Anchors -------------------------------------------------------------------------------------

def anchors_of(levels, grids):
    """Anchors [N, 4] of each level, in the order row, column, ratio, size."""
    all_ = []
    for (stride, sizes), (height, width) in zip(levels, grids):
        boxes = []
        for i in range(height):
            for j in range(width):
                for ratio in RATIOS:
                    for size in sizes:
                        w, h = size / math.sqrt(ratio), size * math.sqrt(ratio)
                        x, y = j * stride, i * stride
                        boxes.append((x - w / 2, y - h / 2, x + w / 2, y + h / 2))
        all_.append(torch.tensor(boxes, dtype=torch.float64))
    return all_


def anchors_that_count(levels, grids, padded):
    """[N] bool: True for anchors inside an image whose own padded size is `padded`."""
    inside = []
    for (stride, sizes), (height, width) in zip(levels, grids):
        rows = torch.arange(height) < math.ceil(padded[0] / stride)
        columns = torch.arange(width) < math.ceil(padded[1] / stride)
        cells = (rows[:, None] & columns).flatten()
        inside.append(cells.repeat_interleave(len(sizes) * len(RATIOS)))
    return torch.cat(inside)


# --- Targets -------------------------------------------------------------------------------------

def areas(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def ious(a, b):
    """IoUs [N, M] of boxes [N, 4] and [M, 4]."""
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = (high - low).clamp(min=0).prod(-1)
    return inter / (areas(a)[:, None] + areas(b) - inter).clamp(min=1e-6)


def assign(boxes, truths, rule, counts=None):
    """The truth of each box [N], BACKGROUND or IGNORED."""
    positive, negative, least_forced = rule
    result = torch.full((len(boxes),), IGNORED)
    if counts is None:
        counts = torch.ones(len(boxes), dtype=torch.bool)
    rows = counts.nonzero().flatten()
    if len(truths) == 0:
        result[rows] = BACKGROUND
        return result
    overlap = ious(boxes[rows], truths)
    best, at = overlap.max(1)
    found = torch.full((len(rows),), IGNORED)
    found[best < negative] = BACKGROUND
    found[best >= positive] = at[best >= positive]
    for k in range(len(truths)):
        own = overlap[:, k].max()
        if own >= least_forced:
            found[overlap[:, k] == own] = k
    result[rows] = found
    return result


def assignment_margin(boxes, truths, rule, counts):
    """The least distance of an IoU from a decision: from a threshold, from another truth for the
    same box, or from another box for the same truth."""
    overlap = ious(boxes[counts], truths)
    best = overlap.max(1).values
    gaps = [(best - t).abs().min() for t in rule[:2]]
    of_truth = overlap.topk(2, 0).values
    gaps += [(of_truth[0] - of_truth[1]).min(), (of_truth[0] - rule[2]).abs().min()]
    if len(truths) > 1:
        two = overlap.topk(2, 1).values[best >= rule[0]]
        gaps += [(two[:, 0] - two[:, 1]).min()] if len(two) else []
    return min(gaps).item()


def centres(boxes):
    return (boxes[:, :2] + boxes[:, 2:]) / 2


def encode(anchors, boxes, units=DENSE_UNITS):
    size, to = anchors[:, 2:] - anchors[:, :2], boxes[:, 2:] - boxes[:, :2]
    move = (centres(boxes) - centres(anchors)) / size
    return torch.cat([move, (to / size).log()], 1) / boxes.new_tensor(units)


def decode(anchors, deltas, size, units=DENSE_UNITS):
    """Boxes clipped to an image of `size` (height, width)."""
    deltas = deltas * deltas.new_tensor(units)
    sides = anchors[:, 2:] - anchors[:, :2]
    centre = centres(anchors) + deltas[:, :2] * sides
    half = sides * deltas[:, 2:].clamp(-MOST_STEP, MOST_STEP).exp() / 2
    boxes = torch.cat([centre - half, centre + half], 1)
    most = boxes.new_tensor([size[1], size[0], size[1], size[0]])
    return torch.minimum(boxes.clamp(min=0), most)


def dense_targets(anchors, assigned, truths, labels):
    """Labels [N] and deltas [N, 4], which are 0 for anchors without a truth."""
    positive = assigned >= 0
    of = assigned[positive]
    out = assigned.clone()
    out[positive] = labels[of]
    deltas = torch.zeros(len(anchors), 4, dtype=anchors.dtype)
    deltas[positive] = encode(anchors[positive], truths[of])
    return out, deltas


def sample(assigned, total, positive, generator):
    """Indices of at most `positive` boxes with a truth, and of background up to `total`."""
    def some(rows, most):
        order = torch.randperm(len(rows), generator=generator)
        return rows[order[:most]].sort().values

    with_truth = some((assigned >= 0).nonzero().flatten(), positive)
    return with_truth, some((assigned == BACKGROUND).nonzero().flatten(), total - len(with_truth))


def mask_targets(bitmaps, boxes, padded):
    """Values [R, 28, 28] in [0, 1]; a target is 1 if its value is at least 0.5. bitmaps [R, H, W]:
    the mask of each RoI's truth."""
    most = boxes.new_tensor([padded[1], padded[0], padded[1], padded[0]])
    boxes = torch.minimum(boxes.clamp(min=0), most)
    return torch.stack([
        torchvision.ops.roi_align(b[None, None].to(box), [box[None]], MASK_SIDE, 1, 0, True)[0, 0]
        for b, box in zip(bitmaps, boxes)])


# --- Losses --------------------------------------------------------------------------------------

def focal_sum(logits, labels, alpha=0.25, gamma=2):
    """logits [..., K], labels [...]."""
    counts = labels != IGNORED
    logits, labels = logits[counts], labels[counts]
    t = F.one_hot(labels.clamp(min=0), logits.shape[-1]) * (labels >= 0)[:, None]
    t = t.to(logits)
    p = logits.sigmoid()
    wrong = p * (1 - t) + (1 - p) * t
    cross = F.binary_cross_entropy_with_logits(logits, t, reduction="none")
    return ((alpha * t + (1 - alpha) * (1 - t)) * wrong ** gamma * cross).sum()


def l1_sum(deltas, labels, targets):
    positive = labels >= 0
    return (deltas[positive] - targets[positive]).abs().sum()


def joined(outputs, anchors):
    """Outputs of the levels as logits [B, N, K] and deltas [B, N, 4]."""
    classes = [c.reshape(len(c), len(a), -1) for (c, _), a in zip(outputs, anchors)]
    return torch.cat(classes, 1), torch.cat([b.reshape(len(b), -1, 4) for _, b in outputs], 1)


def retinanet_losses(logits, deltas, labels, targets):
    """labels [B, N], targets [B, N, 4]."""
    n = (labels >= 0).sum(1).clamp(min=1).sum()
    return {"loss_cls": focal_sum(logits, labels) / n,
            "loss_bbox": l1_sum(deltas, labels, targets) / n}


def rpn_losses(logits, deltas, labels, targets):
    """Ignores anchors outside of the sample."""
    n = (labels >= 0).sum(1).clamp(min=1).sum() + (labels == BACKGROUND).sum(1).clamp(min=1).sum()
    sampled = labels != IGNORED
    cross = F.binary_cross_entropy_with_logits(logits[sampled][:, 0], (labels[sampled] >= 0)
                                               .to(logits), reduction="sum")
    return {"loss_rpn_cls": cross / n, "loss_rpn_bbox": l1_sum(deltas, labels, targets) / n}


def roi_losses(logits, deltas, labels, targets):
    """labels [R], with the background as last class; targets [R, 4]."""
    classes = logits.shape[1] - 1
    positive = (labels < classes).nonzero().flatten()
    of_class = deltas.reshape(len(deltas), classes, 4)[positive, labels[positive]]
    return {"loss_cls": F.cross_entropy(logits, labels),
            "loss_bbox": (of_class - targets[positive]).abs().sum() / len(labels)}


def mask_loss(logits, labels, targets):
    """logits [P, K, 28, 28], labels [P], targets [P, 28, 28]."""
    if len(labels) == 0:
        return logits.sum() * 0
    of_class = logits[torch.arange(len(labels)), labels]
    return F.binary_cross_entropy_with_logits(of_class, targets.to(logits))


def learning_rate(base, step, warmup, first=0.001):
    """Learning rate of a step, 0-based, before the first decay of the rate."""
    return base * (1 - (1 - step / warmup) * (1 - first)) if step < warmup else base


# --- Results -------------------------------------------------------------------------------------

class Margin:
    """Least distances of numbers from their decisions: if large, float32 decides the same."""

    def __init__(self):
        self.score = self.iou = math.inf

    def order(self, scores):
        """Records scores in falling order, whose order matters."""
        if len(scores) > 1:
            self.score = min(self.score, (scores[:-1] - scores[1:]).min().item())

    def cut(self, values, at, kind="score"):
        if values.numel():
            gap = (values - at).abs().min().item()
            setattr(self, kind, min(getattr(self, kind), gap))


def nms(boxes, scores, threshold, margin):
    """Indices of the kept boxes, by falling score."""
    if len(boxes) == 0:
        return torch.zeros(0, dtype=torch.long)
    order = scores.argsort(descending=True, stable=True)
    boxes, scores = boxes[order], scores[order]
    overlap, kept = ious(boxes, boxes).tril(-1), []  # with boxes of higher scores
    above = overlap > threshold
    for i in range(len(order)):
        if not above[i, kept].any():
            kept.append(i)
    # If one box clearly removes a box, it may be near the threshold or the score of other boxes.
    margin.cut(overlap[:, kept].max(1).values, threshold, "iou")
    gaps = (scores[kept] - scores[:, None]) * above[:, kept]
    margin.cut(gaps[above[:, kept].any(1)].amax(1), 0)
    margin.order(scores[kept])
    return order[kept]


def best_of(scores, most, margin):
    """Indices of the `most` highest scores."""
    if len(scores) <= most:
        return torch.arange(len(scores))
    values, order = scores.sort(descending=True)
    margin.order(values[most - 1:most + 1])
    return order[:most].sort().values


def proposals(outputs, anchors, size, per_level, most, margin):
    """Boxes [P, 4] and scores [P] of one image, by falling score. outputs: [h w, 3], [h w, 12]."""
    boxes, scores = [], []
    for (classes, deltas), of_level in zip(outputs, anchors):
        score, deltas = classes.reshape(-1).sigmoid(), deltas.reshape(-1, 4)
        rows = best_of(score, per_level, margin)
        box = decode(of_level[rows], deltas[rows], size)
        valid = (box[:, 2:] > box[:, :2]).all(1)
        box, score = box[valid], score[rows][valid]
        kept = nms(box, score, PROPOSAL_IOU, margin)
        boxes.append(box[kept])
        scores.append(score[kept])
    boxes, scores = torch.cat(boxes), torch.cat(scores)
    values, order = scores.sort(descending=True, stable=True)
    margin.order(values[:most + 1])
    return boxes[order[:most]], scores[order[:most]]


def class_wise(boxes, scores, margin):
    """Detections of one image: boxes [n, 4], scores, labels. boxes [N, K, 4], scores [N, K]."""
    margin.cut(scores, MIN_SCORE)
    found = []
    for k in range(scores.shape[1]):
        rows = (scores[:, k] > MIN_SCORE).nonzero().flatten()
        rows = rows[nms(boxes[rows, k], scores[rows, k], DETECTION_IOU, margin)]
        found.append((boxes[rows, k], scores[rows, k], torch.full((len(rows),), k)))
    boxes, scores, labels = (torch.cat(part) for part in zip(*found))
    values, order = scores.sort(descending=True, stable=True)
    margin.order(values[:DETECTIONS + 1])
    order = order[:DETECTIONS]
    return boxes[order], scores[order], labels[order]


def scales_of(size, original):
    """(x, y, x, y): new sides over old."""
    y, x = (new / old for new, old in zip(size, original))
    return torch.tensor([x, y, x, y], dtype=torch.float64)


def dense_detections(outputs, anchors, size, original, margin):
    """RetinaNet's detections of one image, in pixels of the original. outputs: [h w, A K] and
    [h w, 4 A] of each level. size, original: height, width."""
    boxes, scores = [], []
    for (classes, deltas), of_level in zip(outputs, anchors):
        score = classes.reshape(len(of_level), -1).sigmoid()
        rows = best_of(score.max(1).values, LEVEL_CANDIDATES, margin)
        boxes.append(decode(of_level[rows], deltas.reshape(-1, 4)[rows], size))
        scores.append(score[rows])
    boxes, scores = torch.cat(boxes) / scales_of(size, original), torch.cat(scores)
    return class_wise(boxes[:, None].expand(-1, scores.shape[1], -1), scores, margin)


def roi_detections(logits, deltas, rois, size, original, margin):
    """Mask R-CNN's detections of one image, for proposals [R, 4]."""
    scores = logits.softmax(1)[:, :-1]
    classes = scores.shape[1]
    each = rois[:, None].expand(-1, classes, -1).reshape(-1, 4)
    boxes = decode(each, deltas.reshape(-1, 4), size, ROI_UNITS) / scales_of(size, original)
    return class_wise(boxes.reshape(-1, classes, 4), scores, margin)


def paste(probabilities, boxes, original):
    """Values [n, H, W] of masks [n, 28, 28] in boxes of an image; values of 0.5 or more are set."""
    height, width = original
    x = (torch.arange(width) + 0.5 - boxes[:, :1]) / (boxes[:, 2:3] - boxes[:, :1]) * 2 - 1
    y = (torch.arange(height) + 0.5 - boxes[:, 1:2]) / (boxes[:, 3:] - boxes[:, 1:2]) * 2 - 1
    grid = torch.stack([x[:, None].expand(-1, height, -1), y[:, :, None].expand(-1, -1, width)], -1)
    return F.grid_sample(probabilities[:, None], grid, align_corners=False)[:, 0]
