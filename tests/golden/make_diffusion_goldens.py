#!/usr/bin/env python3
"""Writes tests/golden/diffusion: the loss of diffusion models and ten training steps of a small
diffusion transformer in float64. Needs PyTorch. The tests read only the files.

  loss.safetensors            output [B, 2 C, H, W], images, noise [B, C, H, W], timesteps [B];
                              noisy [B, C, H, W], mse, vb [B], gradient [B, 2 C, H, W] of the mean
                              of mse + vb, in float64
  dit.yaml                    the config of dtn-train, without the paths of the two files
  dit_data.safetensors        images, noise [12, C, S, S], labels, timesteps, drop [12]
  dit_init.safetensors        initial weights
  dit_expected.safetensors    after the last step: model.*, ema.*; of each of the 10 steps: loss,
                              mse, vb [10]

Batch b of an epoch is rows 4 b .. 4 b + 3. The keys' third of qkv.bias has no gradient but
rounding, which AdamW enlarges; tests in float32 leave it out.

  make_diffusion_goldens.py           writes the files
  make_diffusion_goldens.py --check   prints how far the same steps in float32 end
"""
import copy
import math
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import safetensors_io  # noqa: E402

FOLDER = HERE / "diffusion"
STEPS = 1000
ROWS, BATCH, UPDATES = 12, 4, 10
SIDE, CHANNELS, PATCH, CLASSES = 8, 2, 2, 3
WIDTH, DEPTH, HEADS = 24, 2, 2
LR, EMA = 1e-3, 0.9

CONFIG = f"""name: dit
task: diffusion
seed: 0
model:
  preset: dit_tiny
  image_size: {SIDE}
  channels: {CHANNELS}
  patch_size: {PATCH}
  num_classes: {CLASSES}
  embed_dim: {WIDTH}
  depth: {DEPTH}
  num_heads: {HEADS}
  learn_sigma: true
data:
  dataset: tensors
  shuffle: false
optim:
  name: adamw
  lr: {LR}
  weight_decay: 0
schedule:
  name: constant
  steps: {UPDATES}
train:
  batch_size: {BATCH}
  ema: {EMA}
  log_every: 1
"""


class Process:
    """Gaussian diffusion with a linear variance, as tables in float64."""

    def __init__(self):
        self.beta = torch.linspace(1e-4, 0.02, STEPS, dtype=torch.float64)
        self.abar = torch.cumprod(1 - self.beta, 0)
        before = torch.cat([torch.ones(1, dtype=torch.float64), self.abar[:-1]])
        self.variance = self.beta * (1 - before) / (1 - self.abar)
        self.log_variance = torch.log(torch.cat([self.variance[1:2], self.variance[1:]]))
        self.of_start = self.beta * before.sqrt() / (1 - self.abar)
        self.of_noisy = (1 - before) * (1 - self.beta).sqrt() / (1 - self.abar)

    @staticmethod
    def at(table, t, like):
        return table[t].to(like.dtype)[:, None, None, None]

    def noisy(self, start, noise, t):
        abar = self.at(self.abar, t, start)
        return abar.sqrt() * start + (1 - abar).sqrt() * noise

    def mean(self, start, noisy, t):
        return self.at(self.of_start, t, start) * start + self.at(self.of_noisy, t, start) * noisy

    def losses(self, output, start, noise, t):
        """mse and vb of each image."""
        noisy = self.noisy(start, noise, t)
        predicted, v = output.chunk(2, 1)
        mse = ((noise - predicted) ** 2).flatten(1).mean(1)
        low, high = self.at(self.log_variance, t, v), self.at(self.beta.log(), t, v)
        share = (v + 1) / 2
        log_variance = share * high + (1 - share) * low
        abar = self.at(self.abar, t, start)
        start_hat = (noisy - (1 - abar).sqrt() * predicted.detach()) / abar.sqrt()
        mean, mean_hat = self.mean(start, noisy, t), self.mean(start_hat, noisy, t)
        kl = (log_variance - low - 1 + (low - log_variance).exp()
              + (mean - mean_hat) ** 2 * (-log_variance).exp()) / 2
        nats = torch.where((t == 0)[:, None, None, None],
                           negative_log_mass(start, mean_hat, log_variance), kl)
        return mse, nats.flatten(1).mean(1) / math.log(2)


def below(u):
    return (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u ** 3))) / 2


def negative_log_mass(x, mean, log_variance):
    """Negative log of the mass around the pixel value x, 1 / 255 to each side."""
    scale = (-log_variance / 2).exp()
    high = below((x - mean + 1 / 255) * scale)
    low = below((x - mean - 1 / 255) * scale)
    mass = torch.where(x < -0.999, high, torch.where(x > 0.999, 1 - low, high - low))
    return -mass.clamp(min=1e-12).log()


# The transformer.


def sines_of_rows_and_columns(width, side):
    """The first half of the channels encodes the column: sines, then cosines."""
    quarter = width // 4
    frequency = 10000.0 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)

    def encoded(place):
        angle = place[:, None] * frequency
        return torch.cat([angle.sin(), angle.cos()], 1)

    place = torch.arange(side * side)
    return torch.cat([encoded(place % side), encoded(place // side)], 1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.fc2(functional.gelu(self.fc1(x), approximate="tanh"))


def modulated(x, shift, scale):
    x = functional.layer_norm(x, (WIDTH,), eps=1e-6)
    return x * (1 + scale[:, None]) + shift[:, None]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.mlp = Attention(), Mlp()
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, 6 * WIDTH))

    def forward(self, h, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(c).chunk(6, 1)
        h = h + gate1[:, None] * self.attn(modulated(h, shift1, scale1))
        return h + gate2[:, None] * self.mlp(modulated(h, shift2, scale2))


class Named(nn.Module):
    """Holds modules under the names of the public files."""

    def __init__(self, **modules):
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)


class DiT(nn.Module):
    def __init__(self):
        super().__init__()
        grid = SIDE // PATCH
        self.pos_embed = nn.Parameter(
            rounded(sines_of_rows_and_columns(WIDTH, grid))[None], requires_grad=False)
        self.x_embedder = Named(proj=nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH))
        self.t_embedder = Named(
            mlp=nn.Sequential(nn.Linear(256, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH)))
        self.y_embedder = Named(embedding_table=nn.Embedding(CLASSES + 1, WIDTH))
        self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.final_layer = Named(
            linear=nn.Linear(WIDTH, PATCH * PATCH * 2 * CHANNELS),
            adaLN_modulation=nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, 2 * WIDTH)))

    def forward(self, x, t, label):
        frequency = 10000.0 ** (-torch.arange(128, dtype=torch.float64) / 128)
        angle = t[:, None].double() * frequency
        time = torch.cat([angle.cos(), angle.sin()], 1).to(x.dtype)
        c = self.t_embedder.mlp(time) + self.y_embedder.embedding_table(label)
        h = self.x_embedder.proj(x).flatten(2).transpose(1, 2) + self.pos_embed
        for block in self.blocks:
            h = block(h, c)
        shift, scale = self.final_layer.adaLN_modulation(c).chunk(2, 1)
        h = self.final_layer.linear(modulated(h, shift, scale))
        grid = SIDE // PATCH
        h = h.reshape(-1, grid, grid, PATCH, PATCH, 2 * CHANNELS)
        return torch.einsum("bhwpqc->bchpwq", h).reshape(-1, 2 * CHANNELS, SIDE, SIDE)


# Files.


def rounded(tensor):
    """Rounds to values that float32 holds."""
    return tensor.float().double()


def normal(generator, *shape):
    return rounded(torch.randn(*shape, generator=generator, dtype=torch.float64))


def images_of(generator, *shape):
    """Images in [-1, 1], with some values at the ends."""
    return rounded((1.2 * normal(generator, *shape)).clamp(-1, 1))


def save(name, tensors):
    safetensors_io.save(FOLDER / f"{name}.safetensors", tensors)


def in_float32(tensors):
    return {k: v.float() if v.is_floating_point() else v for k, v in tensors.items()}


def write_loss():
    generator = torch.Generator().manual_seed(3)
    t = torch.tensor([0, 1, 2, 10, 250, 499, 750, 998, 999, 0])
    shape = (len(t), CHANNELS, 4, 5)
    start, noise = images_of(generator, *shape), normal(generator, *shape)
    v = rounded(normal(generator, *shape).tanh() * 1.5)
    error = normal(generator, *shape)
    output = torch.cat([rounded(noise + 0.3 * error), v], 1).requires_grad_()
    process = Process()
    mse, vb = process.losses(output, start, noise, t)
    (mse + vb).mean().backward()
    given = in_float32(dict(output=output.detach(), images=start, noise=noise, timesteps=t))
    save("loss", {**given, "noisy": process.noisy(start, noise, t), "mse": mse.detach(),
                  "vb": vb.detach(), "gradient": output.grad})


def make_data():
    generator = torch.Generator().manual_seed(4)
    shape = (ROWS, CHANNELS, SIDE, SIDE)
    return dict(images=images_of(generator, *shape), noise=normal(generator, *shape),
                labels=torch.tensor([0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 0, 3]),
                timesteps=torch.tensor([0, 999, 1, 500, 20, 300, 700, 100, 5, 640, 850, 0]),
                drop=torch.tensor([0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1]))


def make_model():
    """Weights far from the initial ones, with which most gradients are 0."""
    model = DiT().double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name == "pos_embed":
                continue
            draw = normal(generator, *p.shape)
            p.copy_(rounded(0.2 * draw if p.ndim == 1 else draw / math.sqrt(p[0].numel())))
    return model


def train(model, data):
    """Ten steps. Returns the losses of each step, and the average of the weights."""
    process, average = Process(), copy.deepcopy(model)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LR, weight_decay=0)
    logged = {"loss": [], "mse": [], "vb": []}
    for i in range(UPDATES):
        rows = slice(i * BATCH % ROWS, i * BATCH % ROWS + BATCH)
        batch = {k: v[rows] for k, v in data.items()}
        label = torch.where(batch["drop"] == 1, CLASSES, batch["labels"])
        start, noise, t = batch["images"], batch["noise"], batch["timesteps"]
        output = model(process.noisy(start, noise, t), t, label)
        mse, vb = (loss.mean() for loss in process.losses(output, start, noise, t))
        optimizer.zero_grad()
        (mse + vb).backward()
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()):
                if p.requires_grad:
                    a.mul_(EMA).add_(p, alpha=1 - EMA)
        for name, value in zip(logged, (mse + vb, mse, vb)):
            logged[name].append(value.item())
    return {k: torch.tensor(v, dtype=torch.float64) for k, v in logged.items()}, average


def prefixed(prefix, model):
    return {prefix + k: v.detach() for k, v in model.state_dict().items()}


def write_training():
    data, model = make_data(), make_model()
    (FOLDER / "dit.yaml").write_text(CONFIG)
    save("dit_data", in_float32(data))
    save("dit_init", in_float32(prefixed("", model)))
    logged, average = train(model, data)
    save("dit_expected", {**logged, **in_float32(prefixed("model.", model)),
                          **in_float32(prefixed("ema.", average))})


def check():
    data, model = make_data(), make_model()
    low = make_model().float()
    logged, _ = train(model, data)
    logged32, _ = train(low, in_float32(data))
    for name in logged:
        print(name, logged[name].tolist(), (logged[name] - logged32[name]).abs().max().item())
    for (name, a), b in zip(model.named_parameters(), low.parameters()):
        print(f"{((a - b).abs().max() / a.abs().max()).item():.2e} {name}")


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        check()
    else:
        FOLDER.mkdir(exist_ok=True)
        write_loss()
        write_training()
