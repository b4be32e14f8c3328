#!/usr/bin/env python3
"""Writes tests/golden/losses/multilabel.safetensors: figures of samples with any number of classes,
by scikit-learn and PyTorch. Needs both; the test reads only the file.

  logits [N, K] float32, labels [N, K] uint8; rounded, so that many logits are equal; no sample has
         the last class, and every sample has the one before it
  threshold [1], ap [K] (-1 without a sample), map [1], f1 [K], precision [K], recall [K],
  f1_micro [1], f1_macro [1], loss [1], all float64
"""
import pathlib
import sys
import warnings

import numpy as np
import sklearn.metrics as metrics
import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import safetensors_io  # noqa: E402

SAMPLES, CLASSES, THRESHOLD = 97, 9, 0.35


def main():
    random = np.random.default_rng(11)
    labels = (random.random((SAMPLES, CLASSES)) < 0.3).astype(np.uint8)
    labels[:, -1], labels[:, -2] = 0, 1
    logits = 2 * random.standard_normal((SAMPLES, CLASSES)) + 1.5 * labels - 1
    logits = np.round(logits, 1).astype(np.float32)
    probabilities = 1 / (1 + np.exp(-logits.astype(np.float64)))
    predicted = (probabilities >= THRESHOLD).astype(int)
    has = labels.any(axis=0)
    ap = np.array([metrics.average_precision_score(labels[:, k], logits[:, k]) if has[k] else -1
                   for k in range(CLASSES)])
    each = metrics.precision_recall_fscore_support(labels, predicted, zero_division=0)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        torch.tensor(logits, dtype=torch.float64), torch.tensor(labels, dtype=torch.float64))
    out = {"logits": logits, "labels": labels, "threshold": [THRESHOLD], "ap": ap,
           "map": [ap[has].mean()], "precision": each[0], "recall": each[1], "f1": each[2],
           "f1_micro": [metrics.f1_score(labels, predicted, average="micro")],
           "f1_macro": [metrics.f1_score(labels, predicted, average="macro", zero_division=0)],
           "loss": [float(loss)]}
    tensors = {name: torch.as_tensor(np.asarray(value)) for name, value in out.items()}
    safetensors_io.save(HERE / "losses/multilabel.safetensors", tensors)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
