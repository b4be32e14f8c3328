#include "apps/bench/benchmark_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>
#include <vector>

#include "apps/bench/random_batch.h"
#include "apps/bench/random_values.h"
#include "apps/estimate/step_profile.h"
#include "apps/estimate/timing.h"
#include "core/cuda_device.h"
#include "dtn/core/check.h"
#include "dtn/tasks/classify.h"
#include "train/learner.h"

namespace dtn {
namespace {

constexpr double kWorthwhile =
    0.98;  // fraction of the first candidate's time; smaller gains are noise

std::vector<cuda::Product> products_of_a_step(const ExperimentConfig& config,
                                              const Registries& registries) {
  Communicator alone;
  Classify task({config, kCuda, registries});
  Learner learner(config, task, kCuda, &alone, registries.optimizers);
  learner.step(random_batch(config.model, micro_batch(config.train), kCuda), 0, 1e-4);
  return cuda::products();
}

// Operands of one product, in separate memory.
class Operands {
 public:
  Operands(const cuda::Product& p, RandomValues& values) {
    const auto filled = [&](std::int64_t elements, DType dtype) -> const void* {
      if (elements == 0) return nullptr;
      return memory_.emplace_back(values.tensor({elements}, dtype, kCuda)).raw();
    };
    pointers_ = {filled(p.a_elements, p.dtype), filled(p.b_elements, p.dtype),
                 filled(p.c_elements, p.d_dtype), filled(p.bias_elements, p.d_dtype)};
    pointers_.d = (d_ = values.tensor({p.d_elements}, p.d_dtype, kCuda)).raw();
    bytes_ = static_cast<double>(d_.nbytes());
    for (const Tensor& t : memory_) bytes_ += static_cast<double>(t.nbytes());
  }
  const cuda::ProductOperands& pointers() const { return pointers_; }
  const Tensor& d() const { return d_; }
  double bytes() const { return bytes_; }

 private:
  std::list<Tensor> memory_;
  Tensor d_;
  cuda::ProductOperands pointers_;
  double bytes_ = 0;
};

// Times one kind of product with each of its candidates.
class Trial {
 public:
  Trial(const cuda::Product& product, const ProductBenchmarkOptions& options)
      : product_(product), options_(options) {
    constexpr double kSets = 64;  // at most
    add_set();
    const double wanted = static_cast<double>(options.working_set) / sets_.front().bytes();
    while (static_cast<double>(sets_.size()) < std::min(std::ceil(wanted), kSets)) add_set();
    cuda::compute(product_.name, sets_.front().pointers());  // makes the plan for these addresses
  }

  double microseconds(std::size_t candidate) const {
    cuda::choose_candidate(product_.name, candidate);
    const std::size_t rounds = (static_cast<std::size_t>(options_.launches) - 1) / sets_.size() + 1;
    const double seconds = replayed_seconds(options_.steps, [&] {
      for (std::size_t i = 0; i < rounds; ++i) {
        for (const Operands& o : sets_) cuda::compute(product_.name, o.pointers());
      }
    });
    return 1e6 * seconds / static_cast<double>(rounds * sets_.size());
  }

  // True if a candidate gives the same bits each time.
  bool is_steady(std::size_t candidate) const {
    cuda::choose_candidate(product_.name, candidate);
    const auto result = [&] {
      cuda::compute(product_.name, sets_.front().pointers());
      return sets_.front().d().to(kCpu);
    };
    const Tensor once = result(), again = result();
    return std::memcmp(once.raw(), again.raw(), once.nbytes()) == 0;
  }

 private:
  void add_set() { sets_.emplace_back(product_, values_); }

  const cuda::Product& product_;
  const ProductBenchmarkOptions& options_;
  RandomValues values_;
  std::list<Operands> sets_;
};

// Two time measurements of a candidate.
struct Times {
  double once = 0, again = 0;
  double slower() const { return std::max(once, again); }
  double faster() const { return std::min(once, again); }
  double mean() const { return (once + again) / 2; }
};

// Returns the fastest of the steady candidates, or the first of them if it is hardly slower.
std::size_t best_of(const std::vector<Times>& times,
                    const std::function<bool(std::size_t)>& is_steady) {
  std::vector<std::size_t> steady;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (is_steady(i)) steady.push_back(i);
  }
  if (steady.empty()) throw Error("no algorithm is deterministic");
  const std::size_t fastest =
      *std::ranges::min_element(steady, {}, [&](std::size_t i) { return times[i].slower(); });
  const std::size_t first = steady.front();
  return times[fastest].slower() < kWorthwhile * times[first].faster() ? fastest : first;
}

ProductTime time_product(const cuda::Product& product, const ProductBenchmarkOptions& options) {
  if (!product.aligned) {
    throw Error("the operands are not aligned; only products of aligned operands are measured");
  }
  const Trial trial(product, options);
  const std::size_t count = product.candidates.size();
  ProductTime time;
  time.product = product.name;
  time.uses = product.uses;
  time.candidates = static_cast<int>(count);
  time.flops = 2 * product.multiply_adds;
  std::vector<Times> times(count);
  for (std::size_t i = 0; i < count; ++i) times[i].once = trial.microseconds(i);
  for (std::size_t i = count; i-- > 0;) times[i].again = trial.microseconds(i);
  const std::size_t best = best_of(times, [&](std::size_t i) {
    const bool steady = trial.is_steady(i);
    if (!steady) ++time.unsteady;
    return steady;
  });
  cuda::choose_candidate(product.name, product.chosen);
  time.first_us = times[0].mean();
  time.chosen_us = times[product.chosen].mean();
  time.best_us = times[best].mean();
  time.chosen = product.candidates[product.chosen];
  time.best = product.candidates[best];
  return time;
}

std::vector<cuda::Product> products_like(const std::string& text,
                                         const std::vector<cuda::Product>& all) {
  std::vector<cuda::Product> chosen;
  std::string names;
  for (const cuda::Product& p : all) {
    names += cat("\n  ", p.name);
    if (p.name.find(text) != std::string::npos) chosen.push_back(p);
  }
  if (chosen.empty()) {
    throw ConfigError(
        cat("--only ", text, ": no product has this text in its name; the products are", names));
  }
  return chosen;
}

}  // namespace

ProductBenchmark benchmark_products(const ExperimentConfig& config,
                                    const ProductBenchmarkOptions& options,
                                    const std::function<void(const ProductTime&)>& report,
                                    const Registries& registries) {
  const std::vector<cuda::Product> products =
      products_like(options.only, products_of_a_step(config, registries));
  ProductBenchmark result;
  cuda::release_cached_memory();
  for (const cuda::Product& product : products) {
    ProductTime time;
    time.product = product.name;
    try {
      time = time_product(product, options);
    } catch (const std::exception& e) {
      time.error = e.what();
      ++result.failed;
    }
    const double uses = 1e-3 * static_cast<double>(time.uses);
    result.first_ms += uses * time.first_us;
    result.chosen_ms += uses * time.chosen_us;
    result.best_ms += uses * time.best_us;
    ++result.products;
    report(time);
    cuda::release_cached_memory();
  }
  return result;
}

std::string table_line(const cuda::ProductLibrary& library, const ProductTime& time) {
  return cat(library.card, '\t', library.version, '\t', time.product, '\t', time.best);
}

}  // namespace dtn
