#include "tasks/detect/roi_samples.h"

#include "dtn/core/check.h"

namespace dtn {

RoiSamples roi_samples(std::span<const Box> proposals, const RoiTruths& truths, const RoiRule& rule,
                       const SampleKey& key) {
  DTN_CHECK(truths.boxes.size() == truths.classes.size(), "roi_samples: ", truths.boxes.size(),
            " boxes and ", truths.classes.size(), " classes of truths");
  std::vector<Box> all(truths.boxes.begin(), truths.boxes.end());
  all.insert(all.end(), proposals.begin(), proposals.end());
  const std::vector<std::int32_t> assigned = assign_boxes(all, truths.boxes, rule.assignment);
  const BoxSample sample = sample_boxes(assigned, rule.sampling, key, SampledStage::kProposals);
  RoiSamples regions;
  for (const std::int64_t i : sample.positive) {
    const Box& box = all[static_cast<std::size_t>(i)];
    const auto truth = static_cast<std::size_t>(assigned[static_cast<std::size_t>(i)]);
    regions.boxes.push_back(box);
    regions.labels.push_back(truths.classes[truth]);
    regions.truths.push_back(static_cast<std::int64_t>(truth));
    regions.deltas.push_back(encode_box(box, truths.boxes[truth], kRoiUnits));
  }
  for (const std::int64_t i : sample.negative) {
    regions.boxes.push_back(all[static_cast<std::size_t>(i)]);
    regions.labels.push_back(rule.classes);
  }
  return regions;
}

}  // namespace dtn
