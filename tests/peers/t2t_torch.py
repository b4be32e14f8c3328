"""T2T-ViT_t-14 (Yuan et al., ICCV 2021) from its formulas, under the release's names."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from vit_torch import DynamicTokenNorm

STRIDE = 16


class Mlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Qkv(nn.Module):
    """The weights of an attention, which different modules use in different ways."""

    def __init__(self, width, out):
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * out, bias=False), nn.Linear(out, out)


class TokenTransformer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Qkv(width, 64)
        self.norm2, self.mlp = nn.LayerNorm(64), Mlp(64, 64)

    def forward(self, x):
        q, k, v = self.attn.qkv(self.norm1(x)).chunk(3, -1)
        weights = (q @ k.transpose(1, 2) / math.sqrt(x.shape[-1])).softmax(-1)
        y = v + self.attn.proj(weights @ v)
        return y + self.mlp(self.norm2(y))


class Tokens(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention1, self.attention2 = TokenTransformer(3 * 49), TokenTransformer(64 * 9)
        self.project = nn.Linear(64 * 9, width)

    def forward(self, images):
        height, width = images.shape[2:]
        x = F.unfold(images, 7, stride=4, padding=2).transpose(1, 2)
        for side, transformer in ((4, self.attention1), (8, self.attention2)):
            x = transformer(x).transpose(1, 2)
            x = x.reshape(*x.shape[:2], height // side, width // side)
            x = F.unfold(x, 3, stride=2, padding=1).transpose(1, 2)
        return self.project(x)


class Block(nn.Module):
    def __init__(self, width, heads, hidden, make_norm):
        super().__init__()
        self.heads = heads
        self.norm1, self.attn = make_norm(), Qkv(width, width)
        self.norm2, self.mlp = make_norm(), Mlp(width, hidden)

    def attention(self, x):
        batch, tokens, width = x.shape
        qkv = self.attn.qkv(x).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)).softmax(-1)
        return self.attn.proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def sinusoids(rows, width):
    table = [[p / 10000 ** (2 * (j // 2) / width) for j in range(width)] for p in range(rows)]
    table = torch.tensor(table, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = table[:, 0::2].sin(), table[:, 1::2].cos()
    return table.float()[None]


class T2tVit(nn.Module):
    def __init__(self, size, classes, class_token_at=0, norm="ln", width=384, depth=14, heads=6):
        super().__init__()
        grid = size[0] // STRIDE, size[1] // STRIDE
        self.class_token_at = class_token_at
        self.tokens_to_token = Tokens(width)
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.pos_embed = nn.Parameter(sinusoids(1 + grid[0] * grid[1], width),
                                      requires_grad=False)

        def make_norm(index):
            if norm == "ln" or index >= class_token_at:
                return nn.LayerNorm(width)
            return DynamicTokenNorm(width, heads, grid)

        self.blocks = nn.ModuleList(
            Block(width, heads, 3 * width, lambda i=i: make_norm(i)) for i in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images):
        x = self.tokens_to_token(images) + self.pos_embed[:, 1:]
        for i, block in enumerate(self.blocks):
            if i == self.class_token_at:
                token = (self.cls_token + self.pos_embed[:, :1]).expand(len(x), -1, -1)
                x = torch.cat((token, x), 1)
            x = block(x)
        return self.head(self.norm(x)[:, 0])
