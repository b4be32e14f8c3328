#include "tasks/translate/corruption_list.h"

#include <algorithm>
#include <string>

#include "config/document.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

// Joins the names of the corruptions for which `chosen` holds.
template <class Chosen>
std::string names_of(Chosen chosen) {
  std::string names;
  for (const Corruption& c : corruptions()) {
    if (chosen(c)) names += cat(names.empty() ? "" : ", ", c.name);
  }
  return names;
}

[[noreturn]] void fail_unknown(const std::string& entry, const std::string& name) {
  std::vector<std::string> known;
  for (const Corruption& c : corruptions()) known.emplace_back(c.name);
  throw ConfigError(cat("data.corruptions: `", config::shown(entry), "`: there is no corruption '",
                        config::shown(name), "'", config::did_you_mean(name, known),
                        " (known: ", config::join(known), ")"));
}

// Reads "fog/3" or "fog/1-5".
std::vector<CorruptionCell> cells_of_entry(const std::string& entry) {
  const std::size_t slash = entry.find('/');
  const std::string name = entry.substr(0, slash);
  const Corruption* corruption = find_corruption(name);
  if (!corruption) fail_unknown(entry, name);
  if (slash == std::string::npos) {
    throw ConfigError(cat("data.corruptions: `", entry,
                          "` has no severity; write one from 1 to 5, ", name, "/3, or a range, ",
                          name, "/1-5"));
  }
  try {
    return cells_of(std::vector{corruption}, parse_severities(entry.substr(slash + 1)));
  } catch (const ConfigError& e) {
    throw ConfigError(cat("data.corruptions: `", config::shown(entry), "`: ", e.what()));
  }
}

}  // namespace

std::vector<CorruptionCell> corruption_list(const DataConfig& data) {
  std::vector<CorruptionCell> cells;
  for (const std::string& entry : data.corruptions) {
    for (const CorruptionCell& cell : cells_of_entry(entry)) {
      const auto same = [&](const CorruptionCell& other) { return other.name() == cell.name(); };
      if (std::ranges::any_of(cells, same)) {
        throw ConfigError(cat("data.corruptions: `", entry, "`: ", cell.name(),
                              " is there twice; remove one of the two"));
      }
      cells.push_back(cell);
    }
  }
  return cells;
}

std::optional<ConfigProblem> corruption_list_problem(const ExperimentConfig& config) {
  std::vector<CorruptionCell> cells;
  try {
    cells = corruption_list(config.data);
  } catch (const ConfigError& e) {
    return ConfigProblem{{"data.corruptions"}, e.what()};
  }
  const ImageSize& size = config.model.image_size;
  const auto fits = [&](const Corruption& c) { return adapts_to(c, size.width, size.height); };
  for (const CorruptionCell& cell : cells) {
    if (fits(*cell.corruption)) continue;
    return ConfigProblem{{"data.corruptions", "model.image_size"},
                         cat("data.corruptions: `", cell.name(),
                             "` is defined for images of 224 x 224, but "
                             "model.image_size is ",
                             size, "; set it to 224, or choose from ", names_of(fits))};
  }
  return std::nullopt;
}

}  // namespace dtn
