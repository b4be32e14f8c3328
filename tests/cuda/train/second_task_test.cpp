// Compares steps of a task other than classification on the device with the same steps on the CPU.
// The captured step also updates the teacher, and the primitives run on the device.
#include <vector>

#include "cuda/twin.h"
#include "train/learner.h"
#include "two_views_config.h"

namespace dtn::test {
namespace {

constexpr int kSteps = 20;

Fields batch_at(const SampleSource& source, int step, std::int64_t rows) {
  Fields batch;
  for (const FieldSpec& field : source.host_fields()) {
    std::vector<std::int64_t> extents = {rows};
    for (std::int64_t extent : field.row.dims()) extents.push_back(extent);
    batch[field.name] = Tensor::zeros(Shape(std::span<const std::int64_t>(extents)), field.dtype);
    if (field.ragged) batch[lengths_of(field.name)] = Tensor::zeros({rows}, DType::kInt64);
  }
  const auto workspace = source.make_workspace();
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t index = (step * rows + i) % source.size();
    FieldRow row(batch, i);
    source.make(index, {1, static_cast<std::uint32_t>(step), static_cast<std::uint64_t>(index)},
                row, *workspace);
  }
  return batch;
}

struct History {
  std::vector<double> losses, small;
  Doubles student, teacher;
};

History train_on(Device device) {
  const Registries registries = with_two_views();
  ExperimentConfig config = two_views_config();
  config.optim.name = "sgd";  // AdamW would amplify rounding
  const auto task = make_task({config, device, registries});
  Learner learner(config, *task, device);
  const auto source = task->source(Split::kTrain, device);
  Fields fixed;  // fixed addresses, which a captured step needs
  History history;
  for (int step = 0; step < kSteps; ++step) {
    const Fields batch = batch_at(*source, step, config.train.batch_size);
    for (const auto& [name, tensor] : batch) {
      if (!fixed.has(name)) fixed[name] = Tensor::empty(tensor.shape(), tensor.dtype(), device);
      fixed.at(name).copy_from(tensor);
    }
    const StepReport report = learner.step(fixed, step, 0.05);
    history.losses.push_back(report.loss);
    history.small.push_back(report.terms.at(1).second);
  }
  history.student = doubles(task->stores()[0].value->values().to(kCpu));
  history.teacher = doubles(task->stores()[1].value->values().to(kCpu));
  return history;
}

TEST(CudaSecondTask, MatchesCpu) {
  const History host = train_on(kCpu), device = train_on(kCuda);
  for (int step = 0; step < kSteps; ++step) {
    const auto at = static_cast<std::size_t>(step);
    EXPECT_NEAR(device.losses[at], host.losses[at], 1e-4 * std::abs(host.losses[at])) << step;
    EXPECT_NEAR(device.small[at], host.small[at], 1e-4 * std::abs(host.small[at])) << step;
  }
  EXPECT_NE(host.losses.front(), host.losses.back());
  EXPECT_LT(max_abs_difference(device.student, host.student), 1e-3 * max_abs(host.student));
  EXPECT_LT(max_abs_difference(device.teacher, host.teacher), 1e-3 * max_abs(host.teacher));
  EXPECT_GT(max_abs_difference(host.student, host.teacher), 0);
}

}  // namespace
}  // namespace dtn::test
