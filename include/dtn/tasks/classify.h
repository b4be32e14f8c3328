// Image classification: softmax cross-entropy, focal loss or binary cross-entropy, with label
// smoothing, on plain labels or on those of mixed images. The first two may have class weights.
// With `distill`, a part of the loss compares with a teacher's outputs for the same images.
// Evaluations measure top-1 and top-5 accuracy.
//
// Fields: "image" [C, H, W] float32, "label" int64; with mixing "partner_label" int64 and
// "label_share" float32. Outputs: "logits" [n, K] float32.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dtn/data/dataset.h"
#include "dtn/models/classifier.h"
#include "dtn/tasks/task.h"

namespace dtn {

class Communicator;
class Teacher;
class SoftmaxLoss;

class Classify : public Task {
 public:
  explicit Classify(const TaskSetup&);
  // With the models and normalizers of the library.
  explicit Classify(const ExperimentConfig& config, Device device = kCpu);
  ~Classify() override;

  std::shared_ptr<const SampleSource> source(Split, Device) const override;
  Variable loss(Context&, const Fields& batch, std::vector<Term>& logged) override;
  bool needs_whole_batch() const override;
  void preview(Context&, const Fields& batch, std::size_t part, std::size_t parts) override;
  void prepare_training(DType compute) override;
  std::int64_t other_parameters() const override;
  ExperimentConfig checkpoint_config(const ExperimentConfig& config) const override;
  Fields outputs(Context&, const Fields& batch) override;
  std::unique_ptr<Meter> meter() const override;
  std::vector<Named<ParameterStore*>> stores() override;
  Backbone* backbone() override { return &model_.backbone(); }
  // Also finds the class weights. Throws ConfigError or DataError if a class has no weight.
  void learn_classes(const SampleSource& training) override;
  // For training, rows of the file's head go to the classes of the same names (see
  // learn_classes()), unless model.init_head is reset. For evaluation, the file determines the
  // classes, and source() labels its samples by them from then on.
  std::vector<std::string> load_weights(const std::string& file, WeightsUse use) override;
  std::string description() const override;
  std::string objective() const override;
  Complexity cost() override;

  Classifier& model() { return model_; }
  // The classes of the outputs; null until learn_classes() or load_weights() for evaluation.
  const std::optional<ClassList>& classes() const { return classes_; }
  // Makes outputs() return "features" [n, C] float32 too: the input of the head.
  void keep_features() { keeps_features_ = true; }

 protected:
  // Opens a split. Once the classes are known, its labels are theirs.
  virtual std::shared_ptr<const Dataset> open(Split) const;
  const ExperimentConfig& config() const { return config_; }
  const Registries& registries() const { return registries_; }

 private:
  Variable loss_of(Context&, const Variable& logits, const Fields& batch);
  std::string teaching() const;
  Variable loss_with_teacher(Context&, const Fields& batch, std::vector<Term>& logged);

  std::vector<std::string> load_to_train(const TensorFile& weights, const std::string& file);

  Device device_;
  ExperimentConfig config_;
  const Registries& registries_;
  Classifier model_;
  std::optional<ClassList> classes_;
  bool keeps_features_ = false;
  std::unique_ptr<SoftmaxLoss> softmax_loss_;
  std::unique_ptr<Teacher> teacher_;  // if the config names one, after prepare_training()
};

// Top-1 and top-5 accuracy in percent, and `loss`, the mean cross-entropy without label smoothing.
// A label is among the top k if fewer than k other classes score at least as high (equal scores are
// ordered by class); a NaN is never a hit. With label sets, also `top1_<set>`, the top-1 of the
// samples of each. Reads "label" [n] int64 and, if samples have positions in a data set, "index"
// [n] int64. Losses are added in the order of those positions.
class AccuracyMeter : public Meter {
 public:
  // Unless `classes` is empty, accuracy is measured among these classes only: the other logits are
  // dropped. `classes` is ascending, and every label must be one of them.
  explicit AccuracyMeter(std::vector<std::int64_t> classes = {}, std::vector<LabelRange> sets = {});

  void add(const Fields& batch, const Fields& outputs) override;
  void merge(Communicator& ranks) override;
  Metrics result() const override;

 private:
  struct Loss {
    std::int64_t index;
    float value;
  };
  void count_hits(const float* logits, std::int64_t classes, std::int64_t label);
  void count_in_set(std::int64_t label, bool hit);

  // The samples and hits of a label set.
  struct SetHits {
    std::int64_t samples = 0, top1 = 0;
  };

  std::vector<std::int64_t> classes_;
  std::vector<LabelRange> sets_;
  std::vector<SetHits> set_hits_;
  std::int64_t top1_ = 0, top5_ = 0;
  std::vector<Loss> losses_;
};

// The columns `classes` of logits [n, K] float32: [n, classes.size()].
Tensor logits_of(const Tensor& logits, std::span<const std::int64_t> classes);
// labels [n] int64 as positions in `classes`.
Tensor labels_among(const Tensor& labels, std::span<const std::int64_t> classes);

// Logits [n, K] float32, on the host, of images [n, channels, size, size], on any device.
Tensor predict(Classifier& model, const Tensor& images, DType dtype = DType::kFloat32);

}  // namespace dtn
