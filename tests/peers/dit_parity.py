#!/usr/bin/env python3
"""Compares dit_torch.py with the formulas of the golden files in float64, and DDIM with dtn-sample.

  python3 tests/peers/dit_parity.py --sample build/bin/dtn-sample

Prints the largest difference of each comparison: of networks with LayerNorm and DTN, of ten
training steps (losses, weights and their average), and of samples in float32. Fails if one is
larger than its bound. Needs PyTorch 2; not part of the tests.
"""
import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

import torch

import dit_torch  # first: it adds the folder of tests/golden to the path
import safetensors_io
import make_diffusion_goldens as training
import make_dit_goldens as network

FOLDER = training.FOLDER
TINY = dict(width=training.WIDTH, depth=training.DEPTH, heads=training.HEADS, patch=training.PATCH,
            channels=training.CHANNELS, image=(training.SIDE, training.SIDE),
            classes=training.CLASSES)
SAMPLING_STEPS = 10


def largest_difference(a, b):
    """Largest difference, relative to the largest value of b."""
    return ((a - b).abs().max() / b.abs().max()).item()


def network_difference(name, product):
    into, norm, sigma, classes, affine = network.CASES[name]
    parameters = {}
    for seed, (tensor, shape) in enumerate(network.shapes(into, norm, sigma, classes,
                                                          affine).items(), 1):
        shift, scale = network.range_of(tensor, shape)
        values = network.values(seed, math.prod(shape)) * scale + shift
        parameters[tensor] = values.reshape(shape)
    shape = network.BATCH, network.CHANNELS, network.HEIGHT, network.WIDTH
    inputs = (network.values(network.IMAGES, math.prod(shape)).reshape(shape),
              torch.tensor(network.TIMESTEPS), torch.tensor(network.LABELS))
    expected = network.Net(into, norm, parameters).forward(inputs[0], inputs[1].double(), inputs[2])
    model = dit_torch.DiT(network.D, network.DEPTH, network.HEADS, network.PATCH, norm, product,
                          channels=network.CHANNELS, image=shape[2:], classes=classes, sigma=sigma)
    model.load_public(parameters)
    return largest_difference(model(*inputs), expected)


def trained(prefix):
    """A model with the expected weights."""
    expected = safetensors_io.load(FOLDER / "dit_expected.safetensors")
    model = dit_torch.DiT(**TINY)
    model.load_public({name.removeprefix(prefix): tensor.double()
                       for name, tensor in expected.items() if name.startswith(prefix)})
    return list(model.parameters())


def training_differences():
    data = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor
            in safetensors_io.load(FOLDER / "dit_data.safetensors").items()}
    expected = safetensors_io.load(FOLDER / "dit_expected.safetensors")
    model = dit_torch.DiT(**TINY)
    model.load_public({name: tensor.double() for name, tensor
                       in safetensors_io.load(FOLDER / "dit_init.safetensors").items()})
    run = dit_torch.Training(model, lr=training.LR, average=training.EMA)
    losses = []
    for i in range(training.UPDATES):
        at = i * training.BATCH % training.ROWS
        rows = {name: tensor[at:at + training.BATCH] for name, tensor in data.items()}
        labels = torch.where(rows["drop"] == 1, training.CLASSES, rows["labels"])
        losses.append(run.step((rows["images"], labels, rows["timesteps"], rows["noise"])))
    mse, bound = torch.tensor(losses).unbind(1)
    parts = {"weights": (run.parameters, trained("model.")),
             "average": (run.averages, trained("ema."))}
    # The keys' third of qkv.bias has no gradient, so AdamW enlarges rounding there.
    for i, (name, _) in enumerate(model.named_parameters()):
        for pair in parts.values() if name.endswith("qkv.bias") else ():
            for values in pair:
                values[i].data[training.WIDTH:2 * training.WIDTH] = 0
    found = {"mse": largest_difference(mse, expected["mse"].double()),
             "bound": largest_difference(bound, expected["vb"].double())}
    for name, (a, b) in parts.items():
        found[name] = max(largest_difference(p, q) for p, q in zip(a, b))
    return found


def sample_difference(program, guidance):
    """Compares samples with four channels, of which guidance changes three."""
    torch.manual_seed(0)
    training.CHANNELS = 4
    weights = training.make_model().state_dict()
    labels = torch.arange(training.CLASSES)
    x = torch.randn(len(labels), 4, training.SIDE, training.SIDE, dtype=torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        file, noise, out = (pathlib.Path(folder, f"{name}.safetensors")
                            for name in ("weights", "noise", "samples"))
        safetensors_io.save(file, {name: w.float() for name, w in weights.items()})
        safetensors_io.save(noise, {"x": x})
        command = [program, "--checkpoint", file, "--config", FOLDER / "dit.yaml", "--set",
                   "data.root=.", "--set", "model.channels=4", "--classes",
                   ",".join(map(str, labels.tolist())), "--steps", SAMPLING_STEPS, "--cfg-scale",
                   guidance, "--noise", noise, "--save-samples", out, "--device", "cpu"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        expected = safetensors_io.load(out)["samples"].double()
    model = dit_torch.DiT(**{**TINY, "channels": 4})
    model.load_public(weights)
    found = dit_torch.sample(model, x.double(), labels, SAMPLING_STEPS, guidance, training.CLASSES)
    return largest_difference(found, expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", default="build/bin/dtn-sample")
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    rows = [("network, ln", network_difference("zero", "kron"), 1e-12)]
    rows += [(f"network, dtn, {product}", network_difference("zero_dtn", product), 1e-12)
             for product in ("kron", "axes")]
    rows += [(f"ten steps, {name}", value, 1e-5)  # the file has the weights in float32
             for name, value in training_differences().items()]
    rows += [(f"samples, guidance {guidance}", sample_difference(args.sample, guidance), 1e-4)
             for guidance in (1, 1.5)]
    for name, value, bound in rows:
        print(f"{name}: {value:.1e}{'' if value <= bound else f', more than {bound:g}'}")
    sys.exit(any(value > bound for _, value, bound in rows))


if __name__ == "__main__":
    main()
