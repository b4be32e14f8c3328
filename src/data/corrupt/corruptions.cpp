#include "data/corrupt/corruptions.h"

#include <algorithm>
#include <array>

#include "config/document.h"
#include "core/text.h"
#include "data/corrupt/families.h"
#include "data/sample/image_ops.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr Corruption kCorruptions[] = {
    {"gaussian_noise", "noise", corrupt::gaussian_noise, true},
    {"shot_noise", "noise", corrupt::shot_noise, true},
    {"impulse_noise", "noise", corrupt::impulse_noise, true},
    {"defocus_blur", "blur", corrupt::defocus_blur, false},
    {"glass_blur", "blur", corrupt::glass_blur, false},
    {"motion_blur", "blur", corrupt::motion_blur, false},
    {"zoom_blur", "blur", corrupt::zoom_blur, false},
    {"snow", "weather", corrupt::snow, false},
    {"frost", "weather", corrupt::frost, false},
    {"fog", "weather", corrupt::fog, false, true},
    {"brightness", "weather", corrupt::brightness, true},
    {"contrast", "digital", corrupt::contrast, true},
    {"elastic_transform", "digital", corrupt::elastic_transform, false},
    {"pixelate", "digital", corrupt::pixelate, false},
    {"jpeg_compression", "digital", corrupt::jpeg_compression, true},
    {"speckle_noise", "extra", corrupt::speckle_noise, true},
    {"gaussian_blur", "extra", corrupt::gaussian_blur, false, true},
    {"spatter", "extra", corrupt::spatter, false},
    {"saturate", "extra", corrupt::saturate, true},
};

[[noreturn]] void fail_unknown(const std::string& name) {
  std::vector<std::string> names = {"all"};
  for (const Corruption& c : kCorruptions) names.emplace_back(c.name);
  std::string known;
  for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
  throw ConfigError(cat("there is no corruption '", name, "'", config::did_you_mean(name, names),
                        " (known: ", known, ")"));
}

// Parses "3" or "2-4".
std::array<int, 2> range_of(std::string_view item) {
  const auto digit = [&](std::size_t at) { return at < item.size() ? item[at] - '0' : 0; };
  const bool single = item.size() == 1, range = item.size() == 3 && item[1] == '-';
  const int first = digit(0), last = single ? first : digit(2);
  const auto fits = [](int s) { return 1 <= s && s <= static_cast<int>(kSeverities); };
  if (!(single || range) || !fits(first) || !fits(last) || last < first) {
    throw ConfigError(cat("there is no severity '", item,
                          "'; severities are 1 to 5: a list such as 1-5, 3 or 1,3-4"));
  }
  return {first, last};
}

}  // namespace

std::span<const Corruption> corruptions() { return kCorruptions; }

const Corruption* find_corruption(std::string_view name) {
  const Corruption* found = std::ranges::find(kCorruptions, name, &Corruption::name);
  return found == std::end(kCorruptions) ? nullptr : found;
}

bool is_frost(const Corruption& corruption) { return corruption.apply == corrupt::frost; }

std::string CorruptionCell::name() const { return cat(corruption->name, "/", severity); }

std::vector<const Corruption*> parse_corruptions(const std::string& names) {
  std::array<bool, std::size(kCorruptions)> wanted{};
  if (names.empty()) {
    std::fill_n(wanted.begin(), kBenchmarkCorruptions, true);
  } else {
    for (const std::string_view name : split(names, ',')) {
      const Corruption* found = find_corruption(name);
      if (name == "all") {
        wanted.fill(true);
      } else if (found) {
        wanted[static_cast<std::size_t>(found - kCorruptions)] = true;
      } else {
        fail_unknown(std::string(name));
      }
    }
  }
  std::vector<const Corruption*> chosen;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) chosen.push_back(&kCorruptions[i]);
  }
  return chosen;
}

std::vector<int> parse_severities(const std::string& text) {
  std::array<bool, kSeverities> wanted{};
  for (const std::string_view item : split(text, ',')) {
    const auto [first, last] = range_of(item);
    for (int s = first; s <= last; ++s) wanted[static_cast<std::size_t>(s) - 1] = true;
  }
  std::vector<int> chosen;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) chosen.push_back(static_cast<int>(i) + 1);
  }
  return chosen;
}

std::vector<CorruptionCell> cells_of(std::span<const Corruption* const> chosen,
                                     std::span<const int> severities) {
  std::vector<CorruptionCell> cells;
  for (const Corruption* corruption : chosen) {
    for (int severity : severities) cells.push_back({corruption, severity});
  }
  return cells;
}

bool adapts_to(const Corruption& corruption, int width, int height) {
  return corruption.any_size || corruption.adapts ||
         (width == kCorruptedSide && height == kCorruptedSide);
}

void apply_corruption(const Image& image, const CorruptionCell& cell, const CorruptionKey& key,
                      const FrostTextures* frost, CorruptScratch& scratch, Image& out) {
  const Corruption& c = *cell.corruption;
  DTN_CHECK(c.any_size || (image.width == kCorruptedSide && image.height == kCorruptedSide), c.name,
            " needs images of 224 x 224, not ", image.width, " x ", image.height);
  apply_adapted_corruption(image, cell, key, frost, scratch, out);
}

void apply_adapted_corruption(const Image& image, const CorruptionCell& cell,
                              const CorruptionKey& key, const FrostTextures* frost,
                              CorruptScratch& scratch, Image& out) {
  const Corruption& c = *cell.corruption;
  DTN_CHECK(1 <= cell.severity && cell.severity <= static_cast<int>(kSeverities), "severity ",
            cell.severity);
  check_image(image);
  DTN_CHECK(image.channels == 3, c.name, " needs images of 3 channels");
  DTN_CHECK(adapts_to(c, image.width, image.height), c.name, " needs images of 224 x 224, not ",
            image.width, " x ", image.height);
  Draws draws(key.seed, c.name, cell.severity, key.item);
  out.reshape(image.width, image.height, image.channels);
  c.apply(image, {cell.severity, draws, scratch, frost}, out);
}

}  // namespace dtn
