#!/usr/bin/env python3
"""Compares the public models that dtn knows by name with timm.

  python3 tests/peers/public_models.py --bin build/bin                 the tables alone: a minute
  python3 tests/peers/public_models.py --bin build/bin --logits        the networks, at full size
  python3 tests/peers/public_models.py --bin build/bin --logits --depth 2   or cut to two blocks

For each name of `dtn-info --models`: the number of parameters, and mean, std, crop_pct,
interpolation and image size as timm's pretrained_cfg has them; a bare architecture must mean timm's
default tag. With --logits each architecture is made by timm with random weights, saved by timm as a
folder of the Hugging Face hub, and evaluated by dtn-eval from that folder alone; then dtn-train
takes a step with the network cut to two blocks, and timm must load the checkpoint strictly and give
dtn's logits. Exits with 1 when anything differs. Needs PyTorch, timm and PyYAML; not part of the
tests.
"""
import argparse
import datetime
import fnmatch
import gc
import pathlib
import subprocess
import sys
import tempfile

import timm
import torch
import yaml
from timm.models import save_for_hf

import safetensors_io

BOUND = 1e-4  # of the largest logit
BATCH = 2


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def printed_config(programs, name):
    return yaml.safe_load(run(programs / "dtn-train", "--config", name, "--print-config"))


def parameters_of(programs, name):
    lines = run(programs / "dtn-info", "--config", name).splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("parameters")))


def compare_row(programs, name):
    """Returns a sentence for each difference from timm."""
    cfg = timm.get_pretrained_cfg(name)
    with torch.device("meta"):
        model = timm.create_model(name)
    config = printed_config(programs, name)
    ours = {"parameters": parameters_of(programs, name),
            "classes": config["model"]["num_classes"],
            "input_size": [config["model"]["channels"]] + [config["model"]["image_size"]] * 2,
            **{key: config["data"][key] for key in ("mean", "std", "crop_pct", "interpolation")}}
    theirs = {"parameters": sum(p.numel() for p in model.parameters()),
              "classes": cfg.num_classes, "input_size": list(cfg.input_size),
              "mean": list(cfg.mean), "std": list(cfg.std), "crop_pct": cfg.crop_pct,
              "interpolation": cfg.interpolation}
    return [f"{key} {ours[key]}, timm's {want}" for key, want in theirs.items()
            if ours[key] != want]


def check_tables(programs, names):
    faults = []
    for name in names:
        faults += [f"{name}: {fault}" for fault in compare_row(programs, name)]
    for architecture in architectures_of(names):
        name = printed_config(programs, architecture)["name"]
        default = timm.get_pretrained_cfg(architecture).tag
        if name != f"{architecture}.{default}":
            faults.append(f"{architecture} stands for {name}, timm's default tag is {default}")
    print(f"{len(names)} names, {len(architectures_of(names))} architectures: "
          f"{len(faults)} differences")
    for fault in faults:
        print("  " + fault)
    return not faults


def architectures_of(names):
    return list(dict.fromkeys(name.split(".")[0] for name in names))


def trained_like(model):
    """Moves norms, gains, biases, tokens and positions away from their initial values."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim != 2:
                p.add_((0.02 if "patch_embed" in name else 0.1) * torch.randn_like(p))
    return model.eval()


def dtn_logits(programs, folder, checkpoint):
    out = folder / "logits.safetensors"
    run(programs / "dtn-eval", "--checkpoint", checkpoint, "--inputs",
        folder / "data.safetensors", "--save-logits", out)
    return safetensors_io.load(out)["logits"]


def difference(got, want):
    return ((got - want).abs().max() / want.abs().max()).item()


def timm_to_dtn(programs, name, folder, depth):
    torch.manual_seed(1)
    cut = {"depth": depth} if depth else {}
    model = trained_like(timm.create_model(name, **cut))
    side = timm.get_pretrained_cfg(name).input_size[1]
    images = torch.randn(BATCH, 3, side, side)
    with torch.no_grad():
        want = model(images)
    safetensors_io.save(folder / "data.safetensors", {"images": images})
    save_for_hf(model, folder / "hub", model_args=cut, safe_serialization=True)
    del model
    gc.collect()
    return difference(dtn_logits(programs, folder, folder / "hub"), want)


def dtn_to_timm(programs, architecture, folder):
    classes = timm.get_pretrained_cfg(architecture).num_classes or 10
    model = timm.create_model(architecture, depth=2, num_classes=classes).eval()
    images = safetensors_io.load(folder / "data.safetensors")["images"]
    safetensors_io.save(folder / "data.safetensors",
                        {"images": images, "labels": torch.arange(BATCH) % classes})
    settings = {"model.depth": 2, "model.num_classes": classes, "data.dataset": "tensors",
                "data.root": folder, "data.train": "data.safetensors",
                "data.val": "data.safetensors", "schedule.name": "constant", "schedule.steps": 1,
                "train.batch_size": BATCH, "optim.lr": 1e-3}
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    run(programs / "dtn-train", "--config", architecture, *sets, "--output", folder / "run")
    checkpoint = folder / "run/checkpoints/last/model.safetensors"
    model.load_state_dict(safetensors_io.load(checkpoint), strict=True)
    with torch.no_grad():
        return difference(dtn_logits(programs, folder, folder / "run"), model(images))


def check_logits(programs, names, depth):
    ok = True
    print(f"{datetime.date.today()}, timm {timm.__version__}, PyTorch {torch.__version__}, float32")
    for architecture in architectures_of(names):
        name = next(n for n in names if n.startswith(architecture + "."))
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            there = timm_to_dtn(programs, name, folder, depth)
            back = dtn_to_timm(programs, architecture, folder)
        passed = there <= BOUND and back <= BOUND
        ok &= passed
        print(f"| `{architecture}` | {there:.1e} | {back:.1e} |{'' if passed else ' FAILED'}",
              flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--logits", action="store_true", help="compare what the networks compute")
    parser.add_argument("--depth", type=int, help="blocks of the networks of --logits")
    parser.add_argument("--only", default="*", help="names that match this pattern")
    args = parser.parse_args()
    listed = [line.split()[0] for line in run(args.bin / "dtn-info", "--models").splitlines()[1:]]
    names = fnmatch.filter(listed, args.only)
    if not names:
        sys.exit(f"no name matches {args.only}")
    ok = check_logits(args.bin, names, args.depth) if args.logits else check_tables(args.bin, names)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
