#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/common/program.h"
#include "apps/data/data_command.h"
#include "core/format.h"
#include "core/seconds_since.h"
#include "dtn/core/parallel.h"

namespace dtn::app {
namespace {

void print_report(const listops::WriteOptions& options, const listops::WriteReport& report,
                  double seconds) {
  const auto count = [](std::int64_t n) { return static_cast<long long>(n); };
  if (report.stopped) {
    std::printf("stopped after %lld of %lld trees; nothing was written\n", count(report.trees),
                count(options.all_trees()));
    return;
  }
  std::printf("%lld, %lld and %lld different trees of %lld to %lld tokens, %s, in %s\n",
              count(options.train), count(options.val), count(options.test),
              count(options.limits.min_length + 1), count(options.limits.max_length - 1),
              bytes_text(static_cast<double>(report.bytes)).c_str(), options.output.c_str());
  std::printf("kept 1 of %.1f random trees, discarded %lld duplicates, %.0f trees/s\n",
              static_cast<double>(report.tries) / static_cast<double>(report.trees),
              count(report.duplicates), static_cast<double>(report.trees) / seconds);
}

}  // namespace

CLI::App* ListopsCommand::add_to(CLI::App& app) {
  CLI::App* sub = app.add_subcommand(
      "listops",
      "generate Long ListOps: basic_train.tsv, basic_val.tsv and basic_test.tsv, for data.dataset "
      "listops; equal options give equal bytes; the files appear when all are complete");
  options_.jobs = max_threads();
  sub->add_option("--output", output_, "folder to write; it must be empty or new")->required();
  sub->add_option("--seed", options_.seed, "seed of the random trees")->required();
  add_defaulted(*sub, "--train", options_.train, "number of training trees");
  add_defaulted(*sub, "--val", options_.val, "number of validation trees");
  add_defaulted(*sub, "--test", options_.test, "number of test trees");
  add_defaulted(*sub, "--min-length", options_.limits.min_length,
                "each tree has more tokens than this");
  add_defaulted(*sub, "--max-length", options_.limits.max_length,
                "each tree has fewer tokens than this");
  add_defaulted(*sub, "--max-depth", options_.limits.max_depth,
                "largest depth of a tree; the root has depth 1");
  add_defaulted(*sub, "--max-args", options_.limits.max_args,
                "largest number of arguments of an operator");
  sub->add_option("--jobs", options_.jobs, "threads (default: one per core)")
      ->check(CLI::Range(1, 1024));
  sub->add_flag("--json", json_, "print one JSON object");
  return sub;
}

int ListopsCommand::run() const {
  listops::WriteOptions options = options_;
  options.output = output_;
  const auto start = std::chrono::steady_clock::now();
  listops::WriteReport report;
  {
    Watch watch("generating", options.all_trees(), 0, "trees");
    report = listops::write_files(options, [&](std::int64_t trees, std::int64_t bytes) {
      return watch.update(trees, bytes_text(static_cast<double>(bytes)));
    });
  }
  const double seconds = std::max(seconds_since(start), 1e-9);
  if (json_) {
    print_json({{"output", output_},
                {"trees", report.trees},
                {"tries", report.tries},
                {"duplicates", report.duplicates},
                {"bytes", report.bytes},
                {"seconds", seconds},
                {"trees_per_second", static_cast<double>(report.trees) / seconds},
                {"stopped", report.stopped}});
  } else {
    print_report(options, report, seconds);
  }
  return report.stopped ? kExitStopped : kExitDone;
}

}  // namespace dtn::app
