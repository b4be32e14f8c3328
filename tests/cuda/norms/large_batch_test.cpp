// Checks that an image has the same bits in a large batch as in a small one, forward and backward.
// The test needs no oracle, so a GPU can use the batch sizes of real training. The emulator uses a
// few images.
#include <cstring>
#include <functional>
#include <set>

#include "cuda/twin.h"
#include "dtn/ops/attention.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/primitive.h"
#include "norm_cases.h"

namespace dtn::test {
namespace {

#ifdef DTN_CUDA_EMULATED
constexpr std::int64_t kFew = 3;
const NormShape kShape{24, 3, 1e-5, {4, 3}};

std::vector<std::int64_t> batches() { return {7}; }
#else
constexpr std::int64_t kFew = 37;
const NormShape kShape{432, 9, 1e-5, {14, 14}};  // shape of ViT-S*

// 1024 images take up to 24 GB, and other tests may run at the same time.
std::vector<std::int64_t> batches() {
  if (cuda::device_info().total_bytes < std::size_t{40} << 30) return {256};
  return {256, 1024};
}
#endif
constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

using Op = std::function<Variable(Context&, const Variable&)>;

// Returns n images on the device. Image i is image i modulo few.dim(0) of `few`.
Tensor repeated(const Tensor& few, std::int64_t n) {
  std::vector<std::int64_t> extents = {n};
  for (int d = 1; d < few.rank(); ++d) extents.push_back(few.dim(d));
  Tensor many = Tensor::empty(Shape(std::span<const std::int64_t>(extents)), few.dtype(), kCuda);
  for (std::int64_t i = 0; i < n; ++i) {
    many.slice(i, i + 1).copy_from(few.slice(i % few.dim(0), i % few.dim(0) + 1));
  }
  return many;
}

// Returns the output and the gradient of x for n images, on the host.
std::vector<Tensor> run(const Op& op, const Tensor& few, std::int64_t n) {
  const Variable x(repeated(few, n), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable y = op(ctx, x);
  std::vector<std::int64_t> extents = {few.dim(0)};
  for (int d = 1; d < y.value().rank(); ++d) extents.push_back(y.dim(d));
  const Tensor dy =
      as(random_tensor(Shape(std::span<const std::int64_t>(extents)), 5), y.dtype()).to(kCuda);
  std::vector<Tensor> results = {y.value().to(kCpu)};
  tape.backward(y, repeated(dy, n));
  results.push_back(x.grad().to(kCpu));
  return results;
}

// Number of images, and of gradients of images, whose bits differ between a batch of n and a batch
// of kFew.
std::int64_t different_images(const Op& op, std::int64_t channels, DType dtype, std::int64_t n) {
  const Tensor few = as(random_tensor({kFew, kShape.grid.tokens(), channels}, 4), dtype).to(kCuda);
  const std::vector<Tensor> small = run(op, few, kFew), large = run(op, few, n);
  std::int64_t different = 0;
  for (std::size_t k = 0; k < large.size(); ++k) {
    const std::size_t bytes = small[k].nbytes() / kFew;
    const auto image = [&](const Tensor& t, std::int64_t i) {
      return static_cast<const std::byte*>(t.raw()) + static_cast<std::size_t>(i) * bytes;
    };
    for (std::int64_t i = 0; i < n; ++i) {
      different += std::memcmp(image(large[k], i), image(small[k], i % kFew), bytes) != 0;
    }
  }
  return different;
}

void expect_equal_images(const std::string& what, const Op& op, std::int64_t channels) {
  for (DType dtype : kTypes) {
    for (std::int64_t n : batches()) {
      EXPECT_EQ(different_images(op, channels, dtype, n), 0)
          << what << " in " << name_of(dtype) << ", of " << n << " images";
    }
  }
}

TEST(CudaLargeBatch, Norms) {
  DTN_SKIP_WITHOUT_DEVICE();
  std::set<std::string> seen;
  for (const NormCase& c : norm_cases()) {
    if (c.training || !fits(c, kShape) || !seen.insert(c.config.type).second) continue;
    BuiltNorm built;
    built.norm = make_normalizer(c.config, kShape, {built.store, "norm"});
    built.store.allocate(DType::kFloat32, kCuda);
    built.store.values().copy_from(build_norm(c.config, kShape, DType::kFloat32)->store.values());
    built.store.restart_buffers();
    expect_equal_images(
        c.name,
        [&](Context& ctx, const Variable& x) { return built.norm->forward(ctx, x, kShape.grid); },
        kShape.channels);
  }
  EXPECT_GE(seen.size(), 8u);
}

TEST(CudaLargeBatch, Attention) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t heads = kShape.heads;
  expect_equal_images(
      "attention",
      [=](Context& ctx, const Variable& qkv) { return ops::attention(ctx, qkv, heads); },
      3 * kShape.channels);
  const Variable positions(as(random_tensor({heads, 3}, 8, 0.1), DType::kFloat32).to(kCuda));
  expect_equal_images(
      "attention on a grid",
      [&](Context& ctx, const Variable& qkv) {
        return ops::attention_on_grid(ctx, qkv, heads, positions, kShape.grid.height,
                                      kShape.grid.width);
      },
      3 * kShape.channels);
}

TEST(CudaLargeBatch, Gelu) {
  DTN_SKIP_WITHOUT_DEVICE();
  expect_equal_images(
      "gelu", [](Context& ctx, const Variable& x) { return ops::gelu(ctx, x); },
      4 * kShape.channels);
}

// The test must detect an operation over the whole batch.
TEST(CudaLargeBatch, DetectsOperationAcrossImages) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Op centred = [](Context& ctx, const Variable& x) {
    return primitive::sub(ctx, x, primitive::mean(ctx, x, 0));
  };
  EXPECT_GT(different_images(centred, 8, DType::kFloat32, batches().front()), 0);
}

}  // namespace
}  // namespace dtn::test
