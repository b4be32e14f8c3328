"""PVT (Wang et al., Pyramid Vision Transformer, ICCV 2021) in PyTorch, from the formulas; parameter
names are those of its release."""
import torch
import torch.nn.functional as F
from torch import nn


def offsets_to_cells(grid, reduction):
    """(dx, dy, dx^2 + dy^2) from every token to the middle of every cell of reduction x reduction
    tokens: [tokens, cells, 3]."""
    def middles(n):
        return torch.arange(n // reduction) * reduction + (reduction - 1) / 2

    def places(rows, columns):
        return torch.cartesian_prod(rows, columns)

    tokens = places(*(torch.arange(n).float() for n in grid))
    step = places(*(middles(n) for n in grid)) - tokens[:, None]
    return torch.stack([step[..., 1], step[..., 0], step.square().sum(-1)], -1)


class Attention(nn.Module):
    def __init__(self, width, heads, reduction, position=False):
        super().__init__()
        if position:
            self.pos_proj = nn.Linear(3, heads, bias=False)
        self.heads, self.reduction = heads, reduction
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.proj = nn.Linear(width, width)
        if reduction > 1:
            self.sr = nn.Conv2d(width, width, reduction, reduction)
            self.norm = nn.LayerNorm(width)

    def forward(self, x, grid):
        batch, tokens, width = x.shape
        source = x
        if self.reduction > 1:
            source = self.sr(x.transpose(1, 2).reshape(batch, width, *grid))
            source = self.norm(source.flatten(2).transpose(1, 2))

        def split(y):
            return y.reshape(batch, -1, self.heads, width // self.heads).transpose(1, 2)

        k, v = self.kv(source).chunk(2, -1)
        scores = split(self.q(x)) @ split(k).transpose(2, 3) * (width // self.heads) ** -0.5
        if hasattr(self, "pos_proj"):
            offsets = offsets_to_cells(grid, self.reduction).to(x)
            scores = scores + self.pos_proj(offsets).permute(2, 0, 1)
        mixed = scores.softmax(-1) @ split(v)
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, width, heads, ratio, reduction, position=False):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads, reduction, position)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = Mlp(width, int(width * ratio))

    def forward(self, x, grid):
        x = x + self.attn(self.norm1(x), grid)
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, stride, stride)
        self.norm = nn.LayerNorm(width)

    def forward(self, image):
        x = self.proj(image)
        return self.norm(x.flatten(2).transpose(1, 2)), x.shape[2:]


class Pvt(nn.Module):
    """`size`: height and width of the images that the position tables are for. mhsa_position: a
    positional bias of the attention, in all stages except the last."""

    def __init__(self, size, depths, widths=(64, 128, 320, 512), heads=(1, 2, 5, 8),
                 ratios=(8, 8, 4, 4), reductions=(8, 4, 2, 1), classes=1000, mhsa_position=False):
        super().__init__()
        self.stages = len(depths)
        self.grids = []
        for s in range(self.stages):
            stride = 2 if s else 4
            size = [n // stride for n in size]
            self.grids.append(tuple(size))
            self.add_module(f"patch_embed{s + 1}",
                            PatchEmbed(widths[s - 1] if s else 3, widths[s], stride))
            tokens = size[0] * size[1] + (s + 1 == self.stages)
            self.register_parameter(f"pos_embed{s + 1}",
                                    nn.Parameter(torch.randn(1, tokens, widths[s]) * 0.02))
            position = mhsa_position and s + 1 < self.stages
            blocks = [Block(widths[s], heads[s], ratios[s], reductions[s], position)
                      for _ in range(depths[s])]
            self.add_module(f"block{s + 1}", nn.ModuleList(blocks))
        self.cls_token = nn.Parameter(torch.randn(1, 1, widths[-1]) * 0.02)
        self.norm = nn.LayerNorm(widths[-1], eps=1e-6)
        self.head = nn.Linear(widths[-1], classes)

    def positions(self, s, grid):
        """The position table of a stage, resized if the grid is another one."""
        table, own = getattr(self, f"pos_embed{s + 1}"), self.grids[s]
        first = int(s + 1 == self.stages)
        if tuple(grid) == own:
            return table
        rows = table[:, first:].transpose(1, 2).reshape(1, -1, *own)
        rows = F.interpolate(rows, size=tuple(grid), mode="bilinear")
        return torch.cat([table[:, :first], rows.flatten(2).transpose(1, 2)], 1)

    def forward(self, x):
        for s in range(self.stages):
            x, grid = getattr(self, f"patch_embed{s + 1}")(x)
            if s + 1 == self.stages:
                x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)
            x = x + self.positions(s, grid)
            for block in getattr(self, f"block{s + 1}"):
                x = block(x, grid)
            if s + 1 < self.stages:
                x = x.transpose(1, 2).reshape(len(x), -1, *grid)
        return self.head(self.norm(x)[:, 0])
