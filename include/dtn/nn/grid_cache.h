// Constants that a layer computes once for each grid of tokens.
#pragma once

#include <functional>
#include <list>

#include "dtn/nn/tokens.h"

namespace dtn {

// Values of type T for the grids that a layer has seen, each for one type and device. No value is
// dropped: a captured step on a CUDA device reads it at its address.
template <class T>
class GridCache {
 public:
  // Returns the value for this grid, type and device. `make` computes it at the first request.
  const T& at(const TokenGrid& grid, DType dtype, Device device, const std::function<T()>& make) {
    for (const Entry& e : entries_) {
      if (e.grid == grid && e.dtype == dtype && e.device == device) return e.value;
    }
    const TokenGrid key{grid.height, grid.width, grid.prefix};
    return entries_.emplace_back(Entry{key, dtype, device, make()}).value;
  }

 private:
  struct Entry {
    TokenGrid grid;
    DType dtype;
    Device device;
    T value;
  };
  std::list<Entry> entries_;  // a list, so that references stay valid
};

}  // namespace dtn
