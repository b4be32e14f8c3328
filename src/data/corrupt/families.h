// The individual corruptions; see corruptions.h.
// Private to dtn_data.
#pragma once

#include "data/corrupt/corruptions.h"

namespace dtn::corrupt {

// noise.cpp
void gaussian_noise(const Image& image, const CorruptJob& job, Image& out);
void shot_noise(const Image& image, const CorruptJob& job, Image& out);
void impulse_noise(const Image& image, const CorruptJob& job, Image& out);
void speckle_noise(const Image& image, const CorruptJob& job, Image& out);
// blur.cpp, defocus.cpp
void gaussian_blur(const Image& image, const CorruptJob& job, Image& out);
void glass_blur(const Image& image, const CorruptJob& job, Image& out);
void motion_blur(const Image& image, const CorruptJob& job, Image& out);
void defocus_blur(const Image& image, const CorruptJob& job, Image& out);
void zoom_blur(const Image& image, const CorruptJob& job, Image& out);
// weather.cpp, spatter.cpp
void snow(const Image& image, const CorruptJob& job, Image& out);
void frost(const Image& image, const CorruptJob& job, Image& out);
void fog(const Image& image, const CorruptJob& job, Image& out);
void spatter(const Image& image, const CorruptJob& job, Image& out);
// digital.cpp, elastic.cpp
void brightness(const Image& image, const CorruptJob& job, Image& out);
void contrast(const Image& image, const CorruptJob& job, Image& out);
void saturate(const Image& image, const CorruptJob& job, Image& out);
void pixelate(const Image& image, const CorruptJob& job, Image& out);
void jpeg_compression(const Image& image, const CorruptJob& job, Image& out);
void elastic_transform(const Image& image, const CorruptJob& job, Image& out);

// Returns one of five values, by severity.
template <class T>
const T& by_severity(const T (&values)[kSeverities], const CorruptJob& job) {
  return values[job.severity - 1];
}

}  // namespace dtn::corrupt
