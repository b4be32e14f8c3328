// A bias of attention's scores that is -infinity if the key is the query itself, else 0. At most
// two keys of a query may be the query itself. The terms are windows on a line of zeros with one
// -infinity in it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/attention_shape.h"

namespace dtn::DTN_ISA {

template <class A>
struct ThreeTerms {
  const A *padding, *first, *second;
  Vec<A> at(std::int64_t key) const {
    return load(padding + key) + (load(first + key) + load(second + key));
  }
};

template <class A>
class SelfMask {
 public:
  static constexpr std::int64_t kNowhere = -1;

  // For blocks of at most `queries` queries and `keys` keys. Masks nothing unless `active`.
  SelfMask(Scratch::Scope& scratch, bool active, std::int64_t queries, std::int64_t keys)
      : active_(active),
        center_(scratch.take<A>(2 * (keys + kSlack)) + keys),
        padding_(scratch.take<A>(kMaxKeys + kSlack)),
        first_(scratch.take<std::int64_t>(queries + kRowSlack)),
        second_(scratch.take<std::int64_t>(queries + kRowSlack)) {
    std::fill(center_ - keys, center_ + keys + 2 * kSlack, A{0});
    center_[0] = -static_cast<A>(__builtin_inf());
  }
  explicit operator bool() const { return active_; }

  // Sets the keys of the block that are its i-th query itself, or kNowhere.
  void set(std::int64_t i, std::int64_t first, std::int64_t second) {
    first_[i] = first, second_[i] = second;
  }
  // Must be called after the last query of a block.
  void end_queries(std::int64_t count) {
    std::fill_n(first_ + count, kRowSlack, kNowhere);
    std::fill_n(second_ + count, kRowSlack, kNowhere);
  }

  void begin_chunk(std::int64_t first_key, std::int64_t count) {
    first_key_ = first_key;
    std::fill_n(padding_, count, A{0});
    std::fill_n(padding_ + count, kSlack, -static_cast<A>(__builtin_inf()));
  }
  ThreeTerms<A> terms(std::int64_t query, std::int64_t column) const {
    const A* at = center_ + first_key_ + column;
    return {padding_ + column, at - first_[query], at - second_[query]};
  }
  template <int R, int V>
  void take(const Vec<A> (&)[R][V], std::int64_t, std::int64_t) const {}
  void end_chunk() const {}

 private:
  static constexpr std::int64_t kSlack = std::int64_t{kMaxTileWidth} * kLanes<float>;

  bool active_;
  A* center_;   // at the -infinity of the line
  A* padding_;  // 0 for the keys of a chunk, -infinity after them
  std::int64_t *first_, *second_;
  std::int64_t first_key_ = 0;
};

}  // namespace dtn::DTN_ISA
