// A task very different from classification. A student learns from a teacher that follows the
// student, on two views of different size, and there is a ragged field. The task uses only the
// interface that programs have.
#pragma once

#include "dtn/core/philox.h"
#include "dtn/dist/communicator.h"
#include "dtn/nn/block.h"
#include "dtn/nn/patch_embed.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "dtn/optim/optimizer.h"
#include "dtn/tasks/registries.h"
#include "tiny_vit.h"

namespace dtn::test {

inline const FieldSpec kLarge{"large", {2, 8, 8}}, kSmall{"small", {2, 4, 4}};
inline const FieldSpec kWords{"words", {5, 3}, DType::kFloat32, true};

class TwoViewsSource : public SampleSource {
 public:
  std::int64_t size() const override { return 48; }
  const std::string& description() const override { return description_; }
  std::vector<FieldSpec> host_fields() const override { return {kLarge, kSmall, kWords}; }
  void make(std::int64_t index, const SampleKey& key, FieldRow& row, Workspace&) const override {
    const PhiloxKey random{key.seed, static_cast<std::uint32_t>(key.sample), key.epoch};
    std::uint64_t next = 0;
    for (std::span<float> values : {row.at<float>("large"), row.at<float>("small"),
                                    row.ragged<float>("words", 1 + index % 5)}) {
      for (float& v : values) v = philox_uniform(random, next++) - 0.5f;
    }
  }

 private:
  std::string description_ = "48 pairs of views";
};

// Student or teacher: one block with DTN, on grids of 4 x 4 and of 2 x 2 tokens.
struct ViewNet {
  explicit ViewNet(const Scope& scope)
      : patches(scope / "patch_embed", {.channels = 2, .patch = 2, .width = 8}),
        block(scope / "block", {.attention = {.channels = 8, .heads = 2, .dropout = 0.1},
                                .mlp = {.channels = 8, .hidden = 16},
                                .norm = NormConfig{.type = "dtn"},
                                .norm_shape = {8, 2, 1e-5},
                                .drop_path = 0.2}),
        head(scope / "head", 8, 5),
        words(scope / "words", 3, 1, {.bias = false}) {}

  Variable forward(Context& ctx, const Tensor& images) const {
    const Tokens tokens = patches.forward(ctx, images);
    ResidualStream stream(tokens.x);
    stream.run(ctx, [this, grid = tokens.grid](Context& inner, ResidualStream& part) {
      block.forward(inner, part, grid);
    });
    return head.forward(ctx, ops::mean_token(ctx, stream.sum(ctx)));
  }

  PatchEmbed patches;
  Block block;
  Linear head, words;
};

// Total score of the words, instead of an accuracy: a meter that reads lengths.
class WordMeter : public Meter {
 public:
  void add(const Fields& batch, const Fields& outputs) override {
    for (std::int64_t n : batch.at(lengths_of("words")).values<std::int64_t>()) words_ += n;
    for (float v : outputs.at("score").values<float>()) sum_ += v;
  }
  void merge(Communicator& ranks) override { words_ = ranks.sum(words_); }
  Metrics result() const override {
    return {.values = {{"score", sum_}, {"words", static_cast<double>(words_)}},
            .primary = "score",
            .higher_is_better = false,
            .text = cat("score ", sum_)};
  }

 private:
  double sum_ = 0;
  std::int64_t words_ = 0;
};

class TwoViewsTask : public Task {
 public:
  explicit TwoViewsTask(const TaskSetup& setup)
      : student_net_(Scope(student_)), teacher_net_(Scope(teacher_)) {
    for (ParameterStore* store : {&student_, &teacher_}) {
      store->allocate(DType::kFloat32, setup.device);
      store->initialize(setup.config.seed);
      perturb(*store);
    }
  }
  std::shared_ptr<const SampleSource> source(Split, Device) const override {
    return std::make_shared<TwoViewsSource>();
  }
  Variable loss(Context& ctx, const Fields& batch, std::vector<Term>& logged) override {
    Context watching = ctx.of_pass(2);
    watching.tape = nullptr;
    watching.mode.training = false;
    const Tensor target =
        primitive::softmax(watching, teacher_net_.forward(watching, batch.at("large"))).value();
    const auto learn = [&](std::uint32_t pass, const char* view) {
      Context own = ctx.of_pass(pass);
      return ops::cross_entropy(own, student_net_.forward(own, batch.at(view)), {{}, target}).mean;
    };
    const Variable large = learn(0, "large"), small = learn(1, "small");
    const Variable words = primitive::mean(ctx, scores(ctx, batch), {0, 1});
    logged = {{"loss_large", large.value()}, {"loss_small", small.value()}};
    return primitive::add(ctx, primitive::add(ctx, large, small),
                          primitive::reshape(ctx, words, {1}));
  }
  Fields outputs(Context& ctx, const Fields& batch) override {
    return {{"score", scores(ctx, batch).value()}};
  }
  std::unique_ptr<Meter> meter() const override { return std::make_unique<WordMeter>(); }
  void after_update(const UpdateState* state) override {
    average_into(teacher_, student_, 0.9, state);
  }
  std::vector<Named<ParameterStore*>> stores() override {
    return {{"student", &student_}, {"teacher", &teacher_}};
  }
  std::string description() const override { return "two views"; }

 private:
  // Squared sum over the words of a row, [n, 1]; the padding is zero.
  Variable scores(Context& ctx, const Fields& batch) {
    const Variable each = student_net_.words.forward(ctx, Variable(batch.at("words")));
    const Variable sum = primitive::sum(ctx, each, 1);  // [n, 1, 1]
    return primitive::reshape(ctx, primitive::mul(ctx, sum, sum), {sum.dim(0), 1});
  }

  ParameterStore student_, teacher_;
  ViewNet student_net_, teacher_net_;
};

inline Registries with_two_views() {
  Registries all;
  all.tasks.add({{"two_views", "a student and its teacher", {{"score", "score", false}}},
                 [](const TaskSetup& setup) { return std::make_unique<TwoViewsTask>(setup); }});
  return all;
}

}  // namespace dtn::test
