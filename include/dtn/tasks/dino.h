// Self-distillation without labels, DINO (Caron et al., "Emerging properties in self-supervised
// vision transformers", ICCV 2021). A student learns to predict the outputs of a teacher for other
// views of the same image. The teacher is the moving average of the student.
//
// Fields: "global" [2, C, S, S] and, unless dino.local_crops is 0, "local" [L, C, s, s] float32,
// the normalized views of an image. Evaluations read "image" [C, S, S] and "label" int64. Outputs:
// "features" [n, C] float32 of the teacher.
//
// With samples i < n, views a, b < V = 2 + L, teacher outputs t, student outputs s and center c:
//     q_a = softmax((t_a - c) / teacher_temp)      for the two global views
//     p_b = softmax(s_b / student_temp)            for all views
//     loss = mean over i and the pairs a != b of -sum_k q_ak log p_bk
//     c <- m c + (1 - m) mean of t                 after the loss
//     teacher <- m' teacher + (1 - m') student     after the update
#pragma once

#include <memory>

#include "dtn/tasks/task.h"

namespace dtn {

struct DinoNet;
class ViewPasses;
class ViewSources;

class Dino : public Task {
 public:
  // Throws ConfigError if the model cannot process views of dino.local_size.
  explicit Dino(const TaskSetup&);
  ~Dino() override;

  std::shared_ptr<const SampleSource> source(Split, Device) const override;
  Variable loss(Context&, const Fields& batch, std::vector<Term>& logged) override;
  std::vector<Named<double>> scheduled(std::int64_t step, const RunLength& run) const override;
  void use_scheduled(const double* values) override { scheduled_ = values; }
  std::int64_t late_from(const RunLength& run) const override;
  std::optional<TaskWarning> warning(const std::vector<Named<double>>& means, std::int64_t step,
                                     const RunLength& run) const override;
  Fields outputs(Context&, const Fields& batch) override;
  std::shared_ptr<const SampleSource> references(Device) const override;
  std::unique_ptr<Meter> meter() const override;
  void after_update(const UpdateState* state) override;
  std::vector<Named<ParameterStore*>> stores() override;
  ParameterStore* averaged() override;
  Backbone* backbone() override;
  // A file with backbone.* and head.* starts student and teacher, or is the teacher that is
  // evaluated. A file with student.*, teacher.* and dino_loss.center starts each from its own
  // tensors. Any other file holds a backbone; the head then stays random.
  std::vector<std::string> load_weights(const std::string& file, WeightsUse use) override;
  // Resets the heads of both networks to the same values, and the center to 0.
  void reset_head(std::uint64_t seed) override;
  std::string description() const override;
  std::string objective() const override;
  Complexity cost() override;
  Complexity evaluation_cost() override;

 private:
  Tensor teacher_logits(Context&, const Tensor& global);
  Variable student_logits(Context&, const Fields& batch);
  double center_share(const Context&, std::int64_t samples) const;
  void copy_student();
  std::vector<std::string> load_to_train(const TensorFile& weights, const std::string& file);
  std::string load_center(NamedTensors& others, bool fits, const std::string& file);

  Device device_;
  ExperimentConfig config_;
  const Registries& registries_;
  std::unique_ptr<DinoNet> student_, teacher_;
  ParameterStore state_;  // of the buffer dino.center [1, K]
  Buffer* center_;
  std::unique_ptr<ViewPasses> passes_;
  std::unique_ptr<ViewSources> sources_;
  const double* scheduled_ = nullptr;  // teacher_momentum, teacher_temp
};

}  // namespace dtn
