// Detections of a run: validation pictures with truths beside detections, and curves of precision
// over recall. From detections.json and its pictures; see detections_writer.h.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plot/page.h"
#include "tasks/detect_examples/detections_file.h"

namespace dtn {

// Returns the curves of a kind of overlap at three thresholds, and the mean over all thresholds.
// Nothing if no class has a truth.
std::optional<plot::Figure> precision_figure(const PrecisionCurves& curves);

// Returns the pictures of a file, whose picture files are in `folder`. Pictures that are absent or
// damaged are left out.
plot::Gallery detections_gallery(const DetectionsFile& file, const std::filesystem::path& folder);

// Returns the sections of a report: the pictures, and the curves. None if the run has no
// detections.json, or a damaged one.
std::vector<plot::Section> detections_sections(const std::filesystem::path& run);

}  // namespace dtn
