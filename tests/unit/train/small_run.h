// A run small enough for unit tests, and its batches on ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "classify_learner.h"
#include "data/feed/epoch_plan.h"
#include "thread_ranks.h"
#include "tiny_vit.h"

namespace dtn::test {

// Uses every feature of a step except mixing, which is in the labels.
inline ExperimentConfig small_run(const std::string& norm, int batch_size = 12) {
  ExperimentConfig c;
  c.model = paper_vit();
  c.model.norm.type = norm;
  c.model.drop_path = 0.3;
  c.model.dropout = 0.1;
  c.optim.name = "sgd";  // AdamW would hide the size of a gradient
  c.optim.clip_grad_norm = 1.0;
  c.train.batch_size = batch_size;
  c.train.label_smoothing = 0.1;
  c.train.ema = 0.9;
  c.seed = 3;
  return c;
}

// Sets the optimizer and its defaults, like a config that names it.
inline void use_optimizer(ExperimentConfig& c, const std::string& name) {
  c.optim.name = name;
  const OptimizerSchema& schema = optimizer_registry().at(name).schema;
  if (schema.defaults) schema.defaults(c.optim);
}

// The given rows of a global batch.
inline Tensor rows_of(const Tensor& x, const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> extents{static_cast<std::int64_t>(rows.size())};
  for (int d = 1; d < x.rank(); ++d) extents.push_back(x.dim(d));
  Tensor some = Tensor::empty(Shape(std::span<const std::int64_t>(extents)), x.dtype());
  std::int64_t to = 0;
  for (std::int64_t row : rows) {
    some.slice(to, to + 1).copy_from(x.slice(row, row + 1));
    ++to;
  }
  return some;
}

inline Fields rows_of(const Fields& batch, const std::vector<std::int64_t>& rows) {
  Fields some;
  for (const auto& [name, field] : batch) some[name] = rows_of(field, rows);
  return some;
}

// A batch of mixed images.
inline Fields global_batch(const ExperimentConfig& c, int step) {
  const std::int64_t n = c.train.batch_size;
  const ModelConfig& m = c.model;
  Tensor own = Tensor::empty({n}, DType::kInt64), partner = Tensor::empty({n}, DType::kInt64);
  Tensor share = Tensor::empty({n}, DType::kFloat32);
  for (std::int64_t i = 0; i < n; ++i) {
    own.data<std::int64_t>()[i] = (i + step) % m.num_classes;
    partner.data<std::int64_t>()[i] = (n - 1 - i + step) % m.num_classes;
    share.data<float>()[i] = 1 / static_cast<float>(1 + i % 4 + step % 3);
  }
  const Tensor images = as(random_tensor({n, m.channels, m.image_size.height, m.image_size.width},
                                         static_cast<std::uint32_t>(100 + step)),
                           DType::kFloat32);
  return {{"image", images}, {"label", own}, {"partner_label", partner}, {"label_share", share}};
}

// A rank's rows of the global batch; all rows if `ranks` is null.
inline Fields batch_of(const ExperimentConfig& c, int step, const Communicator* ranks) {
  const Fields all = global_batch(c, step);
  if (!ranks) return all;
  return rows_of(all, rows_of_rank(c.train.batch_size, ranks->rank(), ranks->size()));
}

// A task whose head is late, and its learner.
struct LateHead {
  explicit LateHead(const ExperimentConfig& config, std::int64_t late_from = 2)
      : task(marked(config)), learner(config, *task) {
    learner.set_late_from(late_from);
  }
  static std::unique_ptr<Classify> marked(const ExperimentConfig& config) {
    auto task = std::make_unique<Classify>(config, kCpu);
    for (Parameter& p : task->stores().front().value->parameters()) p.late = p.head;
    return task;
  }
  std::unique_ptr<Classify> task;
  Learner learner;
};

inline StepReport take_step(Learner& learner, const Fields& batch, int step, double lr = 0.1) {
  return learner.step(batch, step, lr);
}

// Results of steps.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<Tensor> tensors;  // weights with buffers, average, moments
  std::int64_t updates = 0;

  const Tensor& weights() const { return tensors.front(); }
  const Tensor& average() const { return tensors[1]; }
};

inline Outcome outcome_of(Learner& learner) {
  Outcome o;
  o.tensors.push_back(learner.parameters().values().clone());
  if (learner.average()) o.tensors.push_back(learner.average()->values().clone());
  for (const auto& [name, moments] : learner.optimizer().state()) {
    o.tensors.push_back(moments.clone());
  }
  o.updates = learner.updates();
  return o;
}

inline void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(a.updates, b.updates);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_TRUE(same_bits(a.tensors[i], b.tensors[i])) << "tensor " << i;
  }
}

// |a - b| / |b|
inline double distance(const Doubles& a, const Doubles& b) {
  double apart = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    apart += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(apart / norm);
}
inline double distance(const Tensor& a, const Tensor& b) {
  return distance(doubles(a), doubles(b));
}

// Runs `body` on ranks with one computing thread each. Returns the results in rank order.
template <class Transport = testing::ThreadTransport, class Body>
auto on_ranks(int size, Body&& body) {
  using Result = decltype(body(std::declval<Communicator&>()));
  std::vector<std::optional<Result>> results(static_cast<std::size_t>(size));
  testing::with_ranks<Transport>(size, [&](Communicator& ranks) {
    const Threads one(1);
    results[static_cast<std::size_t>(ranks.rank())] = body(ranks);
  });
  std::vector<Result> all;
  for (auto& result : results) all.push_back(std::move(result.value()));
  return all;
}

}  // namespace dtn::test
