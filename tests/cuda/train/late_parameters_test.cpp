// Captured steps whose inputs change on the device: late parameters, a scheduled weight decay and
// clipping of each parameter.
#include "cuda/train/learner_history.h"

namespace dtn::test {
namespace {

constexpr int kSteps = 6;
constexpr std::int64_t kLateFrom = 4;  // the step is a replay of the graph

ExperimentConfig experiment(const std::string& optimizer) {
  ExperimentConfig c;
  c.model = paper_vit();
  c.model.norm.type = "ln";  // every parameter has a gradient
  c.train.batch_size = 4;
  c.train.micro_batch = 2;
  c.train.ema = 0.9;
  c.optim.name = optimizer;
  const OptimizerSchema& schema = optimizer_registry().at(optimizer).schema;
  if (schema.defaults) schema.defaults(c.optim);
  c.optim.clip_grad_norm.reset();
  c.optim.clip_param_norm = 0.1;
  c.seed = 3;
  return c;
}

bool is_late(const Parameter& p) { return p.head || p.name == "blocks.0.mlp.fc1.weight"; }

// Weights after each step.
struct Trained {
  std::vector<Tensor> weights;
  std::vector<double> norms;
  std::int64_t late_updates = 0;
};

Trained train(const ExperimentConfig& config, Device device) {
  Classify task(config, device);
  for (Parameter& p : task.stores().front().value->parameters()) p.late = is_late(p);
  Learner learner(config, task, device);
  learner.set_late_from(kLateFrom);
  perturb(learner.parameters());
  Fields batch = fields_on(device, labelled_images(config, 0));
  Trained trained;
  for (int i = 0; i < kSteps; ++i) {
    put(labelled_images(config, i), batch);
    learner.start_step(batch, {rate(i), 0.1 * (1 + i), static_cast<std::uint32_t>(i)});
    trained.norms.push_back(learner.finish_step().grad_norm);
    trained.weights.push_back(learner.parameters().values().to(kCpu).clone());
  }
  trained.late_updates = learner.late_updates();
  return trained;
}

// Expects that late parameters change from their first step on, and the others in each step.
void expect_late(const ExperimentConfig& config, const std::vector<Tensor>& weights) {
  Classify task(config, kCpu);
  for (const Parameter& p : task.stores().front().value->parameters()) {
    for (int i = 1; i < kSteps; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(
          same_bits(ParameterStore::view(weights[at], p), ParameterStore::view(weights[at - 1], p)),
          is_late(p) && i < kLateFrom)
          << p.name << ", step " << i;
    }
  }
}

using CudaLateParameters = CachingTest;

TEST_F(CudaLateParameters, MatchCpuInCapturedSteps) {
  for (const OptimizerEntry& row : optimizer_registry()) {
    SCOPED_TRACE(row.name());
    ExperimentConfig config = experiment(row.name());
    const Trained cpu = train(config, kCpu), gpu = train(config, kCuda);
    expect_late(config, gpu.weights);
    EXPECT_EQ(gpu.late_updates, kSteps - kLateFrom);
    EXPECT_EQ(cpu.late_updates, kSteps - kLateFrom);
    EXPECT_LE(relative_error(gpu.norms, cpu.norms), 1e-4);
    // A step by the sign of the momentum turns rounding into a whole step.
    const double bound = row.name() == "lion" ? 0.05 : 1e-4;
    EXPECT_LE(relative_error(doubles(gpu.weights.back()), doubles(cpu.weights.back())), bound);
    config.train.step_graph = false;
    EXPECT_TRUE(same_bits(train(config, kCuda).weights.back(), gpu.weights.back()));
  }
}

}  // namespace
}  // namespace dtn::test
