// A classifier as the judge of samples: the class that it sees in each image, and the features
// before its head.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "dtn/config/train_config.h"
#include "dtn/data/sample_source.h"
#include "dtn/tasks/classify.h"
#include "tasks/judging/sample_file.h"

namespace dtn {

// Images as the judge sees them.
struct Judgement {
  Tensor features;                    // [kept, F] float32: of all images, or of the kept ones
  std::vector<std::int64_t> seen;     // top-1 class of each image; -1: the logits are not finite
  std::vector<std::int64_t> labels;   // asked or true class of each image
  std::vector<std::int64_t> indices;  // of each image; damaged ones are left out

  // Share of the images whose class is their label, in percent. NaN without images.
  double agreement() const;
};

// Images of one class, and how many of them are seen as that class.
struct ClassAgreement {
  std::int64_t count = 0, hits = 0;
};
// Returns the counts of each of `classes` classes.
std::vector<ClassAgreement> agreement_by_class(const Judgement& judgement, std::int64_t classes);

// Called with the number of judged images.
using JudgeProgress = std::function<void(std::int64_t done)>;

class SampleJudge {
 public:
  // `task`: the classifier, with its weights; `config`: its config. Computes in float32, `batch`
  // images at a time. Throws ConfigError if the classifier has no head or does not read images.
  SampleJudge(Classify& task, const ExperimentConfig& config, Device device,
              const Registries& registries, std::int64_t batch);

  // Number of features, F.
  std::int64_t features() const;
  const ClassList& classes() const { return *task_.classes(); }

  // Returns samples [N, C, H, W] in [-1, 1] as the judge's input: limited to [-1, 1], mapped to
  // [0, 1], and normalized like its training images. A judge of tensors without data.mean reads
  // them unchanged. Throws DataError if the judge reads images of another size or with other
  // channels.
  Tensor input_of(const SampleFile& file) const;
  // True if input_of() returns the samples unchanged.
  bool reads_unchanged() const;

  // Judges the judge's own input, [N, C, H, W], with the labels [N] that were asked for.
  Judgement judge(const Tensor& input, const Tensor& labels, const JudgeProgress& progress) const;
  // Judges labelled images of a data set, in order. `kept`: the images whose features are kept, in
  // ascending order; unset: all.
  Judgement judge(const std::shared_ptr<const SampleSource>& images,
                  const std::optional<std::vector<std::int64_t>>& kept,
                  const JudgeProgress& progress) const;

  // The training images of the judge's config, prepared as for evaluation.
  std::shared_ptr<const SampleSource> training_images() const;
  // The images of its evaluation split, labelled by its classes. Null if there are none.
  std::shared_ptr<const SampleSource> test_images() const;

 private:
  Fields outputs_of(const Tensor& images) const;

  Classify& task_;
  const ExperimentConfig& config_;
  Device device_;
  const Registries& registries_;
  std::int64_t batch_;
};

// Returns the indices of `count` images of a data set, drawn over its classes (see
// draw_over_classes.h), in ascending order; all, if it has no more.
std::vector<std::int64_t> draw_images(const SampleSource& images, std::int64_t count);

}  // namespace dtn
