#include "tasks/translate/meter.h"

#include <cmath>

#include "dtn/core/fields.h"
#include "tensors.h"

namespace dtn::test {
namespace {

Tensor pictures(const Shape& shape, std::uint32_t stream) {
  Tensor t = as(random_tensor(shape, stream, 0.4, 0.5), DType::kFloat32);
  return t;
}

Fields batch_of(const Tensor& input, const Tensor& target, std::vector<std::int64_t> indices) {
  const auto count = static_cast<std::int64_t>(indices.size());
  return {{"input", input}, {"target", target}, {"index", Tensor::from(indices, {count})}};
}

double mean_of(const Tensor& a, const Tensor& b, auto each) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    sum += each(static_cast<double>(a.data<float>()[i]), static_cast<double>(b.data<float>()[i]));
  }
  return sum / static_cast<double>(a.numel());
}

TEST(TranslateMeter, AveragesFiguresOfImages) {
  const Shape shape{3, 2, 12, 13};
  const Tensor input = pictures(shape, 1), output = pictures(shape, 2), target = pictures(shape, 3);
  TranslateMeter meter({.l1 = 0.5, .l2 = 2, .charbonnier = 1, .charbonnier_eps = 0.1});
  meter.add(batch_of(input, target, {0, 1, 2}), {{"output", output}});
  const Metrics metrics = meter.result();
  double psnr_sum = 0, ssim_sum = 0, input_sum = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto row = [&](const Tensor& t) {
      return std::span<const float>(t.data<float>() + i * 312, 312);
    };
    psnr_sum += psnr(row(output), row(target));
    input_sum += psnr(row(input), row(target));
    ssim_sum += *ssim(row(output), row(target), {2, 12, 13});
  }
  EXPECT_NEAR(metrics.at("psnr"), psnr_sum / 3, 1e-12);
  EXPECT_NEAR(metrics.at("input_psnr"), input_sum / 3, 1e-12);
  EXPECT_NEAR(metrics.at("ssim"), ssim_sum / 3, 1e-12);
  const auto clamp = [](double v) { return std::min(1.0, std::max(0.0, v)); };
  EXPECT_NEAR(
      metrics.at("l1"),
      mean_of(output, target, [&](double y, double t) { return std::abs(clamp(y) - clamp(t)); }),
      1e-12);
  EXPECT_NEAR(metrics.at("loss"),
              mean_of(output, target,
                      [&](double y, double t) {
                        const double d = y - t;  // not clamped
                        return 0.5 * std::abs(d) + 2 * d * d + std::sqrt(d * d + 0.01);
                      }),
              1e-12);
  EXPECT_EQ(metrics.primary, "psnr");
  EXPECT_TRUE(metrics.higher_is_better);
}

// The order of the samples decides the bits of a mean, not the order of the batches.
TEST(TranslateMeter, IsTheSameForOtherBatches) {
  const Shape shape{4, 1, 11, 11};
  const Tensor input = pictures(shape, 1), output = pictures(shape, 2), target = pictures(shape, 3);
  TranslateMeter whole({}), halves({});
  whole.add(batch_of(input, target, {0, 1, 2, 3}), {{"output", output}});
  for (const std::int64_t first : {0, 2}) {
    halves.add(
        batch_of(input.slice(first, first + 2), target.slice(first, first + 2), {first, first + 1}),
        {{"output", output.slice(first, first + 2)}});
  }
  const auto of_whole = whole.result().values, of_halves = halves.result().values;
  ASSERT_EQ(of_whole.size(), of_halves.size());
  for (std::size_t k = 0; k < of_whole.size(); ++k) {
    EXPECT_EQ(of_whole[k].first, of_halves[k].first);
    if (std::isnan(of_whole[k].second) && std::isnan(of_halves[k].second)) continue;
    EXPECT_EQ(of_whole[k].second, of_halves[k].second) << of_whole[k].first;
  }
}

// The first output marks 3 of the 4 pixels of its target and 2 others. The second target is empty
// and does not count. The third output is empty.
TEST(TranslateMeter, MeasuresOverlapOfMasks) {
  const Shape shape{3, 1, 12, 12};
  Tensor target = Tensor::zeros(shape, DType::kFloat32), output = target.clone();
  for (const int at : {0, 1, 2, 3}) target.data<float>()[at] = 1;
  for (const int at : {0, 1, 2, 20, 21}) output.data<float>()[at] = 0.5f;
  output.data<float>()[30] = 0.49f;
  output.data<float>()[144] = 1;
  target.data<float>()[288] = 1;
  TranslateMeter masks({}), pictures_too({}), empty({});
  masks.add(batch_of(target, target, {0, 1, 2}), {{"output", output}});
  EXPECT_NEAR(masks.result().at("iou"), (3.0 / 6 + 0) / 2, 1e-12);
  Tensor grey = target.clone();
  grey.data<float>()[200] = 0.25f;
  pictures_too.add(batch_of(target, grey, {0, 1, 2}), {{"output", output}});
  EXPECT_TRUE(std::isnan(pictures_too.result().at("iou")));
  const Tensor nothing = Tensor::zeros(shape, DType::kFloat32);
  empty.add(batch_of(nothing, nothing, {0, 1, 2}), {{"output", output}});
  EXPECT_TRUE(std::isnan(empty.result().at("iou")));
  EXPECT_TRUE(std::isnan(TranslateMeter({}).result().at("iou")));
}

TEST(TranslateMeter, HasNoFiguresThatDoNotExist) {
  const Tensor small = pictures({1, 1, 10, 20}, 1), masks = pictures({1, 1, 12, 12}, 2);
  TranslateMeter of_small({}), of_masks({});
  of_small.add(batch_of(small, small, {0}), {{"output", small}});
  EXPECT_TRUE(std::isnan(of_small.result().at("ssim")));
  EXPECT_TRUE(std::isnan(of_small.result().at("input_ssim")));
  EXPECT_EQ(of_small.result().at("psnr"), 100);
  of_masks.add(batch_of(pictures({1, 3, 12, 12}, 3), masks, {0}), {{"output", masks}});
  EXPECT_TRUE(std::isnan(of_masks.result().at("input_psnr")));
  EXPECT_NEAR(of_masks.result().at("ssim"), 1, 1e-12);
}

}  // namespace
}  // namespace dtn::test
