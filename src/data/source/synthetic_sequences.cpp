// Synthetic sequences, for models that take no images.
#include "data/source/synthetic_sequences.h"

#include <algorithm>

#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

constexpr std::uint32_t kLengthStream[] = {0x53594e4c, 0x53594e4d};  // "SYNL", "SYNM"
constexpr std::uint32_t kWordStream[] = {0x53594e57, 0x53594e58};    // "SYNW", "SYNX"

class SyntheticSequences final : public Dataset {
 public:
  SyntheticSequences(std::int64_t size, const ModelConfig& model, Split split, std::uint64_t seed)
      : lengths_{seed, kLengthStream[static_cast<int>(split)], 0},
        words_{seed, kWordStream[static_cast<int>(split)], 0},
        longest_(model.max_length) {
    num_classes_ = std::max(1, model.num_classes);
    vocabulary_ = model.vocabulary;
    has_pixels_ = false;
    labels_.resize(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) labels_[static_cast<std::size_t>(i)] = i % num_classes_;
    description_ =
        cat(size, " synthetic ", name_of(split), " sequences of up to ", longest_, " tokens");
  }

  // Returns a length from a quarter of the longest up.
  std::int64_t length(std::int64_t index) const override {
    const std::int64_t least = std::max<std::int64_t>(1, longest_ / 4);
    const std::uint32_t u = philox_u32(lengths_, static_cast<std::uint64_t>(index));
    return least + u % (longest_ - least + 1);
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    const std::int64_t count = length(index);
    const auto first = static_cast<std::uint64_t>(index * longest_);
    workspace.bytes.resize(static_cast<std::size_t>(count));
    auto* ids = reinterpret_cast<std::uint8_t*>(workspace.bytes.data());
    const auto words = static_cast<std::uint32_t>(vocabulary_ - 1);
    for (std::int64_t t = 0; t < count; ++t) {
      const std::uint32_t u = philox_u32(words_, first + static_cast<std::uint64_t>(t));
      ids[t] = static_cast<std::uint8_t>(1 + u % words);
    }
    Sample sample;
    sample.tokens = {ids, static_cast<std::size_t>(count)};
    return sample;
  }

  std::string sample_name(std::int64_t index) const override {
    return cat("synthetic[", index, "]");
  }

 private:
  PhiloxKey lengths_, words_;
  std::int64_t longest_;
};

}  // namespace

std::unique_ptr<Dataset> make_synthetic_sequences(std::int64_t size, const ModelConfig& model,
                                                  Split split, std::uint64_t seed) {
  DTN_CHECK(model.vocabulary >= 2 && model.vocabulary <= 256,
            "synthetic sequences need a vocabulary of 2 to 256 words, not ", model.vocabulary);
  return std::make_unique<SyntheticSequences>(size, model, split, seed);
}

}  // namespace dtn
