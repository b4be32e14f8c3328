// Images with objects of data.dataset synthetic: for benchmarks, estimates and tests without data.
#pragma once

#include <memory>

#include "data/coco/coco_dataset.h"
#include "dtn/config/train_config.h"

namespace dtn {

// data.size images (default 1024, and 256 for validation) of data.scale, wider than high, with
// random pixels and seven objects each, whose masks are their boxes. They depend on the seed, the
// split and the index.
std::unique_ptr<CocoDataset> make_synthetic_objects(const ExperimentConfig& config, Split split);

}  // namespace dtn
