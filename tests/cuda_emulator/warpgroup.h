// Warpgroup products (wgmma) on the emulator, as PTX describes them: a list of requests per thread.
// A product is computed only when its group is waited for, from the registers and shared memory at
// that time. Until then its result is NaN. This reveals code that reads a result too early or
// overwrites an operand too early. Each warp computes its 16 rows separately, because nothing else
// makes the four warps of a group wait for each other.
#pragma once

#include <cstdint>
#include <vector>

namespace emu {

// Returns the address of p in the shared memory of the running block.
unsigned shared_address(const void* p);

class PendingProducts {
 public:
  struct Result {
    float* values;  // of this thread: fragments of eight columns, 4 values each
    int columns;
    bool adds;
  };
  struct Operand {
    const unsigned* registers;  // of this thread, 4; null: operand in shared memory
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
  // The future value of a result, while its place holds NaN.
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
