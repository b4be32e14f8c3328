#include "warpgroup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "device_model.h"
#include "dtn/core/check.h"
#include "emulator.h"

namespace emu {
namespace {

constexpr int kDepth = 16, kRows = 16;  // depth of a product; its rows per warp
// A device reserves the beginning of shared memory.
constexpr unsigned kFirstAddress = 1024;

float to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// An operand in shared memory, as its descriptor defines it: core matrices of 8 x 8 values, 16
// bytes per row, no swizzle.
class Described {
 public:
  Described(std::uint64_t bits, bool along_rows)
      : first_(static_cast<const std::byte*>(shared_memory()) + (field(bits, 0) - kFirstAddress)),
        depth_step_(field(bits, 16)),
        other_step_(field(bits, 32)),
        along_rows_(along_rows) {
    if (bits >> 62 != 0 || (bits >> 49 & 7) != 0) {
      throw dtn::Error("the emulator knows matrices without swizzle only");
    }
  }

  float at(int other, int depth) const {
    const int row = along_rows_ ? depth : other, column = along_rows_ ? other : depth;
    const std::ptrdiff_t core = depth / 8 * depth_step_ + other / 8 * other_step_;
    std::uint16_t bits;
    std::memcpy(&bits, first_ + (core + row % 8 * 16 + column % 8 * 2), sizeof bits);
    return to_float(bits);
  }

 private:
  static std::ptrdiff_t field(std::uint64_t bits, int from) {
    return static_cast<std::ptrdiff_t>(bits >> from & 0x3fff) << 4;
  }

  const std::byte* first_;
  std::ptrdiff_t depth_step_, other_step_;
  bool along_rows_;
};

// Returns d plus the sum of a b over the depth, added as the device does.
float add_products(float d, const float* a, const float* b) {
  const int at_once = device_model().products_at_once;
  if (at_once > 0) {
    for (int k = 0; k < kDepth; k += at_once) d = add_truncating(d, a + k, b + k, at_once);
    return d;
  }
  float sum = 0;
  for (int k = 0; k < kDepth; ++k) sum += a[k] * b[k];
  return d + sum;
}

}  // namespace

unsigned shared_address(const void* p) {
  return kFirstAddress + static_cast<unsigned>(static_cast<const std::byte*>(p) -
                                               static_cast<const std::byte*>(shared_memory()));
}

PendingProducts::Awaited& PendingProducts::awaited(const float* place) {
  return *std::find_if(awaited_.begin(), awaited_.end(),
                       [&](const Awaited& a) { return a.place == place; });
}

void PendingProducts::multiply(const Result& d, const Operand& a, const Operand& b) {
  meet_warp("wgmma");
  if (!begun_) throw dtn::Error("wgmma without wgmma.fence since the last wait");
  const auto count = static_cast<std::ptrdiff_t>(d.columns / 2);
  if (std::none_of(awaited_.begin(), awaited_.end(),
                   [&](const Awaited& w) { return w.place == d.values; })) {
    awaited_.push_back({d.values, std::vector<float>(d.values, d.values + count), 0});
    std::fill_n(d.values, count, NAN);
  }
  ++awaited(d.values).products;
  products_.push_back({d, a, b, group_});
}

// Computes product `index` of a warp.
void PendingProducts::compute(int index, PendingProducts* const (&lanes)[32]) {
  const auto of = [&](int lane) -> const Product& {
    return lanes[lane]->products_[static_cast<std::size_t>(index)];
  };
  const Product& first = of(0);
  const int warp_row = static_cast<int>(thread_index().x) / 32 % 4 * kRows;
  float a[kRows][kDepth];
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kDepth; ++k) {
      if (first.a.registers) {
        const unsigned pair = of(row % 8 * 4 + k % 8 / 2).a.registers[row / 8 + k / 8 * 2];
        a[row][k] = to_float(static_cast<std::uint16_t>(pair >> k % 2 * 16));
      } else {
        a[row][k] = Described(first.a.descriptor, first.a.along_rows).at(warp_row + row, k);
      }
    }
  }
  float* results[32];
  for (int i = 0; i < 32; ++i) results[i] = lanes[i]->awaited(of(i).d.values).values.data();
  const Described matrix(first.b.descriptor, first.b.along_rows);
  for (int n = 0; n < first.d.columns; ++n) {
    float b[kDepth];
    for (int k = 0; k < kDepth; ++k) b[k] = matrix.at(n, k);
    for (int row = 0; row < kRows; ++row) {
      float& value = results[row % 8 * 4 + n % 8 / 2][n / 8 * 4 + row / 8 * 2 + n % 2];
      value = add_products(first.d.adds ? value : 0.0f, a[row], b);
    }
  }
}

void PendingProducts::wait(int groups) {
  begun_ = false;
  WarpShare<PendingProducts> warp("wgmma.wait_group", *this);
  const auto is_due = [&](const Product& p) { return p.group + groups < group_; };
  if (lane() == 0) {
    PendingProducts* lanes[32];
    for (int i = 0; i < 32; ++i) lanes[i] = &warp.lane(i);
    for (std::size_t i = 0; i < products_.size() && is_due(products_[i]); ++i) {
      compute(static_cast<int>(i), lanes);
    }
  }
  warp.meet();
  for (const Product& p : products_) {
    if (is_due(p)) --awaited(p.d.values).products;
  }
  std::erase_if(products_, is_due);
  for (const Awaited& a : awaited_) {
    if (a.products == 0) std::copy(a.values.begin(), a.values.end(), a.place);
  }
  std::erase_if(awaited_, [](const Awaited& a) { return a.products == 0; });
}

}  // namespace emu
