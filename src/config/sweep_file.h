// A sweep file as it is written, with what it inherits: values are checked one by one, the configs
// of the variants are not made yet.
#pragma once

#include <optional>
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
  std::vector<VariantFile> variants;
};

// The place of a variant; fails at the value of `key` that names it when there is none.
std::size_t find_variant(const SweepFile& sweep, const std::string& name, const Where& where,
                         const char* key);

SweepFile read_sweep_file(const std::string& path, const ConfigSchemas& schemas);

}  // namespace dtn::config
