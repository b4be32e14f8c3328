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

// Texts about the pictures of a task.
struct PictureTexts {
  std::string section;   // title of the section of a page
  std::string title;     // of the last picture
  std::string last;      // caption of the last picture, to which " after step N." is added
  std::string over_run;  // caption of the pictures over the run
};

// Returns the texts for a task: samples of a diffusion model, or rows of pictures of an
// image-to-image model.
PictureTexts picture_texts(const std::string& task);

// Returns the last picture in full, and reduced pictures over the run if there are several.
// `pictures`: step and bytes of a PNG file, in the order of the steps. A damaged file is left out.
std::vector<plot::Figure> picture_figures(
    std::span<const std::pair<std::int64_t, std::string>> pictures, const PictureTexts& texts);

}  // namespace dtn
