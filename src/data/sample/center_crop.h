// The central square of an image, as diffusion models are trained on it (Dhariwal and Nichol,
// "Diffusion models beat GANs on image synthesis", NeurIPS 2021). While both sides have at least
// twice the pixels that are wanted, the image is halved with a box filter. Then the side that is
// closer to the wanted size is resized to it, and the other one with it, and the centre is cut out.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "data/sample/resample.h"
#include "dtn/config/model_config.h"
#include "dtn/io/image.h"

namespace dtn {

// Buffers of one thread, reused from image to image.
struct CenterCropWorkspace {
  Image image, half;
  ResampleWorkspace resample;
};

// Number of times that an image of this size is halved.
int halvings_of(int width, int height, const ImageSize& size);

// Decodes a file for center_crop() to `size`. With `fast`, the decoder of a JPEG does the first
// halvings. `name` is the file's name in errors.
void decode_for_center_crop(std::span<const std::byte> bytes, const std::string& name,
                            const ImageSize& size, bool fast, const DecodeOptions& decoding,
                            ColorMode color, Image& out);

// Returns the central `size` of the image: the image itself if it has that size, else an image in
// the workspace. `how` resizes after the halvings; sizes are rounded half to even, and offsets are
// rounded down.
const Image& center_crop(const Image& image, const ImageSize& size, const Resampling& how,
                         CenterCropWorkspace& workspace);

}  // namespace dtn
