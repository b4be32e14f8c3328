#!/usr/bin/env python3
"""Compares dtn's models with timm's, for every option that public checkpoints need.

  python3 tests/peers/timm_parity.py --bin build/bin

Each row saves a narrow timm model with random weights. The logits of dtn-eval must be timm's
(float32). Then dtn-train takes a step from these weights; timm loads the checkpoint strictly and
must give dtn's logits. Exits with 1 if the bound is exceeded. Needs PyTorch and timm; not part of
the tests.
"""
import argparse
import functools
import pathlib
import subprocess
import sys
import tempfile

import timm
import torch
from timm.layers import SwiGLUPacked
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer

import safetensors_io

BOUND = 1e-4  # of the largest logit
CLASSES, SIDE, BATCH = 10, 96, 8
TIMM = dict(img_size=SIDE, patch_size=16, embed_dim=64, depth=2, num_heads=4, num_classes=CLASSES)
DTN = dict(preset="deit_tiny", image_size=SIDE, embed_dim=64, depth=2, num_heads=4,
           num_classes=CLASSES)

FREE_PREFIX = dict(no_embed_class=True)
CLIP = dict(pre_norm=True, norm_layer=functools.partial(torch.nn.LayerNorm, eps=1e-5))
GAP = dict(global_pool="avg", class_token=False)

# timm's options, and dtn's. Models of features (num_classes 0) take no step.
CASES = {
    "deit": ({}, {}),
    "deit3": (dict(init_values=1e-6, **FREE_PREFIX), dict(layer_scale=1e-6, pos_embed="patch")),
    "dino": (dict(num_classes=0), dict(num_classes=0)),
    "dinov2": (dict(init_values=1e-5, num_classes=0), dict(layer_scale=1e-5, num_classes=0)),
    "dinov2 registers": (dict(init_values=1e-5, reg_tokens=4, num_classes=0, **FREE_PREFIX),
                         dict(layer_scale=1e-5, registers=4, num_classes=0, pos_embed="patch")),
    "registers with positions": (dict(reg_tokens=4), dict(registers=4)),
    "clip": (CLIP, dict(norm_pre=True, eps=1e-5)),
    "clip quick_gelu": (dict(act_layer="quick_gelu", **CLIP),
                        dict(norm_pre=True, eps=1e-5, act="quick_gelu")),
    "gap": (dict(qkv_bias=False, init_values=1e-6, fc_norm=False, **GAP),
            dict(pool="mean", qkv_bias=False, layer_scale=1e-6)),
    "sbb": (dict(init_values=1e-5, reg_tokens=4, mlp_ratio=5.6, **GAP, **FREE_PREFIX),
            dict(pool="mean", layer_scale=1e-5, registers=4, mlp_ratio=5.6, fc_norm=True,
                 pos_embed="patch")),
    "mae fine-tuned": (dict(global_pool="avg"), dict(pool="mean", class_token=True, fc_norm=True)),
    "distilled": (dict(distilled=True), dict(distilled=True)),
    "giant": (dict(mlp_layer=SwiGLUPacked, act_layer=torch.nn.SiLU, mlp_ratio=2.6667,
                   init_values=1e-5),
              dict(mlp="swiglu_packed", act="silu", mlp_ratio=2.6667, layer_scale=1e-5)),
    "no qkv bias": (dict(qkv_bias=False), dict(qkv_bias=False)),
    "qk_norm": (dict(qk_norm=True), dict(qk_norm=True)),
    "silu": (dict(act_layer="silu"), dict(act="silu")),
    "gelu_tanh": (dict(act_layer="gelu_tanh"), dict(act="gelu_tanh")),
    "larger grid": ({}, dict(image_size=160, pos_resize="bicubic_antialias")),
    "smaller grid": (dict(reg_tokens=2),
                     dict(registers=2, image_size=64, pos_resize="bicubic_antialias")),
}


def make(options):
    torch.manual_seed(1)
    distilled = options.get("distilled", False)
    kept = {k: v for k, v in options.items() if k != "distilled"}
    model = (VisionTransformerDistilled if distilled else VisionTransformer)(**{**TIMM, **kept})
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return model.eval()


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")


def write_config(folder, options):
    model = ", ".join(f"{k}: {str(v).lower()}" for k, v in {**DTN, **options}.items())
    (folder / "config.yaml").write_text(f"""name: parity
model: {{{model}, init_weights: {folder}/weights.safetensors}}
data: {{dataset: tensors, root: {folder}, train: data.safetensors, val: data.safetensors}}
optim: {{lr: 1.0e-3}}
schedule: {{name: constant, steps: 1}}
train: {{batch_size: {BATCH}}}
""")


def dtn_logits(programs, folder, checkpoint):
    out = folder / "logits.safetensors"
    run(programs / "dtn-eval", "--checkpoint", checkpoint, "--config", folder / "config.yaml",
        "--inputs", folder / "data.safetensors", "--save-logits", out)
    return safetensors_io.load(out)["logits"]


def error(model, images, logits):
    with torch.no_grad():
        want = model(images)
    return ((logits - want).abs().max() / want.abs().max()).item()


def check(timm_options, dtn_options, programs):
    model = make(timm_options)
    side = dtn_options.get("image_size", SIDE)
    images, labels = torch.randn(BATCH, 3, side, side), torch.arange(BATCH) % CLASSES
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_config(folder, dtn_options)
        safetensors_io.save(folder / "weights.safetensors", model.state_dict())
        safetensors_io.save(folder / "data.safetensors", {"images": images, "labels": labels})
        if side != SIDE:
            model.set_input_size((side, side))
        there = error(model, images, dtn_logits(programs, folder, folder / "weights.safetensors"))
        if dtn_options.get("num_classes") == 0:
            return there, None
        run(programs / "dtn-train", "--config", folder / "config.yaml", "--output", folder / "run")
        checkpoint = folder / "run/checkpoints/last/model.safetensors"
        model.load_state_dict(safetensors_io.load(checkpoint))
        return there, error(model, images, dtn_logits(programs, folder, checkpoint))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--only", help="rows, comma separated: " + ", ".join(CASES))
    args = parser.parse_args()
    failed = False
    print(f"timm {timm.__version__}, PyTorch {torch.__version__}")
    for name in args.only.split(",") if args.only else CASES:
        there, back = check(*CASES[name], args.bin)
        ok = there <= BOUND and (back is None or back <= BOUND)
        failed |= not ok
        shown = "       -" if back is None else f"{back:.2e}"
        print(f"{name:26s} timm's weights {there:.2e}   dtn's {shown}   {'ok' if ok else 'FAILED'}",
              flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
