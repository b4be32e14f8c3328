// The common corruptions of ImageNet-C (D. Hendrycks and T. Dietterich, "Benchmarking Neural
// Network Robustness to Common Corruptions and Perturbations", ICLR 2019, section 4.2 and
// appendix), applied to 8-bit images here and not downloaded. docs/notes/robustness.md says which
// are exact and which have the same distribution.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/corrupt/draws.h"
#include "data/corrupt/frost_textures.h"
#include "data/sample/resample.h"
#include "dtn/io/image.h"

namespace dtn {

inline constexpr std::size_t kSeverities = 5;
inline constexpr std::size_t kBenchmarkCorruptions = 15;
// Side of the images of ImageNet-C; pixels.
inline constexpr int kCorruptedSide = 224;

// Buffers of one thread, reused from image to image.
struct CorruptScratch {
  std::vector<double> wide, blurred, wide_line;
  std::vector<float> plane, field, other, line, noise;
  std::vector<std::uint8_t> bytes, marks;
  std::vector<std::byte> encoded;
  std::vector<std::uint32_t> words;
  ResampleWorkspace resample;
  Image small;
};

// Arguments of a corruption besides the image.
struct CorruptJob {
  int severity = 1;  // 1 .. 5
  Draws& draws;
  CorruptScratch& scratch;
  const FrostTextures* frost = nullptr;  // only for frost
};

struct Corruption {
  const char* name;   // name of its folder
  const char* group;  // name of the parent folder, as in the archives
  // `image` has 3 channels. `out` becomes an image of the same shape and is not `image`.
  void (*apply)(const Image& image, const CorruptJob& job, Image& out);
  // True if it means the same at any image size, such as 32 x 32. The others accept only 224 x 224.
  bool any_size;
  // True if apply_adapted_corruption() extends it to other sizes than 224 x 224.
  bool adapts = false;
};

// Returns the 15 corruptions of the benchmark, then the 4 extra ones that were also published.
std::span<const Corruption> corruptions();
// Returns the corruption of this name, or null.
const Corruption* find_corruption(std::string_view name);
inline bool in_benchmark(const Corruption& corruption) {
  return &corruption < corruptions().data() + kBenchmarkCorruptions;
}
bool is_frost(const Corruption& corruption);

// A corruption and its severity.
struct CorruptionCell {
  const Corruption* corruption = nullptr;
  int severity = 1;
  std::string name() const;  // "gaussian_noise/3"; also its folder
};

// Parse the names of corruptions ("gaussian_noise,fog", "all" for the 19, or "" for the 15 of the
// benchmark) and severities ("1-5", "2" or "1,3-4"). The results are in the order of the table,
// without repetition. Throw ConfigError for an unknown name or a severity outside 1 .. 5.
std::vector<const Corruption*> parse_corruptions(const std::string& names);
std::vector<int> parse_severities(const std::string& text);
std::vector<CorruptionCell> cells_of(std::span<const Corruption* const> corruptions,
                                     std::span<const int> severities);

// Key of the random draws. `item` is the name of the image in its data set, "<class>/<file>".
struct CorruptionKey {
  std::uint64_t seed = 0;
  std::string_view item;
};
// Corrupts `image`, of 3 channels. The draws depend only on the arguments. Throws Error for a size
// that the corruption does not accept.
void apply_corruption(const Image& image, const CorruptionCell& cell, const CorruptionKey& key,
                      const FrostTextures* frost, CorruptScratch& scratch, Image& out);

// True if apply_adapted_corruption() accepts images of this size.
bool adapts_to(const Corruption& corruption, int width, int height);
// The same for more sizes, see adapts_to(). Images of 224 x 224 become those of
// apply_corruption(). At other sizes, a corruption with Corruption::adapts is not that of
// ImageNet-C.
void apply_adapted_corruption(const Image& image, const CorruptionCell& cell,
                              const CorruptionKey& key, const FrostTextures* frost,
                              CorruptScratch& scratch, Image& out);

}  // namespace dtn
