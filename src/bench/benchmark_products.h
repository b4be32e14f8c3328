// The matrix products of a training step on a CUDA device, each by every algorithm that the library
// offers for it.
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
  int launches = 20;  // of the product in each of them, at least
  std::string only;   // products whose names contain it
  // Bytes that launches take turns at, so that none finds its factors in a cache.
  std::int64_t working_set = std::int64_t{256} << 20;
};

struct ProductTime {
  std::string product;
  std::int64_t uses = 0;  // in a micro-batch
  int offers = 0;
  int unsteady = 0;      // of these, left out: not the same bits twice
  double first_us = 0;   // by the offer that the library likes best
  double chosen_us = 0;  // by the one that a run here takes
  double best_us = 0;    // by the fastest
  double flops = 0;      // twice the multiply-adds
  std::string chosen;
  std::string best;        // what a table should say: the fastest, or the first where it is as good
  std::string error = {};  // instead of all this: what went wrong
};

struct ProductBenchmark {
  int products = 0, failed = 0;
  // What the products of a micro-batch take: uses times the microseconds of each.
  double first_ms = 0, chosen_ms = 0, best_ms = 0;
};

// Takes a step of one micro-batch of the model that `config` describes, on random samples, and times
// all kinds of products in it. All offers are timed twice, the second time in reverse; the fastest
// is the one whose slower time is the shortest, and counts as the best if that is at least 2 % below
// the faster time of the first. Those that do not give the same bits twice are left out. Throws
// ConfigError when no product is called like options.only.
ProductBenchmark benchmark_products(const ExperimentConfig& config,
                                    const ProductBenchmarkOptions& options,
                                    const std::function<void(const ProductTime&)>& report,
                                    const Registries& registries = standard_registries());

// A line of src/cuda/measured_products.inc.
std::string table_line(const cuda::ProductLibrary& library, const ProductTime& time);

}  // namespace dtn
