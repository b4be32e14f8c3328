// Reads an analysis for drawing. A value that is absent, null or of another type counts as missing.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtn::drawing {

using AnalysisJson = nlohmann::ordered_json;

inline constexpr std::size_t kSites = 2;  // norm1 and norm2 of a block

// Returns an element or member, or null if it does not exist.
const AnalysisJson& item(const AnalysisJson& list, std::size_t index);
// Looks up a path such as "pca.raw.spread".
const AnalysisJson& member(const AnalysisJson& object, std::string_view dotted);
// Returns NaN if `value` is not a number.
double number_of(const AnalysisJson& value);
std::string text_of(const AnalysisJson& value);
// Returns all nested numbers in order; null becomes NaN. Empty if `list` is not a list.
std::vector<double> numbers_of(const AnalysisJson& list);

struct MapSize {
  std::size_t rows = 0, columns = 0;
  bool operator==(const MapSize&) const = default;
};

// One checkpoint of the analysis.
struct AnalyzedRun {
  std::size_t index = 0;  // index of the checkpoint; selects colour and marker
  std::string name, normalizer;
  // Index of the run of which this one is the state before training.
  std::optional<std::size_t> before_training_of;
  const AnalysisJson* json = nullptr;
  std::vector<std::size_t> heads;  // [L]
  std::vector<MapSize> grids;      // [L]

  std::size_t depth() const { return heads.size(); }
  const AnalysisJson& at(std::string_view dotted) const { return member(*json, dotted); }
  // Returns [heads] from a key [L][H] or, with a site, [L][2][H].
  std::vector<double> of_heads(std::string_view key, std::size_t layer,
                               std::optional<std::size_t> site = {}) const;
  // Returns [heads]: standard deviation of the tokens' lengths, divided by their mean.
  std::vector<double> magnitude_spread(std::size_t layer, std::size_t site) const;
};

std::vector<AnalyzedRun> read_runs(const AnalysisJson& analysis);

// Median of the values that are not missing; NaN if all are missing.
double median_of(std::vector<double> values);
// True if at least one value is a number.
bool any_number(const std::vector<double>& values);

// Describes in words where the runs differ most: at most `count` sentences, the largest difference
// first. Each covers one quantity, in the layer where the medians over the heads of two runs differ
// by the largest factor. All runs are compared with the first. For a single run: the quantities
// that vary most over the layers.
std::vector<std::string> largest_differences(const std::vector<AnalyzedRun>& runs,
                                             std::size_t count);

// "64 images of fashion_mnist"
std::string inputs_text(const AnalysisJson& analysis);
// "norm1 (before attention)"
std::string site_name(std::size_t site);

}  // namespace dtn::drawing
