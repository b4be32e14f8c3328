#!/usr/bin/env python3
"""Compares tools/pytorch/dtn_torch.py with dtn's programs.

  python3 tests/peers/torch_module_parity.py --bin build/bin

For a model of each option, the module's logits must be dtn-eval's; a step of gradient descent by
dtn-train must move each tensor as the module's gradients say; and dtn-eval must read a file that
the module saves, with the same logits. Exits with 1 if a bound is exceeded. Needs PyTorch; not part
of the tests.
"""
import argparse
import pathlib
import sys
import tempfile

import torch

import safetensors_io
from exported_models import MODELS, logits, make_checkpoint, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/pytorch"))
import dtn_torch  # noqa: E402

LOGITS_BOUND = 1e-4  # of the largest logit, or of 1
GRADIENT_BOUND = 5e-4  # of the largest gradient of each tensor
RATE = 1.0  # of the step: differences of weights are gradients


def gradients_of_dtn(programs, folder, checkpoint):
    """Gradients of the mean cross-entropy over data.safetensors, as differences of weights."""
    config = dtn_torch.read_safetensors(checkpoint)[1]["config"]
    (folder / "step.yaml").write_text(config)
    run(programs / "dtn-train", "--config", folder / "step.yaml", "--output", folder / "step",
        "--set", f"model.init_weights={checkpoint}", "--set", "optim.name=sgd",
        "--set", f"optim.lr={RATE}", "--set", "optim.momentum=0", "--set", "optim.weight_decay=0",
        "--set", "optim.eps=null", "--set", "schedule.steps=1", "--set", "model.drop_path=0")
    before = safetensors_io.load(checkpoint)
    after = safetensors_io.load(folder / "step/checkpoints/last/model.safetensors")
    return {name: (before[name].double() - after[name].double()) / RATE for name in before}


def gradient_error(module, images, labels, want):
    """The largest error relative to the largest gradient of its tensor, and the tensor's name.
    Leaves out biases of keys, which have no gradient but rounding."""
    module.zero_grad()
    torch.nn.functional.cross_entropy(module(images), labels).backward()
    worst, where = 0.0, ""
    channels = module.c["embed_dim"]
    for name, p in module.named_parameters():
        got, expected = p.grad, want[name]
        if got is None:  # inert
            got = torch.zeros_like(p)
        if name.endswith("k_norm.bias"):
            continue
        if name.endswith("qkv.bias"):
            keep = [i for i in range(3 * channels) if not channels <= i < 2 * channels]
            got, expected = got[keep], expected[keep]
        # Differences of float32 weights cannot resolve gradients below the rounding of the weights.
        rounding = 2.0 ** -23 * p.abs().max().item() / RATE
        error = (got.double() - expected).abs().max().item()
        error = max(0.0, error - rounding) / max(expected.abs().max().item(), 1e-6)
        if error > worst:
            worst, where = error, name
    return worst, where


def check(model, programs):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        checkpoint, images = make_checkpoint(programs, folder, model)
        module = dtn_torch.load(checkpoint)
        want = logits(programs, checkpoint, images)
        size = want.abs().max().clamp(min=1)
        with torch.no_grad():
            logit_error = ((module(images) - want).abs().max() / size).item()
        labels = safetensors_io.load(folder / "data.safetensors")["labels"]
        gradient, where = gradient_error(module, images, labels,
                                         gradients_of_dtn(programs, folder, checkpoint))
        saved = folder / "saved.safetensors"
        dtn_torch.save(module, saved)
        back = ((logits(programs, saved, images) - want).abs().max() / size).item()
        return logit_error, back, gradient, where


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--only", help="models, separated by semicolons: " + "; ".join(MODELS))
    args = parser.parse_args()
    print(f"PyTorch {torch.__version__}")
    failed = False
    for name in args.only.split(";") if args.only else MODELS:
        if MODELS[name].get("norm", {"type": "ln"})["type"] not in ("ln", "dtn"):
            continue  # the module has no others
        logit_error, back, gradient, where = check(MODELS[name], args.bin)
        ok = logit_error <= LOGITS_BOUND and back == 0 and gradient <= GRADIENT_BOUND
        failed |= not ok
        print(f"{name:28s} logits {logit_error:.2e}   saved {back:.1e}   gradients {gradient:.2e} "
              f"({where})   {'ok' if ok else 'FAILED'}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
