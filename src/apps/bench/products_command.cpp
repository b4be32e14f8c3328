#include "apps/bench/products_command.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/common/program.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "io/atomic_file.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

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
  app.add_option("--only", options.only, "products whose names contain this text (default: all)");
  app.add_option(
      "--output", output,
      "write a table of the fastest algorithms; programs use it if DTN_CUDA_PRODUCTS=FILE is set");
  app.add_option("--steps", options.steps,
                 "number of timed replays of an algorithm, in each of two rounds; the result is "
                 "their median")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--launches", options.launches, "minimum number of launches in a replay")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--working-set", working_set_mib,
                 "MiB of factors that the launches cycle through, to exceed the cache")
      ->check(non_negative())
      ->capture_default_str();
  app.footer(
      "Runs one step of the model and measures each kind of matrix product in it with every\n"
      "algorithm that cuBLASLt offers. Needs --device cuda. Programs take the algorithms from the\n"
      "table that the environment names, DTN_CUDA_PRODUCTS=FILE, or else from the built-in table;\n"
      "for products that are not in the table, they take cuBLASLt's first candidate.\n"
      "DTN_CUDA_PRODUCTS=first always takes the first candidate, DTN_CUDA_PRODUCTS=least-waste\n"
      "the candidate whose tiles waste least.");
}

int ProductsBenchCommand::run(const ExperimentConfig& config, Device device, bool json,
                              const Registries& registries) {
  if (device == kCpu) {
    throw ConfigError("dtn-bench products measures cuBLASLt's algorithms; add --device cuda");
  }
  options.working_set = working_set_mib << 20;
  std::string table = "# card, library, product and the fastest algorithm, by dtn-bench products\n";
  bool first = true;
  const auto report = [&](const ProductTime& t) {
    if (json) {
      std::printf("%s\n", as_json(cuda::product_library(), t).dump().c_str());
    } else {
      print_product(t, first);
    }
    first = false;
    std::fflush(stdout);
    if (t.error.empty()) table += table_line(cuda::product_library(), t) + '\n';
  };
  const ProductBenchmark b = benchmark_products(config, options, report, registries);
  if (!output.empty()) write_file_atomic(output, table);
  if (json) {
    const Json sum = {{"products", b.products},
                      {"failed", b.failed},
                      {"first_ms", b.first_ms},
                      {"chosen_ms", b.chosen_ms},
                      {"best_ms", b.best_ms}};
    std::printf("%s\n", sum.dump().c_str());
  } else {
    std::printf(
        "products of a micro-batch: %.3f ms with the first candidates, %.3f ms with the chosen "
        "ones, %.3f ms with the fastest\n",
        b.first_ms, b.chosen_ms, b.best_ms);
    if (!output.empty()) std::printf("table: %s\n", output.c_str());
  }
  return b.failed == 0 ? kExitDone : kExitFailed;
}

}  // namespace dtn::app
