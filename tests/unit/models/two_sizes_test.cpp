// One model on images of two sizes.
#include "two_sizes.h"

#include <initializer_list>

#include "dtn/nn/positions.h"
#include "texts.h"

namespace dtn {
namespace {

using test::SizedModel;

Tensor from_smaller_windows(const Tensor& table, std::int64_t from, std::int64_t to) {
  const std::int64_t heads = table.dim(1), side = 2 * to - 1, skipped = from - to;
  Tensor part = Tensor::empty({side * side, heads}, table.dtype());
  for (std::int64_t row = 0; row < side * side; ++row) {
    const std::int64_t y = row / side + skipped, x = row % side + skipped;
    part.slice(row, row + 1)
        .copy_from(table.slice(y * (2 * from - 1) + x, y * (2 * from - 1) + x + 1));
  }
  return part;
}

// Returns a table of positions for the grid of another model.
Tensor table_for(const Parameter& p, const PositionLayout& to) {
  const PositionLayout& from = *p.positions;
  const Tensor& table = p.variable.value();
  if (to.kind == PositionKind::kOffsets) return from_smaller_windows(table, from.height, to.height);
  Context ctx;
  return ops::resample_positions(ctx, p.variable, {from.height, from.width}, {to.height, to.width})
      .value();
}

// perturb(), except for positions that are computed.
void perturb_weights(Classifier& model) {
  test::perturb(model.parameters());
  for (Parameter& p : model.parameters().parameters()) {
    Tensor value = p.variable.value();
    if (p.positions && p.positions->kind == PositionKind::kSines) fill_sinusoids(value);
  }
}

// Gives `target`, the same model for another image size, the weights of `model`.
void copy_weights(Classifier& model, Classifier& target) {
  for (Parameter& p : target.parameters().parameters()) {
    if (p.positions && p.positions->kind == PositionKind::kSines) continue;
    const Parameter& source = *model.parameters().find(p.name);
    Tensor value = p.variable.value();
    value.copy_from(p.positions ? table_for(source, *p.positions) : source.variable.value());
  }
  auto from = model.parameters().buffers().begin();
  for (const Buffer& b : target.parameters().buffers()) {
    Tensor value = b.value;
    value.copy_from((from++)->value);
  }
  target.parameters().refresh_bfloat16();
}

// The model computes what a model built for the other size computes, bit for bit.
TEST(TwoSizes, MatchModelBuiltForOtherSize) {
  for (const SizedModel& m : test::sized_models()) {
    for (DType compute : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(cat(test::title_of(m.config), " on ", m.other, ", ", name_of(compute)));
      const DType master = accumulator_of(compute);
      ModelConfig other = m.config;
      other.image_size = m.other;
      Classifier model(m.config, 1, master), built(other, 2, master);
      if (compute == DType::kBFloat16) {
        model.parameters().enable_bfloat16();
        built.parameters().enable_bfloat16();
      }
      perturb_weights(model);
      copy_weights(model, built);
      EXPECT_EQ(model.backbone().size_problem(m.other), "");
      Context ctx = test::computing_in(compute);
      const Tensor images = test::some_images(other, 3, master);
      const Tensor got = model.forward(ctx, images).value(),
                   want = built.forward(ctx, images).value();
      EXPECT_TRUE(test::same_bits(got, want));
      EXPECT_GT(test::max_abs(test::doubles(got)), 1e-3);
      const Fields fields = {{"image", images}};
      const Features features = model.backbone().forward(ctx, fields);
      const Features expected = built.backbone().forward(ctx, fields);
      ASSERT_EQ(features.size(), expected.size());
      for (std::size_t i = 0; i < features.size(); ++i) {
        EXPECT_EQ(features[i].grid, expected[i].grid);
        EXPECT_TRUE(test::same_bits(features[i].x.value(), expected[i].x.value())) << i;
      }
    }
  }
}

// The sizes may alternate: nothing that was kept for one grid is used on another.
TEST(TwoSizes, Alternate) {
  for (const SizedModel& m : test::sized_models()) {
    SCOPED_TRACE(test::title_of(m.config));
    Classifier model(m.config, 1);
    test::perturb(model.parameters());
    Context ctx;
    const Tensor own = test::some_images(m.config, 2, DType::kFloat32);
    const Tensor others = test::some_images(m.config, 2, DType::kFloat32, m.other);
    const Tensor first = model.forward(ctx, own).value(),
                 second = model.forward(ctx, others).value();
    EXPECT_TRUE(test::same_bits(first, model.forward(ctx, own).value()));
    EXPECT_TRUE(test::same_bits(second, model.forward(ctx, others).value()));
  }
}

test::Doubles gradients_of(Classifier& model, const std::vector<ImageSize>& sizes,
                           bool checkpoint_blocks = false) {
  test::run_gradients(model, 2, DType::kFloat64, {}, sizes, checkpoint_blocks);
  return test::doubles(model.parameters().gradients());
}

TEST(TwoSizes, GradientsAddUp) {
  for (const SizedModel& m : test::sized_models()) {
    SCOPED_TRACE(test::title_of(m.config));
    Classifier model(m.config, 1, DType::kFloat64);
    test::perturb(model.parameters());
    test::Doubles sum = gradients_of(model, {m.config.image_size});
    const test::Doubles of_other = gradients_of(model, {m.other});
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_other[i];
    const std::vector<ImageSize> both = {m.config.image_size, m.other};
    EXPECT_LE(test::max_abs_difference(gradients_of(model, both), sum), 1e-13 * test::max_abs(sum));
    EXPECT_LE(test::max_abs_difference(gradients_of(model, both, true), sum),
              1e-13 * test::max_abs(sum));
    for (const Parameter& p : model.parameters().parameters()) {
      const auto begin = of_other.begin() + p.offset;
      const test::Doubles part(begin, begin + p.shape.numel());
      if (p.positions && p.positions->kind == PositionKind::kTokens) {
        EXPECT_GT(test::max_abs(part), 1e-6) << p.name;
      }
    }
  }
}

void expect_all(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) test::expect_contains(text, part);
}

std::string problem_of(const ModelConfig& config, const ImageSize& size) {
  Classifier model(config, 0, DType::kFloat32, kMeta);
  const std::string problem = model.backbone().size_problem(size);
  EXPECT_EQ(model.backbone().size_problem(config.image_size), "") << config.preset;
  return problem;
}

TEST(TwoSizes, ProblemsNameTheirReason) {
  expect_all(problem_of(test::paper_vit(), {15, 14}), {"multiples of 5, model.patch_size"});
  expect_all(problem_of(test::paper_vit(), {0, 15}), {"multiples of 5"});
  expect_all(problem_of(test::paper_vit(), {5 * 513, 5}), {"513 x 1", "at most 512"});
  const auto dtn = [](std::vector<NormOption> options) {
    ModelConfig c = test::vit_with_norm("dtn", {.type = "dtn", .options = std::move(options)});
    c.image_size = 20;
    return c;
  };
  expect_all(problem_of(dtn({{"position", std::string("free")}}), {10, 10}),
             {"model.norm.position: free", "4 x 4", "2 x 2"});
  expect_all(problem_of(dtn({{"pool", std::int64_t{2}}}), {10, 15}),
             {"2 x 3", "squares of 2 x 2", "model.norm.pool"});
  expect_all(problem_of(test::tiny_pvt(), {12, 26}), {"in stage 1", "at least one key", "3 x 6"});
  expect_all(problem_of(test::tiny_pvt(), {3, 26}), {"in stage 1", "only 0 x 6"});
  expect_all(problem_of(test::tiny_swin(), {24, 20}), {"multiples of 8"});
  EXPECT_EQ(problem_of(test::tiny_swin(), {24, 32}), "") << "zeros fill windows at the edges";
  expect_all(problem_of(test::tiny_levit(), {32, 32}), {"attention biases", "3 x 2"});
  expect_all(problem_of(test::tiny_t2t(), {40, 32}), {"multiples of 16"});
  expect_all(problem_of(test::tiny_resnet(), {0, 8}), {"at least one pixel"});
}

TEST(TwoSizes, ForwardRefusesWhatTheModelCannotProcess) {
  ModelConfig c = test::paper_vit();
  c.norm.options = {{"position", std::string("free")}};
  Classifier model(c, 0);
  Context ctx;
  try {
    model.forward(ctx, test::some_images(c, 1, DType::kFloat32, {10, 10}));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& e) {
    expect_all(e.what(), {"15 x 15", "10 x 10", "model.norm.position: free"});
  }
  EXPECT_THROW(model.forward(ctx, Tensor::zeros({1, 3, 15, 15}, DType::kFloat32)), Error);
}

// A backbone that does not override size_problem() takes the size of its inputs only.
class OneSize final : public Backbone {
 public:
  explicit OneSize(FieldSpec field) : field_(std::move(field)) {}
  std::vector<FieldSpec> inputs() const override { return {field_}; }
  Features forward(Context&, const Fields&) override { return {}; }
  Variable pooled(Context&, const Fields&) override { return {}; }
  std::vector<StageShape> stages() const override { return {}; }

 private:
  FieldSpec field_;
};

TEST(TwoSizes, DefaultIsOneSize) {
  const OneSize images({"image", {3, 8, 12}}), words({"tokens", {7}});
  EXPECT_EQ(images.size_problem({8, 12}), "");
  expect_all(images.size_problem({12, 8}), {"8 x 12 pixels only"});
  expect_all(words.size_problem({8, 12}), {"reads no images"});
}

}  // namespace
}  // namespace dtn
