#include "data/classes/draw_over_classes.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "data/feed/shuffle.h"

namespace dtn {
namespace {

constexpr std::uint32_t kDrawStream = 0x44524157;  // "DRAW"
enum class DrawPart : std::uint32_t { kSamples, kClasses };

template <class T>
void shuffle_draw(std::vector<T>& items, std::uint64_t seed, DrawPart part) {
  const PhiloxKey key{seed, kDrawStream, static_cast<std::uint32_t>(part)};
  shuffle_places(items.size(), key, 0,
                 [&](std::size_t i, std::size_t j) { std::swap(items[i], items[j]); });
}

// Returns the samples of each class; classes and samples are in random order.
std::vector<std::vector<std::int64_t>> shuffled_classes(std::span<const std::int64_t> labels,
                                                        std::uint64_t seed) {
  std::vector<std::int64_t> samples(labels.size());
  std::iota(samples.begin(), samples.end(), std::int64_t{0});
  shuffle_draw(samples, seed, DrawPart::kSamples);
  std::map<std::int64_t, std::vector<std::int64_t>> by_label;
  for (const std::int64_t i : samples) by_label[labels[static_cast<std::size_t>(i)]].push_back(i);
  std::vector<std::vector<std::int64_t>> classes;
  for (auto& [label, of_class] : by_label) classes.push_back(std::move(of_class));
  shuffle_draw(classes, seed, DrawPart::kClasses);
  return classes;
}

}  // namespace

std::vector<std::int64_t> draw_over_classes(std::span<const std::int64_t> labels,
                                            std::int64_t count, std::uint64_t seed) {
  const std::vector<std::vector<std::int64_t>> classes = shuffled_classes(labels, seed);
  const std::size_t wanted = std::min(labels.size(), static_cast<std::size_t>(count));
  std::vector<std::int64_t> drawn;
  drawn.reserve(wanted);
  for (std::size_t turn = 0; drawn.size() < wanted; ++turn) {
    for (const std::vector<std::int64_t>& of_class : classes) {
      if (turn < of_class.size() && drawn.size() < wanted) drawn.push_back(of_class[turn]);
    }
  }
  return drawn;
}

}  // namespace dtn
