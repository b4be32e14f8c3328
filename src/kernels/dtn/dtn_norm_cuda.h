// Choice between the two CUDA paths of DTN, for the dispatch in dtn_norm.cu and for tests. Needs no
// CUDA headers.
#pragma once

#include "kernels/dtn/dtn_norm.h"

namespace dtn {

// The tensor-core path. tensor_cores_take() returns true if the path supports the shape, variant,
// type and alignment and, in the backward pass, if the device has enough shared memory.
bool tensor_cores_take(const DtnNormForward&);
bool tensor_cores_take(const DtnNormBackward&);
void run_tensor(CudaQueue&, const DtnNormForward&);
void run_tensor(CudaQueue&, const DtnNormBackward&);

// The path on CUDA cores: any grid, any head size, both variants.
void run_plain(CudaQueue&, const DtnNormForward&);
void run_plain(CudaQueue&, const DtnNormBackward&);

// Warps per block in the backward pass on tensor cores: 8, or 12 if DTN_CUDA_DTN_WARPS=12 is in the
// environment. Twelve warps fill more of the issue slots, but need 4 % more instructions. It has
// not been measured which is faster. float32, and devices with less than 125 KiB of shared memory
// per block, always use 8.
int dtn_backward_warps();
// Returns the number of warps from the text of DTN_CUDA_DTN_WARPS; null and "" mean 8. Throws
// ConfigError for anything except 8 and 12.
int parse_dtn_warps(const char* text);
// Sets the number of warps; for tests.
void set_dtn_backward_warps(int warps);

// If set, every problem uses the plain path, so that tests can compare the two. Both paths store
// statistics of the same meaning, so the backward pass of one can follow the forward pass of the
// other.
void force_plain_dtn(bool force);

}  // namespace dtn
