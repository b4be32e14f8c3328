#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/common/program.h"
#include "apps/data/data_command.h"
#include "core/seconds_since.h"
#include "dtn/core/parallel.h"

namespace dtn::app {
namespace {

void print_report(const listops::WriteOptions& options, const listops::WriteReport& report,
                  double seconds) {
  const auto count = [](std::int64_t n) { return static_cast<long long>(n); };
  if (report.stopped) {
    std::printf("stopped after %lld of %lld trees; nothing is written\n", count(report.trees),
                count(options.trees()));
    return;
  }
  std::printf("%lld, %lld and %lld different trees of %lld to %lld tokens, %s, in %s\n",
              count(options.train), count(options.val), count(options.test),
              count(options.limits.min_length + 1), count(options.limits.max_length - 1),
              megabytes(report.bytes).c_str(), options.output.c_str());
  std::printf("one of %.1f tries kept, %lld trees drawn twice, %.0f trees/s\n",
              static_cast<double>(report.tries) / static_cast<double>(report.trees),
              count(report.duplicates), static_cast<double>(report.trees) / seconds);
}

}  // namespace

CLI::App* ListopsCommand::add_to(CLI::App& app) {
  CLI::App* sub = app.add_subcommand(
      "listops",
      "make Long ListOps: basic_train.tsv, basic_val.tsv and basic_test.tsv, for data.dataset "
      "listops; the same numbers give the same bytes; all three appear at the end");
  options_.jobs = max_threads();
  sub->add_option("--output", output_, "the folder to write; one that holds files is left alone")
      ->required();
  sub->add_option("--seed", options_.seed, "of all that is drawn")->required();
  sub->add_option("--train", options_.train, "trees to train on")->capture_default_str();
  sub->add_option("--val", options_.val, "trees to validate on")->capture_default_str();
  sub->add_option("--test", options_.test, "trees to test on")->capture_default_str();
  sub->add_option("--min-length", options_.limits.min_length, "trees have more tokens than this")
      ->capture_default_str();
  sub->add_option("--max-length", options_.limits.max_length, "and less than this")
      ->capture_default_str();
  sub->add_option("--max-depth", options_.limits.max_depth,
                  "nodes at this depth, the root's being 1, are digits")
      ->capture_default_str();
  sub->add_option("--max-args", options_.limits.max_args, "arguments that an operator may have")
      ->capture_default_str();
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
    Watch watch("drawing", options.trees(), 0, "trees");
    report = listops::write_files(options, [&](std::int64_t trees, std::int64_t bytes) {
      return watch.update(trees, megabytes(bytes));
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
