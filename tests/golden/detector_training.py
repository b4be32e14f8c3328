"""Losses and training steps of the small detectors of make_detector_goldens.py."""
import torch

import detection_oracle as do
from detector_batch import CLASSES, SIZE, SIZES, dense_targets

STEPS, DECAY, WARMUP = 10, 0.05, 4
RATES = {"retinanet": 2e-3, "mask_rcnn": 2e-4}
KEPT_WEIGHTS = ("backbone.pos_embed1", "backbone.pos_embed4", "backbone.block1.0.norm1.",
                "backbone.block3.1.attn.sr.weight", "neck.lateral_convs.0.", "neck.fpn_convs.4.",
                "bbox_head.cls_convs.0.", "bbox_head.retina_cls.bias", "bbox_head.retina_reg.",
                "rpn_head.rpn_cls.", "roi_head.bbox_head.fc_reg.",
                "roi_head.mask_head.upsample.bias")
INERT = "pos_proj.bias"  # without effect under a softmax: its gradient is rounding


def of_image(outputs, i):
    return [(classes[i], boxes[i]) for classes, boxes in outputs]


def retinanet_losses(model, images, batch):
    _, labels, deltas = dense_targets(batch, do.RETINANET_LEVELS, do.RETINANET_RULE, False)
    outputs, grids = model.dense(model.levels(images))
    logits, boxes = do.joined(outputs, do.anchors_of(do.RETINANET_LEVELS, grids))
    return do.retinanet_losses(logits, boxes, labels, deltas.to(images))


def assigned_rois(batch, i, proposals):
    """All RoIs of an image: boxes, image, truth (of the batch, or -1), label, deltas."""
    truths = batch.truths[i].to(proposals)
    rois = torch.cat([truths, proposals])
    assigned = do.assign(rois, truths, do.ROI_RULE)
    positive = assigned >= 0
    deltas = torch.zeros_like(rois)
    deltas[positive] = do.encode(rois[positive], truths[assigned[positive]], do.ROI_UNITS)
    labels = torch.where(positive, batch.labels[i][assigned.clamp(min=0)], CLASSES)
    truth = torch.where(positive, assigned + batch.first[i], -1)
    return rois, torch.full((len(rois),), i), truth, labels, deltas


def mask_rcnn_losses(model, images, batch):
    """Losses over all anchors that count and all RoIs: nothing is drawn at random."""
    levels = model.levels(images)
    outputs, grids = model.dense(levels)
    anchors = [a.to(images) for a in do.anchors_of(do.RPN_LEVELS, grids)]
    _, labels, deltas = dense_targets(batch, do.RPN_LEVELS, do.RPN_RULE, True)
    losses = do.rpn_losses(*do.joined(outputs, anchors), labels, deltas.to(images))
    parts = []
    for i, size in enumerate(SIZES):
        with torch.no_grad():
            boxes, _ = do.proposals(of_image(outputs, i), anchors, size, 2000, 1000, do.Margin())
        parts.append(assigned_rois(batch, i, boxes))
    rois, image, truth, labels, deltas = (torch.cat(part) for part in zip(*parts))
    losses |= do.roi_losses(*model.of_regions(levels, image, rois), labels, deltas)
    rows = (truth >= 0).nonzero().flatten()
    targets = do.mask_targets(torch.cat(batch.bitmaps)[truth[rows]], rois[rows], SIZE) >= 0.5
    masks = model.masks_of(levels, image[rows], rois[rows])
    return losses | {"loss_mask": do.mask_loss(masks, labels[rows], targets)}


def train(model, images, batch):
    """Trains ten steps. Returns the losses and some weights after them."""
    kind = "retinanet" if model.retina else "mask_rcnn"
    losses_of = retinanet_losses if model.retina else mask_rcnn_losses
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=DECAY)
    rates = [do.learning_rate(RATES[kind], t, WARMUP) for t in range(STEPS)]
    logged = {}
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        losses = losses_of(model, images, batch)
        losses["loss"] = sum(losses.values())
        optimizer.zero_grad()
        losses["loss"].backward()
        for p in model.parameters():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        optimizer.step()
        for name, value in losses.items():
            logged.setdefault(f"trained.{name}", []).append(value.item())
    out = {name: torch.tensor(v, dtype=torch.float64) for name, v in logged.items()}
    out["trained.rate"] = torch.tensor(rates, dtype=torch.float64)
    return out | {f"trained.weight.{name}": value.detach().float().contiguous()
                  for name, value in model.state_dict().items()
                  if name.startswith(KEPT_WEIGHTS) and not name.endswith(INERT)}
