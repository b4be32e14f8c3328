#include "data/feed/delivery.h"

#include <algorithm>

#include "data/feed/field_buffers.h"
#include "dtn/core/check.h"

namespace dtn {

Delivery::Delivery(const SampleSource& source, std::int64_t most_rows, Device device,
                   bool fixed_addresses)
    : finisher_(source.make_finisher(device)) {
  const std::vector<FieldSpec> carried = with_lengths(source.carried());
  for (const FieldSpec& field : with_lengths(source.delivered())) {
    const bool passes = std::ranges::count(carried, field) > 0;
    DTN_CHECK(passes || finisher_, source.description(), ": nothing makes the field '", field.name,
              "'");
    (passes ? passed_ : made_).push_back(field);
    if (!passes || fixed_addresses) buffers_[field.name] = allocate_rows(field, most_rows, device);
  }
}

void Delivery::deliver(const Fields& carried, std::int64_t n, const BatchKey& key,
                       Fields& delivered) {
  for (const FieldSpec& field : passed_) {
    const Tensor& from = carried.at(field.name);
    const Tensor* buffer = buffers_.find(field.name);
    Tensor& to = delivered[field.name] = buffer ? buffer->slice(0, n) : from;
    if (buffer) to.copy_from(from);
  }
  for (const FieldSpec& field : made_) {
    delivered[field.name] = buffers_.at(field.name).slice(0, n);
  }
  if (finisher_) finisher_->finish(carried, key, delivered);
}

}  // namespace dtn
