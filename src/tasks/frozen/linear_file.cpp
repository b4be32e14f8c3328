#include "tasks/frozen/linear_file.h"

#include "dtn/core/check.h"
#include "models/weights/key_prefixes.h"
#include "tasks/class_names.h"

namespace dtn {

void write_linear(const std::string& file, const LinearClassifier& classifier) {
  StringMap metadata;
  if (!classifier.names.empty()) metadata[kClassNamesKey] = as_json(classifier.names);
  write_safetensors(file, classifier.named(), metadata);
}

LinearClassifier read_linear(const std::string& file) {
  const TensorFile read = read_safetensors(file);
  Tensor weight, bias;
  for (const auto& [key, tensor] : read.tensors) {
    const std::string_view name = without_wrappers(key);
    Tensor* wanted = name == "linear.weight" ? &weight : name == "linear.bias" ? &bias : nullptr;
    if (!wanted || wanted->defined()) {
      throw DataError(cat(file, ": tensor ", key, " ", to_string(tensor.shape()),
                          wanted ? " occurs twice" : " is not part of a linear classifier",
                          "; --linear needs linear.weight [K, F] and linear.bias [K] alone"));
    }
    *wanted = tensor;
  }
  for (const auto& [name, tensor] : {std::pair("linear.weight", weight), {"linear.bias", bias}}) {
    if (!tensor.defined()) throw DataError(cat(file, ": has no tensor ", name));
    if (!is_floating(tensor.dtype())) {
      throw DataError(cat(file, ": tensor ", name, " is ", name_of(tensor.dtype()),
                          ", not a floating-point type"));
    }
  }
  if (weight.rank() != 2 || bias.rank() != 1 || weight.dim(0) != bias.dim(0) ||
      weight.numel() == 0) {
    throw DataError(cat(file, ": linear.weight is ", to_string(weight.shape()), " and linear.bias ",
                        to_string(bias.shape()),
                        "; a classifier of K classes and F features has [K, F] and [K]"));
  }
  return {weight, bias, stored_class_names(read.metadata, weight.dim(0))};
}

}  // namespace dtn
