#include "apps/predict/translate_pictures.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/predict/output_paths.h"
#include "core/progress.h"
#include "data/sample/center_crop.h"
#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/models/backbone.h"
#include "io/file.h"
#include "tasks/translate/mirrored_border.h"
#include "tasks/translate/picture_crop.h"
#include "tasks/translate/picture_grid.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

class PictureTranslator {
 public:
  explicit PictureTranslator(const PictureTranslation& t)
      : t_(t), paths_(output_paths(t.pictures, t.folder)) {
    check_model();
    if (!t.style_image.empty()) style_image_ = decode(t.style_image);
    if (t.compute == DType::kBFloat16) {
      for (const Named<ParameterStore*>& store : t.task.stores()) store.value->enable_bfloat16();
    }
  }

  PictureCount run() {
    PictureCount count;
    ProgressBar bar("pictures", std::ssize(t_.pictures));
    for (std::size_t i = 0; i < t_.pictures.size(); ++i) {
      try {
        translate(i);
        ++count.done;
      } catch (const DataError& e) {
        report_fault(t_.pictures[i].file, e.what());
        ++count.damaged;
      }
      bar.update(static_cast<std::int64_t>(i) + 1, "");
    }
    return count;
  }

 private:
  void check_model() const {
    const ModelConfig& m = t_.config.model;
    const std::int64_t out = t_.task.model().output_channels();
    const auto is_picture = [](std::int64_t channels) { return channels == 1 || channels == 3; };
    if (!is_picture(m.channels) || !is_picture(out)) {
      throw ConfigError(cat("pictures have 1 or 3 channels, and the model turns ", m.channels,
                            " into ", out, "; use dtn-eval --inputs"));
    }
    for (const FieldSpec& field : condition_fields(m)) {
      if (field.name == "map" || field.name == "vector") {
        throw ConfigError(cat("the model reads `", field.name,
                              "` with each picture; use dtn-eval --inputs with a file of both"));
      }
    }
    const bool reads_image = m.condition.from == ConditionFrom::kImage;
    if (reads_image && t_.style_image.empty()) {
      throw ConfigError("the model reads a style image with each picture; set --style-image");
    }
    if (!reads_image && !t_.style_image.empty()) {
      throw ConfigError(
          "the model reads no style image (model.condition.from: image); leave --style-image out");
    }
  }

  Image decode(const std::string& file) const {
    std::vector<std::byte> bytes;
    read_file_into(file, bytes);
    return decode_image(bytes, file, {.upright = t_.config.data.exif},
                        t_.config.model.channels == 1 ? ColorMode::kGray : ColorMode::kRgb);
  }

  static Tensor pixels_of(const Image& image) {
    Tensor pixels = Tensor::empty({1, image.channels, image.height, image.width}, DType::kFloat32);
    write_unit_pixels(image, {pixels.data<float>(), static_cast<std::size_t>(pixels.numel())});
    return pixels;
  }

  // The style image at the size of the input.
  Tensor style_for(const Tensor& input) {
    const ImageSize size(static_cast<int>(input.dim(2)), static_cast<int>(input.dim(3)));
    const Resampling how(t_.config.data.interpolation, t_.config.data.resample);
    return pixels_of(center_crop(style_image_, size, how, crop_));
  }

  void translate(std::size_t i) {
    const Tensor picture = pixels_of(decode(t_.pictures[i].file));
    const std::int64_t multiple = std::int64_t{1} << (t_.config.model.stages() - 1);
    const Tensor input = with_mirrored_border(picture, multiple);
    Fields fields{{"input", input.to(t_.device)}};
    if (t_.style) fields["style"] = Tensor::from(std::vector{*t_.style}, {1}).to(t_.device);
    if (!t_.style_image.empty()) fields["style_image"] = style_for(input).to(t_.device);
    Context ctx;
    ctx.mode.compute = t_.compute;
    const Tensor output = t_.task.outputs(ctx, fields).at("output").to(kCpu);
    write(i, picture_grid({without_border(output, picture.dim(2), picture.dim(3))}, 1));
  }

  void write(std::size_t i, const Image& picture) {
    write_picture(paths_[i], picture);
    if (t_.json) {
      const nlohmann::ordered_json line{{"file", t_.pictures[i].file},
                                        {"output", paths_[i].string()}};
      std::printf("%s\n", line.dump().c_str());
    } else {
      std::printf("%s\n", paths_[i].c_str());
    }
  }

  void report_fault(const std::string& file, const std::string& what) const {
    log_error(what);
    if (!t_.json) return;
    const nlohmann::ordered_json line{{"file", file}, {"error", what}};
    std::printf("%s\n", line.dump().c_str());
  }

  const PictureTranslation& t_;
  std::vector<fs::path> paths_;
  Image style_image_;
  CenterCropWorkspace crop_;
};

}  // namespace

PictureCount translate_pictures(const PictureTranslation& translation) {
  return PictureTranslator(translation).run();
}

}  // namespace dtn::app
