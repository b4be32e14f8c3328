#include "train/record/detections_writer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <system_error>

#include "core/format.h"
#include "data/feed/single_sample.h"
#include "data/sample/preview.h"
#include "dtn/core/check.h"
#include "io/atomic_file.h"
#include "io/image/image_encode.h"
#include "tasks/class_names.h"
#include "tasks/detect_examples/detections_file.h"

namespace dtn {
namespace fs = std::filesystem;

namespace {

std::string picture_name(std::int64_t index) {
  return format("%08lld.png", static_cast<long long>(index));
}

void write_picture(const fs::path& file, const Image& image) {
  std::vector<std::byte> png;
  encode_png(image, png);
  write_file_atomic(file, {reinterpret_cast<const char*>(png.data()), png.size()});
}

}  // namespace

Image example_picture(const SampleSource& source, std::int64_t index) {
  const Fields sample = single_sample(source, index, 0);
  const Tensor *size = sample.find("size"), *pixels = sample.find("pixels");
  DTN_CHECK(size && pixels && size->dtype() == DType::kInt64 && size->numel() == 2 &&
                pixels->dtype() == DType::kUInt8,
            "samples without 'pixels' and 'size' have no pictures");
  const std::int64_t height = size->data<std::int64_t>()[0], width = size->data<std::int64_t>()[1];
  DTN_CHECK(height > 0 && width > 0 && height <= pixels->numel() / 3 / width, "an image of ", width,
            " x ", height, " pixels in a field of ", pixels->numel(), " bytes");
  Image image;
  image.reshape(static_cast<int>(width), static_cast<int>(height), 3);
  std::memcpy(image.pixels.data(), pixels->data<std::uint8_t>(), image.pixels.size());
  return reduced_to(std::move(image), kMaxExampleSide);
}

void write_detections(const fs::path& run, std::int64_t step, const DetectionExamples& examples,
                      const SampleSource& source) {
  const fs::path folder = run / kDetectionsFolder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(cat(folder.string(), ": ", error.message()));
  DetectionsFile file{.step = step, .classes = source.class_names(), .curves = examples.curves};
  put_into_words(file.classes);
  for (const DetectionExample& image : examples.images) {
    const std::string picture = picture_name(image.index);
    if (!fs::exists(folder / picture, error)) {
      write_picture(folder / picture, example_picture(source, image.index));
    }
    const fs::path name = source.sample_name(image.index);
    file.images.push_back({name.filename().string(), picture, image});
    std::erase_if(file.images.back().image.detections,
                  [](const ExampleObject& object) { return !(object.score >= kShownScore); });
  }
  write_file_atomic(run / kDetectionsFile, detections_json(file));
}

}  // namespace dtn
