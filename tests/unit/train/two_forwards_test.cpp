// Two forward passes through the same weights in a step, with images of other sizes or numbers.
#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>

#include "counting_transport.h"
#include "grad_ready_recorder.h"
#include "small_run.h"
#include "train/gradient_sum.h"
#include "two_views_config.h"

namespace dtn {
namespace {

using namespace dtn::test;
using testing::CountingTransport;

constexpr double kTolerance = 1e-12;  // float64, up to a thousand additions per element

// A model in float64.
struct Model {
  std::shared_ptr<void> owner;
  ParameterStore* store;
  std::function<Variable(Context&, const Tensor& images)> forward;
};
using MakeModel = Model (*)();

Model small_net() {
  struct Net {
    ParameterStore store;
    ViewNet views{Scope(store)};
  };
  const auto net = std::make_shared<Net>();
  net->store.allocate(DType::kFloat64);
  net->store.initialize(3);
  perturb(net->store);
  return {net, &net->store, [net = net.get()](Context& ctx, const Tensor& images) {
            return net->views.forward(ctx, images);
          }};
}

// A model with a gradient of many buckets.
Model wide_classifier() {
  ModelConfig c = mean_vit();
  c.embed_dim = 320;
  c.depth = 2;
  c.drop_path = 0.3;
  const auto model = std::make_shared<Classifier>(c, 1, DType::kFloat64);
  return {model, &model->parameters(), [model = model.get()](Context& ctx, const Tensor& images) {
            return model->forward(ctx, images);
          }};
}

// Input of one forward pass.
struct View {
  Tensor images, labels;
  std::uint32_t pass;

  View rows(const std::vector<std::int64_t>& some) const {
    return {rows_of(images, some), rows_of(labels, some), pass};
  }
};
View view_of(std::int64_t n, std::int64_t size, std::uint32_t pass) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back((2 * i + pass) % 5);
  return {random_tensor({n, 2, size, size}, 60 + pass), Tensor::from(labels, {n}), pass};
}

struct How {
  bool training = false, checkpointed = false;

  std::string text() const {
    return cat(training ? "training" : "evaluating", checkpointed ? ", checkpointed" : "");
  }
  Context context() const {
    Context ctx = computing_in(DType::kFloat64);
    ctx.mode.training = training;
    ctx.mode.checkpoint_blocks = checkpointed;
    ctx.rng.seed = 6;
    return ctx;
  }
};
constexpr How kHows[] = {{false, false}, {false, true}, {true, false}, {true, true}};

// Sum of the mean losses of the views.
Variable loss_of(const Model& model, const Context& ctx, const std::vector<View>& views) {
  Variable sum;
  for (const View& view : views) {
    Context own = ctx.of_pass(view.pass);
    const Variable logits = model.forward(own, view.images);
    const Variable loss = ops::cross_entropy(own, logits, {view.labels, {}}).mean;
    sum = sum.defined() ? primitive::add(own, sum, loss) : loss;
  }
  return sum;
}

Doubles gradients(const Model& model, const How& how, const std::vector<View>& views) {
  GradReadyRecorder whole(*model.store);
  model.store->zero_gradients();
  Tape tape;
  Context ctx = how.context();
  ctx.tape = &tape;
  tape.backward(loss_of(model, ctx, views));
  whole.expect_reported_once();
  return doubles(model.store->gradients());
}

TEST(TwoForwardPasses, SumGradients) {
  const Model model = small_net();
  const View large = view_of(6, 8, 0);
  for (const View& other : {view_of(6, 4, 1), view_of(2, 8, 1), view_of(11, 4, 0), large}) {
    for (const How& how : kHows) {
      SCOPED_TRACE(cat(to_string(other.images.shape()), ", ", how.text()));
      const Doubles first = gradients(model, how, {large}), second = gradients(model, how, {other});
      Doubles sum = first;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += second[i];
      EXPECT_LE(max_abs_difference(gradients(model, how, {large, other}), sum),
                kTolerance * max_abs(sum));
      EXPECT_GT(max_abs(second), 1e-3 * max_abs(sum));
    }
  }
}

// Each rank runs its rows of the views; returns the sum of the gradients.
Doubles summed_gradients(const Model& model, const How& how, const std::vector<View>& views,
                         Communicator& ranks) {
  const std::int64_t all = views[0].images.dim(0);
  const std::vector<std::int64_t> rows = rows_of_rank(all, ranks.rank(), ranks.size());
  std::vector<View> own;
  for (const View& view : views) own.push_back(view.rows(rows));
  GradientSum sum(*model.store, ranks, DType::kFloat32);
  model.store->zero_gradients();
  Tape tape;
  Context ctx = how.context();
  ctx.tape = &tape;
  ctx.rng.rows = rows.data();
  ctx.ranks = {&ranks, all};
  const Variable loss = loss_of(model, ctx, own);
  sum.begin();
  const double weight = static_cast<double>(rows.size()) / static_cast<double>(all);
  tape.backward(loss, Tensor::full({1}, DType::kFloat64, weight));
  sum.finish(Tensor::zeros({1}, DType::kFloat32));
  return doubles(model.store->gradients());
}

void expect_same_for_ranks(MakeModel make, const std::vector<View>& views, int size) {
  using EachWay = std::vector<Doubles>;
  const auto each_way = [](const auto& run) {
    EachWay all;
    for (const How& how : kHows) all.push_back(run(how));
    return all;
  };
  const Model alone_model = make();
  const EachWay alone =
      each_way([&](const How& how) { return gradients(alone_model, how, views); });
  const auto together = on_ranks<CountingTransport>(size, [&](Communicator& ranks) {
    const Model model = make();
    return each_way([&](const How& how) { return summed_gradients(model, how, views, ranks); });
  });
  for (const EachWay& summed : together) {
    EXPECT_EQ(summed, together[0]);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      SCOPED_TRACE(cat(size, " ranks, ", kHows[i].text()));
      EXPECT_LE(max_abs_difference(summed[i], alone[i]), kTolerance * max_abs(alone[i]));
    }
  }
}

TEST(TwoForwardPasses, SumEquallyOverRanksForViewsOfOtherSizes) {
  const std::vector<View> views = {view_of(12, 8, 0), view_of(12, 4, 1)};
  for (int size : {2, 3}) expect_same_for_ranks(small_net, views, size);
}

// Gradients are incomplete, and must not be sent, until the backward passes of both views are done.
TEST(TwoForwardPasses, SumEquallyOverRanksInManyBuckets) {
  const std::vector<View> views = {view_of(4, 15, 0), view_of(4, 15, 1)};
  constexpr int kSize = 2;
  CountingTransport::exchanges = 0;
  expect_same_for_ranks(wide_classifier, views, kSize);
  // Each block fills a bucket; the patches follow at the end.
  EXPECT_GE(CountingTransport::exchanges, static_cast<int>(std::size(kHows)) * 3 * kSize);
}

// --- with a Learner -----------------------------------------------------------------------------

Fields two_views(std::int64_t n) {
  const auto values = [n](const FieldSpec& field, std::uint32_t stream) {
    std::vector<std::int64_t> extents{n};
    for (int d = 0; d < field.row.rank(); ++d) extents.push_back(field.row[d]);
    return as(random_tensor(Shape(std::span<const std::int64_t>(extents)), stream),
              DType::kFloat32);
  };
  return {
      {"large", values(kLarge, 70)}, {"small", values(kSmall, 71)}, {"words", values(kWords, 72)}};
}

// Gradient of the mean loss over the global batch.
Doubles gradient_of_step(const ExperimentConfig& config, Communicator* ranks) {
  TwoViewsTask task({config, kCpu, standard_registries()});
  perturb(*task.stores().front().value);
  Learner learner(config, task, kCpu, ranks);
  const std::int64_t n = config.train.batch_size, at_a_time = config.train.micro_batch.value_or(n);
  Fields batch = two_views(n);
  if (ranks) batch = rows_of(batch, rows_of_rank(n, ranks->rank(), ranks->size()));
  EXPECT_TRUE(learner.step(batch, 0, 1e-3).finite);
  Doubles gradient = doubles(learner.parameters().gradients());
  const std::int64_t rows = ranks ? batch.count() : n;
  const auto parts = static_cast<double>((rows + at_a_time - 1) / at_a_time);
  for (double& g : gradient) g /= parts;
  return gradient;
}

// Micro-batches split the same sums differently, as ranks do.
TEST(TwoForwardPasses, LearnerGradientMatchesOverRanks) {
  ExperimentConfig config = two_views_config();
  config.train.micro_batch.reset();
  const Doubles alone = gradient_of_step(config, nullptr);
  double yardstick = unit_roundoff(DType::kFloat32);
  for (int micro_batch : {2, 3, 4, 6}) {
    config.train.micro_batch = micro_batch;
    yardstick = std::max(yardstick, distance(gradient_of_step(config, nullptr), alone));
  }
  EXPECT_LT(yardstick, 1e-4);
  for (int size : {2, 3}) {
    for (int micro_batch : {2, 12}) {
      SCOPED_TRACE(cat(size, " ranks, micro-batches of ", micro_batch));
      config.train.micro_batch = micro_batch;
      const auto ranks =
          on_ranks(size, [&](Communicator& all) { return gradient_of_step(config, &all); });
      for (const Doubles& one : ranks) {
        EXPECT_EQ(one, ranks[0]);
        EXPECT_LE(distance(one, alone), 5 * yardstick);
      }
    }
  }
}

}  // namespace
}  // namespace dtn
