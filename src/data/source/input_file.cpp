#include "data/source/input_file.h"

#include <algorithm>

#include "data/source/label_matrix.h"
#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"

namespace dtn {
namespace {

std::string found(const Tensor* tensor) {
  if (!tensor) return "";
  return cat(", but has ", name_of(tensor->dtype()), " ", to_string(tensor->shape()));
}

Tensor images_of(const TensorFile& file, const std::string& path, const ModelConfig& m,
                 bool any_size) {
  const Tensor* images = file.find("images");
  const auto& [height, width] = m.image_size;
  const bool is_images = images && images->rank() == 4 && images->dtype() == DType::kFloat32 &&
                         images->dim(1) == m.channels;
  if (is_images && (any_size || (images->dim(2) == height && images->dim(3) == width))) {
    return *images;
  }
  const std::string size = any_size ? "H, W" : cat(height, ", ", width);
  throw DataError(cat(path, ": needs a float32 tensor 'images' [N, ", m.channels, ", ", size, "]",
                      found(images)));
}

// Returns the number of tokens of row n: its value in `lengths`, or the number before the pads.
std::int64_t length_of(std::span<const std::int64_t> row, const Tensor* lengths, std::int64_t n,
                       const std::string& path) {
  const auto tokens = static_cast<std::int64_t>(row.size());
  if (lengths) {
    const std::int64_t length = lengths->values<std::int64_t>()[static_cast<std::size_t>(n)];
    if (length >= 1 && length <= tokens) return length;
    throw DataError(
        cat(path, ": 'lengths' of sequence ", n, " is ", length, "; it must be 1 to ", tokens));
  }
  const auto last = std::find_if(row.rbegin(), row.rend(), [](std::int64_t id) { return id != 0; });
  if (last == row.rend()) throw DataError(cat(path, ": sequence ", n, " has only padding"));
  return row.rend() - last;
}

void check_tokens(std::span<const std::int64_t> counting, std::int64_t n, const std::string& path,
                  const ModelConfig& m) {
  for (std::size_t i = 0; i < counting.size(); ++i) {
    if (counting[i] > 0 && counting[i] < m.vocabulary) continue;
    throw DataError(cat(path, ": token ", i, " of sequence ", n, " is ", counting[i],
                        counting[i] == 0 ? ", which is padding inside the sequence"
                                         : cat("; ids are 1 to ", m.vocabulary - 1)));
  }
}

void add_sequences(Fields& fields, const TensorFile& file, const std::string& path,
                   const ModelConfig& m) {
  const Tensor *tokens = file.find("tokens"), *lengths = file.find("lengths");
  if (!tokens || tokens->rank() != 2 || tokens->dtype() != DType::kInt64 || tokens->dim(1) < 1 ||
      tokens->dim(1) > m.max_length) {
    throw DataError(cat(path, ": needs an int32 tensor 'tokens' [N, T] with T from 1 to ",
                        m.max_length, found(tokens)));
  }
  const std::int64_t count = tokens->dim(0), given = tokens->dim(1);
  if (lengths && (lengths->dtype() != DType::kInt64 || lengths->shape() != Shape{count})) {
    throw DataError(cat(path, ": 'lengths' must be int32 [", count, "]", found(lengths)));
  }
  Tensor padded = Tensor::zeros({count, m.max_length}, DType::kInt64);
  Tensor counts = Tensor::empty({count}, DType::kInt64);
  for (std::int64_t n = 0; n < count; ++n) {
    const std::span row(tokens->data<std::int64_t>() + n * given, static_cast<std::size_t>(given));
    const std::int64_t length = length_of(row, lengths, n, path);
    const auto counting = row.first(static_cast<std::size_t>(length));
    check_tokens(counting, n, path, m);
    std::ranges::copy(counting, padded.data<std::int64_t>() + n * m.max_length);
    counts.data<std::int64_t>()[n] = length;
  }
  fields["tokens"] = padded;
  fields[lengths_of("tokens")] = counts;
}

// Returns what the model reads beside its images.
Tensor condition_of(const TensorFile& file, const FieldSpec& field, std::int64_t count,
                    const std::string& path, const ModelConfig& model) {
  const Tensor* values = file.find(field.name);
  const Shape wanted = shape_of(field, count);
  if (!values || values->dtype() != field.dtype || values->shape() != wanted) {
    throw DataError(cat(path, ": needs ", field.dtype == DType::kInt64 ? "an int64" : "a float32",
                        " tensor '", field.name, "' ", to_string(wanted), " for model.condition",
                        found(values)));
  }
  if (field.dtype == DType::kInt64) check_style_range(*values, model, path);
  return *values;
}

// Returns the labels of images with any number of classes.
Tensor label_matrix_of(const Tensor& labels, std::int64_t count, const std::string& path,
                       const ModelConfig& model) {
  const Tensor matrix = read_label_matrix(labels, count, path);
  if (model.num_classes > 0 && matrix.dim(1) != model.num_classes) {
    throw DataError(cat(path, ": 'labels' has ", matrix.dim(1), " columns, but the model has ",
                        model.num_classes, " classes"));
  }
  Tensor values = Tensor::empty(matrix.shape(), DType::kFloat32);
  std::ranges::copy(matrix.values<std::uint8_t>(), values.data<float>());
  return values;
}

}  // namespace

Fields read_input_file(const std::string& path, const ModelConfig& model,
                       const InputFileOptions& options) {
  const TensorFile file = read_safetensors(path);
  Fields fields;
  if (model.max_length > 0) {
    add_sequences(fields, file, path, model);
  } else {
    fields["image"] = images_of(file, path, model, options.any_size);
  }
  if (const auto condition = condition_field(model)) {
    fields[condition->name] = condition_of(file, *condition, fields.count(), path, model);
  }
  const Tensor* labels = file.find("labels");
  if (!labels) return fields;
  const std::int64_t count = fields.count();
  if (options.labels == InputLabels::kAnyNumber) {
    fields["labels"] = label_matrix_of(*labels, count, path, model);
    return fields;
  }
  if (labels->dtype() != DType::kInt64 || labels->numel() != count) {
    throw DataError(cat(path, ": 'labels' must be int64 [", count, "]", found(labels)));
  }
  if (model.num_classes > 0) {
    check_labels(labels->values<std::int64_t>(), model.num_classes, path);
  }
  fields["label"] = labels->reshape({count});
  return fields;
}

}  // namespace dtn
