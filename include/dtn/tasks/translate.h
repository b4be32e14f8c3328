// Image-to-image models: the model computes an image from an image and, if its normalizers read a
// condition, from that (see dtn/config/condition_field.h). It learns from pairs, for restoration or
// for the imitation of a style. The loss is ops::pixel_loss().
//
// Fields: "input" [Ci, H, W] and "target" [Co, H, W] float32 with pixels in [0, 1], and those of
// condition_fields(). Outputs: "output" [n, Co, H, W] float32, not clamped.
#pragma once

#include <memory>
#include <optional>

#include "dtn/models/classifier.h"
#include "dtn/tasks/task.h"

namespace dtn {

class ImageModel;

class Translate : public Task {
 public:
  // Throws ConfigError if the model does not give an image.
  explicit Translate(const TaskSetup&);
  ~Translate() override;

  std::shared_ptr<const SampleSource> source(Split, Device) const override;
  Variable loss(Context&, const Fields& batch, std::vector<Term>& logged) override;
  Fields outputs(Context&, const Fields& batch) override;
  std::unique_ptr<Meter> meter() const override;
  // Outputs that are less like the targets than the inputs are, in the second half of a run.
  std::optional<TaskWarning> evaluation_warning(const Metrics&, std::int64_t step,
                                                const RunLength&) const override;
  // Rows of input, output and target for eight samples of the validation split.
  Image picture(DType compute) override;
  // With every evaluation.
  std::optional<Period> picture_period() const override;
  double picture_multiply_adds() override;
  std::vector<Named<ParameterStore*>> stores() override;
  Backbone* backbone() override;
  // By load_adapted() in dtn/models/weights.h.
  std::vector<std::string> load_weights(const std::string& file, WeightsUse use) override;
  std::string description() const override;
  std::string objective() const override;
  Complexity cost() override;

  // The model, which reads the fields "input" and those of condition_fields().
  ImageModel& model() { return *model_; }

 private:
  Device device_;
  ExperimentConfig config_;
  const Registries& registries_;
  Classifier network_;  // without a head
  ImageModel* model_;   // its backbone
  // Fields of the samples of picture(), once it has been called; empty: there are none.
  std::optional<Fields> shown_;
};

}  // namespace dtn
