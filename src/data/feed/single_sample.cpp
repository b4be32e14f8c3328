#include "data/feed/single_sample.h"

#include "data/feed/field_buffers.h"

namespace dtn {

Fields single_sample(const SampleSource& source, std::int64_t index, std::uint64_t seed) {
  Fields host;
  for (const FieldSpec& spec : with_lengths(source.host_fields())) {
    host[spec.name] = allocate_rows(spec, 1, kCpu);
  }
  FieldRow row(host, 0);
  const auto workspace = source.make_workspace();
  source.make(index, {seed, 0, static_cast<std::uint64_t>(index)}, row, *workspace);
  Fields fields;
  for (const FieldSpec& spec : with_lengths(source.device_fields())) {
    const Tensor* made = host.find(spec.name);
    fields[spec.name] = made ? *made : allocate_rows(spec, 1, kCpu);
  }
  const auto finisher = source.make_finisher(kCpu);
  if (finisher) finisher->finish(host, {.seed = seed}, fields);
  return fields;
}

}  // namespace dtn
