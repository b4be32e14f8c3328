#include "dtn/core/fields.h"

#include <algorithm>
#include <array>

namespace dtn {
namespace {

template <class List>
auto* find_field(List& fields, std::string_view name) {
  const auto found =
      std::ranges::find_if(fields, [&](const Fields::Field& f) { return f.first == name; });
  return found == fields.end() ? nullptr : &found->second;
}

[[noreturn]] void fail_absent(const Fields& fields, std::string_view name) {
  std::string present;
  for (const auto& [other, tensor] : fields) {
    if (tensor.defined()) present += (present.empty() ? "" : ", ") + other;
  }
  throw Error(
      cat("there is no field '", name, "' (fields: ", present.empty() ? "none" : present, ")"));
}

}  // namespace

Shape shape_of(const FieldSpec& spec, std::int64_t rows) {
  std::array<std::int64_t, Shape::kMaxRank> dims{rows};
  DTN_CHECK(spec.row.rank() < Shape::kMaxRank, "field '", spec.name, "' has rows of ",
            to_string(spec.row), "; a row has at most ", Shape::kMaxRank - 1, " dimensions");
  std::ranges::copy(spec.row.dims(), dims.begin() + 1);
  return Shape(std::span<const std::int64_t>(dims).first(std::size_t(spec.row.rank()) + 1));
}

Tensor& Fields::operator[](std::string_view name) {
  if (Tensor* found = find_field(fields_, name)) return *found;
  return fields_.emplace_back(std::string(name), Tensor()).second;
}

Tensor& Fields::at(std::string_view name) {
  Tensor* found = find_field(fields_, name);
  if (!found || !found->defined()) fail_absent(*this, name);
  return *found;
}

const Tensor& Fields::at(std::string_view name) const {
  const Tensor* found = find(name);
  if (!found) fail_absent(*this, name);
  return *found;
}

const Tensor* Fields::find(std::string_view name) const {
  const Tensor* found = find_field(fields_, name);
  return found && found->defined() ? found : nullptr;
}

Fields Fields::rows(std::int64_t begin, std::int64_t end) const {
  Fields part;
  for (const auto& [name, tensor] : fields_) {
    if (tensor.defined()) part.fields_.emplace_back(name, tensor.slice(begin, end));
  }
  return part;
}

std::int64_t Fields::count() const {
  for (const auto& [name, tensor] : fields_) {
    if (tensor.defined()) return tensor.dim(0);
  }
  return 0;
}

void Fields::release() {
  for (auto& [name, tensor] : fields_) tensor = Tensor();
}

}  // namespace dtn
