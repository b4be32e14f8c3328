"""Small models of every option, with weights like those after training, for the parity scripts of
ONNX files and PyTorch modules.
"""
import pathlib
import subprocess
import sys

import torch

import safetensors_io

SIDE, CLASSES = 48, 10
SMALL = dict(image_size=SIDE, patch_size=8, embed_dim=48, depth=3, num_heads=4, mlp_ratio=2,
             num_classes=CLASSES)
PAPER = dict(preset="vit_t", class_token_at=2, **SMALL)
TIMM = dict(preset="deit_tiny", **SMALL)
FREE = dict(pos_embed="patch", class_token_at=0)  # positions of the patches alone


def dtn(**options):
    return {"norm": {"type": "dtn", **options}}


def other(name, **options):
    return {"norm": {"type": name, **options}}


# Model keys, by name.
MODELS = {
    "ln, paper's": PAPER,
    "deit": TIMM,
    "deit3": dict(TIMM, layer_scale=1e-4, **FREE),
    "dinov2 registers": dict(TIMM, layer_scale=1e-5, registers=4, **FREE),
    "registers with positions": dict(TIMM, registers=3),
    "clip": dict(TIMM, norm_pre=True, eps=1e-5, act="quick_gelu"),
    "gap": dict(TIMM, pool="mean", qkv_bias=False, layer_scale=1e-6),
    "sbb": dict(TIMM, pool="mean", layer_scale=1e-5, registers=4, fc_norm=True, pos_embed="patch"),
    "mae fine-tuned": dict(TIMM, pool="mean", class_token=True, fc_norm=True),
    "fc_norm of the class token": dict(TIMM, fc_norm=True),
    "distilled": dict(TIMM, distilled=True),
    "distilled late": dict(PAPER, distilled=True, registers=2),
    "qk_norm": dict(TIMM, qk_norm=True),
    "silu": dict(TIMM, act="silu"),
    "gelu_tanh": dict(TIMM, act="gelu_tanh"),
    "swiglu": dict(TIMM, mlp="swiglu_packed", act="silu", mlp_ratio=2.67),
    "mhsa_position": dict(PAPER, mhsa_position=True),
    "dtn": dict(PAPER, **dtn()),
    "dtn official": dict(PAPER, **dtn(variant="official")),
    "dtn trunc_normal": dict(PAPER, **dtn(init="trunc_normal")),
    "dtn mean pooling": dict(PAPER, pool="mean", **dtn()),
    "dtn registers late": dict(PAPER, registers=2, layer_scale=0.1, qk_norm=True, **dtn()),
    "dtn pool 2": dict(PAPER, **dtn(pool=2)),
    "dtn pool 3 official": dict(PAPER, **dtn(pool=3, variant="official")),
    "dtn uniform": dict(PAPER, **dtn(position="uniform")),
    "dtn free": dict(PAPER, **dtn(position="free")),
    "dtn free pool 2": dict(PAPER, **dtn(position="free", pool=2)),
    "dtn banded": dict(PAPER, **dtn(position="banded:5")),
    "dtn banded pool 2": dict(PAPER, **dtn(position="banded:3", pool=2, variant="official")),
    "dtn lambda 0.3": dict(PAPER, **dtn(**{"lambda": 0.3})),
    "dtn only_var": dict(PAPER, **dtn(only_var=True)),
    "dtn eps": dict(PAPER, **dtn(eps=1e-3)),
    "dtn prefix ln": dict(TIMM, **dtn(prefix="ln")),
    "dtn prefix ln, registers": dict(TIMM, registers=2, layer_scale=0.1, **FREE,
                                     **dtn(prefix="ln", pool=2)),
    "rms": dict(PAPER, **other("rms")),
    "scale": dict(PAPER, **other("scale")),
    "bn": dict(PAPER, **other("bn")),
    "in": dict(PAPER, **other("in")),
    "in official": dict(PAPER, **other("in", variant="official")),
    "gn": dict(PAPER, **other("gn", groups=6)),
    "sn": dict(PAPER, **other("sn")),
    "power": dict(PAPER, **other("power", warmup=1)),
}


def as_yaml(value):
    if isinstance(value, dict):
        return "{%s}" % ", ".join(f"{k}: {as_yaml(v)}" for k, v in value.items())
    return str(value).lower()


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def make_checkpoint(programs, folder, model, batch=5):
    """Writes a file with our metadata, and data.safetensors. Returns the path and the images."""
    torch.manual_seed(len(as_yaml(model)))
    images, labels = torch.randn(batch, 3, SIDE, SIDE), torch.arange(batch) % CLASSES
    safetensors_io.save(folder / "data.safetensors", {"images": images, "labels": labels})
    (folder / "config.yaml").write_text(f"""name: exported
model: {as_yaml(model)}
data: {{dataset: tensors, root: {folder}, train: data.safetensors, val: data.safetensors}}
optim: {{lr: 1.0e-2}}
schedule: {{name: constant, steps: 2}}
train: {{batch_size: {batch}}}
""")
    run(programs / "dtn-train", "--config", folder / "config.yaml", "--output", folder / "run")
    trained = folder / "run/checkpoints/last/model.safetensors"
    tensors = safetensors_io.load(trained)
    for name, t in tensors.items():  # away from the start, so that every term counts
        size = 1.0 if name.endswith(("_norm_weight", ".gamma")) else 0.1
        noise = size * torch.randn_like(t)
        t += noise.abs() if name.endswith(("running_var", "running_phi")) else noise
    path = folder / "model.safetensors"
    safetensors_io.save(path, tensors, safetensors_io.metadata(trained))
    return path, images


def logits(programs, checkpoint, images, *options):
    """The logits of dtn-eval in float32."""
    folder = pathlib.Path(checkpoint).parent
    safetensors_io.save(folder / "images.safetensors", {"images": images})
    run(programs / "dtn-eval", "--checkpoint", checkpoint, "--inputs",
        folder / "images.safetensors", "--save-logits", folder / "logits.safetensors", *options)
    return safetensors_io.load(folder / "logits.safetensors")["logits"]
