#include <algorithm>
#include <cmath>

#include "apps/report/analysis/analysis_json.h"
#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

constexpr double kMinFactor = 1.05;  // runs with a smaller factor count as equal

// A quantity with one number per place of a run: a layer or one of its norms. NaN: missing.
struct Quantity {
  std::string name, unit;
  std::vector<double> (*values)(const AnalyzedRun&);  // [L] or [L][2]
  std::size_t places = 1;                             // per layer
};

// Returns value(layer, site) of each place.
template <class Value>
std::vector<double> each_place(const AnalyzedRun& run, std::size_t places, Value value) {
  std::vector<double> out;
  for (std::size_t l = 0; l < run.depth(); ++l) {
    for (std::size_t s = 0; s < places; ++s) out.push_back(value(l, s));
  }
  return out;
}

std::vector<double> medians_of_layers(const AnalyzedRun& run, std::string_view key) {
  return each_place(run, 1, [&](auto l, auto) { return median_of(run.of_heads(key, l)); });
}

std::vector<double> medians_of_sites(const AnalyzedRun& run, std::string_view key) {
  return each_place(run, kSites,
                    [&](auto l, auto s) { return median_of(run.of_heads(key, l, s)); });
}

std::vector<double> magnitude_spread(const AnalyzedRun& run) {
  return each_place(run, kSites,
                    [&](auto l, auto s) { return median_of(run.magnitude_spread(l, s)); });
}

// Returns [L] from a key [L][...]: element `index` of each layer.
std::vector<double> elements(const AnalyzedRun& run, std::string_view key, std::size_t index) {
  return each_place(run, 1,
                    [&](auto l, auto) { return number_of(item(item(run.at(key), l), index)); });
}

std::vector<double> after_norms(const AnalyzedRun& run, std::string_view key) {
  return each_place(run, kSites, [&](auto l, auto s) {
    return number_of(item(item(item(run.at(key), l), s), 1));
  });
}

std::vector<Quantity> quantities() {
  return {
      {"the relative spread of token magnitudes", "", magnitude_spread, kSites},
      {"the attention distance", " patches",
       [](const AnalyzedRun& r) { return medians_of_layers(r, "attention_distance"); }},
      {"the entropy of attention", " nats",
       [](const AnalyzedRun& r) { return medians_of_layers(r, "attention_entropy"); }},
      {"the attention to the class token", "",
       [](const AnalyzedRun& r) { return medians_of_layers(r, "attention_to_class"); }},
      {"the variation coefficient", "",
       [](const AnalyzedRun& r) { return medians_of_sites(r, "variation_coefficient"); }, kSites},
      {"the cosine between tokens after the norm", "",
       [](const AnalyzedRun& r) { return after_norms(r, "token_cosine"); }, kSites},
      {"the radius of the statistics", " patches",
       [](const AnalyzedRun& r) { return medians_of_sites(r, "p_radius"); }, kSites},
      {"the magnitude of the attention branch", "",
       [](const AnalyzedRun& r) { return elements(r, "branch_rms", 0); }},
      {"the magnitude of the MLP branch", "",
       [](const AnalyzedRun& r) { return elements(r, "branch_rms", 1); }},
      {"the gradient norm of a block", "",
       [](const AnalyzedRun& r) {
         std::vector<double> out = numbers_of(r.at("gradient_norm"));
         out.resize(r.depth(), std::nan(""));
         return out;
       }},
  };
}

struct Finding {
  double factor = 0;  // larger value / smaller value
  std::string text;
};

std::string place_text(const Quantity& q, std::size_t place) {
  return q.places == 1 ? cat("layer ", place + 1)
                       : cat("norm", place % q.places + 1, " of layer ", place / q.places + 1);
}

double factor_of(double a, double b) { return a > 1e-9 && b > 1e-9 ? std::max(a / b, b / a) : 0; }

Finding between_runs(const Quantity& q, const AnalyzedRun& first, const AnalyzedRun& other) {
  const std::vector<double> a = q.values(first), b = q.values(other);
  Finding best;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double factor = factor_of(a[i], b[i]);
    if (!(factor > best.factor)) continue;
    best = {factor,
            cat(other.name, " and ", first.name, " differ in ", q.name, ", most in ",
                place_text(q, i), ": ", plot::readable(b[i], 3), q.unit, " against ",
                plot::readable(a[i], 3), q.unit, " (", plot::readable(b[i] / a[i], 3), " times).")};
  }
  return best;
}

Finding along_run(const Quantity& q, const AnalyzedRun& run) {
  const std::vector<double> values = q.values(run);
  std::size_t low = values.size(), high = values.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] > 1e-9)) continue;
    if (low == values.size() || values[i] < values[low]) low = i;
    if (high == values.size() || values[i] > values[high]) high = i;
  }
  if (low == values.size()) return {};
  return {factor_of(values[low], values[high]),
          cat("In ", run.name, " ", q.name, " goes from ", plot::readable(values[low], 3), q.unit,
              " (", place_text(q, low), ") to ", plot::readable(values[high], 3), q.unit, " (",
              place_text(q, high), ").")};
}

}  // namespace

std::vector<std::string> largest_differences(const std::vector<AnalyzedRun>& runs,
                                             std::size_t count) {
  std::vector<Finding> findings;
  for (const Quantity& q : quantities()) {
    Finding best;
    for (std::size_t r = 1; r < runs.size(); ++r) {
      Finding f = between_runs(q, runs[0], runs[r]);
      if (f.factor > best.factor) best = std::move(f);
    }
    if (runs.size() == 1) best = along_run(q, runs[0]);
    if (best.factor >= kMinFactor) findings.push_back(std::move(best));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.factor > b.factor; });
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(count, findings.size()); ++i) {
    out.push_back(findings[i].text);
  }
  return out;
}

}  // namespace dtn::drawing
