#include "tasks/diffusion/noise_file.h"

#include <algorithm>
#include <string>

#include "dtn/core/check.h"
#include "dtn/io/safetensors.h"

namespace dtn {
namespace {

Tensor noise_in(const NamedTensors& tensors, const char* name, const Shape& shape,
                const std::string& file, const char* why) {
  const auto found = std::ranges::find(tensors, name, [](const auto& t) { return t.first; });
  if (found == tensors.end()) {
    throw DataError(
        cat(file, ": has no tensor `", name, "`; ", why, " it, ", to_string(shape), " float32"));
  }
  const Tensor& noise = found->second;
  if (noise.dtype() != DType::kFloat32) {
    throw DataError(
        cat(file, ": `", name, "` is ", name_of(noise.dtype()), "; write it as float32"));
  }
  if (noise.shape() != shape) {
    throw DataError(cat(file, ": `", name, "` is ", to_string(noise.shape()), ", expected ",
                        to_string(shape),
                        ": one image for each of the classes, with the channels "
                        "and the size of the model",
                        shape.rank() == 5 ? ", for each step" : ""));
  }
  return noise;
}

}  // namespace

GivenNoise read_noise_file(const std::filesystem::path& file, const Shape& images,
                           const Sampler& sampler) {
  const NamedTensors tensors = read_safetensors(file).tensors;
  GivenNoise noise;
  noise.x = noise_in(tensors, "x", images, file.string(), "sampling begins with");
  if (!sampler.is_random()) return noise;
  const Shape steps{sampler.steps(), images[0], images[1], images[2], images[3]};
  noise.z = noise_in(tensors, "z", steps, file.string(), "this sampler adds");
  return noise;
}

}  // namespace dtn
