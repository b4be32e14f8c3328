#include "apps/analyze/median.h"

#include <bit>
#include <cmath>
#include <limits>

namespace dtn {

MedianInTwoPasses::MedianInTwoPasses() : upper_(std::size_t{1} << 15) {}  // no sign bit

void MedianInTwoPasses::add(double value) {
  if (std::isnan(value)) {
    nan_ = true;
    return;
  }
  const auto bits = std::bit_cast<std::uint32_t>(std::abs(static_cast<float>(value)));
  if (!second_) {
    ++upper_[bits >> 16];
    ++count_;
    return;
  }
  for (Middle& m : middles_) {
    if (m.upper == bits >> 16) ++m.lower[bits & 0xffff];
  }
}

MedianInTwoPasses::Middle MedianInTwoPasses::find(std::uint64_t rank) const {
  std::uint32_t bits = 0;
  while (rank >= upper_[bits]) rank -= upper_[bits++];
  return {bits, rank, std::vector<std::uint64_t>(std::size_t{1} << 16)};
}

void MedianInTwoPasses::begin_second_pass() {
  second_ = true;
  if (count_ > 0) {
    middles_.push_back(find((count_ - 1) / 2));
    if (count_ % 2 == 0) {
      Middle other = find(count_ / 2);
      const bool together = other.upper == middles_.front().upper;
      if (!together) middles_.push_back(std::move(other));
    }
  }
  upper_ = {};
}

float MedianInTwoPasses::Middle::value() const {
  std::uint64_t before = rank;
  std::uint32_t bits = 0;
  while (before >= lower[bits]) before -= lower[bits++];
  return std::bit_cast<float>(upper << 16 | bits);
}

double MedianInTwoPasses::median() const {
  if (nan_ || count_ == 0) return std::numeric_limits<double>::quiet_NaN();
  Middle last = middles_.back();
  if (middles_.size() == 1 && count_ % 2 == 0) ++last.rank;
  return (static_cast<double>(middles_.front().value()) + static_cast<double>(last.value())) / 2;
}

}  // namespace dtn
