#!/usr/bin/env python3
"""Compares dtn-export's ONNX files with dtn-eval.

  python3 tests/peers/onnx_parity.py --bin build/bin

For a model of each option, ONNX's checker passes the file, with full inference of shapes, and
onnxruntime gives dtn-eval's logits for batches of 1 and of 5, at every opset asked for. Exits with
1 if the bound is exceeded. Needs PyTorch, onnx and onnxruntime; not part of the tests.
"""
import argparse
import pathlib
import sys
import tempfile

import onnx
import onnxruntime
import torch

from exported_models import MODELS, logits, make_checkpoint, run

BOUND = 1e-4  # of the largest logit, or of 1


def in_onnx(path, images):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (result,) = session.run(["logits"], {"images": images.numpy()})
    return torch.from_numpy(result)


def worst(name, model, opsets, programs):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        checkpoint, images = make_checkpoint(programs, folder, model)
        variants = [()]
        if name in ("dinov2 registers", "sbb"):  # features, too
            variants.append(("--set", "model.num_classes=0"))
        errors = {}
        for options in variants:
            want = logits(programs, checkpoint, images, *options)
            for opset in opsets:
                path = str(folder / "model.onnx")
                run(programs / "dtn-export", "--checkpoint", checkpoint, "--opset", opset,
                    "--output", path, *options)
                onnx.checker.check_model(path, full_check=True)
                for n in (1, 5):
                    error = (in_onnx(path, images[:n]) - want[:n]).abs().max()
                    error = (error / want.abs().max().clamp(min=1)).item()
                    errors[opset] = max(errors.get(opset, 0), error)
        return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--only", help="models, separated by semicolons: " + "; ".join(MODELS))
    parser.add_argument("--opsets", default="17,18,20,23")
    args = parser.parse_args()
    opsets = [int(o) for o in args.opsets.split(",")]
    print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
    print(f"{'':28s}" + "".join(f"  opset {o}" for o in opsets))
    failed = False
    for name in args.only.split(";") if args.only else MODELS:
        errors = worst(name, MODELS[name], opsets, args.bin)
        ok = max(errors.values()) <= BOUND
        failed |= not ok
        print(f"{name:28s}" + "".join(f"  {errors[o]:.2e}" for o in opsets) +
              ("  ok" if ok else "  FAILED"), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
