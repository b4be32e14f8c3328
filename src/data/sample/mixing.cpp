#include "data/sample/mixing.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "data/sample/random.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

constexpr std::uint32_t kMixStream = 0xA06E0003u;
constexpr std::uint64_t kGroupsPerBatch = 2;  // groups of four random words: kind and place; share

// Returns a number in (0, 1), of 52 bits.
double open_uniform(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (static_cast<std::uint64_t>(high) << 32 | low) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

}  // namespace

double symmetric_beta(double a, double u, double v) {
  // With p = u^(1/a) and c the cosine:
  //     t^2 / (2 a + t^2) = (1 - p) c^2 / (p + (1 - p) c^2)
  // The distance of its root from 1 follows from p over the same denominator, without cancellation.
  const double log_p = std::log(u) / a, p = std::exp(log_p);
  const double c = std::cos(2 * std::numbers::pi * v), above = -std::expm1(log_p) * c * c;
  const double smaller = p / (p + above) / (2 * (1 + std::sqrt(above / (p + above))));
  return c < 0 ? smaller : 1 - smaller;
}

BatchMix cut_box(int width, int height, double share, int x, int y) {
  const double side = std::sqrt(1 - share);
  const int half_width = static_cast<int>(width * side) / 2;
  const int half_height = static_cast<int>(height * side) / 2;
  BatchMix mix;
  mix.cut = true;
  mix.left = std::max(x - half_width, 0);
  mix.top = std::max(y - half_height, 0);
  mix.width = std::min(x + half_width, width) - mix.left;
  mix.height = std::min(y + half_height, height) - mix.top;
  mix.share =
      1 - static_cast<double>(mix.width) * mix.height / (static_cast<double>(width) * height);
  return mix;
}

BatchMix sample_mix(int width, int height, const AugmentConfig& augment, const BatchKey& key) {
  if (!augment.mixes_in(key.epoch)) return {};
  const PhiloxKey stream{key.seed, kMixStream, key.epoch};
  const Philox4 what = philox_group(stream, key.batch * kGroupsPerBatch);
  if (!(uniform(what.v[0], 0, 1) < augment.mix_chance)) return {};
  const bool both = augment.mixup > 0 && augment.cutmix > 0;
  const bool cut = both ? uniform(what.v[1], 0, 1) < augment.mix_switch : augment.cutmix > 0;
  const Philox4 w = philox_group(stream, key.batch * kGroupsPerBatch + 1);
  BatchMix mix;
  mix.share = symmetric_beta(cut ? augment.cutmix : augment.mixup, open_uniform(w.v[0], w.v[1]),
                             open_uniform(w.v[2], w.v[3]));
  if (!cut || mix.share == 1) return mix;
  return cut_box(width, height, mix.share, uniform_index(what.v[3], width),
                 uniform_index(what.v[2], height));
}

}  // namespace dtn
