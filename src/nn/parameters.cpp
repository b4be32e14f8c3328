#include "dtn/nn/parameters.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "dtn/core/parallel.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

// Elements: 256 bytes of bfloat16. A matrix library considers alignment up to this size. Equal
// layers then have equal alignment and share the library's preparation.
constexpr std::int64_t kAlignment = 128;

std::int64_t aligned(std::int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

// Box-Muller transform of two random words, which belong to this element alone.
double normal_at(const PhiloxKey& key, std::uint64_t element) {
  Philox4 r = philox_group(key, element);
  double u = (static_cast<double>(r.v[0]) + 1.0) / 4294967296.0;  // (0, 1]
  double v = static_cast<double>(r.v[1]) / 4294967296.0;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

// Sets element i of `value` to element(i), which depends on i alone, for all i.
template <class F>
void fill_each(Tensor& value, const F& element) {
  constexpr std::int64_t kGrain = 4096;
  const auto fill = [&](auto* to) {
    parallel_ranges(value.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        to[i] = static_cast<std::remove_pointer_t<decltype(to)>>(
            element(static_cast<std::uint64_t>(i)));
      }
    });
  };
  value.dtype() == DType::kFloat64 ? fill(value.data<double>()) : fill(value.data<float>());
}

}  // namespace

std::uint32_t stream_of(std::string_view name) {
  std::uint32_t hash = 2166136261u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

void fill_normal(Tensor& value, double std, std::uint64_t seed, std::string_view name) {
  const PhiloxKey key{seed, stream_of(name)};
  fill_each(value, [&](std::uint64_t i) { return std * normal_at(key, i); });
}

void fill_truncated_normal(Tensor& value, double std, std::uint64_t seed, std::string_view name,
                           double cut) {
  const std::uint32_t stream = stream_of(name);
  fill_each(value, [&](std::uint64_t i) {
    double x = 0;
    // Rejection sampling. The attempt is the step counter of the key, so each attempt draws another
    // number. With std 0.02 the first attempt always passes.
    for (std::uint32_t attempt = 0; attempt < 64; ++attempt) {
      x = std * normal_at({seed, stream, attempt}, i);
      if (std::abs(x) <= cut) break;
    }
    return x;
  });
}

void fill_uniform(Tensor& value, double low, double high, std::uint64_t seed,
                  std::string_view name) {
  const PhiloxKey key{seed, stream_of(name)};
  fill_each(value, [&](std::uint64_t i) {
    return low + (high - low) * (static_cast<double>(philox_u32(key, i)) / 4294967296.0);
  });
}

void Initializer::fill(Tensor& value, std::uint64_t seed, const std::string& name) const {
  switch (kind) {
    case InitKind::kZeros: value.zero(); break;
    case InitKind::kOnes: value.copy_from(Tensor::full(value.shape(), value.dtype(), 1.0)); break;
    case InitKind::kTruncatedNormal: fill_truncated_normal(value, 0.02, seed, name); break;
    case InitKind::kCustom: custom(value, seed, name); break;
  }
}

Parameter* ParameterStore::add(std::string name, const Shape& shape, Initializer init,
                               Decay decay) {
  DTN_CHECK(!values_.defined(), "parameter ", name, " added after allocation");
  DTN_CHECK(!has(name), "parameter ", name, " added twice");
  DTN_CHECK(init.kind != InitKind::kCustom || init.custom, "parameter ", name,
            " has an empty function of initial values");
  Parameter& p = parameters_.emplace_back();
  p.name = std::move(name);
  p.shape = shape;
  p.init = std::move(init);
  p.decay = decay;
  return &p;
}

Buffer* ParameterStore::add_buffer(std::string name, const Shape& shape, Initializer init) {
  DTN_CHECK(!values_.defined(), "buffer ", name, " added after allocation");
  DTN_CHECK(!has(name), "buffer ", name, " added twice");
  DTN_CHECK(init.kind != InitKind::kTruncatedNormal, "buffer ", name,
            " must start at zeros or ones");
  DTN_CHECK(init.kind != InitKind::kCustom || init.custom, "buffer ", name,
            " has an empty function of initial values");
  Buffer& b = buffers_.emplace_back();
  b.name = std::move(name);
  b.shape = shape;
  b.init = std::move(init);
  return &b;
}

void ParameterStore::allocate(DType dtype, Device device, bool trained) {
  std::int64_t offset = 0;
  for (Decay decay : {Decay::kYes, Decay::kNo}) {
    for (Parameter& p : parameters_) {
      if (p.decay != decay) continue;
      p.offset = offset;
      offset += aligned(p.shape.numel());
    }
    if (decay == Decay::kYes) decay_end_ = offset;
  }
  flat_size_ = offset;
  for (Buffer& b : buffers_) {
    b.offset = offset;
    offset += aligned(b.shape.numel());
  }
  values_ = Tensor::zeros({offset}, dtype, device);
  if (trained) gradients_ = Tensor::zeros({flat_size_}, dtype, device);
  for (Parameter& p : parameters_) {
    const bool learns = trained && !p.frozen;
    p.variable = Variable(view(values_, p), learns);
    if (learns) p.variable.sink()->bind(view(gradients_, p));
  }
  if (buffers_.empty()) return;
  next_ = buffer_values().clone();
  for (Buffer& b : buffers_) {
    b.value = view(values_, b);
    std::int64_t begin = b.offset - flat_size_;
    b.next = next_.slice(begin, begin + b.shape.numel()).reshape(b.shape);
  }
}

void ParameterStore::initialize(std::uint64_t seed) {
  if (device() == kMeta) return;  // the meta device holds no values
  Tensor host = device() == kCpu ? values_ : Tensor::zeros(values_.shape(), values_.dtype());
  const auto fill = [&](const auto& part) {
    Tensor value = view(host, part);
    part.init.fill(value, seed, part.name);
  };
  std::ranges::for_each(parameters_, fill);
  std::ranges::for_each(buffers_, fill);
  if (device() != kCpu) values_.copy_from(host);
  restart_buffers();
  refresh_bfloat16();
}

void ParameterStore::initialize_some(std::uint64_t seed,
                                     const std::function<bool(const Parameter&)>& which) {
  if (device() == kMeta) return;
  Tensor host = device() == kCpu ? values_ : values_.to(kCpu);
  for (const Parameter& p : parameters_) {
    if (!which(p)) continue;
    Tensor value = view(host, p);
    p.init.fill(value, seed, p.name);
  }
  if (device() != kCpu) values_.copy_from(host);
  refresh_bfloat16();
}

void ParameterStore::freeze(const std::function<bool(const Parameter&)>& which, bool buffers) {
  for (Parameter& p : parameters_) {
    if (!which(p)) continue;
    p.frozen = true;
    p.variable = Variable(view(values_, p));
    if (has_bfloat16()) p.variable.set_low_precision_copy(view(low_, p));
  }
  buffers_frozen_ = buffers;
}

std::vector<FlatRange> ParameterStore::live_ranges() const {
  std::vector<FlatRange> ranges;
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end});
    }
  };
  for (Decay decay : {Decay::kYes, Decay::kNo}) {  // the order of flat memory
    for (const Parameter& p : parameters_) {
      if (p.decay == decay && !p.frozen) add(p.offset, p.offset + aligned(p.shape.numel()));
    }
  }
  if (!buffers_frozen_) add(flat_size_, values_.numel());
  return ranges;
}

void ParameterStore::enable_bfloat16() {
  if (has_bfloat16()) return;
  low_ = Tensor::zeros({flat_size_}, DType::kBFloat16, device());
  for (Parameter& p : parameters_) p.variable.set_low_precision_copy(view(low_, p));
  refresh_bfloat16();
}

void ParameterStore::refresh_bfloat16() {
  if (!has_bfloat16()) return;
  run_on(device(), Cast{values_.dtype(), DType::kBFloat16, flat_size_, values_.raw(), low_.raw()});
}

void ParameterStore::commit_buffers(const UpdateState* state) {
  if (buffers_.empty()) return;
  run_on(device(),
         CommitBuffers{values_.dtype(), next_.numel(), buffer_values().raw(), next_.raw(), state});
}

void ParameterStore::restart_buffers() {
  if (!buffers_.empty()) next_.copy_from(buffer_values());
}

Parameter* ParameterStore::find(std::string_view name) {
  for (Parameter& p : parameters_) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

bool ParameterStore::has(std::string_view name) const {
  auto named = [&](const auto& x) { return x.name == name; };
  return std::ranges::any_of(parameters_, named) || std::ranges::any_of(buffers_, named);
}

std::int64_t ParameterStore::count() const {
  std::int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.shape.numel();
  return n;
}

void ParameterStore::zero_gradients() { gradients_.zero(); }

}  // namespace dtn
