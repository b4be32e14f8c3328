#!/usr/bin/env python3
"""Writes tests/golden/losses/weighted.safetensors: softmax losses with class weights. Needs
PyTorch. The test reads only the file. Values are float64 if no type is given.

  logits [B, K], labels [B] and partners [B] int64, share [B] float32, weights [K]
  soft   [B, K], targets of mixed images: `share` of the label, the rest of the partner
  <case>.loss [1], <case>.gradient [B, K]

Cases whose names begin with "ce" are torch.nn.CrossEntropyLoss(weight, label_smoothing): "_labels"
and "_soft" name the targets, "_smooth" adds label smoothing of 0.1. Cases that begin with "focal"
have the formula of the focal loss and PyTorch's gradient; "_weights" adds the class weights, and
divides by their sum over the labels.
"""
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peers"))
import safetensors_io  # noqa: E402

BATCH, CLASSES, SMOOTHING = 12, 7, 0.1


def cross_entropy(targets, weights, smoothing):
    loss = torch.nn.CrossEntropyLoss(weight=weights, label_smoothing=smoothing)
    return lambda logits: loss(logits, targets)


def focal(targets, weights, gamma, divisor):
    def loss(logits):
        log_p = torch.log_softmax(logits, 1)
        return -(targets * weights * (1 - log_p.exp()) ** gamma * log_p).sum() / divisor
    return loss


def main():
    generator = torch.Generator().manual_seed(7)
    logits = 3 * torch.randn(BATCH, CLASSES, generator=generator, dtype=torch.float64)
    labels = torch.randint(CLASSES, (BATCH,), generator=generator)
    partners = labels.flip(0)
    share = torch.rand(BATCH, generator=generator, dtype=torch.float32)
    weights = 0.1 + 3 * torch.rand(CLASSES, generator=generator, dtype=torch.float64)
    weights[labels[0]] = 0  # a class that does not count
    hot = torch.nn.functional.one_hot
    rest = share.double()[:, None]
    plain = hot(labels, CLASSES).double()
    soft = rest * plain + (1 - rest) * hot(partners, CLASSES)
    smooth = (1 - SMOOTHING) * plain + SMOOTHING / CLASSES
    ones, weight_sum = torch.ones(CLASSES, dtype=torch.float64), weights[labels].sum()
    cases = {
        "ce_labels": cross_entropy(labels, weights, 0),
        "ce_labels_smooth": cross_entropy(labels, weights, SMOOTHING),
        "ce_soft": cross_entropy(soft, weights, 0),
        "ce_soft_smooth": cross_entropy(soft, weights, SMOOTHING),
        "focal_labels": focal(plain, ones, 2, BATCH),
        "focal_labels_weights": focal(plain, weights, 0.5, weight_sum),
        "focal_labels_smooth_weights": focal(smooth, weights, 3, weight_sum),
        "focal_soft": focal(soft, ones, 2, BATCH),
    }
    out = {"logits": logits, "labels": labels, "partners": partners, "share": share,
           "weights": weights, "soft": soft}
    for name, loss in cases.items():
        z = logits.clone().requires_grad_()
        value = loss(z)
        value.backward()
        out[f"{name}.loss"], out[f"{name}.gradient"] = value.detach().reshape(1), z.grad
    (HERE / "losses").mkdir(exist_ok=True)
    safetensors_io.save(HERE / "losses/weighted.safetensors", out)


if __name__ == "__main__":
    main()
