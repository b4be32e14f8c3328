// Pictures that a task draws during a run, samples/step-<step>.png in the run folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

namespace dtn {

// The path of the picture of a step: samples/step-00000500.png.
std::filesystem::path step_picture_path(const std::filesystem::path& run, std::int64_t step);

// Writes the picture of a step, a PNG file, at once or not at all. Throws Error.
void write_step_picture(const std::filesystem::path& run, std::int64_t step,
                        std::span<const std::byte> png);

// Returns the steps of the pictures in a run folder, ascending, and their paths.
std::vector<std::pair<std::int64_t, std::filesystem::path>> step_pictures(
    const std::filesystem::path& run);

// Deletes the pictures of later steps, which a run that resumes at `step` draws again, and
// temporaries of a killed process. No other file is touched.
void remove_step_pictures_after(const std::filesystem::path& run, std::int64_t step);

}  // namespace dtn
