// dtn-eval --coco-annotations --coco-results: COCO's figures of a file of results, without a model.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace dtn::app {

struct CocoOptions {
  std::string annotations, results;  // files; empty: another evaluation
  std::string overlap;  // bbox or segm; empty: bbox, and segm if all results have masks

  // Adds the options. None of them can be combined with `others`, the options of other evaluations.
  void add_to(CLI::App& app, const std::vector<CLI::Option*>& others);
  bool any() const { return !annotations.empty(); }
};

// Prints the twelve figures. Returns the exit code. Throws DataError for a damaged file and for
// results of images that the annotations do not list.
int evaluate_coco(const CocoOptions& options, bool json);

}  // namespace dtn::app
