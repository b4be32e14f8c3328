#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/common/program.h"
#include "apps/data/data_command.h"
#include "core/format.h"
#include "core/seconds_since.h"

namespace dtn::app {
namespace {

void print_report(const shapes::ShapesOptions& options, const shapes::ShapesReport& report) {
  const auto count = [](std::int64_t n) { return static_cast<long long>(n); };
  if (report.stopped) {
    std::printf("stopped after %lld of %s; nothing was written\n", count(report.pictures),
                counted(options.all_pictures(), "pictures").c_str());
    return;
  }
  std::printf("%lld and %lld pictures with %s and %s, %lld without an object, %s, in %s\n",
              count(options.train), count(options.val), counted(report.shapes, "shapes").c_str(),
              counted(report.crowds, "crowds").c_str(), count(report.empty),
              bytes_text(static_cast<double>(report.bytes)).c_str(), options.output.c_str());
}

}  // namespace

CLI::App* ShapesCommand::add_to(CLI::App& app) {
  CLI::App* sub = app.add_subcommand(
      "shapes",
      "generate a data set for object detection, to try detectors without COCO: discs, squares and "
      "triangles on noisy ground, with boxes, masks and crowds in COCO's layout; equal options "
      "give equal bytes; the files appear when all are complete");
  sub->add_option("--output", output_, "folder to write; it must be empty or new")->required();
  sub->add_option("--seed", options_.seed, "seed of the random pictures")->required();
  add_defaulted(*sub, "--train", options_.train, "number of training pictures");
  add_defaulted(*sub, "--val", options_.val, "number of validation pictures");
  add_defaulted(*sub, "--size", options_.size,
                "longer side of a picture in pixels; the other side has at least 3/4 of it");
  sub->add_flag("--json", json_, "print one JSON object");
  return sub;
}

int ShapesCommand::run() const {
  shapes::ShapesOptions options = options_;
  options.output = output_;
  const auto start = std::chrono::steady_clock::now();
  shapes::ShapesReport report;
  {
    Watch watch("generating", options.all_pictures(), 0, "pictures");
    report = shapes::write_shapes(options, [&](std::int64_t done) { return watch.update(done); });
  }
  const double seconds = std::max(seconds_since(start), 1e-9);
  if (json_) {
    print_json({{"output", output_},
                {"pictures", report.pictures},
                {"shapes", report.shapes},
                {"crowds", report.crowds},
                {"empty", report.empty},
                {"bytes", report.bytes},
                {"seconds", seconds},
                {"stopped", report.stopped}});
  } else {
    print_report(options, report);
  }
  return report.stopped ? kExitStopped : kExitDone;
}

}  // namespace dtn::app
