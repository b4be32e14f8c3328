#include "apps/eval/label_report_files.h"

#include <algorithm>

#include "apps/eval/report_writers.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kCurvePoints = 100;
constexpr std::size_t kMostWorst = 100;

Json class_json(const std::string& name, const LabelFigures& f) {
  return {{"name", name},
          {"support", f.support},
          {"predicted", f.predicted},
          {"precision", f.precision},
          {"recall", f.recall},
          {"f1", f.f1},
          {"ap", f.ap ? Json(*f.ap) : Json()}};
}

Json curve_json(const LabelReport& report, std::size_t label) {
  Json points = Json::array();
  for (const PrecisionAtRecall& point :
       curve_of(report, static_cast<std::int64_t>(label), kCurvePoints)) {
    points.push_back({point.recall, point.precision, probability_of(point.score)});
  }
  return points;
}

Json worst_json(const LabelReport& report, const WrongSample& sample, const SamplePlace& file) {
  Json truth = Json::array(), prediction = Json::array();
  for (const LabelDecision& decision : decisions_of(report, sample.row)) {
    if (decision.truth) truth.push_back(decision.label);
    if (decision.predicted) prediction.push_back(decision.label);
  }
  return {{"file", file(sample.index)},
          {"truth", std::move(truth)},
          {"prediction", std::move(prediction)},
          {"label", sample.worst.label},
          {"probability", sample.worst.probability},
          {"loss", sample.worst.loss}};
}

void write_classes(const std::filesystem::path& path, const LabelReport& report) {
  CsvWriter csv(path, "label,name,support,predicted,precision,recall,f1,ap");
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    const LabelFigures& f = report.figures.classes[c];
    const std::string ap = f.ap ? CsvWriter::text(*f.ap) : std::string();
    csv.add(c, report.classes[c], f.support, f.predicted, f.precision, f.recall, f.f1, ap);
  }
  csv.finish();
}

void write_thresholds(const std::filesystem::path& path, const LabelReport& report) {
  CsvWriter csv(path, "threshold,precision,recall,f1");
  for (const ThresholdFigures& at : over_thresholds(report)) {
    csv.add(at.threshold, at.precision, at.recall, at.f1);
  }
  csv.finish();
}

void write_samples(const std::filesystem::path& path, const LabelReport& report,
                   const SamplePlace& file) {
  CsvWriter csv(path, "file,label,name,truth,predicted,probability,loss");
  for (std::size_t row = 0; row < report.indices.size(); ++row) {
    const std::string place = place_text(file(report.indices[row]));
    for (const LabelDecision& d : decisions_of(report, row)) {
      if (!d.truth && !d.predicted) continue;
      csv.add(place, d.label, report.class_name(d.label), int{d.truth}, int{d.predicted},
              d.probability, d.loss);
    }
  }
  csv.finish();
}

}  // namespace

void write_label_report_json(const std::filesystem::path& path, const LabelReport& report,
                             const SamplePlace& file) {
  const MultilabelFigures& f = report.figures;
  const std::vector<WrongSample> worst = worst_samples(report);
  const std::vector<ThresholdFigures> thresholds = over_thresholds(report);
  ObjectWriter json(path);
  json.add("map", f.map);
  json.add("f1_micro", f.f1_micro);
  json.add("f1_macro", f.f1_macro);
  json.add("threshold", f.threshold);
  json.add("loss", f.loss);
  json.add("count", f.count);
  json.add("skipped", report.skipped);
  json.add_lines("classes", f.classes.size(),
                 [&](std::size_t c) { return class_json(report.classes[c], f.classes[c]); });
  json.add_lines("curves", f.classes.size(), [&](std::size_t c) { return curve_json(report, c); });
  json.add_lines("over_threshold", thresholds.size(), [&](std::size_t i) {
    const ThresholdFigures& at = thresholds[i];
    return Json{{"threshold", at.threshold},
                {"precision", at.precision},
                {"recall", at.recall},
                {"f1", at.f1}};
  });
  json.add_lines("worst", std::min(worst.size(), kMostWorst),
                 [&](std::size_t i) { return worst_json(report, worst[i], file); });
  json.finish();
}

void write_label_report_tables(const std::filesystem::path& folder, const LabelReport& report,
                               const SamplePlace& file) {
  write_classes(folder / "classes.csv", report);
  write_thresholds(folder / "thresholds.csv", report);
  write_samples(folder / "samples.csv", report, file);
}

}  // namespace dtn::app
