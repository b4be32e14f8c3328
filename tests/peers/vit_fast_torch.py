"""A faster vision transformer with the parameters and results of vit_torch.py.

Differences, each with the same result: patches by one matrix product, attention by PyTorch's
kernels, one kernel for drop path and the sum with the residual, all masks of drop path drawn at
once, and a last block that computes only the class token's row.
"""
import torch
import torch.nn.functional as F

from dtn_separable_torch import SeparableTokenNorm
from vit_torch import DynamicTokenNorm, VisionTransformer


class ReleasedTokenNorm(DynamicTokenNorm):
    """The dense module. With bfloat16 activations it computes under autocast."""

    def forward(self, x):
        if x.dtype != torch.bfloat16:
            return super().forward(x)
        with torch.autocast(x.device.type, torch.bfloat16):
            return super().forward(x).to(x.dtype)


def make_norm(variant):
    """Returns the argument `norm` of VisionTransformer."""
    if variant.norm == "ln":
        return "ln"
    if variant.source == "released":
        return lambda channels, heads, grid, eps: ReleasedTokenNorm(
            channels, heads, grid, eps, folded=variant.product == "batch")
    return lambda channels, heads, grid, eps: SeparableTokenNorm(
        channels, heads, grid, eps, variant.product,
        torch.float32 if variant.statistics == "tf32" else None)


def add_branch(x, branch, kept):
    """x + kept * branch, in one kernel where the types allow it."""
    kept = kept.view(-1, *[1] * (x.dim() - 1))
    return torch.addcmul(x, branch, kept) if x.dtype == branch.dtype else x + branch * kept


def attend_of_one(q, k, v):
    """Attention of one query: q is [B, 1, H, D], k and v are [B, T, H, D]. No attention kernel is
    made for so few products; a compiler handles them best."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q * k).sum(-1, keepdim=True, dtype=wide) * q.shape[-1] ** -0.5  # [B, T, H, 1]
    return (scores.softmax(1).to(v.dtype) * v).sum(1)


def smoothed_loss(logits, labels):
    wide = torch.promote_types(logits.dtype, torch.float32)
    return F.cross_entropy(logits.to(wide), labels, label_smoothing=0.1)


class FastVisionTransformer(VisionTransformer):
    """Calls need `kept` [2 depth, B] in the type of the activations: the factor of each branch for
    each image, 0 where drop path leaves it out."""

    def __init__(self, variant, **shape):
        super().__init__(norm=make_norm(variant), **shape)
        self.last_row = variant.rows == "lastrow"
        self.convolve = variant.patches == "conv"
        self.attend = F.scaled_dot_product_attention
        if variant.attention == "flex":
            from torch.nn.attention.flex_attention import flex_attention
            self.attend = flex_attention

    def embed(self, images):
        projection = self.patch_embed.proj
        if self.convolve:
            return self.patch_embed(images) + self.pos_embed
        batch, channels, height, width = images.shape
        p = projection.kernel_size[0]
        patches = images.view(batch, channels, height // p, p, width // p, p)
        patches = patches.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * p * p)
        return F.linear(patches, projection.weight.flatten(1), projection.bias) + self.pos_embed

    def attention(self, attn, x):
        batch, tokens, channels = x.shape
        qkv = attn.qkv(x).view(batch, tokens, 3, attn.heads, -1)
        y = self.attend(*qkv.permute(2, 0, 3, 1, 4).unbind())
        return attn.proj(y.transpose(1, 2).reshape(batch, tokens, channels))

    def class_token_attention(self, attn, x):
        batch, tokens, channels = x.shape
        of_q, of_kv = attn.qkv.weight.split((channels, 2 * channels))
        q = F.linear(x[:, 0], of_q).view(batch, 1, attn.heads, -1)
        kv = F.linear(x, of_kv).view(batch, tokens, 2, attn.heads, -1)
        return attn.proj(attend_of_one(q, *kv.unbind(2)).reshape(batch, channels))

    def forward(self, images, kept):
        x = self.embed(images.to(kept.dtype))
        for i, block in enumerate(self.blocks):
            if i == self.cls_at:
                x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)
            last = self.last_row and i + 1 == len(self.blocks)
            attention = self.class_token_attention if last else self.attention
            branch = attention(block.attn, block.norm1(x))
            x = add_branch(x[:, 0] if last else x, branch, kept[2 * i])
            x = add_branch(x, block.mlp(block.norm2(x)), kept[2 * i + 1])
        return self.head(self.norm(x) if self.last_row else self.norm(x)[:, 0])
