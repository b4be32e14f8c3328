#!/usr/bin/env python3
"""Writes tests/golden/data/norms.txt: results of PyTorch's normalizers, in float64.

Needs PyTorch (Debian 12: python3-torch). The test reads only the file, so this runs again only when
a case is added. Each line has a case, the name of a result (y, dx, dweight, dbias, running_mean,
running_var) and its values. Inputs come from values(), which the test repeats.
"""
import pathlib

import torch
from torch import nn

BATCH, TOKENS, CHANNELS, HEADS, EPS = 3, 7, 12, 4, 1e-5


def values(seed, count):
    """Uniform in [-1, 1), exact in float32."""
    mask, out = 0xFFFFFFFF, []
    for i in range(count):
        h = (i * 2654435761 + seed * 40503) & mask
        h ^= h >> 13
        h = h * 0x5BD1E995 & mask
        h ^= h >> 15
        out.append((h >> 16) / 32768 - 1)
    return torch.tensor(out, dtype=torch.float64)


def tokens(seed, scale=2.0, shift=0.5):
    return (values(seed, BATCH * TOKENS * CHANNELS) * scale + shift).reshape(BATCH, TOKENS, CHANNELS)


def parameters(module):
    with torch.no_grad():
        module.weight.copy_(values(101, CHANNELS))
        module.bias.copy_(values(102, CHANNELS))
    return module


def write(out, case, **tensors):
    for name, tensor in tensors.items():
        numbers = " ".join(f"{v:.15g}" for v in tensor.detach().reshape(-1).tolist())
        print(case, name, numbers, file=out)


def run(out, case, module, seed):
    x = tokens(seed).requires_grad_()
    module.zero_grad()
    y = module(x.transpose(1, 2)).transpose(1, 2)
    y.backward(tokens(seed + 50, 1.0, 0.0))
    write(out, case, y=y, dx=x.grad, dweight=module.weight.grad, dbias=module.bias.grad)


def main():
    with open(pathlib.Path(__file__).parent / "data" / "norms.txt", "w") as out:
        run(out, "in", parameters(nn.InstanceNorm1d(CHANNELS, EPS, affine=True).double()), 1)
        run(out, "gn_heads", parameters(nn.GroupNorm(HEADS, CHANNELS, EPS).double()), 2)
        run(out, "gn_1", parameters(nn.GroupNorm(1, CHANNELS, EPS).double()), 3)
        batch = parameters(nn.BatchNorm1d(CHANNELS, EPS, momentum=0.3).double())
        for step, seed in (("bn_first", 4), ("bn_second", 5)):
            run(out, step, batch, seed)
            write(out, step, running_mean=batch.running_mean, running_var=batch.running_var)
        batch.eval()
        run(out, "bn_eval", batch, 6)


if __name__ == "__main__":
    main()
