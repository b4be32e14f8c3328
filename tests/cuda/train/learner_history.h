// Results of the optimizer steps of a learner, on the device or on the CPU.
#pragma once

#include <functional>
#include <vector>

#include "classify_learner.h"
#include "cuda/twin.h"
#include "tiny_vit.h"

namespace dtn::test {

// Allocates fields at fixed addresses, to which the samples of each step are copied.
inline Fields fields_on(Device device, const Fields& like) {
  Fields fields;
  for (const auto& [name, field] : like) {
    fields[name] = Tensor::empty(field.shape(), field.dtype(), device);
  }
  return fields;
}
inline void put(const Fields& from, Fields& to) {
  for (const auto& [name, field] : from) to.at(name).copy_from(field);
}

// Random images with labels: the batch of a step.
inline Fields labelled_images(const ExperimentConfig& c, int step) {
  const std::int64_t n = c.train.batch_size;
  const Tensor images =
      as(random_tensor({n, c.model.channels, c.model.image_size.height, c.model.image_size.width},
                       static_cast<std::uint32_t>(100 + step)),
         DType::kFloat32);
  Tensor labels = Tensor::empty({n}, DType::kInt64);
  for (std::int64_t i = 0; i < n; ++i) {
    labels.data<std::int64_t>()[i] = (i + step) % c.model.num_classes;
  }
  return {{"image", images}, {"label", labels}};
}

inline double rate(int step) { return 1e-3 * (1 + step % 5); }

struct History {
  std::vector<double> losses, norms;
  Tensor weights, average;
  std::int64_t updates = 0;
};

// Runs steps as the trainer does: the next step starts before the last report is read, and the
// buffers stay at fixed addresses. The config must have an average of the weights.
inline History train_on(const std::function<Fields(int step)>& samples,
                        const ExperimentConfig& config, Device device, int steps) {
  ClassifyLearner learner(config, device);
  perturb(learner.parameters());
  learner.average()->values().copy_from(learner.parameters().values());
  History history;
  auto take = [&] {
    StepReport report = learner.finish_step();
    history.losses.push_back(report.loss);
    history.norms.push_back(report.grad_norm);
    EXPECT_TRUE(report.finite);
    EXPECT_EQ(report.idle_seconds.has_value(), device != kCpu);
  };
  Fields batch = fields_on(device, samples(0));
  for (int i = 0; i < steps; ++i) {
    put(samples(i), batch);
    learner.start_step(batch, i, rate(i));
    if (learner.unfinished() == Learner::kInFlight) take();
  }
  while (learner.unfinished()) take();
  history.weights = learner.parameters().values().to(kCpu).clone();
  history.average = learner.average()->values().to(kCpu).clone();
  history.updates = learner.updates();
  return history;
}

inline void expect_same_bits(const History& a, const History& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_TRUE(same_bits(a.weights, b.weights));
  EXPECT_TRUE(same_bits(a.average, b.average));
}

// Enables the caching allocator, which graphs need.
class CachingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    DTN_SKIP_WITHOUT_DEVICE();
    cuda::set_caching(true);
  }
};

}  // namespace dtn::test
