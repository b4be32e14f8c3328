// Constants that a layer computes once for each grid of tokens.
#pragma once

#include <functional>
#include <iterator>
#include <list>

#include "dtn/nn/tokens.h"

namespace dtn {

// Values of type T for the grids that a layer has seen, each for one type and device, the last used
// first. On the CPU only the last kMaxGrids are kept, for images of many sizes. On a CUDA device no
// value is dropped: a captured step reads it at its address.
template <class T>
class GridCache {
 public:
  // Returns the value for this grid, type and device. `make` computes it at the first request. The
  // reference is valid until the next call.
  const T& at(const TokenGrid& grid, DType dtype, Device device, const std::function<T()>& make) {
    for (auto e = entries_.begin(); e != entries_.end(); ++e) {
      if (e->grid != grid || e->dtype != dtype || e->device != device) continue;
      entries_.splice(entries_.begin(), entries_, e);
      return e->value;
    }
    const TokenGrid key{grid.height, grid.width, grid.prefix};
    entries_.push_front(Entry{key, dtype, device, make()});
    if (device.type == DeviceType::kCpu && std::ssize(entries_) > kMaxGrids) entries_.pop_back();
    return entries_.front().value;
  }

 private:
  struct Entry {
    TokenGrid grid;
    DType dtype;
    Device device;
    T value;
  };
  static constexpr std::ptrdiff_t kMaxGrids = 32;
  std::list<Entry> entries_;
};

}  // namespace dtn
