"""Diffusion transformers (DiT) in PyTorch, made to be fast: the network, a training step, DDIM.

The condition enters by adaLN-zero, and the model predicts the variance as well. Process and loss
are those of tests/golden/make_diffusion_goldens.py. The results are those of the plain formulas;
dit_parity.py compares them. Done for speed:

  the modulations of all blocks by one product, patches by one product, features of the noise level
  from a table
  attention by scaled_dot_product_attention; modulated norms and gated branches by addcmul
  AdamW fused, the average of the weights by torch._foreach_lerp_
"""
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

from dtn_separable_torch import SeparableTokenNorm

sys.path.append(str(pathlib.Path(__file__).parent.parent / "golden"))
from make_diffusion_goldens import STEPS, Process  # noqa: E402

SIZES = {"s": (384, 12, 6), "b": (768, 12, 12), "l": (1024, 24, 16), "xl": (1152, 28, 16)}
PRESETS = {f"dit_{size}_{patch}": dict(width=width, depth=depth, heads=heads, patch=patch)
           for size, (width, depth, heads) in SIZES.items() for patch in (2, 4, 8)}
CHANNELS, SIDE, CLASSES = 4, 32, 1000
EPS, FREQUENCIES, GUIDED_CHANNELS = 1e-6, 128, 3
LEARNING_RATE, AVERAGE = 1e-4, 0.9999
PROCESS = Process()
SHORT_NAMES = (("x_embedder.proj", "x_embedder"), ("t_embedder.mlp", "t_embedder"),
               ("embedding_table.", ""), ("final_layer.linear", "last"),
               ("final_layer.adaLN_modulation.1", "last_modulation"))  # public, here


# --- The network ---------------------------------------------------------------------------------

def sines(places, count):
    """[N, 2 count]: sines, then cosines of place * 10000^(-k / count)."""
    angle = places[:, None] * 10000.0 ** (-torch.arange(count, dtype=torch.float64) / count)
    return torch.cat([angle.sin(), angle.cos()], 1)


def positions(width, grid):
    """[1, T, width]: the first half of the channels encodes the column, the second half the row."""
    place = torch.arange(math.prod(grid))
    parts = [sines(at, width // 4) for at in (place % grid[1], place // grid[1])]
    return torch.cat(parts, 1)[None].to(torch.get_default_dtype())


def time_features():
    """[STEPS, 2 FREQUENCIES]: cosines, then sines."""
    sine, cosine = sines(torch.arange(STEPS), FREQUENCIES).chunk(2, 1)
    return torch.cat([cosine, sine], 1).to(torch.get_default_dtype())


def xavier(rows, columns):
    layer = nn.Linear(columns, rows)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def zeros(rows, columns):
    layer = nn.Linear(columns, rows)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def modulated(y, shift, scale):
    """y [B, T, D], shift and scale [B, 1, D]."""
    return torch.addcmul(shift.to(y.dtype), y, (1 + scale).to(y.dtype))


def add_branch(x, gate, branch):
    return torch.addcmul(x, gate, branch) if x.dtype == branch.dtype else x + gate * branch


class LayerNorm(nn.Module):
    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], eps=EPS)


class Block(nn.Module):
    def __init__(self, width, heads, make_norm):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = make_norm(), make_norm()
        self.attn = nn.ModuleDict({"qkv": xavier(3 * width, width), "proj": xavier(width, width)})
        self.mlp = nn.ModuleDict({"fc1": xavier(4 * width, width), "fc2": xavier(width, 4 * width)})

    def attention(self, x):
        batch, tokens, width = x.shape
        qkv = self.attn["qkv"](x).view(batch, tokens, 3, self.heads, -1)
        y = F.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4).unbind())
        return self.attn["proj"](y.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x, shift1, scale1, gate1, shift2, scale2, gate2):
        x = add_branch(x, gate1, self.attention(modulated(self.norm1(x), shift1, scale1)))
        y = self.mlp["fc1"](modulated(self.norm2(x), shift2, scale2))
        return add_branch(x, gate2, self.mlp["fc2"](F.gelu(y, approximate="tanh")))


class DiT(nn.Module):
    """`norm`: ln, or dtn in the blocks. `product`: dtn's products, see dtn_separable_torch.py.
    `stream`: the type of the tokens between the blocks, by default that of their sum. Parameters
    have the names of the public code, except SHORT_NAMES and `modulations`, which has the rows of
    all blocks."""

    def __init__(self, width, depth, heads, patch, norm="ln", product="kron", stream=None,
                 channels=CHANNELS, image=(SIDE, SIDE), classes=CLASSES, sigma=True):
        super().__init__()
        self.patch, self.stream, self.depth = patch, stream, depth
        self.grid = image[0] // patch, image[1] // patch
        self.outputs = 2 * channels if sigma else channels
        self.register_buffer("pos_embed", positions(width, self.grid))
        self.register_buffer("time_features", time_features(), persistent=False)
        self.x_embedder = xavier(width, channels * patch * patch)
        self.t_embedder = nn.Sequential(nn.Linear(2 * FREQUENCIES, width), nn.SiLU(),
                                        nn.Linear(width, width))
        for layer in self.t_embedder[::2]:
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
        self.y_embedder = nn.Embedding(classes + 1, width)
        nn.init.normal_(self.y_embedder.weight, std=0.02)

        def make_norm():
            if norm == "ln":
                return LayerNorm()
            return SeparableTokenNorm(width, heads, self.grid, EPS, product, affine=False)

        self.blocks = nn.ModuleList([Block(width, heads, make_norm) for _ in range(depth)])
        self.modulations = zeros(6 * width * depth, width)
        self.last_modulation = zeros(2 * width, width)
        self.last = zeros(patch * patch * self.outputs, width)

    def load_public(self, tensors):
        """Loads tensors with the names of the public code."""
        def joined(kind):
            return torch.cat([tensors[f"blocks.{i}.adaLN_modulation.1.{kind}"]
                              for i in range(self.depth)])

        state = {"modulations.weight": joined("weight"), "modulations.bias": joined("bias")}
        for name, tensor in tensors.items():
            if name.startswith("blocks.") and ".adaLN_modulation." in name:
                continue
            for public, ours in SHORT_NAMES:
                name = name.replace(public, ours)
            state[name] = tensor.flatten(1) if name == "x_embedder.weight" else tensor
        state.setdefault("pos_embed", self.pos_embed)
        self.load_state_dict(state)

    def patches(self, images):
        """[B, C, H, W] -> [B, T, C p p]."""
        (height, width), p = self.grid, self.patch
        cut = images.view(len(images), -1, height, p, width, p).permute(0, 2, 4, 1, 3, 5)
        return cut.reshape(len(images), height * width, -1)

    def joined(self, x):
        """[B, T, p p O], the channel fastest -> [B, O, H, W]."""
        (height, width), p = self.grid, self.patch
        cut = x.view(len(x), height, width, p, p, -1).permute(0, 5, 1, 3, 2, 4)
        return cut.reshape(len(x), self.outputs, height * p, width * p)

    def forward(self, images, times, labels):
        """images [B, C, H, W], times and labels [B] -> [B, O, H, W]."""
        time = self.t_embedder(self.time_features[times])
        condition = F.silu(time + self.y_embedder(labels))
        x = self.x_embedder(self.patches(images)) + self.pos_embed
        x = x.to(self.stream or x.dtype)
        vectors = self.modulations(condition).view(len(x), self.depth, 6, 1, -1)
        for block, of_block in zip(self.blocks, vectors.unbind(1)):
            x = block(x, *of_block.unbind(1))
        shift, scale = self.last_modulation(condition)[:, None].chunk(2, -1)
        return self.joined(self.last(modulated(F.layer_norm(x, x.shape[-1:], eps=EPS), shift,
                                               scale)))


# --- Training ------------------------------------------------------------------------------------

def example_batch(batch):
    """A batch of random latents: images, labels, times, noise."""
    shape = batch, CHANNELS, SIDE, SIDE
    return (torch.randn(shape), torch.arange(batch) % CLASSES, torch.randint(STEPS, (batch,)),
            torch.randn(shape))


class Training:
    """Whole steps: adding noise, forward, loss with the variational bound, backward, AdamW,
    average. `autocast`: products in bfloat16. `compiled`: by torch.compile."""

    def __init__(self, model, autocast=False, compiled=False, lr=LEARNING_RATE, average=AVERAGE):
        self.model, self.autocast, self.share = model, autocast, 1 - average
        self.parameters = list(model.parameters())
        self.averages = [p.detach().clone() for p in self.parameters]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=lr, weight_decay=0, fused=True)
        self.losses = self.forward_and_losses
        if compiled:
            self.losses = torch.compile(self.losses, fullgraph=True, dynamic=False)

    def forward_and_losses(self, images, labels, times, noise):
        noisy = PROCESS.noisy(images, noise, times)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            output = self.model(noisy, times, labels)
        wide = output.to(torch.promote_types(output.dtype, torch.float32))
        mse, bound = PROCESS.losses(wide, images, noise, times)
        return mse.mean(), bound.mean()

    def step(self, batch):
        """Returns the two losses before the step."""
        self.optimizer.zero_grad(set_to_none=True)
        mse, bound = self.losses(*batch)
        (mse + bound).backward()
        with torch.no_grad():
            self.optimizer.step()
            torch._foreach_lerp_(self.averages, self.parameters, self.share)
        return mse.item(), bound.item()


# --- Sampling ------------------------------------------------------------------------------------

def kept_times(steps):
    """The times of DDIM: multiples of the smallest stride that has exactly `steps` of them."""
    stride = -(-STEPS // steps)
    times = range(0, STEPS, stride)
    if len(times) != steps:
        raise ValueError(f"no stride visits exactly {steps} of {STEPS} steps")
    return times


@torch.no_grad()
def sample(run, x, labels, steps, guidance, no_label=CLASSES):
    """DDIM without noise in the steps, from x [B, C, H, W]. `run`: a DiT. Guidance other than 1
    runs it on 2 B rows, with the labels and without."""
    batch, channels = x.shape[:2]
    guided = guidance != 1
    if guided:
        labels = torch.cat([labels, torch.full_like(labels, no_label)])
    times = kept_times(steps)
    bars = PROCESS.abar[torch.tensor(times)].tolist()
    for time, bar, before in reversed(list(zip(times, bars, [1.0, *bars]))):
        rows = torch.cat([x, x]) if guided else x
        noise = run(rows, torch.full((len(rows),), time), labels)[:, :channels]
        if guided:
            noise, none = noise.clone().split(batch)
            noise[:, :GUIDED_CHANNELS] = torch.lerp(none, noise, guidance)[:, :GUIDED_CHANNELS]
        start = (x - math.sqrt(1 - bar) * noise) / math.sqrt(bar)
        x = math.sqrt(before) * start + math.sqrt(1 - before) * noise
    return x
