// Benchmark of attention over a sequence, for each kind of attention. Its runs alternate with runs
// of dense attention, so that the ratio is fair on a noisy machine.
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
  std::int64_t length = 0;  // valid tokens of every sample; 0: all
  double dropout = 0;       // of the attention weights; dense only
  int steps = 20;
};

struct AttentionBenchmark {
  double forward_ms = 0, backward_ms = 0;  // medians
  // Dense attention over all tokens, without dropout, in the same run.
  double dense_forward_ms = 0, dense_backward_ms = 0;
  double gflops = 0;       // 0 if only some tokens are valid
  double gemm_gflops = 0;  // ceiling at this precision
};
// Times attention without its projections: q, k and v come from memory. CPU only.
AttentionBenchmark benchmark_attention(const AttentionBenchmarkOptions& options);

}  // namespace dtn
