#include "tasks/translate/meter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/fields.h"
#include "dtn/core/parallel.h"

namespace dtn {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

using Figures = std::array<double, 8>;
constexpr std::array kFigureNames{"psnr", "ssim", "l1", "loss", "input_psnr", "input_ssim"};
constexpr std::size_t kIou = 6, kNoMask = 7;  // the other columns

PictureShape shape_of_each(const Tensor& pictures) {
  return {pictures.dim(1), pictures.dim(2), pictures.dim(3)};
}

std::span<const float> picture_at(const Tensor& pictures, std::int64_t i) {
  const std::int64_t values = shape_of_each(pictures).values();
  return pictures.values<float>().subspan(static_cast<std::size_t>(i * values),
                                          static_cast<std::size_t>(values));
}

double clamped(double pixel) { return std::clamp(pixel, 0.0, 1.0); }

// Writes the mean absolute difference of clamped pixels, and the loss.
void add_differences(std::span<const float> output, std::span<const float> target,
                     const TranslateConfig& w, Figures& figures) {
  const double eps_squared = w.charbonnier_eps * w.charbonnier_eps;
  double l1 = 0, loss = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const double y = output[i], t = target[i], d = y - t;
    l1 += std::abs(clamped(y) - clamped(t));
    loss += w.l1 * std::abs(d) + w.l2 * d * d;
    if (w.charbonnier > 0) loss += w.charbonnier * std::sqrt(d * d + eps_squared);
  }
  const auto count = static_cast<double>(output.size());
  figures[2] = l1 / count;
  figures[3] = loss / count;
}

// Writes the intersection over union of the pixels of at least 0.5, NaN if no pixel of the target
// is one, and whether the target has other values than 0 and 1.
void add_overlap(std::span<const float> output, std::span<const float> target, Figures& figures) {
  std::int64_t both = 0, either = 0, marked = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const bool y = output[i] >= 0.5f, t = target[i] >= 0.5f;
    both += y && t ? 1 : 0;
    either += y || t ? 1 : 0;
    marked += t ? 1 : 0;
  }
  figures[kIou] = marked > 0 ? static_cast<double>(both) / static_cast<double>(either) : kUnknown;
  const bool is_mask = std::ranges::all_of(target, [](float t) { return t == 0 || t == 1; });
  figures[kNoMask] = is_mask ? 0 : 1;
}

}  // namespace

void TranslateMeter::add(const Fields& batch, const Fields& outputs) {
  const Tensor &output = outputs.at("output"), &target = batch.at("target"),
               &input = batch.at("input"), &index = batch.at("index");
  const std::int64_t count = output.dim(0);
  DTN_CHECK(output.shape() == target.shape() && output.dtype() == DType::kFloat32, "the output is ",
            to_string(output.shape()), " ", name_of(output.dtype()), ", the target ",
            to_string(target.shape()));
  const PictureShape shape = shape_of_each(target);
  const bool compares_input = input.shape() == target.shape();
  std::vector<Figures> rows(static_cast<std::size_t>(count));
  parallel_ranges(count, 1, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      Figures& figures = rows[static_cast<std::size_t>(i)];
      const auto y = picture_at(output, i), t = picture_at(target, i);
      figures = {psnr(y, t), ssim(y, t, shape).value_or(kUnknown), 0, 0, kUnknown, kUnknown, 0, 0};
      add_differences(y, t, weights_, figures);
      add_overlap(y, t, figures);
      if (!compares_input) continue;
      const auto x = picture_at(input, i);
      figures[4] = psnr(x, t);
      figures[5] = ssim(x, t, shape).value_or(kUnknown);
    }
  });
  for (std::int64_t i = 0; i < count; ++i) {
    samples_.add(index.data<std::int64_t>()[i], rows[static_cast<std::size_t>(i)]);
  }
}

Metrics TranslateMeter::result() const {
  Metrics metrics{.values = {}, .primary = "psnr"};
  for (std::size_t k = 0; k < kFigureNames.size(); ++k) {
    metrics.values.emplace_back(kFigureNames[k], samples_.mean(k));
  }
  const auto at = [&](std::size_t k) { return metrics.values[k].second; };
  const bool masks = samples_.size() > 0 && samples_.mean(kNoMask) == 0;
  const double iou = masks ? samples_.mean_of_defined(kIou) : kUnknown;
  metrics.values.emplace_back("iou", iou);
  metrics.text = format("PSNR %.2f dB", at(0));
  if (!std::isnan(at(1))) metrics.text += format("  SSIM %.4f", at(1));
  if (!std::isnan(at(4))) metrics.text += format("  (input %.2f dB", at(4));
  if (!std::isnan(at(5))) metrics.text += format(", %.4f", at(5));
  if (!std::isnan(at(4))) metrics.text += ")";
  if (!std::isnan(iou)) metrics.text += format("  IoU %.4f", iou);
  metrics.text += format("  loss %.5f", at(3));
  return metrics;
}

}  // namespace dtn
