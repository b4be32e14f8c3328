#include "tasks/translate/tensor_pairs.h"

#include <algorithm>
#include <utility>

#include "data/source/tensor_file.h"
#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "dtn/io/safetensors.h"

namespace dtn {
namespace {

constexpr const char* kNeeds =
    "the task translate needs `input`, `target`, and the fields that the model reads "
    "(model.condition)";

// Checks and collects the tensors of one file.
class PairReader {
 public:
  PairReader(const std::string& path, const ModelConfig& model)
      : path_(path), model_(model), file_(read_safetensors(path, {.map = true})) {}

  Fields read() {
    const ImageSize& size = model_.image_size;
    const Tensor& input = require("input");
    count_ = input.rank() > 0 ? input.dim(0) : 0;
    add_floats({"input", {model_.channels, size.height, size.width}, DType::kFloat32});
    if (count_ == 0) throw DataError(cat(path_, ": `input` is empty"));
    const int channels = model_.out_channels.value_or(model_.channels);
    add_floats({"target", {channels, size.height, size.width}, DType::kFloat32});
    if (const auto condition = condition_field(model_)) add_condition(*condition);
    if (reads_map(model_)) add_map();
    return std::move(fields_);
  }

 private:
  const Tensor& require(const std::string& name) const {
    if (const Tensor* tensor = file_.find(name)) return *tensor;
    fail_without_tensor(name.c_str(), file_, path_, kNeeds);
  }

  [[noreturn]] void fail_shape(const std::string& name, const Tensor& tensor,
                               const std::string& wanted) const {
    throw DataError(cat(path_, ": `", name, "` is ", name_of(tensor.dtype()), " ",
                        to_string(tensor.shape()), ", expected ", wanted, " for ", count_,
                        " inputs and this model; change the file or the section model of the "
                        "config"));
  }

  void add_floats(const FieldSpec& spec) {
    const Tensor& tensor = require(spec.name);
    const Shape wanted = shape_of(spec, count_);
    if (tensor.dtype() != DType::kFloat32 || !(tensor.shape() == wanted)) {
      fail_shape(spec.name, tensor, cat("float32 ", to_string(wanted)));
    }
    fields_[spec.name] = tensor;
  }

  void add_condition(const FieldSpec& spec) {
    if (spec.dtype == DType::kInt64) return add_styles();
    add_floats(spec);
    if (spec.name == "vector") check_finite(fields_.at("vector"), "vector", path_);
  }

  void add_styles() {
    const Tensor& tensor = require("style");
    const bool integers = tensor.dtype() == DType::kInt64 || tensor.dtype() == DType::kUInt8;
    if (!integers || !(tensor.shape() == Shape{count_})) {
      fail_shape("style", tensor, cat("int64 ", to_string(Shape{count_})));
    }
    Tensor styles = tensor;
    if (tensor.dtype() == DType::kUInt8) {
      styles = Tensor::empty({count_}, DType::kInt64);
      std::ranges::copy(tensor.values<std::uint8_t>(), styles.data<std::int64_t>());
    }
    check_style_range(styles, model_, path_);
    fields_["style"] = styles;
  }

  void add_map() {
    const ImageSize& size = model_.image_size;
    const std::int64_t classes = model_.condition.size.value_or(0);
    const Tensor& map = require("map");
    const Shape planes{count_, classes, size.height, size.width};
    const Shape labels{count_, size.height, size.width};
    if (map.dtype() == DType::kInt64 && map.shape() == labels) {
      check_labels(map, classes);
    } else if (map.dtype() != DType::kFloat32 || !(map.shape() == planes)) {
      fail_shape("map", map,
                 cat("float32 ", to_string(planes), ", or labels int64 ", to_string(labels)));
    }
    fields_["map"] = map;
  }

  void check_labels(const Tensor& map, std::int64_t classes) const {
    const auto values = map.values<std::int64_t>();
    const auto wrong = std::ranges::find_if_not(
        values, [&](std::int64_t label) { return 0 <= label && label < classes; });
    if (wrong == values.end()) return;
    const std::int64_t at = wrong - values.begin(), width = map.dim(2), area = map.dim(1) * width;
    throw DataError(cat(path_, ": `map` has the label ", *wrong, " at index [", at / area, ", ",
                        at % area / width, ", ", at % width, "], which is outside [0, ", classes,
                        "), the range of model.condition.size"));
  }

  const std::string& path_;
  const ModelConfig& model_;
  TensorFile file_;
  std::int64_t count_ = 0;
  Fields fields_;
};

// True for a map of labels, which becomes one channel for each class.
bool is_labels(const std::string& name, const Tensor& tensor) {
  return name == "map" && tensor.dtype() == DType::kInt64;
}

// Writes the labels [H, W] of a sample as [classes, H, W]: 1 in the channel of the label, else 0.
void write_one_hot(const Tensor& labels, std::int64_t index, std::span<float> to) {
  const std::int64_t pixels = labels.dim(1) * labels.dim(2);
  const std::int64_t* from = labels.data<std::int64_t>() + index * pixels;
  std::ranges::fill(to, 0.0f);
  for (std::int64_t i = 0; i < pixels; ++i) to[static_cast<std::size_t>(from[i] * pixels + i)] = 1;
}

}  // namespace

bool reads_map(const ModelConfig& model) {
  constexpr const char* kReader = "spade";
  return model.norm.type == kReader || (model.decoder_norm && model.decoder_norm->type == kReader);
}

Fields read_tensor_pairs(const std::string& path, const ModelConfig& model) {
  return PairReader(path, model).read();
}

TensorPairs::TensorPairs(std::string path, const ModelConfig& model)
    : path_(std::move(path)),
      fields_(read_tensor_pairs(path_, model)),
      map_classes_(model.condition.size.value_or(0)) {
  description_ = cat(size(), " pairs of tensors from ", path_);
}

std::string TensorPairs::identity(std::int64_t index) const {
  const Tensor* styles = fields_.find("style");
  return styles ? cat(index, " ", styles->data<std::int64_t>()[index]) : cat(index);
}

std::vector<FieldSpec> TensorPairs::host_fields() const {
  std::vector<FieldSpec> specs;
  for (const auto& [name, tensor] : fields_) {
    const Shape row(tensor.shape().dims().subspan(1));
    specs.push_back(is_labels(name, tensor) ? FieldSpec{name, {map_classes_, row[0], row[1]}}
                                            : FieldSpec{name, row, tensor.dtype()});
  }
  return specs;
}

void TensorPairs::make(std::int64_t index, const SampleKey&, FieldRow& row,
                       SampleSource::Workspace&) const {
  const auto copy_row = [&]<class T>(const std::string& name, const Tensor& tensor, T) {
    const std::span<T> to = row.at<T>(name);
    std::copy_n(tensor.data<T>() + index * static_cast<std::int64_t>(to.size()), to.size(),
                to.begin());
  };
  for (const auto& [name, tensor] : fields_) {
    if (is_labels(name, tensor)) {
      write_one_hot(tensor, index, row.at<float>(name));
    } else if (tensor.dtype() == DType::kInt64) {
      copy_row(name, tensor, std::int64_t{});
    } else {
      copy_row(name, tensor, float{});
    }
  }
}

}  // namespace dtn
