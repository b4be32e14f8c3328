// Matrix products of a training step on a CUDA device, each timed with every algorithm that the
// library offers for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/cuda_products.h"
#include "dtn/config/train_config.h"
#include "dtn/tasks/registries.h"

namespace dtn {

struct ProductBenchmarkOptions {
  int steps = 20;     // timed replays of an algorithm in each of the two rounds; the median counts
  int launches = 20;  // minimum launches of the product per replay
  std::string only;   // products whose names contain this text
  // Bytes that the launches cycle through, so that no launch finds its operands in a cache.
  std::int64_t working_set = std::int64_t{256} << 20;
};

struct ProductTime {
  std::string product;
  std::int64_t uses = 0;  // per micro-batch
  int candidates = 0;
  int unsteady = 0;      // candidates left out because two runs differ in their bits
  double first_us = 0;   // candidate that the library ranks first
  double chosen_us = 0;  // candidate that a run on this machine uses
  double best_us = 0;    // fastest candidate
  double flops = 0;      // twice the multiply-adds
  std::string chosen;
  std::string best;        // candidate for a table: the fastest, or the first if it is as good
  std::string error = {};  // error message; the other fields are then void
};

struct ProductBenchmark {
  int products = 0, failed = 0;
  // Time of the products of a micro-batch: sum of uses times the time of each product.
  double first_ms = 0, chosen_ms = 0, best_ms = 0;
};

// Runs a step of one micro-batch of the model in `config`, on random samples, and times all kinds
// of products in this step. Each candidate is timed twice, the second time in reverse order. The
// fastest candidate is the one whose slower time is the shortest. It counts as the best if this
// time is at least 2 % below the faster time of the first candidate. Candidates that do not give
// the same bits twice are left out. Throws ConfigError if no product name contains options.only.
ProductBenchmark benchmark_products(const ExperimentConfig& config,
                                    const ProductBenchmarkOptions& options,
                                    const std::function<void(const ProductTime&)>& report,
                                    const Registries& registries = standard_registries());

// Formats a line of src/cuda/measured_products.inc.
std::string table_line(const cuda::ProductLibrary& library, const ProductTime& time);

}  // namespace dtn
