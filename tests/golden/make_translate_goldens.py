#!/usr/bin/env python3
"""Writes tests/golden/translate: ten training steps of two small image-to-image models in float64.

The networks are those of tests/peers/unet_torch.py, trained as in unet_parity.py there. Needs
PyTorch. The tests read only the files.

  NAME.yaml                    the config of dtn-train, without the paths of the two files
  NAME_data.safetensors        input [12, 2, 8, 8], target [12, 1, 8, 8], and if a norm reads them
                               style [12], map [12, 8, 8]
  NAME_init.safetensors        initial weights and running statistics
  NAME_expected.safetensors    after the last step: model.*; of each of the 10 steps: loss [10]

Batch b of an epoch is rows 4 b .. 4 b + 3.

  make_translate_goldens.py           writes the files
  make_translate_goldens.py --check   prints how far the same steps in float32 end
"""
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import safetensors_io  # noqa: E402
import unet_parity as parity  # noqa: E402

FOLDER = HERE / "translate"
ROWS, BATCH = 12, 4
SMALL = dict(image_size=[8, 8], channels=2, out_channels=1, embed_dim=[8, 16], depth=1)
RUNS = {
    # Styles from a table in BatchNorm, moments through a network.
    "cbn_dms": dict(**SMALL, decoder_norm={"type": "cbn", "hidden": 4},
                    condition=parity.condition("index"), shortcut="dms", labels=False,
                    loss={"l1": 0, "l2": 0.5, "charbonnier": 0.5}),
    # Styles in the encoder, maps of labels in the decoder, moments from the residual block on.
    "spade_ms": dict(**SMALL, norm="cin", decoder_norm={"type": "spade", "hidden": 4}, bottleneck=1,
                     condition={"from": "index", "size": parity.CONDITION_SIZE,
                                "styles": parity.STYLES}, shortcut="ms", labels=True),
}


def config_text(name, spec):
    return f"""name: {name}
task: translate
seed: 0
model: {parity.as_yaml({"preset": "unet_tiny", **parity.keys_of(spec)})}
translate: {parity.as_yaml(parity.loss_of(spec))}
data: {{dataset: tensors, shuffle: false}}
optim: {{name: adamw, lr: {parity.LR}, eps: {parity.ADAM_EPS}, weight_decay: {parity.DECAY}}}
schedule: {{name: constant, steps: {parity.STEPS}}}
train: {{batch_size: {BATCH}, log_every: 1}}
"""


def start_of(spec):
    """Weights and data in float32."""
    torch.manual_seed(1)
    model = parity.unet_of(parity.keys_of(spec))
    parity.shake(model)
    return model.state_dict(), parity.data_of(spec, ROWS)


def write_run(name, spec):
    weights, data = start_of(spec)
    _, end, losses = parity.of_peer(spec, weights, data, torch.float64, BATCH)
    (FOLDER / f"{name}.yaml").write_text(config_text(name, spec))
    expected = {"loss": losses, **{f"model.{k}": v.float() for k, v in end.items()}}
    for part, tensors in (("init", weights), ("data", data), ("expected", expected)):
        safetensors_io.save(FOLDER / f"{name}_{part}.safetensors", tensors)


def check_run(name, spec):
    weights, data = start_of(spec)
    _, found, losses32 = parity.of_peer(spec, weights, data, torch.float32, BATCH)
    _, end, losses = parity.of_peer(spec, weights, data, torch.float64, BATCH)
    print(name, losses.tolist(), "apart", (losses32 - losses).abs().max().item())
    for tensor, value in end.items():
        print(f"  {parity.difference(found[tensor], value):.1e} {tensor}")


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, spec in RUNS.items():
        (check_run if "--check" in sys.argv[1:] else write_run)(name, spec)


if __name__ == "__main__":
    main()
