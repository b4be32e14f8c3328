// Content of a sweep file, with everything that it inherits. Single values are checked; the configs
// of the variants are not built yet.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/document.h"
#include "config/sweeps/sweep_config.h"
#include "config/sweeps/sweep_features.h"
#include "config/sweeps/sweep_paper.h"
#include "config/sweeps/sweep_samples.h"

namespace dtn::config {

struct VariantFile {
  std::string name;
  Where where;
  std::optional<std::string> label;
  std::optional<PaperResult> paper;
  std::map<std::string, PaperSuite> paper_suites;
  std::vector<PaperFeatures> paper_features;
  std::optional<std::vector<std::uint64_t>> seeds;
  std::optional<Written<std::string>> base;  // a path
  std::vector<Node> sets;                    // config keys; later ones override
};

struct SweepFile {
  Where where;
  std::optional<std::string> name, title;
  std::optional<Written<std::string>> base;  // a path
  std::vector<Node> sets;
  std::optional<std::vector<std::uint64_t>> seeds;
  std::optional<Written<std::string>> metric;
  std::optional<Where> ema;  // set: evaluate the moving average of the weights
  std::vector<Written<double>> milestones;
  std::optional<Written<std::string>> baseline;
  std::vector<std::string> suites;
  std::vector<SweepColumn> columns;
  FeaturesFile features;
  SamplesFile samples;
  std::vector<std::string> notes;
  std::vector<VariantFile> variants;
};

// Throws an error for a key that is not in `known`. `what` names the map, for example "a sweep".
void check_keys(const Node& map, const char* what, std::span<const std::string> known);
// Reads a text that is not empty.
std::string read_line(const Node& node, const std::string& path);
// Reads a text that can be a folder name and part of a list.
std::string read_name(const Node& node, const std::string& path);
// Reads the value of evaluate: a list of kSweepSuites.
std::vector<std::string> read_suites(const Node& node);

// Returns the index of a variant. If there is none, the error points to the value of `key`.
std::size_t find_variant(const SweepFile& sweep, const std::string& name, const Where& where,
                         const char* key);

SweepFile read_sweep_file(const std::string& path, const ConfigSchemas& schemas);

}  // namespace dtn::config
