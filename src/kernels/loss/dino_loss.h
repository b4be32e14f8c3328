// Self-distillation between views (Caron et al., "Emerging Properties in Self-Supervised Vision
// Transformers", ICCV 2021). n samples have V = 2 + L views each: 2 global ones and L local ones.
// The student sees all views, the teacher only the global ones. Each has K outputs:
//    q_a = softmax((teacher_scale teacher_a - center) / teacher_temp)     rows a of the teacher
//    p_b = softmax(student_scale student_b / student_temp)                rows b of the student
//    loss = mean over samples and pairs a != b of one sample of -sum_k q_ak log p_bk
// A sample has P = 2 V - 2 pairs. The scales turn the products with a direction v into those with a
// weight-normalised row g v / |v|, see norm/weight_norm.h.
//
// Rows are ordered by sample. Local rows follow all global rows:
//    global view v of sample i   row 2 i + v, of student and teacher
//    local view l of sample i    row 2 n + L i + l
//
// No buffer has the size of the pairs. Outputs are processed in blocks that depend only on the
// shape, so the results do not depend on the number of threads. float64 runs on the CPU only.
// "acc" is the accumulator type: float32, or float64 for float64.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "dtn/core/host_device.h"

namespace dtn {

// Inputs of both directions.
struct DinoLossInputs {
  DType dtype;                                 // of the logits
  std::int64_t samples, local_views, outputs;  // n, L, K
  const void* student;                         // [(2 + L) n, K]
  const void* teacher;                         // [2 n, K]
  const void* student_scale;                   // [K] acc
  const void* teacher_scale;                   // [K] acc
  const void* center;                          // [K] acc
  double student_temp;
  const double* teacher_temp;  // [1], on the device

  DTN_HOST_DEVICE std::int64_t views() const { return 2 + local_views; }
  DTN_HOST_DEVICE std::int64_t pairs() const { return 2 * views() - 2; }  // of a sample
  // Row of view v of a sample in `student`.
  DTN_HOST_DEVICE std::int64_t student_row(std::int64_t sample, std::int64_t v) const {
    return v < 2 ? 2 * sample + v : 2 * samples + local_views * sample + v - 2;
  }
};

struct DinoLossForward : DinoLossInputs {
  void* student_lse;      // [(2 + L) n] acc: log of the sum of exponentials, for backward
  void* teacher_lse;      // [2 n] acc
  void* loss;             // [1] acc
  void* loss_global;      // [1] acc: mean over the pairs of two global views
  void* loss_local;       // [1] acc: mean over the pairs with a local view; 0 if L = 0
  void* teacher_entropy;  // [1] acc: mean over the rows a of -sum_k q_ak log q_ak
  void* center_norm;      // [1] acc: |center|
};
void run(CpuQueue&, const DinoLossForward&);
void run(CudaQueue&, const DinoLossForward&);

//    Q_b = sum of q_a over the rows a of the sample with a != b;  m_b = sum of Q_b
//    ds_bk = upstream (m_b p_bk - Q_bk) / (student_temp n P)
//    dstudent_bk = student_scale_k ds_bk
//    column_sums_k = sum_b ds_bk student_bk, for weight_norm.h
struct DinoLossBackward : DinoLossInputs {
  const void* student_lse;  // [(2 + L) n] acc
  const void* teacher_lse;  // [2 n] acc
  const void* upstream;     // [1] acc
  void* dstudent;           // [(2 + L) n, K], =; may be `student`
  void* column_sums;        // [K] acc, =
};
void run(CpuQueue&, const DinoLossBackward&);
void run(CudaQueue&, const DinoLossBackward&);

//    next_k += share (mean over the rows of scale_k teacher_rk - center_k)
struct DinoCenterStep {
  DType dtype;  // of the logits
  std::int64_t rows, outputs;
  const void* teacher;  // [rows, K]
  const void* scale;    // [K] acc
  const void* center;   // [K] acc
  double share;
  void* next;  // [K] acc
};
void run(CpuQueue&, const DinoCenterStep&);
void run(CudaQueue&, const DinoCenterStep&);

}  // namespace dtn
