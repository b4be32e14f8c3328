// Which of the two CUDA paths of DTN runs; for the dispatch in dtn_norm.cu and for tests. Needs no
// CUDA headers.
#pragma once

#include "kernels/dtn/dtn_norm.h"

namespace dtn {

// Whether the tensor-core path takes a problem of this shape, variant and type, and that path.
bool tensor_cores_take(const DtnNormForward&);
bool tensor_cores_take(const DtnNormBackward&);
void run_tensor(CudaQueue&, const DtnNormForward&);
void run_tensor(CudaQueue&, const DtnNormBackward&);

// The path on CUDA cores: any grid, any head size, both variants.
void run_plain(CudaQueue&, const DtnNormForward&);
void run_plain(CudaQueue&, const DtnNormBackward&);

// Sends every problem down the plain path while set, so that tests can compare the two. Statistics
// mean the same on both: the forward pass of one feeds the backward pass of the other.
void force_plain_dtn(bool force);

}  // namespace dtn
