#include "config/sweeps/sweep_paper.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "config/codec.h"
#include "config/sweeps/sweep_file.h"

namespace dtn::config {
namespace {

constexpr const char* kParameters = "params";
constexpr const char* kMultiplyAdds = "flops";
constexpr double kMaxSize = 1e15;
const std::array<std::string, 2> kCorruptionKeys = {"mce", "ce"};

// Returns the factor of a unit, or 0 for another letter.
double factor_of(char unit) {
  switch (unit) {
    case 'k': return 1e3;
    case 'M': return 1e6;
    case 'G': return 1e9;
    case 'T': return 1e12;
    default: return 0;
  }
}

// Reads a count such as 22.1M, 5.77G or 22050664.
std::int64_t read_size(const Node& node, const std::string& path) {
  std::string digits = node.is_scalar() ? node.text : "";
  const double factor = digits.empty() ? 0 : factor_of(digits.back());
  if (factor > 0) digits.pop_back();
  double value = 0;
  const bool number = parse_number(digits, value);
  // 22.1 without a unit is a slip. 22.1M is 22,100,000, up to the rounding of the product.
  if (!number || (factor == 0 && value != std::floor(value))) {
    fail(node.where, path, " must be a count such as 22.1M, 5.77G or 22050664, not ", shown(node));
  }
  const double size = std::round(value * std::max(factor, 1.0));
  check_range({node, path, ""}, between(1, kMaxSize), size, shown(node.text));
  return static_cast<std::int64_t>(size);
}

PaperSuite read_corruptions(const Node& map, const std::string& path) {
  check_keys(map, path.c_str(), kCorruptionKeys);
  PaperSuite suite;
  if (const Node* mce = map.value_at("mce")) {
    read_value({*mce, path + ".mce", ""}, at_least(0), suite.figure);
  }
  const Node* list = map.value_at("ce");
  if (list == nullptr) return suite;
  if (!list->is_list() || list->items.size() != kPaperCorruptions) {
    fail(list->where, path, ".ce must be a list of ", kPaperCorruptions,
         " corruption errors, from Gaussian noise to JPEG, not ",
         list->is_list() ? cat(list->items.size()) : shown(*list));
  }
  for (const Node& item : list->items) {
    read_value({item, path + ".ce", ""}, at_least(0), suite.corruption_errors.emplace_back());
  }
  return suite;
}

}  // namespace

PaperResult read_paper(const Node& node) {
  PaperResult paper;
  const auto number = [](const Node& n, const std::string& path) {
    Written<double> written{0, n.where};
    read_value({n, path, "the paper's figure"}, {}, written.value);
    return written;
  };
  if (!node.is_map()) {
    paper.metric = number(node, "paper");
    return paper;
  }
  for (const Member& m : node.members) {
    const std::string path = "paper." + m.key;
    if (m.value.is_null()) continue;
    if (m.key == kParameters) {
      paper.parameters = read_size(m.value, path);
    } else if (m.key == kMultiplyAdds) {
      paper.multiply_adds = read_size(m.value, path);
    } else {
      paper.figures.emplace_back(m.key, number(m.value, path));
    }
  }
  return paper;
}

std::map<std::string, PaperSuite> read_paper_suites(const Node& node) {
  std::map<std::string, PaperSuite> suites;
  if (node.is_null()) return suites;
  check_keys(node, "paper_suites", kSweepSuites);
  for (const Member& m : node.members) {
    const std::string path = "paper_suites." + m.key;
    if (m.value.is_map() && m.key == kSweepSuites.front()) {
      suites[m.key] = read_corruptions(m.value, path);
    } else {
      read_value({m.value, path, "the paper's figure"}, at_least(0), suites[m.key].figure);
    }
  }
  return suites;
}

void check_figure(const Written<double>& written, const FigureSchema& figure, bool zero,
                  const std::string& path) {
  if (!figure.percent) return;
  Node node;
  node.where = written.where;
  check_range({node, path, ""}, {.low = 0, .high = 100, .low_open = !zero}, written.value,
              number_text(written.value));
}

void set_paper(const PaperResult& paper, const SweepMetric& metric,
               std::span<const FigureSchema> figures, SweepVariant& variant) {
  if (paper.metric) {
    check_figure(*paper.metric, metric.figure, true, "paper");
    variant.paper = paper.metric->value;
  }
  variant.paper_parameters = paper.parameters;
  variant.paper_multiply_adds = paper.multiply_adds;
  for (const auto& [name, written] : paper.figures) {
    const auto figure = std::ranges::find(figures, name, &FigureSchema::name);
    if (figure == figures.end()) {
      std::vector<std::string> known = {kParameters, kMultiplyAdds};
      for (const FigureSchema& f : figures) known.push_back(f.name);
      fail(written.where, "paper: unknown figure '", shown(name), "'",
           did_you_mean(name, known, "."), " Figures: ", join(known));
    }
    check_figure(written, *figure, true, "paper." + name);
    if (name == metric.figure.name) {
      variant.paper = written.value;
    } else {
      variant.paper_figures[name] = written.value;
    }
  }
}

std::vector<std::string> read_notes(const Node& node) {
  if (node.is_null()) return {};
  if (!node.is_list()) return {read_line(node, "notes")};
  std::vector<std::string> notes;
  for (const Node& item : node.items) notes.push_back(read_line(item, "notes"));
  return notes;
}

}  // namespace dtn::config
