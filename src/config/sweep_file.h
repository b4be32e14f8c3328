// A sweep file as it is written, with what it inherits: values are checked one by one, the configs
// of the variants are not made yet.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/document.h"
#include "config/sweep.h"

namespace dtn::config {

// A value and where it was written.
template <class T>
struct Written {
  T value{};
  Where where;
};

struct VariantFile {
  std::string name;
  Where where;
  std::optional<std::string> label;
  std::optional<Written<double>> paper;
  std::map<std::string, double> paper_suites;
  std::optional<std::vector<std::uint64_t>> seeds;
  std::optional<Written<std::string>> base;  // a path
  std::vector<Node> sets;                    // keys of a config, the last on top
};

struct SweepFile {
  Where where;
  std::optional<std::string> name, title;
  std::optional<Written<std::string>> base;  // a path
  std::vector<Node> sets;
  std::optional<std::vector<std::uint64_t>> seeds;
  std::optional<Written<std::string>> metric;
  std::optional<Where> ema;  // set when the average of the weights is judged
  std::vector<Written<double>> milestones;
  std::optional<Written<std::string>> baseline;
  std::vector<std::string> suites;
  std::vector<VariantFile> variants;
};

// Fails at a key that is not among those of `what`, "a sweep" say.
void check_keys(const Node& map, const char* what, std::span<const std::string> known);
// A text that is not empty.
std::string read_line(const Node& node, const std::string& path);
// What may name a folder and stand in a list.
std::string read_name(const Node& node, const std::string& path);
// The value of evaluate: a list of kSweepSuites.
std::vector<std::string> read_suites(const Node& node);

// The place of a variant; fails at the value of `key` that names it when there is none.
std::size_t find_variant(const SweepFile& sweep, const std::string& name, const Where& where,
                         const char* key);

SweepFile read_sweep_file(const std::string& path, const ConfigSchemas& schemas);

}  // namespace dtn::config
