#include "data/source/label_matrix.h"

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {

Tensor label_matrix(std::span<const std::int32_t> list_of,
                    std::span<const std::vector<std::int32_t>> lists, std::int64_t classes) {
  constexpr std::int64_t kMaxBytes = std::int64_t{16} << 30;
  const auto samples = static_cast<std::int64_t>(list_of.size());
  if (samples > kMaxBytes / classes) {
    throw DataError(cat("the labels of ", counted(samples, "images"), " and ", classes,
                        " classes need more than 16 GiB; number the classes without gaps"));
  }
  Tensor labels = Tensor::zeros({samples, classes}, DType::kUInt8);
  std::uint8_t* row = labels.data<std::uint8_t>();
  for (const std::int32_t list : list_of) {
    for (const std::int32_t label : lists[static_cast<std::size_t>(list)]) row[label] = 1;
    row += classes;
  }
  return labels;
}

Tensor read_label_matrix(const Tensor& labels, std::int64_t count, const std::string& path) {
  if (labels.rank() != 2 || labels.dim(0) != count || labels.dim(1) == 0) {
    throw DataError(cat(path, ": `labels` is ", to_string(labels.shape()), ", expected [", count,
                        ", K]: for each image, a 0 or a 1 for each of K classes"));
  }
  Tensor matrix = Tensor::empty(labels.shape(), DType::kUInt8);
  const auto copy = [&]<class T>(std::span<const T> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != T(0) && values[i] != T(1)) {
        const auto place = static_cast<std::int64_t>(i);
        throw DataError(cat(path, ": `labels` has the value ", +values[i], " for image ",
                            place / labels.dim(1), ", class ", place % labels.dim(1),
                            "; give 0 or 1"));
      }
      matrix.data<std::uint8_t>()[i] = values[i] == T(1);
    }
  };
  if (labels.dtype() == DType::kUInt8) {
    copy(labels.values<std::uint8_t>());
  } else if (labels.dtype() == DType::kInt64) {
    copy(labels.values<std::int64_t>());
  } else if (labels.dtype() == DType::kFloat32) {
    copy(labels.values<float>());
  } else {
    throw DataError(cat(path, ": `labels` is ", name_of(labels.dtype()), "; store it as uint8"));
  }
  return matrix;
}

}  // namespace dtn
