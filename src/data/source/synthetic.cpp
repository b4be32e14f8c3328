#include <algorithm>

#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"
#include "dtn/data/datasets.h"

namespace dtn {

namespace {

constexpr std::uint32_t kPatternStream = 0x53594e50;                // "SYNP"
constexpr std::uint32_t kVectorStream = 0x53594e43;                 // "SYNC"
constexpr std::uint32_t kNoiseStream[] = {0x53594e54, 0x53594e56};  // "SYNT", "SYNV"
constexpr std::int64_t kDefaultSize[] = {1024, 256};
constexpr int kCells = 4;  // the pattern has this many cells a side
constexpr int kPatternMin = 64, kPatternRange = 128;
constexpr int kBrightness = 24;  // added to a whole image: -24 .. 24
constexpr int kNoiseShift = 2;   // noise of a pixel: (byte - 128) / 4

constexpr std::uint32_t kLengthStream[] = {0x53594e4c, 0x53594e4d};  // "SYNL", "SYNM"
constexpr std::uint32_t kWordStream[] = {0x53594e57, 0x53594e58};    // "SYNW", "SYNX"

class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(std::int64_t size, const DataConfig& data, const ModelConfig& model, Split split,
                   std::uint64_t seed)
      : seed_(seed),
        noise_stream_(kNoiseStream[static_cast<int>(split)]),
        size_in_pixels_(model.image_size),
        channels_(model.channels) {
    num_classes_ = std::max(1, model.num_classes);
    for (std::int64_t label : data.classes) num_classes_ = std::max(num_classes_, label + 1);
    labels_.resize(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) {
      labels_[static_cast<std::size_t>(i)] = i % num_classes_;
    }
    description_ = cat(size, " synthetic ", name_of(split), " images of ", size_in_pixels_);
    if (const auto field = condition_field(model)) add_condition(*field, size, model);
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    Image& image = workspace.image;
    image.reshape(size_in_pixels_.width, size_in_pixels_.height, channels_);
    int pattern[kCells * kCells * 3];
    std::uint64_t group = static_cast<std::uint64_t>(index) * groups_per_image();
    PhiloxKey noise{seed_, noise_stream_, 0};
    draw_pattern(label(index), brightness(philox_group(noise, group).v[0]), pattern);
    paint(pattern, noise, group + 1, image);
    return {.encoded = {}, .image = &image, .ready = {}};
  }

  std::string sample_name(std::int64_t index) const override {
    return cat("synthetic[", index, "]");
  }

 private:
  // A group gives sixteen noise bytes. One more group gives the image's brightness.
  std::uint64_t groups_per_image() const { return (bytes() + 15) / 16 + 1; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(size_in_pixels_.height) *
           static_cast<std::size_t>(size_in_pixels_.width) * static_cast<std::size_t>(channels_);
  }

  // Adds the condition that the model reads: every style for every class in turn, or vectors with
  // elements from -1 to 1.
  void add_condition(const FieldSpec& field, std::int64_t size, const ModelConfig& model) {
    Tensor values = Tensor::empty(shape_of(field, size), field.dtype);
    const PhiloxKey key{seed_, kVectorStream, 0};
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      if (field.dtype == DType::kInt64) {
        const std::int64_t styles = model.condition.styles.value_or(1);
        values.data<std::int64_t>()[i] = i / num_classes_ % styles;
      } else {
        const std::uint32_t u = philox_u32(key, static_cast<std::uint64_t>(i));
        values.data<float>()[i] = static_cast<float>(u) * 0x1p-31F - 1;
      }
    }
    ready_fields_[field.name] = values;
  }

  static int brightness(std::uint32_t u) {
    return static_cast<int>(u % (2 * kBrightness + 1)) - kBrightness;
  }

  // Fills pattern [kCells, kCells, channels].
  void draw_pattern(std::int64_t label, int added, int* pattern) const {
    PhiloxKey key{seed_, kPatternStream, static_cast<std::uint32_t>(label)};
    for (int i = 0; i < kCells * kCells * channels_; ++i) {
      std::uint32_t u = philox_u32(key, static_cast<std::uint64_t>(i));
      pattern[i] = kPatternMin + static_cast<int>(u % kPatternRange) + added;
    }
  }

  void paint(const int* pattern, const PhiloxKey& key, std::uint64_t group, Image& image) const {
    Philox4 words{};
    std::size_t at = 0;
    const auto& [height, width] = size_in_pixels_;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const std::int64_t cell_index = (y * kCells / height) * kCells + x * kCells / width;
        const int* cell = pattern + cell_index * channels_;
        for (int c = 0; c < channels_; ++c, ++at) {
          if (at % 16 == 0) words = philox_group(key, group + at / 16);
          int byte = static_cast<int>(words.v[at % 16 / 4] >> (8 * (at % 4)) & 0xff);
          int value = cell[c] + ((byte - 128) >> kNoiseShift);
          image.pixels[at] = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
        }
      }
    }
  }

  std::uint64_t seed_;
  std::uint32_t noise_stream_;
  ImageSize size_in_pixels_;
  int channels_;
};

// Sequences of random lengths up to model.max_length with random words of its vocabulary. Labels
// are balanced and do not depend on the words.
class SyntheticSequences final : public Dataset {
 public:
  SyntheticSequences(std::int64_t size, const ModelConfig& model, Split split, std::uint64_t seed)
      : lengths_{seed, kLengthStream[static_cast<int>(split)], 0},
        words_{seed, kWordStream[static_cast<int>(split)], 0},
        longest_(model.max_length) {
    DTN_CHECK(model.vocabulary >= 2 && model.vocabulary <= 256,
              "synthetic sequences need a vocabulary of 2 to 256 words, not ", model.vocabulary);
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

std::unique_ptr<Dataset> make_synthetic(const DataConfig& data, const ModelConfig& model,
                                        Split split, std::uint64_t seed) {
  std::int64_t size = data.size.value_or(kDefaultSize[static_cast<int>(split)]);
  if (size < 1) throw ConfigError(cat("data.size must be at least 1, got ", size));
  if (model.max_length > 0) return std::make_unique<SyntheticSequences>(size, model, split, seed);
  if (model.channels != 1 && model.channels != 3) {
    throw ConfigError(
        cat("data.dataset synthetic makes images of 1 or 3 channels, but "
            "model.channels is ",
            model.channels));
  }
  return std::make_unique<SyntheticDataset>(size, data, model, split, seed);
}

}  // namespace dtn
