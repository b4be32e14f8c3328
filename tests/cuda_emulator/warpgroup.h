// The products of a warpgroup (wgmma) on the emulator, as PTX describes them: of each thread a list
// of what it has asked for. A product is computed when its group is waited for, no earlier, from what
// registers and shared memory then hold; until then its result is NaN. So whoever reads too early,
// or overwrites an operand too early, sees it. Each warp computes its own 16 rows: nothing else
// makes the four warps of a group wait for each other.
#pragma once

#include <cstdint>
#include <vector>

namespace emu {

// The address of p in the shared memory of the block that runs.
unsigned shared_address(const void* p);

class PendingProducts {
 public:
  struct Result {
    float* values;  // of this thread, in fragments of eight columns, 4 values each
    int columns;
    bool adds;
  };
  struct Operand {
    const unsigned* registers;  // of this thread, 4; null: in shared memory
    std::uint64_t descriptor;
    bool along_rows;  // the product sums over the rows of the matrix in shared memory
  };

  void begin() { begun_ = true; }
  void multiply(const Result& d, const Operand& a, const Operand& b);
  void commit() { ++group_; }
  void wait(int groups);

 private:
  struct Product {
    Result d;
    Operand a, b;
    int group;
  };
  // What a result will be, while its place holds NaN.
  struct Awaited {
    float* place;
    std::vector<float> values;
    int products;
  };

  Awaited& awaited(const float* place);
  static void compute(int index, PendingProducts* const (&lanes)[32]);

  std::vector<Product> products_;
  std::vector<Awaited> awaited_;
  int group_ = 0;
  bool begun_ = false;
};

}  // namespace emu
