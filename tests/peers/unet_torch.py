"""Image-to-image encoder-decoders (`unet`) in PyTorch: every normalizer, every shortcut.

Parameters have the names and shapes of dtn. Inputs are the fields of task translate: `input`
[B, Ci, H, W] and, if a norm reads them, `style` [B] int64, `vector` [B, K], `map`
[B, K, H, W] or [B, H, W] int64, `style_image` [B, Ci, H, W].
"""
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

from norms_torch import NORMS
from vit_torch import DynamicTokenNorm

EPS = 1e-5
CHANNELS_OF_HEAD = 8
PRESETS = {  # the side of the image, then the network
    "unet_tiny": (32, dict(widths=(16, 32, 64), depth=2)),
    "unet_small": (128, dict(widths=(32, 64, 128, 256), depth=2)),
    "unet_base": (256, dict(widths=(64, 128, 256, 512), depth=2)),
    "resnet_9": (256, dict(widths=(64, 128, 256), depth=1, bottleneck=9, norm="in",
                           shortcut="none")),
}
ACTIVATIONS = {"relu": F.relu, "silu": F.silu, "gelu": F.gelu}


# --- Moments -------------------------------------------------------------------------------------

def standardized(x, dims):
    """x normalized by the moments over `dims`, the mean, and the deviation (biased variance)."""
    var, mean = torch.var_mean(x, dims, correction=0, keepdim=True)
    std = torch.sqrt(var + EPS)
    return (x - mean) / std, mean, std


def positional(x):
    """Normalizes by the moments over the channels of each position."""
    return standardized(x, 1)


def instance(x):
    """Normalizes by the moments over the positions of each channel."""
    return standardized(x, (2, 3))


def modulated(x, shift_and_gain):
    """x (1 + gain) + shift; `shift_and_gain` [B, 2 C, H, W], or [B, 2 C] for each sample."""
    if shift_and_gain.ndim == 2:
        shift_and_gain = shift_and_gain[:, :, None, None]
    shift, gain = shift_and_gain.chunk(2, 1)
    return x * (1 + gain) + shift


class GridLinear(nn.Linear):
    """A 3 x 3 convolution with zeros outside. Columns of its weight [out, 9 in] are the neighbours
    row by row, within each the channels."""

    def __init__(self, inputs, outputs):
        super().__init__(9 * inputs, outputs)

    def forward(self, x):
        kernels = self.weight.view(self.out_features, 3, 3, -1).permute(0, 3, 1, 2)
        return F.conv2d(x, kernels, self.bias, padding=1)


class DynamicMomentShortcut(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.hidden = GridLinear(2, hidden)
        self.modulation = GridLinear(hidden, 2 * channels)

    def forward(self, x, mean, std):
        return modulated(x, self.modulation(F.relu(self.hidden(torch.cat([mean, std], 1)))))


# --- Normalizers of images -----------------------------------------------------------------------

@dataclasses.dataclass
class Given:
    """Inputs of the norms at one resolution besides x; None if no norm reads them."""
    style: torch.Tensor = None  # [B]
    vector: torch.Tensor = None  # [B, K]
    mapped: torch.Tensor = None  # [B, M]
    map: torch.Tensor = None  # [B, K, h, w]
    style_features: torch.Tensor = None  # [B, C, h', w']


@dataclasses.dataclass
class NormSite:
    channels: int
    grid: tuple
    condition: dict  # size, styles, mapping

    @property
    def heads(self):
        return self.channels // CHANNELS_OF_HEAD


class Nothing(nn.Module):
    def __init__(self, site):
        super().__init__()

    def forward(self, x, given):
        return x


class PositionalNorm(Nothing):
    def forward(self, x, given):
        return positional(x)[0]


class OfSite:
    def __init__(self, site, **options):
        super().__init__(site.channels, site.heads, EPS, **options)


class BatchNorm(OfSite, NORMS["bn"]):
    def forward(self, x, given):
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
                            self.training, self.momentum, self.eps)


class GroupNorm(OfSite, NORMS["gn"]):
    def forward(self, x, given):
        return F.group_norm(x, self.groups, self.weight, self.bias, self.eps)


class InstanceNorm(OfSite, NORMS["in"]):
    def forward(self, x, given):
        return F.instance_norm(x, weight=self.weight, bias=self.bias, eps=self.eps)


def over_tokens(norm, *names_of_site):
    """Returns a class that applies a norm of tokens [B, T, C] to images."""
    class OverTokens(norm):
        def __init__(self, site, **options):
            super().__init__(*(getattr(site, name) for name in names_of_site), EPS, **options)

        def forward(self, x, given):
            y = super().forward(x.flatten(2).transpose(1, 2))
            return y.transpose(1, 2).reshape(x.shape)

    return OverTokens


class ConditionalInstanceNorm(nn.Module):
    def __init__(self, site):
        super().__init__()
        shape = site.condition["styles"], site.channels
        self.weight = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))

    def forward(self, x, given):
        if given.style is None:
            gain, shift = given.vector @ self.weight, given.vector @ self.bias
        else:
            gain, shift = self.weight[given.style], self.bias[given.style]
        return gain[:, :, None, None] * instance(x)[0] + shift[:, :, None, None]


class AdaptiveInstanceNorm(Nothing):
    def forward(self, x, given):
        _, mean, std = instance(given.style_features)
        return std * instance(x)[0] + mean


class MappedInstanceNorm(nn.Module):
    def __init__(self, site):
        super().__init__()
        self.modulation = nn.Linear(site.condition["mapping"], 2 * site.channels)

    def forward(self, x, given):
        return modulated(instance(x)[0], self.modulation(given.mapped))


class ConditionalBatchNorm(BatchNorm):
    def __init__(self, site, hidden=128, **options):
        super().__init__(site, **options)
        self.hidden = nn.Linear(site.condition["size"], hidden)
        self.modulation = nn.Linear(hidden, 2 * site.channels)

    def forward(self, x, given):
        y = F.batch_norm(x, self.running_mean, self.running_var, training=self.training,
                         momentum=self.momentum, eps=self.eps)
        change = self.modulation(F.relu(self.hidden(given.vector)))[:, :, None, None]
        shift, gain = change.chunk(2, 1)
        return y * (self.weight[:, None, None] + gain) + self.bias[:, None, None] + shift


class AdaptiveLayerNorm(nn.Module):
    def __init__(self, site):
        super().__init__()
        self.modulation = nn.Linear(site.condition["size"], 2 * site.channels)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, x, given):
        return modulated(positional(x)[0], self.modulation(F.silu(given.vector)))


class SpatiallyAdaptiveNorm(nn.Module):
    def __init__(self, site, hidden=128, base="bn", momentum=0.1):
        super().__init__()
        self.shared = GridLinear(site.condition["size"], hidden)
        self.modulation = GridLinear(hidden, 2 * site.channels)
        self.base, self.momentum = base, momentum
        if base == "bn":
            self.register_buffer("running_mean", torch.zeros(site.channels))
            self.register_buffer("running_var", torch.ones(site.channels))

    def forward(self, x, given):
        if self.base == "bn":
            y = F.batch_norm(x, self.running_mean, self.running_var, training=self.training,
                             momentum=self.momentum, eps=EPS)
        else:
            y = instance(x)[0]
        return modulated(y, self.modulation(F.relu(self.shared(given.map))))


class DynamicLayerNorm(nn.Module):
    def __init__(self, site, summary=64):
        super().__init__()
        self.summary = nn.Linear(site.channels, summary)
        self.modulation = nn.Linear(summary, 2 * site.channels)
        with torch.no_grad():
            self.modulation.bias.copy_(torch.arange(2 * site.channels) >= site.channels)

    def forward(self, x, given):
        tokens = x.flatten(2).transpose(1, 2)
        summary = torch.tanh(self.summary(tokens)).mean(1)
        shift, gain = self.modulation(summary)[:, :, None, None].chunk(2, 1)
        return positional(x)[0] * gain + shift


NORM_CLASSES = {
    "bn": BatchNorm, "gn": GroupNorm, "in": InstanceNorm, "pono": PositionalNorm, "none": Nothing,
    **{name: over_tokens(NORMS[name], "channels", "heads")
       for name in ("ln", "rms", "scale", "sn", "power")},
    "dtn": over_tokens(DynamicTokenNorm, "channels", "heads", "grid"),
    "cin": ConditionalInstanceNorm, "adain": AdaptiveInstanceNorm,
    "adain_mlp": MappedInstanceNorm, "cbn": ConditionalBatchNorm, "adaln": AdaptiveLayerNorm,
    "spade": SpatiallyAdaptiveNorm, "dln": DynamicLayerNorm}
READERS_OF_VECTOR = {"adain_mlp", "cbn", "adaln"}


# --- The network ---------------------------------------------------------------------------------

class VectorCondition(nn.Module):
    """The vector c [B, K] of the norms, and the output of `mapping` for it, [B, M]."""

    def __init__(self, channels, width, condition, maps):
        super().__init__()
        size, self.source = condition["size"], condition["from"]
        if self.source == "index":
            self.table = nn.Embedding(condition["styles"], size)
        elif self.source == "image":
            self.encoder = nn.ModuleDict({"0": nn.Conv2d(channels, width, 3, 2, 1),
                                          "1": nn.Conv2d(width, 2 * width, 3, 2, 1),
                                          "proj": nn.Linear(2 * width, size)})
        widths = [size] + 2 * [condition["mapping"]]
        self.mapping = nn.ModuleList(nn.Linear(*pair) for pair in zip(widths, widths[1:])
                                     if maps)

    def vector(self, style, vector, style_image):
        if self.source == "index":
            return self.table(style)
        if self.source == "vector":
            return vector
        x = F.relu(self.encoder["1"](F.relu(self.encoder["0"](style_image))))
        return self.encoder["proj"](x.mean((2, 3)))

    def forward(self, style, vector, style_image):
        c = mapped = self.vector(style, vector, style_image)
        for layer in self.mapping:
            mapped = F.relu(layer(mapped))
        return c, mapped


class ConvNorm(nn.Module):
    def __init__(self, inputs, outputs, norm, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=type(norm) is Nothing)
        self.norm = norm

    def forward(self, x, given):
        return self.norm(self.conv(x), given)


class UNet(nn.Module):
    """`norm`, `decoder_norm`: a type, or a dict of `type` and options. `depth`: a number, or one of
    each level. `condition`: a dict of from (vector, index, image), size, styles, mapping. `image`:
    height and width, which only dtn reads."""

    def __init__(self, channels=3, out_channels=None, widths=(16, 32, 64), depth=2, bottleneck=0,
                 norm="bn", decoder_norm=None, shortcut="concat", shortcut_hidden=None, pono=None,
                 residual=False, act="relu", condition=None, image=(32, 32)):
        super().__init__()
        outputs = out_channels or channels
        if residual and outputs != channels:
            raise ValueError(f"residual cannot add {channels} channels to {outputs}")
        self.image, self.widths, self.joins = image, widths, shortcut == "concat"
        self.hands_moments = shortcut in ("ms", "dms")
        self.pono = self.hands_moments if pono is None else pono
        self.moment_levels = len(widths) if bottleneck else len(widths) - 1
        self.residual, self.act, self.shortcut = residual, ACTIVATIONS[act], None
        self.make_networks(channels, [depth] * len(widths) if isinstance(depth, int) else depth,
                           bottleneck, with_defaults(norm, decoder_norm, condition))
        if shortcut == "dms":
            self.shortcut = nn.ModuleDict({
                str(level): DynamicMomentShortcut(widths[level], shortcut_hidden or widths[0])
                for level in range(self.moment_levels)})
        self.head = nn.Conv2d(widths[0], outputs, 3, padding=1)

    def make_networks(self, channels, depth, bottleneck, settings):
        encoder, decoder, condition = settings
        self.map_channels = condition["size"]
        types = {encoder["type"], decoder["type"]}
        self.reads_features = "adain" in types
        self.condition = None
        if types & READERS_OF_VECTOR:
            self.condition = VectorCondition(channels, self.widths[0], condition,
                                             "adain_mlp" in types)
        last, inputs = len(self.widths) - 1, (channels, *self.widths)

        def conv(inputs, level, norm, stride=1):
            grid = tuple(side >> level for side in self.image)
            options = {name: value for name, value in norm.items() if name != "type"}
            site = NormSite(self.widths[level], grid, condition)
            return ConvNorm(inputs, site.channels, NORM_CLASSES[norm["type"]](site, **options),
                            stride)

        def convs(inputs, level, norm, stride=1):
            return nn.ModuleList(
                conv(self.widths[level] if i else inputs, level, norm, 1 if i else stride)
                for i in range(depth[level]))

        self.enc = nn.ModuleList(convs(inputs[level], level, encoder, 2 if level else 1)
                                 for level in range(last + 1))
        self.mid = nn.ModuleList(
            nn.ModuleList(conv(self.widths[last], last, decoder) for _ in range(2))
            for _ in range(bottleneck))
        self.dec = nn.ModuleList(
            convs(self.widths[level + 1] + self.joins * self.widths[level], level, decoder)
            for level in range(last))

    def given_at_levels(self, input, style, vector, map, style_image):
        mapped = None
        if self.condition is not None:
            vector, mapped = self.condition(style, vector, style_image)
        if map is not None and map.ndim == 3:
            map = F.one_hot(map, self.map_channels).permute(0, 3, 1, 2).to(input.dtype)
        return [Given(style, vector, mapped,
                      None if map is None else map[:, :, ::2 ** level, ::2 ** level])
                for level in range(len(self.widths))]

    def encode(self, x, given):
        """The output of each level, and the moments of the levels that have them."""
        features, moments = [], []
        for level, convs in enumerate(self.enc):
            for part in convs:
                x = part.conv(x)
                if part is convs[-1] and level < self.moment_levels:
                    y, mean, std = positional(x)
                    moments.append((mean, std))
                    x = y if self.pono else x
                x = self.act(part.norm(x, given[level]))
            features.append(x)
        return features, moments

    def with_moments(self, x, moments, level):
        if not self.hands_moments or level >= self.moment_levels:
            return x
        mean, std = moments[level]
        return self.shortcut[str(level)](x, mean, std) if self.shortcut else std * x + mean

    def forward(self, input, style=None, vector=None, map=None, style_image=None):
        given = self.given_at_levels(input, style, vector, map, style_image)
        if self.reads_features:
            features, moments = self.encode(torch.cat([input, style_image]), given)
            for at, both in zip(given, features):
                at.style_features = both[len(input):]
            features, moments = ([own[:len(input)] for own in features],
                                 [[own[:len(input)] for own in pair] for pair in moments])
        else:
            features, moments = self.encode(input, given)
        x, last = features[-1], len(self.widths) - 1
        for first, second in self.mid:
            x = x + second(self.act(first(x, given[last])), given[last])
        x = self.with_moments(x, moments, last)
        for level in reversed(range(last)):
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            if self.joins:
                x = torch.cat([x, features[level]], 1)
            for i, part in enumerate(self.dec[level]):
                x = part(x, given[level])
                x = self.act(x if i else self.with_moments(x, moments, level))
        x = self.head(x)
        return x + input if self.residual else x


def with_defaults(norm, decoder_norm, condition):
    """The settings of both norms and of the condition, as dicts."""
    norms = [dict(n) if isinstance(n, dict) else {"type": n} for n in (norm, decoder_norm or norm)]
    return *norms, {"from": "vector", "size": None, "styles": None, "mapping": 64,
                    **(condition or {})}
