// The update of a step: clipping by parameters, the scheduled weight decay, and late parameters.
#include <algorithm>
#include <map>

#include "small_run.h"

namespace dtn {
namespace {

using namespace dtn::test;

// Plain steps against the gradient, so that a step shows the gradient.
ExperimentConfig plain_descent() {
  ExperimentConfig config = small_run("ln");
  config.optim.momentum = 0;
  config.optim.weight_decay = 0;
  config.optim.clip_grad_norm.reset();
  return config;
}

double norm_of(const Tensor& x) {
  double sum = 0;
  for (double v : doubles(x)) sum += v * v;
  return std::sqrt(sum);
}

// The sums of the gradients of the micro-batches of a step.
Tensor gradient_sums(const ExperimentConfig& config) {
  ClassifyLearner learner(config);
  perturb(learner.parameters());
  learner.add_gradients(global_batch(config, 0), 0);
  return learner.parameters().gradients().clone();
}

TEST(LearnerUpdate, ClipsMeanGradientOfEachParameter) {
  for (int parts : {1, 2}) {
    SCOPED_TRACE(cat(parts, " micro-batches"));
    ExperimentConfig config = plain_descent();
    config.train.micro_batch = config.train.batch_size / parts;
    const double scale = 1.0 / parts;
    const Tensor sums = gradient_sums(config);
    const double largest = scale * norm_of(sums);
    config.optim.clip_param_norm = 0.1 * largest;
    ClassifyLearner learner(config);
    ParameterStore& store = learner.parameters();
    perturb(store);
    const Tensor before = store.values().clone();
    const StepReport report = take_step(learner, global_batch(config, 0), 0, 1);
    EXPECT_NEAR(report.grad_norm, largest, 1e-12 * largest) << "the norm before clipping";
    int clipped = 0;
    for (const Parameter& p : store.parameters()) {
      const Tensor gradient = ParameterStore::view(sums, p);
      const double norm = scale * norm_of(gradient);
      const double factor = std::min(1.0, *config.optim.clip_param_norm / (norm + 1e-6));
      clipped += factor < 1;
      const Doubles was = doubles(ParameterStore::view(before, p)), g = doubles(gradient),
                    now = doubles(ParameterStore::view(store.values(), p));
      for (std::size_t i = 0; i < now.size(); ++i) {
        const double step = factor * scale * g[i];
        EXPECT_NEAR(now[i], was[i] - step,
                    3 * unit_roundoff(DType::kFloat32) * (std::abs(was[i]) + std::abs(step)))
            << p.name;
      }
    }
    EXPECT_GT(clipped, 1);
    EXPECT_LT(clipped, static_cast<int>(store.parameters().size()) - 1);
  }
}

// The decay of a step is that of its inputs, whatever the config says.
TEST(LearnerUpdate, TakesWeightDecayOfStep) {
  for (const char* name : {"sgd", "adamw", "lion", "lamb", "muon"}) {
    SCOPED_TRACE(name);
    const auto train = [&](double of_config, double of_step) {
      ExperimentConfig config = small_run("ln");
      use_optimizer(config, name);
      config.optim.weight_decay = of_config;
      ClassifyLearner learner(config);
      perturb(learner.parameters());
      for (std::uint32_t i = 0; i < 3; ++i) {
        learner.start_step(global_batch(config, static_cast<int>(i)), {0.01, of_step, i});
        learner.finish_step();
      }
      return outcome_of(learner);
    };
    const Outcome scheduled = train(0.1, 0.3);
    expect_same_bits(scheduled, train(0.3, 0.3));
    EXPECT_FALSE(same_bits(scheduled.weights(), train(0.1, 0.1).weights()));
  }
}

TEST(LearnerUpdate, LeavesLateParametersUntilTheirStep) {
  for (std::int64_t from : {std::int64_t{0}, std::int64_t{2}}) {
    const ExperimentConfig config = small_run("ln");
    LateHead late(config, from);
    Learner& learner = late.learner;
    perturb(learner.parameters());
    EXPECT_TRUE(learner.has_late_parameters());
    for (int i = 0; i < 4; ++i) {
      std::map<std::string, Tensor> before;
      for (const Parameter& p : learner.parameters().parameters()) {
        before[p.name] = p.variable.value().clone();
      }
      take_step(learner, global_batch(config, i), i);
      for (const Parameter& p : learner.parameters().parameters()) {
        EXPECT_EQ(same_bits(p.variable.value(), before[p.name]), p.late && i < from) << p.name;
      }
    }
    EXPECT_EQ(learner.updates(), 4);
    EXPECT_EQ(learner.late_updates(), 4 - from);
  }
}

}  // namespace
}  // namespace dtn
