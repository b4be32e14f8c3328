// Evaluation of a file of results with a file of annotations.
#pragma once

#include "data/coco/annotations.h"
#include "data/coco/results.h"
#include "tasks/coco_figures/evaluator.h"

namespace dtn {

// Returns the report of the results, all of whose images and categories `truths` lists (see
// match_results()). All threads match images. Throws DataError, which names the annotation or the
// image, for values that are not finite, and with kMasks for an object without a mask.
CocoReport evaluate_results(const CocoAnnotations& truths, const CocoResults& results,
                            OverlapKind kind);

}  // namespace dtn
