#!/usr/bin/env python3
"""Compares the folders that dtn-export --hub writes with timm.

  python3 tests/peers/hub_folder.py --bin build/bin

Trains small vision transformers for a step: of timm's usual form, with mean pooling, registers,
layer scale, positions for the patches alone, one and five channels, CLIP's form and epsilon,
distillation tokens. timm loads each folder by create_model("local-dir:..."), and its logits must
equal those of dtn-eval to 1e-5. Needs timm; not part of the tests.
"""
import argparse
import pathlib
import subprocess
import tempfile

import timm
import torch

import safetensors_io

SMALL = {"model.image_size": 32, "model.patch_size": 8, "model.embed_dim": 48, "model.depth": 2,
         "model.num_heads": 3, "model.num_classes": 7, "data.dataset": "synthetic", "data.size": 8,
         "train.batch_size": 4, "train.micro_batch": "null", "schedule.steps": 3, "optim.lr": 1e-3,
         "train.precision": "fp32"}
FORMS = {
    "usual": ("vit_tiny_patch16_224", {}),
    "mean": ("vit_tiny_patch16_224", {"model.pool": "mean", "model.class_token": "true",
                                      "model.fc_norm": "true"}),
    "no-token": ("vit_tiny_patch16_224", {"model.pool": "mean", "model.class_token": "false",
                                          "model.pos_embed": "patch"}),
    "registers": ("vit_tiny_patch16_224", {"model.registers": 2, "model.pos_embed": "patch",
                                           "model.layer_scale": 0.1, "model.qk_norm": "true"}),
    "gray": ("vit_tiny_patch16_224", {"model.channels": 1, "model.qkv_bias": "false",
                                      "data.mean": 0.5, "data.std": 0.5}),
    "five": ("vit_tiny_patch16_224", {"model.channels": 5, "model.act": "gelu_tanh",
                                      "data.dataset": "tensors"}),
    "wide": ("vit_tiny_patch16_224", {"model.image_size": "[32, 64]", "model.mlp_ratio": 3}),
    "clip": ("vit_base_patch32_clip_224", {}),
    "quick": ("vit_base_patch32_clip_224", {"model.act": "quick_gelu", "model.qk_norm": "true"}),
    "silu": ("vit_tiny_patch16_224", {"model.act": "silu", "model.norm_pre": "true"}),
    "distilled": ("deit_tiny_distilled_patch16_224", {}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin", help="folder of the programs")
    args = parser.parse_args()
    programs = pathlib.Path(args.bin).resolve()

    def run(*command):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as work:
        for name, (config, changes) in FORMS.items():
            folder = pathlib.Path(work, name)
            folder.mkdir()
            settings = {**SMALL, **changes}
            if settings["data.dataset"] == "tensors":
                file = settings["data.train"] = settings["data.val"] = folder / "data.safetensors"
                safetensors_io.save(file, {"images": torch.randn(8, settings["model.channels"], 32, 32),
                                           "labels": torch.arange(8) % 7})
                del settings["data.size"]
            sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
            run(programs / "dtn-train", "--config", config, *sets, "--output", folder / "run")
            run(programs / "dtn-export", folder / "run/checkpoints/last", "--hub", folder / "hub")
            size = (32, 64) if name == "wide" else (32, 32)
            images = torch.randn(4, settings.get("model.channels", 3), *size)
            safetensors_io.save(folder / "images.safetensors", {"images": images})
            run(programs / "dtn-eval", folder / "run/checkpoints/last", "--inputs",
                folder / "images.safetensors", "--save-logits", folder / "logits.safetensors")
            ours = safetensors_io.load(folder / "logits.safetensors")["logits"]
            model = timm.create_model(f"local-dir:{folder / 'hub'}", pretrained=True).eval()
            with torch.no_grad():
                theirs = model(images)
            worst = (ours - theirs).abs().max().item() / theirs.abs().max().item()
            print(f"{name:10} {type(model).__name__:28} largest difference {worst:.1e} of the "
                  f"largest logit {theirs.abs().max().item():.2f}")
            assert worst < 1e-5, name


if __name__ == "__main__":
    main()
