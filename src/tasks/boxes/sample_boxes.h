// Random samples of assigned boxes for the losses of a two-stage detector.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtn/data/sample_key.h"

namespace dtn {

// Numbers of boxes that are sampled from an image.
struct BoxSampling {
  std::int64_t total;     // at most, of both kinds together
  std::int64_t positive;  // at most
};

// Indices of the sampled boxes, ascending.
struct BoxSample {
  std::vector<std::int64_t> positive, negative;
};

// Separates the samples of the two stages under one key.
enum class SampledStage : std::uint32_t { kAnchors, kProposals };

// Samples boxes of an assignment (see assign_boxes()) uniformly without replacement: first the
// positives, then the background fills up the total. Takes fewer if there are fewer. The sample
// depends only on the assignment, the key and the stage.
BoxSample sample_boxes(std::span<const std::int32_t> assigned, const BoxSampling& sampling,
                       const SampleKey& key, SampledStage stage);

}  // namespace dtn
