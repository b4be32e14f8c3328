"""Every static normalizer in PyTorch: its own module where it has one, else a plain composition.

All take and return [B, T, C]. Parameter and buffer names are dtn's.
"""
import torch
import torch.nn.functional as F
from torch import nn


class Affine(nn.Module):
    def __init__(self, channels, heads, eps=1e-5):
        super().__init__()
        self.channels, self.heads, self.eps = channels, heads, eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))


class LayerNorm(Affine):
    def forward(self, x):
        return F.layer_norm(x, (self.channels,), self.weight, self.bias, self.eps)


class RMSNorm(Affine):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bias = None

    def forward(self, x):
        return self.weight * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps)


class ScaleNorm(Affine):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bias = None
        with torch.no_grad():
            self.weight.fill_(self.channels ** 0.5)

    def forward(self, x):
        return self.weight * x / x.norm(dim=-1, keepdim=True).clamp(min=self.eps)


class InstanceNorm(Affine):
    def __init__(self, *args, variant="paper", **kwargs):
        super().__init__(*args, **kwargs)
        self.variant = variant

    def forward(self, x):
        if self.variant == "paper":
            y = F.instance_norm(x.transpose(1, 2), weight=self.weight, bias=self.bias, eps=self.eps)
            return y.transpose(1, 2)
        mean, var = x.mean(1, keepdim=True), x.var(1, keepdim=True)
        return self.weight * (x - mean) / torch.sqrt(var + self.eps) + self.bias


class GroupNorm(Affine):
    def __init__(self, *args, groups=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.groups = groups or self.heads

    def forward(self, x):
        y = F.group_norm(x.transpose(1, 2), self.groups, self.weight, self.bias, self.eps)
        return y.transpose(1, 2)


class BatchNorm(Affine):
    def __init__(self, *args, momentum=0.1, **kwargs):
        super().__init__(*args, **kwargs)
        self.momentum = momentum
        self.register_buffer("running_mean", torch.zeros(self.channels))
        self.register_buffer("running_var", torch.ones(self.channels))

    def forward(self, x):
        y = F.batch_norm(x.reshape(-1, self.channels), self.running_mean, self.running_var,
                         self.weight, self.bias, self.training, self.momentum, self.eps)
        return y.reshape(x.shape)


class SwitchableNorm(Affine):
    """Luo et al., ICLR 2019. The statistics of LayerNorm are those of a token."""

    def __init__(self, *args, momentum=0.1, **kwargs):
        super().__init__(*args, **kwargs)
        self.momentum = momentum
        self.mean_weight = nn.Parameter(torch.ones(3))
        self.var_weight = nn.Parameter(torch.ones(3))
        self.register_buffer("running_mean", torch.zeros(self.channels))
        self.register_buffer("running_var", torch.ones(self.channels))

    def forward(self, x):
        def moments(dims):
            return x.mean(dims, keepdim=True), x.var(dims, unbiased=False, keepdim=True)

        if self.training:
            across = moments((0, 1))
            with torch.no_grad():
                for running, new in zip((self.running_mean, self.running_var), across):
                    running.lerp_(new.reshape(-1), self.momentum)
        else:
            across = self.running_mean, self.running_var
        kinds = moments(1), moments(2), across  # in, ln, bn
        mean = sum(w * k[0] for w, k in zip(self.mean_weight.softmax(0), kinds))
        var = sum(w * k[1] for w, k in zip(self.var_weight.softmax(0), kinds))
        return self.weight * (x - mean) / torch.sqrt(var + self.eps) + self.bias


class _Power(torch.autograd.Function):
    """PowerNorm's step after its group scaling; see Shen et al., ICML 2020, Algorithm 2."""

    @staticmethod
    def forward(ctx, x, weight, bias, denominator, ema_gz, alpha):
        z = x / denominator
        ctx.save_for_backward(z, weight, denominator, ema_gz)
        ctx.alpha = alpha
        return weight * z + bias

    @staticmethod
    def backward(ctx, dy):
        z, weight, denominator, ema_gz = ctx.saved_tensors
        g = dy * weight - (1 - ctx.alpha) * ema_gz * z
        ema_gz += (g * z).mean((0, 1))
        return g / denominator, (dy * z).sum((0, 1)), dy.sum((0, 1)), None, None, None


class PowerNorm(Affine):
    def __init__(self, *args, groups=None, warmup=3000, alpha_forward=0.9, alpha_backward=0.9,
                 **kwargs):
        super().__init__(*args, **kwargs)
        self.groups, self.warmup = groups or self.heads, warmup
        self.alpha_forward, self.alpha_backward = alpha_forward, alpha_backward
        wide = (1, self.channels, 1, 1)
        self.register_buffer("running_phi", torch.ones(wide))
        self.register_buffer("ema_gz", torch.zeros(wide))
        self.register_buffer("iters", torch.zeros(1))

    def forward(self, x):
        split = x.reshape(*x.shape[:2], self.groups, -1)
        split = split / torch.sqrt((split * split).mean(-1, keepdim=True) + self.eps)
        x = split.reshape(x.shape)
        running = self.running_phi.view(-1)
        if not self.training:
            return self.weight * x / torch.sqrt(running + self.eps) + self.bias
        with torch.no_grad():
            self.iters += 1
            i = self.iters.item()
            phi = (x * x).mean((0, 1))
            used = phi if i <= self.warmup else running.clone()
            denominator = torch.sqrt(used + self.eps)
            if i < self.warmup:
                running.mul_((i - 1) / i).add_(phi / i)
            running.mul_(self.alpha_forward).add_(phi, alpha=1 - self.alpha_forward)
        return _Power.apply(x, self.weight, self.bias, denominator, self.ema_gz.view(-1),
                            self.alpha_backward)


NORMS = {"ln": LayerNorm, "rms": RMSNorm, "scale": ScaleNorm, "in": InstanceNorm, "gn": GroupNorm,
         "bn": BatchNorm, "sn": SwitchableNorm, "power": PowerNorm}
