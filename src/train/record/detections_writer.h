// Images with truths and detections for the report of a run: detections.json and the pictures in
// detections/.
#pragma once

#include <cstdint>
#include <filesystem>

#include "dtn/core/detection_examples.h"
#include "dtn/data/sample_source.h"
#include "dtn/io/image.h"

namespace dtn {

// Longer side of a picture in the run folder, in pixels. Larger images are reduced.
inline constexpr int kMaxExampleSide = 512;

// Returns the image of a sample, reduced to kMaxExampleSide. The sample has the fields "size" [2]
// int64, height and width, and "pixels" uint8, of which [height, width, 3] are the image. Throws
// Error if it has not, and DataError if the sample is damaged.
Image example_picture(const SampleSource& source, std::int64_t index);

// Writes the examples of an evaluation after `step`, of samples of `source`. Pictures that exist
// are kept: their names are those of the samples.
void write_detections(const std::filesystem::path& run, std::int64_t step,
                      const DetectionExamples& examples, const SampleSource& source);

}  // namespace dtn
