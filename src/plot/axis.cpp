#include "plot/axis.h"

#include <algorithm>
#include <cmath>

#include "core/format.h"
#include "plot/text.h"

namespace dtn::plot {
namespace {

// Returns the smallest of 1, 2, 2.5, 5, 10 times a power of ten that is not below `step`.
double nice_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// Returns the number of decimals that distinguish multiples of the step.
int decimals_of(double step) {
  int decimals = 0;
  for (double scaled = step; decimals < 12 && std::abs(scaled - std::round(scaled)) > 1e-6 * scaled;
       scaled *= 10) {
    ++decimals;
  }
  return decimals;
}

std::string linear_label(double value, double step, double largest) {
  if (std::abs(value) < step * 1e-6) return "0";
  if (value < 0) return "\xE2\x88\x92" + linear_label(-value, step, largest);  // minus sign
  if (largest >= 1e6 && decimals_of(step / 1e5) == 0) return format("%gM", value / 1e6);
  if (largest >= 2e4 && decimals_of(step / 100) == 0) return format("%gk", value / 1e3);
  if (largest >= 1e7 || step < 1e-6) return format("%.3g", value);
  return format("%.*f", decimals_of(step), value);
}

std::string log_label(double value) {
  if (value >= 1e-3 * (1 - 1e-9) && value < 1e5 * (1 - 1e-9)) return readable(value, 6);
  const double exponent = std::floor(std::log10(value) + 1e-9);
  return format("%.0fe%.0f", value / std::pow(10.0, exponent), exponent);
}

// Widens a range that is empty or a single value.
Range with_width(Range range) {
  if (range.empty()) return {0, 1};
  const double least = std::max(std::abs(range.low), std::abs(range.high)) * 1e-9;
  if (range.high - range.low > least) return range;
  const double margin = range.low == 0 ? 0.5 : std::abs(range.low) * 0.1;
  return {range.low - margin, range.high + margin};
}

}  // namespace

void Range::take_in(double value) {
  if (!(std::abs(value) <= 1e300)) return;  // so that the width of a range is finite
  low = std::min(low, value);
  high = std::max(high, value);
}

void Range::take_in(std::span<const double> values) {
  for (double value : values) take_in(value);
}

Scale::Scale(const Axis& axis, int ticks) : limit_(axis.limit), log_(axis.log) {
  if (!axis.categories.empty()) {
    range_ = {-0.5, static_cast<double>(axis.categories.size()) - 0.5};
    for (std::size_t i = 0; i < axis.categories.size(); ++i) {
      ticks_.push_back({static_cast<double>(i), axis.categories[i]});
    }
    return;
  }
  range_ = axis.data;
  if (log_ && !range_.empty()) {
    if (range_.high <= 0) range_ = {0.1, 1};
    if (range_.low <= 0) range_.low = range_.high / 1000;  // the scale cannot show values <= 0
    if (range_.low == range_.high) range_ = {range_.low / 2, range_.high * 2};
  } else {
    range_ = with_width(range_);
  }
  if (log_) {
    log_ticks(axis, ticks);
  } else {
    linear_ticks(axis, ticks);
  }
}

void Scale::linear_ticks(const Axis& axis, int wanted) {
  double step = nice_step((range_.high - range_.low) / std::max(wanted, 1));
  if (axis.whole) step = step < 1 ? 1 : step == 2.5 ? 5 : step;
  double first = std::floor(range_.low / step + 1e-6), last = std::ceil(range_.high / step - 1e-6);
  if (axis.round) {
    range_ = {first * step, last * step};
  } else {
    first = std::ceil(range_.low / step - 1e-6);
    last = std::floor(range_.high / step + 1e-6);
  }
  if (!limit_.empty()) {  // the axis must not show values that cannot occur
    range_.low = std::max(range_.low, limit_.low);
    range_.high = std::min(range_.high, limit_.high);
  }
  const double largest = std::max(std::abs(range_.low), std::abs(range_.high));
  const double margin = step * 1e-6;
  for (double k = first; k <= last; ++k) {
    const double value = k * step;
    if (value < range_.low - margin || value > range_.high + margin) continue;
    ticks_.push_back({value, linear_label(value, step, largest)});
  }
}

void Scale::log_ticks(const Axis& axis, int wanted) {
  if (range_.empty()) range_ = {0.1, 1};
  double low = std::log10(range_.low), high = std::log10(range_.high);
  const bool decades_alone = high - low > 2;
  // Ticks at whole decades; for a short range at 1, 2 and 5 times a power of ten.
  std::vector<double> factors = {1};
  if (!decades_alone) factors = {1, 2, 5};
  std::vector<double> values;
  for (double decade = std::floor(low) - 1; decade <= std::ceil(high) + 1; ++decade) {
    for (double factor : factors) values.push_back(factor * std::pow(10.0, decade));
  }
  if (axis.round) {
    for (double v : values) {
      if (v <= range_.low * (1 + 1e-9)) low = std::log10(v);
    }
    for (auto v = values.rbegin(); v != values.rend(); ++v) {
      if (*v >= range_.high * (1 - 1e-9)) high = std::log10(*v);
    }
    range_ = {std::pow(10.0, low), std::pow(10.0, high)};
  }
  std::erase_if(values, [this](double v) {
    return v < range_.low * (1 - 1e-9) || v > range_.high * (1 + 1e-9);
  });
  const std::size_t most = static_cast<std::size_t>(std::max(wanted, 2));
  const std::size_t every = decades_alone ? (values.size() + most - 1) / most : 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    ticks_.push_back({v, i % every == 0 ? log_label(v) : ""});
  }
}

double Scale::position(double value) const {
  if (!std::isfinite(value) || (log_ && value <= 0)) return kMissing;
  if (!log_) return (value - range_.low) / (range_.high - range_.low);
  return std::log(value / range_.low) / std::log(range_.high / range_.low);
}

double Scale::limited(double value) const {
  return limit_.empty() ? value : std::clamp(value, limit_.low, limit_.high);
}

}  // namespace dtn::plot
