// Writes the tables of a sweep for programs: CSV and JSON.
#include <cstdint>

#include "apps/common/json_files.h"
#include "apps/sweep/sweep_report.h"
#include "core/format.h"
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

// FNV-1a hash of the config's text, without the seed and without keys that do not affect results.
std::string hash_of(const SweepVariant& variant) {
  ExperimentConfig config = comparable(variant.config);
  config.seed = 0;
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char c : to_yaml(config)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return format("%016llx", static_cast<unsigned long long>(hash));
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
  for (const CorruptionRow& row : corruption_rows(report.results, report.sweep.baseline)) {
    const CorruptionRow::Cell& cell = row.cells[r.variant];
    if (!cell.error) continue;
    json["suites"]["imagenet-c"]["errors"][row.name] = {{"mean", cell.error->mean},
                                                        {"std", json_of(cell.error->std)},
                                                        {"to_baseline", json_of(cell.to_baseline)}};
  }
  json["milestones"] = Json::array();
  for (const Milestone& milestone : r.milestones) {
    json["milestones"].push_back({{report.sweep.milestone_figure.name, milestone.value},
                                  {"epochs", json_of(milestone.epochs)},
                                  {"reached", milestone.reached}});
  }
  json["parameters"] = r.parameters;
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

}  // namespace

std::string to_json(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  Json json = {{"name", sweep.name},
               {"title", sweep.title},
               {"metric", sweep.metric.name()},
               {"weights", sweep.ema ? "ema" : "raw"}};
  json["baseline"] = sweep.baseline ? Json(sweep.variants[*sweep.baseline].name) : Json(nullptr);
  json["command"] = without_paths(report.command, report.output);
  json["versions"] = {{"dtn", version()}, {"compiler", __VERSION__}};
  json["variants"] = Json::array();
  for (const VariantResult& r : report.results) json["variants"].push_back(variant_json(report, r));
  return json_text(json, 2);
}

std::string to_csv(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  std::string out =
      "variant,label,n,mean,std,min,max,paper,difference,to_baseline,paper_to_baseline";
  for (double value : sweep.milestones) out += cat(",epochs_to_", value);
  out += ",parameters,images_per_second,failed\n";
  for (const VariantResult& r : report.results) {
    const SweepVariant& v = sweep.variants[r.variant];
    std::vector<std::string> cells = {v.name, csv_text(v.label), std::to_string(r.runs.size())};
    for (auto value :
         {part_of(r.metric, &Statistics::mean), r.metric ? r.metric->std : std::nullopt,
          part_of(r.metric, &Statistics::min), part_of(r.metric, &Statistics::max), v.paper,
          r.difference, r.to_baseline, r.paper_to_baseline}) {
      cells.push_back(csv_number(value));
    }
    for (const Milestone& milestone : r.milestones) cells.push_back(csv_number(milestone.epochs));
    cells.push_back(std::to_string(r.parameters));
    cells.push_back(csv_number(r.images_per_second));
    cells.push_back(std::to_string(r.failures.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) out += (i ? "," : "") + cells[i];
    out += "\n";
  }
  return out;
}

}  // namespace dtn
