"""Transformers of token sequences in PyTorch by their formulas. Attention is dense, BigBird's
blocks as a mask, or Reformer's hashes. LayerNorm, InstanceNorm, BatchNorm or Dynamic Token
Normalization leave pads out. Parameters have dtn's names."""
import math

import numpy
import torch
import torch.nn.functional as F
from torch import nn


def sinusoids(positions, channels):
    at = torch.arange(positions, dtype=torch.float64)[:, None]
    rate = torch.exp(-math.log(10000) / channels
                     * torch.arange(0, channels, 2, dtype=torch.float64))
    table = torch.zeros(positions, channels, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = torch.sin(at * rate), torch.cos(at * rate)
    return table


# --- normalizers: x [B, T, C], valid [B, T] ------------------------------------------------------

class LayerNorm(nn.LayerNorm):
    def forward(self, x, valid=None):
        return super().forward(x)


class InstanceNorm(nn.Module):
    def __init__(self, channels, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x, valid):
        count = valid.sum(1)[:, None, None]
        x = x * valid[..., None]
        mean = x.sum(1, keepdim=True) / count
        var = ((x - mean).square() * valid[..., None]).sum(1, keepdim=True) / count
        return (x - mean) / torch.sqrt(var + self.eps) * self.weight + self.bias


class BatchNorm(nn.Module):
    """BatchNorm over all tokens of the batch that count. Running statistics are not updated."""

    def __init__(self, channels, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x, valid):
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x[valid].mean(0), x[valid].var(0, unbiased=False)
        return (x - mean) / torch.sqrt(var + self.eps) * self.weight + self.bias


class LineTokenNorm(nn.Module):
    """Dynamic Token Normalization on a line, P of all pairs of tokens."""

    def __init__(self, channels, heads, eps):
        super().__init__()
        self.heads, self.eps = heads, eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.mean_norm_weight = nn.Parameter(torch.zeros(heads))
        self.var_norm_weight = nn.Parameter(torch.zeros(heads))
        self.pos_proj = nn.Linear(3, heads)

    def positions(self, valid):
        at = torch.arange(valid.shape[1], device=valid.device)
        d = (at[None, :] - at[:, None]).to(self.pos_proj.weight.dtype)
        a_x, _, a_d = self.pos_proj.weight[:, :, None, None].unbind(1)
        scores = (a_d * d * d + a_x * d)[None]
        return scores.masked_fill(~valid[:, None, None, :], -math.inf).softmax(-1)

    def forward(self, x, valid):
        batch, tokens, channels = x.shape
        x = x * valid[..., None]
        xs = x.reshape(batch, tokens, self.heads, -1).transpose(1, 2)
        mean_ln = x.mean(-1)[:, None, :, None]
        var_ln = x.var(-1, unbiased=False)[:, None, :, None]
        pivot = (xs.sum(2, keepdim=True) / valid.sum(1)[:, None, None, None]).detach()
        off, p = xs - pivot, self.positions(valid)
        m1 = p @ off
        v1 = (p @ off.square() - m1.square()).clamp(min=0)
        share_m = self.mean_norm_weight.sigmoid()[:, None, None]
        share_v = self.var_norm_weight.sigmoid()[:, None, None]
        mean = share_m * mean_ln + (1 - share_m) * (m1 + pivot)
        var = share_v * var_ln + (1 - share_v) * v1
        y = (xs - mean) / torch.sqrt(var + self.eps)
        return y.transpose(1, 2).reshape(batch, tokens, channels) * self.weight + self.bias


NORMS = {"ln": lambda channels, heads, eps: LayerNorm(channels, eps=eps),
         "in": lambda channels, heads, eps: InstanceNorm(channels, eps),
         "bn": lambda channels, heads, eps: BatchNorm(channels, eps), "dtn": LineTokenNorm}


# --- attention -----------------------------------------------------------------------------------

def split_heads(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class DenseAttention(nn.Module):
    """Dense attention; with `mask` [H, T, T], only where it is true."""

    def __init__(self, channels, heads, mask=None):
        super().__init__()
        self.heads, self.weight_dropout = heads, 0.0
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.proj = nn.Linear(channels, channels, bias=False)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x, valid):
        q, k, v = (split_heads(y, self.heads) for y in self.qkv(x).chunk(3, -1))
        seen = None if valid is None else valid[:, None, None, :]
        if self.mask is not None:
            seen = self.mask if seen is None else seen & self.mask
        dropout = self.weight_dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=dropout)
        return self.proj(mixed.transpose(1, 2).flatten(2))


def block_mask(tokens, heads, block, random_blocks, layer):
    """BigBird's mask, drawn by NumPy's permutation as in the released code."""
    n = -(-tokens // block)
    last = (1024 // block if n * block > 1024 else n) - 1
    draw = numpy.random.RandomState(layer)
    seen = torch.zeros(heads, n, n, dtype=torch.bool)
    for h in range(heads):
        for i in range(n):
            if i in (0, n - 1):
                seen[h, i] = True
                continue
            fixed = {1: {0, 1, 2, n - 1}, n - 2: {0, n - 3, n - 2, n - 1}}.get(
                i, {0, i - 1, i, i + 1, n - 1})
            seen[h, i, list(fixed)] = True
            if i == 1:
                free = range(3, min(last, n - 2) + 1)
            elif i == 2:
                free = range(4, min(last, n - 2) + 1)
            elif i == n - 3:
                free = range(1, last - 4 + 1)
            elif i == n - 2:
                free = range(1, last - 3 + 1)
            elif i - 2 > last:
                free = range(1, last + 1)
            else:
                free = [*range(1, i - 1), *range(i + 2, min(last, n - 2) + 1)]
            seen[h, i, draw.permutation(list(free))[:random_blocks].tolist()] = True
    tokens_seen = seen.repeat_interleave(block, 1).repeat_interleave(block, 2)
    return tokens_seen[:, :tokens, :tokens]


class HashedAttention(nn.Module):
    """Reformer's attention, with one round of hashes."""

    def __init__(self, channels, heads, buckets):
        super().__init__()
        self.heads, self.buckets = heads, buckets
        self.qk = nn.Linear(channels, channels, bias=False)
        self.v = nn.Linear(channels, channels, bias=False)
        self.proj = nn.Linear(channels, channels, bias=False)
        self.register_buffer("rotations", torch.randn(channels // heads, 1, buckets // 2))

    def forward(self, x, valid):
        batch, tokens, channels = x.shape
        grown = -(-tokens // self.buckets) * self.buckets
        x, valid = F.pad(x, (0, 0, 0, grown - tokens)), F.pad(valid, (0, grown - tokens))
        q, v = split_heads(self.qk(x), self.heads), split_heads(self.v(x), self.heads)
        with torch.no_grad():
            z = q @ self.rotations[:, 0].to(q.dtype)
            bucket = torch.cat([z, -z], -1).argmax(-1)
            bucket = torch.where(valid[:, None], bucket, self.buckets)
            order = bucket.argsort(dim=-1, stable=True)  # [B, H, N]
        rows = order[..., None].expand(-1, -1, -1, q.shape[-1])
        length = grown // self.buckets
        in_chunks = lambda y: y.unflatten(2, (self.buckets, length))
        with_last = lambda y: torch.cat([y.roll(1, 2), y], 3)
        sorted_q = in_chunks(q.gather(2, rows))
        keys = with_last(sorted_q / sorted_q.norm(dim=-1, keepdim=True).clamp(min=1e-12))
        values = with_last(in_chunks(v.gather(2, rows)))
        at = in_chunks(order)
        counts = in_chunks(valid[:, None].expand_as(order).gather(2, order))
        scores = sorted_q @ keys.transpose(-1, -2)
        scores = scores.masked_fill(~with_last(counts)[..., None, :], -1e9)
        itself = at[..., :, None] == with_last(at)[..., None, :]
        mixed = scores.masked_fill(itself, -1e5).softmax(-1) @ values
        back = order.argsort(-1)[..., None].expand(-1, -1, -1, q.shape[-1])
        mixed = mixed.flatten(2, 3).gather(2, back)[:, :, :tokens]
        return self.proj(mixed.transpose(1, 2).flatten(2))


# --- the model -----------------------------------------------------------------------------------

class Mlp(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(channels, hidden), nn.Linear(hidden, channels)

    def forward(self, x, drop):
        return self.fc2(drop(F.gelu(self.fc1(x), approximate="tanh")))


class Block(nn.Module):
    def __init__(self, channels, heads, hidden, eps, norm, attention):
        super().__init__()
        self.norm1, self.norm2 = (NORMS[norm](channels, heads, eps) for _ in range(2))
        self.attn, self.mlp = attention, Mlp(channels, hidden)

    def forward(self, x, valid, drop):
        x = x + drop(self.attn(self.norm1(x, valid), valid))
        return x + drop(self.mlp(self.norm2(x, valid), drop))


class Head(nn.Module):
    def __init__(self, channels, hidden, classes):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(channels, hidden), nn.Linear(hidden, classes)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


class SequenceTransformer(nn.Module):
    def __init__(self, kind, norm, max_length=2000, channels=512, heads=8, depth=6, mlp_ratio=4,
                 classes=10, eps=1e-6, dropout=0.0, block=64, random_blocks=3, buckets=10):
        super().__init__()
        hidden, tokens = mlp_ratio * channels, max_length + 1

        def attention(layer):
            if kind == "reformer":
                return HashedAttention(channels, heads, buckets)
            mask = block_mask(tokens, heads, block, random_blocks, layer) if kind == "bigbird" else None
            return DenseAttention(channels, heads, mask)

        self.embed = nn.Embedding(17, channels)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, channels))
        self.blocks = nn.ModuleList(Block(channels, heads, hidden, eps, norm, attention(i))
                                    for i in range(depth))
        self.norm = LayerNorm(channels, eps=eps)
        self.head = Head(channels, hidden, classes)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("places", sinusoids(tokens, channels).float(), persistent=False)

    def forward(self, tokens, padded=True):
        """tokens [B, T], 0 for pads; logits. Without pads nothing is masked, which is faster."""
        x = torch.cat([self.cls_token.expand(len(tokens), -1, -1), self.embed(tokens)], 1)
        x = self.drop(x + self.places[:x.shape[1]].to(x.dtype))
        valid = F.pad(tokens > 0, (1, 0), value=True) if padded else None
        for block in self.blocks:
            x = block(x, valid, self.drop)
        return self.head(self.norm(x[:, 0]))
