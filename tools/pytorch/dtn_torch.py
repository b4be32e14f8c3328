"""Vision transformers trained by dtn, as PyTorch modules. One file, which needs PyTorch 2 alone.

    import dtn_torch
    model = dtn_torch.load("runs/vit_s_star_dtn")    # a run, a checkpoint folder or a file of one
    logits = model(images)                           # [N, C, H, W] float32, normalized -> [N, K]
    dtn_torch.save(model, "tuned.safetensors")       # for dtn-eval, dtn-train and the others

The module is on the CPU and in eval mode; it trains as any other after model.train(). Names in its
state_dict are those in the file, which are timm's. Covered are LayerNorm and every variant of DTN,
with all options of dtn's vision transformers. `model.config` is the config of the run,
`model.class_names` what its classes are called, where the file says so.
"""
import ctypes
import json
import os
import pathlib
import re
import struct

import torch
import torch.nn.functional as F
from torch import nn

# --- files ----------------------------------------------------------------------------------------

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
           "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8}


def read_safetensors(path):
    """({name: tensor}, metadata) of a file, without the library."""
    data = pathlib.Path(path).read_bytes()
    try:
        (length,) = struct.unpack("<Q", data[:8])
        table = json.loads(data[8:8 + length])
        metadata = table.pop("__metadata__", {})
        tensors = {}
        for name, entry in table.items():
            begin, end = entry["data_offsets"]
            raw = torch.frombuffer(bytearray(data[8 + length + begin:8 + length + end]),
                                   dtype=torch.uint8)
            tensors[name] = raw.view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    except (struct.error, ValueError, KeyError, RuntimeError, AttributeError) as e:
        raise ValueError(f"{path}: not a safetensors file, or damaged ({e})") from None
    return tensors, metadata


def write_safetensors(path, tensors, metadata):
    names = {dtype: name for name, dtype in _DTYPES.items()}
    table, blobs, offset = {"__metadata__": metadata}, [], 0
    for name, t in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        t = t.detach().cpu().contiguous()
        blob = ctypes.string_at(t.data_ptr(), t.numel() * t.element_size())
        table[name] = {"dtype": names[t.dtype], "shape": list(t.shape),
                       "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    header = json.dumps(table).encode()
    header += b" " * (-len(header) % 8)
    aside = f"{path}.tmp-{os.getpid()}"
    with open(aside, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.writelines(blobs)
    os.replace(aside, path)


def _scalar(text):
    text = text.strip()
    if text.startswith('"'):
        return json.loads(text, strict=False)
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    if text in ("null", "~", ""):
        return None
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def parse_config(text):
    """The resolved config in a checkpoint: maps by indentation, scalars, and lists in brackets.
    This is all of YAML that dtn writes."""
    root = {}
    open_maps = [(-1, root)]
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        key, _, value = line.strip().partition(":")
        while open_maps[-1][0] >= indent:
            open_maps.pop()
        parent, value = open_maps[-1][1], value.strip()
        if value == "":
            parent[key] = {}
            open_maps.append((indent, parent[key]))
        elif value.startswith("["):
            items = re.findall(r'"(?:[^"\\]|\\.)*"|[^,\[\]"]+', value)
            parent[key] = [_scalar(v) for v in items if v.strip()]
        else:
            parent[key] = _scalar(value)
    return root


def _weights_file(path, ema):
    path = pathlib.Path(path)
    if path.is_file():
        return path
    name = "ema.safetensors" if ema else "model.safetensors"
    for folder in path, path / "checkpoints" / "best":
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{path}: neither a file nor a checkpoint or run with {name}")


def load(path, ema=False):
    """The model in a run folder (its best checkpoint), a checkpoint folder or a file that dtn or
    `save` wrote; `ema`: the moving average of its weights."""
    file = _weights_file(path, ema)
    tensors, metadata = read_safetensors(file)
    if "config" not in metadata:
        raise ValueError(f"{file} carries no config; it is not a file that dtn wrote")
    config = parse_config(metadata["config"])
    if config.get("task", "classify") != "classify":
        raise ValueError(f"{file}: the task of this model is {config['task']}, not classify")
    model = VisionTransformer(config["model"])
    model.load_state_dict({name: t.float() for name, t in tensors.items()})
    model.config = config
    model.metadata = {k: v for k, v in metadata.items() if "checksum" not in k}
    model.class_names = json.loads(metadata.get("classes", "[]"))
    return model.eval()


def save(model, path):
    """Writes the weights of a model that `load` made, changed or not, with the metadata it came
    with."""
    write_safetensors(path, model.state_dict(), model.metadata)


# --- Dynamic Token Normalization ------------------------------------------------------------------


class DynamicTokenNorm(nn.Module):
    """x [B, prefix + h w, C]; see docs/normalizers.md for the equations. The position matrix is the
    Kronecker product of one for the rows of the grid and one for its columns, unless positions are
    free or banded. With a prefix, its tokens are normalized by LayerNorm, with the same weights.
    Without `affine` there are no weight and bias."""

    def __init__(self, channels, heads, grid, eps, options, prefix=0, affine=True):
        super().__init__()
        self.heads, self.grid, self.eps, self.prefix = heads, grid, eps, prefix
        self.official = options["variant"] == "official"
        self.position, self.pool = str(options["position"]), options["pool"]
        self.cells = (grid[0] // self.pool, grid[1] // self.pool)
        self.fixed = None if options["lambda"] == "learnable" else float(options["lambda"])
        self.only_var = options["only_var"]
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None
        if self.fixed is None:
            if not self.only_var:
                self.mean_norm_weight = nn.Parameter(torch.zeros(heads))
            self.var_norm_weight = nn.Parameter(torch.zeros(heads))
        cells = self.cells[0] * self.cells[1]
        if self.position == "relative":
            self.pos_proj = nn.Linear(3, heads)  # its bias is inert under the softmax
        elif self.position == "free":
            self.position_table = nn.Parameter(torch.randn(heads, cells, cells) * 0.02)

    def _lambdas(self, x):
        """Of the mean and of the variance, numbers or [H, 1, 1, 1]."""
        if self.fixed is None:
            of_var = self.var_norm_weight.sigmoid().to(x).view(-1, 1, 1, 1)
            of_mean = 1.0 if self.only_var else \
                self.mean_norm_weight.sigmoid().to(x).view(-1, 1, 1, 1)
            return of_mean, of_var
        return 1.0 if self.only_var else self.fixed, self.fixed

    def _axis_positions(self, axis, n, like):
        """[H, n, n] of the columns (axis 0) or rows (1) of the grid, or [1, n, n] where all are
        alike."""
        if self.position == "uniform":
            return torch.full((1, n, n), 1 / n, dtype=like.dtype, device=like.device)
        at = torch.arange(n, device=like.device, dtype=like.dtype)
        d = at[None, :] - at[:, None]  # key - query
        if self.official:
            d = -d
        a, square = self.pos_proj.weight[:, axis], self.pos_proj.weight[:, 2]
        return (square[:, None, None] * d * d + a[:, None, None] * d).softmax(-1)

    def _dense_positions(self, like):
        """[H or 1, n, n] of all cells."""
        if self.position == "free":
            return self.position_table.softmax(-1)
        at = torch.arange(self.cells[0] * self.cells[1], device=like.device)
        reach = int(self.position.split(":")[1]) // 2
        band = ((at[:, None] - at[None, :]).abs() <= reach).to(like)
        return (band / band.sum(-1, keepdim=True))[None]

    def _across_tokens(self, x):
        """P x for x [B, H, h, w, D] of cells."""
        h, w = self.cells
        if self.position in ("relative", "uniform"):
            py, px = self._axis_positions(1, h, x), self._axis_positions(0, w, x)
            x = (py @ x.flatten(3)).unflatten(3, (w, -1))
            return px[:, None] @ x
        return (self._dense_positions(x) @ x.flatten(2, 3)).unflatten(2, (h, w))

    def _pooled(self, x):
        s = self.pool
        if s == 1:
            return x
        return x.unflatten(3, (-1, s)).unflatten(2, (-1, s)).mean((3, 5))

    def _repeated(self, x):
        s = self.pool
        return x if s == 1 else x.repeat_interleave(s, 2).repeat_interleave(s, 3)

    def forward(self, x):
        if not self.prefix:
            return self._normalized(x)
        first = F.layer_norm(x[:, :self.prefix], x.shape[-1:], self.weight, self.bias, self.eps)
        return torch.cat([first, self._normalized(x[:, self.prefix:])], 1)

    def _normalized(self, x):
        batch, tokens, channels = x.shape
        x = x.reshape(batch, *self.grid, self.heads, -1).permute(0, 3, 1, 2, 4)  # [B, H, h, w, D]
        if self.official:
            x = x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt()
        token_mean = x.mean((1, 4), keepdim=True)  # [B, 1, h, w, 1]
        token_var = (x - token_mean).square().mean((1, 4), keepdim=True)
        if self.official:
            token_var = token_var * (channels / (channels - 1))
        # The variance does not feel a shift: without the mean its two terms do not cancel.
        pivot = x.mean((2, 3), keepdim=True).detach()
        cells = self._pooled(x - pivot)
        mean = self._across_tokens(cells)
        var = self._across_tokens(cells.square()) - mean.square()
        if not self.official:
            var = var.clamp(min=0)
        of_mean, of_var = self._lambdas(x)
        mean = of_mean * token_mean + (1 - of_mean) * (self._repeated(mean) + pivot)
        var = of_var * token_var + (1 - of_var) * self._repeated(var)
        x = (x - mean) / (var + self.eps).sqrt()
        x = x.permute(0, 2, 3, 1, 4).reshape(batch, tokens, channels)
        return x if self.weight is None else x * self.weight + self.bias


# --- the vision transformer -----------------------------------------------------------------------


def _quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


_ACTIVATIONS = {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
                "quick_gelu": _quick_gelu, "silu": F.silu}


class DropPath(nn.Module):
    """Leaves a branch out for some samples while training, and scales it up for the others."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training or self.rate == 0:
            return x
        keep = x.new_empty(x.shape[0], 1, 1).bernoulli_(1 - self.rate)
        return x * keep / (1 - self.rate)


class LayerScale(nn.Module):
    def __init__(self, channels, start):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((channels,), float(start)))

    def forward(self, x):
        return x * self.gamma


class Attention(nn.Module):
    def __init__(self, c, grid):
        super().__init__()
        channels, self.heads = c["embed_dim"], c["num_heads"]
        width = channels // self.heads
        self.qkv = nn.Linear(channels, 3 * channels, bias=c["qkv_bias"])
        self.q_norm = nn.LayerNorm(width, c["eps"]) if c["qk_norm"] else nn.Identity()
        self.k_norm = nn.LayerNorm(width, c["eps"]) if c["qk_norm"] else nn.Identity()
        self.grid, self.pos_proj = grid, None
        if grid:  # a positional bias
            self.pos_proj = nn.Linear(3, self.heads, bias=False)
        self.proj = nn.Linear(channels, channels)
        self.proj_drop = nn.Dropout(c["dropout"])

    def _bias(self, like):
        """a_d (dx^2 + dy^2) + a_x dx + a_y dy of each head, [H, T, T]."""
        if self.pos_proj is None:
            return None
        y, x = torch.meshgrid(*(torch.arange(n, device=like.device) for n in self.grid),
                              indexing="ij")
        x, y = x.reshape(-1).to(like), y.reshape(-1).to(like)
        dx, dy = x[None] - x[:, None], y[None] - y[:, None]
        return self.pos_proj(torch.stack([dx, dy, dx * dx + dy * dy], -1)).permute(2, 0, 1)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, self._bias(q))
        return self.proj_drop(self.proj(x.transpose(1, 2).reshape(b, t, c)))


class Mlp(nn.Module):
    """swiglu_packed: half of fc1 gates the other half."""

    def __init__(self, c):
        super().__init__()
        hidden = int(c["embed_dim"] * c["mlp_ratio"])
        self.gated = c.get("mlp", "plain") == "swiglu_packed"
        self.act = _ACTIVATIONS[c["act"]]
        self.fc1 = nn.Linear(c["embed_dim"], hidden)
        self.fc2 = nn.Linear(hidden // 2 if self.gated else hidden, c["embed_dim"])
        self.drop = nn.Dropout(c["dropout"])

    def forward(self, x):
        x = self.fc1(x)
        if self.gated:
            gate, x = x.chunk(2, -1)
            x = self.act(gate) * x
        else:
            x = self.act(x)
        return self.drop(self.fc2(self.drop(x)))


class Block(nn.Module):
    def __init__(self, c, make_norm, drop_path, attention_grid):
        super().__init__()

        def scale():
            start = c["layer_scale"]
            return nn.Identity() if start is None else LayerScale(c["embed_dim"], start)

        self.norm1, self.attn, self.ls1 = make_norm(), Attention(c, attention_grid), scale()
        self.norm2, self.mlp, self.ls2 = make_norm(), Mlp(c), scale()
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        x = x + self.drop_path(self.ls1(self.attn(self.norm1(x))))
        return x + self.drop_path(self.ls2(self.mlp(self.norm2(x))))


class PatchEmbed(nn.Module):
    def __init__(self, c):
        super().__init__()
        bias = c["patch_bias"] if c["patch_bias"] is not None else not c["norm_pre"]
        self.proj = nn.Conv2d(c["channels"], c["embed_dim"], c["patch_size"], c["patch_size"],
                              bias=bias)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class VisionTransformer(nn.Module):
    """Of the `model` part of a resolved config, whose keys docs/weights.md explains."""

    def __init__(self, c):
        super().__init__()
        channels, side = c["embed_dim"], c["image_size"] // c["patch_size"]
        self.c, self.patches = c, side * side
        has_class = c["class_token"] if c["class_token"] is not None else c["pool"] == "cls"
        for name, count in (("cls_token", int(has_class)), ("dist_token", int(c["distilled"])),
                            ("reg_token", c["registers"])):
            tokens = nn.Parameter(torch.zeros(1, count, channels)) if count else None
            self.register_parameter(name, tokens)
        self.prefix = int(has_class) + int(c["distilled"]) + c["registers"]
        self.with_positions = c["pos_embed"] == "all"  # the prefix, too
        rows = self.patches + (self.prefix if self.with_positions else 0)
        self.pos_embed = nn.Parameter(torch.randn(1, rows, channels) * 0.02)
        self.patch_embed, self.pos_drop = PatchEmbed(c), nn.Dropout(c["dropout"])
        # The blocks that see the grid alone; behind them the prefix joins.
        self.joins_at = 0 if self.with_positions else min(c["class_token_at"], c["depth"])
        if self.prefix == 0:
            self.joins_at = c["depth"]
        if c["norm_pre"]:
            self.norm_pre = self._layer_norm()
        self.blocks = nn.ModuleList(self._block(i, side) for i in range(c["depth"]))
        if c["fc_norm"]:
            self.fc_norm = self._layer_norm()
        else:
            self.norm = self._layer_norm()
        if c["num_classes"]:
            self.head = nn.Linear(channels, c["num_classes"])
            if c["distilled"]:
                self.head_dist = nn.Linear(channels, c["num_classes"])

    def _layer_norm(self):
        return nn.LayerNorm(self.c["embed_dim"], self.c["eps"])

    def _block(self, index, side):
        c, norm = self.c, self.c["norm"]
        beside_prefix = norm.get("prefix", "none") == "ln"
        layers = norm["layers"]
        if layers is None:
            layers = c["depth"] if beside_prefix or self.prefix == 0 else c["class_token_at"]
        prefix = self.prefix if index >= self.joins_at else 0

        def make_norm():
            if index >= layers:
                return self._layer_norm()
            eps = norm["eps"] if norm["eps"] is not None else c["eps"]
            affine = norm.get("affine") is not False
            if norm["type"] == "ln":
                return nn.LayerNorm(c["embed_dim"], eps, elementwise_affine=affine)
            if norm["type"] != "dtn":
                raise ValueError(f"norm {norm['type']} has no module here; ln and dtn have")
            return DynamicTokenNorm(c["embed_dim"], c["num_heads"], (side, side), eps, norm, prefix,
                                    affine)

        grows = c["drop_path_mode"] == "linear" and c["depth"] > 1
        rate = c["drop_path"] * index / (c["depth"] - 1) if grows else c["drop_path"]
        biased = c["mhsa_position"] and index < self.joins_at
        return Block(c, make_norm, rate, (side, side) if biased else None)

    def _join(self, x):
        parts = [t.expand(len(x), -1, -1) for t in (self.cls_token, self.dist_token, self.reg_token)
                 if t is not None]
        return torch.cat([*parts, x], 1)

    def forward_tokens(self, images):
        """The tokens behind the last block, [N, prefix + T, C]."""
        x = self.patch_embed(images)
        if self.with_positions:
            x = self._join(x)
        x = self.pos_drop(x + self.pos_embed)
        if self.joins_at == 0 and not self.with_positions:
            x = self._join(x)
        if self.c["norm_pre"]:
            x = self.norm_pre(x)
        for i, block in enumerate(self.blocks):
            if i == self.joins_at and i > 0:
                x = self._join(x)
            x = block(x)
        if self.prefix and self.joins_at == len(self.blocks) > 0:
            x = self._join(x)
        return x

    def forward(self, images):
        """Logits [N, K], or features [N, C] of a model without a head."""
        x, c = self.forward_tokens(images), self.c
        last = self.fc_norm if c["fc_norm"] else self.norm
        if c["distilled"]:
            first, second = last(x[:, 0]), last(x[:, 1])
            if not c["num_classes"]:
                return (first + second) / 2
            return (self.head(first) + self.head_dist(second)) / 2
        if c["pool"] == "cls":
            x = last(x[:, 0])
        elif c["fc_norm"]:
            x = last(x[:, self.prefix:].mean(1))
        else:
            x = last(x[:, self.prefix:]).mean(1)
        return self.head(x) if c["num_classes"] else x
