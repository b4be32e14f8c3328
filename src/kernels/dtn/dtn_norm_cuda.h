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

// Warps of a block in the backward pass on tensor cores: 8, or 12 if DTN_CUDA_DTN_WARPS=12 is in
// the environment. Twelve warps fill more of the issue slots, but need 4 % more instructions. No
// card has measured which is faster. float32, and devices whose blocks have less than 125 KiB of
// shared memory, get 8 in any case.
int dtn_backward_warps();
// Returns the number that DTN_CUDA_DTN_WARPS asks for; null and "" are 8. Throws ConfigError for
// anything but 8 and 12.
int parse_dtn_warps(const char* text);
// Sets the number of warps; for tests.
void set_dtn_backward_warps(int warps);

// Sends every problem down the plain path while set, so that tests can compare the two. Statistics
// mean the same on both: the forward pass of one feeds the backward pass of the other.
void force_plain_dtn(bool force);

}  // namespace dtn
