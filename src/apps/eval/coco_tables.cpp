#include "apps/eval/coco_tables.h"

#include "core/format.h"

namespace dtn::app {
namespace {

std::string percent(double figure) { return figure < 0 ? "-" : format("%.1f", 100 * figure); }

}  // namespace

std::string coco_table(const std::vector<CocoFigures>& figures) {
  std::string text = format("%-6s", "%");
  for (const std::string_view name : kCocoFigures) text += format("%7s", std::string(name).c_str());
  text += "\n";
  for (const CocoFigures& row : figures) {
    text += format("%-6s", name_of(row.kind));
    for (const double figure : row.report.figures) text += format("%7s", percent(figure).c_str());
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json coco_json(const std::vector<CocoFigures>& figures) {
  nlohmann::ordered_json json;
  for (const CocoFigures& row : figures) {
    for (std::size_t f = 0; f < kCocoFigures.size(); ++f) {
      json[name_of(row.kind)][std::string(kCocoFigures[f])] = row.report.figures[f];
    }
  }
  return json;
}

}  // namespace dtn::app
