"""Dynamic Token Normalization by the separable theorem, as a PyTorch module made to be fast.

The exponent of P is a sum of a term in x and a term in y, and the softmax runs over the whole grid,
so P = Py (x) Px, with two small matrices per head. Parameters and results are those of
DynamicTokenNorm in vit_torch.py (variant "paper"), which makes P for all pairs of tokens.
"""
import torch
import torch.nn.functional as F
from torch import nn

from vit_torch import init_local


def aligned(matrices):
    """The same matrices with a row stride of 16 bytes or a multiple, for fast product kernels."""
    width = matrices.shape[-1]
    return F.pad(matrices, (0, -width % 8))[..., :width]


class SeparableTokenNorm(nn.Module):
    """`product`: "kron" multiplies Py (x) Px out and averages over all tokens in one product per
    head, which is fast on tensor cores; "axes" averages along x, then along y. `product_type`: the
    type of the operands of these products, by default that of the input. All else is computed in
    float32 or better. `affine`: False leaves out the gain and the shift."""

    def __init__(self, channels, heads, grid, eps=1e-5, product="kron", product_type=None,
                 affine=True):
        super().__init__()
        self.heads, self.grid, self.eps = heads, grid, eps
        self.product, self.product_type = product, product_type
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None
        self.mean_norm_weight = nn.Parameter(torch.zeros(heads))
        self.var_norm_weight = nn.Parameter(torch.zeros(heads))
        self.pos_proj = nn.Linear(3, heads)  # its bias has no effect under a softmax
        nn.init.zeros_(self.pos_proj.bias)
        init_local(self.pos_proj.weight)
        for name, size in zip(("dy", "dx"), grid):
            at = torch.arange(size, dtype=torch.float32)
            self.register_buffer(name, at[None, :] - at[:, None], persistent=False)

    def positions(self):
        """Py [H, height, height] and Px [H, width, width]."""
        a_x, a_y, a_d = self.pos_proj.weight[:, :, None, None].unbind(1)  # each [H, 1, 1]
        return [(a_d * d * d + a * d).softmax(-1) for a, d in ((a_y, self.dy), (a_x, self.dx))]

    def averaging(self, product_type):
        """P as a function of columns [H, width * height, N], whose tokens are in order of x."""
        p_y, p_x = self.positions()
        (height, width), heads = self.grid, self.heads
        if self.product == "kron":
            p = p_x[:, :, None, :, None] * p_y[:, None, :, None, :]
            p = aligned(p.reshape(heads, width * height, width * height).to(product_type))
            return lambda columns: torch.bmm(p, columns)
        p_x = aligned(p_x.to(product_type))
        p_y = p_y[:, None].expand(-1, width, -1, -1).reshape(heads * width, height, height)
        p_y = aligned(p_y.to(product_type))

        def along_both(columns):
            n = columns.shape[-1]
            rows = torch.bmm(p_x, columns.view(heads, width, height * n))
            return torch.bmm(p_y, rows.view(heads * width, height, n)).view(columns.shape)

        return along_both

    def forward(self, x):
        batch, tokens, channels = x.shape
        (height, width), heads = self.grid, self.heads
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        product_type = self.product_type or x.dtype
        average_columns = self.averaging(product_type)

        def average(values):  # P times [B, height, width, H, D]
            columns = values.permute(3, 2, 1, 0, 4)
            averaged = average_columns(columns.to(product_type).reshape(heads, tokens, -1))
            return averaged.view(columns.shape).permute(3, 2, 1, 0, 4).to(wide.dtype)

        var_ln, mean_ln = torch.var_mean(wide, -1, correction=0)
        mean_ln, var_ln = (s.view(batch, height, width, 1, 1) for s in (mean_ln, var_ln))
        # A shift of a channel does not change its variance. If the mean is far from zero, the
        # difference of the two moments cancels. Relative to any one token, it does not.
        by_head = wide.view(batch, height, width, heads, -1)
        pivot = by_head[:, :1, :1].detach()
        centred = by_head - pivot
        m1 = average(centred)
        v1 = (average(centred * centred) - m1 * m1).clamp(min=0)
        l_mean = self.mean_norm_weight.sigmoid()[:, None]  # [H, 1]
        l_var = self.var_norm_weight.sigmoid()[:, None]
        mean = l_mean * mean_ln + (1 - l_mean) * (m1 + pivot)
        var = l_var * var_ln + (1 - l_var) * v1
        normalized = ((by_head - mean) * torch.rsqrt(var + self.eps)).view(x.shape)
        if self.weight is None:
            return normalized.to(x.dtype)
        return (normalized * self.weight + self.bias).to(x.dtype)
