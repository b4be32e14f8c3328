// Elementwise parts of Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural
// networks", 2024). Gemm computes the products between them, see src/optim/muon.cpp:
//   m = mu m + (1 - mu) g;  u = (1 - mu) g + mu m with Nesterov momentum, else m
//   X = u / max(||u||, 1e-7)
//   five times: A = X X^T;  X = (a I + (b I + c A) A) X
//   p -= lr wd p;  p -= lr scale X
// The five steps of the polynomial bring the singular values of u near 1.
#pragma once

#include "kernels/optimizer/optimizer.h"

namespace dtn {

// Advances the momentum of a matrix and writes u.
struct MuonMomentum {
  std::int64_t count;
  float* m;
  const float* grad;
  float* update;  // u; not written if the update is skipped
  double momentum;
  bool nesterov;
  double grad_scale = 1;
  const UpdateState* state = nullptr;  // as for AdamW
};
void run(CpuQueue&, const MuonMomentum&);
void run(CudaQueue&, const MuonMomentum&);

// x /= max(sqrt(*sum_squares), least)
struct DivideByNorm {
  std::int64_t count;
  float* x;
  const double* sum_squares;  // on the device of x
  double least;
};
void run(CpuQueue&, const DivideByNorm&);
void run(CudaQueue&, const DivideByNorm&);

// y = scale x + diagonal I, for square matrices; y may be x.
struct AddDiagonal {
  std::int64_t size;
  const float* x;  // [size, size]
  float* y;
  double scale, diagonal;
};
void run(CpuQueue&, const AddDiagonal&);
void run(CudaQueue&, const AddDiagonal&);

// p -= lr wd p;  p -= lr scale u
struct MuonStep {
  std::int64_t count;
  float* param;
  const float* update;
  bfloat16* param_bf16 = nullptr;
  double lr, weight_decay, scale;
  const StepInputs* inputs = nullptr;  // as for AdamW
  const UpdateState* state = nullptr;
  double lr_factor = 1;
  bool decays = true;
};
void run(CpuQueue&, const MuonStep&);
void run(CudaQueue&, const MuonStep&);

}  // namespace dtn
