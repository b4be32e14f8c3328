#include "train/gradient_sum.h"

#include <algorithm>

namespace dtn {
namespace {

// A block of ViT-S has 7 MB. Smaller buckets need more messages. Larger buckets leave more data for
// the end of the backward pass, where no computation hides the communication.
constexpr std::int64_t kBucketBytes = 4 << 20;

}  // namespace

GradientSum::GradientSum(ParameterStore& store, Communicator& ranks, DType wire)
    : store_(store),
      ranks_(ranks),
      wire_(wire),
      live_(store.live_ranges()),
      started_from_(store.decay_end()) {
  for (Parameter& p : store.parameters()) {
    if (p.decay == Decay::kYes && !p.frozen) places_.push_back({p.offset, &p});
  }
  std::ranges::sort(places_, {}, &Place::begin);
  whole_from_ = places_.size();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i].parameter->variable.sink()->on_grad_ready([this, i] { on_grad_ready(i); });
  }
}

GradientSum::~GradientSum() {
  for (const Place& place : places_) place.parameter->variable.sink()->on_grad_ready({});
}

void GradientSum::begin() {
  begun_ = true;
  whole_from_ = places_.size();
  for (Place& place : places_) place.whole = place.parameter->variable.sink()->uses() == 0;
}

void GradientSum::on_grad_ready(std::size_t place) {
  if (!begun_) return;  // more micro-batches will add to the gradient
  places_[place].whole = true;
  while (whole_from_ > 0 && places_[whole_from_ - 1].whole) --whole_from_;
  start_bucket();
}

void GradientSum::start_bucket() {
  if (whole_from_ == places_.size()) return;
  const std::int64_t from = places_[whole_from_].begin;
  const std::int64_t bytes =
      (started_from_ - from) * static_cast<std::int64_t>(size_of(store_.gradients().dtype()));
  if (bytes < kBucketBytes) return;
  start(from, started_from_);
  started_from_ = from;
}

void GradientSum::finish(Tensor sums) {
  start(0, started_from_);
  start(store_.decay_end(), store_.flat_size());
  ranks_.start_all_reduce(std::move(sums));
  ranks_.finish();
  started_from_ = store_.decay_end();
  begun_ = false;
}

void GradientSum::start(std::int64_t begin, std::int64_t end) {
  for (const FlatRange& live : live_) {
    const std::int64_t first = std::max(begin, live.begin), last = std::min(end, live.end);
    if (first < last) ranks_.start_all_reduce(store_.gradients().slice(first, last), wire_);
  }
}

}  // namespace dtn
