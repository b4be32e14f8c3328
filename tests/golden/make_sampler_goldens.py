#!/usr/bin/env python3
"""Writes tests/golden/data/samplers.txt: samples of a small diffusion transformer.

The loops below are written from the papers of DDPM, DDIM and improved DDPM and run in float64, with
the network of make_dit_goldens.py. Needs PyTorch. The tests read only the file, so this runs again
only when a case is added.

Layout of the file:
    model KEYS                              of the config
    tensor NAME SHIFT SCALE SHAPE...        values(seed) * SCALE + SHIFT, seed = 1, 2, ...
    case NAME SAMPLER GUIDANCE ETA CLIP SIGMA : VALUES...   samples [N, C, H, W]
Cases with SIGMA 1 use the first network, with a learned variance; the others use the second. Each
network has a `model` line and its tensors. The noise is values(1000) * NOISE for x [N, C, H, W],
and values(2000 + k) * NOISE for z of step k. The config has diffusion.beta_end 0.004.
"""
import math
import pathlib

import torch

import make_dit_goldens as dit

STEPS, KEPT, LABELS, CLASSES = 1000, 20, [3, 0], 5
CHANNELS, SIDE = 4, 4
BETA_END = 0.004  # keeps the samples of a network without training small
NOISE = 1.75  # about sqrt(3), the inverse of the deviation of values()

dit.CHANNELS, dit.HEIGHT, dit.WIDTH, dit.PATCH, dit.CLASSES = CHANNELS, SIDE, SIDE, 2, CLASSES
dit.GRID = (SIDE // 2, SIDE // 2)
dit.TOKENS = dit.GRID[0] * dit.GRID[1]


def network(sigma, out):
    keys = (f"preset: dit_tiny, image_size: {SIDE}, patch_size: 2, channels: {CHANNELS}, "
            f"num_classes: {CLASSES}, embed_dim: {dit.D}, depth: {dit.DEPTH}, "
            f"num_heads: {dit.HEADS}, label_dropout: 0.1, "
            f"learn_sigma: {'true' if sigma else 'false'}, norm: {{type: ln}}")
    print("model", keys, file=out)
    parameters = {}
    all_ = dit.shapes("adaln_zero", "ln", sigma, CLASSES, False)
    for seed, (name, shape) in enumerate(all_.items(), 1):
        shift, scale = dit.range_of(name, shape)
        parameters[name] = (dit.values(seed, math.prod(shape)) * scale + shift).reshape(shape)
        print("tensor", name, f"{shift:g} {scale:g}", *shape, file=out)
    net = dit.Net("adaln_zero", "ln", parameters)

    def run(x, t, labels):
        dit.BATCH = len(labels)
        return net.forward(x, torch.full([len(labels)], t).double(), torch.tensor(labels))

    return run


def noise(seed):
    count = len(LABELS) * CHANNELS * SIDE * SIDE
    return dit.values(seed, count).reshape(-1, CHANNELS, SIDE, SIDE) * NOISE


def kept_steps(sampler):
    if sampler == "ddim":
        stride = next(i for i in range(1, STEPS) if len(range(0, STEPS, i)) == KEPT)
        return list(range(0, STEPS, stride))
    steps, position = [], 0.0
    for _ in range(KEPT):
        steps.append(round(position))
        position += (STEPS - 1) / (KEPT - 1)
    return steps


def sample(net, sampler, guidance, eta, clip, sigma):
    beta = torch.linspace(1e-4, BETA_END, STEPS, dtype=torch.float64)
    all_bars = torch.cumprod(1 - beta, 0)
    times = kept_steps(sampler)
    bars = [float(all_bars[t]) for t in times]
    before = [1.0] + bars[:-1]
    betas = [1 - a / b for a, b in zip(bars, before)]
    posterior = [be * (1 - b) / (1 - a) for be, a, b in zip(betas, bars, before)]
    x = noise(1000)
    for k, i in enumerate(reversed(range(KEPT))):
        output = net(x, times[i], LABELS)
        e = output[:, :CHANNELS].clone()
        if guidance != 1:
            none = net(x, times[i], [CLASSES] * len(LABELS))
            e[:, :3] = none[:, :3] + guidance * (e[:, :3] - none[:, :3])
        a, b = bars[i], before[i]
        start = (x - math.sqrt(1 - a) * e) / math.sqrt(a)
        if clip:
            start = start.clamp(-1, 1)
        z = noise(2000 + k)
        if sampler == "ddim":
            e = (x - math.sqrt(a) * start) / math.sqrt(1 - a)
            deviation = eta * math.sqrt((1 - b) / (1 - a)) * math.sqrt(1 - a / b)
            x = math.sqrt(b) * start + math.sqrt(1 - b - deviation**2) * e + deviation * z
            continue
        mean = (betas[i] * math.sqrt(b) / (1 - a) * start +
                (1 - b) * math.sqrt(1 - betas[i]) / (1 - a) * x)
        log_variance = torch.full_like(x, math.log(betas[i]))
        if sigma:
            share = (output[:, CHANNELS:] + 1) / 2
            low = math.log(posterior[max(i, 1)])
            log_variance = share * math.log(betas[i]) + (1 - share) * low
        x = mean + (torch.exp(log_variance / 2) * z if i > 0 else 0)
    return x


# sampler, guidance, eta, clipped, learned variance
CASES = {
    "ddim": ("ddim", 1.5, 0, False, True),
    "ddim_unguided": ("ddim", 1, 0, False, False),
    "ddim_eta": ("ddim", 1.5, 0.5, False, False),
    "ddim_clip": ("ddim", 1.5, 0, True, True),
    "ddpm_learned": ("ddpm", 1.5, 0, False, True),
    "ddpm_fixed": ("ddpm", 1.5, 0, False, False),
    "ddpm_clip": ("ddpm", 1.5, 0, True, True),
}


def main():
    with open(pathlib.Path(__file__).parent / "data" / "samplers.txt", "w") as out:
        nets = {sigma: network(sigma, out) for sigma in (True, False)}
        for name, (sampler, guidance, eta, clip, sigma) in CASES.items():
            with torch.no_grad():
                samples = sample(nets[sigma], sampler, guidance, eta, clip, sigma)
            print("case", name, sampler, guidance, eta, int(clip), int(sigma), ":",
                  dit.numbers(samples), file=out)


if __name__ == "__main__":
    main()
