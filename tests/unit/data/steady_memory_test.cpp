// After some images, preparing more images allocates nothing, and the process does not grow.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>

#include "data/sample/transforms.h"
#include "golden/data/fixtures.h"
#include "transform_runs.h"

namespace {
std::atomic<std::int64_t> allocations = 0;
}

// Counts the calls of operator new. (libjpeg and libpng call malloc, and free everything after each
// image.) Not inline, because GCC would warn about malloc with delete. std::stable_sort calls the
// form that returns null; AddressSanitizer's own would not match this file's delete.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size > 0 ? size : 1);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* p = operator new(size, std::nothrow)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace dtn {
namespace {

std::int64_t resident_bytes() {
  std::int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

struct File {
  std::string name;
  std::vector<std::byte> bytes;
};

TEST(SteadyMemory, PreparingImagesAllocatesNothingAfterWarmup) {
  std::vector<File> files;
  for (const char* name :
       {"420.jpg", "444.jpg", "gray.jpg", "progressive.jpg", "cmyk.jpg", "restart.jpg", "rgb8.png",
        "rgba16.png", "gray16.png", "palette8.png", "palette4.png", "24bit.bmp"})
    files.push_back({name, golden::image_bytes(name)});
  AugmentConfig light;
  light.preset = AugmentPreset::kLight;
  for (int size : {9, 40}) {
    const Transform training({}, light, size, 3, true), evaluation({}, {}, size, 3, false);
    TransformWorkspace workspace;
    std::vector<float> out(static_cast<std::size_t>(training.output_size()));
    const auto epoch = [&](std::uint32_t number) {
      for (std::size_t i = 0; i < files.size(); ++i) {
        const File& f = files[i];
        test::decode_and_apply(training, f.bytes, f.name, {1, number, i}, workspace, out.data());
        test::decode_and_apply(evaluation, f.bytes, f.name, {}, workspace, out.data());
      }
    };
    // Repeats the same ten epochs until each of the workspace's sixteen sets of weights has held
    // the largest.
    for (std::uint32_t e = 0; e < 200; ++e) epoch(e % 10);
    const std::int64_t resident = resident_bytes(), before = allocations;
    for (std::uint32_t e = 0; e < 200; ++e) epoch(e % 10);
    EXPECT_EQ(allocations, before);
#if !defined(DTN_SANITIZED)  // sanitizers keep freed memory
    EXPECT_LT(resident_bytes() - resident, 1 << 20);
#else
    EXPECT_GT(resident, 0);
#endif
  }
}

}  // namespace
}  // namespace dtn
