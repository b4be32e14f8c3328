#include "train/gradient_sum.h"

namespace dtn {
namespace {

// A block of ViT-S has 7 MB. Smaller buckets cost more messages, larger ones leave more for the
// end of the backward pass, where nothing hides it.
constexpr std::int64_t kBucketBytes = 4 << 20;

}  // namespace

GradientSum::GradientSum(ParameterStore& store, Communicator& ranks, DType wire)
    : store_(store), ranks_(ranks), wire_(wire), started_from_(store.decay_end()) {}

void GradientSum::whole_from(std::int64_t from) {
  const std::int64_t bytes =
      (started_from_ - from) * static_cast<std::int64_t>(size_of(store_.gradients().dtype()));
  if (bytes < kBucketBytes) return;
  start(from, started_from_);
  started_from_ = from;
}

void GradientSum::finish(Tensor loss) {
  start(0, started_from_);
  start(store_.decay_end(), store_.flat_size());
  ranks_.start_all_reduce(std::move(loss));
  ranks_.finish();
  started_from_ = store_.decay_end();
}

void GradientSum::start(std::int64_t begin, std::int64_t end) {
  if (begin < end) ranks_.start_all_reduce(store_.gradients().slice(begin, end), wire_);
}

}  // namespace dtn
