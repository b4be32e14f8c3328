"""DINO and supervised contrastive learning in PyTorch, as plain as their formulas.

Rows of views are sample-major: row V i + v is view v of sample i. Nothing here is fast.
"""
import copy
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "peers"))
from vit_torch import DynamicTokenNorm, Mlp, VisionTransformer, key_offsets  # noqa: E402


# Networks.


def cubic(distance):
    """The kernel of bicubic interpolation with a = -0.75."""
    a, d = -0.75, abs(distance)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return (((d - 5) * d + 8) * d - 4) * a if d < 2 else 0.0


def resample_matrix(size, new_size):
    """[new_size, size]: DINO's rule for one axis of the positions."""
    matrix = torch.zeros(new_size, size, dtype=torch.float64)
    for i in range(new_size):
        source = (i + 0.5) * size / (new_size + 0.1) - 0.5
        for tap in range(math.floor(source) - 1, math.floor(source) + 3):
            matrix[i, min(max(tap, 0), size - 1)] += cubic(source - tap)
    return matrix


class AnySizeViT(VisionTransformer):
    """A vision transformer without head, for images of any size that the patch divides."""

    def __init__(self, channels, heads, depth, image, patch, mlp_ratio, **options):
        super().__init__(channels, heads, depth, image, patch, **options)
        del self.head
        for block in self.blocks:
            block.mlp = Mlp(channels, mlp_ratio * channels)
        self.patch, self.native = patch, (image // patch, image // patch)

    def positions(self, grid):
        if grid == self.native:
            return self.pos_embed
        prefix = int(self.deit)
        table = self.pos_embed[0, prefix:].unflatten(0, self.native)
        rows = resample_matrix(self.native[0], grid[0]).to(table)
        columns = resample_matrix(self.native[1], grid[1]).to(table)
        table = torch.einsum("ih,jw,hwc->ijc", rows, columns, table).flatten(0, 1)
        return torch.cat([self.pos_embed[0, :prefix], table])[None]

    def blocks_of(self, images):
        """(tokens, has a class token) after each block."""
        grid = images.shape[2] // self.patch, images.shape[3] // self.patch
        for module in self.modules():
            if isinstance(module, DynamicTokenNorm):
                module.grid, module.offsets = grid, key_offsets(grid).to(module.weight)
        x = self.patch_embed(images)
        if not self.deit:
            x = x + self.positions(grid)
        for i, block in enumerate(self.blocks):
            if i == self.cls_at:
                x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)
                if self.deit:
                    x = x + self.positions(grid)
            x = block(x)
            yield x, i >= self.cls_at

    def forward(self, images):
        *_, (x, _) = self.blocks_of(images)
        return self.norm(x)[:, 0]

    def last_blocks(self, images, count):
        """Class tokens of the last blocks, or the means of their patches where they have none."""
        outputs = [(self.norm(x), has_token) for x, has_token in self.blocks_of(images)]
        return torch.cat([x[:, 0] if has_token else x.mean(1)
                          for x, has_token in outputs[-count:]], -1)

    def interleaved_with_mean(self, images):
        """c0 m0 c1 m1 ...: the class token c and the mean m of the patches."""
        *_, (x, _) = self.blocks_of(images)
        x = self.norm(x)
        return torch.stack([x[:, 0], x[:, 1:].mean(1)], -1).flatten(1)


class DinoHead(nn.Module):
    def __init__(self, channels, hidden, bottleneck, outputs):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, hidden),
                                 nn.GELU(), nn.Linear(hidden, bottleneck))
        self.last_layer = nn.Module()
        self.last_layer.weight_g = nn.Parameter(torch.ones(outputs, 1))
        self.last_layer.weight_v = nn.Parameter(torch.zeros(outputs, bottleneck))

    def forward(self, x):
        x = F.normalize(self.mlp(x), dim=-1, eps=1e-12)
        g, v = self.last_layer.weight_g, self.last_layer.weight_v
        return x @ (g * v / v.norm(dim=1, keepdim=True)).T


class ContrastiveHead(nn.Sequential):
    def __init__(self, channels, hidden, features):
        super().__init__(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, features))

    def forward(self, x):
        return F.normalize(super().forward(x), dim=-1, eps=1e-12)


class Network(nn.Module):
    def __init__(self, backbone, head):
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, views):
        """[n, V, 3, S, S] to [n, V, K]."""
        return self.head(self.backbone(views.flatten(0, 1))).unflatten(0, views.shape[:2])


# DINO.


def cosine(start, end, i, steps):
    return end + (start - end) * (1 + math.cos(math.pi * i / steps)) / 2


def learning_rate(peak, last, i, warmup, steps):
    if i < warmup:
        return peak * i / (warmup - 1)
    return cosine(peak, last, i - warmup, steps - warmup)


def teacher_temperature(options, epoch):
    first, last, epochs = options["warmup_teacher_temp"], options["teacher_temp"], \
        options["warmup_teacher_temp_epochs"]
    if epoch >= epochs:
        return last
    return first if epochs == 1 else first + (last - first) * epoch / (epochs - 1)


def dino_loss(student, teacher, center, student_temp, teacher_temp):
    """student [n, V, K], teacher [n, 2, K], both raw. Returns the loss, its means over the pairs
    with a global and with a local view, and the entropy of the teacher."""
    log_q = ((teacher - center) / teacher_temp).log_softmax(-1)
    q = log_q.exp().detach()
    log_p = (student / student_temp).log_softmax(-1)
    pairs = {(a, b): -(q[:, a] * log_p[:, b]).sum(-1).mean()
             for a in range(2) for b in range(student.shape[1]) if a != b}

    def mean(kept):
        return torch.stack([value for (_, b), value in pairs.items() if kept(b)]).mean()

    return {"loss": mean(lambda b: True), "loss_global": mean(lambda b: b < 2),
            "loss_local": mean(lambda b: b >= 2),
            "teacher_entropy": -(q * log_q).sum(-1).mean().detach()}


def clip_each(parameters, limit):
    """Returns the number of tensors with a gradient above the limit."""
    clipped = 0
    for p in parameters:
        factor = limit / (p.grad.norm() + 1e-6)
        if factor < 1:
            p.grad *= factor
            clipped += 1
    return clipped


class Dino:
    """`options` has the keys of the section `dino` and those of Dino.step()."""

    def __init__(self, student, options):
        self.student, self.teacher, self.options = student, copy.deepcopy(student), options
        self.center = torch.zeros(1, options["out_dim"], dtype=torch.float64)
        self.steps_done = 0
        if options["norm_last_layer"]:
            student.head.last_layer.weight_g.requires_grad_(False)
        self.trained = {n: p for n, p in student.named_parameters() if p.requires_grad}
        decays = {n: p.ndim > 1 and not n.endswith(".bias") for n, p in self.trained.items()}
        self.optimizer = torch.optim.AdamW(
            [{"params": [p for n, p in self.trained.items() if decays[n]]},
             {"params": [p for n, p in self.trained.items() if not decays[n]], "weight_decay": 0}],
            betas=(0.9, 0.999), eps=1e-8)

    def schedules(self):
        o, i = self.options, self.steps_done
        n = o["epochs"] * o["steps_per_epoch"]
        warmup = o["warmup_epochs"] * o["steps_per_epoch"]
        return {"lr": learning_rate(o["lr"], o["min_lr"], i, warmup, n),
                "weight_decay": cosine(o["weight_decay"], o["weight_decay_end"], i, n),
                "teacher_momentum": cosine(o["teacher_momentum"], 1.0, i, n),
                "teacher_temp": teacher_temperature(o, i // o["steps_per_epoch"])}

    def student_of(self, crops, small):
        return torch.cat([self.student(crops), self.student(small)], 1)

    def losses(self, crops, small):
        with torch.no_grad():
            teacher = self.teacher(crops)
        losses = dino_loss(self.student_of(crops, small), teacher, self.center,
                           self.options["student_temp"], self.schedules()["teacher_temp"])
        return losses, teacher

    def step(self, crops, small):
        """One step on global and local views. Returns the logged values."""
        o, now = self.options, self.schedules()
        losses, teacher = self.losses(crops, small)
        keep = o["center_momentum"]
        self.center = keep * self.center + (1 - keep) * teacher.flatten(0, 1).mean(0, keepdim=True)
        self.optimizer.zero_grad(set_to_none=True)
        losses["loss"].backward()
        clipped = clip_each(self.trained.values(), o["clip_param_norm"])
        if self.steps_done < o["freeze_last_layer_epochs"] * o["steps_per_epoch"]:
            for p in self.student.head.last_layer.parameters():
                p.grad = None
        for group in self.optimizer.param_groups:
            group["lr"] = now["lr"]
        self.optimizer.param_groups[0]["weight_decay"] = now["weight_decay"]
        self.optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(self.teacher.parameters(), self.student.parameters()):
                mine.mul_(now["teacher_momentum"]).add_((1 - now["teacher_momentum"]) * theirs)
        self.steps_done += 1
        return {**{k: v.item() for k, v in losses.items()}, **now, "clipped": clipped}


# Supervised contrastive learning.


def supcon_loss(z, labels, temperature, base_temperature):
    """z [n, D], labels [n]. An anchor without positives contributes 0 and counts in the mean."""
    n, total = len(z), 0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        positives = [j for j in others if labels[j] == labels[i]]
        s = z @ z[i] / temperature
        log_sum = torch.logsumexp(s[others], 0)
        if positives:
            total = total - (s[positives] - log_sum).mean()
    return temperature / base_temperature * total / n
