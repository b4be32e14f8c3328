#include "apps/eval/sample_evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "apps/common/json_files.h"
#include "apps/common/program.h"
#include "core/format.h"
#include "core/progress.h"
#include "data/feed/chosen_samples.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "tasks/diffusion/sample_images.h"
#include "tasks/judging/frechet.h"
#include "tasks/judging/sample_judge.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kNoiseSeed = 0;

// Results for one set of images.
struct Score {
  double agreement = 0;              // with the labels, in percent
  std::int64_t labelled = 0;         // images of the agreement
  std::optional<double> distance{};  // to the training images
  std::int64_t count = 0;            // images of the distance
};

struct Results {
  Score samples;
  std::vector<ClassAgreement> classes;
  std::optional<Score> test;  // unset: the judge has no evaluation split
  Score noise;
  std::optional<Score> other;  // of --reference-samples
  std::int64_t training_images = 0, features = 0;
};

class SampleEvaluator {
 public:
  explicit SampleEvaluator(const SampleEvaluation& e)
      : options_(e.options),
        judge_(e.judge, e.config, e.device, e.registries, e.batch),
        file_(read(e.options.samples)),
        input_(judge_.input_of(file_)) {
    if (!options_.reference_samples.empty()) other_ = read(options_.reference_samples);
  }

  Results run() {
    Results results;
    results.features = judge_.features();
    compare_with_training_images(results);
    warn_of_few(file_.labels.numel(), "samples");
    const Judgement samples = judge(file_, input_, "judging samples");
    results.samples = score_of(file_, samples);
    if (file_.has_classes()) {
      results.classes = agreement_by_class(samples, judge_.classes().count);
    } else {
      log_info(cat(file_.path, ": of a model without classes, so there is no agreement"));
    }
    results.test = score_of_test_images();
    results.noise = score_of(file_, judge_noise());
    if (other_) {
      results.other = score_of(*other_, judge(*other_, judge_.input_of(*other_), "other samples"));
      warn_of_few(results.other->count, "reference samples");
    }
    return results;
  }

  const SampleFile& file() const { return file_; }
  const SampleJudge& judge() const { return judge_; }

 private:
  SampleFile read(const std::string& path) const {
    SampleFile file = read_sample_file(path);
    match_sample_labels(judge_.classes(), file);
    return file;
  }

  Judgement judge(const SampleFile& file, const Tensor& input, const char* title) const {
    ProgressBar bar(title, input.dim(0));
    return judge_.judge(input, file.labels, [&](std::int64_t done) { bar.update(done, ""); });
  }

  Score score_of(const Judgement& judgement) const {
    return {.agreement = judgement.agreement(),
            .labelled = std::ssize(judgement.seen),
            .distance = frechet_distance(moments_of(judgement.features), training_),
            .count = judgement.features.dim(0)};
  }

  // Nothing was asked of the samples of a model without classes.
  Score score_of(const SampleFile& file, const Judgement& judgement) const {
    Score score = score_of(judgement);
    if (!file.has_classes()) score.agreement = std::numeric_limits<double>::quiet_NaN();
    return score;
  }

  void compare_with_training_images(Results& results) {
    const auto images = judge_.training_images();
    const auto drawn =
        std::make_shared<ChosenSamples>(images, draw_images(*images, options_.references));
    log_info(cat("training images: ", drawn->description()));
    ProgressBar bar("training images", drawn->size());
    const Judgement judgement =
        judge_.judge(drawn, std::nullopt, [&](std::int64_t done) { bar.update(done, ""); });
    training_ = moments_of(judgement.features);
    results.training_images = training_.count;
    warn_of_few(training_.count, "training images");
  }

  // The accuracy is that of all images, the distance that of as many as there are samples.
  std::optional<Score> score_of_test_images() const {
    const auto images = judge_.test_images();
    if (!images) {
      log_warn(
          "the judge's config has no evaluation images, so its accuracy is not known; set "
          "data.val");
      return std::nullopt;
    }
    log_info(cat("test images: ", images->description()));
    ProgressBar bar("test images", images->size());
    const Score score = score_of(judge_.judge(images, draw_images(*images, file_.labels.numel()),
                                              [&](std::int64_t done) { bar.update(done, ""); }));
    warn_of_few(score.count, "test images");
    return score;
  }

  // Normal noise, with which sampling begins, as samples that were asked for the same classes.
  Judgement judge_noise() const {
    const Tensor& like = file_.samples;
    const ImageNoise noise(kNoiseSeed, {like.dim(1), like.dim(2), like.dim(3)}, kCpu);
    const SampleFile file{.path = "noise",
                          .samples = noise.start(0, like.dim(0)),
                          .labels = file_.labels,
                          .metadata = {}};
    return judge(file, judge_.input_of(file), "noise");
  }

  void warn_of_few(std::int64_t count, const char* what) const {
    if (count > judge_.features()) return;
    log_warn(cat(count, " ", what, " are too few for the covariance of ", judge_.features(),
                 " features: the Frechet distance is too large; take more than ",
                 judge_.features()));
  }

  const SampleOptions& options_;
  SampleJudge judge_;
  SampleFile file_;
  Tensor input_;
  std::optional<SampleFile> other_;
  FeatureMoments training_;
};

// --- output -------------------------------------------------------------------------------------

Json score_json(const Score& score, const char* agreement) {
  return {{agreement, json_of(score.agreement)},
          {"frechet_distance", json_of(score.distance)},
          {"count", score.count}};
}

Json classes_json(const Results& results, const std::vector<std::string>& names) {
  Json json = Json::array();
  for (std::size_t c = 0; c < results.classes.size(); ++c) {
    const ClassAgreement& of_class = results.classes[c];
    if (of_class.count == 0) continue;
    Json& entry = json.emplace_back();
    entry = {{"label", c}};
    if (c < names.size()) entry["name"] = names[c];
    entry["count"] = of_class.count;
    entry["agreement"] =
        100.0 * static_cast<double>(of_class.hits) / static_cast<double>(of_class.count);
  }
  return json;
}

Json results_json(const Results& results, const SampleEvaluator& evaluator) {
  Json json = score_json(results.samples, "agreement");
  json["features"] = results.features;
  json["training_images"] = results.training_images;
  Json& references = json["references"];
  references["test_images"] = nullptr;
  if (results.test) {
    references["test_images"] = score_json(*results.test, "accuracy");
    references["test_images"]["accuracy_count"] = results.test->labelled;
  }
  references["noise"] = score_json(results.noise, "agreement");
  references["samples"] = nullptr;
  if (results.other) references["samples"] = score_json(*results.other, "agreement");
  json["classes"] = classes_json(results, evaluator.judge().classes().names);
  json["sampling"] = Json::object();
  for (const char* key : {"sampler", "steps", "eta", "guidance", "seed"}) {
    const auto found = evaluator.file().metadata.find(key);
    if (found != evaluator.file().metadata.end()) json["sampling"][key] = found->second;
  }
  return json;
}

void print_row(const std::string& name, const Score& score, const std::string& note) {
  const std::string agreement =
      std::isnan(score.agreement) ? "-" : format("%.2f %%", score.agreement);
  std::printf("%-17s %10s %18.4g  %s\n", name.c_str(), agreement.c_str(), *score.distance,
              note.c_str());
}

void print_text(const Results& results, const SampleOptions& options) {
  std::printf("%-17s %10s %18s\n", "", "agreement", "Frechet distance");
  print_row("samples", results.samples, counted(results.samples.count, "images"));
  if (results.test) {
    const Score& test = *results.test;
    print_row("test images", test,
              test.labelled == test.count ? counted(test.count, "images") + "; the judge's accuracy"
                                          : cat(counted(test.count, "images"),
                                                "; the judge's accuracy, on ", test.labelled));
  }
  print_row("noise", results.noise, counted(results.noise.count, "images") + " of normal noise");
  if (results.other) {
    print_row("reference samples", *results.other,
              cat(counted(results.other->count, "images"), ", ", options.reference_samples));
  }
  std::printf(
      "The distance compares the %s before the judge's head with those of %s. It depends "
      "on the judge and on the number of images: compare it only with distances of the "
      "same judge and number, such as those above.\n",
      counted(results.features, "features").c_str(),
      counted(results.training_images, "training images").c_str());
}

}  // namespace

CLI::Option* SampleOptions::add_to(CLI::App& app) {
  auto* file = app.add_option(
      "--samples", samples,
      "safetensors file of samples to judge by this classifier, as written by dtn-sample "
      "--save-samples: how many it sees as the class that was asked for, and the Frechet distance "
      "of its features from those of training images, beside the same for references; see "
      "docs/sampling.md");
  add_count(app, "--references", references,
            "with --samples: number of training images to compare with")
      ->needs(file);
  app.add_option("--reference-samples", reference_samples,
                 "with --samples: a file of other samples to judge besides, such as those of an "
                 "early checkpoint")
      ->needs(file);
  return file;
}

int evaluate_samples(const SampleEvaluation& evaluation) {
  SampleEvaluator evaluator(evaluation);
  const Results results = evaluator.run();
  if (evaluation.json) {
    std::fputs(json_text(results_json(results, evaluator)).c_str(), stdout);
  } else {
    print_text(results, evaluation.options);
  }
  return kExitDone;
}

}  // namespace dtn::app
