// Self-distillation of DINO (Caron et al., "Emerging Properties in Self-Supervised Vision
// Transformers", ICCV 2021): the student predicts, from one view of an image, the teacher's
// distribution for another view.
//
// n samples have 2 global and L local views, and V = 2 + L. The student's logits have a row for
// each view, the teacher's logits one for each global view. Both are ordered by sample:
//     global view v of sample i   row 2 i + v
//     local view l of sample i    row 2 n + L i + l
//
// The last layer of both networks is weight-normalised: its row k is g_k v_k / |v_k|. The logits
// here are the products with v_k alone; this operation multiplies them by g_k / |v_k|. So the
// normalised weight is never in memory.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Teacher and options of the loss. float32 values are float64 if the logits are float64. The
// backward pass reads teacher, scale, centre and temperature again: they stay unchanged until then.
struct SelfDistillation {
  Tensor teacher;                        // [2 n, K], type of the student's logits; no gradient
  Tensor teacher_scale;                  // [K] float32: g_k / |v_k| of the teacher
  Tensor center;                         // [1, K] float32, of earlier steps
  Tensor next_center;                    // [1, K] float32, updated in place; undefined: none
  double center_share = 0;               // f, the share of this batch in the next centre
  double student_temp = 0.1;             // T_s
  const double* teacher_temp = nullptr;  // T_t: [1], on the device of the tensors
  std::int64_t local_views = 0;          // L
};

// Loss of a batch and figures for the log, each [1] float32.
struct SelfDistillationLoss {
  Variable loss;           // mean over the samples and the pairs
  Tensor teacher_entropy;  // mean over the teacher's rows of -sum_k q_k log q_k
  Tensor center_norm;      // length of `center`
  Tensor loss_global;      // mean over the pairs of two global views
  Tensor loss_local;       // mean over the pairs with a local view; 0 without local views
};

// The mean, over the samples and over the 2 V - 2 pairs of a teacher's view a and another view b of
// the same sample, of
//     -sum_k q_ak log p_bk
//     q_a = softmax((teacher_scale teacher_a - center) / T_t)
//     p_b = softmax(g / |v| logits_b / T_s)
// Softmax and sums are float32 for bfloat16 logits, too. If next_center is defined,
//     next_center += f (mean over all rows of teacher_scale teacher - center)
// logits [(2 + L) n, K]. direction [K, D] and gain [K, 1] are v and g of the student, float32. The
// gradient of the logits is written over them if nothing else uses their memory. It is the gradient
// for a product with v_k; the direction also gets its gradient through |v_k| here.
SelfDistillationLoss self_distillation(Context&, const Variable& logits, const Variable& direction,
                                       const Variable& gain, const SelfDistillation&);

// g_k / |v_k|, [K] float32. direction [K, D], gain [K, 1]. Records nothing.
Tensor weight_norm_scale(Context&, const Tensor& direction, const Tensor& gain);

namespace reference {
SelfDistillationLoss self_distillation(Context&, const Variable& logits, const Variable& direction,
                                       const Variable& gain, const SelfDistillation&);
}  // namespace reference
}  // namespace dtn::ops
