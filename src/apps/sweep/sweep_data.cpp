// Writes the tables of a sweep for programs: CSV and JSON.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "apps/common/json_files.h"
#include "apps/sweep/sweep_report.h"
#include "config/codec.h"
#include "config/document.h"
#include "core/format.h"
#include "data/table/csv.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/version.h"

namespace dtn {
namespace {

using Json = nlohmann::ordered_json;

// One of the statistics, if there are any.
std::optional<double> part_of(const std::optional<Statistics>& s, double Statistics::*part) {
  return s ? std::optional((*s).*part) : std::nullopt;
}

// Hash of the config, without the seed.
std::string hash_of(const SweepVariant& variant) {
  ExperimentConfig config = variant.config;
  config.seed = 0;
  return dtn::hash_of(config);
}

// Returns our value of each of the paper's other figures, and the paper's if it is known.
Json figures_json(const SweepReport& report, const VariantResult& r) {
  Json json = Json::object();
  const SweepVariant& variant = report.sweep.variants[r.variant];
  for (std::size_t i = 0; i < r.figures.size(); ++i) {
    const std::string& name = report.sweep.paper_figures[i].name;
    const auto paper = variant.paper_figures.find(name);
    json[name] = {{"mean", json_of(part_of(r.figures[i], &Statistics::mean))},
                  {"std", json_of(r.figures[i] ? r.figures[i]->std : std::nullopt)},
                  {"paper", paper == variant.paper_figures.end() ? Json() : Json(paper->second)}};
  }
  return json;
}

// Returns each of the sweep's columns, with every seed's value.
Json columns_json(const SweepReport& report, const VariantResult& r) {
  Json json = Json::object();
  for (std::size_t i = 0; i < r.columns.size(); ++i) {
    const std::optional<Statistics>& s = r.columns[i];
    Json& entry = json[report.sweep.columns[i].name];
    entry = {{"n", s ? s->n : 0},
             {"mean", json_of(part_of(s, &Statistics::mean))},
             {"std", json_of(s ? s->std : std::nullopt)}};
    entry["values"] = Json::array();
    for (const RunResult& run : r.runs) {
      if (!std::isfinite(run.columns[i])) continue;
      entry["values"].push_back({{"seed", run.seed}, {"value", run.columns[i]}});
    }
  }
  return json;
}

// Adds the paper's results on the robustness suites, as the sweep file has them.
void add_paper_suites(const SweepVariant& variant, Json& json) {
  for (const auto& [suite, paper] : variant.paper_suites) {
    json["paper_suites"][suite]["figure"] = json_of(paper.figure);
    if (!paper.corruption_errors.empty()) {
      json["paper_suites"][suite]["ce"] = paper.corruption_errors;
    }
  }
}

// A count of multiply-adds, which is whole.
std::int64_t whole(double count) { return std::llround(count); }

void add_corruption_errors(const SweepReport& report, const VariantResult& r, Json& json) {
  for (const CorruptionRow& row : corruption_rows(report.results, report.sweep.baseline)) {
    const CorruptionRow::Cell& cell = row.cells[r.variant];
    if (!cell.error) continue;
    Json& entry = json["suites"]["imagenet-c"]["errors"][row.name];
    entry = {{"mean", cell.error->mean},
             {"std", json_of(cell.error->std)},
             {"to_baseline", json_of(cell.to_baseline)}};
    if (cell.ce) entry["ce"] = cell.ce->mean;
  }
}

Json values_json(const VariantResult& r, std::size_t point) {
  Json values = Json::array();
  for (const RunResult& run : r.runs) {
    if (run.features[point])
      values.push_back({{"seed", run.seed}, {"value", *run.features[point]}});
  }
  return values;
}

// Returns the results of each evaluation of features, one for each point.
Json features_json(const SweepReport& report, const VariantResult& r) {
  const SweepConfig& sweep = report.sweep;
  const std::vector<FeaturePoint> points = feature_points(sweep.features);
  Json json = Json::object();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::optional<Statistics>& s = r.features[i];
    Json entry = Json::object();
    if (points[i].epoch) entry["epoch"] = *points[i].epoch;
    entry["n"] = s ? s->n : 0;
    entry["mean"] = json_of(part_of(s, &Statistics::mean));
    entry["std"] = json_of(s ? s->std : std::nullopt);
    entry["values"] = values_json(r, i);
    entry["paper"] = json_of(paper_feature(sweep, r.variant, points[i]));
    json[sweep.features.evaluations[points[i].evaluation].name].push_back(std::move(entry));
  }
  return json;
}

Json evaluations_json(const SweepFeatures& features) {
  Json json = Json::array();
  for (const SweepEvaluation& evaluation : features.evaluations) {
    Json& entry = json.emplace_back();
    entry = {{"name", evaluation.name}, {"label", evaluation.label}};
    entry.update(keys_json(evaluation.how));
  }
  return json;
}

Json score_json(const std::optional<SampleScore>& score) {
  if (!score) return nullptr;
  return {{"agreement", score->agreement}, {"frechet_distance", score->distance}};
}

Json statistics_json(const std::optional<Statistics>& s) {
  return {{"n", s ? s->n : 0},
          {"mean", json_of(part_of(s, &Statistics::mean))},
          {"std", json_of(s ? s->std : std::nullopt)}};
}

// Returns the results of the samples of a variant, one for each guidance scale.
Json samples_json(const SweepSamples& samples, const VariantResult& r) {
  Json json = Json::array();
  for (std::size_t i = 0; i < r.samples.size(); ++i) {
    Json& entry = json.emplace_back();
    entry = {{"guidance", samples.guidance[i]},
             {"agreement", statistics_json(r.samples[i].agreement)},
             {"frechet_distance", statistics_json(r.samples[i].distance)}};
    entry["values"] = Json::array();
    for (const RunResult& run : r.runs) {
      if (!run.samples[i]) continue;
      Json value = {{"seed", run.seed}};
      value.update(score_json(run.samples[i]->samples));
      entry["values"].push_back(std::move(value));
    }
  }
  return json;
}

// Returns the keys of the section, and the references of each guidance scale.
Json sample_keys_json(const SweepReport& report) {
  const SweepSamples& s = report.sweep.samples;
  Json json = {{"judge", hash_of(*s.judge)}, {"count", s.count},           {"steps", s.steps},
               {"sampler", s.sampler},       {"references", s.references}, {"seed", s.seed}};
  for (std::size_t i = 0; i < s.guidance.size(); ++i) {
    const SampleResult* result = any_sample_result(report, i);
    Json& entry = json["guidance"].emplace_back();
    entry = {{"scale", s.guidance[i]}};
    if (!result) continue;
    entry["test_images"] = score_json(result->test);
    entry["noise"] = score_json(result->noise);
    entry["untrained"] = score_json(result->untrained);
  }
  return json;
}

void add_size_json(const SweepVariant& variant, const Complexity& cost, Json& json) {
  json["parameters"] = cost.parameters;
  json["multiply_adds"] = {{"dense", whole(cost.paper_multiply_adds)},
                           {"separable", whole(cost.multiply_adds)},
                           {"computed", whole(cost.computed_multiply_adds)}};
  if (variant.paper_parameters) json["paper_parameters"] = *variant.paper_parameters;
  if (variant.paper_multiply_adds) json["paper_multiply_adds"] = *variant.paper_multiply_adds;
}

Json variant_json(const SweepReport& report, const VariantResult& r) {
  const SweepVariant& variant = report.sweep.variants[r.variant];
  Json json = {{"name", variant.name}, {"label", variant.label}, {"seeds", variant.seeds}};
  json["n"] = r.runs.size();
  json["mean"] = json_of(part_of(r.metric, &Statistics::mean));
  json["std"] = json_of(r.metric ? r.metric->std : std::nullopt);
  json["min"] = json_of(part_of(r.metric, &Statistics::min));
  json["max"] = json_of(part_of(r.metric, &Statistics::max));
  json["values"] = Json::array();
  for (const RunResult& run : r.runs) {
    json["values"].push_back({{"seed", run.seed}, {"value", run.value}});
  }
  json["paper"] = json_of(variant.paper);
  json["difference"] = json_of(r.difference);
  json["to_baseline"] = json_of(r.to_baseline);
  json["paper_to_baseline"] = json_of(r.paper_to_baseline);
  if (const auto& p = r.paired) {
    json["paired"] = {
        {"n", p->n}, {"mean", p->mean}, {"low", p->low}, {"high", p->high}, {"p", p->p}};
  }
  for (const auto& [suite, s] : r.suites) {
    json["suites"][suite] = {{"n", s.n}, {"mean", s.mean}, {"std", json_of(s.std)}};
  }
  const auto has_stand_in = [](const RunResult& run) {
    const auto at = run.suites.find("imagenet-c");
    return at != run.suites.end() && at->second.stand_in_frost;
  };
  if (std::ranges::any_of(r.runs, has_stand_in)) {
    json["suites"]["imagenet-c"]["frost"] = kGeneratedFrost;
  }
  add_corruption_errors(report, r, json);
  add_paper_suites(variant, json);
  if (!r.figures.empty()) json["figures"] = figures_json(report, r);
  if (!r.columns.empty()) json["columns"] = columns_json(report, r);
  if (!r.features.empty()) json["features"] = features_json(report, r);
  if (!r.samples.empty()) json["samples"] = samples_json(report.sweep.samples, r);
  json["milestones"] = Json::array();
  for (const Milestone& milestone : r.milestones) {
    json["milestones"].push_back({{report.sweep.milestone_figure.name, milestone.value},
                                  {"epochs", json_of(milestone.epochs)},
                                  {"reached", milestone.reached}});
  }
  add_size_json(variant, r.cost, json);
  json["images_per_second"] = json_of(r.images_per_second);
  json["config_hash"] = hash_of(variant);
  json["failures"] = Json::array();
  for (const auto& [seed, failure] : r.failures) {
    json["failures"].push_back({{"seed", seed},
                                {"code", failure.code},
                                {"error", without_paths(failure.error, report.output)}});
  }
  json["open"] = r.open;
  return json;
}

// Returns the shortest text that reads back as the same value; empty if there is no value.
std::string csv_number(std::optional<double> value) { return value ? Json(*value).dump() : ""; }

std::string csv_count(std::optional<std::int64_t> count) {
  return count ? std::to_string(*count) : "";
}

std::vector<std::string> csv_header(const SweepConfig& sweep) {
  std::vector<std::string> names = {"variant",
                                    "label",
                                    "n",
                                    "mean",
                                    "std",
                                    "min",
                                    "max",
                                    "paper",
                                    "difference",
                                    "to_baseline",
                                    "paper_to_baseline"};
  for (double value : sweep.milestones) names.push_back(cat("epochs_to_", value));
  names.insert(names.end(), {"parameters", "images_per_second", "failed", "paper_parameters",
                             "multiply_adds", "computed_multiply_adds", "paper_multiply_adds"});
  for (const FigureSchema& figure : sweep.paper_figures) {
    names.push_back(figure.name);
    names.push_back("paper_" + figure.name);
  }
  for (const SweepColumn& column : sweep.columns) {
    names.push_back(column.name + "_mean");
    names.push_back(column.name + "_std");
  }
  for (const FeaturePoint& point : feature_points(sweep.features)) {
    const std::string name = sweep.features.evaluations[point.evaluation].name +
                             (point.epoch ? cat("_epoch_", *point.epoch) : "");
    names.push_back(name);
    names.push_back("paper_" + name);
  }
  for (std::size_t i = 0; sweep.samples.judge && i < sweep.samples.guidance.size(); ++i) {
    const std::string scale = config::number_text(sweep.samples.guidance[i]);
    names.push_back("agreement_guidance_" + scale);
    names.push_back("frechet_distance_guidance_" + scale);
  }
  return names;
}

std::vector<std::string> csv_row(const SweepConfig& sweep, const VariantResult& r) {
  const SweepVariant& v = sweep.variants[r.variant];
  std::vector<std::string> cells = {v.name, csv_field(v.label), std::to_string(r.runs.size())};
  for (auto value : {part_of(r.metric, &Statistics::mean), r.metric ? r.metric->std : std::nullopt,
                     part_of(r.metric, &Statistics::min), part_of(r.metric, &Statistics::max),
                     v.paper, r.difference, r.to_baseline, r.paper_to_baseline}) {
    cells.push_back(csv_number(value));
  }
  for (const Milestone& milestone : r.milestones) cells.push_back(csv_number(milestone.epochs));
  cells.push_back(std::to_string(r.cost.parameters));
  cells.push_back(csv_number(r.images_per_second));
  cells.push_back(std::to_string(r.failures.size()));
  cells.push_back(csv_count(v.paper_parameters));
  cells.push_back(std::to_string(whole(r.cost.paper_multiply_adds)));
  cells.push_back(std::to_string(whole(r.cost.computed_multiply_adds)));
  cells.push_back(csv_count(v.paper_multiply_adds));
  for (std::size_t i = 0; i < r.figures.size(); ++i) {
    const auto paper = v.paper_figures.find(sweep.paper_figures[i].name);
    cells.push_back(csv_number(part_of(r.figures[i], &Statistics::mean)));
    cells.push_back(paper == v.paper_figures.end() ? "" : csv_number(paper->second));
  }
  for (const std::optional<Statistics>& column : r.columns) {
    cells.push_back(csv_number(part_of(column, &Statistics::mean)));
    cells.push_back(csv_number(column ? column->std : std::nullopt));
  }
  const std::vector<FeaturePoint> points = feature_points(sweep.features);
  for (std::size_t i = 0; i < points.size(); ++i) {
    cells.push_back(csv_number(part_of(r.features[i], &Statistics::mean)));
    cells.push_back(csv_number(paper_feature(sweep, r.variant, points[i])));
  }
  for (const SampleStatistics& samples : r.samples) {
    cells.push_back(csv_number(part_of(samples.agreement, &Statistics::mean)));
    cells.push_back(csv_number(part_of(samples.distance, &Statistics::mean)));
  }
  return cells;
}

}  // namespace

std::string to_json(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  Json json = {{"name", sweep.name},
               {"title", sweep.title},
               {"metric", sweep.metric.name()},
               {"weights", sweep.ema ? "ema" : "raw"}};
  json["baseline"] = sweep.baseline ? Json(sweep.variants[*sweep.baseline].name) : Json(nullptr);
  json["command"] = without_paths(report.command, report.output);
  json["notes"] = sweep.notes;
  for (const SweepColumn& column : sweep.columns) {
    json["columns"].push_back({{"name", column.name}, {"label", column.label}});
  }
  if (!sweep.features.evaluations.empty()) json["features"] = evaluations_json(sweep.features);
  if (sweep.samples.judge) json["samples"] = sample_keys_json(report);
  json["versions"] = {{"dtn", version()}, {"compiler", __VERSION__}};
  json["variants"] = Json::array();
  for (const VariantResult& r : report.results) json["variants"].push_back(variant_json(report, r));
  return json_text(json, 2);
}

std::string to_csv(const SweepReport& report) {
  std::string out = config::join(csv_header(report.sweep), ",") + "\n";
  for (const VariantResult& r : report.results) {
    out += config::join(csv_row(report.sweep, r), ",") + "\n";
  }
  return out;
}

}  // namespace dtn
