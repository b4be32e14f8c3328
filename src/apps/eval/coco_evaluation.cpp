#include "apps/eval/coco_evaluation.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "apps/common/program.h"
#include "apps/eval/coco_tables.h"
#include "core/format.h"
#include "core/seconds_since.h"
#include "dtn/core/log.h"
#include "tasks/coco_figures/files.h"

namespace dtn::app {
namespace {

std::vector<OverlapKind> kinds_of(const CocoOptions& options, const CocoAnnotations& truths,
                                  const CocoResults& results) {
  if (options.overlap == "bbox") return {OverlapKind::kBoxes};
  if (options.overlap == "segm") return {OverlapKind::kMasks};
  const bool all_truths = std::ranges::all_of(truths.annotations(), [](const auto& truth) {
    return truth.segmentation != coco::SegmentationKind::kNone;
  });
  const bool has_masks = results.size() > 0 && results.mask_count() == results.size() && all_truths;
  if (has_masks) return {OverlapKind::kBoxes, OverlapKind::kMasks};
  return {OverlapKind::kBoxes};
}

}  // namespace

void CocoOptions::add_to(CLI::App& app, const std::vector<CLI::Option*>& others) {
  auto* truths = app.add_option("--coco-annotations", annotations,
                                "evaluate the detections of --coco-results without a model: file "
                                "of annotations in COCO's format");
  auto* found = app.add_option("--coco-results", results,
                               "file of results in COCO's format, of any program: image_id, "
                               "category_id, bbox [x, y, width, height] and score, for masks also "
                               "segmentation");
  truths->needs(found);
  found->needs(truths);
  app.add_option("--coco-iou", overlap,
                 "overlap of bbox (boxes) or segm (masks) (default: bbox; also segm if every "
                 "result has a mask and every truth a segmentation)")
      ->check(CLI::IsMember({"bbox", "segm"}))
      ->needs(truths);
  for (CLI::Option* other : others) truths->excludes(other);
}

int evaluate_coco(const CocoOptions& options, bool json) {
  const auto start = std::chrono::steady_clock::now();
  const CocoAnnotations truths = read_coco_annotations(options.annotations);
  CocoResults results = read_coco_results(options.results);
  const std::int64_t unknown = match_results(results, truths, options.results);
  if (unknown > 0) {
    log_warn(cat(options.results, ": left out ", counted(unknown, "results"),
                 " of categories that ", options.annotations, " does not list"));
  }
  log_info(cat(counted(truths.images().size(), "images"), ", ",
               counted(truths.annotations().size(), "annotations"), " of ",
               counted(truths.categories().size(), "categories"), ", ",
               counted(results.size(), "results"),
               format("; read in %.1f s", seconds_since(start))));
  std::vector<CocoFigures> figures;
  for (const OverlapKind kind : kinds_of(options, truths, results)) {
    figures.push_back({kind, evaluate_results(truths, results, kind)});
  }
  std::fputs((json ? coco_json(figures).dump() + "\n" : coco_table(figures)).c_str(), stdout);
  return kExitDone;
}

}  // namespace dtn::app
