#include "dtn/app/data_main.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/program.h"
#include "apps/data/data_command.h"
#include "core/format.h"
#include "core/seconds_since.h"
#include "core/stop_signal.h"
#include "data/classes/class_counts.h"
#include "data/source/inspect.h"
#include "data/source/pack.h"
#include "dtn/core/log.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

// Options of the subcommand pack.
struct PackCommand {
  std::string output;
  PackOptions pack;
};

int pack(const DataCommand& options, const PackCommand& command, const Registries& registries) {
  const ExperimentConfig config = options.config_of(registries);
  const auto dataset = options.open(config, registries);
  PackOptions how = command.pack;
  how.jobs = options.jobs;
  how.interpolation = config.data.interpolation;
  how.resample = config.data.resample;
  std::optional<Watch> watch;
  const PackReport report = pack_dataset(
      *dataset, command.output, how,
      [&](const PackProgress& now) {
        if (!watch) watch.emplace("packing", dataset->size(), now.images - 1);
        return watch->update(now.images, bytes_text(static_cast<double>(now.bytes)));
      },
      [&](const std::string& what) {
        if (watch) watch->clear();
        log_warn("kept unchanged: " + what);
      });
  watch.reset();
  if (options.json) {
    print_json({{"output", command.output},
                {"images", report.images},
                {"bytes", report.bytes},
                {"resumed_at", report.resumed_at},
                {"resized", report.resized},
                {"undecodable", report.undecodable},
                {"stopped", report.stopped}});
  } else {
    std::printf("%s %lld of %s, %s, in %s%s\n", report.stopped ? "stopped after" : "packed",
                static_cast<long long>(report.images), counted(dataset->size(), "images").c_str(),
                bytes_text(static_cast<double>(report.bytes)).c_str(), command.output.c_str(),
                report.stopped ? ".partial; run the same command again to continue" : "");
  }
  return report.stopped ? kExitStopped : kExitDone;
}

// Number of samples examined. `stopped`: the work ended early.
struct Progress {
  std::int64_t done = 0;
  bool stopped = false;
};

KeepLooking watching(Watch& watch, Progress& progress, std::int64_t total) {
  return [&, total](std::int64_t done) {
    const bool keep = watch.update(done);
    progress = {done, !keep && done < total};
    return keep;
  };
}

int verify(const DataCommand& options, bool decode, const Registries& registries) {
  const auto dataset = options.open_to_inspect(registries);
  Progress progress;
  std::vector<BadSample> bad;
  const char* const noun = dataset->vocabulary() > 0 ? "sequences" : "images";
  const auto depth = decode ? VerifyDepth::kDecode : VerifyDepth::kRead;
  const auto start = std::chrono::steady_clock::now();
  {
    Watch watch("verifying", dataset->size(), 0, noun);
    bad = verify_dataset(*dataset, depth, options.jobs, watching(watch, progress, dataset->size()));
  }
  const double rate = static_cast<double>(progress.done) / std::max(seconds_since(start), 1e-9);
  if (options.json) {
    print_json({{"images", dataset->size()},
                {"verified", progress.done},
                {"bad", bad_json(bad)},
                {"images_per_second", rate}});
  } else {
    for (const BadSample& b : bad) std::printf("bad: %s\n", b.reason.c_str());
    std::printf("%lld of %s verified, %zu bad, %.0f %s/s\n", static_cast<long long>(progress.done),
                counted(dataset->size(), noun).c_str(), bad.size(), rate, noun);
  }
  if (progress.stopped) return kExitStopped;
  return bad.empty() ? kExitDone : kExitData;
}

Json spread_json(const Spread& s) { return {{"min", s.min}, {"median", s.median}, {"max", s.max}}; }

Json stats_json(const Dataset& dataset, const DatasetStats& stats) {
  Json classes = Json::array();
  const auto& names = dataset.class_names();
  const bool any_labels = dataset.ready_fields().has("labels");
  const bool known = dataset.has_labels() || any_labels;
  for (std::size_t c = 0; known && c < stats.per_class.size(); ++c) {
    classes.push_back({{"label", c},
                       {"name", c < names.size() ? Json(names[c]) : Json()},
                       {"images", stats.per_class[c]}});
  }
  Json json = {{"images", stats.images},
               {"unreadable", bad_json(stats.bad)},
               {"mean", stats.mean},
               {"std", stats.std},
               {"width", spread_json(stats.width)},
               {"height", spread_json(stats.height)},
               {"bytes", spread_json(stats.bytes)},
               {"formats", stats.formats},
               {"gray", stats.gray},
               {"classes", classes}};
  if (any_labels) json["without_class"] = stats.without_class;
  return json;
}

void print_classes(const Dataset& dataset, const DatasetStats& stats) {
  const bool any_labels = dataset.ready_fields().has("labels");
  if (!dataset.has_labels() && !any_labels) {
    std::printf("classes  none: the images have no labels\n");
    return;
  }
  std::printf("classes  %zu", stats.per_class.size());
  if (any_labels) {
    std::printf(", any number for each image; %s without one",
                counted(stats.without_class, "images").c_str());
  }
  std::printf("\n");
  for (std::size_t c = 0; c < stats.per_class.size(); ++c) {
    const auto& names = dataset.class_names();
    std::printf("  %4zu %-12s %lld\n", c, c < names.size() ? names[c].c_str() : "",
                static_cast<long long>(stats.per_class[c]));
  }
  if (any_labels) return;
  const std::string uneven =
      uneven_text(class_spread(stats.per_class), dataset.class_names(), "images");
  if (!uneven.empty()) std::printf("classes are %s\n", uneven.c_str());
}

void print_stats(const Dataset& dataset, const DatasetStats& stats) {
  const auto line = [](const char* what, const Spread& s) {
    std::printf("%-8s %lld .. %lld, median %lld\n", what, static_cast<long long>(s.min),
                static_cast<long long>(s.max), static_cast<long long>(s.median));
  };
  std::printf("%s, %zu unreadable\n", counted(stats.images, "images").c_str(), stats.bad.size());
  for (const BadSample& b : stats.bad) std::printf("unreadable: %s\n", b.reason.c_str());
  std::printf("mean     %.4f %.4f %.4f\nstd      %.4f %.4f %.4f\n", stats.mean[0], stats.mean[1],
              stats.mean[2], stats.std[0], stats.std[1], stats.std[2]);
  line("width", stats.width);
  line("height", stats.height);
  line("bytes", stats.bytes);
  std::printf("formats ");
  for (const auto& [name, count] : stats.formats) {
    std::printf(" %s %lld", name.c_str(), static_cast<long long>(count));
  }
  std::printf(", %lld gray\n", static_cast<long long>(stats.gray));
  print_classes(dataset, stats);
}

int stats(const DataCommand& options, const Registries& registries) {
  const auto dataset = options.open_to_inspect(registries);
  Progress progress;
  DatasetStats found;
  {
    Watch watch("reading", dataset->size(), 0);
    found = dataset_stats(*dataset, options.jobs, watching(watch, progress, dataset->size()));
  }
  if (progress.stopped) return kExitStopped;
  if (options.json) {
    print_json(stats_json(*dataset, found));
  } else {
    print_stats(*dataset, found);
  }
  return kExitDone;
}

}  // namespace

int data_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{
      "Packs, verifies, describes, shows and corrupts data sets, and generates Long ListOps and "
      "pictures of shapes.",
      "dtn-data"};
  app.require_subcommand(1);
  DataCommand options;
  PackCommand packing;
  CorruptCommand corrupting;
  ListopsCommand making_listops;
  ShapesCommand making_shapes;
  PreviewCommand previewing;
  bool no_decode = false;
  CLI::App* pack_command = app.add_subcommand(
      "pack",
      "write a split into one file, for data.dataset packed; continues after an interruption");
  CLI::App* verify_command =
      app.add_subcommand("verify",
                         "read and decode every image, and check the checksums of a packed file; "
                         "exit code 3 if any is bad");
  CLI::App* stats_command = app.add_subcommand(
      "stats", "images per class, sizes, formats, mean and std of the pixels, unreadable files");
  for (CLI::App* sub : {pack_command, verify_command, stats_command}) {
    options.add_to(*sub);
    options.add_task_to(*sub);
  }
  CLI::App* preview_command = previewing.add_to(app);
  CLI::App* corrupt_command = corrupting.add_to(app);
  CLI::App* listops_command = making_listops.add_to(app);
  CLI::App* shapes_command = making_shapes.add_to(app);
  verify_command->add_flag("--no-decode", no_decode,
                           "only read the files and check the checksums of a packed file");
  pack_command->add_option("--output", packing.output, "file to write")->required();
  pack_command
      ->add_option("--short-side", packing.pack.short_side,
                   "resize images whose short side has more pixels, and encode them as JPEG "
                   "(default: keep every file as it is)")
      ->check(CLI::Range(1, 65500));
  add_defaulted(*pack_command, "--quality", packing.pack.quality,
                "quality of the JPEGs that --short-side makes")
      ->check(CLI::Range(1, 100));
  return run_program(app, argc, argv, Processes::kOne, [&] {
    install_stop_signals();
    return *pack_command      ? pack(options, packing, registries)
           : *verify_command  ? verify(options, !no_decode, registries)
           : *preview_command ? previewing.run(registries)
           : *corrupt_command ? corrupting.run(registries)
           : *listops_command ? making_listops.run()
           : *shapes_command  ? making_shapes.run()
                              : stats(options, registries);
  });
}

}  // namespace dtn::app
