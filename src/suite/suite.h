// Robustness suites: the accuracy of a model on ImageNet-C (common corruptions) and on ImageNet-R
// (renditions of 200 classes), beside that on the clean images. docs/robustness.md says what is
// measured and how.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/corrupt/chain.h"
#include "dtn/config/train_config.h"
#include "dtn/core/dtype.h"
#include "dtn/data/registries.h"
#include "dtn/io/safetensors.h"
#include "dtn/tasks/classify.h"

namespace dtn {

enum class Suite { kImageNetC, kImageNetR };
const char* name_of(Suite suite);  // "imagenet-c", "imagenet-r"

// ImageNet-C made while it is evaluated, from the validation images of the config's data set.
struct CorruptOnTheFly {
  // Empty: the 15 of the benchmark; where the images are smaller than 224 x 224, which ImageNet-C's
  // are not, those that know no image size.
  std::vector<const Corruption*> corruptions;
  std::vector<int> severities = {1, 2, 3, 4, 5};
  std::uint64_t seed = 0;
  // As which `dtn-data corrupt` would save them. Small images are not compressed again in any case.
  CorruptFormat format = CorruptFormat::kJpeg;
  std::string frost_dir;  // empty: the stand-in
};

struct SuiteOptions {
  Suite suite = Suite::kImageNetC;
  // ImageNet-C: <root>/<corruption>/<severity>/<class>/**, where corruptions may lie one folder
  // deeper, in blur/, noise/, ... ImageNet-R: <root>/<class>/**.
  std::filesystem::path root;
  std::optional<CorruptOnTheFly> on_the_fly;  // in place of the root
  // A text file that names the model's classes in the order of their labels, one per line. Empty:
  // the names are those of the checkpoint; if it has none, those of the config's data set, if it
  // has as many as the model; else ImageNet's own, if the model has 1000 and all folders are among
  // them; else those of the folders, if there are as many.
  std::filesystem::path classes;
  // Keeps what is finished, and goes on behind it. Empty: nothing is kept.
  std::filesystem::path save;
  bool clean = true;  // evaluates the config's validation images too, if they are there
  std::int64_t batch_size = 64;
  DType dtype = DType::kFloat32;
  // Of the suite's images. Unset: the config's; for ImageNet-C, whose images have been cropped
  // before, 1.
  std::optional<double> crop_pct;
  std::string weights;  // what tells the weights apart, from fingerprint_of() of models/weights.h
  const DataRegistries* registries = &data_registries();  // what the config may name
};

struct Accuracy {
  double top1 = 0, top5 = 0;  // percent
  double loss = 0;            // mean cross-entropy
  std::int64_t count = 0;     // images, each weighted alike
  double seconds = 0;
};

// What one folder of images gave.
struct SuiteScore {
  Accuracy result;
  std::int64_t bad_images = 0;  // damaged ones, which result.count leaves out
  std::string images;           // tells the images apart; empty where nothing is kept
  bool stand_in = false;        // frost whose textures are made by code
  double error() const { return 100 - result.top1; }  // percent
};

// What results depend on beside the images. Two that are equal may be mixed.
struct SuiteSettings {
  std::string weights, model, classes;  // fingerprints
  std::string precision;
  double crop_pct = 1, clean_crop_pct = 1;
  Interpolation interpolation = Interpolation::kBicubic;
  Resample resample = Resample::kPillow13;
  std::vector<float> mean, std;
};

struct SuiteReport {
  Suite suite = Suite::kImageNetC;
  SuiteSettings settings;
  std::int64_t num_classes = 0;  // told apart
  // The images are smaller than ImageNet-C's: there is no CE then, which compares with AlexNet.
  bool small_images = false;
  bool complete = false;  // there is a score of every folder that was asked for
  // By name: "gaussian_noise/3" for a corruption and its severity, "renditions" for ImageNet-R,
  // "clean".
  std::map<std::string, SuiteScore> scores;
};

// Evaluates the model of `task`, whose config is `config`, on whatever part of the suite is there. Progress
// goes to standard error. Nothing when SIGINT or SIGTERM stopped it. Throws DataError when the
// folders are not what they should be, and ConfigError when `save` holds something else.
std::optional<SuiteReport> run_suite(Classify& task, const ExperimentConfig& config,
                                     const SuiteOptions& options);

// All images but the clean ones and those of the corruptions outside the benchmark, each weighted
// alike.
Accuracy overall(const SuiteReport& report);

// The report as a JSON object, and as text for people.
std::string to_json(const SuiteReport& report, int indent = -1);
std::string to_text(const SuiteReport& report);

}  // namespace dtn
