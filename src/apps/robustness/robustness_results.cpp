#include "apps/robustness/robustness_results.h"

#include <algorithm>
#include <cmath>

#include "apps/common/json_files.h"
#include "dtn/core/check.h"
#include "io/file.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::vector<std::string> score_names(Suite suite) {
  std::vector<std::string> names = {"clean"};
  if (suite == Suite::kImageNetR) names.push_back("renditions");
  if (suite != Suite::kImageNetC) return names;
  for (const Corruption& corruption : corruptions()) {
    for (std::size_t s = 0; s < kSeverities; ++s) names.push_back(score_name(corruption, s));
  }
  return names;
}

using dtn::json_of;

Json json_of(const RobustnessScore* score) {
  if (!score) return nullptr;
  const Accuracy& r = score->result;
  Json json = {{"top1", r.top1},          {"top5", r.top5},   {"loss", r.loss},
               {"error", score->error()}, {"count", r.count}, {"bad_images", score->bad_images},
               {"seconds", r.seconds}};
  if (!score->images.empty()) json["images"] = score->images;
  if (score->stand_in) json["stand_in"] = true;
  return json;
}

Json json_of(const RobustnessSettings& s) {
  return {{"weights", s.weights},
          {"model", s.model},
          {"classes", s.classes},
          {"precision", s.precision},
          {"crop_pct", s.crop_pct},
          {"clean_crop_pct", s.clean_crop_pct},
          {"interpolation", s.interpolation == Interpolation::kBicubic ? "bicubic" : "bilinear"},
          {"resample", s.resample == Resample::kPillow13 ? "pillow13" : "pillow12"},
          {"mean", s.mean},
          {"std", s.std}};
}

// Returns the position of a score in the JSON.
Json::json_pointer place_of(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == name.npos) return Json::json_pointer("/" + name);
  const Corruption* corruption = find_corruption(name.substr(0, slash));
  const bool extra = !corruption || !in_benchmark(*corruption);
  return Json::json_pointer(cat(extra ? "/extra/" : "/corruptions/", name.substr(0, slash),
                                "/severities", name.substr(slash)));
}

void add_corruptions(const RobustnessReport& report, Json& json) {
  const std::vector<SeverityErrors> errors = errors_of(report);
  const CorruptionSummary summary = summary_of(report);
  json["mce"] = json_of(summary.mce());
  json["mean_ce"] = json_of(summary.mean_ce);
  json["mean_error"] = json_of(summary.mean_error);
  json["complete_corruptions"] = summary.corruptions;
  const RobustnessScore* clean = find_score(report, "clean");
  json["relative_mean_error"] = json_of(relative_error(summary.mean_error, clean));
  if (report.small_images) json["no_mce"] = kNoMce;
  if (frost_is_stand_in(report)) {
    const CorruptionSummary others = summary_without_frost(report);
    json["frost"] = kStandInFrost;
    json["without_frost"] = {{"mean_ce", json_of(others.mean_ce)},
                             {"mean_error", json_of(others.mean_error)},
                             {"complete_corruptions", others.corruptions}};
  }
  json["corruptions"] = Json::object();
  json["extra"] = Json::object();
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const Corruption& corruption = corruptions()[i];
    const bool extra = i >= kBenchmarkCorruptions;
    Json entry = {{"group", corruption.group}, {"error", json_of(mean_error(errors[i]))}};
    if (is_frost(corruption) && frost_is_stand_in(report)) entry["name"] = kStandInFrost;
    if (!extra && !report.small_images) {
      entry["ce"] = json_of(corruption_error(corruption, errors[i]));
    }
    entry["relative_error"] = json_of(relative_error(mean_error(errors[i]), clean));
    for (std::size_t s = 0; s < kSeverities; ++s) {
      entry["severities"][std::to_string(s + 1)] =
          json_of(find_score(report, score_name(corruption, s)));
    }
    const bool empty = std::ranges::none_of(errors[i], [](const auto& e) { return e.has_value(); });
    if (!empty || !(extra || report.small_images))
      json[extra ? "extra" : "corruptions"][corruption.name] = std::move(entry);
  }
}

Json report_json(const RobustnessReport& report) {
  const Accuracy all = overall(report);
  const auto only_if_any = [&](double value) {
    return all.count > 0 ? Json(value) : Json(nullptr);
  };
  Json json = {
      {"top1", only_if_any(all.top1)},
      {"top5", only_if_any(all.top5)},
      {"loss", only_if_any(all.loss)},
      {"count", all.count},
      {"images_per_second", all.seconds > 0 ? static_cast<double>(all.count) / all.seconds : 0.0},
      {"suite", name_of(report.suite)},
      {"complete", report.complete},
      {"classes", report.num_classes}};
  if (report.suite == Suite::kImageNetC) {
    add_corruptions(report, json);
  } else {
    json["renditions"] = json_of(find_score(report, "renditions"));
  }
  json["clean"] = json_of(find_score(report, "clean"));
  json["settings"] = json_of(report.settings);
  return json;
}

double number_of(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value.is_null() ? std::nan("") : value.get<double>();  // null stands for NaN
}

RobustnessScore score_of(const Json& json) {
  RobustnessScore score;
  score.result.top1 = number_of(json, "top1");
  score.result.top5 = number_of(json, "top5");
  score.result.loss = number_of(json, "loss");
  score.result.seconds = number_of(json, "seconds");
  score.result.count = json.at("count").get<std::int64_t>();
  score.bad_images = json.at("bad_images").get<std::int64_t>();
  score.images = json.at("images").get<std::string>();
  score.stand_in = json.value("stand_in", false);
  return score;
}

std::map<std::string, RobustnessScore> scores_of(const Json& json, Suite suite) {
  std::map<std::string, RobustnessScore> scores;
  for (const std::string& name : score_names(suite)) {
    const Json::json_pointer place = place_of(name);
    if (json.contains(place) && !json.at(place).is_null()) {
      scores.emplace(name, score_of(json.at(place)));
    }
  }
  return scores;
}

// Describes the differences in words; empty if there are none.
std::string differences(const Json& was, const Json& now) {
  std::string text;
  for (const auto& [key, value] : now.items()) {
    if (was.at(key) == value) continue;
    text += cat(text.empty() ? "was made with other settings: " : "; ", key, " is ", value.dump(),
                ", was ", was.at(key).dump());
  }
  return text;
}

}  // namespace

double alexnet_error(const Corruption& corruption) {
  // In the order of corruptions().
  constexpr double kErrors[kBenchmarkCorruptions] = {.886428, .894468, .922640, .819880, .826268,
                                                     .785948, .798360, .866816, .826572, .819324,
                                                     .564592, .853204, .646056, .717840, .606500};
  return in_benchmark(corruption) ? kErrors[&corruption - corruptions().data()] : 0;
}

std::optional<double> mean_error(const SeverityErrors& errors) {
  double sum = 0;
  for (const std::optional<double>& error : errors) {
    if (!error) return std::nullopt;
    sum += *error;
  }
  return sum / static_cast<double>(kSeverities);
}

std::optional<double> corruption_error(const Corruption& corruption, const SeverityErrors& errors) {
  const std::optional<double> mean = mean_error(errors);
  if (!mean || !in_benchmark(corruption)) return std::nullopt;
  return *mean / alexnet_error(corruption);
}

CorruptionSummary summarize(std::span<const SeverityErrors> errors) {
  CorruptionSummary summary;
  double error = 0, ce = 0;
  for (std::size_t i = 0; i < std::min(errors.size(), kBenchmarkCorruptions); ++i) {
    const std::optional<double> mean = mean_error(errors[i]);
    if (!mean) continue;
    error += *mean;
    ce += *corruption_error(corruptions()[i], errors[i]);
    ++summary.corruptions;
  }
  if (summary.corruptions == 0) return summary;
  summary.mean_error = error / static_cast<double>(summary.corruptions);
  summary.mean_ce = ce / static_cast<double>(summary.corruptions);
  return summary;
}

std::string score_name(const Corruption& corruption, std::size_t severity) {
  return cat(corruption.name, "/", severity + 1);
}

const RobustnessScore* find_score(const RobustnessReport& report, const std::string& name) {
  auto at = report.scores.find(name);
  return at == report.scores.end() ? nullptr : &at->second;
}

std::vector<SeverityErrors> errors_of(const RobustnessReport& report) {
  std::vector<SeverityErrors> errors(corruptions().size());
  for (std::size_t i = 0; i < errors.size(); ++i) {
    for (std::size_t s = 0; s < kSeverities; ++s) {
      const RobustnessScore* score = find_score(report, score_name(corruptions()[i], s));
      if (score) errors[i][s] = score->error();
    }
  }
  return errors;
}

CorruptionSummary summary_of(const RobustnessReport& report) {
  const std::vector<SeverityErrors> errors = errors_of(report);
  if (!report.small_images) return summarize(errors);
  CorruptionSummary summary;
  double sum = 0;
  for (const SeverityErrors& e : errors) {
    if (!mean_error(e)) continue;
    sum += *mean_error(e);
    ++summary.corruptions;
  }
  if (summary.corruptions > 0) summary.mean_error = sum / static_cast<double>(summary.corruptions);
  return summary;
}

CorruptionSummary summary_without_frost(const RobustnessReport& report) {
  std::vector<SeverityErrors> errors = errors_of(report);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (is_frost(corruptions()[i])) errors[i] = {};
  }
  return summarize(errors);
}

bool frost_is_stand_in(const RobustnessReport& report) {
  return std::ranges::any_of(report.scores, [](const auto& s) { return s.second.stand_in; });
}

std::optional<double> relative_error(const std::optional<double>& error,
                                     const RobustnessScore* clean) {
  if (!error || !clean) return std::nullopt;
  return *error - clean->error();
}

std::map<std::string, RobustnessScore> load_scores(const fs::path& file, Suite suite,
                                                   const RobustnessSettings& settings) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  const std::vector<std::byte> bytes = read_file(file.string());
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  std::string problem;
  std::map<std::string, RobustnessScore> scores;
  try {
    const Json json = Json::parse(text, text + bytes.size());
    if (json.at("suite") != name_of(suite)) {
      problem = cat("contains results of ", json.at("suite").dump());
    } else {
      problem = differences(json.at("settings"), Json::parse(json_of(settings).dump()));
      scores = scores_of(json, suite);
    }
  } catch (const Json::exception& e) {
    problem = cat("was not written by dtn-eval --suite (", e.what(), ")");
  }
  if (problem.empty()) return scores;
  throw ConfigError(
      cat("--save ", file.string(), ": ", problem, "; name another file, or delete this one"));
}

std::string to_json(const RobustnessReport& report, int indent) {
  return report_json(report).dump(indent);
}

}  // namespace dtn
