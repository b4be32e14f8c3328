// Supervised contrastive pre-training (Khosla et al., "Supervised contrastive learning", NeurIPS
// 2020). Views of images of the same class become similar, views of other images dissimilar.
// Without labels, the other views of an image are its only positives, as in SimCLR.
//
// Fields: "views" [V, C, S, S] float32, the normalized views of an image, and "label" [V] int64,
// its label for each of them. Evaluations read "image" [C, S, S] and "label" int64. Outputs:
// "features" [n, C] float32. The loss is dtn::ops::contrastive over all views of the global batch,
// on all ranks and in all micro-batches.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "dtn/tasks/task.h"

namespace dtn {

struct SupconNet;
class ViewPasses;
class ViewSources;

class Supcon : public Task {
 public:
  explicit Supcon(const TaskSetup&);
  ~Supcon() override;

  std::shared_ptr<const SampleSource> source(Split, Device) const override;
  bool needs_whole_batch() const override { return true; }
  bool needs_equal_shares() const override { return true; }
  void preview(Context&, const Fields& batch, std::size_t part, std::size_t parts) override;
  Variable loss(Context&, const Fields& batch, std::vector<Term>& logged) override;
  Fields outputs(Context&, const Fields& batch) override;
  std::shared_ptr<const SampleSource> references(Device) const override;
  std::unique_ptr<Meter> meter() const override;
  std::vector<Named<ParameterStore*>> stores() override;
  Backbone* backbone() override;
  void learn_classes(const SampleSource& training) override;
  // A file with backbone.* and head.* is the whole model. Any other file holds a backbone; the head
  // then stays random.
  std::vector<std::string> load_weights(const std::string& file, WeightsUse use) override;
  std::string description() const override;
  std::string objective() const override;
  Complexity cost() override;
  Complexity evaluation_cost() override;

 private:
  // Rows of unit length with their labels: [r, D] float32 and [r] int64.
  struct LabelledRows {
    Tensor rows, labels;
  };
  Variable project(Context&, const Tensor& views);
  LabelledRows of_all_ranks(const Context&, const LabelledRows& own) const;
  Tensor positions(std::int64_t first, std::int64_t count);

  Device device_;
  ExperimentConfig config_;
  const Registries& registries_;
  std::unique_ptr<SupconNet> net_;
  std::unique_ptr<ViewPasses> passes_;
  std::unique_ptr<ViewSources> sources_;
  LabelledRows whole_;          // of the global batch; undefined: not previewed
  bool labelled_ = true;        // the training images have labels
  std::size_t parts_left_ = 0;  // micro-batches that will use whole_
  // [count] int64 by (first, count). Made once, before a step is captured.
  std::map<std::pair<std::int64_t, std::int64_t>, Tensor> positions_;
};

}  // namespace dtn
