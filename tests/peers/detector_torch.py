"""RetinaNet on PVT in PyTorch, made to be fast: the network and a training step.

The results are those of tests/golden/detector_oracle.py; check() compares them. Done for speed:

  attention by scaled_dot_product_attention
  DTN by the separable theorem on pooled cells (dtn_separable_torch.py)
  convolutions on channels_last maps, which the tokens are already, or on contiguous ones
  the focal loss as if all were background, corrected at the few positives
  AdamW fused

Images all have the size of the batch. Targets are assigned in every step, and not compiled.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F

from dtn_separable_torch import SeparableTokenNorm

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import detection_oracle as do  # noqa: E402
import detector_oracle  # noqa: E402

HEADS = {"ln": (1, 2, 5, 8), "dtn": (4, 4, 5, 8)}
LEARNING_RATE, WEIGHT_DECAY = 1e-4, 1e-4
LEVELS, RULE = do.RETINANET_LEVELS, do.RETINANET_RULE


class PooledTokenNorm(SeparableTokenNorm):
    """SeparableTokenNorm with the statistics of cells of pool x pool tokens."""

    def __init__(self, channels, heads, grid, pool, product):
        super().__init__(channels, heads, tuple(n // pool for n in grid), product=product)
        self.pool = pool

    def cells(self, values):
        """[B, height, s, width, s, H, D], s = pool, from tokens [B, T, C]."""
        (height, width), s = self.grid, self.pool
        return values.view(len(values), height, s, width, s, self.heads, -1)

    def forward(self, x):
        (height, width), heads = self.grid, self.heads
        average_columns = self.averaging(x.dtype)

        def average(values):  # P times [B, height, width, H, D]
            columns = values.permute(3, 2, 1, 0, 4)
            averaged = average_columns(columns.reshape(heads, height * width, -1))
            return averaged.view(columns.shape).permute(3, 2, 1, 0, 4)

        var_ln, mean_ln = (self.cells(s.expand(-1, -1, heads))
                           for s in torch.var_mean(x, -1, correction=0, keepdim=True))
        by_cell = self.cells(x)
        pooled = by_cell.mean((2, 4))
        pivot = pooled[:, :1, :1].detach()
        centred = pooled - pivot
        m1 = average(centred)
        v1 = (average(centred * centred) - m1 * m1).clamp(min=0)
        m1, v1 = (s[:, :, None, :, None] for s in (m1 + pivot, v1))
        l_mean = self.mean_norm_weight.sigmoid()[:, None]  # [H, 1]
        l_var = self.var_norm_weight.sigmoid()[:, None]
        mean = l_mean * mean_ln + (1 - l_mean) * m1
        var = l_var * var_ln + (1 - l_var) * v1
        normalized = ((by_cell - mean) * torch.rsqrt(var + self.eps)).view(x.shape)
        return normalized * self.weight + self.bias


class FastAttention(torch.nn.Module):
    """The attention of pvt_torch.py with PyTorch's fused kernel, on the same parameters."""

    def __init__(self, plain):
        super().__init__()
        self.heads, self.reduction = plain.heads, plain.reduction
        for name, part in plain.named_children():
            setattr(self, name, part)

    def forward(self, x, grid):
        source = x
        if self.reduction > 1:
            source = self.sr(x.transpose(1, 2).unflatten(2, grid))
            source = self.norm(source.flatten(2).transpose(1, 2))
        q, (k, v) = self.q(x), self.kv(source).chunk(2, -1)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (q, k, v))
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def grids_of(size, strides):
    return [tuple(-(-n // stride) for n in size) for stride in strides]


def make_fast(model, norm, size, product):
    """Puts the fast parts into a Detector of the oracle, for images of this size."""
    for s, grid in enumerate(grids_of(size, (4, 8, 16, 32))):
        for block in getattr(model.backbone, f"block{s + 1}"):
            block.attn = FastAttention(block.attn)
            if norm != "dtn" or s == len(detector_oracle.POOLS):
                continue
            for name in ("norm1", "norm2"):
                plain = getattr(block, name)
                fast = PooledTokenNorm(plain.weight.numel(), plain.heads, grid, plain.pool, product)
                fast.load_state_dict(plain.state_dict())
                setattr(block, name, fast.to(plain.weight.dtype))
    return model


def focal_sum(logits, labels, alpha=0.25):
    """Focal loss with gamma 2: logits [B, N, K], labels [B, N]."""
    counts = (labels != do.IGNORED)[..., None].to(logits)
    background = (1 - alpha) * (counts * logits.sigmoid().square() * F.softplus(logits)).sum()
    positive = labels >= 0
    z = logits.gather(2, labels.clamp(min=0)[..., None])[..., 0]
    p = z.sigmoid()
    change = alpha * (1 - p).square() * F.softplus(-z) - (1 - alpha) * p.square() * F.softplus(z)
    return background + (change * positive.to(z)).sum()


class Training:
    """Whole steps of RetinaNet: targets, forward, losses, backward, AdamW. `form`: words of
    detector_speed.py."""

    def __init__(self, model, norm, size, form):
        words = form.split("-")
        self.model = make_fast(model, norm, size, "axes" if "axes" in words else "kron")
        self.channels_last = "last" in words
        if self.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
        self.anchors = torch.cat(do.anchors_of(LEVELS, grids_of(size, [s for s, _ in LEVELS])))
        self.anchors = self.anchors.to(next(model.parameters()).dtype)
        self.optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE,
                                           weight_decay=WEIGHT_DECAY, fused=True)
        self.losses = self.forward_and_losses
        if "compiled" in words:
            self.losses = torch.compile(self.losses, fullgraph=True, dynamic=False)

    def targets(self, truths, classes):
        rows = []
        for boxes, labels in zip(truths, classes):
            assigned = do.assign(self.anchors, boxes, RULE)
            rows.append(do.dense_targets(self.anchors, assigned, boxes, labels))
        return [torch.stack(part) for part in zip(*rows)]

    def forward_and_losses(self, images, labels, targets):
        features = self.model.backbone(images)[1:]
        if not self.channels_last:
            features = [f.contiguous() for f in features]
        outputs = [self.model.bbox_head(level) for level in self.model.neck(features)]
        logits, deltas = (torch.cat([maps.permute(0, 2, 3, 1).reshape(len(images), -1, width)
                                     for maps in part], 1)
                          for part, width in zip(zip(*outputs), (self.model.classes, 4)))
        positive = labels >= 0
        n = positive.sum(1).clamp(min=1).sum()
        box = ((deltas - targets).abs() * positive[..., None].to(deltas)).sum()
        return focal_sum(logits, labels) / n, box / n

    def step(self, images, truths, classes):
        """Returns the two losses before the step."""
        if self.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        self.optimizer.zero_grad(set_to_none=True)
        of_class, of_box = self.losses(images, *self.targets(truths, classes))
        (of_class + of_box).backward()
        self.optimizer.step()
        return of_class.item(), of_box.item()


def example_batch(size, batch, classes, truths, dtype=torch.float32):
    """Noise, and `truths` boxes in each image."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(batch, 3, *size, generator=generator).to(dtype)
    limits = torch.tensor([size[1], size[0]])
    boxes = []
    for _ in range(batch):
        draw = torch.rand(truths, 4, generator=generator)
        side = (0.08 + 0.5 * draw[:, 2:]) * limits
        corner = draw[:, :2] * (limits - side)
        boxes.append(torch.cat([corner, corner + side], 1).to(dtype))
    labels = [torch.randint(classes, (truths,), generator=generator) for _ in range(batch)]
    return images, boxes, labels


def make_oracle(norm, classes, dtype=torch.float32):
    torch.manual_seed(0)
    model = detector_oracle.Detector("retinanet", norm, heads=HEADS[norm], classes=classes)
    return model.to(dtype)


def oracle_losses(model, images, truths, classes):
    outputs, grids = model.dense(model.levels(images))
    anchors = do.anchors_of(LEVELS, grids)
    boxes = torch.cat(anchors)
    rows = [do.dense_targets(boxes, do.assign(boxes, t, RULE), t, c)
            for t, c in zip(truths, classes)]
    labels, targets = (torch.stack(part) for part in zip(*rows))
    return do.retinanet_losses(*do.joined(outputs, anchors), labels, targets)


def check(norm, form, size=(64, 96), classes=5):
    """Compares losses and gradients with the oracle in float64. Returns the largest difference,
    relative to the largest value of each tensor."""
    batch = example_batch(size, 2, classes, 3, torch.float64)
    model = make_oracle(norm, classes, torch.float64)
    losses = oracle_losses(model, *batch)
    sum(losses.values()).backward()
    want = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    training = Training(make_oracle(norm, classes, torch.float64), norm, size, form)
    got = training.losses(batch[0], *training.targets(*batch[1:]))
    sum(got).backward()
    errors = [abs(a.item() / b.item() - 1) for a, b in zip(got, losses.values())]
    for name, p in training.model.named_parameters():
        if p.grad is None or name.endswith("pos_proj.bias"):
            continue
        errors.append(((p.grad - want[name]).abs().max() / want[name].abs().max()).item())
    return max(errors)
