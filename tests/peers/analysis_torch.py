"""The figures of dtn-analyze in PyTorch, from the definitions in docs/analyze.md.

Everything is dense and in the type of the model (float64), and all images are processed at once.
Nothing is shared with the library: attention is computed from q and k, the means that normalizers
subtract from their formulas, and P is a T x T matrix.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

from norms_torch import BatchNorm, GroupNorm, InstanceNorm, RMSNorm, ScaleNorm, SwitchableNorm
from vit_torch import DynamicTokenNorm

PARTS = ("norm", "attn", "mlp")


def subtracted(norm, x):
    """The input of the normalization, and the mean that it subtracts or None. x [B, T, C]."""
    if isinstance(norm, DynamicTokenNorm):
        batch, tokens, channels = x.shape
        heads = norm.heads
        xs = x.reshape(batch, tokens, heads, -1)
        if norm.variant == "official":
            xs = xs / (xs.square().mean(-1, keepdim=True) + norm.eps).sqrt()
        seen = xs.reshape(batch, tokens, channels)
        pooled = norm.pooled(xs.permute(0, 2, 1, 3))
        across = norm.repeated(norm.positions(1, x) @ pooled).permute(0, 2, 1, 3)
        of_token = seen.mean(-1)[:, :, None, None]
        if norm.only_var:
            share = torch.ones(heads, dtype=x.dtype)
        elif norm.fixed_lambda is None:
            share = norm.mean_norm_weight.sigmoid()
        else:
            share = torch.full((heads,), norm.fixed_lambda, dtype=x.dtype)
        share = share[None, None, :, None]
        return seen, (share * of_token + (1 - share) * across).reshape(x.shape)
    if isinstance(norm, InstanceNorm):
        return x, x.mean(1, keepdim=True).expand_as(x)
    if isinstance(norm, BatchNorm):
        return x, norm.running_mean.expand_as(x)
    if isinstance(norm, GroupNorm):
        groups = x.unflatten(2, (norm.groups, -1))
        return x, groups.mean((1, 3), keepdim=True).expand_as(groups).flatten(2)
    if isinstance(norm, SwitchableNorm):
        share = norm.mean_weight.softmax(0)
        return x, (share[0] * x.mean(1, keepdim=True) + share[1] * x.mean(2, keepdim=True)
                   + share[2] * norm.running_mean.reshape(1, 1, -1)).expand_as(x)
    if isinstance(norm, (RMSNorm, ScaleNorm)):
        return x, None
    return x, x.mean(-1, keepdim=True).expand_as(x)  # LayerNorm


def attention_weights(attn, x):
    b, t, c = x.shape
    q, k, _ = attn.qkv(x).reshape(b, t, 3, attn.heads, -1).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if attn.pos_proj is not None:
        scores = scores + attn.pos_proj(attn.offsets).permute(2, 0, 1)
    return scores.softmax(-1)


def places(grid):
    y, x = torch.meshgrid(torch.arange(grid[0]), torch.arange(grid[1]), indexing="ij")
    return torch.stack([x.reshape(-1), y.reshape(-1)], -1).double()


def attention_figures(a, extra, grid):
    """a [B, H, T, T] with `extra` tokens ahead; the first of them is the class token."""
    patches = a[:, :, extra:]
    alone = patches[..., extra:]
    alone = alone / alone.sum(-1, keepdim=True)
    where = places(grid)
    distance = (alone * torch.cdist(where, where)).sum(-1).mean(-1)  # [B, H]
    logs = torch.where(patches > 0, patches.log(), 0)
    return {
        "attention_distance": distance.mean(0),
        "attention_distance_std": distance.std(0, unbiased=False),
        "attention_to_class": patches[..., 0].mean((0, 2)) if extra else None,
        "attention_entropy": -(patches * logs).sum(-1).mean((0, 2)),
    }


def principal(rows):
    centred = rows - rows.mean(0)
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(rows))
    values, vectors = values.flip(0)[:2].clamp(min=0), vectors.flip(1)[:, :2]
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    share = values / centred.square().sum() * len(rows)
    return share, values.sum().sqrt(), centred @ (vectors * largest.sign())


def site_figures(norm, x, y, extra, grid, heads):
    seen, mean = subtracted(norm, x)
    before, after, seen = x[:, extra:], y[:, extra:], seen[:, extra:]
    length = after.unflatten(2, (heads, -1)).norm(dim=-1)  # [B, T, H]
    full = after.norm(dim=-1)
    figures = {
        "token_magnitude.mean": length.mean((0, 1)),
        "token_magnitude.std": length.std(1, unbiased=False).mean(0),
        "token_magnitude.map": length[0].T.unflatten(1, grid),
        "token_magnitude_full.mean": full.mean(),
        "token_magnitude_full.std": full.std(1, unbiased=False).mean(),
        "variation_coefficient": None,
        "variation_coefficient_median": None,
    }
    if mean is not None:
        mean = mean[:, extra:]
        rest = (seen - mean).unflatten(2, (heads, -1))
        whole = seen.unflatten(2, (heads, -1))
        squares = rest.square().sum((1, 3)) / whole.square().sum((1, 3))
        figures["variation_coefficient"] = squares.sqrt().mean(0)
        ratio = (rest / whole).abs().permute(2, 0, 1, 3).flatten(1)
        figures["variation_coefficient_median"] = ratio.quantile(0.5, dim=1)
    for name, tokens in (("before", before), ("after", after)):
        count = tokens.shape[1]
        unit = tokens / tokens.norm(dim=-1, keepdim=True)
        total = unit.sum(1).square().sum(-1)
        figures["cosine." + name] = ((total - count) / (count * (count - 1))).mean()
        for kind, rows in (("directions", unit), ("raw", tokens)):
            share, spread, points = principal(rows.flatten(0, 1))
            figures[f"pca.{kind}.explained.{name}"] = share
            figures[f"pca.{kind}.spread.{name}"] = spread
            figures[f"points.{kind}.{name}"] = points
    return figures


def position_figures(norm, grid, token):
    """Figures of one row of P over tokens."""
    if not isinstance(norm, DynamicTokenNorm):
        return None
    s, (height, width) = norm.pool, norm.grid
    p = norm.positions(1, norm.weight)[0].double()  # [H, T', T']
    cell = (torch.arange(height)[:, None] // s * (width // s) + torch.arange(width) // s).reshape(-1)
    row = p[:, cell[token]][:, cell] / s ** 2  # [H, T]
    away = places(grid) - places(grid)[token]
    offset = row @ away
    around = row @ away.square().sum(-1) - offset.square().sum(-1)
    logs = torch.where(row > 0, row.log(), 0)
    return {"p_center_token": row.unflatten(1, grid), "p_offset": offset,
            "p_radius": around.clamp(min=0).sqrt(), "p_tokens": (-(row * logs).sum(-1)).exp()}


def rollout(weights, images):
    """weights: [B, H, T, T] of each layer."""
    r = None
    for a in weights:
        m = a[:images].mean(1)
        m = m / 2 + torch.eye(m.shape[-1], dtype=m.dtype) / 2
        if r is not None and r.shape[-1] < m.shape[-1]:
            joined = torch.zeros_like(m)
            joined[:, 0, 0] = 1
            joined[:, 1:, 1:] = r
            r = joined
        r = m if r is None else m @ r
    row = r[:, 0, 1:]
    return row / row.sum(-1, keepdim=True)


def cka(x, y):
    x, y = x - x.mean(0), y - y.mean(0)
    return ((x.T @ y).square().sum() / (x.T @ x).norm() / (y.T @ y).norm()).item()


def rms(x):
    return x.square().mean().sqrt()


class Recorder:
    """Inputs and outputs of the modules of interest, by forward hooks."""

    def __init__(self, model):
        self.seen = {}
        self.handles = []
        for i, block in enumerate(model.blocks):
            for name in ("", "norm1", "attn", "norm2", "mlp"):
                module = block.get_submodule(name) if name else block
                self.handles.append(module.register_forward_hook(self.hook((i, name))))

    def hook(self, key):
        def keep(_, inputs, output):
            self.seen[key] = (inputs[0].detach(), output.detach())
        return keep

    def close(self):
        for handle in self.handles:
            handle.remove()


def gradients(model, images, labels):
    model.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()

    def norm_of(module, which):
        squares = [p.grad.square().sum() for n, p in module.named_parameters()
                   if p.grad is not None and which(n)]
        return torch.stack(squares).sum().sqrt()
    whole = [norm_of(b, lambda n: True) for b in model.blocks]
    parts = [[norm_of(b, lambda n, p=p: n.startswith(p)) for p in PARTS] for b in model.blocks]
    return loss.item(), whole, parts


def analyse(model, images, labels=None, token=None):
    """The keys of one checkpoint as nested lists, and the residual streams for cka()."""
    model.eval()
    recorder = Recorder(model)
    with torch.no_grad():
        model(images)
    recorder.close()
    seen, depth = recorder.seen, len(model.blocks)
    patch = model.patch_embed.proj.kernel_size[0]
    grid = (images.shape[2] // patch, images.shape[3] // patch)
    tokens, heads = grid[0] * grid[1], model.blocks[0].attn.heads
    token = (grid[0] - 1) // 2 * grid[1] + grid[1] // 2 if token is None else token
    extras = [seen[i, ""][0].shape[1] - tokens for i in range(depth)]
    weights = [attention_weights(model.blocks[i].attn, seen[i, "attn"][0]) for i in range(depth)]
    sites = [[site_figures(getattr(b, n), *seen[i, n], extras[i], grid, heads)
              for n in ("norm1", "norm2")] for i, b in enumerate(model.blocks)]
    rows = [[position_figures(getattr(b, n), grid, token) for n in ("norm1", "norm2")]
            for b in model.blocks]
    attention = [attention_figures(a, e, grid) for a, e in zip(weights, extras)]
    stream = [seen[0, ""][0][:, extras[0]:]] + [seen[i, ""][1][:, extras[i]:] for i in range(depth)]

    def per_site(pick, source=sites):
        layers = [[None if s is None else pick(s) for s in layer] for layer in source]
        return [None if all(s is None for s in layer) else layer for layer in layers]

    def lambdas(name):
        return [None if not hasattr(b.norm1, name) else
                [getattr(n, name).sigmoid() for n in (b.norm1, b.norm2)] for b in model.blocks]
    where = places(grid)
    result = {
        "depth": depth, "heads": heads, "grid": list(grid), "center_token": token,
        "token_magnitude": {k: per_site(lambda s: s["token_magnitude." + k])
                            for k in ("mean", "std", "map")},
        "token_magnitude_full": {k: per_site(lambda s: s["token_magnitude_full." + k])
                                 for k in ("mean", "std")},
        "attention_distance_uniform": torch.cdist(where, where).mean(),
        **{k: [layer[k] for layer in attention] for k in attention[0]},
        **{k: per_site(lambda s: s[k]) for k in ("variation_coefficient",
                                                 "variation_coefficient_median")},
        "lambda_mean": lambdas("mean_norm_weight"), "lambda_var": lambdas("var_norm_weight"),
        **{k: per_site(lambda s: s[k], rows) for k in ("p_center_token", "p_offset", "p_radius",
                                                       "p_tokens")},
        "pca": {kind: {k: per_site(lambda s: [s[f"pca.{kind}.{k}.{w}"] for w in
                                              ("before", "after")])
                       for k in ("explained", "spread")} for kind in ("directions", "raw")},
        "pca_points": {w: sites[0][0]["points.directions." + w][:2048]
                       for w in ("before", "after")},
        "token_cosine": per_site(lambda s: [s["cosine.before"], s["cosine.after"]]),
        "rollout": rollout(weights, 8).unflatten(1, grid),
        "residual_rms": [rms(s) for s in stream],
        "branch_rms": [[rms(seen[i, n][1][:, extras[i]:]) for n in ("attn", "mlp")]
                       for i in range(depth)],
        "loss": None, "gradient_norm": None, "branch_gradient_norm": None,
    }
    if labels is not None:
        loss, whole, parts = gradients(model, images, labels)
        result.update(loss=loss, gradient_norm=whole, branch_gradient_norm=parts)
    return plain(result), [s.flatten(0, 1) for s in stream]


def plain(value):
    """Tensors as nested lists."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def cka_matrix(a, b):
    return [[cka(x, y) for y in b] for x in a]
