#include "dtn/app/data_main.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/program.h"
#include "core/format.h"
#include "data/source/inspect.h"
#include "data/source/pack.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/core/parallel.h"
#include "dtn/data/datasets.h"
#include "dtn/tasks/registries.h"
#include "train/progress.h"
#include "train/stop_signal.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

struct DataCommand {
  std::string config, split = "train";
  std::vector<std::string> overrides;
  DataConfig data;  // in place of a config
  bool json = false, no_decode = false;
  int jobs = max_threads();
  // pack
  std::string output;
  PackOptions pack;
};

ExperimentConfig config_of(const DataCommand& options, const Registries& registries) {
  if (!options.config.empty()) {
    return load_experiment(find_config(options.config), options.overrides, registries.schemas());
  }
  if (options.data.root.empty()) {
    throw ConfigError("name the data set: --config C, or --root DIR with --dataset NAME");
  }
  if (!options.overrides.empty()) throw ConfigError("--set needs --config");
  ExperimentConfig config;
  config.data = options.data;
  config.model.num_classes = 0;  // as many as there are
  return config;
}

std::unique_ptr<Dataset> open_split_of(const DataCommand& options, const ExperimentConfig& config,
                                       const Registries& registries) {
  const Split split = options.split == "train" ? Split::kTrain : Split::kVal;
  auto dataset = open_dataset(config.data, config.model, split, config.seed, registries.datasets);
  log_info(dataset->description());
  return dataset;
}

std::string megabytes(std::int64_t bytes) {
  return format("%.1f MB", static_cast<double>(bytes) / 1e6);
}

void print_json(const Json& json) {
  // Names of files are bytes; what is not UTF-8 is replaced.
  std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

// A bar that shows images per second, and ends the work when a signal asks for it.
class Watch {
 public:
  Watch(const char* title, std::int64_t total, std::int64_t done)
      : bar_(title, total, done), first_(done) {}

  bool update(std::int64_t done, const std::string& more = {}) {
    const std::chrono::duration<double> passed = Clock::now() - start_;
    const std::string rate = format(
        "%.0f images/s", static_cast<double>(done - first_) / std::max(passed.count(), 1e-3));
    bar_.update(done, more.empty() ? rate : rate + ("  " + more));
    return !stop_requested();
  }
  void clear() { bar_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;
  ProgressBar bar_;
  std::int64_t first_;
  Clock::time_point start_ = Clock::now();
};

int pack(const DataCommand& options, const Registries& registries) {
  const ExperimentConfig config = config_of(options, registries);
  const auto dataset = open_split_of(options, config, registries);
  PackOptions how = options.pack;
  how.jobs = options.jobs;
  how.interpolation = config.data.interpolation;
  how.resample = config.data.resample;
  std::optional<Watch> watch;
  const PackReport report = pack_dataset(
      *dataset, options.output, how,
      [&](const PackProgress& now) {
        if (!watch) watch.emplace("packing", dataset->size(), now.images - 1);
        return watch->update(now.images, megabytes(now.bytes));
      },
      [&](const std::string& what) {
        if (watch) watch->clear();
        log_warn("kept as it is: " + what);
      });
  watch.reset();
  if (options.json) {
    print_json({{"output", options.output},
                {"images", report.images},
                {"bytes", report.bytes},
                {"resumed_at", report.resumed_at},
                {"resized", report.resized},
                {"undecodable", report.undecodable},
                {"stopped", report.stopped}});
  } else {
    std::printf("%s %lld of %lld images, %s, in %s%s\n",
                report.stopped ? "stopped after" : "packed", static_cast<long long>(report.images),
                static_cast<long long>(dataset->size()), megabytes(report.bytes).c_str(),
                options.output.c_str(),
                report.stopped ? ".partial; the same command goes on from there" : "");
  }
  return report.stopped ? kExitStopped : kExitDone;
}

Json bad_json(const std::vector<BadSample>& bad) {
  Json list = Json::array();
  for (const BadSample& b : bad) {
    list.push_back({{"index", b.index}, {"name", b.name}, {"reason", b.reason}});
  }
  return list;
}

// How many samples were looked at, and whether that was all.
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

int verify(const DataCommand& options, const Registries& registries) {
  const auto dataset = open_split_of(options, config_of(options, registries), registries);
  Progress progress;
  std::vector<BadSample> bad;
  const auto depth = options.no_decode ? VerifyDepth::kRead : VerifyDepth::kDecode;
  const auto start = std::chrono::steady_clock::now();
  {
    Watch watch("verifying", dataset->size(), 0);
    bad = verify_dataset(*dataset, depth, options.jobs, watching(watch, progress, dataset->size()));
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  const double rate = static_cast<double>(progress.done) / std::max(passed.count(), 1e-9);
  if (options.json) {
    print_json({{"images", dataset->size()},
                {"verified", progress.done},
                {"bad", bad_json(bad)},
                {"images_per_second", rate}});
  } else {
    for (const BadSample& b : bad) std::printf("bad: %s\n", b.reason.c_str());
    std::printf("%lld of %lld images verified, %zu bad, %.0f images/s\n",
                static_cast<long long>(progress.done), static_cast<long long>(dataset->size()),
                bad.size(), rate);
  }
  if (progress.stopped) return kExitStopped;
  return bad.empty() ? kExitDone : kExitData;
}

Json spread_json(const Spread& s) { return {{"min", s.min}, {"median", s.median}, {"max", s.max}}; }

Json stats_json(const Dataset& dataset, const DatasetStats& stats) {
  Json classes = Json::array();
  const auto& names = dataset.class_names();
  for (std::size_t c = 0; c < stats.per_class.size(); ++c) {
    classes.push_back({{"label", c},
                       {"name", c < names.size() ? Json(names[c]) : Json()},
                       {"images", stats.per_class[c]}});
  }
  return {{"images", stats.images},
          {"unreadable", bad_json(stats.bad)},
          {"mean", stats.mean},
          {"std", stats.std},
          {"width", spread_json(stats.width)},
          {"height", spread_json(stats.height)},
          {"bytes", spread_json(stats.bytes)},
          {"formats", stats.formats},
          {"gray", stats.gray},
          {"classes", classes}};
}

void print_stats(const Dataset& dataset, const DatasetStats& stats) {
  const auto line = [](const char* what, const Spread& s) {
    std::printf("%-8s %lld .. %lld, median %lld\n", what, static_cast<long long>(s.min),
                static_cast<long long>(s.max), static_cast<long long>(s.median));
  };
  std::printf("%lld images, %zu unreadable\n", static_cast<long long>(stats.images),
              stats.bad.size());
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
  std::printf("classes  %zu\n", stats.per_class.size());
  for (std::size_t c = 0; c < stats.per_class.size(); ++c) {
    const auto& names = dataset.class_names();
    std::printf("  %4zu %-12s %lld\n", c, c < names.size() ? names[c].c_str() : "",
                static_cast<long long>(stats.per_class[c]));
  }
}

int stats(const DataCommand& options, const Registries& registries) {
  const auto dataset = open_split_of(options, config_of(options, registries), registries);
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

void add_data_options(CLI::App& app, DataCommand& options) {
  app.add_option("--config", options.config, "config file or name; its data section is used");
  add_overrides(app, options.overrides, "override one key of the config (repeatable)");
  app.add_option("--dataset", options.data.dataset, "without --config: what data.dataset would be")
      ->check(CLI::IsMember({"imagefolder", "imagenet", "webdataset", "packed"}))
      ->capture_default_str();
  app.add_option("--root", options.data.root, "without --config: data.root");
  app.add_option("--train", options.data.train, "without --config: data.train");
  app.add_option("--val", options.data.val, "without --config: data.val");
  app.add_option("--split", options.split, "train or val")
      ->check(CLI::IsMember({"train", "val"}))
      ->capture_default_str();
  app.add_option("--jobs", options.jobs, "threads (default: one per core)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", options.json, "print one JSON object");
}

}  // namespace

int data_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{"Packs, verifies and describes data sets.", "dtn-data"};
  app.require_subcommand(1);
  DataCommand options;
  CLI::App* pack_command = app.add_subcommand(
      "pack", "write a split into one file, for data.dataset packed; goes on where it was killed");
  CLI::App* verify_command = app.add_subcommand(
      "verify", "read and decode every image, and the checksums of a packed file; 3 if any is bad");
  CLI::App* stats_command = app.add_subcommand(
      "stats", "images per class, sizes, formats, mean and std of the pixels, unreadable files");
  for (CLI::App* sub : {pack_command, verify_command, stats_command})
    add_data_options(*sub, options);
  verify_command->add_flag("--no-decode", options.no_decode,
                           "only read, and compare with the checksums of a packed file");
  pack_command->add_option("--output", options.output, "the file to write")->required();
  pack_command
      ->add_option("--short-side", options.pack.short_side,
                   "resize images whose short side has more pixels, and encode them as JPEG "
                   "(default: keep every file as it is)")
      ->check(CLI::Range(1, 65500));
  pack_command->add_option("--quality", options.pack.quality, "of the JPEGs made by --short-side")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  return run_program(app, argc, argv, Processes::kOne, [&] {
    install_stop_signals();
    return *pack_command     ? pack(options, registries)
           : *verify_command ? verify(options, registries)
                             : stats(options, registries);
  });
}

}  // namespace dtn::app
