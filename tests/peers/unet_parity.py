#!/usr/bin/env python3
"""Compares image-to-image models in dtn with unet_torch.py, for every normalizer and shortcut.

  python3 tests/peers/unet_parity.py --bin build/bin
  python3 tests/peers/unet_parity.py --bin build/bin --only spade,dms

For each model, compares the outputs of dtn-eval with PyTorch in float64, relative to the largest
value, then weights and running statistics after ten steps of dtn-train on a `tensors` data set,
relative to the largest value of each tensor. Before that, compares parameters and multiply-adds of
the presets. Exits with 1 if a bound is exceeded. `--float32` runs PyTorch in float32 in place of
the programs, to show the share of rounding in the bounds. Needs PyTorch; not part of the tests.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn

import safetensors_io
from unet_torch import PRESETS, READERS_OF_VECTOR, ConditionalInstanceNorm, UNet

OUTPUTS_BOUND, WEIGHTS_BOUND = 1e-4, 5e-4
STEPS, BATCH = 10, 8
LR, ADAM_EPS, DECAY = 1e-3, 1e-6, 0.05
SIZE, OUT_CHANNELS = (16, 24), 2
CONDITION_SIZE, STYLES, MAPPING = 5, 3, 6
CHARBONNIER_EPS = 1e-3
LOSSES = {"l1": lambda d: d.abs().mean(), "l2": lambda d: (d * d).mean(),
          "charbonnier": lambda d: (d * d + CHARBONNIER_EPS ** 2).sqrt().mean()}


# --- The models ----------------------------------------------------------------------------------

SHORTCUTS = ("none", "concat", "ms", "dms")
STATIC = ("bn", "in", "gn", "ln", "rms", "pono", "none", "dtn", "sn",
          {"type": "power", "warmup": STEPS // 2})


def condition(source, **more):
    styles = {"styles": STYLES} if source == "index" else {}
    return {"from": source, "size": CONDITION_SIZE, **styles, **more}


STYLED = {"from": "index", "styles": STYLES}
WEIGHTED = {"from": "vector", "size": CONDITION_SIZE, "styles": CONDITION_SIZE}
MAPPED = {"size": CONDITION_SIZE}
SPADE, CBN, DLN = ({"type": "spade", "hidden": 6}, {"type": "cbn", "hidden": 6},
                   {"type": "dln", "summary": 6})
CONDITIONAL = {  # the norm, and the section `condition`
    "cin": ("cin", STYLED), "cin of weights": ("cin", WEIGHTED),
    "adain": ("adain", {"from": "image"}),
    **{f"adain_mlp of {source}": ("adain_mlp", condition(source, mapping=MAPPING))
       for source in ("vector", "index", "image")},
    **{f"cbn of {source}": (CBN, condition(source)) for source in ("vector", "index", "image")},
    "adaln": ("adaln", condition("vector")),
    "spade": (SPADE, MAPPED), "spade of labels": (SPADE, MAPPED),
    "spade over in": ({**SPADE, "base": "in"}, MAPPED),
    "dln": (DLN, None),
}


def type_of(norm):
    return norm["type"] if isinstance(norm, dict) else norm


def all_models():
    models = {f"{type_of(norm)}, {shortcut}": dict(norm=norm, shortcut=shortcut)
              for norm in STATIC for shortcut in SHORTCUTS}
    models |= {f"bottleneck, {shortcut}": dict(bottleneck=2, shortcut=shortcut)
               for shortcut in SHORTCUTS}
    models |= {"pono alone": dict(shortcut="none", pono=True),
               "ms without pono": dict(shortcut="ms", pono=False),
               "dms, hidden": dict(shortcut="dms", shortcut_hidden=5),
               "residual": dict(residual=True, out_channels=3), "gelu": dict(act="gelu"),
               "in, then bn": dict(norm="in", decoder_norm="bn"),
               "charbonnier": dict(loss={"l1": 0, "charbonnier": 1})}
    for name, (norm, given) in CONDITIONAL.items():
        section = dict(condition=given) if given else {}
        models[name] = dict(decoder_norm=norm, **section)
        if name != "adain":
            models[f"{name}, everywhere"] = dict(norm=norm, bottleneck=1, shortcut="ms", **section)
    models["adain, bottleneck, ms"] = dict(**models["adain"], bottleneck=1, shortcut="ms")
    for name, spec in models.items():
        spec["labels"] = "labels" in name
    return models


def keys_of(spec):
    """The section `model`."""
    return {"image_size": SIZE, "channels": 3, "out_channels": OUT_CHANNELS,
            "embed_dim": [8, 16, 24], "depth": [1, 2, 2], "act": "silu",
            **{key: value for key, value in spec.items() if key not in ("loss", "labels")}}


def unet_of(keys):
    """The network of a section `model`."""
    renamed = {"embed_dim": "widths", "image_size": "image"}
    return UNet(**{renamed.get(key, key): value for key, value in keys.items()})


def loss_of(spec):
    """The section `translate`."""
    return spec.get("loss", {"l1": 0, "l2": 1})


def data_of(spec, rows):
    """The fields that the model reads, and the target."""
    keys = keys_of(spec)
    types = {type_of(keys[key]) for key in ("norm", "decoder_norm") if key in keys}
    source = keys.get("condition", {}).get("from")
    read = {"vector": "vector", "index": "style", "image": "style_image"}
    size = keys["image_size"]
    fields = {"input": torch.rand(rows, keys["channels"], *size),
              "target": torch.rand(rows, keys["out_channels"], *size)}
    if types & (READERS_OF_VECTOR | {"cin"}):
        fields[read[source]] = None
    if "adain" in types:
        fields["style_image"] = None
    if "spade" in types:
        fields["map"] = None
    made = {"vector": lambda: torch.randn(rows, CONDITION_SIZE),
            "style": lambda: torch.randint(STYLES, (rows,)),
            "style_image": lambda: torch.rand(rows, keys["channels"], *size),
            "map": lambda: (torch.randint(CONDITION_SIZE, (rows, *size)) if spec["labels"]
                            else torch.randn(rows, CONDITION_SIZE, *size))}
    return {name: made[name]() if field is None else field for name, field in fields.items()}


def shake(model):
    """Moves weights away from the symmetric start, so that every term counts."""
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
        for name, b in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                b.add_(torch.rand_like(b) * 0.5)


# --- Both sides ----------------------------------------------------------------------------------

def as_yaml(value):
    if isinstance(value, dict):
        return "{%s}" % ", ".join(f"{k}: {as_yaml(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(map(as_yaml, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def config_text(spec, folder):
    model = {"preset": "unet_tiny", **keys_of(spec),
             "init_weights": folder / "weights.safetensors"}
    return f"""name: parity
task: translate
model: {as_yaml(model)}
translate: {as_yaml(loss_of(spec))}
data: {{dataset: tensors, root: {folder}, train: data.safetensors, shuffle: false}}
optim: {{name: adamw, lr: {LR}, eps: {ADAM_EPS}, weight_decay: {DECAY}}}
schedule: {{name: constant, steps: {STEPS}}}
train: {{batch_size: {BATCH}, precision: fp32, checkpoint_every: {STEPS}}}
"""


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stderr}")


def of_programs(spec, programs, weights, data):
    """The output of dtn-eval, and the weights after dtn-train."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config, file, inputs, out = (folder / f for f in (
            "config.yaml", "weights.safetensors", "data.safetensors", "output.safetensors"))
        safetensors_io.save(file, weights)
        safetensors_io.save(inputs, data)
        config.write_text(config_text(spec, folder))
        run(programs / "dtn-eval", "--checkpoint", file, "--config", config, "--inputs", inputs,
            "--save-logits", out, "--device", "cpu")
        run(programs / "dtn-train", "--config", config, "--output", folder / "run", "--device",
            "cpu")
        return (safetensors_io.load(out)["output"],
                safetensors_io.load(folder / "run/checkpoints/last/model.safetensors"))


def decay_groups(model):
    """Matrices decay, but not the gains and shifts of styles."""
    kept = {id(p) for m in model.modules() if isinstance(m, ConditionalInstanceNorm)
            for p in m.parameters(recurse=False)}
    groups = {True: [], False: []}
    for p in model.parameters():
        groups[p.ndim > 1 and id(p) not in kept].append(p)
    return [{"params": groups[True], "weight_decay": DECAY},
            {"params": groups[False], "weight_decay": 0.0}]


def of_peer(spec, weights, data, dtype, batch=BATCH):
    """The same from PyTorch, and the loss of each step."""
    model = unet_of(keys_of(spec)).to(dtype)
    model.load_state_dict(weights)
    fields = {k: v.to(dtype) if v.is_floating_point() else v for k, v in data.items()}
    target = fields.pop("target")
    with torch.no_grad():
        output = model.eval()(**fields)
    optimizer = torch.optim.AdamW(decay_groups(model), lr=LR, eps=ADAM_EPS)
    model.train()
    losses = []
    for i in range(STEPS):
        first = i * batch % len(target)
        part = slice(first, first + batch)
        d = model(**{k: v[part] for k, v in fields.items()}) - target[part]
        loss = sum(weight * LOSSES[kind](d) for kind, weight in loss_of(spec).items())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return output, model.state_dict(), torch.tensor(losses, dtype=torch.float64)


def difference(found, expected):
    return ((found.double() - expected).abs().max() / expected.abs().max()).item()


def check(spec, args):
    """The differences of outputs and of weights, and the name of the weight with the largest."""
    torch.manual_seed(args.seed)
    model = unet_of(keys_of(spec))
    shake(model)
    weights, data = model.state_dict(), data_of(spec, STEPS * BATCH)
    output, trained = (of_peer(spec, weights, data, torch.float32)[:2] if args.float32
                       else of_programs(spec, args.bin, weights, data))
    expected, end, _ = of_peer(spec, weights, data, torch.float64)
    if trained.keys() != end.keys():
        raise RuntimeError(f"names differ: {sorted(trained.keys() ^ end.keys())}")
    errors = {name: difference(trained[name], value) for name, value in end.items()}
    where = max(errors, key=errors.get)
    return difference(output, expected), errors[where], where


# --- Sizes ---------------------------------------------------------------------------------------

@torch.no_grad()
def multiply_adds(model, fields):
    """Multiply-adds of convolutions and linear layers for one image; `fields` have a batch of 1."""
    total = 0

    def add(layer, _, output):
        nonlocal total
        total += output.numel() * layer.weight[0].numel()

    layers = [m for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    handles = [layer.register_forward_hook(add) for layer in layers]
    model.eval()(**fields)
    for handle in handles:
        handle.remove()
    return total


PRESET_SIZES = {  # parameters and millions of multiply-adds: without shortcut and ms, concat, dms
    ("unet_tiny", 32, 3): ((107491, "24.48"), (119011, "29.20"), (122019, "31.92")),
    ("unet_tiny", 28, 1): ((106913, "18.29"), (118433, "21.90"), (121441, "23.99")),
    ("unet_small", 128, 3): ((1755587, "2218"), (1949123, "2671"), (1886883, "2759")),
    ("unet_base", 256, 3): ((7013251, "35257"), (7787395, "42505"), (7533891, "43812")),
    ("resnet_9", 256, 3): ((11368067, "55793"), (11552387, "60624"), (11888707, "64347")),
}
EIGHT = {"size": 8, "styles": 8, "mapping": 64}
NORM_SIZES = [  # changes of unet_tiny, parameters, millions of multiply-adds if they are known
    (dict(decoder_norm="cin", condition={"from": "index", **EIGHT}), 120355, "29.20"),
    (dict(decoder_norm="adain"), 118819, "39.08"),
    (dict(decoder_norm="adain_mlp", condition={"from": "index", **EIGHT}), 136099, None),
    (dict(decoder_norm="adain_mlp", condition={"from": "image", **EIGHT}), 141387, None),
    (dict(decoder_norm={"type": "cbn", "hidden": 32}, condition=EIGHT), 126499, None),
    (dict(norm={"type": "cbn", "hidden": 32}, condition=EIGHT), 143011, None),
    (dict(decoder_norm="adaln", condition=EIGHT), 120547, None),
    (dict(decoder_norm={"type": "spade", "hidden": 32}, condition=EIGHT), 183651, "63.41"),
    (dict(decoder_norm={"type": "dln", "summary": 16}), 123683, "29.99"),
]


def sizes(name, side, channels, changes):
    model = UNet(**{**PRESETS[name][1], "channels": channels, "image": (side, side), **changes})
    image = torch.zeros(1, channels, side, side)
    fields = dict(input=image, style=torch.zeros(1, dtype=torch.int64), vector=torch.zeros(1, 8),
                  map=torch.zeros(1, 8, side, side), style_image=image)
    return sum(p.numel() for p in model.parameters()), multiply_adds(model, fields) / 1e6


def sizes_are_right():
    rows = [(preset, dict(shortcut=shortcut), *expected)
            for preset, (plain, concat, dms) in PRESET_SIZES.items()
            for shortcut, expected in zip(SHORTCUTS, (plain, concat, plain, dms))]
    rows += [(("unet_tiny", 32, 3), *row) for row in NORM_SIZES]
    right = True
    for (name, side, channels), changes, parameters, work in rows:
        count, millions = sizes(name, side, channels, changes)
        text = f"{millions:.{len(work.partition('.')[2])}f}" if work else f"{millions:.2f}"
        ok = count == parameters and text == (work or text)
        right &= ok
        shown = ", ".join(f"{key} {as_yaml(value)}" for key, value in changes.items())
        print(f"{name}, {side} x {side}, {shown}: {count:,} parameters, {text} M multiply-adds"
              f"{'' if ok else f'; expected {parameters:,} and {work}'}", flush=True)
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--only", default="", help="parts of names of models, comma separated")
    parser.add_argument("--float32", action="store_true", help="PyTorch in place of the programs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", action="store_true", help="sizes of the presets, nothing else")
    args = parser.parse_args()
    if not (args.float32 or args.sizes or (args.bin / "dtn-eval").exists()):
        parser.error(f"{args.bin} has no dtn-eval; set --bin")
    failed = not args.only and not sizes_are_right()
    models = {} if args.sizes else {name: spec for name, spec in all_models().items()
                                    if any(part in name for part in args.only.split(","))}
    print(f"\n{'model':32s} outputs   weights after {STEPS} steps" if models else "")
    for name, spec in models.items():
        try:
            outputs, weights, where = check(spec, args)
        except RuntimeError as error:
            print(f"{name:32s} {error}", flush=True)
            failed = True
            continue
        ok = outputs <= OUTPUTS_BOUND and weights <= WEIGHTS_BOUND
        failed |= not ok
        print(f"{name:32s} {outputs:.1e}   {weights:.1e} {'ok' if ok else 'FAILED'} ({where})",
              flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
