#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common/program.h"
#include "apps/data/data_command.h"
#include "core/format.h"
#include "core/seconds_since.h"
#include "data/corrupt/corrupt_folders.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// True if `root` holds class folders directly, and no folder named `split`.
bool holds_classes(const std::string& root, const std::string& split) {
  std::error_code error;
  if (fs::is_directory(fs::path(root) / split, error)) return false;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const bool hidden = it->path().filename().native().starts_with('.');
    if (!hidden && it->is_directory(ignored)) return true;
  }
  return false;
}

CorruptOptions options_of(const std::string& corruptions, const std::string& severities,
                          const std::string& frost_dir) {
  CorruptOptions options;
  const std::vector<const Corruption*> chosen = parse_corruptions(corruptions);
  options.cells = cells_of(chosen, parse_severities(severities));
  if (std::ranges::any_of(chosen, [](const Corruption* c) { return is_frost(*c); })) {
    options.frost =
        frost_dir.empty() ? FrostTextures::stand_in() : FrostTextures::from_folder(frost_dir);
  }
  return options;
}

std::string plan_text(const CorruptPlan& plan, std::size_t cells, int jobs) {
  std::string text = cat(counted(plan.images, "images"), " x ", counted(cells, "folders"), " = ",
                         counted(plan.files, "files"));
  if (plan.there > 0) text += cat(", of which ", plan.there, " already exist");
  if (plan.bytes > 0) {
    text += cat("; about ", bytes_text(plan.bytes), ", and ", format_duration(plan.seconds),
                " to make the missing ones with ", counted(jobs, "jobs"));
  }
  return text;
}

Json plan_json(const CorruptPlan& plan, const std::string& frost) {
  return {{"images", plan.images}, {"files", plan.files},     {"there", plan.there},
          {"bytes", plan.bytes},   {"seconds", plan.seconds}, {"frost", frost}};
}

// Text about the frost images for a report. Stand-in images must be mentioned.
std::string frost_text(const CorruptOptions& options) {
  if (!options.frost) return "";
  return options.frost->is_stand_in() ? "frost (stand-in)" : "frost";
}

void print_report(const CorruptReport& report, const std::string& output, double seconds) {
  std::printf("%s %lld of %s, %s, in %s, %.0f images/s%s\n",
              report.stopped ? "stopped; made" : "made", static_cast<long long>(report.made),
              counted(report.files, "files").c_str(),
              bytes_text(static_cast<double>(report.bytes)).c_str(), output.c_str(),
              static_cast<double>(report.made) / std::max(seconds, 1e-9),
              report.stopped ? "; run the same command again to continue" : "");
  if (report.there > 0) std::printf("%s existed already\n", counted(report.there, "files").c_str());
  if (!report.unreadable.empty()) {
    std::printf("%s cannot be read; the corrupted files of unreadable images are missing\n",
                counted(report.unreadable.size(), "images").c_str());
  }
}

}  // namespace

CLI::App* CorruptCommand::add_to(CLI::App& app) {
  CLI::App* sub = app.add_subcommand(
      "corrupt",
      "make ImageNet-C from clean images: <output>/<corruption>/<severity>/<class>/<file>; "
      "continues after an interruption; exit code 3 if an image cannot be read");
  data_.split = "val";
  data_.add_to(*sub);
  sub->add_option("--output", output_, "folder to write")->required();
  sub->add_option(
      "--corruption", corruptions_,
      "names separated by commas, or `all` for all 19 (default: the 15 of the benchmark)");
  add_defaulted(*sub, "--severity", severities_, "1 to 5: a list such as 1-5, 3 or 1,3-4");
  add_defaulted(*sub, "--seed", seed_, "seed of the random corruptions");
  add_choice(*sub, "--format", format_, {"jpeg", "png"},
             "jpeg: quality 85, as in ImageNet-C; png: lossless");
  sub->add_option("--frost-dir", frost_dir_,
                  "folder of frost images: frost1.png to frost5.jpg of the original scripts, or "
                  "others (default: generated stand-ins)");
  sub->add_flag("--dry-run", dry_run_,
                "print how many files, bytes and seconds this takes; write nothing");
  return sub;
}

std::unique_ptr<Dataset> CorruptCommand::open(const Registries& registries) const {
  DataCommand data = data_;
  ExperimentConfig config = data.config_of(registries);
  const bool val = data.split == "val";
  std::optional<std::string>& folder = val ? config.data.val : config.data.train;
  // A folder of class folders is the split; its parent becomes the root.
  const bool has_own_rule = config.data.labels || config.data.split;
  if (!data.root.empty() && config.data.dataset == "imagefolder" && !folder && !has_own_rule &&
      holds_classes(config.data.root, data.split)) {
    const fs::path root = fs::weakly_canonical(config.data.root);
    config.data.root = root.parent_path();
    config.data.val = config.data.train = root.filename();
  }
  return data.open(config, registries);
}

int CorruptCommand::run(const Registries& registries) const {
  CorruptOptions options = options_of(corruptions_, severities_, frost_dir_);
  options.output = output_;
  options.seed = seed_;
  options.format = corrupt_format(format_);
  options.jobs = data_.jobs;
  const std::unique_ptr<Dataset> dataset = open(registries);
  const CorruptFolders folders(*dataset, options);
  constexpr std::int64_t kMany = 10000;
  const std::int64_t files = dataset->size() * static_cast<std::int64_t>(options.cells.size());
  const CorruptPlan plan = folders.plan(dry_run_ ? 8 : files >= kMany ? 1 : 0);
  const std::string text = plan_text(plan, options.cells.size(), options.jobs);
  const std::string frost = frost_text(options);
  if (dry_run_) {
    if (data_.json) {
      print_json(plan_json(plan, frost));
    } else {
      std::printf("%s\n", text.c_str());
    }
    return kExitDone;
  }
  log_info(text);
  if (options.frost && options.frost->is_stand_in()) {
    log_warn(
        "frost (stand-in): the frost textures are generated, so its mCE is not comparable with "
        "published values; --frost-dir takes the original textures");
  }

  Watch watch("corrupting", plan.files, plan.there);
  const auto start = std::chrono::steady_clock::now();
  const CorruptReport report = folders.run([&](std::int64_t done) { return watch.update(done); },
                                           [&](const BadSample& bad) {
                                             watch.clear();
                                             log_warn("skipped: " + bad.reason);
                                           });
  watch.clear();
  const double seconds = seconds_since(start);
  if (data_.json) {
    print_json({{"output", output_},
                {"images", report.images},
                {"files", report.files},
                {"there", report.there},
                {"made", report.made},
                {"bytes", report.bytes},
                {"seconds", seconds},
                {"frost", frost},
                {"unreadable", bad_json(report.unreadable)},
                {"stopped", report.stopped}});
  } else {
    print_report(report, output_, seconds);
  }
  if (report.stopped) return kExitStopped;
  return report.unreadable.empty() ? kExitDone : kExitData;
}

}  // namespace dtn::app
