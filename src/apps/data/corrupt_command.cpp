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

std::string gigabytes(double bytes) { return format("%.2f GB", bytes / 1e9); }

std::string plan_text(const CorruptPlan& plan, std::size_t cells, int jobs) {
  std::string text = cat(plan.images, " images x ", cells, " folders = ", plan.files, " files");
  if (plan.there > 0) text += cat(", of which ", plan.there, " are there");
  if (plan.bytes > 0) {
    text += cat("; about ", gigabytes(plan.bytes), ", and ", format_duration(plan.seconds),
                " to make what is missing in ", jobs, jobs == 1 ? " job" : " jobs");
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
  std::printf("%s %lld of %lld files, %s, in %s, %.0f images/s%s\n",
              report.stopped ? "stopped; made" : "made", static_cast<long long>(report.made),
              static_cast<long long>(report.files), megabytes(report.bytes).c_str(), output.c_str(),
              static_cast<double>(report.made) / std::max(seconds, 1e-9),
              report.stopped ? "; the same command goes on from there" : "");
  if (report.there > 0) {
    std::printf("%lld files were there\n", static_cast<long long>(report.there));
  }
  if (!report.unreadable.empty()) {
    std::printf("%zu images cannot be read; theirs are missing\n", report.unreadable.size());
  }
}

}  // namespace

CLI::App* CorruptCommand::add_to(CLI::App& app) {
  CLI::App* sub = app.add_subcommand(
      "corrupt",
      "make the images of ImageNet-C from clean ones, <output>/<corruption>/<severity>/<class>/; "
      "goes on where it was killed; 3 if an image cannot be read");
  data_.split = "val";
  data_.add_to(*sub);
  sub->add_option("--output", output_, "the folder to write")->required();
  sub->add_option(
      "--corruption", corruptions_,
      "names with commas between, or all for the 19 (default: the 15 of the benchmark)");
  sub->add_option("--severity", severities_, "1 to 5: a list such as 1-5, 3 or 1,3-4")
      ->capture_default_str();
  sub->add_option("--seed", seed_, "of all that is drawn at random")->capture_default_str();
  sub->add_option("--format", format_,
                  "jpeg: quality 85, as ImageNet-C has it; png: without a second compression")
      ->check(CLI::IsMember({"jpeg", "png"}))
      ->capture_default_str();
  sub->add_option("--frost-dir", frost_dir_,
                  "pictures of frost: frost1.png to frost5.jpg of the original scripts, or others "
                  "(default: a stand-in made by code)");
  sub->add_flag("--dry-run", dry_run_,
                "say how many files, bytes and seconds it would be, and write nothing");
  return sub;
}

std::unique_ptr<Dataset> CorruptCommand::open(const Registries& registries) const {
  DataCommand data = data_;
  ExperimentConfig config = data.config_of(registries);
  const bool val = data.split == "val";
  std::optional<std::string>& folder = val ? config.data.val : config.data.train;
  // A folder of class folders is the split; its parent becomes the root.
  if (!data.root.empty() && config.data.dataset == "imagefolder" && !folder &&
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
        "frost (stand-in): its textures are made by code; an mCE with them is not comparable "
        "with published ones (--frost-dir takes the originals)");
  }

  Watch watch("corrupting", plan.files, plan.there);
  const auto start = std::chrono::steady_clock::now();
  const CorruptReport report = folders.run([&](std::int64_t done) { return watch.update(done); },
                                           [&](const BadSample& bad) {
                                             watch.clear();
                                             log_warn("left out: " + bad.reason);
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
