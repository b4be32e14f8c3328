#include "apps/predict/predictions.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "apps/common/json_files.h"
#include "core/format.h"
#include "data/table/csv.h"
#include "dtn/core/check.h"
#include "tasks/label_figures/label_figures.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

void print_line(const Json& json) { std::fputs(json_text(json).c_str(), stdout); }

// Returns the labels of the k largest logits, the largest first.
std::vector<std::int64_t> largest(const float* logits, std::int64_t classes, std::int64_t k) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(classes));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  // NaN counts as minus infinity, so that the comparison is a strict weak order.
  const auto score = [&](std::int64_t i) { return std::isnan(logits[i]) ? -INFINITY : logits[i]; };
  std::partial_sort(order.begin(), order.begin() + k, order.end(),
                    [&](std::int64_t a, std::int64_t b) {
                      return score(a) != score(b) ? score(a) > score(b) : a < b;
                    });
  order.resize(static_cast<std::size_t>(k));
  return order;
}

}  // namespace

std::vector<Guess> best_guesses(const float* logits, std::int64_t classes, std::int64_t k) {
  const std::vector<std::int64_t> order = largest(logits, classes, std::min(k, classes));
  const double most = static_cast<double>(logits[order.front()]);
  double sum = 0;
  for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(static_cast<double>(logits[i]) - most);
  std::vector<Guess> guesses;
  for (const std::int64_t label : order) {
    guesses.push_back({label, std::exp(static_cast<double>(logits[label]) - most) / sum});
  }
  return guesses;
}

std::vector<Guess> best_labels(const float* logits, std::int64_t classes, std::int64_t k,
                               double threshold) {
  const auto reaches = [&](float logit) { return probability_of(logit) >= threshold; };
  const std::int64_t predicted = std::count_if(logits, logits + classes, reaches);
  std::vector<Guess> guesses;
  for (const std::int64_t label :
       largest(logits, classes, std::max(std::min(k, classes), predicted))) {
    guesses.push_back({label, probability_of(logits[label]), reaches(logits[label])});
  }
  return guesses;
}

PredictionWriter::PredictionWriter(const PredictionFormat& format, std::vector<std::string> names)
    : format_(format), names_(std::move(names)) {
  if (format.csv.empty()) return;
  table_ = std::make_unique<AtomicFile>(format.csv);
  table_->write(
      cat("file,rank,label,name,probability", format.threshold ? ",predicted" : "", "\n"));
}

std::string PredictionWriter::name_of(std::int64_t label) const {
  const auto i = static_cast<std::size_t>(label);
  return i < names_.size() ? names_[i] : cat("class ", label);
}

void PredictionWriter::print(const std::vector<Guess>& guesses) const {
  bool any = false;
  for (const Guess& guess : guesses) {
    if (!guess.predicted) continue;
    std::printf("  %6.2f %%  %s\n", 100 * guess.probability, name_of(guess.label).c_str());
    any = true;
  }
  if (any || guesses.empty()) return;
  std::printf("  none reaches %.2f %%; the closest, with %.2f %%: %s\n",
              100 * format_.threshold.value_or(0), 100 * guesses[0].probability,
              name_of(guesses[0].label).c_str());
}

void PredictionWriter::add(const std::string& file, const std::vector<Guess>& guesses) {
  if (format_.text) {
    std::printf("%s\n", file.c_str());
    print(guesses);
  }
  Json top = Json::array();
  std::string rows;
  for (std::size_t i = 0; i < guesses.size(); ++i) {
    const auto [label, probability, predicted] = guesses[i];
    const std::string name = name_of(label);
    if (format_.json) {
      top.push_back({{"label", label}, {"name", name}, {"probability", probability}});
      if (format_.threshold) top.back()["predicted"] = predicted;
    }
    if (table_) {
      rows += cat(csv_field(file), ",", i + 1, ",", label, ",", csv_field(name), ",",
                  format("%.6g", probability), format_.threshold ? (predicted ? ",1" : ",0") : "",
                  "\n");
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
