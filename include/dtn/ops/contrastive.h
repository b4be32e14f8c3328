// Supervised contrastive loss (Khosla et al., "Supervised contrastive learning", NeurIPS 2020).
// With labels that number the samples it is SimCLR's loss.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Rows that are compared, and the temperatures.
struct Contrast {
  double temperature = 0.07;       // t, divides the products of rows
  double base_temperature = 0.07;  // t_base; t / t_base is a factor of the loss
  // Labels of all m rows, [m] int64. Rows with the same label are positives of each other.
  Tensor labels;
  // Rows that the anchors are compared with, [m, D] in the accumulator type of z (float32), in any
  // order; `labels` and `positions` refer to it. They include the rows of z and those of other
  // micro-batches and ranks. The values of the loss come from here. Undefined: z itself, m = n.
  Tensor all_features;
  // Row of all_features that holds each row of z, [n] int64 on the device of z. No two are equal.
  // Undefined: 0 .. n - 1.
  Tensor positions;
};

// Loss of a batch.
struct ContrastiveLoss {
  Variable loss;             // [1], accumulator type
  Tensor without_positives;  // [1] float32: share of the m rows that have no positives
};

// Loss of the rows z [n, D], which should have length 1, among m rows a_i:
//     s_ij   = a_i . a_j / t
//     loss_i = -t / t_base mean over positives p of (s_ip - log sum_{j != i} exp s_ij)
//     loss   = mean of loss_i over all m rows
// A row without positives adds 0 and counts in the mean. The loss is therefore the same on every
// rank and in every micro-batch. Its gradient is m / n times the exact gradient of that loss with
// respect to the rows of z, as anchors and as partners of all other rows. The mean over the
// micro-batches and ranks, weighted by n / m, is the gradient of the whole batch.
// Products and softmax are float32 for bfloat16 z. Keeps an [m, m] matrix for the backward pass.
// Throws Error for temperatures that are not positive and for tensors that do not fit together; on
// the CPU also for a position outside [0, m), which gives a gradient of NaN on a CUDA device.
ContrastiveLoss contrastive(Context&, const Variable& z, const Contrast& how);

namespace reference {
// The loss only. Reads labels and positions on the host.
Variable contrastive(Context&, const Variable& z, const Contrast& how);
}  // namespace reference
}  // namespace dtn::ops
