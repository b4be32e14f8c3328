#include "apps/eval/class_report_files.h"

#include "apps/eval/report_writers.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

Json bin_json(const CalibrationBin& bin) {
  return {{"from", bin.from},
          {"to", bin.to},
          {"count", bin.count},
          {"confidence", bin.confidence},
          {"accuracy", bin.accuracy}};
}

Json class_json(const std::string& name, const ClassFigures& f) {
  return {{"name", name},
          {"support", f.support},
          {"precision", f.precision},
          {"recall", f.recall},
          {"f1", f.f1}};
}

Json sample_json(const ClassifiedSample& s, const SamplePlace& file) {
  return {{"file", file(s.index)},
          {"truth", s.truth},
          {"prediction", s.prediction},
          {"probability", s.probability},
          {"loss", s.loss}};
}

void write_classes(const std::filesystem::path& path, const ClassReport& report) {
  CsvWriter csv(path, "label,name,support,predicted,precision,recall,f1");
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    const ClassFigures& f = report.figures.classes[c];
    csv.add(c, report.classes[c], f.support, f.predicted, f.precision, f.recall, f.f1);
  }
  csv.finish();
}

void write_confusions(const std::filesystem::path& path, const ClassReport& report) {
  CsvWriter csv(path, "truth,truth_name,prediction,prediction_name,count");
  for (const Confusion& entry : report.figures.confusions) {
    csv.add(entry.truth, report.class_name(entry.truth), entry.prediction,
            report.class_name(entry.prediction), entry.count);
  }
  csv.finish();
}

void write_calibration(const std::filesystem::path& folder, const ClassReport& report) {
  CsvWriter bins(folder / "reliability.csv", "from,to,count,confidence,accuracy");
  for (const CalibrationBin& bin : report.figures.reliability) {
    bins.add(bin.from, bin.to, bin.count, bin.confidence, bin.accuracy);
  }
  bins.finish();
  CsvWriter top_k(folder / "top_k.csv", "k,accuracy");
  for (std::size_t k = 0; k < report.figures.top_k.size(); ++k) {
    top_k.add(k + 1, report.figures.top_k[k]);
  }
  top_k.finish();
}

void write_samples(const std::filesystem::path& path, const ClassReport& report,
                   const SamplePlace& file) {
  CsvWriter csv(path, "file,truth,truth_name,prediction,prediction_name,probability,loss");
  for (const ClassifiedSample& s : report.samples) {
    csv.add(place_text(file(s.index)), s.truth, report.class_name(s.truth), s.prediction,
            report.class_name(s.prediction), s.probability, s.loss);
  }
  csv.finish();
}

}  // namespace

void write_report_json(const std::filesystem::path& path, const ClassReport& report,
                       const SamplePlace& file) {
  const ClassificationFigures& figures = report.figures;
  const std::vector<ClassifiedSample> worst = worst_first(report.samples);
  ObjectWriter json(path);
  json.add("top1", 100 * figures.top1);
  json.add("macro_f1", figures.macro_f1);
  json.add("macro_f1_present", figures.macro_f1_present);
  json.add("ece", figures.ece);
  json.add("loss", figures.loss);
  json.add("count", figures.count);
  json.add("skipped", report.skipped);
  json.add("top_k", figures.top_k);
  json.add_lines("reliability", figures.reliability.size(),
                 [&](std::size_t i) { return bin_json(figures.reliability[i]); });
  if (figures.classes.size() <= kMaxMatrixInJson) {
    json.add_lines("confusion", figures.classes.size(), [&](std::size_t truth) {
      return Json(figures.confusion_row(static_cast<std::int64_t>(truth)));
    });
  } else {
    json.add("confusion", nullptr);
  }
  json.add_lines("classes", figures.classes.size(),
                 [&](std::size_t c) { return class_json(report.classes[c], figures.classes[c]); });
  json.add_lines("worst", std::min(worst.size(), kWorstInJson),
                 [&](std::size_t i) { return sample_json(worst[i], file); });
  json.finish();
}

void write_report_tables(const std::filesystem::path& folder, const ClassReport& report,
                         const SamplePlace& file) {
  write_classes(folder / "classes.csv", report);
  write_confusions(folder / "confusions.csv", report);
  write_calibration(folder, report);
  write_samples(folder / "samples.csv", report, file);
}

}  // namespace dtn::app
