"""dtn's models in PyTorch, written from the equations, to compare dtn with.

DTN is dense here, as in the authors' code: a T x T matrix per head. Parameter names are timm's and
those of the release, so dtn loads a state dict of this module.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

from norms_torch import NORMS


def key_offsets(grid):
    """(dx, dy, dx^2 + dy^2) from every query to every key of a grid, [T, T, 3]."""
    height, width = grid
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    x, y = x.reshape(-1).float(), y.reshape(-1).float()
    dx, dy = x[None, :] - x[:, None], y[None, :] - y[:, None]
    return torch.stack([dx, dy, dx * dx + dy * dy], -1)


def init_local(weight):
    """Initializes weights [H, 3] in place by Eq. 7."""
    with torch.no_grad():
        weight.normal_(std=0.02)
        k = math.isqrt(len(weight))
        for j in range(k):
            for i in range(k):
                weight[k * j + i] = torch.tensor(
                    [2 * (j - (k - 1) / 2), 2 * (i - (k - 1) / 2), -1.0])


class DynamicTokenNorm(nn.Module):
    """`fixed_lambda`, `position`, `pool` and `only_var` are the ablations of the paper."""

    def __init__(self, channels, heads, grid, eps=1e-5, variant="paper", per_image=False,
                 folded=False, fixed_lambda=None, position="relative", pool=1, only_var=False):
        super().__init__()
        self.fixed_lambda, self.position = fixed_lambda, position
        self.grid, self.pool, self.only_var = grid, pool, only_var
        self.per_image = per_image  # build P for each image, as the released code does
        self.folded = folded  # one product per head over all images; impossible with P per image
        self.heads, self.eps, self.variant = heads, eps, variant
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        if fixed_lambda is None:
            if not only_var:
                self.mean_norm_weight = nn.Parameter(torch.zeros(heads))
            self.var_norm_weight = nn.Parameter(torch.zeros(heads))
        height, width = grid[0] // pool, grid[1] // pool
        tokens = height * width
        if position == "free":
            self.position_table = nn.Parameter(torch.randn(heads, tokens, tokens) * 0.02)
        if position != "relative":
            return
        self.pos_proj = nn.Linear(3, heads)
        offsets = key_offsets((height, width))
        if variant == "official":  # query - key
            offsets = offsets * torch.tensor([-1.0, -1.0, 1.0])
        self.register_buffer("offsets", offsets, persistent=False)
        nn.init.zeros_(self.pos_proj.bias)
        init_local(self.pos_proj.weight)

    def over_tokens(self, p, x):
        """P x: [1 or B, H, T, T] times [B, H, T, D]."""
        if not self.folded:
            return p @ x
        batch, heads, tokens, width = x.shape
        columns = x.permute(1, 2, 0, 3).reshape(heads, tokens, batch * width)
        return (p[0] @ columns).reshape(heads, tokens, batch, width).permute(2, 0, 1, 3)

    def positions(self, batch, like):
        """P, [1 or B, H, T, T] over the pooled tokens."""
        tokens = self.grid[0] * self.grid[1] // self.pool ** 2
        if self.position == "relative":
            offsets = self.offsets.expand(batch if self.per_image else 1, -1, -1, -1)
            return self.pos_proj(offsets).permute(0, 3, 1, 2).softmax(-1)
        if self.position == "free":
            return self.position_table.softmax(-1)[None]
        at = torch.arange(tokens)
        reach = tokens if self.position == "uniform" else int(self.position.split(":")[1]) // 2
        band = ((at[:, None] - at[None, :]).abs() <= reach).to(like)
        return (band / band.sum(-1, keepdim=True)).expand(1, self.heads, tokens, tokens)

    def pooled(self, x):
        """[B, H, T, D], averaged over cells of pool x pool tokens."""
        s, (height, width) = self.pool, self.grid
        if s == 1:
            return x
        batch, heads, _, width_of_head = x.shape
        cells = x.reshape(batch, heads, height // s, s, width // s, s, width_of_head)
        return cells.mean((3, 5)).flatten(2, 3)

    def repeated(self, x):
        s, (height, width) = self.pool, self.grid
        if s == 1:
            return x
        cells = x.unflatten(2, (height // s, width // s))
        return cells.repeat_interleave(s, 2).repeat_interleave(s, 3).flatten(2, 3)

    def forward(self, x):
        batch, tokens, channels = x.shape
        heads = self.heads
        if self.variant == "official":
            split = x.reshape(batch, tokens, heads, -1)
            split = split / torch.sqrt((split * split).mean(-1, keepdim=True) + self.eps)
            x = split.reshape(batch, tokens, channels)
        mean_ln = x.mean(-1, keepdim=True)[:, None]  # [B, 1, T, 1]
        var_ln = x.var(-1, keepdim=True, unbiased=self.variant == "official")[:, None]
        p = self.positions(batch, x)
        xs = x.reshape(batch, tokens, heads, -1).permute(0, 2, 1, 3)  # [B, H, T, D]
        pooled = self.pooled(xs)
        m1 = self.over_tokens(p, pooled)
        v1 = self.over_tokens(p, pooled * pooled) - m1 * m1
        if self.variant == "paper":
            v1 = v1.clamp(min=0)
        m1, v1 = self.repeated(m1), self.repeated(v1)
        if self.fixed_lambda is None:
            lv = self.var_norm_weight.sigmoid().reshape(1, heads, 1, 1)
        else:
            lv = self.fixed_lambda
        if self.only_var:
            lm = 1
        elif self.fixed_lambda is None:
            lm = self.mean_norm_weight.sigmoid().reshape(1, heads, 1, 1)
        else:
            lm = self.fixed_lambda
        mean = lm * mean_ln + (1 - lm) * m1
        var = lv * var_ln + (1 - lv) * v1
        xhat = (xs - mean) / torch.sqrt(var + self.eps)
        return xhat.permute(0, 2, 1, 3).reshape(batch, tokens, channels) * self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, channels, heads, qkv_bias, grid=None):
        super().__init__()
        self.heads = heads
        self.pos_proj = None  # with a grid, a positional bias of each head
        if grid:
            self.pos_proj = nn.Linear(3, heads, bias=False)
            self.register_buffer("offsets", key_offsets(grid), persistent=False)
            init_local(self.pos_proj.weight)
        self.qkv = nn.Linear(channels, 3 * channels, bias=qkv_bias)
        self.proj = nn.Linear(channels, channels)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if self.pos_proj is not None:
            a = a + self.pos_proj(self.offsets).permute(2, 0, 1)
        return self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class Mlp(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(channels, hidden), nn.Linear(hidden, channels)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class DropPath(nn.Module):
    """Leaves a branch out for some samples while training, and scales it up for the others."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training or self.rate == 0:
            return x
        kept = x.new_empty(x.shape[0], 1, 1).bernoulli_(1 - self.rate)
        return x * (kept / (1 - self.rate))


class Block(nn.Module):
    def __init__(self, channels, heads, make_norm, qkv_bias, drop_path=0.0, grid=None):
        super().__init__()
        self.norm1 = make_norm()
        self.attn = Attention(channels, heads, qkv_bias, grid)
        self.norm2, self.mlp = make_norm(), Mlp(channels, 4 * channels)
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        x = x + self.drop_path(self.attn(self.norm1(x)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class PatchEmbed(nn.Module):
    def __init__(self, in_channels, channels, patch):
        super().__init__()
        self.proj = nn.Conv2d(in_channels, channels, patch, patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class VisionTransformer(nn.Module):
    """flavour "paper": class token joins before block `cls_at`, positions of the patches only.
    flavour "deit": class token first, positions for all. mhsa_position: a positional bias in the
    attention of the blocks before the class token joins. image: a side, or (height, width). norm:
    "ln", "dtn", a name of NORMS, or a function of (channels, heads, grid, eps)."""

    def __init__(self, channels=432, heads=9, depth=12, image=224, patch=16, in_channels=3,
                 classes=1000, norm="ln", variant="paper", cls_at=10, flavour="paper",
                 drop_path=0.0, mhsa_position=False, norm_options=None):
        super().__init__()
        options = norm_options or {}
        deit = flavour == "deit"
        eps = 1e-6 if deit else 1e-5
        height, width = (image, image) if isinstance(image, int) else image
        grid = (height // patch, width // patch)
        self.deit, self.cls_at = deit, 0 if deit else cls_at
        self.cls_token = nn.Parameter(torch.randn(1, 1, channels) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, grid[0] * grid[1] + deit, channels) * 0.02)
        self.patch_embed = PatchEmbed(in_channels, channels, patch)

        def layer_norm():
            return nn.LayerNorm(channels, eps=eps)

        def own_norm():
            if callable(norm):
                return norm(channels, heads, grid, eps)
            if norm in NORMS:
                return NORMS[norm](channels, heads, eps, **options)
            return DynamicTokenNorm(channels, heads, grid, eps,
                                    **{"variant": variant, **options})

        self.blocks = nn.ModuleList(
            Block(channels, heads, own_norm if norm != "ln" and i < self.cls_at else layer_norm,
                  deit, drop_path * i / max(depth - 1, 1),
                  grid if mhsa_position and i < self.cls_at else None)
            for i in range(depth))
        self.norm = layer_norm()
        self.head = nn.Linear(channels, classes)
        for m in self.modules():
            if isinstance(m, nn.Linear) and m.in_features > 3:
                nn.init.trunc_normal_(m.weight, std=0.02)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

    def forward(self, x):
        x = self.patch_embed(x)
        if not self.deit:
            x = x + self.pos_embed
        for i, block in enumerate(self.blocks):
            if i == self.cls_at:
                x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)
                if self.deit:
                    x = x + self.pos_embed
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def decay_groups(model, weight_decay, masters=None):
    """AdamW groups as in dtn: matrices and convolutions decay, the rest does not. If `masters` has
    a parameter's name, AdamW updates that tensor."""
    skip = ("pos_embed", "cls_token", "mean_norm_weight", "var_norm_weight")
    decay, rest = [], []
    for name, p in model.named_parameters():
        group = rest if p.ndim < 2 or name.endswith(skip) else decay
        group.append((masters or {}).get(name, p))
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
