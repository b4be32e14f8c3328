// Resized copies of images.
#pragma once

#include "data/sample/resample.h"

namespace dtn {

inline Image resize(const Image& image, int width, int height, const Resampling& how) {
  ResampleWorkspace workspace;
  Image out;
  resize(view(image), width, height, how, workspace, out);
  return out;
}

inline Image resize_box(const Image& image, double x0, double y0, double x1, double y1, int width,
                        int height, const Resampling& how) {
  ResampleWorkspace workspace;
  Image out;
  resize_box(view(image), {x0, y0, x1, y1}, width, height, how, workspace, out);
  return out;
}

}  // namespace dtn
