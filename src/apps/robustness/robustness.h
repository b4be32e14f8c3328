// Robustness suites: the accuracy of a model on ImageNet-C (common corruptions) and on ImageNet-R
// (renditions of 200 classes), besides its accuracy on the clean images. docs/robustness.md
// describes the measurements.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/corrupt/corruption_io.h"
#include "dtn/config/train_config.h"
#include "dtn/core/dtype.h"
#include "dtn/data/registries.h"
#include "dtn/io/safetensors.h"
#include "dtn/tasks/classify.h"

namespace dtn {

enum class Suite { kImageNetC, kImageNetR };
const char* name_of(Suite suite);  // "imagenet-c", "imagenet-r"

// ImageNet-C generated during the evaluation, from the validation images of the config's data set.
struct CorruptOnTheFly {
  // Empty: the 15 corruptions of the benchmark. For images smaller than 224 x 224, which is the
  // size in ImageNet-C: the corruptions that work for any image size.
  std::vector<const Corruption*> corruptions;
  std::vector<int> severities = {1, 2, 3, 4, 5};
  std::uint64_t seed = 0;
  // Format in which `dtn-data corrupt` would save the images. Small images are never recompressed.
  CorruptFormat format = CorruptFormat::kJpeg;
  std::string frost_dir;  // folder of frost images; empty: the stand-in
};

struct RobustnessOptions {
  Suite suite = Suite::kImageNetC;
  // ImageNet-C: <root>/<corruption>/<severity>/<class>/**; corruptions may also be one folder
  // deeper, in blur/, noise/, ... ImageNet-R: <root>/<class>/**.
  std::filesystem::path root;
  std::optional<CorruptOnTheFly> on_the_fly;  // replaces `root`
  // A text file with the names of the model's classes in label order, one per line. If empty, the
  // names are the first of these that applies: those of the checkpoint; those of the config's data
  // set, if it has as many classes as the model; ImageNet's names, if the model has 1000 classes
  // and all folders are among them; the names of the folders, if there are as many as classes.
  std::filesystem::path classes;
  // File with the finished results, from which a later call resumes. Empty: results are not saved.
  std::filesystem::path save;
  bool clean = true;  // also evaluate the config's validation images, if they exist
  std::int64_t batch_size = 64;
  DType dtype = DType::kFloat32;
  // Crop of the suite's images. Unset: 1 for ImageNet-C, whose images are already cropped;
  // otherwise the config's value.
  std::optional<double> crop_pct;
  std::string weights;  // fingerprint of the weights, by fingerprint_of() in models/weights.h
  const DataRegistries* registries = &data_registries();  // data sets that the config may name
};

struct Accuracy {
  double top1 = 0, top5 = 0;  // percent
  double loss = 0;            // mean cross-entropy
  std::int64_t count = 0;     // images, all with equal weight
  double seconds = 0;
};

// Result for one folder of images.
struct RobustnessScore {
  Accuracy result;
  std::int64_t bad_images = 0;  // damaged images, not in result.count
  std::string images;           // fingerprint of the images; empty if results are not saved
  bool stand_in = false;        // frost with generated textures
  double error() const { return 100 - result.top1; }  // percent
};

// All inputs of a result besides the images. Results with equal settings may be combined.
struct RobustnessSettings {
  std::string weights, model, classes;  // fingerprints
  std::string precision;
  double crop_pct = 1, clean_crop_pct = 1;
  Interpolation interpolation = Interpolation::kBicubic;
  Resample resample = Resample::kPillow13;
  std::vector<float> mean, std;
};

struct RobustnessReport {
  Suite suite = Suite::kImageNetC;
  RobustnessSettings settings;
  std::int64_t num_classes = 0;  // number of classes to choose from
  // The images are smaller than ImageNet-C's. CE compares with AlexNet, so it does not exist then.
  bool small_images = false;
  bool complete = false;  // every requested folder has a score
  // Scores by name: "gaussian_noise/3" for a corruption and its severity, "renditions" for
  // ImageNet-R, "clean".
  std::map<std::string, RobustnessScore> scores;
};

// Evaluates the model of `task`, whose config is `config`, on all parts of the suite that exist.
// Reports progress on standard error. Returns nothing if SIGINT or SIGTERM stopped it. Throws
// DataError if the folders have a wrong structure, and ConfigError if `save` holds something else.
std::optional<RobustnessReport> evaluate_robustness(Classify& task, const ExperimentConfig& config,
                                                    const RobustnessOptions& options);

// Accuracy over all images with equal weight, without the clean images and without corruptions
// outside the benchmark.
Accuracy overall(const RobustnessReport& report);

// Formats the report as a JSON object, and as text for people.
std::string to_json(const RobustnessReport& report, int indent = -1);
std::string to_text(const RobustnessReport& report);

}  // namespace dtn
