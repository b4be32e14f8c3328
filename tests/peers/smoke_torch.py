"""Checks on the CPU that every variant of gpu_variants.py is the same training step as the plain
model of vit_torch.py: same logits and same gradients of the loss, with drop path. Also checks that
the separable DTN equals the dense one. Nothing is compiled."""
import dataclasses
import math
import sys
import warnings

import torch

from dtn_separable_torch import SeparableTokenNorm
from gpu_variants import OF_SOURCE, variants
from training_torch import TINY, Training
from vit_fast_torch import FastVisionTransformer, smoothed_loss
from vit_torch import DynamicTokenNorm, VisionTransformer

# Not square and no multiple of 8, so that confused rows and columns show.
GRID, HEADS, CHANNELS = (3, 5), 3, 24


class Given(torch.nn.Module):
    """Drop path with given masks, two per block, in place of random ones."""

    def __init__(self, kept):
        super().__init__()
        self.kept = iter(kept)

    def forward(self, x):
        return x * next(self.kept)[:, None, None]


class Checks:
    def __init__(self):
        self.failed = 0

    def close(self, what, actual, expected, bound):
        """Checks the largest difference, relative to the largest expected value."""
        error = ((actual - expected).abs().max() / expected.abs().max()).item()
        self.that(what, error <= bound, f"{error:.1e}, bound {bound:.1e}")

    def that(self, what, holds, detail=""):
        self.failed += not holds
        print(f"{'ok    ' if holds else 'FAILED'} {what}{': ' * bool(detail)}{detail}",
              file=sys.stderr)


def rounding(dtype, length):
    """Bound for two orders of a sum of that length, with room for several sums in a row."""
    return 16 * torch.finfo(dtype).eps * math.sqrt(length)


def gradients(model):
    """Gradients of all parameters by name; zero where a parameter has no effect."""
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
            for name, p in model.named_parameters()}


def away_from_start(model):
    """Moves the weights, so that every term counts, zeros of the start included."""
    torch.manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.05)


def check_step(checks, variant, dtype):
    """Compares logits and gradients of a whole step with the plain model's."""
    plain = VisionTransformer(norm=variant.norm, **TINY)
    away_from_start(plain)
    fast = FastVisionTransformer(variant, **TINY)
    fast.load_state_dict(plain.state_dict())
    plain.to(dtype).train(), fast.to(dtype).train()
    images = torch.randn(6, 3, TINY["image"], TINY["image"], dtype=dtype)
    labels = torch.arange(6) % TINY["classes"]
    kept = (torch.rand(2 * TINY["depth"], 6) < 0.75).to(dtype) / 0.75
    for block, masks in zip(plain.blocks, kept.view(-1, 2, 6)):
        block.drop_path = Given(masks)
    expected = plain(images)
    smoothed_loss(expected, labels).backward()
    with torch.set_grad_enabled(variant.attention != "flex"):  # flex has no gradients on the CPU
        logits = fast(images, kept)
    bound = rounding(dtype, CHANNELS * TINY["image"])
    kind = str(dtype)[6:]
    checks.close(f"{variant.name}, logits, {kind}", logits, expected, bound)
    if not logits.requires_grad:
        return
    smoothed_loss(logits, labels).backward()
    of_plain, of_fast = gradients(plain), gradients(fast)
    inert = [n for n in of_plain if n.endswith("pos_proj.bias")]  # zero except for rounding
    scale = max(g.abs().max() for g in of_plain.values())
    for name in inert:
        checks.that(f"{variant.name}, {name} has no effect, {kind}",
                    max(of_plain[name].abs().max(), of_fast[name].abs().max()) <= bound * scale)
    errors = {n: ((of_fast[n] - g).abs().max() / g.abs().max()).item()
              for n, g in of_plain.items() if n not in inert}
    worst = max(errors, key=lambda n: errors[n] if errors[n] == errors[n] else math.inf)
    checks.that(f"{variant.name}, {len(errors)} gradients, {kind}", errors[worst] <= bound,
                f"{errors[worst]:.1e} in {worst}, bound {bound:.1e}")


def check_norm(checks, product, dtype, mean):
    """Compares the separable DTN with the dense one, on channels with that mean and deviation 1."""
    dense = DynamicTokenNorm(CHANNELS, HEADS, GRID)
    away_from_start(dense)
    separable = SeparableTokenNorm(CHANNELS, HEADS, GRID, product=product)
    separable.load_state_dict(dense.state_dict())
    dense.double(), separable.to(dtype)
    x = (torch.randn(2, GRID[0] * GRID[1], CHANNELS, dtype=torch.float64) + mean).to(dtype)
    dy = torch.randn(x.shape, dtype=torch.float64).to(dtype)
    results = []
    for norm, kind in ((dense, torch.float64), (separable, dtype)):
        at = x.to(kind).clone().requires_grad_()  # separate, or gradients would add up
        y = norm(at)
        y.backward(dy.to(kind))
        results.append({"y": y.detach(), "dx": at.grad, **gradients(norm)})
    # Both round the input alike. Errors are relative to the mean.
    bound = rounding(dtype, GRID[0] * GRID[1] * CHANNELS) * max(1, mean)
    for name, expected in results[0].items():
        if name != "pos_proj.bias":
            checks.close(f"separable DTN by {product}, mean {mean}, {name}, {str(dtype)[6:]}",
                         results[1][name].double(), expected, bound)


def check_learning(checks, variant):
    """Checks whole bfloat16 steps, as measured: the loss falls, parameters are rounded masters."""
    training = Training(dataclasses.replace(variant, execution="eager", graph=""), TINY, 8, "cpu")
    before = [p.detach().clone() for p in training.model.parameters()]
    losses = [training.step().item() for _ in range(12)]
    checks.that(f"{variant.name}, learns in bfloat16",
                math.isfinite(losses[-1]) and losses[-1] < losses[0],
                f"loss {losses[0]:.4f} to {losses[-1]:.4f}")
    named = dict(training.model.named_parameters())
    checks.that(f"{variant.name}, bfloat16 parameters are the float32 ones, rounded",
                all(torch.equal(named[n], m.to(torch.bfloat16))
                    for n, m in training.masters.items()))
    # A bias under a softmax does not move. Steps that are too small for bfloat16 do not show.
    moved = sum(not torch.equal(a, b) for a, b in zip(before, training.model.parameters()))
    checks.that(f"{variant.name}, parameters move", moved > 0.7 * len(before),
                f"{moved} of {len(before)}")


def functions():
    """The variants with different computations, not only different ways to run on a GPU."""
    kinds = {}
    for variant in variants("ln") + variants("dtn"):
        kind = dataclasses.replace(variant, name="", execution="", graph="", partition="",
                                   attention="flex" * (variant.attention == "flex"))
        kinds.setdefault(kind, variant)
    return kinds.values()


def check_all():
    warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
    checks = Checks()
    for product in OF_SOURCE["module"]:
        check_norm(checks, product, torch.float64, 0)
        check_norm(checks, product, torch.float32, 0)
        check_norm(checks, product, torch.float32, 100)
    for variant in functions():
        # Where a variant asks for float32 products, float64 cannot show more.
        for dtype in (torch.float32, *[torch.float64] * (not variant.statistics)):
            check_step(checks, variant, dtype)
        if variant.attention != "flex":
            check_learning(checks, variant)
    print(f"gpu_speed: {checks.failed} checks failed" if checks.failed else
          "gpu_speed: all checks passed", file=sys.stderr)
    return 1 if checks.failed else 0
