#include "dtn/nn/parameters.h"

#include <algorithm>
#include <cmath>

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

void set_element(Tensor& value, std::int64_t i, double x) {
  if (value.dtype() == DType::kFloat64) {
    value.data<double>()[i] = x;
  } else {
    value.data<float>()[i] = static_cast<float>(x);
  }
}

}  // namespace

std::uint32_t stream_of(std::string_view name) {
  std::uint32_t hash = 2166136261u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

void fill_normal(Tensor& value, double std, std::uint64_t seed, std::string_view name) {
  const PhiloxKey key{seed, stream_of(name)};
  for (std::int64_t i = 0; i < value.numel(); ++i) {
    set_element(value, i, std * normal_at(key, static_cast<std::uint64_t>(i)));
  }
}

void fill_truncated_normal(Tensor& value, double std, std::uint64_t seed, std::string_view name,
                           double cut) {
  for (std::int64_t i = 0; i < value.numel(); ++i) {
    double x = 0;
    // Rejection sampling. The attempt is the step counter of the key, so each attempt draws another
    // number. With std 0.02 the first attempt always passes.
    for (std::uint32_t attempt = 0; attempt < 64; ++attempt) {
      x = std * normal_at({seed, stream_of(name), attempt}, static_cast<std::uint64_t>(i));
      if (std::abs(x) <= cut) break;
    }
    set_element(value, i, x);
  }
}

void fill_uniform(Tensor& value, double low, double high, std::uint64_t seed,
                  std::string_view name) {
  const PhiloxKey key{seed, stream_of(name)};
  for (std::int64_t i = 0; i < value.numel(); ++i) {
    const std::uint32_t u = philox_u32(key, static_cast<std::uint64_t>(i));
    set_element(value, i, low + (high - low) * (static_cast<double>(u) / 4294967296.0));
  }
}

Parameter* ParameterStore::add(std::string name, const Shape& shape, InitKind init, Decay decay) {
  DTN_CHECK(!values_.defined(), "parameter ", name, " added after allocation");
  DTN_CHECK(!has(name), "parameter ", name, " added twice");
  Parameter& p = parameters_.emplace_back();
  p.name = std::move(name);
  p.shape = shape;
  p.init = init;
  p.decay = decay;
  return &p;
}

Parameter* ParameterStore::add_custom(std::string name, const Shape& shape, Decay decay,
                                      CustomInit init) {
  Parameter* p = add(std::move(name), shape, InitKind::kCustom, decay);
  p->custom_init = std::move(init);
  return p;
}

Buffer* ParameterStore::add_buffer(std::string name, const Shape& shape, InitKind init) {
  DTN_CHECK(!values_.defined(), "buffer ", name, " added after allocation");
  DTN_CHECK(!has(name), "buffer ", name, " added twice");
  DTN_CHECK(init != InitKind::kTruncatedNormal, "buffer ", name, " must start at zeros or ones");
  Buffer& b = buffers_.emplace_back();
  b.name = std::move(name);
  b.shape = shape;
  b.init = init;
  return &b;
}

Buffer* ParameterStore::add_custom_buffer(std::string name, const Shape& shape, CustomInit init) {
  Buffer* b = add_buffer(std::move(name), shape, InitKind::kCustom);
  b->custom_init = std::move(init);
  return b;
}

void ParameterStore::allocate(DType dtype, Device device) {
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
  gradients_ = Tensor::zeros({flat_size_}, dtype, device);
  for (Parameter& p : parameters_) {
    p.variable = Variable(view(values_, p), !p.frozen);
    if (!p.frozen) p.variable.sink()->bind(view(gradients_, p));
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
  for (const Parameter& p : parameters_) fill(host, p, seed);
  for (const Buffer& b : buffers_) {
    Tensor value = view(host, b);
    if (b.init == InitKind::kCustom) {
      b.custom_init(value, seed, b.name);
    } else {
      const double start = b.init == InitKind::kOnes ? 1.0 : 0.0;
      value.copy_from(Tensor::full(b.shape, host.dtype(), start));
    }
  }
  if (device() != kCpu) values_.copy_from(host);
  restart_buffers();
  refresh_bfloat16();
}

void ParameterStore::initialize_some(std::uint64_t seed,
                                     const std::function<bool(const Parameter&)>& which) {
  if (device() == kMeta) return;
  Tensor host = device() == kCpu ? values_ : values_.to(kCpu);
  for (const Parameter& p : parameters_) {
    if (which(p)) fill(host, p, seed);
  }
  if (device() != kCpu) values_.copy_from(host);
  refresh_bfloat16();
}

void ParameterStore::fill(Tensor& host, const Parameter& p, std::uint64_t seed) const {
  Tensor value = view(host, p);
  switch (p.init) {
    case InitKind::kZeros: value.zero(); break;
    case InitKind::kOnes: value.copy_from(Tensor::full(p.shape, value.dtype(), 1.0)); break;
    case InitKind::kTruncatedNormal: fill_truncated_normal(value, 0.02, seed, p.name); break;
    case InitKind::kCustom: p.custom_init(value, seed, p.name); break;
  }
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

Tensor ParameterStore::view(const Tensor& flat, const Parameter& p) {
  return flat.slice(p.offset, p.offset + p.shape.numel()).reshape(p.shape);
}

Tensor ParameterStore::view(const Tensor& flat, const Buffer& b) {
  return flat.slice(b.offset, b.offset + b.shape.numel()).reshape(b.shape);
}

void ParameterStore::zero_gradients() { gradients_.zero(); }

}  // namespace dtn
