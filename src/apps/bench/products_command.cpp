#include "apps/bench/products_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <list>
#include <memory>
#include <vector>

#include "apps/bench/benchmark.h"
#include "apps/bench/random_values.h"
#include "apps/common/program.h"
#include "apps/estimate/step_profile.h"
#include "apps/estimate/timing.h"
#include "core/cuda_device.h"
#include "core/cuda_products.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/tasks/registries.h"
#include "io/atomic_file.h"
#include "train/learner.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

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

constexpr double kWorthwhile =
    0.98;  // fraction of the first candidate's time; smaller gains are noise

std::vector<cuda::Product> products_of_a_step(const ExperimentConfig& config,
                                              const Registries& registries) {
  Communicator alone;
  const std::unique_ptr<Task> task = make_task({config, kCuda, registries});
  Learner learner(config, *task, kCuda, &alone, registries.optimizers);
  const std::int64_t samples = micro_batch(config.train);
  learner.step(training_batch(config, samples, kCuda, registries, *task), 0, 1e-4);
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
  Trial(const cuda::Product& product, const ProductsBenchCommand& options)
      : product_(product), options_(options) {
    constexpr double kSets = 64;  // at most
    add_set();
    const double wanted =
        static_cast<double>(options.working_set_mib << 20) / sets_.front().bytes();
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
  const ProductsBenchCommand& options_;
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

ProductTime time_product(const cuda::Product& product, const ProductsBenchCommand& options) {
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

// Formats a line of src/cuda/measured_products.inc.
std::string table_line(const cuda::ProductLibrary& library, const ProductTime& time) {
  return cat(library.card, '\t', library.version, '\t', time.product, '\t', time.best);
}

Json as_json(const cuda::ProductLibrary& library, const ProductTime& t) {
  if (!t.error.empty()) return {{"product", t.product}, {"error", t.error}};
  return {{"product", t.product},   {"card", library.card},       {"library", library.version},
          {"uses", t.uses},         {"candidates", t.candidates}, {"unsteady", t.unsteady},
          {"first_us", t.first_us}, {"chosen_us", t.chosen_us},   {"best_us", t.best_us},
          {"flops", t.flops},       {"chosen", t.chosen},         {"best", t.best}};
}

// Prints a line of the table, and the heading before the first line.
void print_product(const ProductTime& t, bool first) {
  if (first) {
    std::printf("%10s %10s %10s %5s %7s %8s  %s\n", "first us", "chosen us", "best us", "uses",
                "candidates", "TFLOP/s", "product");
  }
  if (!t.error.empty()) {
    std::printf("%s: %s\n", t.product.c_str(), t.error.c_str());
    return;
  }
  std::printf("%10.2f %10.2f %10.2f %5lld %7d %8.1f  %s\n", t.first_us, t.chosen_us, t.best_us,
              static_cast<long long>(t.uses), t.candidates, 1e-6 * t.flops / t.best_us,
              t.product.c_str());
  std::printf("%59s  %s%s\n", "", t.best.c_str(),
              t.unsteady ? cat(" (", t.unsteady, " of the others unsteady)").c_str() : "");
}

}  // namespace

void ProductsBenchCommand::add_to(CLI::App& app) {
  app.add_option("--only", only, "products whose names contain this text (default: all)");
  app.add_option(
      "--output", output,
      "write a table of the fastest algorithms; programs use it if DTN_CUDA_PRODUCTS=FILE is set");
  add_count(app, "--steps", steps,
            "number of timed replays of an algorithm, in each of two rounds; the result is "
            "their median");
  add_count(app, "--launches", launches, "minimum number of launches in a replay");
  add_defaulted(app, "--working-set", working_set_mib,
                "MiB of factors that the launches cycle through, to exceed the cache")
      ->check(non_negative());
  app.footer(
      "Runs one step of the model and measures each kind of matrix product in it with every\n"
      "algorithm that cuBLASLt offers. Needs --device cuda. Programs take the algorithms from the\n"
      "table that the environment names, DTN_CUDA_PRODUCTS=FILE, or else from the built-in table;\n"
      "for products that are not in the table, they take cuBLASLt's first candidate.\n"
      "DTN_CUDA_PRODUCTS=first always takes the first candidate, DTN_CUDA_PRODUCTS=least-waste\n"
      "the candidate whose tiles waste least.");
}

int ProductsBenchCommand::run(const ExperimentConfig& config, Device device, bool json,
                              const Registries& registries) const {
  if (device == kCpu) {
    throw ConfigError("dtn-bench products measures cuBLASLt's algorithms; add --device cuda");
  }
  const std::vector<cuda::Product> products =
      chosen_by_name(products_of_a_step(config, registries), only, "product", "\n  ", "\n  ");
  std::string table = "# card, library, product and the fastest algorithm, by dtn-bench products\n";
  // Time of the products of a micro-batch: sum of uses times the time of each product.
  double first_ms = 0, chosen_ms = 0, best_ms = 0;
  int failed = 0;
  cuda::release_cached_memory();
  for (const cuda::Product& product : products) {
    ProductTime time;
    time.product = product.name;
    try {
      time = time_product(product, *this);
    } catch (const std::exception& e) {
      time.error = e.what();
      ++failed;
    }
    const double uses = 1e-3 * static_cast<double>(time.uses);
    first_ms += uses * time.first_us;
    chosen_ms += uses * time.chosen_us;
    best_ms += uses * time.best_us;
    if (json) {
      std::printf("%s\n", as_json(cuda::product_library(), time).dump().c_str());
    } else {
      print_product(time, &product == &products.front());
    }
    std::fflush(stdout);
    if (time.error.empty()) table += table_line(cuda::product_library(), time) + '\n';
    cuda::release_cached_memory();
  }
  if (!output.empty()) write_file_atomic(output, table);
  if (json) {
    const Json sum = {{"products", products.size()},
                      {"failed", failed},
                      {"first_ms", first_ms},
                      {"chosen_ms", chosen_ms},
                      {"best_ms", best_ms}};
    std::printf("%s\n", sum.dump().c_str());
  } else {
    std::printf(
        "products of a micro-batch: %.3f ms with the first candidates, %.3f ms with the chosen "
        "ones, %.3f ms with the fastest\n",
        first_ms, chosen_ms, best_ms);
    if (!output.empty()) std::printf("table: %s\n", output.c_str());
  }
  return failed == 0 ? kExitDone : kExitFailed;
}

}  // namespace dtn::app
