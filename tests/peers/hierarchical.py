#!/usr/bin/env python3
"""Compares dtn's PVT, PVTv2 and Swin with timm's, and PVT, which timm lacks, with its formulas.

  python3 tests/peers/hierarchical.py --bin build/bin

Each row saves a model with random weights, under timm's names. The logits of dtn-eval must be
PyTorch's (float32). Then dtn-train takes a step; timm loads the checkpoint strictly and must give
dtn's logits. Rows with DTN have its formulas, written out with all pairs of tokens, in place of the
norms. `steps` rows are narrow networks: they compare the weights after ten AdamW steps with
PyTorch's in float64, relative to each tensor's largest value. Exits with 1 if a bound is exceeded.
Needs PyTorch and timm; not part of the tests.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import timm
import torch
from timm.models import pvt_v2, swin_transformer
from torch import nn

import safetensors_io
from pvt_torch import Pvt
from vit_torch import DynamicTokenNorm

LOGITS_BOUND, WEIGHTS_BOUND = 1e-4, 5e-4
STEPS, BATCH = 10, 4
POOLS = (4, 2, 1, 1)
PYRAMID_HEADS = (4, 4, 5, 8)  # of the code released with the DTN paper

# name: preset, size of the weights' images, size of the evaluated images, DTN instead of LayerNorm;
# where the name ends in "mhsa", with positions in the attention
LOGITS = {
    "swin_t": ("swin_t", (224, 224), (224, 224), False),
    "swin_t wide": ("swin_t", (224, 448), (224, 448), False),
    "swin_t dtn": ("swin_t", (224, 224), (224, 224), True),
    "swin_t dtn wide": ("swin_t", (224, 448), (224, 448), True),
    "swin_s": ("swin_s", (224, 224), (224, 224), False),
    "pvt_v2_b3": ("pvt_v2_b3", (224, 224), (224, 224), False),
    "pvt_v2_b3 odd": ("pvt_v2_b3", (224, 224), (150, 200), False),
    "pvt_v2_b3 dtn": ("pvt_v2_b3", (224, 224), (224, 224), True),
    "pvt_v2_b3 dtn wide": ("pvt_v2_b3", (224, 224), (192, 256), True),
    "pvt_tiny": ("pvt_tiny", (224, 224), (224, 224), False),
    "pvt_tiny larger": ("pvt_tiny", (224, 224), (448, 448), False),
    "pvt_tiny odd": ("pvt_tiny", (224, 224), (150, 203), False),
    "pvt_tiny mhsa": ("pvt_tiny", (224, 224), (224, 224), False),
    "pvt_tiny dtn": ("pvt_tiny", (224, 224), (224, 224), True),
    "pvt_small dtn wide": ("pvt_small", (224, 224), (192, 256), True),
    "pvt_medium": ("pvt_medium", (224, 224), (224, 224), False),
    "pvt_large": ("pvt_large", (224, 224), (224, 224), False),
}
DEPTHS = {"pvt_tiny": (2, 2, 2, 2), "pvt_small": (3, 4, 6, 3), "pvt_medium": (3, 4, 18, 3),
          "pvt_large": (3, 8, 27, 3)}

# Narrow networks, on images of this size, whose grids are 32 x 64 and so on.
STEPS_SIZE, STEPS_WINDOW = (128, 256), 4
NARROW = dict(embed_dim=(32, 64, 96, 128), depth=(2, 1, 2, 2), num_heads=(2, 4, 4, 8),
              mlp_ratio=(4, 4, 2, 2))
NARROW_SWIN = {**NARROW, "embed_dim": (16, 32, 64, 128), "mlp_ratio": 4}
STEPS_ROWS = {"steps swin": ("swin_t", False), "steps swin dtn": ("swin_t", True),
              "steps pvt_v2": ("pvt_v2_b3", False), "steps pvt_v2 dtn": ("pvt_v2_b3", True),
              "steps pvt": ("pvt_tiny", False), "steps pvt dtn": ("pvt_tiny", True),
              "steps pvt mhsa": ("pvt_tiny", False)}


class TokenNorm(DynamicTokenNorm):
    """DTN of tokens [B, T, C] or of a grid [B, h, w, C]."""

    def forward(self, x):
        return super().forward(x.flatten(1, -2)).view(x.shape)


def grids_of(preset, size):
    """The grid of every stage."""
    grids = []
    for stride in (4, 2, 2, 2):
        size = [-(-n // stride) if preset == "pvt_v2_b3" else n // stride for n in size]
        grids.append(tuple(size))
    return grids


def blocks_of(model):
    """The blocks of every stage."""
    if isinstance(model, Pvt):
        return [getattr(model, f"block{s + 1}") for s in range(4)]
    stages = model.layers if hasattr(model, "layers") else model.stages
    return [stage.blocks for stage in stages]


def put_dtn_in(model, preset, size, heads):
    stages = 4 if preset.startswith("swin") else 3
    for s, blocks in enumerate(blocks_of(model)[:stages]):
        for block in blocks:
            width, grid = block.norm1.weight.numel(), grids_of(preset, size)[s]
            block.norm1 = TokenNorm(width, heads[s], grid, pool=POOLS[s])
            block.norm2 = TokenNorm(width, heads[s], grid, pool=POOLS[s])


def shift_as_released(model):
    """If one window covers the shorter side of a grid, timm shifts windows along the longer side.
    The release does not."""
    for block in (block for blocks in blocks_of(model) for block in blocks):
        if min(block.input_resolution) <= block.window_size[0]:
            block.shift_size, block.attn_mask = (0, 0), None
    return model


def make(preset, size, with_dtn, classes, positions):
    heads = (3, 6, 12, 24)
    if preset.startswith("swin"):
        name = {"swin_t": "tiny", "swin_s": "small"}[preset]
        model = shift_as_released(timm.create_model(
            f"swin_{name}_patch4_window7_224", img_size=size, num_classes=classes))
    elif preset == "pvt_v2_b3":
        heads = PYRAMID_HEADS if with_dtn else (1, 2, 5, 8)
        model = pvt_v2.PyramidVisionTransformerV2(
            depths=(3, 4, 18, 3), embed_dims=(64, 128, 320, 512), num_heads=heads,
            num_classes=classes)
    else:
        heads = PYRAMID_HEADS if with_dtn else (1, 2, 5, 8)
        model = Pvt(size, DEPTHS[preset], heads=heads, classes=classes, mhsa_position=positions)
    return model, heads


def make_narrow(preset, size, window, classes, positions):
    n = NARROW_SWIN if preset == "swin_t" else NARROW
    if preset == "swin_t":
        return shift_as_released(swin_transformer.SwinTransformer(
            img_size=size, window_size=window, embed_dim=n["embed_dim"][0], depths=n["depth"],
            num_heads=n["num_heads"], num_classes=classes, drop_path_rate=0))
    if preset == "pvt_v2_b3":
        return pvt_v2.PyramidVisionTransformerV2(
            depths=n["depth"], embed_dims=n["embed_dim"], num_heads=n["num_heads"],
            mlp_ratios=n["mlp_ratio"], num_classes=classes)
    return Pvt(size, n["depth"], n["embed_dim"], n["num_heads"], n["mlp_ratio"], classes=classes,
               mhsa_position=positions)


def narrow_config(preset, size, window, classes, with_dtn, positions):
    """The keys of the section `model` for a narrow network."""
    config = dict(preset=preset, image_size=size, init_image_size=size, num_classes=classes,
                  norm="dtn" if with_dtn else "ln")
    if preset == "swin_t":
        return {**config, **NARROW_SWIN, "window": window}
    return {**config, **NARROW, **({"mhsa_position": "true"} if positions else {})}


def trained_like(model):
    """Moves weights away from the initial ones, so that every term counts."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "attn.pos_proj" in name:  # offsets up to 56, and squares
                p.copy_(p * torch.tensor([0.1, 0.1, 0.001]))
                continue
            noise = 0.5 if "bias_table" in name else 0.1 if p.ndim == 1 else 0.02
            p.add_(noise * torch.randn_like(p))
    return model


def in_timms_names(model, state):
    """The tensors of dtn's checkpoint, under timm's names."""
    if isinstance(model, Pvt):
        return state
    module = swin_transformer if hasattr(model, "layers") else pvt_v2
    return module.checkpoint_filter_fn(state, model)


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")


def text_of(value):
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def write_config(folder, model, steps, batch):
    keys = ", ".join(f"{key}: {text_of(value)}" for key, value in model.items())
    (folder / "config.yaml").write_text(f"""name: parity
model: {{{keys}, init_weights: {folder}/weights.safetensors}}
data: {{dataset: tensors, root: {folder}, train: data.safetensors, val: data.safetensors,
  shuffle: false}}
optim: {{name: adamw, lr: 1.0e-3, eps: 1.0e-6, weight_decay: 0.05}}
schedule: {{name: constant, steps: {steps}}}
train: {{batch_size: {batch}, precision: fp32, eval_every: {steps}, checkpoint_every: {steps}}}
""")


def dtn_logits(programs, folder, checkpoint):
    out = folder / "logits.safetensors"
    run(programs / "dtn-eval", "--checkpoint", checkpoint, "--config", folder / "config.yaml",
        "--inputs", folder / "data.safetensors", "--save-logits", out)
    return safetensors_io.load(out)["logits"]


def logits_error(model, images, logits):
    with torch.no_grad():
        want = model.eval()(images)
    return ((logits - want).abs().max() / want.abs().max()).item()


def check_logits(programs, positions, preset, trained_at, size, with_dtn):
    classes, batch = 10, 2
    torch.manual_seed(1)
    model, heads = make(preset, trained_at, with_dtn, classes, positions)
    if with_dtn:
        put_dtn_in(model, preset, size, heads)
    trained_like(model)
    config = dict(preset=preset, image_size=size, init_image_size=trained_at, num_classes=classes,
                  norm="dtn" if with_dtn else "ln", num_heads=heads)
    if positions:
        config["mhsa_position"] = "true"
    images, labels = torch.randn(batch, 3, *size), torch.arange(batch)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_config(folder, config, 1, batch)
        safetensors_io.save(folder / "weights.safetensors", model.state_dict())
        safetensors_io.save(folder / "data.safetensors", {"images": images, "labels": labels})
        logits = dtn_logits(programs, folder, folder / "weights.safetensors")
        there = logits_error(model, images, logits)
        run(programs / "dtn-train", "--config", folder / "config.yaml", "--output", folder / "run")
        checkpoint = folder / "run/checkpoints/last/model.safetensors"
        if isinstance(model, Pvt) and size != trained_at:
            model, _ = make(preset, size, with_dtn, classes, positions)
            if with_dtn:
                put_dtn_in(model, preset, size, heads)
        model.load_state_dict(in_timms_names(model, safetensors_io.load(checkpoint)), strict=True)
        back = logits_error(model, images, dtn_logits(programs, folder, checkpoint))
    return there, back


def decay_groups(model, decay):
    """Matrices, kernels and PVT's tables of positions decay."""
    def decays(name, p):
        return p.ndim > 1 and name != "cls_token" and "bias_table" not in name
    named = list(model.named_parameters())
    return [{"params": [p for n, p in named if decays(n, p)], "weight_decay": decay},
            {"params": [p for n, p in named if not decays(n, p)], "weight_decay": 0.0}]


def check_steps(programs, positions, preset, with_dtn):
    classes = 10
    torch.manual_seed(1)
    model = make_narrow(preset, STEPS_SIZE, STEPS_WINDOW, classes, positions)
    if with_dtn:
        put_dtn_in(model, preset, STEPS_SIZE, NARROW["num_heads"])
    trained_like(model)
    config = narrow_config(preset, STEPS_SIZE, STEPS_WINDOW, classes, with_dtn, positions)
    images = torch.randn(STEPS * BATCH, 3, *STEPS_SIZE)
    labels = torch.randint(0, classes, (STEPS * BATCH,))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_config(folder, config, STEPS, BATCH)
        safetensors_io.save(folder / "weights.safetensors", model.state_dict())
        safetensors_io.save(folder / "data.safetensors", {"images": images, "labels": labels})
        run(programs / "dtn-train", "--config", folder / "config.yaml", "--output", folder / "run")
        state = safetensors_io.load(folder / "run/checkpoints/last/model.safetensors")
    trained = in_timms_names(model, state)
    model.double().train()
    optimizer = torch.optim.AdamW(decay_groups(model, 0.05), lr=1e-3, eps=1e-6)
    for i in range(STEPS):
        part = slice(i * BATCH, (i + 1) * BATCH)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[part].double()), labels[part]).backward()
        optimizer.step()
    worst, where = 0.0, ""
    for name, p in model.named_parameters():
        error = ((trained[name].double() - p).abs().max() / p.abs().max()).item()
        if not error <= worst:
            worst, where = error, name
    return worst, where


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    names = [*LOGITS, *STEPS_ROWS]
    parser.add_argument("--only", help="rows, comma separated: " + ", ".join(names))
    args = parser.parse_args()
    failed = False
    print(f"timm {timm.__version__}, PyTorch {torch.__version__}")
    for name in args.only.split(",") if args.only else names:
        positions = name.endswith("mhsa")
        if name in LOGITS:
            there, back = check_logits(args.bin, positions, *LOGITS[name])
            ok = there <= LOGITS_BOUND and back <= LOGITS_BOUND
            shown = f"PyTorch's weights {there:.2e}   dtn's {back:.2e}"
        else:
            worst, where = check_steps(args.bin, positions, *STEPS_ROWS[name])
            ok = worst <= WEIGHTS_BOUND
            shown = f"weights after {STEPS} steps {worst:.2e} ({where})"
        failed |= not ok
        print(f"{name:20s} {shown}   {'ok' if ok else 'FAILED'}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
