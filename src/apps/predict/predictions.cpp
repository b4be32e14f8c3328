#include "apps/predict/predictions.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "apps/common/json_files.h"
#include "core/format.h"
#include "data/table/csv.h"
#include "dtn/core/check.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

void print_line(const Json& json) { std::fputs(json_text(json).c_str(), stdout); }

}  // namespace

std::vector<Guess> best_guesses(const float* logits, std::int64_t classes, std::int64_t k) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(classes));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  k = std::min(k, classes);
  // NaN counts as minus infinity, so that the comparison is a strict weak order.
  const auto score = [&](std::int64_t i) { return std::isnan(logits[i]) ? -INFINITY : logits[i]; };
  std::partial_sort(order.begin(), order.begin() + k, order.end(),
                    [&](std::int64_t a, std::int64_t b) {
                      return score(a) != score(b) ? score(a) > score(b) : a < b;
                    });
  const double most = static_cast<double>(logits[order.front()]);
  double sum = 0;
  for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(static_cast<double>(logits[i]) - most);
  std::vector<Guess> guesses;
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t label = order[static_cast<std::size_t>(i)];
    guesses.push_back({label, std::exp(static_cast<double>(logits[label]) - most) / sum});
  }
  return guesses;
}

PredictionWriter::PredictionWriter(const PredictionFormat& format, std::vector<std::string> names)
    : format_(format), names_(std::move(names)) {
  if (format.csv.empty()) return;
  table_ = std::make_unique<AtomicFile>(format.csv);
  table_->write("file,rank,label,name,probability\n");
}

std::string PredictionWriter::name_of(std::int64_t label) const {
  const auto i = static_cast<std::size_t>(label);
  return i < names_.size() ? names_[i] : cat("class ", label);
}

void PredictionWriter::add(const std::string& file, const std::vector<Guess>& guesses) {
  if (format_.text) std::printf("%s\n", file.c_str());
  Json top = Json::array();
  std::string rows;
  for (std::size_t i = 0; i < guesses.size(); ++i) {
    const auto [label, probability] = guesses[i];
    const std::string name = name_of(label);
    if (format_.text) std::printf("  %6.2f %%  %s\n", 100 * probability, name.c_str());
    if (format_.json) {
      top.push_back({{"label", label}, {"name", name}, {"probability", probability}});
    }
    if (table_) {
      rows += cat(csv_field(file), ",", i + 1, ",", label, ",", csv_field(name), ",",
                  format("%.6g", probability), "\n");
    }
  }
  if (format_.json) print_line({{"file", file}, {"top", std::move(top)}});
  if (table_) table_->write(rows);
}

void PredictionWriter::add_fault(const std::string& file, const std::string& what) {
  if (format_.json) print_line({{"file", file}, {"error", what}});
}

void PredictionWriter::finish() {
  std::fflush(stdout);
  if (table_) table_->commit();
}

}  // namespace dtn::app
