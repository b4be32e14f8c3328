// Noise that is independent for each value of each pixel.
#include <algorithm>
#include <array>
#include <cmath>

#include "data/corrupt/families.h"
#include "data/corrupt/kernels.h"

namespace dtn::corrupt {
namespace {

std::int64_t values_of(const Image& image) {
  return static_cast<std::int64_t>(image.pixels.size());
}

// Shot noise: draws a number of photons, of which a white pixel expects `rate`, and converts it to
// a byte. The table holds the distribution function of Poisson, in units of 2^-32, for the 256
// values of a pixel. From `rate` photons on the result is white, so `rate` thresholds suffice.
class ShotTable {
 public:
  explicit ShotTable(int rate) : rate_(rate), thresholds_(256 * static_cast<std::size_t>(rate)) {
    for (int n = 0; n <= rate; ++n) bytes_.push_back(static_cast<std::uint8_t>(255 * n / rate));
    for (int value = 0; value < 256; ++value) fill(value);
  }

  std::uint8_t draw(std::uint8_t value, std::uint32_t word) const {
    const std::uint32_t* thresholds = &thresholds_[static_cast<std::size_t>(value) * rate_];
    int n = guide_[value][word >> 24];
    while (n < rate_ && word >= thresholds[n]) ++n;
    return bytes_[static_cast<std::size_t>(n)];
  }

 private:
  void fill(int value) {
    std::uint32_t* thresholds = &thresholds_[static_cast<std::size_t>(value) * rate_];
    const double mean = rate_ * value / 255.0;
    double term = std::exp(-mean), sum = 0;
    for (int n = 0; n < rate_; ++n) {
      sum += term;
      term *= mean / (n + 1);
      thresholds[n] = static_cast<std::uint32_t>(std::min(sum * 0x1p32, 4294967295.0));
    }
    // The search for a word begins at the first n that its highest byte does not exclude.
    int n = 0;
    for (std::uint32_t high = 0; high < 256; ++high) {
      while (n < rate_ && high << 24 >= thresholds[n]) ++n;
      guide_[static_cast<std::size_t>(value)][high] = static_cast<std::uint8_t>(n);
    }
  }

  int rate_;
  std::vector<std::uint32_t> thresholds_;  // [256, rate]
  std::array<std::array<std::uint8_t, 256>, 256> guide_{};
  std::vector<std::uint8_t> bytes_;  // [rate + 1]
};

}  // namespace

void gaussian_noise(const Image& image, const CorruptJob& job, Image& out) {
  constexpr float kSigma[] = {.08f, .12f, .18f, .26f, .38f};
  CorruptScratch& s = job.scratch;
  job.draws.normals(values_of(image), s.words, s.noise);
  kernels().add_noise(image.pixels.data(), s.noise.data(), 255 * by_severity(kSigma, job),
                      values_of(image), out.pixels.data());
}

void speckle_noise(const Image& image, const CorruptJob& job, Image& out) {
  constexpr float kSigma[] = {.15f, .2f, .35f, .45f, .6f};
  CorruptScratch& s = job.scratch;
  job.draws.normals(values_of(image), s.words, s.noise);
  kernels().add_relative_noise(image.pixels.data(), s.noise.data(), by_severity(kSigma, job),
                               values_of(image), out.pixels.data());
}

void shot_noise(const Image& image, const CorruptJob& job, Image& out) {
  static const ShotTable tables[] = {ShotTable(60), ShotTable(25), ShotTable(12), ShotTable(5),
                                     ShotTable(3)};
  const ShotTable& table = tables[job.severity - 1];
  job.draws.words(values_of(image), job.scratch.words);
  const std::uint32_t* words = job.scratch.words.data();
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    out.pixels[i] = table.draw(image.pixels[i], words[i]);
  }
}

void impulse_noise(const Image& image, const CorruptJob& job, Image& out) {
  constexpr double kShare[] = {.03, .06, .09, .17, .27};
  const double all = by_severity(kShare, job) * 0x1p32;
  job.draws.words(values_of(image), job.scratch.words);
  kernels().impulses(image.pixels.data(), job.scratch.words.data(),
                     static_cast<std::uint32_t>(all / 2), static_cast<std::uint32_t>(all),
                     values_of(image), out.pixels.data());
}

}  // namespace dtn::corrupt
