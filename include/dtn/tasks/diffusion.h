// Diffusion models (Ho, Jain and Abbeel, "Denoising diffusion probabilistic models", NeurIPS 2020):
// the model predicts the noise in a noised image from the image, the time step and the class. With
// model.learn_sigma it also predicts the variance of each step (Nichol and Dhariwal, "Improved
// denoising diffusion probabilistic models", ICML 2021). The loss is ops::diffusion_loss().
//
// Fields: "image" [C, H, W] float32, pixels in [-1, 1] or latents; "label" int64, where
// model.num_classes stands for no label; "timestep" int64 in [0, diffusion.steps); "noise" [C, H,
// W] float32. Outputs: "mse" [n] and, with a learned variance, "vb" [n] float32 of each sample.
#pragma once

#include <memory>
#include <optional>

#include "dtn/models/classifier.h"
#include "dtn/tasks/task.h"

namespace dtn {

class DiffusionProcess;
class ImageModel;

class Diffusion : public Task {
 public:
  // Throws ConfigError if the model does not give an image, or not the output that
  // model.learn_sigma says.
  explicit Diffusion(const TaskSetup&);
  ~Diffusion() override;

  std::shared_ptr<const SampleSource> source(Split, Device) const override;
  Variable loss(Context&, const Fields& batch, std::vector<Term>& logged) override;
  Fields outputs(Context&, const Fields& batch) override;
  std::unique_ptr<Meter> meter() const override;
  // diffusion.sample_count samples by DDIM, through the classes in turn. Empty if a signal arrives.
  Image picture(DType compute) override;
  // diffusion.sample_every. Unset for a model of other than 1 or 3 channels.
  std::optional<Period> picture_period() const override;
  double picture_multiply_adds() override;
  std::vector<Named<ParameterStore*>> stores() override;
  Backbone* backbone() override;
  void learn_classes(const SampleSource& training) override;
  // By load_adapted() in dtn/models/weights.h.
  std::vector<std::string> load_weights(const std::string& file, WeightsUse use) override;
  std::string description() const override;
  std::string objective() const override;
  Complexity cost() override;

  // The model, which reads the fields "image", "timestep" and "label".
  ImageModel& model() { return *model_; }
  // The process of the config, with all its steps.
  const DiffusionProcess& process() const { return *process_; }
  // True if the model also predicts the variance of each step.
  bool learned_variance() const;
  // Makes outputs() also return "output" [n, Co, H, W] float32, the output of the model.
  void keep_output() { keeps_output_ = true; }

 private:
  std::shared_ptr<const Dataset> open(Split) const;
  Variable predict(Context&, const Fields& batch, const Tensor& noisy);

  Device device_;
  ExperimentConfig config_;
  const Registries& registries_;
  Classifier network_;  // without a head
  ImageModel* model_;   // its backbone
  std::unique_ptr<DiffusionProcess> process_;
  Tensor schedule_;  // of the process, see ops::DiffusionBatch
  std::optional<ClassList> classes_;
  bool keeps_output_ = false;
};

}  // namespace dtn
