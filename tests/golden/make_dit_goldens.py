#!/usr/bin/env python3
"""Writes tests/golden/data/dit.txt: outputs and gradients of small diffusion transformers.

The networks below are written from the paper (Peebles and Xie, arXiv 2212.09748) and run in
float64. Needs PyTorch. The test reads only the file, so this runs again only when a case is added.

Layout of the file, one case after the other:
    case NAME
    model KEYS                              of the config
    tensor NAME SHIFT SCALE SHAPE...        values(seed) * SCALE + SHIFT, seed = 1, 2, ...
    output SHAPE... : VALUES...
    gradient NAME LARGEST PROJECTION VALUES...   of sum(output * values(kWeights))
"""
import math
import pathlib

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
BATCH, HEIGHT, WIDTH, PATCH, CHANNELS, CLASSES = 3, 4, 6, 2, 2, 5
D, DEPTH, HEADS = 16, 2, 2
GRID = (HEIGHT // PATCH, WIDTH // PATCH)
TOKENS = GRID[0] * GRID[1]
TIMESTEPS, LABELS = [0, 999, 437], [0, CLASSES, 3]
IMAGES, WEIGHTS, PROJECTION = 1000, 2000, 3000  # seeds
SAMPLES = 3  # values written of each gradient
EPS = 1e-6


def values(seed, count):
    """`count` numbers in [-1, 1) with 16 bits, the same in the test."""
    out = []
    for i in range(count):
        h = (i * 2654435761 + seed * 40503) & 0xFFFFFFFF
        h ^= h >> 13
        h = h * 0x5BD1E995 & 0xFFFFFFFF
        h ^= h >> 15
        out.append((h >> 16) / 32768 - 1)
    return torch.tensor(out, dtype=torch.float64)


def positions():
    """Sines, then cosines: the column in the first half of the channels, the row in the second."""
    n = D // 4
    omega = 10000 ** (-torch.arange(n, dtype=torch.float64) / n)
    rows, columns = torch.meshgrid(torch.arange(GRID[0]), torch.arange(GRID[1]), indexing="ij")
    parts = []
    for place in (columns, rows):
        phase = place.reshape(-1, 1) * omega
        parts += [phase.sin(), phase.cos()]
    return torch.cat(parts, 1).unsqueeze(0)


def shapes(into, norm, sigma, classes, affine):
    """Names and shapes of the parameters, without the fixed positions."""
    all_ = {"x_embedder.proj.weight": (D, CHANNELS, PATCH, PATCH), "x_embedder.proj.bias": (D,)}

    def linear(name, rows, columns):
        all_[name + ".weight"], all_[name + ".bias"] = (rows, columns), (rows,)

    linear("t_embedder.mlp.0", D, 256)
    linear("t_embedder.mlp.2", D, D)
    if classes:
        all_["y_embedder.embedding_table.weight"] = (classes + 1, D)
    vectors = {"adaln_zero": 6, "adaln": 4}.get(into, 0)
    for i in range(DEPTH):
        b = f"blocks.{i}."
        norms = ["norm1", "norm2"] + (["norm_cross"] if into == "cross_attention" else [])
        for n in norms:
            if affine:
                all_[b + n + ".weight"], all_[b + n + ".bias"] = (D,), (D,)
            if norm == "dtn":
                all_[b + n + ".mean_norm_weight"] = all_[b + n + ".var_norm_weight"] = (HEADS,)
                all_[b + n + ".pos_proj.weight"] = (HEADS, 3)
                all_[b + n + ".pos_proj.bias"] = (HEADS,)
        linear(b + "attn.qkv", 3 * D, D)
        linear(b + "attn.proj", D, D)
        if into == "cross_attention":
            linear(b + "cross_attn.q", D, D)
            linear(b + "cross_attn.kv", 2 * D, D)
            linear(b + "cross_attn.proj", D, D)
        linear(b + "mlp.fc1", 4 * D, D)
        linear(b + "mlp.fc2", D, 4 * D)
        if vectors:
            linear(b + "adaLN_modulation.1", vectors * D, D)
    if vectors:
        linear("final_layer.adaLN_modulation.1", 2 * D, D)
    linear("final_layer.linear", PATCH * PATCH * CHANNELS * (2 if sigma else 1), D)
    return all_


class Net:
    """Runs a network on parameters by name."""

    def __init__(self, into, norm, parameters):
        self.into, self.kind, self.p = into, norm, parameters

    def linear(self, name, x):
        return x @ self.p[name + ".weight"].T + self.p[name + ".bias"]

    def layer_norm(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + EPS)

    def token_norm(self, name, x):
        """Equations 4 to 7 of Dynamic Token Normalization, without gain and shift."""
        batch, tokens, width = x.shape
        row, column = torch.arange(tokens) // GRID[1], torch.arange(tokens) % GRID[1]
        dx = (column[None, :] - column[:, None]).double()
        dy = (row[None, :] - row[:, None]).double()
        offsets = torch.stack([dx, dy, dx * dx + dy * dy], -1)
        scores = torch.einsum("ijk,hk->hij", offsets, self.p[name + ".pos_proj.weight"])
        scores = scores + self.p[name + ".pos_proj.bias"][:, None, None]
        weights = scores.softmax(-1)
        heads = x.reshape(batch, tokens, HEADS, width // HEADS)
        m = torch.einsum("hij,bjhd->bihd", weights, heads)
        v = torch.einsum("hij,bjhd->bihd", weights, heads * heads) - m * m
        mean = x.mean(-1)[..., None, None]
        variance = ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1)[..., None, None]
        lm = torch.sigmoid(self.p[name + ".mean_norm_weight"])[:, None]
        lv = torch.sigmoid(self.p[name + ".var_norm_weight"])[:, None]
        mu, var = lm * mean + (1 - lm) * m, lv * variance + (1 - lv) * v
        return ((heads - mu) / torch.sqrt(var + EPS)).reshape(x.shape)

    def norm(self, name, x):
        y = self.token_norm(name, x) if self.kind == "dtn" else self.layer_norm(x)
        if name + ".weight" in self.p:
            y = y * self.p[name + ".weight"] + self.p[name + ".bias"]
        return y

    def heads(self, x):
        return x.reshape(*x.shape[:2], HEADS, D // HEADS).transpose(1, 2)

    def attend(self, q, k, v):
        q, k, v = self.heads(q), self.heads(k), self.heads(v)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(D // HEADS)).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)

    def attention(self, name, x):
        q, k, v = self.linear(name + ".qkv", x).chunk(3, -1)
        return self.linear(name + ".proj", self.attend(q, k, v))

    def cross_attention(self, name, x, condition):
        k, v = self.linear(name + ".kv", condition).chunk(2, -1)
        return self.linear(name + ".proj", self.attend(self.linear(name + ".q", x), k, v))

    def mlp(self, name, x):
        return self.linear(name + ".fc2", F.gelu(self.linear(name + ".fc1", x), approximate="tanh"))

    def condition(self, timesteps, labels):
        n = 128
        phase = timesteps[:, None] * 10000 ** (-torch.arange(n, dtype=torch.float64) / n)
        features = torch.cat([phase.cos(), phase.sin()], 1)
        time = self.linear("t_embedder.mlp.2", F.silu(self.linear("t_embedder.mlp.0", features)))
        table = self.p.get("y_embedder.embedding_table.weight")
        return [time] if table is None else [time, table[labels]]

    def block(self, name, h, c, condition):
        def modulated(y, shift, scale):
            return y * (1 + scale[:, None]) + shift[:, None]

        if self.into == "adaln_zero":
            s1, a1, g1, s2, a2, g2 = self.linear(name + "adaLN_modulation.1", c).chunk(6, -1)
            h = h + g1[:, None] * self.attention(name + "attn",
                                                 modulated(self.norm(name + "norm1", h), s1, a1))
            return h + g2[:, None] * self.mlp(name + "mlp",
                                              modulated(self.norm(name + "norm2", h), s2, a2))
        if self.into == "adaln":
            s1, a1, s2, a2 = self.linear(name + "adaLN_modulation.1", c).chunk(4, -1)
            h = h + self.attention(name + "attn", modulated(self.norm(name + "norm1", h), s1, a1))
            return h + self.mlp(name + "mlp", modulated(self.norm(name + "norm2", h), s2, a2))
        h = h + self.attention(name + "attn", self.norm(name + "norm1", h))
        if self.into == "cross_attention":
            h = h + self.cross_attention(name + "cross_attn", self.norm(name + "norm_cross", h),
                                         condition)
        return h + self.mlp(name + "mlp", self.norm(name + "norm2", h))

    def forward(self, images, timesteps, labels):
        patches = images.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH)
        patches = patches.permute(0, 2, 3, 1, 4, 5).reshape(BATCH, TOKENS, -1)
        weight = self.p["x_embedder.proj.weight"].flatten(1)
        h = patches @ weight.T + self.p["x_embedder.proj.bias"] + positions()
        vectors = self.condition(timesteps, labels)
        c, condition = F.silu(sum(vectors)), torch.stack(vectors, 1)
        if self.into == "in_context":
            h = torch.cat([condition, h], 1)
        for i in range(DEPTH):
            h = self.block(f"blocks.{i}.", h, c, condition)
        if self.into == "in_context":
            h = h[:, len(vectors):]
        y = self.layer_norm(h)
        if self.into.startswith("adaln"):
            shift, scale = self.linear("final_layer.adaLN_modulation.1", c).chunk(2, -1)
            y = y * (1 + scale[:, None]) + shift[:, None]
        y = self.linear("final_layer.linear", y)
        y = y.reshape(BATCH, *GRID, PATCH, PATCH, -1)
        return torch.einsum("bhwijc->bchiwj", y).reshape(BATCH, -1, HEIGHT, WIDTH)


# into, norm, learned variance, classes, gains and shifts of the norms
CASES = {
    "zero": ("adaln_zero", "ln", True, CLASSES, False),
    "zero_dtn": ("adaln_zero", "dtn", False, CLASSES, False),
    "zero_affine": ("adaln_zero", "ln", False, CLASSES, True),
    "zero_dtn_affine": ("adaln_zero", "dtn", False, CLASSES, True),
    "zero_no_classes": ("adaln_zero", "ln", False, 0, False),
    "adaln": ("adaln", "ln", False, CLASSES, False),
    "adaln_dtn": ("adaln", "dtn", True, CLASSES, False),
    "in_context": ("in_context", "ln", True, CLASSES, True),
    "cross": ("cross_attention", "ln", False, CLASSES, True),
    "cross_dtn": ("cross_attention", "dtn", True, CLASSES, True),
}


def range_of(name, shape):
    """Middle and half width of a tensor's values, powers of two so that float32 holds them."""
    if len(shape) == 1:
        return (1.0, 0.5) if name.endswith("norm1.weight") or name.endswith("norm2.weight") or \
            name.endswith("norm_cross.weight") else (0.0, 0.25)
    if "pos_proj" in name or "embedding_table" in name:
        return 0.0, 0.5
    return 0.0, 2.0 ** round(math.log2(math.sqrt(4 / math.prod(shape[1:]))))


def numbers(tensor):
    return " ".join(f"{v:.9g}" for v in tensor.reshape(-1).tolist())


def write_case(out, name, case):
    into, norm, sigma, classes, affine = case
    keys = (f"preset: dit_tiny, image_size: [{HEIGHT}, {WIDTH}], patch_size: {PATCH}, "
            f"channels: {CHANNELS}, num_classes: {classes}, embed_dim: {D}, depth: {DEPTH}, "
            f"num_heads: {HEADS}, learn_sigma: {'true' if sigma else 'false'}, "
            f"condition: {{into: {into}}}, norm: {{type: {norm}, "
            f"affine: {'true' if affine else 'false'}}}")
    print("case", name, file=out)
    print("model", keys, file=out)
    parameters = {}
    for seed, (tensor, shape) in enumerate(shapes(into, norm, sigma, classes, affine).items(), 1):
        shift, scale = range_of(tensor, shape)
        value = (values(seed, math.prod(shape)) * scale + shift).reshape(shape)
        parameters[tensor] = value.requires_grad_()
        print("tensor", tensor, f"{shift:g} {scale:g}", *shape, file=out)
    images = values(IMAGES, BATCH * CHANNELS * HEIGHT * WIDTH)
    images = images.reshape(BATCH, CHANNELS, HEIGHT, WIDTH)
    output = Net(into, norm, parameters).forward(images, torch.tensor(TIMESTEPS).double(),
                                                 torch.tensor(LABELS))
    print("output", *output.shape, ":", numbers(output), file=out)
    (output.reshape(-1) * values(WEIGHTS, output.numel())).sum().backward()
    for tensor, value in parameters.items():
        gradient = value.grad.reshape(-1)
        count = gradient.numel()
        some = gradient[[k * count // SAMPLES for k in range(SAMPLES)]]
        projection = (gradient * values(PROJECTION, count)).sum()
        print("gradient", tensor, numbers(gradient.abs().max()), numbers(projection),
              numbers(some), file=out)


def main():
    with open(HERE / "data" / "dit.txt", "w") as out:
        for name, case in CASES.items():
            write_case(out, name, case)


if __name__ == "__main__":
    main()
