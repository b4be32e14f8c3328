// Figures of the pictures that a task has drawn during a run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plot/page.h"

namespace dtn {

// Returns a picture without texts, which scales to its cell of a page. `png`: bytes of the file.
plot::Figure picture_figure(const std::string& name, const std::string& title,
                            const std::string& png, double height_per_width,
                            const std::string& caption);

// Returns the last picture in full, and reduced pictures over the run if there are several.
// `pictures`: step and bytes of a PNG file, in the order of the steps. A damaged file is left out.
std::vector<plot::Figure> picture_figures(
    std::span<const std::pair<std::int64_t, std::string>> pictures);

}  // namespace dtn
