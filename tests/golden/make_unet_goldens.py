#!/usr/bin/env python3
"""Writes tests/golden/data/unet.txt: outputs and gradients of small image-to-image models.

The networks are those of tests/peers/unet_torch.py in float64. Needs PyTorch. The test reads only
the file, so this runs again only when a case is added.

Layout of the file, one case after the other:
    case NAME
    model KEYS                              of the config
    tensor NAME SHIFT SCALE SHAPE...        values(seed) * SCALE + SHIFT, seed = 1, 2, ...
    field NAME SHAPE...                     values(kFields + seed), seed = 1, 2, ...
    index NAME SHAPE... : VALUES...         a field of int64
    output SHAPE... : VALUES...             in training, with the statistics of the batch
    evaluation output LARGEST PROJECTION VALUES...       with the running statistics
    gradient NAME LARGEST PROJECTION VALUES...           of sum(output * values(kWeights))

  make_unet_goldens.py           writes the file
  make_unet_goldens.py --check   prints the differences of float32 from it, as shares of the test's
                                 bounds
"""
import math
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
from make_dit_goldens import PROJECTION, SAMPLES, WEIGHTS, numbers, values  # noqa: E402
from unet_parity import as_yaml, type_of, unet_of  # noqa: E402
from unet_torch import READERS_OF_VECTOR  # noqa: E402

FIELDS = 4000  # seeds
BATCH, SIZE, THREE_LEVELS = 3, (4, 6), (4, 8)
SIZE_OF_VECTOR, STYLES, MAPPING, HIDDEN = 3, 4, 5, 4
STYLE = [2, 0, 2]


def condition(source, **more):
    styles = {"styles": STYLES} if source == "index" else {}
    return dict(condition={"from": source, "size": SIZE_OF_VECTOR, **styles, **more})


# Keys of the config that differ from those of keys_of().
LEVELS = dict(image_size=THREE_LEVELS, embed_dim=[8, 16, 24], depth=[2, 1, 2])
SPADE = dict(decoder_norm={"type": "spade", "hidden": HIDDEN}, condition={"size": SIZE_OF_VECTOR})
CBN = {"type": "cbn", "hidden": HIDDEN}
CASES = {
    **{f"{shortcut}_three_levels": dict(shortcut=shortcut, **LEVELS)
       for shortcut in ("none", "concat", "ms", "dms")},
    **{f"bottleneck_{shortcut}": dict(shortcut=shortcut, bottleneck=1)
       for shortcut in ("none", "concat", "ms", "dms")},
    **{f"{norm}_{shortcut}": dict(norm=norm, shortcut=shortcut)
       for norm in ("in", "gn", "ln", "none", "pono") for shortcut in ("concat", "ms")},
    **{norm: dict(norm=norm, shortcut="dms") for norm in ("rms", "sn", "dtn")},
    "pono_alone": dict(shortcut="none", pono=True),
    "ms_without_pono": dict(shortcut="ms", pono=False),
    "residual": dict(out_channels=2, residual=True),
    "relu": dict(act="relu", shortcut="ms"),
    "two_norms": dict(norm="in", decoder_norm="ln", bottleneck=1),
    "cin": dict(decoder_norm="cin", condition={"from": "index", "styles": STYLES}),
    "cin_weights": dict(decoder_norm="cin", condition={"from": "vector", "size": SIZE_OF_VECTOR,
                                                       "styles": SIZE_OF_VECTOR}),
    "cin_everywhere": dict(norm="cin", bottleneck=1, condition={"from": "index",
                                                                "styles": STYLES}),
    "adain": dict(decoder_norm="adain", condition={"from": "image"}),
    "adain_bottleneck_ms": dict(decoder_norm="adain", condition={"from": "image"}, bottleneck=1,
                                shortcut="ms"),
    **{f"adain_mlp_{source}": dict(decoder_norm="adain_mlp",
                                   **condition(source, mapping=MAPPING))
       for source in ("vector", "index", "image")},
    "cbn": dict(decoder_norm=CBN, **condition("vector")),
    "cbn_everywhere": dict(norm=CBN, bottleneck=1, **condition("index")),
    "adaln": dict(decoder_norm="adaln", **condition("image")),
    "spade": SPADE,
    "spade_three_levels": {**SPADE, "bottleneck": 1, **LEVELS},
    "spade_everywhere": dict(norm={"type": "spade", "hidden": HIDDEN, "base": "in"}, shortcut="ms",
                             condition={"size": SIZE_OF_VECTOR}),
    "dln": dict(decoder_norm={"type": "dln", "summary": HIDDEN}),
}


def keys_of(case):
    return {"image_size": SIZE, "channels": 2, "out_channels": 1, "embed_dim": [8, 16],
            "depth": [1, 2], "act": "silu", **case}


def range_of(name, shape):
    """Middle and half width of a tensor's values, powers of two so that float32 holds them."""
    if name.endswith(("norm.weight", "running_var")):
        return 1.0, 0.5
    if len(shape) == 1 or name.endswith("norm.bias"):
        return 0.0, 0.25
    if "pos_proj" in name or "table" in name:
        return 0.0, 0.5
    return 0.0, 2.0 ** round(math.log2(math.sqrt(4 / math.prod(shape[1:]))))


def fields_of(keys):
    """The inputs that the model reads."""
    types = {type_of(keys[key]) for key in ("norm", "decoder_norm") if key in keys}
    source = keys.get("condition", {}).get("from")
    shapes = {"input": (BATCH, keys["channels"], *keys["image_size"])}
    fields = {}
    if types & (READERS_OF_VECTOR | {"cin"}):
        if source == "index":
            fields["style"] = torch.tensor(STYLE)
        if source == "vector":
            shapes["vector"] = BATCH, SIZE_OF_VECTOR
    if source == "image":
        shapes["style_image"] = shapes["input"]
    if "spade" in types:
        shapes["map"] = BATCH, SIZE_OF_VECTOR, *keys["image_size"]
    for seed, (field, shape) in enumerate(shapes.items(), FIELDS + 1):
        fields[field] = values(seed, math.prod(shape)).reshape(shape)
    return fields


def model_of(keys):
    """Returns a network with the values of the file, and the range of each tensor."""
    model = unet_of(keys).double()
    ranges = {}
    for seed, (name, tensor) in enumerate(model.state_dict().items(), 1):
        shift, scale = ranges[name] = range_of(name, tensor.shape)
        tensor.copy_((values(seed, tensor.numel()) * scale + shift).reshape(tensor.shape))
    return model, ranges


def results_of(model, fields):
    """Returns the output in evaluation, the output in training, and the gradients in training."""
    with torch.no_grad():
        evaluated = model.eval()(**fields)
    output = model.train()(**fields)
    (output.reshape(-1) * values(WEIGHTS, output.numel()).to(output.dtype)).sum().backward()
    return evaluated, output.detach(), {name: p.grad for name, p in model.named_parameters()}


def summary(tensor):
    """The largest value, a projection, and values at even distances."""
    flat = tensor.double().reshape(-1)
    count = flat.numel()
    projection = (flat * values(PROJECTION, count)).sum()
    return torch.stack([flat.abs().max(), projection,
                        *flat[[k * count // SAMPLES for k in range(SAMPLES)]]])


def write_case(out, name, case):
    keys = keys_of(case)
    print("case", name, file=out)
    print("model", as_yaml({"preset": "unet_tiny", **keys})[1:-1], file=out)
    model, ranges = model_of(keys)
    for tensor, value in model.state_dict().items():
        print("tensor", tensor, *(f"{v:g}" for v in ranges[tensor]), *value.shape, file=out)
    fields = fields_of(keys)
    for field, value in fields.items():
        if value.is_floating_point():
            print("field", field, *value.shape, file=out)
        else:
            print("index", field, *value.shape, ":", *value.reshape(-1).tolist(), file=out)
    evaluated, output, gradients = results_of(model, fields)
    print("output", *output.shape, ":", numbers(output), file=out)
    print("evaluation output", numbers(summary(evaluated)), file=out)
    for tensor, gradient in gradients.items():
        print("gradient", tensor, numbers(summary(gradient)), file=out)


def check_case(name, case):
    """Prints the differences of float32, as shares of the bounds of unet_test.cpp."""
    keys = keys_of(case)
    fields = fields_of(keys)
    expected = results_of(model_of(keys)[0], fields)
    low = {field: v.float() if v.is_floating_point() else v for field, v in fields.items()}
    found = results_of(model_of(keys)[0].float(), low)
    bound = 50 * 2.0 ** -24 * 8

    def share(a, b):
        return ((a.double() - b).abs().max() / (b.abs().max() * bound + 1e-12)).item()

    shares = {tensor: share(gradient, expected[2][tensor]) / 2
              for tensor, gradient in found[2].items()
              if not tensor.endswith("pos_proj.bias")}  # its gradient is only rounding
    worst = max(shares, key=shares.get)
    print(f"{name:22s} evaluation {share(found[0], expected[0]):.3f}, output "
          f"{share(found[1], expected[1]):.3f}, gradients {shares[worst]:.3f} ({worst})")


def main():
    if "--check" in sys.argv[1:]:
        for name, case in CASES.items():
            check_case(name, case)
        return
    with open(HERE / "data" / "unet.txt", "w") as out:
        for name, case in CASES.items():
            write_case(out, name, case)


if __name__ == "__main__":
    main()
