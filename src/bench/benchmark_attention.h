// Attention over a sequence alone, of each kind, measured in turn with dense attention so that the
// ratio is fair on a noisy machine.
#pragma once

#include <cstdint>
#include <string>

#include "dtn/core/device.h"
#include "dtn/core/dtype.h"
#include "dtn/ops/sparse_attention.h"

namespace dtn {

struct AttentionBenchmarkOptions {
  std::string kind = "dense";  // dense, bigbird or reformer
  std::int64_t batch = 8, tokens = 2001, channels = 512, heads = 8;
  DType dtype = DType::kFloat32;
  ops::SparseVariant variant = ops::SparseVariant::kClean;
  std::int64_t length = 0;  // of every sample; 0: all tokens
  double dropout = 0;       // of the weights of dense attention
  int steps = 20;
};

struct AttentionBenchmark {
  double forward_ms = 0, backward_ms = 0;  // medians
  // Of dense attention among all tokens, without dropout, in the same run.
  double dense_forward_ms = 0, dense_backward_ms = 0;
  double gflops = 0;       // 0 where some tokens do not count
  double gemm_gflops = 0;  // ceiling at this precision
};
// Without the projections: q, k and v come from memory. On the CPU alone.
AttentionBenchmark benchmark_attention(const AttentionBenchmarkOptions& options);

}  // namespace dtn
