// The common corruptions of ImageNet-C (D. Hendrycks and T. Dietterich, "Benchmarking Neural Network
// Robustness to Common Corruptions and Perturbations", ICLR 2019, section 4.2 and appendix), made
// here rather than downloaded: what each does to an 8-bit image. docs/robustness.md says which are
// exact and which have the same distribution.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/corrupt/draws.h"
#include "data/corrupt/frost_textures.h"
#include "dtn/io/image.h"

namespace dtn {

inline constexpr std::size_t kSeverities = 5;
inline constexpr std::size_t kBenchmarkCorruptions = 15;
// The side of the images of ImageNet-C.
inline constexpr int kCorruptedSide = 224;

// Buffers of one thread, reused from image to image.
struct CorruptScratch {
  std::vector<double> wide, blurred, wide_line;
  std::vector<float> plane, field, other, line, noise;
  std::vector<std::uint8_t> bytes, marks;
  std::vector<std::byte> encoded;
  std::vector<std::uint32_t> words;
};

// What a corruption needs beside the image.
struct CorruptJob {
  int severity = 1;  // 1 .. 5
  Draws& draws;
  CorruptScratch& scratch;
  const FrostTextures* frost = nullptr;  // for frost alone
};

struct Corruption {
  const char* name;   // of its folder
  const char* group;  // of the folder around it, as the archives have them
  // Whether it knows no image size: it means the same at 32 x 32. The others are for 224 x 224 and
  // take no other size.
  bool any_size;
  // `image` has 3 channels; `out` becomes an image of its shape and is not `image`.
  void (*apply)(const Image& image, const CorruptJob& job, Image& out);
};

// The 15 of the benchmark, then the 4 that were published besides.
std::span<const Corruption> corruptions();
// One of them by name, or null.
const Corruption* find_corruption(std::string_view name);
inline bool in_benchmark(const Corruption& corruption) {
  return &corruption < corruptions().data() + kBenchmarkCorruptions;
}
bool is_frost(const Corruption& corruption);

// A corruption and its severity.
struct CorruptionCell {
  const Corruption* corruption = nullptr;
  int severity = 1;
  std::string name() const;  // "gaussian_noise/3", which is its folder too
};

// "gaussian_noise,fog", "all" for the 19, or "" for the 15 of the benchmark; severities such as
// "1-5", "2" or "1,3-4". In the order of the table and without repetition. ConfigError for an
// unknown name or a severity outside 1 .. 5.
std::vector<const Corruption*> parse_corruptions(const std::string& names);
std::vector<int> parse_severities(const std::string& text);
std::vector<CorruptionCell> cells_of(std::span<const Corruption* const> corruptions,
                                     std::span<const int> severities);

// Corrupts `image`, of 3 channels. The draws depend on the arguments alone: `item` is what the image
// is called in its data set, "<class>/<file>". Error for a size that the corruption does not take.
struct CorruptionKey {
  std::uint64_t seed = 0;
  std::string_view item;
};
void apply_corruption(const Image& image, const CorruptionCell& cell, const CorruptionKey& key,
                      const FrostTextures* frost, CorruptScratch& scratch, Image& out);

}  // namespace dtn
