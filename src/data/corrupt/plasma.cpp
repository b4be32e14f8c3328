#include <algorithm>

#include "data/corrupt/filters.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

class Plasma {
 public:
  Plasma(const std::uint32_t* words, int side, std::vector<float>& map)
      : word_(words), side_(side), map_(map) {}

  void fill(float decay) {
    at(0, 0) = 0;
    float amplitude = 100;
    for (int step = side_; step >= 2; step /= 2, amplitude /= decay) {
      squares(step, amplitude);
      diamonds(step, amplitude);
    }
  }

 private:
  float& at(int y, int x) {
    const int mask = side_ - 1;
    return map_[static_cast<std::size_t>(y & mask) * side_ + (x & mask)];
  }
  // The amplitude is applied twice, as in the original.
  float noisy(float sum, float amplitude) {
    return sum / 4 + amplitude * static_cast<float>(uniform(*word_++, -amplitude, amplitude));
  }

  void squares(int step, float amplitude) {
    const int half = step / 2;
    for (int y = 0; y < side_; y += step) {
      for (int x = 0; x < side_; x += step) {
        const float sum = at(y, x) + at(y + step, x) + at(y, x + step) + at(y + step, x + step);
        at(y + half, x + half) = noisy(sum, amplitude);
      }
    }
  }

  // The neighbours of a point between two corners are the corners and the middles of two squares.
  void diamonds(int step, float amplitude) {
    const int half = step / 2;
    for (int y = 0; y < side_; y += step) {
      for (int x = 0; x < side_; x += step) {
        const float sum =
            at(y + half, x + half) + at(y - half, x + half) + at(y, x) + at(y, x + step);
        at(y, x + half) = noisy(sum, amplitude);
      }
    }
    for (int y = 0; y < side_; y += step) {
      for (int x = 0; x < side_; x += step) {
        const float sum =
            at(y + half, x + half) + at(y + half, x - half) + at(y, x) + at(y + step, x);
        at(y + half, x) = noisy(sum, amplitude);
      }
    }
  }

  const std::uint32_t* word_;
  int side_;
  std::vector<float>& map_;
};

}  // namespace

void draw_plasma(float decay, Draws& draws, std::vector<std::uint32_t>& words,
                 std::vector<float>& plasma, int side) {
  const std::int64_t points = static_cast<std::int64_t>(side) * side;
  draws.words(points, words);
  plasma.resize(static_cast<std::size_t>(points));
  Plasma(words.data(), side, plasma).fill(decay);
  const auto [low, high] = std::ranges::minmax(plasma);
  for (float& v : plasma) v = (v - low) / (high - low);
}

}  // namespace dtn::corrupt
