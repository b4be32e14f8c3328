#include "dist/operations.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

namespace dtn {
namespace {

constexpr std::size_t kSliceUnit = 16;          // elements, one cache line of float32
constexpr std::size_t kSmallestSum = 64 << 10;  // bytes; up to this size every rank sums everything

// Sums in an order that does not depend on the order of arrival:
// to[i] = sum_k addends[k][i], in the order of k, for `count` elements; `to` may be one of the
// addends. bfloat16 is added as float32 and rounded once.
template <class T>
void ordered_sum(const std::vector<const T*>& addends, T* to, std::size_t count) {
  using Sum = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;
  constexpr std::size_t kRun = 512;  // fits the L1 cache
  Sum sums[kRun];
  for (std::size_t begin = 0; begin < count; begin += kRun) {
    const std::size_t n = std::min(kRun, count - begin);
    for (std::size_t i = 0; i < n; ++i) sums[i] = static_cast<Sum>(addends[0][begin + i]);
    for (std::size_t k = 1; k < addends.size(); ++k) {
      const T* addend = addends[k] + begin;
      for (std::size_t i = 0; i < n; ++i) sums[i] += static_cast<Sum>(addend[i]);
    }
    for (std::size_t i = 0; i < n; ++i) to[begin + i] = static_cast<T>(sums[i]);
  }
}

std::byte* bytes_of(Tensor& x) { return static_cast<std::byte*>(x.raw()); }

// A single move of the kind gather.
class SingleMove : public Operation {
 public:
  using Start = std::function<std::unique_ptr<Transport::Move>(Transport&)>;
  explicit SingleMove(Start start) : start_(std::move(start)) {}

  void advance(Transport& transport, bool may_gather) override {
    if (!move_ && may_gather) move_ = start_(transport);
    gathering_ = move_ != nullptr;
    done_ = done_ || (move_ && move_->done());
  }

 private:
  Start start_;
  std::unique_ptr<Transport::Move> move_;
};

// For few bytes: sends everything to all ranks, and each rank adds all of it.
template <class T>
class SmallSum : public Operation {
 public:
  explicit SmallSum(Tensor x) : x_(std::move(x)) {}

  void advance(Transport& transport, bool may_gather) override {
    const auto ranks = static_cast<std::size_t>(transport.size());
    if (!gather_) {
      all_ = Tensor::empty({transport.size(), x_.numel()}, x_.dtype());
      gather_ = gather_operation(x_, all_);
    }
    gather_->advance(transport, may_gather);
    gathering_ = gather_->gathering();
    if (!gather_->done()) return;
    const auto count = static_cast<std::size_t>(x_.numel());
    std::vector<const T*> addends;
    for (std::size_t r = 0; r < ranks; ++r) addends.push_back(all_.data<T>() + r * count);
    ordered_sum(addends, x_.data<T>(), count);
    done_ = true;
  }

 private:
  Tensor x_, all_;
  std::unique_ptr<Operation> gather_;
};

// Rank k sums slice k of x: the slices are exchanged, added, and gathered again. Each rank sends
// and receives 2 (p - 1) / p of x, the minimum for an all-reduce over p ranks.
template <class T, class Wire>
class SlicedSum : public Operation {
 public:
  explicit SlicedSum(Tensor x) : x_(std::move(x)) {}

  void advance(Transport& transport, bool may_gather) override {
    if (!exchange_) start_exchange(transport);
    if (!summed_ && exchange_->done()) add_up(transport);
    if (summed_ && !gathering_ && may_gather) {
      gather_ = transport.gather(bytes_of(wire_), slices_);
      gathering_ = true;
    }
    if (gathering_ && !done_ && gather_->done()) finish();
  }

 private:
  static constexpr bool kConverts = !std::is_same_v<T, Wire>;

  void start_exchange(Transport& transport) {
    const auto ranks = static_cast<std::size_t>(transport.size());
    const auto mine = static_cast<std::size_t>(transport.rank());
    const auto count = static_cast<std::size_t>(x_.numel());
    const std::size_t slice = (count + ranks * kSliceUnit - 1) / (ranks * kSliceUnit) * kSliceUnit;
    for (std::size_t k = 0; k < ranks; ++k) {
      const std::size_t begin = std::min(count, k * slice), end = std::min(count, begin + slice);
      slices_.push_back({begin * sizeof(Wire), (end - begin) * sizeof(Wire)});
    }
    if constexpr (kConverts) {
      wire_ = Tensor::empty({x_.numel()}, DTypeOf<Wire>::value);
      std::transform(x_.data<T>(), x_.data<T>() + count, wire_.template data<Wire>(),
                     [](T value) { return Wire(value); });
    } else {
      wire_ = x_;
    }
    const std::size_t local = slices_[mine].bytes;
    others_ = Tensor::empty({static_cast<std::int64_t>(ranks * local / sizeof(Wire))},
                            DTypeOf<Wire>::value);
    std::vector<ByteBlock> from = slices_, to;
    for (std::size_t k = 0; k < ranks; ++k) to.push_back({k * local, k == mine ? 0 : local});
    from[mine].bytes = 0;
    exchange_ = transport.exchange(bytes_of(wire_), from, bytes_of(others_), to);
  }

  void add_up(Transport& transport) {
    const auto mine = static_cast<std::size_t>(transport.rank());
    const std::size_t count = slices_[mine].bytes / sizeof(Wire);
    Wire* local = wire_.template data<Wire>() + slices_[mine].begin / sizeof(Wire);
    std::vector<const Wire*> addends;
    for (std::size_t k = 0; k < slices_.size(); ++k) {
      addends.push_back(k == mine ? local : others_.template data<Wire>() + k * count);
    }
    ordered_sum(addends, local, count);
    others_ = Tensor();
    summed_ = true;
  }

  void finish() {
    if constexpr (kConverts) {
      const Wire* sums = wire_.template data<Wire>();
      std::transform(sums, sums + x_.numel(), x_.data<T>(),
                     [](Wire value) { return static_cast<T>(value); });
    }
    done_ = true;
  }

  Tensor x_, wire_, others_;
  std::vector<ByteBlock> slices_;  // in wire_
  std::unique_ptr<Transport::Move> exchange_, gather_;
  bool summed_ = false;
};

template <class T>
std::unique_ptr<Operation> sum_of(Tensor x) {
  if (x.nbytes() <= kSmallestSum) return std::make_unique<SmallSum<T>>(std::move(x));
  return std::make_unique<SlicedSum<T, T>>(std::move(x));
}

}  // namespace

std::unique_ptr<Operation> sum_operation(Tensor x, DType wire) {
  if (wire == DType::kBFloat16 && x.dtype() == DType::kFloat32) {
    return std::make_unique<SlicedSum<float, bfloat16>>(std::move(x));
  }
  switch (x.dtype()) {
    case DType::kFloat32: return sum_of<float>(std::move(x));
    case DType::kFloat64: return sum_of<double>(std::move(x));
    case DType::kInt64: return sum_of<std::int64_t>(std::move(x));
    default: throw Error(cat("cannot sum ", name_of(x.dtype()), " over ranks"));
  }
}

std::unique_ptr<Operation> broadcast_operation(Tensor x, int root) {
  return std::make_unique<SingleMove>([x, root](Transport& transport) mutable {
    return transport.broadcast(bytes_of(x), x.nbytes(), root);
  });
}

std::unique_ptr<Operation> gather_operation(const Tensor& x, Tensor all) {
  return std::make_unique<SingleMove>([x, all](Transport& transport) mutable {
    const std::size_t bytes = x.nbytes();
    std::vector<ByteBlock> blocks;
    for (int r = 0; r < transport.size(); ++r) {
      blocks.push_back({static_cast<std::size_t>(r) * bytes, bytes});
    }
    const ByteBlock& own = blocks[static_cast<std::size_t>(transport.rank())];
    std::memcpy(bytes_of(all) + own.begin, x.raw(), bytes);
    return transport.gather(bytes_of(all), blocks);
  });
}

}  // namespace dtn
