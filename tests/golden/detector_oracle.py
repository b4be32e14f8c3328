"""RetinaNet and Mask R-CNN on a pyramid vision transformer in PyTorch, as an oracle for detectors.

Written from the papers (Lin et al., ICCV 2017; He et al., ICCV 2017; Wang et al., ICCV 2021) and
the settings of MMDetection, for clarity, not speed. Parameters have MMDetection's names. Targets,
losses and results are in detection_oracle.py.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
from pvt_torch import Pvt  # noqa: E402
from vit_torch import DynamicTokenNorm, key_offsets  # noqa: E402

POOLS = (4, 2, 1)  # of DTN's statistics, stages 1 to 3; the last stage has LayerNorm
BOX_SIZE, MASK_SIZE = 7, 14
ROI_STRIDES = (4, 8, 16, 32)  # of the levels that RoIs read


class TokenNorm(DynamicTokenNorm):
    """DTN on a grid of any size, with the offsets of pooled cells."""

    def __init__(self, channels, heads, pool):
        super().__init__(channels, heads, (pool, pool), pool=pool)

    def set_grid(self, grid):
        self.grid = tuple(grid)
        self.offsets = key_offsets([n // self.pool for n in grid]).to(self.weight)


class Backbone(Pvt):
    """The features of the four stages, [B, C, H, W], as they leave the last residual branch.
    `size`: size of the images that the position tables are for."""

    def __init__(self, size, depths, widths, heads, ratios, norm):
        super().__init__(size, depths, widths, heads, ratios)
        del self.cls_token, self.norm, self.head
        if norm == "dtn":
            for s, pool in enumerate(POOLS):
                for block in getattr(self, f"block{s + 1}"):
                    block.norm1 = TokenNorm(widths[s], heads[s], pool)
                    block.norm2 = TokenNorm(widths[s], heads[s], pool)

    def positions(self, s, grid):
        """Leaves out the first row of the last table, which belongs to a class token."""
        positions = super().positions(s, grid)
        return positions[:, 1:] if s + 1 == self.stages else positions

    def forward(self, x):
        features = []
        for s in range(self.stages):
            x, grid = getattr(self, f"patch_embed{s + 1}")(x)
            x = x + self.positions(s, grid)
            for block in getattr(self, f"block{s + 1}"):
                for norm in (block.norm1, block.norm2):
                    if isinstance(norm, TokenNorm):
                        norm.set_grid(grid)
                x = block(x, grid)
            x = x.transpose(1, 2).reshape(len(x), -1, *grid)
            features.append(x)
        return features


class ConvModule(nn.Module):
    def __init__(self, into, out, kernel, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(into, out, kernel, stride, kernel // 2)

    def forward(self, x):
        return self.conv(x)


class Pyramid(nn.Module):
    """`convolutions`: two convolutions of stride 2 make the levels above the backbone's. Otherwise
    there is one such level: every second row and column of the last one."""

    def __init__(self, widths, width, convolutions):
        super().__init__()
        self.lateral_convs = nn.ModuleList(ConvModule(w, width, 1) for w in widths)
        self.fpn_convs = nn.ModuleList(ConvModule(width, width, 3) for _ in widths)
        self.convolutions = convolutions
        if convolutions:
            self.fpn_convs += [ConvModule(widths[-1], width, 3, 2), ConvModule(width, width, 3, 2)]

    def forward(self, features):
        sums = [conv(x) for conv, x in zip(self.lateral_convs, features)]
        for i in reversed(range(len(sums) - 1)):
            sums[i] = sums[i] + F.interpolate(sums[i + 1], size=sums[i].shape[2:], mode="nearest")
        levels = [conv(x) for conv, x in zip(self.fpn_convs, sums)]
        if self.convolutions:
            levels.append(self.fpn_convs[-2](features[-1]))
            levels.append(self.fpn_convs[-1](levels[-1]))
        else:
            levels.append(levels[-1][:, :, ::2, ::2])
        return levels


def as_tokens(maps):
    """[B, C, H, W] as [B, H W, C]."""
    return maps.flatten(2).transpose(1, 2)


class RetinaHead(nn.Module):
    def __init__(self, width, convs, anchors, classes):
        super().__init__()
        self.cls_convs = nn.ModuleList(ConvModule(width, width, 3) for _ in range(convs))
        self.reg_convs = nn.ModuleList(ConvModule(width, width, 3) for _ in range(convs))
        self.retina_cls = nn.Conv2d(width, anchors * classes, 3, padding=1)
        self.retina_reg = nn.Conv2d(width, anchors * 4, 3, padding=1)

    def forward(self, level):
        x = y = level
        for one, other in zip(self.cls_convs, self.reg_convs):
            x, y = F.relu(one(x)), F.relu(other(y))
        return self.retina_cls(x), self.retina_reg(y)


class RpnHead(nn.Module):
    def __init__(self, width, anchors):
        super().__init__()
        self.rpn_conv = nn.Conv2d(width, width, 3, padding=1)
        self.rpn_cls = nn.Conv2d(width, anchors, 1)
        self.rpn_reg = nn.Conv2d(width, anchors * 4, 1)

    def forward(self, level):
        x = F.relu(self.rpn_conv(level))
        return self.rpn_cls(x), self.rpn_reg(x)


class BoxHead(nn.Module):
    def __init__(self, width, hidden, classes):
        super().__init__()
        self.shared_fcs = nn.ModuleList([nn.Linear(width * BOX_SIZE ** 2, hidden),
                                         nn.Linear(hidden, hidden)])
        self.fc_cls = nn.Linear(hidden, classes + 1)
        self.fc_reg = nn.Linear(hidden, 4 * classes)

    def forward(self, x):
        x = x.flatten(1)
        for layer in self.shared_fcs:
            x = F.relu(layer(x))
        return self.fc_cls(x), self.fc_reg(x)


class MaskHead(nn.Module):
    def __init__(self, width, convs, classes):
        super().__init__()
        self.convs = nn.ModuleList(ConvModule(width, width, 3) for _ in range(convs))
        self.upsample = nn.ConvTranspose2d(width, width, 2, 2)
        self.conv_logits = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        for conv in self.convs:
            x = F.relu(conv(x))
        return self.conv_logits(F.relu(self.upsample(x)))


def roi_levels(boxes):
    """The level that each RoI reads."""
    sides = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).sqrt()
    return torch.log2(sides / 56 + 1e-6).floor().long().clamp(0, len(ROI_STRIDES) - 1)


def roi_features(levels, image, boxes, size):
    """Features [R, C, size, size] of boxes [R, 4] in images [R]."""
    rois = torch.cat([image[:, None].to(boxes), boxes], 1)
    reads = roi_levels(boxes)
    out = levels[0].new_zeros(len(boxes), levels[0].shape[1], size, size)
    for l, stride in enumerate(ROI_STRIDES):
        rows = (reads == l).nonzero().flatten()
        if len(rows):
            of_level = torchvision.ops.roi_align(levels[l], rois[rows], size, 1 / stride, 0, True)
            out = out.index_put((rows,), of_level)
    return out


class Detector(nn.Module):
    """`kind`: retinanet or mask_rcnn."""

    def __init__(self, kind, norm, size=(224, 224), depths=(2, 2, 2, 2), widths=(64, 128, 320, 512),
                 heads=(1, 2, 5, 8), ratios=(8, 8, 4, 4), classes=80, fpn=256, convs=4,
                 hidden=1024):
        super().__init__()
        self.retina, self.classes = kind == "retinanet", classes
        self.backbone = Backbone(size, depths, widths, heads, ratios, norm)
        if self.retina:
            self.neck = Pyramid(widths[1:], fpn, True)
            self.bbox_head = RetinaHead(fpn, convs, 9, classes)
        else:
            self.neck = Pyramid(widths, fpn, False)
            self.rpn_head = RpnHead(fpn, 3)
            self.roi_head = nn.ModuleDict({"bbox_head": BoxHead(fpn, hidden, classes),
                                           "mask_head": MaskHead(fpn, convs, classes)})

    def levels(self, images):
        features = self.backbone(images)
        return self.neck(features[1:] if self.retina else features)

    def dense(self, levels):
        """For each level: classes [B, h w, A K] and boxes [B, h w, 4 A]; the grids."""
        head = self.bbox_head if self.retina else self.rpn_head
        outputs = [head(level) for level in levels]
        grids = [tuple(level.shape[2:]) for level in levels]
        return [tuple(as_tokens(o) for o in pair) for pair in outputs], grids

    def of_regions(self, levels, image, boxes):
        """Logits [R, K + 1] and deltas [R, 4 K] of RoIs."""
        return self.roi_head["bbox_head"](roi_features(levels, image, boxes, BOX_SIZE))

    def masks_of(self, levels, image, boxes):
        """Logits [R, K, 28, 28] of RoIs."""
        return self.roi_head["mask_head"](roi_features(levels, image, boxes, MASK_SIZE))
