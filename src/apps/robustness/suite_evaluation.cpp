#include "apps/robustness/suite_evaluation.h"

#include <cstdio>
#include <optional>

#include "apps/common/program.h"
#include "apps/robustness/robustness.h"
#include "dtn/core/check.h"
#include "dtn/models/weights.h"

namespace dtn::app {
namespace {

std::optional<CorruptOnTheFly> on_the_fly(const SuiteOptions& options) {
  if (!options.on_the_fly) return std::nullopt;
  if (options.suite != name_of(Suite::kImageNetC)) {
    throw ConfigError("--corrupt-on-the-fly works only with --suite imagenet-c");
  }
  CorruptOnTheFly how;
  if (!options.corruptions.empty()) how.corruptions = parse_corruptions(options.corruptions);
  how.severities = parse_severities(options.severities);
  how.seed = options.corrupt_seed;
  how.format = corrupt_format(options.corrupt_format);
  how.frost_dir = options.frost_dir;
  return how;
}

}  // namespace

CLI::Option* SuiteOptions::add_to(CLI::App& app) {
  auto* option =
      app.add_option("--suite", suite,
                     "evaluate on ImageNet-C (error by corruption and severity, CE, mCE) or "
                     "ImageNet-R (a choice between its classes), and on the clean validation "
                     "images; see docs/robustness.md")
          ->check(CLI::IsMember({"imagenet-c", "imagenet-r"}));
  app.add_option("--suite-root", root, "folder of the suite's images (default: data.root)")
      ->needs(option);
  app.add_option("--classes", classes,
                 "file with the names of the model's classes in the order of their labels, one per "
                 "line (default: the names in the checkpoint, else the class folders of data.root, "
                 "else ImageNet's)")
      ->needs(option);
  app.add_option("--save", save,
                 "save each result of --suite to this JSON file; an existing file is continued")
      ->needs(option);
  auto* made = app.add_flag("--corrupt-on-the-fly", on_the_fly,
                            "make the images of imagenet-c from the clean images of data.root "
                            "during the evaluation, instead of reading folders");
  made->needs(option)->excludes("--suite-root");
  app.add_option(
         "--corruption", corruptions,
         "for --corrupt-on-the-fly: names separated by commas, or `all` for all 19 (default: the "
         "15 of the benchmark; for images smaller than 224 x 224, those that work at any size)")
      ->needs(made);
  add_defaulted(app, "--severity", severities,
                "for --corrupt-on-the-fly: 1 to 5, a list such as 1-5, 3 or 1,3-4")
      ->needs(made);
  add_defaulted(app, "--seed", corrupt_seed,
                "for --corrupt-on-the-fly: seed of the random corruptions")
      ->needs(made);
  add_choice(app, "--corrupt-format", corrupt_format, {"jpeg", "png"},
             "for --corrupt-on-the-fly: evaluate the images that `dtn-data corrupt` would "
             "write as jpeg (quality 85, as in ImageNet-C) or png")
      ->needs(made);
  app.add_option("--frost-dir", frost_dir,
                 "for --corrupt-on-the-fly: folder of frost images (default: generated stand-ins)")
      ->needs(made);
  app.add_flag("--no-clean", no_clean, "with --suite: do not evaluate the clean images")
      ->needs(option);
  return option;
}

int evaluate_suite(const SuiteEvaluation& e) {
  const SuiteOptions& options = e.options;
  if (e.config.model.num_classes == 0) {
    throw ConfigError("--suite needs a model with a classification head; model.num_classes is 0");
  }
  RobustnessOptions suite;
  suite.registries = &e.registries;
  suite.suite = options.suite == name_of(Suite::kImageNetC) ? Suite::kImageNetC : Suite::kImageNetR;
  suite.root = options.root.empty() ? e.config.data.root : options.root;
  suite.on_the_fly = on_the_fly(options);
  if (!suite.on_the_fly && suite.root.empty()) {
    throw ConfigError(
        cat("--suite ", options.suite, ": name the folder of its images with --suite-root"));
  }
  suite.classes = options.classes;
  suite.save = options.save;
  suite.clean = !options.no_clean;
  suite.batch_size = e.batch_size;
  suite.dtype = e.compute;
  if (e.own_crop) suite.crop_pct = e.config.data.crop_pct;
  if (!options.save.empty()) suite.weights = fingerprint_of(e.weights.tensors);
  const std::optional<RobustnessReport> report = evaluate_robustness(e.task, e.config, suite);
  if (!report) return kExitStopped;
  std::fputs(e.json ? (to_json(*report) + "\n").c_str() : to_text(*report).c_str(), stdout);
  return kExitDone;
}

}  // namespace dtn::app
