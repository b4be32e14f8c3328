#include "data/feed/device_batch_fields.h"

#include <algorithm>

#include "data/feed/field_buffers.h"
#include "dtn/core/check.h"

namespace dtn {

DeviceBatchFields::DeviceBatchFields(const SampleSource& source, std::int64_t max_rows,
                                     Device device, bool fixed_addresses)
    : finisher_(source.make_finisher(device)) {
  const std::vector<FieldSpec> host_fields = with_lengths(source.host_fields());
  for (const FieldSpec& field : with_lengths(source.device_fields())) {
    const bool passes = std::ranges::count(host_fields, field) > 0;
    DTN_CHECK(passes || finisher_, source.description(), ": no step computes the field '",
              field.name, "'");
    (passes ? passed_ : made_).push_back(field);
    if (!passes || fixed_addresses) buffers_[field.name] = allocate_rows(field, max_rows, device);
  }
}

void DeviceBatchFields::fill(const Fields& host_batch, std::int64_t n, const BatchKey& key,
                             Fields& device_batch) {
  for (const FieldSpec& field : passed_) {
    const Tensor& from = host_batch.at(field.name);
    const Tensor* buffer = buffers_.find(field.name);
    Tensor& to = device_batch[field.name] = buffer ? buffer->slice(0, n) : from;
    if (buffer) to.copy_from(from);
  }
  for (const FieldSpec& field : made_) {
    device_batch[field.name] = buffers_.at(field.name).slice(0, n);
  }
  if (finisher_) finisher_->finish(host_batch, key, device_batch);
}

}  // namespace dtn
